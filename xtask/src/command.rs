//! Programs that a task runs.

use std::fmt;
use std::process::{Command, Stdio};

/// Why a task ended early, for the person who started it.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The facts that Cargo gives a program about its package. Build scripts of some dependencies depend on
/// these variables. If they stayed set, these dependencies would compile again after each task.
const OF_THIS_PACKAGE: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// A program that has not run yet.
pub(crate) fn new(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments);
    for (variable, _) in std::env::vars_os() {
        let is_of_this_package = |start| variable.to_string_lossy().starts_with(start);
        if OF_THIS_PACKAGE.into_iter().any(is_of_this_package) {
            command.env_remove(&variable);
        }
    }
    command
}

/// Shows a command and runs it; it must succeed.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let shown = shown(command);
    eprintln!("+ {shown}");
    let status = command.status().map_err(|error| Failure::new(format!("{shown}: {error}")))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("failed: {shown}"))) }
}

pub(crate) fn program(name: &str, arguments: &[&str]) -> Result<(), Failure> {
    run(&mut new(name, arguments))
}

pub(crate) fn cargo(arguments: &[&str]) -> Result<(), Failure> {
    program("cargo", arguments)
}

/// The output of a Cargo command; it must succeed.
pub(crate) fn output(arguments: &[&str]) -> Result<Vec<u8>, Failure> {
    read(new("cargo", arguments))
}

/// The output of a command; it must succeed.
pub(crate) fn read(mut command: Command) -> Result<Vec<u8>, Failure> {
    let output = command.stderr(Stdio::inherit()).output();
    match output {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(_) => Err(Failure::new(format!("failed: {}", shown(&command)))),
        Err(error) => Err(Failure::new(format!("{}: {error}", shown(&command)))),
    }
}

pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
