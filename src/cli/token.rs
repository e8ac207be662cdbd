//! `minitill token ...`.

use std::time::Duration;

use clap::Subcommand;
use domain::app_command::AppCommand;
use domain::ids::AppId;
use domain::secret::Secret;
use store::Store;

use super::app::carry_out;
use super::{Context, Failure};

#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Issue an access token for an app
    Issue {
        /// The app
        app_id: AppId,
        /// How long it lives, such as 30m or 48h
        #[arg(long, default_value = "48h", value_parser = humantime::parse_duration)]
        ttl: Duration,
    },
    /// End access tokens of an app, on every server within five seconds
    #[command(group = clap::ArgGroup::new("which").required(true))]
    Revoke {
        /// The app
        app_id: AppId,
        /// The token; `-` reads it from standard input, where no list of processes shows it
        #[arg(long, value_name = "T", group = "which")]
        token: Option<String>,
        /// Every token of the app
        #[arg(long, group = "which")]
        all: bool,
    },
}

pub(super) async fn run(context: &Context, store: &Store, command: TokenCommand) -> Result<(), Failure> {
    let (app_id, command) = match command {
        TokenCommand::Issue { app_id, ttl } => (app_id, AppCommand::IssueToken(ttl)),
        TokenCommand::Revoke { app_id, token, all: _ } => {
            let token = match token.as_deref() {
                Some("-") => Some(std::io::read_to_string(std::io::stdin())?),
                Some(_) | None => token,
            };
            let token = token.map(|token| Secret::new(token.trim().to_owned()));
            (app_id, AppCommand::RevokeTokens(token))
        }
    };
    carry_out(context, store, &app_id, command).await
}
