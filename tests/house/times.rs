//! No test of `cargo test` judges how long something takes: a machine that is busy with other things fails none.

use regex_lite::Regex;

use crate::sources::{read, rust_files};

/// The folders of such tests. Proofs and benchmarks run by name.
const FOLDERS: [&str; 4] = ["crates", "src", "tests/api", "xtask"];
/// What ends a test that hangs, and judges nothing.
const PATIENCE: &str = "PATIENCE";

/// What an assertion expects a time to be below.
fn judged(text: &str) -> Vec<String> {
    let upper = Regex::new(r"assert!\([^;]*?elapsed\(\) <=? (\w+)").unwrap();
    let range = Regex::new(r"assert!\([^;]*?(\w+)\)\.contains\(&\w+\.elapsed\(\)").unwrap();
    let found = upper.captures_iter(text).chain(range.captures_iter(text));
    found.map(|found| found[1].to_owned()).filter(|limit| limit != PATIENCE).collect()
}

#[test]
fn an_upper_bound_of_time_is_found() {
    let text = "assert!(\n    a.elapsed() < SHORT * 3,\n    \"late\"\n);\nassert!(a.elapsed() >= SHORT);\n\
                assert!((LEAST..MOST).contains(&a.elapsed()));\nassert!(a.elapsed() < PATIENCE);\n";
    assert_eq!(judged(text), ["SHORT", "MOST"]);
}

#[test]
fn no_test_judges_how_long_something_takes() {
    let faults: Vec<String> = FOLDERS
        .iter()
        .flat_map(|folder| rust_files(folder))
        .flat_map(|path| {
            judged(&read(&path)).into_iter().map(move |limit| format!("{}: {limit}", path.display()))
        })
        .collect();
    assert!(faults.is_empty(), "assert an order, a count or a state (docs/design/tests.md): {faults:#?}");
}
