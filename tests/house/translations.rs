//! Every text for people has its twin in `locales/zh.po`, with the same places, and no twin is left over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regex_lite::Regex;

use crate::sources::{read, rust_files, texts};

const CATALOGUE: &str = "locales/zh.po";
const CONSOLE: &str = "src/operator/console";
/// A string of Rust or of a template.
const STRING: &str = r#""((?:[^"\\]|\\.|\\\n)*)""#;
/// The marks in front of a text in Rust code.
const BEFORE: [&str; 10] = [
    r"text!\(\s*",
    r"Expected::new\(\s*",
    r"EXPECTED: &(?:'static )?str =\s*",
    r#"parse_integer\([^"\n]*?"#,
    r#"FieldError::malformed\(\s*(?:\w+|"[a-z_]+"),\s*"#,
    r"Refusal::new\(\s*Code::\w+,\s*",
    r"Refusal::transport\(\s*[\w:]+,\s*",
    r"(?:Refusal|Self)::unavailable\(\s*",
    r"Self::new\(Code::SystemError, ",
    r"\billegal\(",
];
/// Files with causes of a fetch, such as `connect_failed`, which a page shows in words.
const CAUSES: [&str; 2] = ["crates/guarded-fetch/src/error.rs", "src/notify/sender.rs"];
/// Texts that are said to programs of operators alone, in English.
const ENGLISH_ALONE: [&str; 2] = ["src/operator/host.rs", "src/operator/mod.rs"];

/// The entries of the catalogue: the key with its context, and its twin.
fn catalogue() -> BTreeMap<String, String> {
    let entry = format!(r"(?m)^(?:msgctxt {STRING}\n)?msgid {STRING}\nmsgstr {STRING}$");
    let text = read(CATALOGUE);
    let (_, entries) = text.split_once("charset=UTF-8\\n\"\n").expect("the header");
    let found = Regex::new(&entry).unwrap();
    let mut catalogue = BTreeMap::new();
    for found in found.captures_iter(entries) {
        let part = |at: usize| found.get(at).map(|text| plain(text.as_str())).unwrap_or_default();
        let context = found.get(1).map_or(String::new(), |context| format!("{}\u{4}", context.as_str()));
        let before = catalogue.insert(format!("{context}{}", part(2)), part(3));
        assert!(before.is_none(), "{CATALOGUE} has {:?} twice", part(2));
    }
    assert_eq!(catalogue.len(), entries.matches("\nmsgid ").count(), "an entry is not in its usual form");
    catalogue
}

/// The value of a string of the source.
fn plain(string: &str) -> String {
    let joined = Regex::new(r"\\\n\s*").unwrap().replace_all(string, "");
    joined.replace("\\\"", "\"").replace("\\u{1f}", "").replace("\\\\", "\\")
}

/// Rust code without its comments and its own tests.
fn code(path: &Path) -> String {
    let text = read(path);
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    // A quote as a character begins no string.
    Regex::new(r"(?m)^\s*//.*$").unwrap().replace_all(text, "").replace("'\"'", "' '")
}

fn sources() -> Vec<PathBuf> {
    let folders = ["src", "crates/domain/src", "crates/store/src"].into_iter().flat_map(rust_files);
    folders.filter(|path| !path.ends_with("tests.rs")).collect()
}

fn templates() -> Vec<PathBuf> {
    texts().into_iter().filter(|path| path.starts_with(format!("{CONSOLE}/templates"))).collect()
}

fn all(pattern: &str, text: &str) -> Vec<String> {
    let found = Regex::new(pattern).unwrap();
    found.captures_iter(text).map(|found| plain(&found[1])).collect()
}

/// The texts of the source that need a twin, each with its file.
fn needed() -> BTreeMap<String, PathBuf> {
    let mut needed = BTreeMap::new();
    let mut need = |text: String, path: &PathBuf| {
        if !text.is_empty() {
            needed.entry(text).or_insert_with(|| path.clone());
        }
    };
    let label = Regex::new(r"[A-Z ]").unwrap();
    for path in templates() {
        let text = read(&path);
        for found in all(&format!(r"crate::t\({STRING}"), &text) {
            need(found, &path);
        }
        let of_context = Regex::new(&format!(r#"crate::tc\("([a-z-]+)", {STRING}"#)).unwrap();
        for found in of_context.captures_iter(&text) {
            need(format!("{}\u{4}{}", &found[1], plain(&found[2])), &path);
        }
        for call in all(r"call parts::(?:filter|moment|app_field)\((.*?)\) %\}", &text) {
            all(STRING, &call)
                .into_iter()
                .filter(|text| label.is_match(text))
                .for_each(|text| need(text, &path));
        }
    }
    let sentence = Regex::new(r"^[A-Z](?:[a-z]+$|.* )").unwrap();
    for path in sources().iter().filter(|path| ENGLISH_ALONE.iter().all(|other| !path.ends_with(other))) {
        let code = code(path);
        for before in BEFORE {
            for text in all(&format!("{before}{STRING}"), &code) {
                need(text, path);
            }
        }
        let plain_code = Regex::new(r"#\[[^\]]*\]").unwrap().replace_all(&code, "").into_owned();
        for text in all(&format!(r"text_type!\(\s*\w+,\s*{STRING}"), &plain_code) {
            need(text, path);
        }
        if path.starts_with(CONSOLE) {
            let strings = all(STRING, &code).into_iter();
            strings
                .filter(|text| sentence.is_match(text) && !text.contains("}h1v1"))
                .for_each(|text| need(text, path));
        }
    }
    for path in CAUSES.map(PathBuf::from) {
        for cause in all(r#"=> "([a-z0-9_]+)""#, &code(&path)) {
            need(cause.replace('_', " "), &path);
        }
    }
    for own in ["English", "HMAC takes a key of any length", "path: no such endpoint"] {
        needed.remove(own);
    }
    assert!(needed.len() > 900, "only {} texts were found", needed.len());
    needed
}

#[test]
fn every_text_has_a_twin() {
    let catalogue = catalogue();
    let without: Vec<_> = needed().into_iter().filter(|(text, _)| !catalogue.contains_key(text)).collect();
    assert!(without.is_empty(), "{CATALOGUE} has no twin of:\n{without:#?}");
    let empty: Vec<_> = catalogue.iter().filter(|(_, twin)| twin.is_empty()).collect();
    assert!(empty.is_empty(), "{CATALOGUE} has an empty twin of:\n{empty:#?}");
}

#[test]
fn twins_have_the_same_places_and_tags() {
    let place = Regex::new(r"\{[a-z_]+\}|</?[a-z]+(?: [^>]*)?>").unwrap();
    let places = |text: &str| -> BTreeSet<String> {
        place.find_iter(text).map(|place| place.as_str().to_owned()).collect()
    };
    let differ: Vec<_> = catalogue().into_iter().filter(|(key, twin)| places(key) != places(twin)).collect();
    assert!(differ.is_empty(), "the places of these twins differ:\n{differ:#?}");
}

#[test]
fn no_twin_is_left_over() {
    let mut said: BTreeSet<String> = needed().into_keys().collect();
    let others = ["crates/guarded-fetch/src", "crates/pictures/src"].into_iter().flat_map(rust_files);
    for path in sources().into_iter().chain(others) {
        let strings = all(STRING, &code(&path)).into_iter();
        // A cause such as `connect_failed` is shown in words.
        said.extend(strings.flat_map(|text| [text.replace('_', " "), text]));
    }
    let left_over: Vec<_> = catalogue().into_keys().filter(|key| !said.contains(key)).collect();
    assert!(left_over.is_empty(), "nothing says these texts of {CATALOGUE}:\n{left_over:#?}");
}
