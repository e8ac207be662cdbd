//! The page `docs/cli.md`, manual pages and completions for shells, all from the definition of the
//! commands.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::{Args, Command};
use clap_complete::Shell;

use super::output::write_out;

const HEAD: &str = "\
# Command line

This page lists every command of `minitill` with its arguments. It is generated from the program's
own help: `cargo xtask generate` writes it again.

[config/default.toml](../config/default.toml) lists the settings. The exit code is 0 for success, 1
for a failure and 2 for wrong usage. The program prints a failure to standard error, on one line.
";

#[derive(Debug, Args)]
pub(super) struct CompletionsArguments {
    /// The shell that reads them
    shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManArguments {
    /// The folder; it is made if it does not exist
    folder: PathBuf,
}

/// Writes a manual page for each command.
pub(super) fn write_manual(command: Command, arguments: &ManArguments) -> Result<()> {
    let folder = &arguments.folder;
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command.disable_help_subcommand(true), folder))
        .map_err(|error| anyhow!("{}: {error}", folder.display()))
}

/// Prints completions for a shell.
pub(super) fn complete(mut command: Command, arguments: &CompletionsArguments) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "minitill", &mut script);
    write_out(|out| out.write_all(&script))
}

/// Prints the page.
pub(super) fn run(command: Command) -> Result<()> {
    write_out(|out| out.write_all(page(command).as_bytes()))
}

fn page(command: Command) -> String {
    // As wide as a terminal of the usual size, wherever it is generated.
    let mut command = command.term_width(100).disable_help_flag(true).disable_help_subcommand(true);
    command.build();
    let mut page = HEAD.to_owned();
    add(&mut page, &mut command, true);
    page
}

/// Adds the help of a command, then that of its own commands.
fn add(page: &mut String, command: &mut Command, is_top: bool) {
    let name = command.get_bin_name().unwrap_or("minitill").to_owned();
    // What every command takes stands once.
    let mut shown = if is_top {
        command.clone()
    } else {
        command.clone().mut_args(|argument| {
            let is_global = argument.is_global_set();
            argument.hide(is_global)
        })
    };
    let help = shown.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    // A string never fails to be written to.
    let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", help.join("\n").trim_end());
    for inner in command.get_subcommands_mut().filter(|inner| !inner.is_hide_set()) {
        add(page, inner, false);
    }
}
