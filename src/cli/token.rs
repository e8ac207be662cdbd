//! `minitill token ...`.

use std::time::Duration;

use clap::Subcommand;
use domain::ids::AppId;
use serde_json::json;
use store::Store;
use store::secrets::token_hash;

use super::output::{lines, rfc3339_of_millis};
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
    match command {
        TokenCommand::Issue { app_id, ttl } => issue(context, store, &app_id, ttl).await,
        TokenCommand::Revoke { app_id, token, all: _ } => {
            revoke(context, store, &app_id, token.as_deref()).await
        }
    }
}

async fn issue(context: &Context, store: &Store, app_id: &AppId, ttl: Duration) -> Result<(), Failure> {
    let issued = store.hand_out_token(&context.operator, app_id, ttl).await?;
    let (access_token, expires_at) = issued.ok_or_else(|| Failure::unknown_app(app_id))?;
    let expires_at = rfc3339_of_millis(expires_at);
    context.output.print(&json!({ "access_token": access_token, "expires_at": expires_at }), || {
        lines(&[("access_token", access_token.clone()), ("expires_at", expires_at.clone())])
    })
}

/// Revokes one token, or all where none is given.
async fn revoke(
    context: &Context,
    store: &Store,
    app_id: &AppId,
    token: Option<&str>,
) -> Result<(), Failure> {
    if store.find_app(app_id).await?.is_none() {
        return Err(Failure::unknown_app(app_id));
    }
    let typed = match token {
        Some("-") => Some(std::io::read_to_string(std::io::stdin())?),
        Some(_) | None => None,
    };
    let only = typed.as_deref().or(token).map(|token| token_hash(token.trim()));
    let revoked = store.revoke_tokens(&context.operator, app_id, only).await?;
    if only.is_some() && revoked == 0 {
        return Err(Failure(format!("the app {app_id} has no such token")));
    }
    context.output.print(&json!({ "app_id": app_id.as_str(), "revoked": revoked }), || {
        format!("{app_id}: {revoked} tokens are revoked; every server knows within five seconds")
    })
}
