//! The question before a command that stops requests or cannot be undone. Only a person at a terminal is
//! asked; a script is not.

use std::io::{self, BufRead, IsTerminal as _, Write};

use anyhow::{Result, ensure};

use super::app::{AppArguments, OneApp};
use super::console_user::ConsoleUserCommand;
use super::image::ImageArguments;
use super::master_key::MasterKeyCommand;
use super::player::PlayerCommand;
use super::receiver::{OneReceiver, ReceiverArguments};
use super::token::TokenCommand;
use super::visible::visible;
use super::wallet::WalletArguments;
use super::{StoreCommand, api_key::ApiKeyArguments};

/// Asks before a command that needs it, unless `--yes` is given.
pub(super) fn confirm(command: &StoreCommand, is_sure: bool) -> Result<()> {
    match consequence(command) {
        Some(consequence) if !is_sure && io::stdin().is_terminal() && io::stderr().is_terminal() => {
            ask(&consequence, &mut io::stdin().lock(), &mut io::stderr())
        }
        Some(_) | None => Ok(()),
    }
}

/// What a command does that needs a question.
fn consequence(command: &StoreCommand) -> Option<String> {
    let text = match command {
        StoreCommand::App(AppArguments::Suspend(OneApp { app_id })) => {
            format!("Every server will refuse all requests of the app {app_id}.")
        }
        StoreCommand::App(AppArguments::RotatePayKey(OneApp { app_id })) => {
            format!("The previous pay key of the app {app_id} will no longer be valid.")
        }
        StoreCommand::App(AppArguments::RotateSecret(OneApp { app_id })) => {
            format!("The previous app secret of the app {app_id} will no longer be valid.")
        }
        StoreCommand::Wallet(WalletArguments::Freeze { app_id, open_id, .. }) => {
            format!("Every server will refuse wallet requests of the app {app_id} for the player {open_id}.")
        }
        StoreCommand::Token(TokenCommand::Revoke { app_id, all: true, .. }) => {
            format!("Every access token of the app {app_id} will be refused.")
        }
        StoreCommand::Image(ImageArguments::Block { picture, .. }) => {
            format!("The picture {picture} and its near copies will be refused in every app.")
        }
        StoreCommand::Receiver(ReceiverArguments::Remove(OneReceiver { receiver_id, .. })) => {
            format!("Events that wait for the receiver {receiver_id} will never be sent to it.")
        }
        StoreCommand::Archive(arguments) if arguments.stops_exchanges() => {
            "All exchanges will wait until the ledger is compact.".to_owned()
        }
        StoreCommand::MasterKey(MasterKeyCommand::Rotate { .. }) => {
            "All that the master key encrypts will be encrypted with a new key.".to_owned()
        }
        StoreCommand::MasterKey(MasterKeyCommand::Forget) => {
            "Former master keys will be removed from the key file. Backups that need them cannot be read."
                .to_owned()
        }
        StoreCommand::Player(PlayerCommand::Erase { app_id, open_id }) => {
            format!("The player {open_id} of the app {app_id} will be erased. This cannot be undone.")
        }
        StoreCommand::ConsoleUser(ConsoleUserCommand::Remove { name }) => {
            format!("The user {name} will be removed from the console.")
        }
        StoreCommand::ApiKey(ApiKeyArguments::Revoke { name }) => {
            format!("Every server will refuse the API key {name} for ever.")
        }
        _ => return None,
    };
    Some(text)
}

/// Shows the consequence and reads one line. Only `yes` goes on.
fn ask(consequence: &str, input: &mut impl BufRead, output: &mut impl Write) -> Result<()> {
    write!(output, "{}\nType yes to go on: ", visible(consequence))?;
    output.flush()?;
    let mut line = String::new();
    input.read_line(&mut line)?;
    ensure!(line.trim() == "yes", "nothing was changed, because the answer was not yes");
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Arguments, Command};

    /// Rule 8.1.5: these commands ask, and no other.
    #[test]
    fn commands_that_stop_requests_or_cannot_be_undone_ask() {
        let asks = |line: &str| {
            let arguments = Arguments::try_parse_from(line.split(' ')).unwrap();
            let Some(Command::OnStore(command)) = arguments.command else { panic!("{line}") };
            consequence(&command).is_some()
        };
        for line in [
            "minitill app suspend a1",
            "minitill app rotate-pay-key a1",
            "minitill app rotate-secret a1",
            "minitill token revoke a1 --all",
            "minitill image block x.png --reason r",
            "minitill archive --compact",
            "minitill master-key rotate",
            "minitill master-key forget",
            "minitill console-user remove bob",
            "minitill api-key revoke backend",
        ] {
            assert!(asks(line), "{line}");
        }
        for line in [
            "minitill app resume a1",
            "minitill token revoke a1 --token t",
            "minitill app list",
            "minitill archive --before 2026-01",
        ] {
            assert!(!asks(line), "{line}");
        }
    }

    #[test]
    fn only_yes_goes_on() {
        let answered = |answer: &str| {
            let mut shown = Vec::new();
            let outcome = ask("It ends.", &mut answer.as_bytes(), &mut shown);
            assert_eq!(String::from_utf8(shown).unwrap(), "It ends.\nType yes to go on: ");
            outcome.map_err(|error| error.to_string())
        };
        assert_eq!((answered("yes\n"), answered(" yes")), (Ok(()), Ok(())));
        for answer in ["y\n", "no\n", "\n", ""] {
            let refused = "nothing was changed, because the answer was not yes";
            assert_eq!(answered(answer), Err(refused.to_owned()), "{answer:?}");
        }
    }
}
