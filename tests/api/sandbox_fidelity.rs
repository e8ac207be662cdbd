//! The tables of docs/sandbox.md, which say what is the platform's and what is Minitill's: every call, field and code once.
//! To write new fields into the column of Minitill: `UPDATE_DOCUMENTS=1 cargo test --test api every_call_and_field`.

use std::collections::BTreeSet;
use std::{env, fs};

use domain::code::Code;
use serde_json::Value;

use crate::support::committed;

/// The rows of the table below this heading, without its head.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, section) = page.split_once(&format!("### {heading}\n")).unwrap();
    let lines = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let row = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    lines.take_while(|line| line.starts_with('|')).map(row).collect()
}

/// The line of a row.
fn line(row: &[String]) -> String {
    let cells = row.iter().map(|cell| if cell.is_empty() { " ".to_owned() } else { format!(" {cell} ") });
    format!("|{}|", cells.collect::<Vec<_>>().join("|"))
}

/// The target of a reference.
fn at<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(path) => at(document, document.pointer(path.trim_start_matches('#')).unwrap()),
        None => value,
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// The properties of a schema, and of those that it is made of.
fn properties<'a>(document: &'a Value, schema: &'a Value) -> Vec<(&'a String, &'a Value)> {
    let schema = at(document, schema);
    let parts =
        ["oneOf", "anyOf", "allOf"].into_iter().flat_map(|of| schema[of].as_array().into_iter().flatten());
    let inherited = parts.flat_map(|part| properties(document, part));
    members(&schema["properties"]).chain(inherited).collect()
}

/// The fields that a call takes, and those of its successes.
fn fields(document: &Value, call: &Value) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    for parameter in call["parameters"].as_array().into_iter().flatten() {
        fields.insert(parameter["name"].as_str().unwrap().to_owned());
    }
    for (_, kind) in members(&call["requestBody"]["content"]) {
        let names = members(&at(document, &kind["schema"])["properties"]).map(|(name, _)| name.clone());
        fields.extend(names);
    }
    let answer = &call["responses"]["200"]["content"]["application/json"];
    for (_, example) in members(&answer["examples"]) {
        for (name, value) in members(&at(document, example)["value"]) {
            fields.insert(name.clone());
            let inner = members(value).filter(|_| name == "data");
            fields.extend(inner.map(|(inner, _)| format!("data.{inner}")));
        }
    }
    // Fields that no example has.
    for (name, value) in properties(document, &answer["schema"]) {
        fields.insert(name.clone());
        let inner = properties(document, value).into_iter().filter(|_| name == "data");
        fields.extend(inner.map(|(inner, _)| format!("data.{inner}")));
    }
    fields
}

#[test]
fn every_call_and_field_is_in_the_table_once() {
    let updates = env::var_os("UPDATE_DOCUMENTS").is_some();
    let mut page = committed("docs/sandbox.md");
    let document: Value = serde_json::from_str(&committed("docs/openapi.json")).unwrap();
    let rows = rows(&page, "Calls and their fields");
    let calls = members(&document["paths"]).flat_map(|(_, path)| members(path).map(|(_, call)| call));
    let mut known = BTreeSet::new();
    for call in calls.filter(|call| call["operationId"].is_string()) {
        let id = call["operationId"].as_str().unwrap();
        known.insert(format!("`{id}`"));
        let row =
            rows.iter().find(|row| row[0] == format!("`{id}`")).unwrap_or_else(|| panic!("{id}: no row"));
        let names = row[1..].iter().flat_map(|cell| cell.split(", ")).filter(|name| !name.is_empty());
        let listed: Vec<_> = names.map(|name| name.trim_matches('`').to_owned()).collect();
        let distinct: BTreeSet<_> = listed.iter().cloned().collect();
        assert_eq!(listed.len(), distinct.len(), "{id}: a field stands in the row twice");
        let fields = fields(&document, call);
        if updates {
            let mut whole = row.clone();
            let own = [row[3].clone()].into_iter().filter(|cell| !cell.is_empty());
            let missing = fields.difference(&distinct).map(|name| format!("`{name}`"));
            whole[3] = own.chain(missing).collect::<Vec<_>>().join(", ");
            page = page.replace(&line(row), &line(&whole));
        } else {
            assert_eq!(distinct, fields, "{id}");
        }
    }
    if updates {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/sandbox.md");
        fs::write(file, page).unwrap();
    }
    let listed: BTreeSet<_> = rows.iter().map(|row| row[0].clone()).collect();
    assert_eq!(listed, known);
}

#[test]
fn every_code_is_in_the_table_once() {
    let rows = rows(&committed("docs/sandbox.md"), "Codes");
    let mut known: Vec<_> = Code::ALL.iter().map(|code| code.number().to_string()).collect();
    known.dedup();
    let listed: Vec<_> = rows.iter().map(|row| row[0].clone()).collect();
    assert_eq!(listed, known);
    for row in rows {
        assert!(["document", "clients", "Minitill"].contains(&row[1].as_str()), "{row:?}");
    }
}
