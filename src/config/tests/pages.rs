//! Settings that pages and examples name.

use regex_lite::Regex;

use crate::config::DEFAULTS;

/// The pages for people, and the files that start a server.
fn documents() -> Vec<std::path::PathBuf> {
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![top.join("docs"), top.join("deploy")];
    let mut found: Vec<_> = ["README.md", "ARCHITECTURE.md", "Dockerfile"].map(|name| top.join(name)).into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if path.is_dir() {
                folders.push(path);
            } else if matches!(ending, "md" | "yaml" | "yml" | "service") {
                found.push(path);
            }
        }
    }
    found
}

/// The settings that a text names, as `section.key` or by their environment variables.
fn settings_named_in(text: &str) -> Vec<String> {
    let settings: toml::Table = toml::from_str(DEFAULTS).unwrap();
    let sections = settings.keys().cloned().collect::<Vec<_>>().join("|");
    let setting = Regex::new(&format!(r"`({sections})\.([a-z0-9_]+)")).unwrap();
    let variable = Regex::new(r"MINITILL_([A-Z0-9]+(?:_[A-Z0-9]+)*)__([A-Z0-9_]+)").unwrap();
    let found = setting.captures_iter(text).chain(variable.captures_iter(text));
    // The name of a Rust file is no setting.
    found
        .filter(|found| &found[2] != "rs")
        .map(|found| format!("{}.{}", found[1].to_lowercase(), found[2].to_lowercase()))
        .collect()
}

/// The settings of a file.
fn settings_in(file: &str) -> Vec<String> {
    let file: toml::Table = toml::from_str(file).unwrap();
    let keys = |(section, keys): (&String, &toml::Value)| {
        let keys = keys.as_table().unwrap().keys();
        keys.map(|key| format!("{section}.{key}")).collect::<Vec<_>>()
    };
    file.iter().flat_map(keys).collect()
}

/// A setting that a document names is one of config/default.toml, and so is one that it names by its
/// environment variable.
#[test]
fn every_setting_that_a_document_names_exists() {
    use domain::event::EventType;

    /// Names that look like settings: attributes of traces, and types of events.
    const OTHERS: [&str; 11] = [
        "http.request",
        "http.response",
        "http.route",
        EventType::ExchangeSucceeded.as_str(),
        EventType::OrderChanged.as_str(),
        EventType::ImageBlocked.as_str(),
        EventType::TopupPaid.as_str(),
        EventType::TopupUnmatched.as_str(),
        EventType::TopupRefunded.as_str(),
        EventType::TopupRefundRefused.as_str(),
        EventType::WalletDebtChanged.as_str(),
    ];
    let settings = settings_in(DEFAULTS);
    let (mut named, mut unknown) = (0, Vec::new());
    for path in documents() {
        for name in settings_named_in(&std::fs::read_to_string(&path).unwrap()) {
            if OTHERS.contains(&name.as_str()) {
                continue;
            }
            named += 1;
            if !settings.contains(&name) {
                unknown.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(named > 60, "only {named} names were found");
    assert!(unknown.is_empty(), "config/default.toml has no such setting: {unknown:?}");
}

/// An operator finds each setting on a page of docs, by its name or in an example of a settings file. The contract
/// has rules, and decisions are of the past.
#[test]
fn every_setting_is_named_on_a_page() {
    let example = Regex::new(r"(?s)```toml\n(.*?)```").unwrap();
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let others = ["contract.md", "operators-contract.md", "decisions"].map(|name| docs.join(name));
    let is_page = |path: &std::path::PathBuf| {
        path.starts_with(&docs) && !others.iter().any(|other| path.starts_with(other))
    };
    let mut named = Vec::new();
    for path in documents().into_iter().filter(is_page) {
        let page = std::fs::read_to_string(path).unwrap();
        named.extend(settings_named_in(&page));
        named.extend(example.captures_iter(&page).flat_map(|found| settings_in(&found[1])));
    }
    let unnamed: Vec<_> = settings_in(DEFAULTS).into_iter().filter(|name| !named.contains(name)).collect();
    assert!(unnamed.is_empty(), "no page of docs says what these are for: {unnamed:?}");
}
