//! The signature check: an operator pastes a request of a game server, and the page makes the checks of
//! an exchange, step by step. It reports whether the signature matches, and if not, which mistake explains
//! it. The page shows data of the request only, never a key or a signature ([`SignatureFinding`]).

use std::str::FromStr as _;

use askama::Template;
use axum::extract::State;
use axum::http::Method;
use axum::response::Response;
use axum::routing::{get, post};
use domain::app::App;
use domain::caller::TokenState;
use domain::caller::{SignatureFinding, SignatureVerdict, examine_signature};
use domain::code::Code;
use domain::exchange::{Exchange, UsedNumber};
use domain::fields::{Fields, UnreadableFields};
use domain::ids::AppId;
use domain::signature::SIGNED_FIELDS;
use store::secrets::token_hash;

use super::app_field::AppField;
use super::error::ConsoleError;
use super::form::ViewerForm;
use super::page::{Page, Section, Shown, render};
use super::route::{Access, Route};
use super::session::SignedIn;
use crate::state::AppState;

pub(super) const ROUTES: &[Route] = &[
    Route::page("/console/signature-check", || get(form)),
    // It changes nothing. It is a POST because an address must not have the token of the request.
    Route {
        method: "POST",
        path: "/console/signature-check",
        access: Access::Viewer,
        handler: || post(examine),
    },
];

/// Fields whose values the page never shows.
const HIDDEN_FIELDS: [&str; 3] = ["access_token", "app_secret", "sign"];

#[derive(Template)]
#[template(path = "signature_check.html")]
struct CheckTemplate<'a> {
    page: Page<'a>,
    app_field: AppField<'a>,
    address: &'a str,
    examined: Option<Examined>,
}

/// The result for a request.
struct Examined {
    steps: Vec<Step>,
    fields: Vec<FieldRow>,
    signature: Option<SignatureFinding>,
}

/// One check of the exchange.
struct Step {
    what: &'static str,
    tone: Tone,
    says: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tone {
    Good,
    Wait,
    Bad,
}

impl Tone {
    /// The class of the style sheet, and the text.
    fn shown(self) -> (&'static str, &'static str) {
        match self {
            Self::Good => ("good", "passed"),
            Self::Wait => ("wait", "warning"),
            Self::Bad => ("bad", "failed"),
        }
    }
}

impl Step {
    fn good(what: &'static str, says: impl Into<String>) -> Self {
        Self { what, tone: Tone::Good, says: says.into() }
    }

    fn wait(what: &'static str, says: impl Into<String>) -> Self {
        Self { what, tone: Tone::Wait, says: says.into() }
    }

    fn bad(what: &'static str, says: impl Into<String>) -> Self {
        Self { what, tone: Tone::Bad, says: says.into() }
    }
}

/// A decoded field.
struct FieldRow {
    name: String,
    is_known: bool,
    value: String,
    bytes: usize,
    usage: &'static str,
}

async fn form(State(state): State<AppState>, signed_in: SignedIn) -> Result<Response, ConsoleError> {
    let page = Page::new(&signed_in, Section::SignatureCheck, Section::SignatureCheck.name());
    let app_field = app_field(&state, "").await?;
    Ok(render(&CheckTemplate { page, app_field, address: "", examined: None }))
}

async fn examine(State(state): State<AppState>, form: ViewerForm) -> Result<Response, ConsoleError> {
    let (app_id, address) = (form.text("app_id"), form.text("address"));
    let examined = examine_request(&state, app_id, address, form.text("request")).await?;
    let page = Page::new(&form.signed_in, Section::SignatureCheck, Section::SignatureCheck.name());
    let app_field = app_field(&state, app_id).await?;
    Ok(render(&CheckTemplate { page, app_field, address, examined: Some(examined) }))
}

async fn app_field<'a>(state: &AppState, chosen: &'a str) -> Result<AppField<'a>, ConsoleError> {
    let field = AppField::new(state, chosen).await?.with_label("App whose pay keys to use");
    Ok(field.with_hint("If empty, the app that the request names."))
}

/// The checks in the order of contract 3.6: body, token, signature, fields, `biz_no`, `ts`, wallet.
async fn examine_request(
    state: &AppState,
    chosen: &str,
    address: &str,
    request: &str,
) -> Result<Examined, ConsoleError> {
    let mut steps: Vec<Step> = address_step(address).into_iter().collect();
    let fields = match read_request(request) {
        Ok(fields) => fields,
        Err(unreadable) => {
            steps.push(Step::bad("Body", format!("{unreadable}. The exchange is refused with 10000200.")));
            return Ok(Examined { steps, fields: Vec::new(), signature: None });
        }
    };
    steps.push(Step::good("Body", format!("The body has {} fields.", fields.texts().count())));
    steps.extend(app_step(chosen, &fields));
    let rows = field_rows(&fields);
    let named = if chosen.is_empty() { fields.text("app_id").unwrap_or_default() } else { chosen };
    let app = match AppId::parse(named) {
        Ok(app_id) => state.store.find_app(&app_id).await?,
        Err(_) => None,
    };
    let Some(app) = app else {
        steps.push(Step::bad("app_id", "There is no such app. The exchange is refused with 100200102."));
        return Ok(Examined { steps, fields: rows, signature: None });
    };
    if app.suspended {
        steps.push(Step::bad("app_id", "The app is suspended. The exchange is refused with 100200102."));
    }
    steps.push(token_step(state, &app, &fields).await?);
    let signature = examine_signature(&app, &fields);
    steps.push(signature_step(&signature));
    steps.extend(exchange_steps(state, &app, &fields).await?);
    Ok(Examined { steps, fields: rows, signature: Some(signature) })
}

/// One line is a form body, percent-encoded. Otherwise each line is one field, not encoded.
fn read_request(text: &str) -> Result<Fields, UnreadableFields> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.len() <= 1 {
        return Fields::from_urlencoded(lines.concat().as_bytes());
    }
    let mut fields = Fields::default();
    for line in lines {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        fields.add_text(name.trim().to_owned(), value.to_owned())?;
    }
    Ok(fields)
}

/// Whether the request was sent to the address of the exchange.
fn address_step(address: &str) -> Option<Step> {
    if address.is_empty() {
        return None;
    }
    let (method, target) = address.split_once(' ').unwrap_or(("POST", address));
    let path =
        target.split_once("://").map_or(target, |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
    let path = path.trim().split(['?', ' ']).next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let is_path = matches!(parts[..], ["api", _, "minigame", "pay"]);
    let is_post = Method::from_str(method).is_ok_and(|method| method == Method::POST);
    Some(match (is_post, is_path) {
        (true, true) => Step::good("Address", "This is the address of the exchange."),
        (false, true) => {
            Step::bad("Address", "The method is wrong. An exchange is a POST. Other methods get status 405.")
        }
        (_, false) => Step::bad(
            "Address",
            "This is not the address of the exchange, POST /api/<payment_segment>/minigame/pay.",
        ),
    })
}

fn app_step(chosen: &str, fields: &Fields) -> Option<Step> {
    match fields.text("app_id") {
        None => Some(Step::bad("app_id", "The field is missing. The exchange is refused with 100200102.")),
        Some(sent) if !chosen.is_empty() && sent != chosen => Some(Step::bad(
            "app_id",
            "The request names another app. This check uses the pay keys of the app that you chose.",
        )),
        Some(_) => None,
    }
}

async fn token_step(state: &AppState, app: &App, fields: &Fields) -> Result<Step, ConsoleError> {
    let what = "access_token";
    let Some(token) = fields.text(what) else {
        return Ok(Step::bad(what, "The field is missing. The exchange is refused with 100200102."));
    };
    Ok(match state.store.token_state(&app.id, token_hash(token)).await? {
        TokenState::Valid => Step::good(what, "The token is valid."),
        TokenState::Expired => Step::bad(
            what,
            "The token has expired. The exchange is refused with 100200102. Request a new token.",
        ),
        TokenState::Unknown => {
            Step::bad(what, "The app has no such token. The exchange is refused with 100200102.")
        }
    })
}

fn signature_step(finding: &SignatureFinding) -> Step {
    let what = "sign";
    match finding.verdict {
        SignatureVerdict::Missing => {
            Step::bad(what, "The field is missing. The exchange is refused with 100200114.")
        }
        SignatureVerdict::Current => {
            Step::good(what, "The signature matches. It was made with the current pay key.")
        }
        SignatureVerdict::Previous => Step::wait(
            what,
            "The signature matches. It was made with the previous pay key, which is valid until the next \
             rotation. Give the game server the current pay key.",
        ),
        SignatureVerdict::Differs(Some(mistake)) => {
            Step::bad(what, format!("The signature does not match: {}.", mistake.text()))
        }
        SignatureVerdict::Differs(None) => Step::bad(
            what,
            "The signature does not match, and no known mistake explains it. Compare the string below, byte for \
             byte, with the string that the game server signed. If they are equal, the key is wrong.",
        ),
    }
}

/// The fields, then `biz_no`, `ts` and the wallet.
async fn exchange_steps(state: &AppState, app: &App, fields: &Fields) -> Result<Vec<Step>, ConsoleError> {
    let exchange = match Exchange::parse(fields, &state.reading()) {
        Ok(exchange) => exchange,
        Err(error) => {
            let is_open_id = error.field == "open_id" && error.is_malformed();
            let code = if is_open_id { Code::IllegalOpenId } else { Code::IllegalParameter }.number();
            return Ok(vec![Step::bad("Fields", format!("{error}. The exchange is refused with {code}."))]);
        }
    };
    let mut steps = vec![Step::good("Fields", "All fields are valid.")];
    let used = state.store.exchange(&app.id, &exchange.biz_no, false).await?;
    if let Some(used) = used {
        let at = used.created_at.shown();
        steps.push(Step::wait("biz_no", match used.same_content {
            UsedNumber::Expired => {
                format!("It was used at {at} UTC and has expired. The exchange is refused with 10000603.")
            }
            UsedNumber::Replayed | UsedNumber::Conflict => format!(
                "It was used at {at} UTC. The same content is a replay. Other content is refused with 10000602."
            ),
        }));
        return Ok(steps);
    }
    steps.push(Step::good("biz_no", "It was not used before."));
    if !exchange.is_fresh {
        steps.push(Step::wait(
            "ts",
            "It is outside the accepted time window. If sent now, the exchange is refused with 10000604.",
        ));
    }
    let content = &exchange.content;
    steps.push(match state.store.wallet(&app.id, &content.open_id).await? {
        None => Step::bad("open_id", "The app has no such player. The exchange is refused with 10000423."),
        Some(wallet) => {
            let (free, charge) = (wallet.free_balance, wallet.charge_balance);
            let held = format!("The balances are {} gifted and {} charged", free.shown(), charge.shown());
            if free.saturating_add(charge) < content.amount.get() {
                Step::bad(
                    "amount",
                    format!("{held}. That is not enough. The exchange is refused with 10000601."),
                )
            } else {
                Step::good("amount", format!("{held}. That is enough."))
            }
        }
    });
    Ok(steps)
}

fn field_rows(fields: &Fields) -> Vec<FieldRow> {
    let rows = fields.texts().map(|(name, value)| {
        let is_signed = SIGNED_FIELDS.contains(&name);
        let usage = match (is_signed, value.is_empty(), name) {
            (true, false, _) => "signed",
            (true, true, _) => "empty: not in the string",
            (false, _, "access_token" | "sign") => "not signed",
            (false, _, _) => "unknown: ignored",
        };
        let shown = if HIDDEN_FIELDS.contains(&name) { "hidden" } else { value };
        FieldRow {
            name: name.to_owned(),
            is_known: is_signed || HIDDEN_FIELDS.contains(&name),
            value: shown.to_owned(),
            bytes: value.len(),
            usage,
        }
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(request: &str) -> Vec<(String, String)> {
        let fields = read_request(request).unwrap();
        fields.texts().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn one_line_is_a_form_and_several_are_a_field_each() {
        let of = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(texts("a=1%202&b=x%3Dy\r\n"), of(&[("a", "1 2"), ("b", "x=y")]));
        assert_eq!(texts("a=1%202&3\r\n\r\nb=x=y\r\n"), of(&[("a", "1%202&3"), ("b", "x=y")]));
        assert_eq!(texts(""), of(&[]));
        assert!(read_request("a=1&a=2").is_err() && read_request("a=1\na=2").is_err());
    }

    #[test]
    fn an_address_is_that_of_the_exchange_or_not() {
        let tone = |address: &str| address_step(address).map(|step| step.tone);
        assert_eq!(tone(""), None);
        for good in [
            "/api/kpay/minigame/pay",
            "POST /api/kpay/minigame/pay",
            "POST https://pay.example//api//kpay/minigame/pay?x=1 HTTP/1.1",
        ] {
            assert_eq!(tone(good), Some(Tone::Good), "{good}");
        }
        for bad in ["GET /api/kpay/minigame/pay", "POST /api/minigame/pay", "https://pay.example", "/"] {
            assert_eq!(tone(bad), Some(Tone::Bad), "{bad}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let fields = read_request("access_token=t0ken&sign=abc&app_secret=s&amount=5&os=&x=1").unwrap();
        let rows = field_rows(&fields);
        let shown: Vec<_> =
            rows.iter().map(|row| (row.name.as_str(), row.value.as_str(), row.usage)).collect();
        let expected = [
            ("access_token", "hidden", "not signed"),
            ("sign", "hidden", "not signed"),
            ("app_secret", "hidden", "unknown: ignored"),
            ("amount", "5", "signed"),
            ("os", "", "empty: not in the string"),
            ("x", "1", "unknown: ignored"),
        ];
        assert_eq!(shown, expected);
    }
}
