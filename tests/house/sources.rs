//! The files of the repository, for the rules that read them.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Folders and files that hold text of ours.
const ROOTS: [&str; 17] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "README.zh-CN.md",
    "SECURITY.md",
    "benches",
    "config",
    "crates",
    "deploy",
    "docs",
    "examples",
    "fuzz/fuzz_targets",
    "migrations",
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
        collect(&repository().join(root), &mut found);
    }
    found.sort();
    assert!(found.len() > 300, "only {} files were found", found.len());
    found
}

/// Every Rust file below a folder of the repository.
pub(crate) fn rust_files(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&repository().join(folder), &mut found);
    found.retain(|path| path.extension().is_some_and(|ending| ending == "rs"));
    found.sort();
    found
}

fn collect(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() != "target" {
                collect(&entry.path(), found);
            }
        }
    } else if path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known)) {
        found.push(path.strip_prefix(repository()).unwrap().to_owned());
    }
}
