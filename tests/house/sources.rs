//! The files of the repository, for the rules that read them.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Folders and files that hold text of ours.
const ROOTS: [&str; 22] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.toml",
    "README.md",
    "README.zh-CN.md",
    "SECURITY.md",
    "askama.toml",
    "benches",
    "clippy.toml",
    "config",
    "crates",
    "deny.toml",
    "deploy",
    "docs",
    "examples",
    "fuzz/fuzz_targets",
    "migrations",
    "rustfmt.toml",
    "src",
    "tests",
    "xtask",
];
const ENDINGS: [&str; 7] = ["html", "md", "py", "rs", "sql", "toml", "yml"];

/// The repository's folder.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository")
}

/// A text file by its path in the repository.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = repository().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every text file of ours, by its path in the repository.
pub(crate) fn texts() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for root in ROOTS {
        collect(&repository().join(root), &ENDINGS, &mut found);
    }
    found.sort();
    assert!(found.len() > 300, "only {} files were found", found.len());
    found
}

/// Every file in which something is declared, whatever its ending, by its path in the repository. Pages
/// declare nothing, nor do documents that are made of comments.
pub(crate) fn everything() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for root in ROOTS.iter().chain(&["Dockerfile", "scripts"]) {
        collect(&repository().join(root), &[], &mut found);
    }
    found.retain(|path| {
        path.extension().is_none_or(|ending| ending != "md")
            && !path.starts_with("docs")
            && path != Path::new("clippy.toml")
    });
    found
}

/// Every Rust file below a folder of the repository.
pub(crate) fn rust_files(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&repository().join(folder), &["rs"], &mut found);
    found.sort();
    found
}

/// Files with one of some endings; without any, all files.
fn collect(path: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() != "target" {
                collect(&entry.path(), endings, found);
            }
        }
    } else if endings.is_empty()
        || path.extension().is_some_and(|ending| endings.iter().any(|known| ending == *known))
    {
        found.push(path.strip_prefix(repository()).unwrap().to_owned());
    }
}

/// What begins a comment in a file; none in a page, and none in the reasons of `clippy.toml`.
pub(crate) fn comment_mark(path: &Path) -> Option<&'static str> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("md") => None,
        Some("rs" | "go" | "java" | "js" | "php") => Some("//"),
        Some("sql") => Some("--"),
        Some("html") => Some("{#"),
        _ if path == Path::new("clippy.toml") => None,
        _ => Some("#"),
    }
}

/// A line's code and its comment, without the marks.
pub(crate) fn prose_of<'a>(line: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    // A mark inside a word is none: `http://`, `{name}#heading`.
    let mut starts = line.match_indices(mark).map(|(at, _)| at);
    let at = starts.find(|at| *at == 0 || line[..*at].ends_with([' ', '\t']))?;
    let comment = line[at + mark.len()..].trim_start_matches(['/', '!']).trim_end_matches("#}");
    Some((&line[..at], comment))
}
