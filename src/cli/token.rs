//! `minitill token ...`.

use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Subcommand;
use domain::ids::AppId;
use domain::operation::app::{AppCommand, check_lifetime};
use domain::secret::Secret;
use store::Store;

use super::Context;
use super::app::{OneApp, carry_out, require_app};

#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Issue an access token for an app
    Issue {
        /// Id of the app
        app_id: AppId,
        /// Lifetime of the token, such as 30m or 48h
        #[arg(long, default_value = "48h", value_parser = parse_ttl)]
        ttl: Duration,
    },
    /// List the tokens of an app that have not expired, without the tokens themselves
    List(OneApp),
    /// Revoke access tokens of an app: within five seconds every server refuses them
    #[command(group = clap::ArgGroup::new("which").required(true))]
    Revoke {
        /// Id of the app
        app_id: AppId,
        /// Token to revoke, or its name in `token list`; `-` reads it from standard input, so that no list of processes shows it
        #[arg(long, value_name = "T", group = "which")]
        token: Option<String>,
        /// Revoke every token of the app
        #[arg(long, group = "which")]
        all: bool,
    },
}

fn parse_ttl(text: &str) -> Result<Duration> {
    check_lifetime(humantime::parse_duration(text)?).map_err(|expected| anyhow!("{expected}"))
}

pub(super) async fn run(context: &Context, store: &Store, command: TokenCommand) -> Result<()> {
    let (app_id, command) = match command {
        TokenCommand::Issue { app_id, ttl } => (app_id, AppCommand::IssueToken(ttl)),
        TokenCommand::List(OneApp { app_id }) => {
            require_app(store, &app_id).await?;
            let columns = "token issued_at expires_at";
            let none = "The app has no valid token. To issue one, run `minitill token issue <app_id>`.";
            return context.output.list("tokens", &store.tokens(&app_id).await?, columns, none);
        }
        TokenCommand::Revoke { app_id, token, all: _ } => {
            let is_piped = token.as_deref() == Some("-");
            let token = if is_piped { Some(std::io::read_to_string(std::io::stdin())?) } else { token };
            let token = token.map(|token| Secret::new(token.trim().to_owned()));
            (app_id, AppCommand::RevokeTokens(token))
        }
    };
    carry_out(context, store, &app_id, command).await
}
