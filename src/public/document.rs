//! The OpenAPI document of the public API: the rows of the route table with their descriptions.

mod webhooks;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use domain::endpoint::Endpoint;
use domain::topup::CALLBACK_BYTES_MAX;
use store::StoreError;

use super::auth::example;
use super::image_upload::UPLOAD_BODY_BYTES_MAX;
use super::routes::{Authentication, ROUTES, Route};
use crate::config::Config;
use crate::http::body::{BODY_BYTES_MAX, too_large, too_slow};
use crate::http::rate_limit::{LimitExceeded, Limited};
use crate::http::refusal::{Code, Envelope, ExchangeRefusal, OpenRefusal, OwnNames, Refusal};
use crate::openapi::{self, Api, Document, DocumentedCall, Example, Operation, Place, WireRefusal, schema};

/// A row of the route table with its description.
pub type DescribedCall = openapi::Described<Route, Refusal>;

/// Every call of the public listener, in the order of the route table, as these settings make it.
#[must_use]
pub fn calls(config: &Config) -> Vec<DescribedCall> {
    let describe = |route: &'static Route| (route.describe)(config).refuses(general(route, config));
    let named = |route| named(describe(route), route.names);
    ROUTES.iter().map(|route| DescribedCall { route, operation: named(route) }).collect()
}

/// The operation with the names that its endpoint has for fields of its query.
fn named(mut operation: Operation<Refusal>, names: OwnNames) -> Operation<Refusal> {
    for (name, own) in names {
        let fields = operation.fields.iter_mut().filter(|field| field.place == Place::Query);
        fields.filter(|field| field.name == *name).for_each(|field| field.name = own);
    }
    operation.refusals.iter_mut().for_each(|example| example.refusal.has_provider_names = !names.is_empty());
    operation
}

/// The OpenAPI document of the public API, as these settings make it.
#[must_use]
pub fn document(config: &Config) -> Document {
    let api = Api {
        title: "Minitill",
        summary: "Exchange of in-game currency, order reports, cover images and logins",
        description: introduction(),
        server: (config.public.base_url(), "The public listener (the setting public.listen)"),
        api_key: None,
        strict: false,
        tags: &TAGS,
        refusal_type: "application/json",
        refusals_in_words,
        calls: calls(config).into_iter().map(rendered).collect(),
        webhooks: webhooks::webhooks(),
    };
    api.document()
}

const TAGS: [(&str, &str); 9] = [
    ("Exchange", "A game server deducts currency from a player's wallet."),
    ("Orders", "A developer server reports orders."),
    ("Images", "Cover images of orders: uploads, and the pictures themselves."),
    ("Tokens", "Access tokens of an app."),
    ("Login", "A developer server learns who a player is."),
    ("Callbacks", "A payment provider tells of payments and refunds."),
    ("Sandbox", "The test world of a sandbox app: faults, and what a game under test says."),
    ("Sandbox server", "What a sandbox server can do for tests: begin anew, set purses, move the clock."),
    ("Notifications", "What is sent to the servers of an app."),
];

/// The rules of every call (contract 2).
fn introduction() -> String {
    let mut text = "\
        **Answers.** A business answer is one JSON object with status 200, for success and refusal. `code` (calls of the \
        wallet) or `result` (all others) is 1 on success. Else `msg` or `error_msg` names the field, what was expected and what \
        came. The transport has statuses of its own, in the same envelope: 404 for an unknown path, 405 with `Allow`, 408, \
        413, 500, and 503 with `Retry-After`. Three answers may have no body: 400 for a request that is not HTTP, 431 for a \
        head that is too large, and 501 for a `Transfer-Encoding` other than `chunked`.\n\n\
        **Reading.** Runs of slashes in a path count as one. Unknown fields are ignored. A name that is given twice is \
        refused. Empty text counts as absent, and so does JSON `null`. A number may come as a decimal string, and an \
        identifier as an integer. Integers have no sign, leading zero or exponent. Text is UTF-8 without NUL.\n\n\
        **Ids.** Every call takes the header `X-Request-Id`: 1 to 128 visible ASCII characters. The answer echoes it. \
        Without one, the server makes an id. The log has the same id.\n\n\
        | code | meaning |\n|---|---|\n| 1 | success |\n"
        .to_owned();
    for code in Code::ALL {
        let _ = writeln!(text, "| {} | {} |", code.number(), code.row().meaning);
    }
    text
}

/// The answers that every call of such a route can have.
fn general(route: &Route, config: &Config) -> Vec<Example<Refusal>> {
    let mut refusals = vec![
        Example::new("system_error", "A fault of the service.", Refusal::internal("")),
        Example::new(
            "unavailable",
            "The database is not available, or it is overloaded. It is safe to repeat, as `Retry-After` says.",
            StoreError::unavailable(""),
        ),
    ];
    if let Some(limited) = Limited::of(route.endpoint) {
        let exceeded = LimitExceeded { limited, per_second: 1, wait: Duration::from_secs(1) };
        let often = Refusal::rate_limited(exceeded.text(), exceeded.wait);
        let words = "The app calls too often; wait as `Retry-After` says.";
        refusals.extend([example::app_suspended(), Example::new("rate_limited", words, often)]);
    }
    let without_token = [Authentication::Path, Authentication::AppSecret, Authentication::SignedBody];
    if !without_token.contains(&route.authentication) {
        refusals.extend([
            example::app_id_missing(),
            example::access_token_missing(),
            example::unknown_app(),
            example::access_token_unknown(),
            example::access_token_expired(),
        ]);
    }
    if route.method == "POST" {
        let bytes_max = match route.endpoint {
            Endpoint::UploadWithFile => UPLOAD_BODY_BYTES_MAX,
            Endpoint::Callback => CALLBACK_BYTES_MAX,
            _ => BODY_BYTES_MAX,
        };
        let slow = too_slow(config.http.body_timeout);
        refusals.extend([
            Example::new("body_too_slow", "The body did not come in time.", slow),
            Example::new("body_too_large", "The body is larger than accepted.", too_large(bytes_max)),
        ]);
    }
    refusals
}

fn rendered(DescribedCall { route, operation }: DescribedCall) -> DocumentedCall {
    let codes: BTreeSet<u32> =
        operation.refusals.iter().map(|example| example.refusal.code.number()).collect();
    let (mut refusal, code) = match route.envelope {
        Envelope::Exchange => (schema::<ExchangeRefusal<'static>>(), "code"),
        Envelope::Open => (schema::<OpenRefusal<'static>>(), "result"),
    };
    let name = format!("{}{}Refusal", route.id[..1].to_uppercase(), &route.id[1..]);
    // Which codes there are depends on the call.
    let general = refusal.root["$ref"].as_str().and_then(|address| address.rsplit('/').next());
    let mut own = general.and_then(|general| refusal.named.remove(general)).unwrap_or_default();
    own["properties"][code]["enum"] = codes.into_iter().collect();
    if let Some(properties) = own["properties"].as_object_mut()
        && operation.refusals.iter().all(|example| example.refusal.data.is_none())
    {
        properties.remove("data");
    }
    refusal.root["$ref"] = format!("#/components/schemas/{name}").into();
    refusal.named.insert(name, own);
    let operation = operation.rendered(|refusal| WireRefusal {
        status: refusal.status().as_u16(),
        code: refusal.code.number().to_string(),
        body: refusal.body(route.envelope),
        waits: refusal.retry_after.is_some(),
    });
    DocumentedCall {
        id: route.id,
        method: route.method,
        path: route.path,
        tag: route.tag,
        operation,
        refusal,
    }
}

/// The codes of a status.
fn refusals_in_words(refusals: &[&Example<WireRefusal>]) -> String {
    let codes: BTreeSet<&str> = refusals.iter().map(|example| example.refusal.code.as_str()).collect();
    format!("Refused: {}.", codes.into_iter().collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests;
