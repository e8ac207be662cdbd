//! The tables of codes in the documents are those of the program. To write the table of
//! docs/contract.md anew: `UPDATE_DOCUMENTS=1 cargo test -p domain --test documents`.

use std::path::PathBuf;
use std::{env, fs};

use domain::code::{BizNoState, Code};
use domain::endpoint::Endpoint;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// The rows of the table that follows a heading line, without that line and the one below it.
fn rows<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let after = text.lines().skip_while(|line| *line != heading).skip(2);
    after.take_while(|line| line.starts_with('|')).collect()
}

fn cells(row: &str) -> Vec<String> {
    row.trim_matches('|').split('|').map(|cell| cell.trim().replace(['`', '*'], "")).collect()
}

const HEADING: &str = "| code | meaning | where |";

/// The code table as docs/contract.md has it.
fn table() -> Vec<String> {
    let row = |code: Code| {
        let endpoints = if code.row().endpoints == Endpoint::ALL {
            "all".to_owned()
        } else {
            code.row().endpoints.iter().map(|endpoint| endpoint.title()).collect::<Vec<_>>().join(", ")
        };
        format!("| {} | {} | {endpoints} |", code.number(), code.row().meaning)
    };
    ["| 1 | success | all |".to_owned()].into_iter().chain(Code::ALL.map(row)).collect()
}

#[test]
fn the_contract_has_the_code_table() {
    let file = path("docs/contract.md");
    let text = fs::read_to_string(&file).unwrap();
    let (found, expected) = (rows(&text, HEADING), table());
    if env::var_os("UPDATE_DOCUMENTS").is_some() {
        fs::write(&file, text.replace(&found.join("\n"), &expected.join("\n"))).unwrap();
        return;
    }
    for row in &expected {
        assert!(found.contains(&row.as_str()), "docs/contract.md lacks the row: {row}");
    }
    assert_eq!(found, expected, "docs/contract.md has the rows of the program alone, in their order");
}

/// docs/contract.md 2.2: each status of the transport comes with one code.
#[test]
fn the_contract_has_the_statuses_of_the_transport() {
    let text = fs::read_to_string(path("docs/contract.md")).unwrap();
    let found = rows(&text, "| status | when | code |");
    assert!(found.len() > 5, "{found:?}");
    for row in found {
        let cells = cells(row);
        let status: u16 = cells[0].split(',').next().unwrap().parse().unwrap();
        let fits = |code: &Code| {
            code.number().to_string() == cells[2] && code.row().transport_statuses.contains(&status)
        };
        assert!(Code::ALL.iter().any(fits), "no code of the program has {row}");
    }
}

/// docs/api.md names each code whose meaning for the `biz_no` is known, and no other.
#[test]
fn the_guide_tells_what_a_code_means_for_the_biz_no() {
    let text = fs::read_to_string(path("docs/api.md")).unwrap();
    let rows = rows(&text, "| `code` of the repeat | has the player paid? | what to do |");
    let words = |code: Code| match code.row().biz_no {
        BizNoState::Free => Some("Not yet"),
        BizNoState::Paid => Some("Yes"),
        BizNoState::PaidOther => Some("Perhaps"),
        BizNoState::Closed => Some("No"),
        BizNoState::Unknown => None,
    };
    for code in Code::ALL {
        let number = code.number().to_string();
        let row = rows.iter().map(|row| cells(row)).find(|cells| cells[0] == number);
        let beginning = row.map(|cells| cells[1].split([',', ':']).next().unwrap().to_owned());
        assert_eq!(beginning.as_deref(), words(code), "docs/api.md, code {number}");
    }
}

#[test]
fn every_code_has_a_number_that_no_client_reads_as_success_and_an_endpoint() {
    for code in Code::ALL {
        assert!(code.number() > 1, "{code:?}");
        assert!(!code.row().endpoints.is_empty() && !code.row().meaning.is_empty(), "{code:?}");
    }
}
