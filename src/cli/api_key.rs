//! `minitill api-key ...` keeps the keys of the admin API.

use anyhow::Result;
use clap::Subcommand;
use domain::console_user::Role;
use domain::ids::ApiKeyName;
use domain::operation::key::{ApiKeyCommand, NewApiKey};
use domain::secret::Secret;
use serde_json::json;
use store::Store;

use super::console_user::OwnApps;
use super::{Context, not_done};

#[derive(Debug, Subcommand)]
pub(super) enum ApiKeyArguments {
    /// Create a key of the admin API and print it once
    Create {
        /// Name of the key in the operator's log: 1 to 64 of 0-9A-Za-z._@-
        name: ApiKeyName,
        /// Role of the key, as that of a user of the console: a viewer may only read
        #[arg(long, value_name = "viewer|support|finance|payments|developer|admin")]
        role: Role,
        #[command(flatten)]
        apps: OwnApps,
        /// Coins that the key moves in 24 hours without a second person [default: the setting `console.second_person_above`]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
        second_person_above: Option<i64>,
    },
    /// List the names of all keys, including revoked ones
    List,
    /// Revoke a key: every server refuses it from now on
    Revoke {
        /// Name of the key
        name: ApiKeyName,
    },
}

pub(super) async fn run(context: &Context, store: &Store, arguments: ApiKeyArguments) -> Result<()> {
    let (operator, output) = (&context.operator, &context.output);
    match arguments {
        ApiKeyArguments::Create { name, role, apps, second_person_above } => {
            let rights = apps.with(role, store).await?;
            let apps = rights.apps.listed().to_owned();
            let new = NewApiKey { name: name.clone(), rights, alone_max: second_person_above };
            let command = ApiKeyCommand::Create(new);
            let made = store.change_api_keys(operator, command).await.map_err(not_done)?;
            let api_key = made.api_key.as_ref().map(Secret::expose);
            let mut shown = json!({ "name": name, "role": role, "apps": apps, "api_key": api_key });
            if let Some(max) = second_person_above {
                shown["second_person_above"] = max.into();
            }
            output.show_once(&shown)
        }
        ApiKeyArguments::List => {
            let columns =
                "name role apps second_person_above created_at last_used_at uses_last_day revoked_at";
            let none =
                "There are no API keys. To create one, run `minitill api-key create <name> --role admin`.";
            output.list("api_keys", &store.api_keys().await?, columns, none)
        }
        ApiKeyArguments::Revoke { name } => {
            let command = ApiKeyCommand::Revoke(name.clone());
            store.change_api_keys(operator, command).await.map_err(not_done)?;
            output.print(
                &json!({ "name": name, "revoked": true }),
                format!("The API key {name} is revoked. Every server refuses it from now on."),
            )
        }
    }
}
