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
