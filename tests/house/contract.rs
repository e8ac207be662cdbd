//! Every reference to the contract names a section of one of its two pages.

use std::collections::BTreeSet;

use regex_lite::Regex;

use crate::sources::{read, texts};

/// The pages of the contract: the public wire, and what operators have. They share one numbering.
const PAGES: [&str; 2] = ["docs/contract.md", "docs/operators-contract.md"];

/// The numbers that the contract has: `## 3. Exchange`, `### 3.1 Fields`, `**3.1.2**`.
fn sections() -> BTreeSet<String> {
    let heading = Regex::new(r"(?m)^(?:## (\d+)\.|### (\d+\.\d+)\s|\*\*(\d+\.\d+\.\d+)\*\*)").unwrap();
    let mut numbers = BTreeSet::new();
    for page in PAGES {
        for found in heading.captures_iter(&read(page)) {
            let number = found.iter().skip(1).flatten().next().unwrap().as_str().to_owned();
            assert!(numbers.insert(number.clone()), "{page}: {number} stands in the contract twice");
        }
    }
    numbers
}

#[test]
fn every_reference_to_the_contract_names_a_section_that_exists() {
    let sections = sections();
    assert!(sections.len() > 100, "{} sections were read", sections.len());
    let number = r"\d+(?:\.\d+){0,2}";
    let list = format!(r"(?i)\bcontract ({number}(?:(?:, | and | to |, and ){number})*)");
    let (list, number) = (Regex::new(&list).unwrap(), Regex::new(number).unwrap());
    let comment = Regex::new(r"\n\s*(?:///?|//!|--|#)\s*").unwrap();
    let (mut references, mut broken) = (0, Vec::new());
    for path in texts() {
        // A reference may be split between two lines of a comment.
        let text = comment.replace_all(&read(&path), " ").replace('\n', " ");
        for found in list.captures_iter(&text) {
            for number in number.find_iter(&found[1]) {
                references += 1;
                if !sections.contains(number.as_str()) {
                    broken.push(format!("{}: contract {}", path.display(), number.as_str()));
                }
            }
        }
    }
    assert!(references > 200, "only {references} references were found");
    assert!(broken.is_empty(), "the contract has no such section:\n{}", broken.join("\n"));
}

#[test]
fn nothing_refers_to_a_document_that_is_not_here() {
    let reference = Regex::new(r"(?i)\bspec \d").unwrap();
    let found = texts().into_iter().filter(|path| reference.is_match(&read(path)));
    let found: Vec<_> = found.map(|path| path.display().to_string()).collect();
    assert!(found.is_empty(), "references to a specification that is not in the repository: {found:?}");
}
