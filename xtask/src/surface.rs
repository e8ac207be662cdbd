//! The surface of a version, on which others rely, as its documents tell it: calls, fields, codes, settings, commands and metrics, one a
//! line. A release keeps its lines, so that a test finds what a later version has no more.

use std::collections::BTreeSet;

use serde_json::Value;

/// The folder of the lines of each release, each in a folder of its version.
pub(crate) const RELEASES: &str = "tests/releases";
/// How deep the fields of a body are followed.
const DEPTH_MAX: usize = 6;

/// The lines that the documents of this folder tell. `read` gives a document by its path in the repository.
pub(crate) fn lines(read: impl Fn(&str) -> String) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for (api, page) in [("public", "docs/openapi.json"), ("admin", "docs/admin-openapi.json")] {
        let document: Value = serde_json::from_str(&read(page)).expect("the committed document is JSON");
        calls(api, &document, &mut lines);
    }
    codes(&read("docs/contract.md"), &mut lines);
    settings(&read("config/default.toml"), &mut lines);
    commands(&read("docs/cli.md"), &mut lines);
    for word in read("docs/metrics.md").split(|letter: char| letter != '_' && !letter.is_ascii_alphanumeric())
    {
        if word.starts_with("minitill_") && word.len() > "minitill_".len() {
            lines.insert(format!("metric {word}"));
        }
    }
    lines
}

/// The calls of an API with the fields that each takes, and those of its successes.
fn calls(api: &str, document: &Value, lines: &mut BTreeSet<String>) {
    for (path, methods) in members(&document["paths"]) {
        for (method, call) in members(methods).filter(|(_, call)| call["operationId"].is_string()) {
            let call_line = format!("{api} {} {path}", method.to_uppercase());
            lines.insert(format!("call {call_line}"));
            for parameter in call["parameters"].as_array().into_iter().flatten() {
                let name = resolved(document, parameter)["name"].as_str().unwrap_or_default();
                lines.insert(format!("field {call_line} {name}"));
            }
            for (_, body) in members(&call["requestBody"]["content"]) {
                fields(document, &body["schema"], &format!("field {call_line} "), 0, lines);
            }
            for (_, answer) in members(&call["responses"]).filter(|(status, _)| status.starts_with('2')) {
                for (_, body) in members(&resolved(document, answer)["content"]) {
                    fields(document, &body["schema"], &format!("field {call_line} answers "), 0, lines);
                }
            }
        }
    }
    for (of, webhook) in members(&document["webhooks"]) {
        lines.insert(format!("event {of}"));
        for (_, body) in members(&webhook["post"]["requestBody"]["content"]) {
            fields(document, &body["schema"], &format!("field event {of} "), 0, lines);
        }
    }
}

/// The members of an object, also those that it has by references and alternatives.
fn fields(document: &Value, schema: &Value, before: &str, depth: usize, lines: &mut BTreeSet<String>) {
    let schema = resolved(document, schema);
    if depth > DEPTH_MAX {
        return;
    }
    for kind in ["allOf", "anyOf", "oneOf"] {
        for part in schema[kind].as_array().into_iter().flatten() {
            fields(document, part, before, depth + 1, lines);
        }
    }
    if schema["items"].is_object() {
        fields(document, &schema["items"], before, depth + 1, lines);
    }
    for (name, member) in members(&schema["properties"]) {
        lines.insert(format!("{before}{name}"));
        fields(document, member, &format!("{before}{name}."), depth + 1, lines);
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// The target of a reference.
pub(crate) fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str().and_then(|path| document.pointer(path.trim_start_matches('#'))) {
        Some(there) => resolved(document, there),
        None => value,
    }
}

/// The codes in the tables of the contract.
fn codes(contract: &str, lines: &mut BTreeSet<String>) {
    for line in contract.lines() {
        let Some(cell) = line.strip_prefix("| ").and_then(|rest| rest.split(" |").next()) else { continue };
        if (8..=9).contains(&cell.len()) && cell.bytes().all(|byte| byte.is_ascii_digit()) {
            lines.insert(format!("code {cell}"));
        }
    }
}

/// The settings with their sections.
fn settings(defaults: &str, lines: &mut BTreeSet<String>) {
    let mut section = "";
    for line in defaults.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        } else if let Some((key, _)) = line.split_once(" = ").filter(|(key, _)| !key.contains(['#', ' '])) {
            lines.insert(format!("setting {section}.{key}"));
        }
    }
}

/// The commands with their options.
fn commands(page: &str, lines: &mut BTreeSet<String>) {
    let mut command = "";
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            command = name;
            lines.insert(format!("command {command}"));
        } else if let Some(option) =
            line.trim_start().split("--").nth(1).filter(|_| line.trim_start().starts_with('-'))
        {
            let name = option.split([' ', '=', ',', '[']).next().unwrap_or_default();
            lines.insert(format!("command {command} --{name}"));
        }
    }
}
