//! Names of code and paths of files, in pages and comments, lead to something that is there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex_lite::Regex;

use crate::declared::{Declared, package_of, pairs, words};
use crate::sources::{comment_mark, prose_of, read, repository, texts};

/// Pages and comments that may name what is gone.
const OF_THE_PAST: [(&str, &str); 2] =
    [("CHANGELOG.md", "it tells what was"), ("migrations", "a released file never changes")];

/// Beginnings of names that others define and that no code of ours says. A name of a Rust library is written
/// with its crate in place of an entry here: `png::StreamingDecoder`.
const OF_OTHERS: [(&str, &str); 15] = [
    ("ExportTraceServiceRequest", "message of OpenTelemetry"),
    ("LD_PRELOAD", "variable of the loader"),
    ("MINITILL_TEST_S3_ENDPOINT", "variable of the tests, made of a prefix and a name"),
    ("OTEL_EXPORTER_OTLP_", "variables of OpenTelemetry"),
    ("PR_SET_PDEATHSIG", "constant of Linux"),
    ("RENAME_EXCHANGE", "constant of Linux"),
    ("ReadyForQuery", "message of PostgreSQL"),
    ("SCHED_BATCH", "constant of Linux"),
    ("SSL_CERT_", "variables of OpenSSL"),
    ("SplitMix64", "algorithm"),
    ("TCP_NOTSENT_LOWAT", "constant of Linux"),
    ("WATCHDOG_PID", "variable of systemd"),
    ("autovacuum_freeze_max_age", "setting of PostgreSQL"),
    ("close_notify", "alert of TLS"),
    ("log_statement_stats", "setting of PostgreSQL"),
];

/// Files that are looked up where a text names them without their folder.
const ENDINGS: [&str; 9] = [".css", ".html", ".js", ".md", ".po", ".py", ".rs", ".sql", ".toml"];

/// A path that begins with a folder of the repository.
static ROOTED: LazyLock<Regex> = LazyLock::new(|| {
    let folders = "\\.ci|assets|benches|config|crates|deploy|docs|examples|fuzz|locales|migrations|scripts|src|tests|xtask";
    Regex::new(&format!(r"(?:^|[^\w/.~<>*{{}}-])((?:{folders})/[\w./*{{}}@-]*)")).unwrap()
});

static DECLARED: LazyLock<Declared> = LazyLock::new(Declared::of_the_repository);

/// A page, or the comments of a file.
struct Prose {
    /// What is said without a break: a paragraph, or a comment.
    blocks: Vec<String>,
    /// The examples of code between them.
    examples: String,
}

impl Prose {
    fn of(path: &Path) -> Self {
        let mark = comment_mark(path);
        let mut prose = Self { blocks: vec![String::new()], examples: String::new() };
        let mut is_example = false;
        for line in read(path).lines() {
            let said = mark.map_or(Some(line), |mark| prose_of(line, mark).map(|(_, comment)| comment));
            let said = said.map_or("", str::trim);
            let is_fence = said.starts_with("```");
            is_example ^= is_fence;
            if is_example {
                prose.examples.push_str(said);
                prose.examples.push('\n');
            }
            if said.is_empty() || is_fence || is_example {
                prose.blocks.push(String::new());
            } else {
                let block = prose.blocks.last_mut().unwrap();
                block.push_str(said);
                block.push(' ');
            }
        }
        prose.blocks.retain(|block| !block.is_empty());
        prose
    }

    /// Names in backticks that lead nowhere.
    fn lost_names<'a>(&'a self, path: &Path) -> impl Iterator<Item = &'a str> {
        let spans = self.blocks.iter().flat_map(|block| spans(block));
        let lost = spans.flat_map(|span| lost_names(path, span));
        // An example may make a name up, and the text around it tells of that.
        let examples: BTreeSet<&str> = words(&self.examples).collect();
        lost.filter(move |name| !examples.contains(name))
    }
}

/// What stands in backticks, but for the texts of links, whose targets another test looks up.
fn spans(block: &str) -> impl Iterator<Item = &str> {
    let parts: Vec<&str> = block.split('`').collect();
    let is_link = |at: usize| {
        parts[at - 1].ends_with('[') && parts.get(at + 1).is_some_and(|next| next.starts_with("]("))
    };
    let places: Vec<usize> = (1..parts.len()).step_by(2).filter(|at| !is_link(*at)).collect();
    places.into_iter().map(move |at| parts[at].trim()).filter(|span| !span.is_empty())
}

/// Names of a span of code that nothing declares.
fn lost_names<'a>(path: &Path, span: &'a str) -> Vec<&'a str> {
    let camel = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_uppercase()) && word.contains(|c: char| c.is_ascii_lowercase())
    };
    let bare = span.trim_start_matches(['&', '#']).trim_start_matches("impl ").trim_start_matches("dyn ");
    let is_bare = words(bare).next() == Some(bare);
    let has_parts = bare.trim_start_matches('_').contains('_');
    if span.contains("::") {
        let all = pairs(span);
        let external = all.first().is_some_and(|(first, _)| DECLARED.is_dependency(first));
        let is_lost = !external && all.iter().any(|(owner, name)| !DECLARED.leads(path, owner, name));
        return if is_lost { vec![span] } else { Vec::new() };
    }
    if let Some((name, _)) = bare.split_once('<')
        && bare.ends_with('>')
        && camel(name)
    {
        return if DECLARED.has_type(bare) { Vec::new() } else { vec![span] };
    }
    if is_bare && (camel(bare) || has_parts) {
        return if DECLARED.has_word(bare) { Vec::new() } else { vec![span] };
    }
    // Calls: `route.proven()`.
    let calls = span.match_indices("()").filter_map(|(at, _)| words(&span[..at]).last());
    calls.filter(|name| !DECLARED.has_word(name)).collect()
}

/// The paths of a text that begin in the repository's folder, or that name a file by its ending.
fn paths(text: &str) -> BTreeSet<String> {
    let rooted = ROOTED.captures_iter(text).map(|found| found[1].to_owned());
    let files = spans(text).filter_map(|span| {
        let word = span.split([' ', '#']).next().unwrap();
        let is_file = ENDINGS.iter().any(|ending| word.ends_with(ending) && word.len() > ending.len());
        let is_elsewhere =
            word.starts_with(['/', '~', '$', '-']) || word.contains("://") || word.starts_with("target/");
        (is_file && !is_elsewhere).then(|| word.to_owned())
    });
    rooted.map(|path| path.trim_end_matches(['.', '/', '-']).to_owned()).chain(files).collect()
}

/// Whether a path leads to a file or folder from one of some folders.
fn leads(path: &str, folders: &BTreeSet<PathBuf>) -> bool {
    folders.iter().any(|folder| matching(&repository().join(folder), path))
}

/// Whether a folder has a path, whose names may have a `*`, be a number's beginning, or stand for others.
fn matching(folder: &Path, path: &str) -> bool {
    let (name, rest) = path.split_once('/').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let next = folder.join(name);
    if matches!(name, "." | "..") || next.exists() {
        return rest.is_none_or(|rest| matching(&next, rest));
    }
    // `NNNN_name.sql`, `{imgId}`
    let stands_for_others = |word: &str| word.len() > 3 && word.chars().all(|c| c.is_ascii_uppercase());
    if name.contains('{') || name.split(['_', '-', '.']).any(stands_for_others) {
        return true;
    }
    let number = !name.is_empty() && name.chars().all(|character| character.is_ascii_digit());
    let (begins, ends) = match name.split_once('*') {
        Some(parts) => parts,
        None if number => (name, ""),
        None => return false,
    };
    let entries = folder.read_dir().into_iter().flatten().filter_map(Result::ok);
    entries.into_iter().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with(begins)
            && name.ends_with(ends)
            && rest.is_none_or(|rest| matching(&entry.path(), rest))
    })
}

/// Folders in which a text's paths are looked up.
fn folders_of(path: &Path, named: &BTreeSet<String>) -> BTreeSet<PathBuf> {
    let own = path.parent().unwrap().to_owned();
    let package = package_of(path);
    let mut folders: BTreeSet<PathBuf> =
        [PathBuf::new(), own, path.with_extension(""), package.join("src"), package].into_iter().collect();
    // A page names a folder once, and then the files in it.
    if path.extension().is_some_and(|ending| ending == "md") {
        for named in named.iter().map(Path::new) {
            folders.insert(named.to_owned());
            folders.insert(named.with_extension(""));
            folders.extend(named.parent().map(Path::to_owned));
        }
    }
    folders
}

#[test]
fn every_name_and_path_in_pages_and_comments_leads_somewhere() {
    let mut lost: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    let mut count = 0;
    for path in texts() {
        if OF_THE_PAST.iter().any(|(past, _)| path.starts_with(past)) {
            continue;
        }
        let prose = Prose::of(&path);
        let texts = prose.blocks.iter().chain([&prose.examples]);
        let named: BTreeSet<String> = texts.flat_map(|text| paths(text)).collect();
        let folders = folders_of(&path, &named);
        count += named.len();
        let paths = named.iter().map(String::as_str).filter(|path| !leads(path, &folders));
        let gone = paths.chain(prose.lost_names(&path));
        let gone = gone.filter(|name| !OF_OTHERS.iter().any(|(known, _)| name.starts_with(known)));
        lost.insert(path.clone(), gone.map(str::to_owned).collect());
    }
    lost.retain(|_, names| !names.is_empty());
    assert!(count > 300, "only {count} paths were read");
    let lines: Vec<String> =
        lost.iter().map(|(path, names)| format!("{}: {names:?}", path.display())).collect();
    assert!(lines.is_empty(), "names that lead nowhere:\n{}", lines.join("\n"));
}

/// Names of what is there and of what is not, each in a file that says it.
#[test]
fn an_invented_name_is_found_out() {
    let page = Path::new("ARCHITECTURE.md");
    let is_lost = |name: &str| !lost_names(page, name).is_empty();
    for name in
        ["Signed<WalletRequest>", "Batch::decide", "guard::guard", "std::mem::take", "AppState", "now()"]
    {
        assert!(!is_lost(name), "{name}");
    }
    // Whole texts would be code that says these names.
    for (one, other) in [
        ("Signed", "<Exchange>"),
        ("Exchange", "::parse"),
        ("handlers", "::wire"),
        ("Refusal", "::invented"),
        ("Wallet", "Invented"),
        ("an_invented", "_function"),
        ("unheard", "_of()"),
    ] {
        assert!(is_lost(&[one, other].concat()), "{one}{other}");
    }
    let folders = folders_of(page, &paths("`crates/store/src/wallet_writer/work.rs` and `batch.rs`"));
    for path in [
        "src/public",
        "batch.rs",
        "tests/api/exchange*.rs",
        "migrations/NNNN_name.sql",
        "docs/decisions/0049",
    ] {
        assert!(leads(path, &folders), "{path}");
    }
    for path in
        ["src/public/gone.rs", "gone.rs", "src/gone/*.rs", "docs/decisions/9999", "gone/NNNN_name.sql"]
    {
        assert!(!leads(path, &folders), "{path}");
    }
}
