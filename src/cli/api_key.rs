//! `minitill api-key ...`: who may use the admin API.

use clap::Subcommand;
use domain::console_user::Role;
use domain::ids::ApiKeyName;
use serde_json::json;
use store::{ApiKeySummary, RevokeOutcome, Store};

use super::output::{lines, rfc3339, table};
use super::{Context, Failure};

#[derive(Debug, Subcommand)]
pub(super) enum ApiKeyCommand {
    /// Make a key of the admin API, shown once
    Create {
        /// Name of the key, as the operator's log will have it: 1 to 64 of 0-9A-Za-z._@-
        name: ApiKeyName,
        /// What it may do: viewer may only read
        #[arg(long, value_name = "viewer|admin")]
        role: Role,
    },
    /// List all keys, revoked ones too; never a key itself
    List,
    /// Refuse a key from now on, on every server
    Revoke {
        /// Name of the key
        name: ApiKeyName,
    },
}

pub(super) async fn run(context: &Context, store: &Store, command: ApiKeyCommand) -> Result<(), Failure> {
    match command {
        ApiKeyCommand::Create { name, role } => create(context, store, &name, role).await,
        ApiKeyCommand::List => {
            let keys = store.api_keys().await?;
            context.output.print(&json!({ "api_keys": keys }), || key_table(&keys))
        }
        ApiKeyCommand::Revoke { name } => revoke(context, store, &name).await,
    }
}

async fn create(context: &Context, store: &Store, name: &ApiKeyName, role: Role) -> Result<(), Failure> {
    let made = store.create_api_key(&context.operator, name, role).await?;
    let api_key = made.ok_or_else(|| {
        Failure(format!("there is, or was, an API key {name}: give this one another name, so that the log tells them apart"))
    })?;
    let value = json!({ "name": name.as_str(), "role": role.as_str(), "api_key": api_key });
    context.output.print(&value, || {
        let pairs =
            [("name", name.to_string()), ("role", role.as_str().to_owned()), ("api_key", api_key.clone())];
        format!("{}\nKeep this now: it is not shown again.", lines(&pairs))
    })
}

async fn revoke(context: &Context, store: &Store, name: &ApiKeyName) -> Result<(), Failure> {
    match store.revoke_api_key(&context.operator, name).await? {
        RevokeOutcome::Revoked => {}
        RevokeOutcome::WasRevoked => return Err(Failure(format!("the API key {name} is revoked already"))),
        RevokeOutcome::Unknown => {
            return Err(Failure(format!(
                "there is no API key {name}; `minitill api-key list` shows those there are"
            )));
        }
    }
    context.output.print(&json!({ "name": name.as_str(), "revoked": true }), || {
        format!("{name} is refused from now on")
    })
}

fn key_table(keys: &[ApiKeySummary]) -> String {
    if keys.is_empty() {
        return "There is no API key yet; `minitill api-key create <name> --role admin` makes one."
            .to_owned();
    }
    table(
        &["name", "role", "created", "last used", "revoked"],
        keys.iter().map(|key| {
            vec![
                key.name.clone(),
                key.role.clone(),
                rfc3339(key.created_at),
                key.last_used_on.map(|day| day.date().to_string()).unwrap_or_default(),
                key.revoked_at.map(rfc3339).unwrap_or_default(),
            ]
        }),
    )
}
