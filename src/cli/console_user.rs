//! `minitill console-user ...` keeps the users of the console.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use anyhow::{Result, anyhow, ensure};
use clap::{Args, Subcommand};
use domain::console_user::{ConsoleUserName, NewPassword, PASSWORD_BYTES_MAX, PasswordHash, Role};
use domain::ids::AppId;
use domain::operation::user::{UserCommand, of_a_provider, unknown_own_app, user_taken};
use domain::rights::{Apps, Rights};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::{Value, json};
use store::Store;
use store::secrets::hash_password;

use super::{Context, not_done, refused};

/// The apps that a user or a key is for.
#[derive(Debug, Args)]
pub(super) struct OwnApps {
    /// App that the user or key may access; repeat it for each app [default: all apps]
    #[arg(long = "app", value_name = "APP_ID")]
    apps: Vec<AppId>,
}

impl OwnApps {
    /// The rights with this role. Each app must be there.
    pub(super) async fn with(self, role: Role, store: &Store) -> Result<Rights> {
        let apps = Apps::of(self.apps).map_err(|expected| anyhow!("--app: {expected}"))?;
        if let Some(app_id) = store.first_unknown_app(&apps).await? {
            return Err(refused(unknown_own_app(app_id)));
        }
        Ok(Rights { role, apps })
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum ConsoleUserCommand {
    /// Add a user; the command asks for the password, or reads one line from standard input
    Add {
        /// Name for the sign-in: a-z, 0-9, '.', '_', '@' and '-'
        name: ConsoleUserName,
        /// viewer reads; support also gives exchanges back, finance also reads reports, payments also tells of payments,
        /// developer also changes keys, packages, receivers and settings of apps; only an admin changes all else and
        /// sees players' IP addresses
        #[arg(long)]
        role: Role,
        #[command(flatten)]
        apps: OwnApps,
    },
    /// List all users
    List,
    /// Set a new password for a user; this ends all waits and all sessions of the user
    SetPassword {
        /// Name of the user
        name: ConsoleUserName,
    },
    /// Set the role and the apps of a user; this ends all sessions of the user
    SetRole {
        /// Name of the user
        name: ConsoleUserName,
        /// New role: viewer, support, finance, payments, developer or admin
        role: Role,
        #[command(flatten)]
        apps: OwnApps,
    },
    /// Unlock sign-in for a user after ten wrong passwords
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
    let change = async |name: &ConsoleUserName, command: UserCommand, value: Value, done: &str| {
        store.change_console_user(operator, name, command).await.map_err(not_done)?;
        output.print(&value, format!("{name} {done}"))
    };
    match command {
        ConsoleUserCommand::Add { name, role, apps } => {
            add(context, store, &name, apps.with(role, store).await?).await
        }
        ConsoleUserCommand::List => {
            let columns = "name role apps sessions has_second_factor failed_attempts locked_until created_at";
            let none = "There are no users. To add one, run `minitill console-user add NAME --role admin`.";
            output.list("users", &store.console_users().await?, columns, none)
        }
        ConsoleUserCommand::SetPassword { name } => {
            let users = store.console_users().await?;
            let provider = users
                .iter()
                .find(|user| user.name == name.as_str())
                .and_then(|user| user.oidc_issuer.as_ref());
            if provider.is_some() {
                return Err(refused(of_a_provider(name)));
            }
            let command = UserCommand::Password(new_password(&name)?);
            let done = "has a new password. All sessions have ended.";
            change(&name, command, json!({ "name": name }), done).await
        }
        ConsoleUserCommand::SetRole { name, role, apps } => {
            let rights = apps.with(role, store).await?;
            let value = json!({ "name": name, "role": role, "apps": rights.apps.listed() });
            let done = format!("has the role {role} now. Sessions with other rights have ended.");
            change(&name, UserCommand::Rights(rights), value, &done).await
        }
        ConsoleUserCommand::Unlock { name } => {
            change(&name, UserCommand::Unlock, json!({ "name": name }), "can sign in.").await
        }
        ConsoleUserCommand::ResetSecondFactor { name } => {
            change(
                &name,
                UserCommand::ResetSecondFactor,
                json!({ "name": name }),
                "signs in without a second factor.",
            )
            .await
        }
        ConsoleUserCommand::Remove { name } => {
            change(
                &name,
                UserCommand::Remove,
                json!({ "name": name }),
                "is removed. All sessions have ended.",
            )
            .await
        }
    }
}

async fn add(context: &Context, store: &Store, name: &ConsoleUserName, rights: Rights) -> Result<()> {
    if store.console_users().await?.iter().any(|user| user.name == name.as_str()) {
        return Err(refused(user_taken(name)));
    }
    let (role, apps) = (rights.role, rights.apps.listed().to_owned());
    let command = UserCommand::Add(rights, new_password(name)?);
    store.change_console_user(&context.operator, name, command).await.map_err(not_done)?;
    let url = format!("{}/console", context.config.ops.base_url());
    let value = json!({ "name": name, "role": role, "apps": apps, "console": url });
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
    Ok(hash_password(&password)?)
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
