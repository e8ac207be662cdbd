//! Names and files that the repository has: what its code declares and uses, and where a path leads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::sources::{comment_mark, everything, prose_of, read, repository};

/// Words that declare the name behind them.
const DECLARING: [&str; 11] =
    ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod", "macro_rules", "macro"];

/// The names of the repository's code.
pub(crate) struct Declared {
    /// Every word of code, its texts included, but none of its comments.
    words: BTreeSet<String>,
    /// By a type or a module: its fields, variants, functions and items.
    members: BTreeMap<String, BTreeSet<String>>,
    /// By the folder of a package: its modules and items.
    packages: BTreeMap<PathBuf, BTreeSet<String>>,
    /// Every pair of an owner and a name that a path of code has.
    pairs: BTreeSet<(String, String)>,
    /// All Rust code, without blanks, in which a type with its parameters is looked up.
    code: String,
    /// Crates of others, whose names are looked up in their own documents.
    dependencies: BTreeSet<String>,
}

impl Declared {
    pub(crate) fn of_the_repository() -> Self {
        let mut declared = Self {
            words: BTreeSet::new(),
            members: BTreeMap::new(),
            packages: BTreeMap::new(),
            pairs: BTreeSet::new(),
            code: String::new(),
            dependencies: dependencies(),
        };
        for path in everything() {
            let Ok(text) = fs::read_to_string(repository().join(&path)) else { continue };
            let code = without_comments(&path, &text);
            declared.words.extend(words(&code).map(str::to_owned));
            match path.extension().and_then(|ending| ending.to_str()) {
                Some("rs") => declared.add_rust(&path, &code),
                Some("html") => {
                    declared.members.entry(module_name(&path)).or_default().extend(declared_in(&code));
                }
                _ => {}
            }
        }
        declared
    }

    fn add_rust(&mut self, path: &Path, code: &str) {
        let module = module_name(path);
        let items = declared_in(code);
        let package = self.packages.entry(package_of(path)).or_default();
        package.extend(items.iter().cloned().chain([module.clone()]));
        self.members.entry(module).or_default().extend(items);
        for (owner, members) in bodies(code) {
            self.members.entry(owner).or_default().extend(members);
        }
        self.pairs.extend(pairs(code));
        self.code.extend(code.chars().filter(|character| !character.is_whitespace()));
    }

    /// Whether code says a word.
    pub(crate) fn has_word(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    /// Whether code says a type with what it is of: `Signed<T>`.
    pub(crate) fn has_type(&self, text: &str) -> bool {
        let text: String = text.chars().filter(|character| !character.is_whitespace()).collect();
        self.code.contains(&text)
    }

    /// Whether a name of an owner, said in a file, leads to something.
    pub(crate) fn leads(&self, from: &Path, owner: &str, name: &str) -> bool {
        match owner {
            "crate" | "super" | "self" => {
                self.packages.get(&package_of(from)).is_some_and(|items| items.contains(name))
            }
            "Self" => words(&read(from)).filter(|word| *word == name).count() > 1,
            _ => {
                self.members.get(owner).is_some_and(|members| members.contains(name))
                    || self.pairs.contains(&(owner.to_owned(), name.to_owned()))
            }
        }
    }

    /// Whether a crate is somebody else's.
    pub(crate) fn is_dependency(&self, name: &str) -> bool {
        matches!(name, "std" | "core" | "alloc") || self.dependencies.contains(name)
    }
}

/// The names of a text, in their order.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
        .filter(|word| !word.is_empty())
}

/// Each owner of a text's paths with its name. A path of three names has two pairs.
pub(crate) fn pairs(text: &str) -> Vec<(String, String)> {
    let is_name = |character: char| character.is_alphanumeric() || character == '_';
    let pair = |(at, _): (usize, &str)| {
        let (before, after) = (&text[..at], &text[at + 2..]);
        let owner = &before[before
            .rfind(|character| !is_name(character))
            .map_or(0, |end| end + before[end..].chars().next().map_or(1, char::len_utf8))..];
        let name = &after[..after.find(|character| !is_name(character)).unwrap_or(after.len())];
        let is_path =
            !owner.is_empty() && !name.is_empty() && !owner.starts_with(|c: char| c.is_ascii_digit());
        is_path.then(|| (owner.to_owned(), name.to_owned()))
    };
    text.match_indices("::").filter_map(pair).collect()
}

fn declared_in(code: &str) -> BTreeSet<String> {
    let all: Vec<&str> = words(code).collect();
    let declared = all.windows(2).filter(|pair| DECLARING.contains(&pair[0]));
    declared.map(|pair| pair[1].to_owned()).collect()
}

/// What types are made of: the words of a `struct` or `enum`, the items of an `impl` or `trait`.
fn bodies(code: &str) -> Vec<(String, BTreeSet<String>)> {
    let mut found = Vec::new();
    let mut start = 0;
    for line in code.split_inclusive('\n') {
        let head = line.trim_start();
        let head = head.strip_prefix("pub").map_or(head, |rest| match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(')').map_or(rest, |(_, rest)| rest).trim_start(),
            None => rest.trim_start(),
        });
        let kind = words(head).next().unwrap_or_default();
        if matches!(kind, "struct" | "enum" | "impl" | "trait" | "union") {
            let rest = &code[start..];
            let end = rest.find(['{', ';']).unwrap_or(rest.len());
            if rest[end..].starts_with('{') {
                let body = braced(&rest[end..]);
                let members = match kind {
                    "impl" | "trait" => declared_in(body),
                    _ => words(body).map(str::to_owned).collect(),
                };
                found.push((owner_of(&rest[..end], kind), members));
            }
        }
        start += line.len();
    }
    found
}

/// The type whose body a head begins: that behind `for`, where a trait is implemented.
fn owner_of(head: &str, kind: &str) -> String {
    let head = head.split_once(kind).map_or(head, |(_, rest)| rest);
    let head = head.rsplit_once(" for ").map_or(head, |(_, rest)| rest).split(" where ").next().unwrap();
    let (mut depth, mut plain) = (0, String::new());
    for character in head.chars() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ if depth == 0 => plain.push(character),
            _ => {}
        }
    }
    let path = plain.split_once([':', '(']).map_or(plain.as_str(), |(before, rest)| {
        // A bound of a trait ends the name; a path goes on.
        if rest.starts_with(':') { plain.as_str() } else { before }
    });
    words(path).last().unwrap_or_default().to_owned()
}

/// A text from its first brace to the one that closes it.
fn braced(text: &str) -> &str {
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
    }
    text
}

fn without_comments(path: &Path, text: &str) -> String {
    let Some(mark) = comment_mark(path) else { return text.to_owned() };
    text.lines()
        .map(|line| prose_of(line, mark).map_or(line, |(code, _)| code))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The module of a file: its name, or that of its folder.
fn module_name(path: &Path) -> String {
    let name = |path: &Path| path.file_name().map_or("", |name| name.to_str().unwrap()).to_owned();
    let stem = name(&path.with_extension(""));
    match stem.as_str() {
        "mod" => name(path.parent().unwrap()),
        "lib" => name(&package_of(path)).replace('-', "_"),
        _ => stem,
    }
}

/// The folder of the package that a file is of.
pub(crate) fn package_of(path: &Path) -> PathBuf {
    let parts: Vec<_> = path.iter().collect();
    let length = match parts.first().and_then(|first| first.to_str()) {
        Some("crates") => 2,
        Some("xtask" | "fuzz") => 1,
        _ => 0,
    };
    parts.iter().take(length).collect()
}

fn dependencies() -> BTreeSet<String> {
    let lock = read("Cargo.lock");
    let names = lock.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    names
        .filter(|name| !repository().join("crates").join(name).exists())
        .map(|name| name.replace('-', "_"))
        .collect()
}
