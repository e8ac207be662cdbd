//! `minitill token ...`.

use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use domain::app_command::AppCommand;
use domain::ids::AppId;
use domain::secret::Secret;
use store::Store;

use super::Context;
use super::app::carry_out;

#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Issue an access token for an app
    Issue {
        /// Id of the app
        app_id: AppId,
        /// Lifetime of the token, such as 30m or 48h
        #[arg(long, default_value = "48h", value_parser = humantime::parse_duration)]
        ttl: Duration,
    },
    /// Revoke access tokens of an app: within five seconds every server refuses them
    #[command(group = clap::ArgGroup::new("which").required(true))]
    Revoke {
        /// Id of the app
        app_id: AppId,
        /// Token to revoke; `-` reads it from standard input, so that no list of processes shows it
        #[arg(long, value_name = "T", group = "which")]
        token: Option<String>,
        /// Revoke every token of the app
        #[arg(long, group = "which")]
        all: bool,
    },
}

pub(super) async fn run(context: &Context, store: &Store, command: TokenCommand) -> Result<()> {
    let (app_id, command) = match command {
        TokenCommand::Issue { app_id, ttl } => (app_id, AppCommand::IssueToken(ttl)),
        TokenCommand::Revoke { app_id, token, all: _ } => {
            let is_piped = token.as_deref() == Some("-");
            let token = if is_piped { Some(std::io::read_to_string(std::io::stdin())?) } else { token };
            let token = token.map(|token| Secret::new(token.trim().to_owned()));
            (app_id, AppCommand::RevokeTokens(token))
        }
    };
    carry_out(context, store, &app_id, command).await
}
