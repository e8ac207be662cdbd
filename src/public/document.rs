//! The OpenAPI document of the public API: the rows of the route table with their descriptions.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::router::{ROUTES, Route};
use crate::config::Config;
use crate::error::{Code, Envelope, ErrorStatus, ExchangeRefusal, OpenRefusal, Refusal};
use crate::openapi::{Api, Call, Document, Example, Operation, Refused, schema};

/// A row of the route table with its description.
#[derive(Debug, Clone)]
pub struct Described {
    /// The row.
    pub route: &'static Route,
    /// What is said of it.
    pub operation: Operation<Refusal>,
}

/// Every call of the public listener, in the order of the route table, as these settings make it.
#[must_use]
pub fn calls(config: &Config) -> Vec<Described> {
    ROUTES.iter().map(|route| Described { route, operation: (route.describe)(config) }).collect()
}

/// The OpenAPI document of the public API, as these settings make it.
#[must_use]
pub fn document(config: &Config) -> Document {
    let api = Api {
        title: "Minitill",
        summary: "Exchange of in-game currency, order reports and cover images",
        description: introduction(),
        server: (config.public.base_url(), "The public listener (the setting public.listen)"),
        api_key: None,
        tags: &TAGS,
        refusal_type: "application/json",
        refusals_in_words,
        calls: calls(config).into_iter().map(rendered).collect(),
    };
    api.document()
}

const TAGS: [(&str, &str); 4] = [
    ("Exchange", "A game server deducts currency from a player's wallet."),
    ("Orders", "A developer server reports orders."),
    ("Images", "Cover images of orders: uploads, and the pictures themselves."),
    ("Tokens", "Access tokens of an app."),
];

/// What holds for every call (contract 2).
fn introduction() -> String {
    let mut text = "\
        **Answers.** A business answer is one JSON object with status 200, for success and refusal. `code` (exchange) or \
        `result` (all other calls) is 1 on success. Else `msg` or `error_msg` names the field, what was expected and what \
        came. The transport has statuses of its own, in the same envelope: 404 for an unknown path, 405 with `Allow`, 408, \
        413, 500, and 503 with `Retry-After`. Two answers have no body: 400 for a request that is not HTTP, and 431 for a \
        head that is too large.\n\n\
        **Statuses.** With the setting `http.error_status = \"platform\"` (the default) every business refusal has status \
        200. With `\"rest\"` each code has the status of the table; the bodies are the same.\n\n\
        **Reading.** Runs of slashes in a path count as one. Unknown fields are ignored. A name that is given twice is \
        refused. Empty text counts as absent, and so does JSON `null`. A number may come as a decimal string, and an \
        identifier as an integer. Integers have no sign, leading zero or exponent. Text is UTF-8 without NUL.\n\n\
        **Ids.** `X-Request-Id` is echoed. Without one, the server makes an id. The log has the same id.\n\n\
        | code | meaning | status with `rest` |\n|---|---|---|\n| 1 | success | 200 |\n"
        .to_owned();
    for code in Code::ALL {
        let status = Refusal::new(code, "").status(ErrorStatus::Rest).as_u16();
        let _ = writeln!(text, "| {} | {} | {status} |", code.number(), code.row().meaning);
    }
    text
}

fn rendered(Described { route, operation }: Described) -> Call {
    let Operation { summary, description, parameters, bodies, successes, refusals } = operation;
    let codes: BTreeSet<u32> = refusals.iter().map(|example| example.refusal.code.number()).collect();
    let (mut refusal, code) = match route.envelope {
        Envelope::Exchange => (schema::<ExchangeRefusal<'static>>(), "code"),
        Envelope::Open => (schema::<OpenRefusal<'static>>(), "result"),
    };
    let name = format!("{}{}Refusal", route.id[..1].to_uppercase(), &route.id[1..]);
    // Which codes there are depends on the call.
    let general = refusal.root["$ref"].as_str().and_then(|address| address.rsplit('/').next());
    let mut own = general.and_then(|general| refusal.named.remove(general)).unwrap_or_default();
    own["properties"][code]["enum"] = codes.into_iter().collect();
    refusal.root["$ref"] = format!("#/components/schemas/{name}").into();
    refusal.named.insert(name, own);
    let refusals = refusals.into_iter().map(|Example { name, summary, refusal }| {
        let refused = Refused {
            statuses: [ErrorStatus::Platform, ErrorStatus::Rest]
                .map(|setting| refusal.status(setting).as_u16()),
            code: refusal.code.number().to_string(),
            body: refusal.body(route.envelope),
            waits: refusal.retry_after.is_some(),
        };
        Example { name, summary, refusal: refused }
    });
    let refusals = refusals.collect();
    let operation = Operation { summary, description, parameters, bodies, successes, refusals };
    Call { id: route.id, method: route.method, path: route.path, tag: route.tag, operation, refusal }
}

/// The codes of a status, with the value of the setting that it needs.
fn refusals_in_words(refusals: &[&Example<Refused>], status: u16) -> String {
    let of = |wanted: [bool; 2]| {
        let with = refusals.iter().map(|example| &example.refusal);
        let with = with.filter(|refused| refused.statuses.map(|known| known == status) == wanted);
        let codes: BTreeSet<&str> = with.map(|refused| refused.code.as_str()).collect();
        codes.into_iter().collect::<Vec<_>>().join(", ")
    };
    let settings = [
        ([true, true], ""),
        ([true, false], " with `http.error_status = \"platform\"`"),
        ([false, true], " with `http.error_status = \"rest\"`"),
    ];
    let words = settings.map(|(wanted, setting)| (of(wanted), setting));
    let words = words.iter().filter(|(codes, _)| !codes.is_empty());
    words.map(|(codes, setting)| format!("Refused{setting}: {codes}.")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
