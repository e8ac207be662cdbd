//! `minitill console-user ...` keeps the users of the console.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use anyhow::{Result, anyhow, ensure};
use clap::Subcommand;
use domain::console_user::{ConsoleUserName, NewPassword, PASSWORD_BYTES_MAX, Role};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::{Value, json};
use store::secrets::PasswordHash;
use store::{ConsoleUserChange as Change, Store};

use super::Context;

#[derive(Debug, Subcommand)]
pub(super) enum ConsoleUserCommand {
    /// Add a user; the command asks for the password, or reads one line from standard input
    Add {
        /// Name for the sign-in: a-z, 0-9, '.', '_', '@' and '-'
        name: ConsoleUserName,
        /// viewer or admin; a viewer cannot change anything, and does not see players' IP addresses and
        /// blocked pictures
        #[arg(long)]
        role: Role,
    },
    /// List all users
    List,
    /// Set a new password for a user; this ends all waits and all sessions of the user
    SetPassword {
        /// Name of the user
        name: ConsoleUserName,
    },
    /// Set the role of a user; this ends all sessions of the user
    SetRole {
        /// Name of the user
        name: ConsoleUserName,
        /// New role: viewer or admin
        role: Role,
    },
    /// Let every address sign in again that waits after ten wrong passwords
    Unlock {
        /// Name of the user
        name: ConsoleUserName,
    },
    /// Reset the second factor of a user who lost it; this ends all sessions of the user
    ResetSecondFactor {
        /// Name of the user
        name: ConsoleUserName,
    },
    /// Remove a user; this ends all sessions of the user
    Remove {
        /// Name of the user
        name: ConsoleUserName,
    },
}

pub(super) async fn run(context: &Context, store: &Store, command: ConsoleUserCommand) -> Result<()> {
    let (operator, output) = (&context.operator, &context.output);
    let changed = |is_known: bool, name: &ConsoleUserName, value: Value, done: &str| {
        ensure!(is_known, "there is no user {name}; to list all users, run `minitill console-user list`");
        output.print(&value, format!("{name} {done}"))
    };
    match command {
        ConsoleUserCommand::Add { name, role } => add(context, store, &name, role).await,
        ConsoleUserCommand::List => {
            let columns = [
                "name",
                "role",
                "sessions",
                "has_second_factor",
                "failed_attempts",
                "locked_until",
                "created_at",
            ];
            let none = "There are no users. To add one, run `minitill console-user add NAME --role admin`.";
            output.list("users", &store.console_users().await?, &columns, none)
        }
        ConsoleUserCommand::SetPassword { name } => {
            let users = store.console_users().await?;
            let provider = users
                .iter()
                .find(|user| user.name == name.as_str())
                .and_then(|user| user.oidc_issuer.as_ref());
            ensure!(provider.is_none(), "{name} signs in by OpenID Connect and has no password here");
            let is_known =
                store.change_console_user(operator, &name, Change::Password(new_password(&name)?)).await?;
            let done = "has a new password. All sessions have ended.";
            changed(is_known, &name, json!({ "name": name }), done)
        }
        ConsoleUserCommand::SetRole { name, role } => {
            let is_known = store.change_console_user(operator, &name, Change::Role(role)).await?;
            let done = format!("has the role {role} now. Sessions with another role have ended.");
            changed(is_known, &name, json!({ "name": name, "role": role }), &done)
        }
        ConsoleUserCommand::Unlock { name } => {
            let is_known = store.change_console_user(operator, &name, Change::Unlock).await?;
            changed(is_known, &name, json!({ "name": name }), "can sign in.")
        }
        ConsoleUserCommand::ResetSecondFactor { name } => {
            let is_known = store.change_console_user(operator, &name, Change::ResetSecondFactor).await?;
            changed(is_known, &name, json!({ "name": name }), "signs in without a second factor.")
        }
        ConsoleUserCommand::Remove { name } => {
            let is_known = store.change_console_user(operator, &name, Change::Remove).await?;
            changed(is_known, &name, json!({ "name": name }), "is removed. All sessions have ended.")
        }
    }
}

async fn add(context: &Context, store: &Store, name: &ConsoleUserName, role: Role) -> Result<()> {
    let taken =
        || anyhow!("there is already a user {name}; to change the user, run set-password or set-role");
    if store.console_users().await?.iter().any(|user| user.name == name.as_str()) {
        return Err(taken());
    }
    if !store.add_console_user(&context.operator, name, role, new_password(name)?).await? {
        return Err(taken());
    }
    let url = format!("{}/console", context.config.ops.base_url());
    let value = json!({ "name": name, "role": role, "console": url });
    context.output.print(&value, format!("{name} can sign in at {url} with the role {role}."))
}

/// The hash of a new password: on a terminal the user types it twice, otherwise it is one line of standard
/// input.
fn new_password(name: &ConsoleUserName) -> Result<PasswordHash> {
    let typed = if io::stdin().is_terminal() {
        let typed = ask("Password (12 characters or more): ")?;
        let repeated = ask("Repeat the password: ")?;
        ensure!(repeated == typed, "the two passwords are different; nothing was changed");
        typed
    } else {
        read_line()?
    };
    let password = NewPassword::parse(&typed, name).map_err(|expected| anyhow!("password: {expected}"))?;
    Ok(PasswordHash::of(&password)?)
}

/// Asks on the terminal, without showing the answer.
fn ask(question: &str) -> io::Result<String> {
    // Standard output is for the result.
    io::stderr().write_all(question.as_bytes())?;
    let terminal = io::stdin();
    let shown = tcgetattr(&terminal)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    hidden.local_modes.insert(LocalModes::ECHONL);
    tcsetattr(&terminal, OptionalActions::Flush, &hidden)?;
    let typed = read_line();
    tcsetattr(&terminal, OptionalActions::Now, &shown)?;
    typed
}

/// Reads one line without its line end. A line that is too long is cut, and still refused.
fn read_line() -> io::Result<String> {
    let mut line = String::new();
    let longest = u64::try_from(PASSWORD_BYTES_MAX + 2).unwrap_or(u64::MAX);
    io::stdin().lock().take(longest).read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
