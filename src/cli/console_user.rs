//! `minitill console-user ...` keeps the users of the console.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};

use clap::Subcommand;
use domain::console_user::{ConsoleUserName, NewPassword, PASSWORD_BYTES_MAX, Role};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::json;
use store::secrets::PasswordHash;
use store::{ConsoleUser, ConsoleUserChange, Store};

use super::output::{prompt, rfc3339, table};
use super::{Context, Failure};

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
    /// Set a new password for a user; this ends the lock and all sessions of the user
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
    /// Unlock a user who is locked after ten wrong passwords
    Unlock {
        /// Name of the user
        name: ConsoleUserName,
    },
    /// Remove a user; this ends all sessions of the user
    Remove {
        /// Name of the user
        name: ConsoleUserName,
    },
}

pub(super) async fn run(
    context: &Context,
    store: &Store,
    command: ConsoleUserCommand,
) -> Result<(), Failure> {
    let operator = &context.operator;
    match command {
        ConsoleUserCommand::Add { name, role } => add(context, store, &name, role).await,
        ConsoleUserCommand::List => list(context, store).await,
        ConsoleUserCommand::SetPassword { name } => {
            let password = hash(&new_password()?)?;
            known(
                store.change_console_user(operator, &name, ConsoleUserChange::Password(password)).await?,
                &name,
            )?;
            say(context, &name, "has a new password. All sessions have ended.")
        }
        ConsoleUserCommand::SetRole { name, role } => {
            known(store.change_console_user(operator, &name, ConsoleUserChange::Role(role)).await?, &name)?;
            let text = format!("has the role {} now. Sessions with another role have ended.", role.as_str());
            context.output.print(&json!({ "name": name, "role": role }), || format!("{name} {text}"))
        }
        ConsoleUserCommand::Unlock { name } => {
            known(store.change_console_user(operator, &name, ConsoleUserChange::Unlock).await?, &name)?;
            say(context, &name, "can sign in.")
        }
        ConsoleUserCommand::Remove { name } => {
            known(store.change_console_user(operator, &name, ConsoleUserChange::Remove).await?, &name)?;
            say(context, &name, "is removed. All sessions have ended.")
        }
    }
}

async fn add(context: &Context, store: &Store, name: &ConsoleUserName, role: Role) -> Result<(), Failure> {
    let taken = || {
        Failure(format!("there is already a user {name}; to change the user, run set-password or set-role"))
    };
    if store.console_users().await?.iter().any(|user| user.name == name.as_str()) {
        return Err(taken());
    }
    let password = hash(&new_password()?)?;
    if !store.add_console_user(&context.operator, name, role, password).await? {
        return Err(taken());
    }
    let url = format!("{}/console", context.config.ops.base_url());
    context.output.print(&json!({ "name": name, "role": role, "console": url }), || {
        format!("{name} can sign in at {url} with the role {}.", role.as_str())
    })
}

async fn list(context: &Context, store: &Store) -> Result<(), Failure> {
    let users = store.console_users().await?;
    context.output.print(&json!({ "users": users }), || {
        if users.is_empty() {
            return "There are no users. To add one, run `minitill console-user add NAME --role admin`."
                .to_owned();
        }
        let heading = ["name", "role", "sessions", "failed attempts", "locked until", "created at"];
        table(&heading, users.iter().map(row))
    })
}

fn row(user: &ConsoleUser) -> Vec<String> {
    vec![
        user.name.clone(),
        user.role.clone(),
        user.sessions.to_string(),
        user.failed_attempts.to_string(),
        user.locked_until.map(rfc3339).unwrap_or_default(),
        rfc3339(user.created_at),
    ]
}

fn known(is_known: bool, name: &ConsoleUserName) -> Result<(), Failure> {
    let unknown =
        || Failure(format!("there is no user {name}; to list all users, run `minitill console-user list`"));
    is_known.then_some(()).ok_or_else(unknown)
}

fn say(context: &Context, name: &ConsoleUserName, text: &str) -> Result<(), Failure> {
    context.output.print(&json!({ "name": name }), || format!("{name} {text}"))
}

fn hash(password: &NewPassword) -> Result<PasswordHash, Failure> {
    PasswordHash::of(password).map_err(|fault| Failure(fault.to_string()))
}

/// A new password: on a terminal the user types it twice, otherwise it is one line of standard input.
fn new_password() -> Result<NewPassword, Failure> {
    let typed = if io::stdin().is_terminal() {
        let typed = ask("Password (12 characters or more): ")?;
        if ask("Repeat the password: ")? != typed {
            return Err(Failure::new("the two passwords are different; nothing was changed"));
        }
        typed
    } else {
        read_line()?
    };
    NewPassword::parse(&typed).map_err(|expected| Failure(format!("password: expected {}", expected.0)))
}

/// Asks on the terminal, without showing the answer.
fn ask(question: &str) -> Result<String, Failure> {
    prompt(question)?;
    let terminal = io::stdin();
    let shown = tcgetattr(&terminal).map_err(io::Error::from)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    hidden.local_modes.insert(LocalModes::ECHONL);
    tcsetattr(&terminal, OptionalActions::Flush, &hidden).map_err(io::Error::from)?;
    let typed = read_line();
    tcsetattr(&terminal, OptionalActions::Now, &shown).map_err(io::Error::from)?;
    typed
}

/// Reads one line without its line end. A line that is too long is cut, and still refused.
fn read_line() -> Result<String, Failure> {
    let mut line = String::new();
    let longest = u64::try_from(PASSWORD_BYTES_MAX + 2).unwrap_or(u64::MAX);
    io::stdin().lock().take(longest).read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
