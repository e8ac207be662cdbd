//! Payment providers whose callbacks an app takes (contract 19.4).

use domain::fields::FieldError;
use domain::operation::topup::ProviderCommand;
use domain::topup::{CallbackFormat, CallbackSecret, PaymentProvider};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use store::TopupProvider;

use super::call::Call;
use super::describe::{ListBody, MOMENT, answers, lists};
use super::messages::example;
use super::problem::Problem;
use super::routes::routes;
use crate::openapi::{APP_ID, Input};
use crate::state::AppState;

routes! { "Top-ups":
    /// List the payment providers that call back
    ///
    /// All of them, by name, without their secrets: there are at most 20.
    GET "/apps/{app_id}/topup-providers", "listTopupProviders", Read(Read): list -> ListBody<TopupProvider> =>
        lists("The providers.", &provider_example());
    /// Set a payment provider that calls back
    ///
    /// Takes its callbacks at `/notify/{app_id}/{name}` of the public listener. The secret before a new one of the same
    /// format is valid for 24 hours more. What is set already changes nothing.
    PUT "/apps/{app_id}/topup-providers/{name}", "setTopupProvider", Replace(Administer): set -> TopupProvider =>
        answers("set", "How it is now.", provider_example())
            .read(format_and_secret)
            .wrong("format", "expected standard or stripe, got \"paypal\"")
            .refuses([example::too_many_providers()]);
    /// Remove a payment provider that calls back
    ///
    /// Its callbacks are refused from now on.
    DELETE "/apps/{app_id}/topup-providers/{name}", "removeTopupProvider", Replace(Administer): remove -> RemovedProvider =>
        answers("done", "It is gone.", json!({ "app_id": APP_ID, "provider": "pay", "removed": true }))
            .members([])
            .refuses([example::no_provider()]);
}

/// A provider that was removed.
#[derive(Serialize, JsonSchema)]
struct RemovedProvider {
    /// The app.
    app_id: domain::ids::AppId,
    /// The provider.
    provider: PaymentProvider,
    /// Always true.
    removed: bool,
}

fn provider_example() -> Value {
    json!({ "provider": "pay", "format": "standard", "set_at": MOMENT, "former_until": null })
}

fn format_and_secret(body: &mut Input<'_>) -> Result<ProviderCommand, FieldError> {
    let words = "Format and signature of its callbacks: `standard` or `stripe`.";
    let format = body.field("format", words).required("standard", CallbackFormat::parse)?;
    let words = "What signs them, as the provider shows it. It is shown nowhere.";
    let secret = body
        .field("secret", words)
        .required_as::<String, _>("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", |text| {
            CallbackSecret::parse(format, text)
        });
    Ok(ProviderCommand::Set(format, secret?))
}

fn provider_of(call: &Call) -> Result<PaymentProvider, Problem> {
    call.segment("name", "provider", PaymentProvider::parse)
}

async fn list(state: &AppState, call: &Call) -> Result<ListBody<TopupProvider>, Problem> {
    call.fields.only(&[])?;
    let items = state.store.topup_providers(&call.app_id()?).await?;
    Ok(ListBody { items, next: None })
}

async fn set(state: &AppState, call: &Call) -> Result<TopupProvider, Problem> {
    let (app_id, provider) = (call.app_id()?, provider_of(call)?);
    let command = call.read(format_and_secret)?;
    let set = state.store.change_topup_provider(&call.operator(), &app_id, &provider, command).await?;
    set.ok_or_else(|| Problem::internal("a provider that was set is not there"))
}

async fn remove(state: &AppState, call: &Call) -> Result<RemovedProvider, Problem> {
    call.fields.only(&[])?;
    let (app_id, provider) = (call.app_id()?, provider_of(call)?);
    let command = ProviderCommand::Remove;
    state.store.change_topup_provider(&call.operator(), &app_id, &provider, command).await?;
    Ok(RemovedProvider { app_id, provider, removed: true })
}
