//! `minitill token issue`.

use std::time::Duration;

use clap::Subcommand;
use serde_json::json;

use super::output::{lines, moment};
use super::{Context, Failure};
use crate::domain::ids::AppId;
use crate::store::Store;

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
}

pub(super) async fn run(context: &Context, store: &Store, command: TokenCommand) -> Result<(), Failure> {
    let TokenCommand::Issue { app_id, ttl } = command;
    let issued = store.hand_out_token(&context.operator, &app_id, ttl).await?;
    let (access_token, expires_at) = issued.ok_or_else(|| Failure::unknown_app(&app_id))?;
    let expires_at = moment(expires_at);
    context.output.print(&json!({ "access_token": access_token, "expires_at": expires_at }), || {
        lines(&[("access_token", access_token.clone()), ("expires_at", expires_at.clone())])
    })
}
