//! Compatibility: this version has what the last release had, unless docs/upgrading.md says that it is gone.

use std::collections::BTreeSet;
use std::fs;

use crate::sources::{read, repository};
use crate::surface::{RELEASES, lines};

const PAGE: &str = "docs/upgrading.md";

/// The version of a folder of releases, as numbers.
fn version(name: &str) -> Option<Vec<u32>> {
    name.split('.').map(|part| part.parse().ok()).collect()
}

/// The versions that have been released, the oldest first.
fn versions() -> Vec<String> {
    let folders = fs::read_dir(repository().join(RELEASES)).unwrap();
    let names = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| version(name).is_some()).collect();
    names.sort_by_key(|name| version(name));
    names
}

/// What of a former version is gone without a word: neither here nor, in backticks, on the page.
fn gone(former: &str, now: &BTreeSet<String>, page: &str) -> Vec<String> {
    let is_gone = |line: &&str| !now.contains(*line) && !page.contains(&format!("`{line}`"));
    former.lines().filter(is_gone).map(str::to_owned).collect()
}

#[test]
fn nothing_of_the_last_release_is_gone_without_a_word_on_the_page() {
    let last = versions().pop().expect("there was a release");
    let former = read(format!("{RELEASES}/{last}/surface.txt"));
    assert!(former.lines().count() > 1_000, "{} lines", former.lines().count());
    let gone = gone(&former, &lines(|path| read(path)), &read(PAGE));
    assert!(
        gone.is_empty(),
        "{last} had this; list in {PAGE} what may go, in backticks:\n{}",
        gone.join("\n")
    );
}

#[test]
fn a_field_that_is_removed_is_found_unless_the_page_lists_it() {
    let now = lines(|path| read(path));
    for kind in [
        "call public POST ",
        "field public POST ",
        "code 10000601",
        "setting exchange.",
        "command minitill ",
        "metric ",
    ] {
        let removed =
            now.iter().find(|line| line.starts_with(kind)).unwrap_or_else(|| panic!("no line of {kind}"));
        let without = now.iter().filter(|line| *line != removed).cloned().collect();
        let former = now.iter().cloned().collect::<Vec<_>>().join("\n");
        assert_eq!(gone(&former, &without, ""), [removed.as_str()]);
        assert!(gone(&former, &without, &format!("- `{removed}` is gone.")).is_empty());
    }
}

#[test]
fn every_release_stands_in_the_changelog_and_on_the_page() {
    for version in versions() {
        assert!(read("CHANGELOG.md").contains(&format!("\n## [{version}] - ")), "CHANGELOG.md: {version}");
        assert!(read(PAGE).contains(&format!("\n## {version}\n")), "{PAGE}: {version}");
        assert!(repository().join(RELEASES).join(&version).join("data.sql").exists(), "{version}: its data");
    }
}
