//! `cargo xtask cut VERSION`: makes a version of what CHANGELOG.md has under Unreleased, and keeps what others rely on.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::command::{self, Failure};
use crate::surface::{RELEASES, lines};

const CHANGELOG: &str = "CHANGELOG.md";
const UPGRADING: &str = "docs/upgrading.md";
/// The kinds of changes, in the order of Keep a Changelog.
const KINDS: [&str; 6] = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];
const UNRELEASED: &str = "## [Unreleased]";

/// Cuts a version, as of the day that is named or of today (UTC).
pub(crate) fn run(arguments: &[&str]) -> Result<(), Failure> {
    let (version, day) = match arguments {
        [version] => ((*version).to_owned(), today()?),
        [version, day] => ((*version).to_owned(), (*day).to_owned()),
        _ => return Err(Failure::new("which version, and perhaps which day: 0.2.0 2027-01-31".to_owned())),
    };
    let text = read(CHANGELOG)?;
    let manifest = read("Cargo.toml")?;
    if !manifest.contains(&format!("\nversion = \"{version}\"\n")) {
        return Err(Failure::new(format!("Cargo.toml: expected version = \"{version}\"")));
    }
    if !read(UPGRADING)?.contains(&format!("\n## {version}\n")) {
        return Err(Failure::new(format!("{UPGRADING}: expected a section \"## {version}\"")));
    }
    let changelog = cut(&text, &version, &day).map_err(|why| Failure::new(format!("{CHANGELOG}: {why}")))?;
    let folder = format!("{RELEASES}/{version}");
    std::fs::create_dir_all(&folder).map_err(|error| Failure::new(format!("{folder}: {error}")))?;
    let surface: String = lines(|path| std::fs::read_to_string(path).unwrap_or_default())
        .into_iter()
        .fold(String::new(), |text, line| text + &line + "\n");
    write(&format!("{folder}/surface.txt"), &surface)?;
    write(CHANGELOG, &changelog)?;
    command::program("scripts/release-data", &[&format!("{folder}/data.sql")])?;
    println!("{CHANGELOG} has {version} of {day}; {folder} keeps what others rely on, and data");
    Ok(())
}

/// The file with what was unreleased as a version of this day. A section of this version without a day is joined to it.
fn cut(text: &str, version: &str, day: &str) -> Result<String, String> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if version.split('.').count() != 3 || !version.split('.').all(is_number) {
        return Err(format!("expected a version such as 0.2.0, got {version}"));
    }
    let is_day =
        day.len() == 10 && day.split('-').map(str::len).eq([4, 2, 2]) && day.split('-').all(is_number);
    if !is_day {
        return Err(format!("expected a day such as 2027-01-31, got {day}"));
    }
    if text.contains(&format!("\n## [{version}] - ")) {
        return Err(format!("{version} was cut before"));
    }
    let (head, rest) = text.split_once(UNRELEASED).ok_or("it has no section [Unreleased]")?;
    let (unreleased, mut others) = match rest.find("\n## [") {
        Some(end) => (&rest[..end], rest[end + 1..].to_owned()),
        None => (rest, String::new()),
    };
    let mut changes = kinds(unreleased)?;
    if changes.is_empty() {
        return Err("nothing is unreleased".to_owned());
    }
    if let Some(undated) = others.strip_prefix(&format!("## [{version}]\n")) {
        let end = undated.find("\n## [").map_or(undated.len(), |end| end + 1);
        for (kind, more) in kinds(&undated[..end])? {
            let lines = changes.entry(kind).or_default();
            *lines = format!("{}\n{}", lines.trim_end(), more.trim_start());
        }
        others = undated[end..].to_owned();
    }
    let mut made = format!("{head}{UNRELEASED}\n\n## [{version}] - {day}\n");
    for kind in KINDS {
        if let Some(lines) = changes.get(kind) {
            let _ = write!(made, "\n### {kind}\n\n{}\n", lines.trim());
        }
    }
    // Each version links to what its operators do.
    let link = format!("[{version}]: {UPGRADING}#{}", version.replace('.', ""));
    let body = format!("{made}\n{}", others.trim());
    let body = body.trim_end();
    let has_links = body.lines().last().is_some_and(|line| line.starts_with('['));
    Ok(format!("{body}{}{link}\n", if has_links { "\n" } else { "\n\n" }))
}

/// The lines of each kind.
fn kinds(section: &str) -> Result<BTreeMap<String, String>, String> {
    let mut kinds = BTreeMap::new();
    for part in section.split("\n### ").skip(1) {
        let (kind, lines) = part.split_once('\n').unwrap_or((part, ""));
        if !KINDS.contains(&kind) {
            return Err(format!("expected one of {}, got {kind}", KINDS.join(", ")));
        }
        if kinds.insert(kind.to_owned(), lines.trim().to_owned()).is_some() {
            return Err(format!("{kind} stands there twice"));
        }
    }
    Ok(kinds)
}

fn today() -> Result<String, Failure> {
    let printed = std::process::Command::new("date").args(["-u", "+%F"]).output();
    let printed = printed.map_err(|error| Failure::new(format!("date: {error}")))?;
    Ok(String::from_utf8_lossy(&printed.stdout).trim().to_owned())
}

fn read(path: &str) -> Result<String, Failure> {
    std::fs::read_to_string(Path::new(path)).map_err(|error| Failure::new(format!("{path}: {error}")))
}

fn write(path: &str, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| Failure::new(format!("{path}: {error}")))
}
