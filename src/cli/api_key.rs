//! `minitill api-key ...` keeps the keys of the admin API.

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use domain::console_user::Role;
use domain::ids::ApiKeyName;
use serde_json::json;
use store::{RevokeOutcome, Store};

use super::Context;
use super::console_user::OwnApps;

#[derive(Debug, Subcommand)]
pub(super) enum ApiKeyCommand {
    /// Create a key of the admin API and print it once
    Create {
        /// Name of the key in the operator's log: 1 to 64 of 0-9A-Za-z._@-
        name: ApiKeyName,
        /// Role of the key, as that of a user of the console: a viewer may only read
        #[arg(long, value_name = "viewer|support|finance|developer|admin")]
        role: Role,
        #[command(flatten)]
        apps: OwnApps,
    },
    /// List the names of all keys, including revoked ones
    List,
    /// Revoke a key: every server refuses it from now on
    Revoke {
        /// Name of the key
        name: ApiKeyName,
    },
}

pub(super) async fn run(context: &Context, store: &Store, command: ApiKeyCommand) -> Result<()> {
    let (operator, output) = (&context.operator, &context.output);
    match command {
        ApiKeyCommand::Create { name, role, apps } => {
            let rights = apps.with(role, store).await?;
            let apps = rights.apps.listed().to_owned();
            let made = store.create_api_key(operator, &name, rights).await?;
            let api_key = made.with_context(|| {
                format!(
                    "the name {name} belongs to another API key, which may be revoked; choose a new name, \
                     so that the operator's log is clear"
                )
            })?;
            output.show_once(&json!({ "name": name, "role": role, "apps": apps, "api_key": api_key }))
        }
        ApiKeyCommand::List => {
            let columns =
                ["name", "role", "apps", "created_at", "last_used_at", "uses_last_day", "revoked_at"];
            let none =
                "There are no API keys. To create one, run `minitill api-key create <name> --role admin`.";
            output.list("api_keys", &store.api_keys().await?, &columns, none)
        }
        ApiKeyCommand::Revoke { name } => match store.revoke_api_key(operator, &name).await? {
            RevokeOutcome::Revoked => output.print(
                &json!({ "name": name, "revoked": true }),
                format!("The API key {name} is revoked. Every server refuses it from now on."),
            ),
            RevokeOutcome::WasRevoked => bail!("the API key {name} is already revoked"),
            RevokeOutcome::Unknown => {
                bail!("there is no API key {name}; to list all keys, run `minitill api-key list`")
            }
        },
    }
}
