//! The pages that a newcomer reads first stay short, and links between pages lead somewhere.

use std::path::Path;

use regex_lite::Regex;

use crate::sources::{read, repository, texts};

#[test]
fn the_first_pages_have_at_most_200_lines() {
    for page in ["README.md", "ARCHITECTURE.md"] {
        let lines = read(page).lines().count();
        assert!(lines <= 200, "{page} has {lines} lines");
    }
}

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let mut broken = Vec::new();
    for path in texts().into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "md")) {
        for found in link.captures_iter(&read(&path)) {
            let target = &found[1];
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() {
                path.clone()
            } else {
                path.parent().unwrap_or(Path::new("")).join(file)
            };
            let leads = repository().join(&file).exists()
                && (anchor.is_empty() || anchors(&read(&file)).iter().any(|known| known == anchor));
            if !leads {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

/// Numbers of decisions that were never given to one.
const UNUSED_DECISIONS: [u32; 5] = [43, 53, 54, 67, 68];

#[test]
fn the_list_of_decisions_has_every_page_in_the_order_of_numbers() {
    let page = read("docs/decisions/README.md");
    let number = |text: &str| text.get(..4)?.parse::<u32>().ok();
    let listed: Vec<u32> = page.lines().filter_map(|line| number(line.strip_prefix("| [")?)).collect();
    let folder = repository().join("docs/decisions").read_dir().unwrap();
    let mut kept: Vec<u32> =
        folder.filter_map(|entry| number(&entry.unwrap().file_name().to_string_lossy())).collect();
    kept.sort_unstable();
    assert_eq!(listed, kept, "docs/decisions/README.md lists other pages, or in another order");
    let unused = (1..=*kept.last().unwrap()).filter(|number| !kept.contains(number));
    assert_eq!(unused.collect::<Vec<u32>>(), UNUSED_DECISIONS, "a decision is marked as replaced, and stays");
}

/// Contract 14: the pages that are in both languages have the same headings, and lead to each other.
#[test]
fn a_page_in_two_languages_has_every_heading_in_both() {
    for (english, chinese) in [
        ("README.md", "README.zh-CN.md"),
        ("docs/api.md", "docs/api.zh-CN.md"),
        ("docs/notifications.md", "docs/notifications.zh-CN.md"),
        ("docs/runbook.md", "docs/runbook.zh-CN.md"),
        ("docs/operators.md", "docs/operators.zh-CN.md"),
        ("docs/reports.md", "docs/reports.zh-CN.md"),
    ] {
        let (one, other) = (headings(&read(english)), headings(&read(chinese)));
        for (place, (heading, twin)) in one.iter().zip(&other).enumerate() {
            let level = |heading: &str| heading.chars().take_while(|letter| *letter == '#').count();
            assert_eq!(
                level(heading),
                level(twin),
                "heading {place}: {english} has {heading:?}, {chinese} {twin:?}"
            );
        }
        assert_eq!(one.len(), other.len(), "{english} has {one:#?}, {chinese} has {other:#?}");
        let name = |page: &str| page.rsplit('/').next().unwrap().to_owned();
        assert!(read(english).contains(&format!("[简体中文]({})", name(chinese))), "{english}");
        assert!(read(chinese).contains(&format!("[English]({})", name(english))), "{chinese}");
    }
}

/// The headings of a page, without what stands in its code.
fn headings(page: &str) -> Vec<String> {
    let mut is_code = false;
    let mut headings = Vec::new();
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        if !is_code && line.starts_with('#') {
            headings.push(line.to_owned());
        }
    }
    headings
}

/// The anchors of a page's headings, as forges make them.
fn anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter_map(|line| line.strip_prefix('#'));
    let texts = headings.map(|heading| heading.trim_start_matches('#').trim().to_lowercase());
    let anchor = |text: String| -> String {
        let kept = text.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
        kept.map(|char| if char == ' ' { '-' } else { char }).collect()
    };
    texts.map(anchor).collect()
}
