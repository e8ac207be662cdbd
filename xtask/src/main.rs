//! `cargo xtask`: one entry for every task of a contributor.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

mod api_files;
mod changes;
mod ci;
mod command;
mod cut;
mod surface;

use std::path::Path;
use std::process::ExitCode;

use changes::Changes;
use ci::Tier;
use command::{Failure, cargo, program};

/// A task: its name, its arguments, what it does.
type Task = (&'static str, &'static str, &'static str, fn(&[&str]) -> Result<(), Failure>);

const TASKS: [Task; 12] = [
    ("quick", "[FILTER]", "formatting, rules of the repository, lints and tests of what changed", quick),
    ("test", "[FILTER]", "every test: README's command", test),
    ("lint", "", "formatting and clippy on everything", |_| lint()),
    ("prepare", "[--check]", "write .sqlx again from the queries and the migrations", prepare),
    ("docs", "", "the documentation of the code; a warning is an error", |_| docs()),
    (
        "generate",
        "[--check]",
        "write the OpenAPI documents, docs/cli.md, docs/tools, .sqlx and checksums of new migrations",
        generate,
    ),
    ("tools", "", "write docs/tools again, from the committed documents", |_| api_files(false).map(drop)),
    ("bench", "[NAME] [-- ARGUMENTS]", "the benchmarks: exchange, allocations, images, audit", bench),
    ("proofs", "[--short] [NAME... | all]", "the slow proofs; without a name, list them", proofs),
    ("cut", "VERSION [DAY]", "make a version of what CHANGELOG.md has under Unreleased", cut::run),
    ("release", "[--key KEY] [--program PROGRAM]", "the files of a release, in target/packages", release),
    ("ci", "[quick]", "all that must hold before a change lands, or the quick part of it", ci),
];

/// What is generated: the file, and the arguments of the program that prints it.
const GENERATED: [(&str, &[&str]); 3] = [
    ("docs/openapi.json", &["openapi"]),
    ("docs/admin-openapi.json", &["openapi", "--admin"]),
    ("docs/cli.md", &["help-page"]),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let task = arguments.first().and_then(|name| TASKS.iter().find(|task| task.0 == *name));
    let Some((_, _, _, run)) = task else {
        println!("cargo xtask TASK\n");
        for (name, arguments, help, _) in TASKS {
            println!("  {:<34} {help}", format!("{name} {arguments}"));
        }
        return if arguments.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) };
    };
    // Every path below is one from the top of the repository. `cargo run` tells it: clones that share a
    // target folder share this program too.
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let top = Path::new(&folder).parent().expect("xtask lies in the repository");
    let ran = std::env::set_current_dir(top).map_err(|error| Failure::new(error.to_string()));
    match ran.and_then(|()| run(&arguments[1..])) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("cargo xtask {}: {failure}", arguments.join(" "));
            ExitCode::FAILURE
        }
    }
}

/// The loop: what can be known in a minute about what changed against `main`.
fn quick(arguments: &[&str]) -> Result<(), Failure> {
    let changes = Changes::read()?;
    cargo(&["fmt", "--all", "--check"])?;
    rules()?;
    let named = |without: &str| -> Vec<&str> {
        let names = changes.packages.iter().filter(|name| *name != without);
        names.flat_map(|name| ["--package", name]).collect()
    };
    let (linted, tested) = (named(""), named("xtask"));
    // The testkit has no tests of its own and depends on every crate. With it, Cargo gives each dependency
    // the features that it has in the whole workspace, and compiles none a second time.
    let all_features: &[&str] = &["--package", "testkit"];
    if !linted.is_empty() {
        let clippy: &[&str] = &["clippy", "--locked", "--all-targets"];
        cargo(&[clippy, all_features, &*linted, &["--", "-D", "warnings"]].concat())?;
    }
    if !tested.is_empty() {
        // The service's tests of the API take long: only those whose files changed, and those asked for.
        let is_service = changes.packages.contains("minitill");
        let targets: &[&str] = if is_service { &["--lib", "--bins"] } else { &["--tests"] };
        cargo(&[&["test", "--locked"], targets, all_features, &*tested].concat())?;
    }
    let api = changes.api_tests.iter().map(String::as_str).chain(arguments.iter().copied());
    let api: Vec<&str> = api.collect();
    if !api.is_empty() {
        let command = ["test", "--locked", "--package", "minitill", "--test", "api", "--"];
        cargo(&[&command, &*api].concat())?;
    }
    Ok(())
}

fn test(arguments: &[&str]) -> Result<(), Failure> {
    cargo(&[&["test", "--locked"], arguments].concat())
}

/// The rules that `tests/house` holds.
fn rules() -> Result<(), Failure> {
    cargo(&["test", "--locked", "--quiet", "--package", "xtask"])
}

fn lint() -> Result<(), Failure> {
    cargo(&["fmt", "--all", "--check"])?;
    clippy()
}

fn clippy() -> Result<(), Failure> {
    cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    // The proofs are no part of `cargo test`, nor of `--all-targets`.
    cargo(&["clippy", "--locked", "--package", "minitill", "--test", "proofs", "--", "-D", "warnings"])
}

fn prepare(arguments: &[&str]) -> Result<(), Failure> {
    program("scripts/sqlx-prepare", arguments)
}

fn docs() -> Result<(), Failure> {
    command::run(
        command::new("cargo", &["doc", "--locked", "--workspace", "--no-deps", "--quiet"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

fn generate(arguments: &[&str]) -> Result<(), Failure> {
    let is_check = arguments.contains(&"--check");
    prepare(arguments)?;
    let mut stale: Vec<String> = Vec::new();
    for (file, print) in GENERATED {
        let printed = command::output(&[&["run", "--quiet", "--locked", "--"], print].concat())?;
        let path = Path::new(file);
        if std::fs::read(path).is_ok_and(|known| known == printed) {
            continue;
        }
        if is_check {
            stale.push(file.to_owned());
        } else {
            std::fs::write(path, printed).map_err(|error| Failure::new(format!("{file}: {error}")))?;
            println!("wrote {file}");
        }
    }
    stale.extend(api_files(is_check)?);
    stale.extend(checksums(is_check)?);
    if stale.is_empty() { Ok(()) } else { Err(Failure::new(format!("stale: {}", stale.join(", ")))) }
}

/// Writes the files that are made of the OpenAPI documents, or names those that are stale.
fn api_files(is_check: bool) -> Result<Vec<String>, Failure> {
    let read = |path: &str| {
        let text = std::fs::read_to_string(path).map_err(|error| Failure::new(format!("{path}: {error}")))?;
        serde_json::from_str(&text).map_err(|error| Failure::new(format!("{path}: {error}")))
    };
    let (public, admin) = (read("docs/openapi.json")?, read("docs/admin-openapi.json")?);
    let mut stale = Vec::new();
    for (name, text) in api_files::files(&public, &admin) {
        let path = Path::new(api_files::FOLDER).join(name);
        if std::fs::read_to_string(&path).is_ok_and(|known| known == text) {
            continue;
        }
        if is_check {
            stale.push(path.display().to_string());
        } else {
            let written = std::fs::create_dir_all(path.parent().unwrap_or(&path));
            let written = written.and_then(|()| std::fs::write(&path, text));
            written.map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
            println!("wrote {}", path.display());
        }
    }
    Ok(stale)
}

/// The names of all migrations.
fn migrations() -> std::io::Result<Vec<String>> {
    let files = std::fs::read_dir("migrations")?.flatten();
    let files = files.filter(|file| file.path().extension().is_some_and(|ending| ending == "sql"));
    Ok(files.map(|file| file.file_name().to_string_lossy().into_owned()).collect())
}

/// Lists the checksums of migrations that have none yet. What is listed stays: `cargo xtask ci` compares it.
fn checksums(is_check: bool) -> Result<Option<String>, Failure> {
    const LIST: &str = "migrations/SHA256SUMS";
    let failed = |error: std::io::Error| Failure::new(format!("{LIST}: {error}"));
    let mut list = std::fs::read_to_string(LIST).map_err(failed)?;
    let mut names = migrations().map_err(failed)?;
    names.retain(|name| !list.contains(&format!("  {name}\n")));
    names.sort_unstable();
    if names.is_empty() || is_check {
        return Ok((!names.is_empty()).then(|| LIST.to_owned()));
    }
    let mut sums = command::new("sha256sum", &names.iter().map(String::as_str).collect::<Vec<_>>());
    sums.current_dir("migrations");
    list += &String::from_utf8_lossy(&command::read(sums)?);
    std::fs::write(LIST, list).map_err(failed)?;
    println!("wrote {LIST}");
    Ok(None)
}

fn bench(arguments: &[&str]) -> Result<(), Failure> {
    let (names, others) = arguments
        .split_at(arguments.iter().position(|argument| *argument == "--").unwrap_or(arguments.len()));
    let names = if names.is_empty() { &["exchange", "allocations", "images", "audit"] } else { names };
    for name in names {
        cargo(&[&["bench", "--locked", "--bench", name], others].concat())?;
    }
    Ok(())
}

fn proofs(arguments: &[&str]) -> Result<(), Failure> {
    let is_named = arguments.iter().any(|argument| !argument.starts_with('-'));
    let arguments: Vec<&str> = arguments.iter().copied().filter(|argument| *argument != "all").collect();
    program("tests/proofs/run", if is_named { &arguments } else { &["--list"] })
}

fn release(arguments: &[&str]) -> Result<(), Failure> {
    program("scripts/release", arguments)
}

fn ci(arguments: &[&str]) -> Result<(), Failure> {
    ci::run(if arguments == ["quick"] { Tier::Quick } else { Tier::Full })
}
