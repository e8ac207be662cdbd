//! ARCHITECTURE.md as a map: its folders are there, it leaves none out, and its floors are those that
//! `arrows.rs` holds. To write the floors anew: `UPDATE_DOCUMENTS=1 cargo test -p xtask`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{env, fs};

use crate::arrows::FLOORS;
use crate::sources::{read, repository};

const PAGE: &str = "ARCHITECTURE.md";
const END_OF_FLOORS: &str = "<!-- end of floors -->";

/// A text between the first place of one mark, to the end of its line, and the next place of another.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let from = text.find(begin).unwrap_or_else(|| panic!("{PAGE} lacks {begin:?}"));
    let from = from + text[from..].find('\n').unwrap() + 1;
    let to = from + text[from..].find(end).unwrap_or_else(|| panic!("{PAGE} lacks {end:?}"));
    &text[from..to]
}

/// The paths of the map: two blanks lead into a folder, and a comma parts the names of a line.
fn paths_of_the_map() -> BTreeSet<PathBuf> {
    let page = read(PAGE);
    let map = between(between(&page, "## The map", "## "), "```", "```");
    let mut paths = BTreeSet::new();
    let mut above: Vec<PathBuf> = vec![PathBuf::new()];
    for line in map.lines() {
        let depth = (line.len() - line.trim_start().len()) / 2;
        let names = line.trim_start().split("  ").next().unwrap();
        above.truncate(depth + 1);
        let folder = above.last().unwrap().clone();
        paths.extend(names.split(", ").map(|name| folder.join(name)));
        above.push(folder.join(names.split(", ").last().unwrap()));
    }
    paths
}

#[test]
fn the_map_has_every_module_of_the_service_and_every_crate() {
    let paths = paths_of_the_map();
    assert!(paths.len() > 40, "{paths:?}");
    let gone: Vec<&PathBuf> = paths.iter().filter(|path| !repository().join(path).exists()).collect();
    assert!(gone.is_empty(), "{PAGE} has what is gone: {gone:?}");
    for folder in ["src", "crates"] {
        for entry in repository().join(folder).read_dir().unwrap() {
            let path = PathBuf::from(folder).join(entry.unwrap().file_name());
            assert!(paths.contains(&path), "the map of {PAGE} lacks {}", path.display());
        }
    }
}

#[test]
fn the_page_draws_the_floors_that_are_held() {
    let page = read(PAGE);
    let found = between(&page, "<!-- floors", END_OF_FLOORS);
    let floors: String = FLOORS.iter().map(|floor| floor.join(", ") + "\n").collect();
    let expected = format!("```\n{floors}```\n");
    if env::var_os("UPDATE_DOCUMENTS").is_some() {
        let (before, after) =
            (format!("-->\n{found}{END_OF_FLOORS}"), format!("-->\n{expected}{END_OF_FLOORS}"));
        fs::write(repository().join(PAGE), page.replace(&before, &after)).unwrap();
        return;
    }
    assert_eq!(found, expected, "write the floors anew: UPDATE_DOCUMENTS=1 cargo test -p xtask");
}

/// Functions are renamed often. A page that names acts and files stays true for longer.
#[test]
fn the_page_names_no_functions() {
    let page = read(PAGE);
    for mark in ["::", "()"] {
        let named: Vec<&str> = page.lines().filter(|line| line.contains(mark)).collect();
        assert!(named.is_empty(), "{PAGE} names functions: {named:?}");
    }
}
