//! `cargo xtask ci`: all that must hold before a change lands, step by step, with the time of each.

use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Instant;

use crate::command::{self, Failure, cargo, program};

/// The quick tier is the beginning of the full one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    Quick,
    Full,
}

type CiStep = (&'static str, fn() -> Result<(), Failure>);

const QUICK: [CiStep; 7] = [
    ("formatting", || cargo(&["fmt", "--all", "--check"])),
    ("migrations that were shipped are unchanged", migrations),
    ("dependencies: licences, banned crates, sources (deny.toml)", || {
        program("scripts/check-dependencies", &[])
    }),
    ("dependencies: advisories", advisories),
    ("dependencies: the lock file of the fuzz targets", || {
        cargo(&["tree", "--quiet", "--locked", "--depth", "0", "--manifest-path", "fuzz/Cargo.toml"])
    }),
    ("rules of the repository", super::rules),
    ("lints", super::clippy),
];

const FULL: [CiStep; 3] = [
    ("SQL checks are fresh", || super::prepare(&["--check"])),
    ("documentation", super::docs),
    ("build of the tests", || cargo(&["test", "--locked", "--no-run", "--quiet"])),
];

/// Runs the steps up to the first that fails. The tests come last, and the last line counts them.
pub(crate) fn run(tier: Tier) -> Result<(), Failure> {
    let started = Instant::now();
    let mut times = Vec::new();
    let mut perform = |name, step: &mut dyn FnMut() -> Result<(), Failure>| {
        println!("\n== {name}");
        let started = Instant::now();
        step()?;
        times.push((name, started.elapsed()));
        Ok::<_, Failure>(())
    };
    for (name, mut step) in QUICK {
        perform(name, &mut step)?;
    }
    let mut counts = None;
    if tier == Tier::Full {
        for (name, mut step) in FULL {
            perform(name, &mut step)?;
        }
        perform("tests (README's command)", &mut || {
            counts = Some(tests()?);
            Ok(())
        })?;
    }
    println!("\n== all checks passed");
    for (name, took) in &times {
        println!("{:>7.1} s  {name}", took.as_secs_f64());
    }
    println!("{:>7.1} s  in all", started.elapsed().as_secs_f64());
    if let Some(counts) = counts {
        println!("{counts}");
    }
    Ok(())
}

/// Every migration is listed with its checksum, and the list itself only grows.
fn migrations() -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("migrations: {error}"));
    command::run(
        command::new("sha256sum", &["--check", "--strict", "SHA256SUMS"]).current_dir("migrations"),
    )?;
    let files = super::migrations().map_err(failed)?;
    let listed = std::fs::read_to_string("migrations/SHA256SUMS").map_err(failed)?;
    if files.len() == listed.lines().count() {
        Ok(())
    } else {
        Err(Failure::new("migrations/SHA256SUMS does not list every migration"))
    }
}

fn advisories() -> Result<(), Failure> {
    let succeeds = |arguments: &[&str]| {
        let mut command = command::new("cargo", arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !succeeds(&["deny", "--version"]) {
        println!("skipped: cargo-deny is not installed (cargo install --locked cargo-deny)");
        Ok(())
    } else if !succeeds(&["deny", "fetch", "db"]) {
        println!("skipped: the advisory database cannot be fetched from here");
        Ok(())
    } else {
        cargo(&["deny", "check", "--disable-fetch", "advisories"])
    }
}

/// The counts of all test programs together.
#[derive(Debug, Default)]
struct TestCounts {
    passed: usize,
    failed: usize,
    ignored: usize,
}

impl fmt::Display for TestCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} passed, {} failed, {} ignored", self.passed, self.failed, self.ignored)
    }
}

impl TestCounts {
    /// Adds the last line of one test program: `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
    fn add(&mut self, line: &str) {
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for count in counts.split("; ") {
            let Some((number, what)) = count.split_once(' ') else { continue };
            let Ok(number) = number.parse::<usize>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

/// The command that README gives, as it stands there.
fn tests() -> Result<TestCounts, Failure> {
    let failed = |error: std::io::Error| Failure::new(error.to_string());
    let readme = std::fs::read_to_string("README.md").map_err(failed)?;
    let (_, rest) = readme.split_once("<!-- test command -->").unwrap_or_default();
    let line = rest.lines().find(|line| line.starts_with("cargo "));
    let line = line.ok_or_else(|| Failure::new("README.md gives no test command"))?;
    println!("{line}");
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut child = command::new(words[0], &words[1..]).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut counts = TestCounts::default();
    for line in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
        let line = line.map_err(failed)?;
        counts.add(&line);
        println!("{line}");
    }
    if child.wait().map_err(failed)?.success() { Ok(counts) } else { Err(Failure::new(counts.to_string())) }
}
