//! The tables of codes and of fields in the documents are those of the program. To write the table of codes of
//! docs/contract.md anew: `UPDATE_DOCUMENTS=1 cargo test -p domain --test documents`.

use std::path::PathBuf;
use std::{env, fs};

use domain::code::{BizNoState, Code};
use domain::endpoint::Endpoint;
use domain::wallet::{DeveloperTexts, WalletCall};

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

/// The names in code font of a text, each with whether a question mark follows it.
fn names(text: &str) -> Vec<(&str, bool)> {
    let parts: Vec<&str> = text.split('`').collect();
    let named = parts.chunks_exact(2).zip(parts.iter().skip(2).step_by(2));
    let named = named.map(|(pair, after)| (pair[1], after.starts_with('?')));
    named.filter(|(name, _)| name.starts_with(|letter: char| letter.is_ascii_alphabetic())).collect()
}

/// The signed fields of a call, in the order of its table, each with whether it may be absent.
fn signed(call: WalletCall) -> Vec<(&'static str, bool)> {
    let required: Vec<_> = call.required_fields().collect();
    call.signed_fields().names.iter().map(|name| (*name, !required.contains(name))).collect()
}

/// docs/contract.md 3.1, 10.1.1 and 19.2.1.
#[test]
fn the_signed_fields_are_those_of_the_contract() {
    let text = fs::read_to_string(path("docs/contract.md")).unwrap();
    let exchange = rows(&text, "| field | required | signed | meaning | accepted |");
    let exchange: Vec<_> = exchange.iter().map(|row| cells(row)).collect();
    let demand = |required: bool, is_signed: bool| match (required, is_signed) {
        (true, true) => ["yes", "yes"],
        (false, true) => ["no", "if not empty"],
        (_, false) => ["yes", "no"],
    };
    let known = signed(WalletCall::Exchange).into_iter();
    let known = known.map(|(name, is_optional)| (name, demand(!is_optional, true)));
    let token = [("access_token", demand(true, false))].into_iter();
    let known: Vec<_> = token.chain(known).chain([("sign", demand(true, false))]).collect();
    let found: Vec<_> =
        exchange.iter().map(|cells| (cells[0].as_str(), [cells[1].as_str(), cells[2].as_str()])).collect();
    assert_eq!(found, known, "docs/contract.md, 3.1");
    let texts = exchange.iter().filter(|cells| cells[3].starts_with("text of the developer"));
    let texts: Vec<_> = texts.map(|cells| cells[0].as_str()).collect();
    assert_eq!(texts, DeveloperTexts::NAMES, "docs/contract.md, 3.1.7");

    let others = rows(&text, "| call | fields | `data` |");
    assert_eq!(others.len(), WalletCall::ALL.len() - 2, "docs/contract.md, 10.1.1");
    for row in others {
        let row: Vec<&str> = row.split('|').collect();
        let call = WalletCall::ALL.into_iter().find(|call| names(row[1]) == [(call.segment(), false)]);
        let call = call.unwrap_or_else(|| panic!("docs/contract.md, 10.1.1: no call {}", row[1]));
        assert_eq!(names(row[2]), signed(call), "docs/contract.md, 10.1.1, {call:?}");
    }
    let (_, topup) = text.split_once("**19.2.1**").unwrap();
    let (topup, _) = topup.split_once("**19.2.2**").unwrap();
    assert_eq!(names(topup)[1..], signed(WalletCall::Topup), "docs/contract.md, 19.2.1");
}

/// The tables of fields in both guides have each field of an exchange, and no other.
#[test]
fn the_guides_have_the_fields_of_an_exchange() {
    let mut known = [&WalletCall::Exchange.signed_fields().names[..], &["access_token", "sign"]].concat();
    known.sort_unstable();
    for (guide, heading) in
        [("docs/api.md", "| field | what to send |"), ("docs/api.zh-CN.md", "| 字段 | 内容 |")]
    {
        let text = fs::read_to_string(path(guide)).unwrap();
        let rows = rows(&text, heading);
        let fields = rows.iter().flat_map(|row| names(row.split('|').nth(1).unwrap_or_default()));
        let mut found: Vec<_> = fields.map(|(name, _)| name).collect();
        found.sort_unstable();
        assert_eq!(found, known, "{guide}");
    }
}

#[test]
fn every_code_has_a_number_that_no_client_reads_as_success_and_an_endpoint() {
    for code in Code::ALL {
        assert!(code.number() > 1, "{code:?}");
        assert!(!code.row().endpoints.is_empty() && !code.row().meaning.is_empty(), "{code:?}");
    }
}
