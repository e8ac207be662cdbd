//! `minitill api-key ...` keeps the keys of the admin API.

use clap::Subcommand;
use domain::console_user::Role;
use domain::ids::ApiKeyName;
use serde_json::json;
use store::{ApiKeySummary, RevokeOutcome, Store};

use super::output::{lines, rfc3339, table};
use super::{Context, Failure};

#[derive(Debug, Subcommand)]
pub(super) enum ApiKeyCommand {
    /// Create a key of the admin API and print it once
    Create {
        /// Name of the key in the operator's log: 1 to 64 of 0-9A-Za-z._@-
        name: ApiKeyName,
        /// Role of the key: a viewer may only read
        #[arg(long, value_name = "viewer|admin")]
        role: Role,
    },
    /// List the names of all keys, including revoked ones
    List,
    /// Revoke a key: every server refuses it from now on
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
        Failure(format!("the name {name} belongs to another API key, which may be revoked; choose a new name, so that the operator's log is clear"))
    })?;
    let value = json!({ "name": name.as_str(), "role": role.as_str(), "api_key": api_key });
    context.output.print(&value, || {
        let pairs =
            [("name", name.to_string()), ("role", role.as_str().to_owned()), ("api_key", api_key.clone())];
        format!("{}\nSave the key now. It is not shown again.", lines(&pairs))
    })
}

async fn revoke(context: &Context, store: &Store, name: &ApiKeyName) -> Result<(), Failure> {
    match store.revoke_api_key(&context.operator, name).await? {
        RevokeOutcome::Revoked => {}
        RevokeOutcome::WasRevoked => return Err(Failure(format!("the API key {name} is already revoked"))),
        RevokeOutcome::Unknown => {
            return Err(Failure(format!(
                "there is no API key {name}; to list all keys, run `minitill api-key list`"
            )));
        }
    }
    context.output.print(&json!({ "name": name.as_str(), "revoked": true }), || {
        format!("The API key {name} is revoked. Every server refuses it from now on.")
    })
}

fn key_table(keys: &[ApiKeySummary]) -> String {
    if keys.is_empty() {
        return "There are no API keys. To create one, run `minitill api-key create <name> --role admin`."
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
