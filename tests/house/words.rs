//! Words of the code. The head of a module says what it is, in words that a search finds. The name of a type has one
//! meaning.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex_lite::Regex;

use crate::sources::{prose_of, read, rust_files, texts};

/// Words with which a question begins. A module is a thing, and its head names the thing.
const QUESTIONS: [&str; 9] = ["How", "What", "When", "Where", "Whether", "Which", "Who", "Whose", "Why"];

#[test]
fn the_head_of_a_module_begins_with_what_the_module_is() {
    let mut heads = 0;
    let mut questions = Vec::new();
    for path in texts().into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "rs")) {
        let text = read(&path);
        let Some(head) = text.lines().find_map(|line| line.strip_prefix("//! ")) else { continue };
        heads += 1;
        if QUESTIONS.iter().any(|question| head.split(' ').next() == Some(*question)) {
            questions.push(format!("{}: {head}", path.display()));
        }
    }
    assert!(heads > 500, "only {heads} heads were read");
    assert!(questions.is_empty(), "heads that begin with a question:\n{}", questions.join("\n"));
}

/// A declaration of a type. An associated type is none: it stands in a block.
static TYPE: LazyLock<Regex> = LazyLock::new(|| {
    let visibility = r"(?:pub(?:\([^)]*\))? )?";
    Regex::new(&format!(r"^(?:\s*{visibility}(?:struct|enum|trait|union)|{visibility}type) ([A-Z]\w*)"))
        .unwrap()
});

/// Folders and files whose types no reader of the product meets.
const OF_TESTS: [&str; 5] = ["benches", "simulation", "testkit", "tests", "tests.rs"];

#[test]
fn the_name_of_a_type_has_one_meaning() {
    let files = ["crates", "src", "xtask/src"].into_iter().flat_map(rust_files);
    let mut declared: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in
        files.filter(|path| !path.iter().any(|part| OF_TESTS.iter().any(|of_tests| part == *of_tests)))
    {
        for name in types_of(&path) {
            declared.entry(name).or_default().push(path.clone());
        }
    }
    assert!(declared.len() > 900, "only {} types were found", declared.len());
    declared.retain(|_, places| places.len() > 1);
    assert!(
        declared.is_empty(),
        "types that share a name: give the more special one a longer name: {declared:#?}"
    );
}

/// The types that a file declares outside its tests.
fn types_of(path: &Path) -> Vec<String> {
    let text = read(path);
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let code = product.lines().map(|line| prose_of(line, "//").map_or(line, |(code, _)| code));
    code.filter_map(|line| Some(TYPE.captures(line)?[1].to_owned())).collect()
}
