//! Features of dependencies: the store alone compiles them as the workspace does. And the crates that `cargo test` tests.

use std::collections::BTreeSet;
use std::process::Command;

use super::sources::{read, repository};

/// Every dependency with its features, as Cargo compiles them for the tests of those packages.
fn dependencies(packages: &[&str]) -> BTreeSet<String> {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--quiet", "--locked", "--prefix=none", "--edges=normal,build,dev"])
        .arg("--format={p} [{f}]")
        .args(packages)
        .current_dir(repository())
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let lines = String::from_utf8(tree.stdout).unwrap();
    lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

/// `[dev-dependencies]` of the store say how a difference is ended: by the package that brings the feature.
#[test]
fn the_store_alone_compiles_no_dependency_again() {
    let workspace = dependencies(&["--workspace"]);
    let store = dependencies(&["--package=store"]);
    assert!(store.len() > 200, "only {} dependencies were found", store.len());
    let again: Vec<_> = store.difference(&workspace).collect();
    assert!(again.is_empty(), "with other features than in the workspace: {again:#?}");
}

/// `cargo test` runs the tests of the default members alone.
#[test]
fn every_crate_with_tests_is_a_default_member() {
    let workspace = read("Cargo.toml");
    let members = workspace.split_once("default-members = [").unwrap().1.split_once(']').unwrap().0;
    for entry in repository().join("crates").read_dir().unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let has_tests = !read(format!("crates/{name}/Cargo.toml")).contains("\ntest = false\n");
        assert_eq!(members.contains(&format!("\"crates/{name}\"")), has_tests, "{name}");
    }
}
