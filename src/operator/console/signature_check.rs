//! The signature check: an operator pastes a request of a game server, and the page makes the checks of
//! its call, step by step. It reports whether the signature matches, and if not, which mistake explains
//! it. The page shows data of the request only, never a key or a signature ([`SignatureFinding`]).

mod wallet;

use std::str::FromStr as _;
use std::sync::Arc;

use askama::Template;
use axum::http::Method;
use axum::routing::{get, post};
use domain::app::App;
use domain::caller::{SignatureFinding, SignatureVerdict, TokenState, examine_signature};
use domain::code::Code;
use domain::fields::{Fields, UnreadableFields, shown};
use domain::ids::AppId;
use domain::order_center::Standing;
use domain::signature::first_difference;
use domain::text;
use domain::text::Text;
use domain::wallet::{WalletCall, WalletForm};
use store::secrets::token_hash;

use self::wallet::wallet_steps;
use super::error::ConsoleError;
use super::i18n::said;
use super::page::{LoadsAgain, Page, Section, render};
use super::request::{Answer, ConsoleRequest};
use super::route::{ConsoleRoute, routes};
use crate::diagnosis::{FORM_BYTES_MAX, KeysTried, NoDiagnosis};
use crate::state::AppState;

/// It has a page and a form, which change nothing.
const PATH: &str = Section::SIGNATURE_CHECK.path;

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page(PATH).of_own_apps() => get(form);
    // It is a POST because an address must not have the token of the request.
    own(PATH) => post(examine);
};

/// Fields whose values the page never shows.
const HIDDEN_FIELDS: [&str; 3] = ["access_token", "app_secret", "sign"];
const MISSING: &str = "The field is missing";

#[derive(Template)]
#[template(path = "signature_check.html")]
struct SignatureCheckPage<'a> {
    page: Page<'a>,
    examined: Option<Examined>,
    /// What the operator says that the game server signed.
    compared: Option<Compared>,
}

/// The string that a game server signed beside the one that the server signs.
#[derive(Debug, PartialEq, Eq)]
enum Compared {
    Same,
    /// From a byte on, counted from 1, with the text from there on of either.
    Differ {
        byte: usize,
        expected: String,
        got: String,
    },
}

/// The result for a request.
#[derive(Default)]
struct Examined {
    steps: Vec<Step>,
    /// The call, with the decoded fields of the request.
    form: Option<WalletForm>,
    signature: Option<SignatureFinding>,
}

/// One check of the call.
struct Step {
    what: &'static str,
    standing: Standing,
    says: Text,
}

impl Step {
    fn good(what: &'static str, says: impl Into<Text>) -> Self {
        Self { what, standing: Standing::Good, says: says.into() }
    }

    fn wait(what: &'static str, says: impl Into<Text>) -> Self {
        Self { what, standing: Standing::Waits, says: says.into() }
    }

    fn bad(what: &'static str, says: impl Into<Text>) -> Self {
        Self { what, standing: Standing::Bad, says: says.into() }
    }

    /// A failed check for which the request is refused.
    fn refused(what: &'static str, says: impl Into<Text>, code: Code) -> Self {
        Self::bad(what, refusal(&says.into(), code))
    }

    /// The result of the check.
    fn result(&self) -> &'static str {
        match self.standing {
            Standing::Good => "passed",
            Standing::Waits => "warning",
            Standing::Bad => "failed",
        }
    }
}

/// Adds the code of the refusal to a sentence, which comes without its full stop.
fn refusal(says: &Text, code: Code) -> Text {
    text!("{says}. The request is refused with {code}.", says, code = code.number())
}

async fn form(request: ConsoleRequest) -> Answer {
    show(&request, None).await
}

async fn examine(request: ConsoleRequest) -> Answer {
    let (app_id, address) = (request.text("app_id"), request.text("address"));
    let examined = examine_request(&request, app_id, address, request.text("request")).await?;
    show(&request, Some(examined)).await
}

async fn show(request: &ConsoleRequest, examined: Option<Examined>) -> Answer {
    let signed = request.text("signed").trim_end_matches(['\r', '\n']);
    let right = examined.as_ref().and_then(|examined| examined.signature.as_ref());
    let compared = right.filter(|_| !signed.is_empty()).map(|right| compare(&right.string_to_sign, signed));
    let page =
        Page { loads_again: LoadsAgain::Never, ..request.search_page(Section::SIGNATURE_CHECK).await? };
    render(&SignatureCheckPage { page, examined, compared })
}

/// Where the string that was signed begins to differ.
fn compare(expected: &str, got: &str) -> Compared {
    let Some(at) = first_difference(expected, got) else { return Compared::Same };
    let from = |text: &str| {
        let rest = &text[text.floor_char_boundary(at)..];
        if rest.is_empty() { said(&text!("the end")) } else { shown(rest) }
    };
    Compared::Differ { byte: at + 1, expected: from(expected), got: from(got) }
}

/// The checks in the order of contract 3.6: body, token, signature, fields, `biz_no`, `ts`, wallet.
async fn examine_request(
    request: &ConsoleRequest,
    chosen: &str,
    address: &str,
    pasted: &str,
) -> Result<Examined, ConsoleError> {
    let state = &request.state;
    let mut steps: Vec<Step> = address_step(address).into_iter().collect();
    let fields = match read_request(pasted) {
        Ok(fields) => fields,
        Err(unreadable) => {
            steps.push(Step::refused("Body", unreadable.text(), Code::IllegalParameter));
            return Ok(Examined { steps, ..Examined::default() });
        }
    };
    let call = called(address).unwrap_or_else(|| WalletCall::of(&fields));
    steps.push(Step::good(
        "Body",
        text!(
            "The body has {fields} fields. {call}.",
            fields = fields.texts().count(),
            call = Text::new(title(call))
        ),
    ));
    steps.extend(app_step(chosen, &fields));
    let named = if chosen.is_empty() { fields.text("app_id").unwrap_or_default() } else { chosen };
    let app = match AppId::parse(named) {
        Ok(app_id) if request.apps().has(named) => state.store.find_app(&app_id).await?,
        _ => None,
    };
    let Some(app) = app else {
        steps.push(Step::refused("app_id", "There is no such app", Code::Unauthorised));
        return Ok(Examined { steps, form: Some(WalletForm { call, fields }), signature: None });
    };
    if app.suspended {
        steps.push(Step::refused("app_id", "The app is suspended", Code::Forbidden));
    }
    steps.push(token_step(state, &app, &fields).await?);
    let form = WalletForm { call, fields };
    let mut signature = examine_signature(&app, &form);
    if signature.verdict == SignatureVerdict::Differs(None) {
        // A key that fits would tell of another app.
        let keys = if request.apps().is_all() { KeysTried::OfOthersToo } else { KeysTried::Own };
        let (app, form, now) = (Arc::clone(&app), form.clone(), state.clock.monotonic());
        match state.operator_diagnoses.make(&state.store, app, form, keys, now).await? {
            Ok(found) => {
                signature = found;
                steps.push(signature_step(&signature));
            }
            Err(why) => steps.push(undiagnosed_step(why)),
        }
    } else {
        steps.push(signature_step(&signature));
    }
    steps.extend(wallet_steps(state, &app, &form).await?);
    Ok(Examined { steps, form: Some(form), signature: Some(signature) })
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

/// Whether the request was sent to the address of a call.
fn address_step(address: &str) -> Option<Step> {
    if address.is_empty() {
        return None;
    }
    let (method, _) = method_and_path(address);
    let is_post = Method::from_str(method).is_ok_and(|method| method == Method::POST);
    Some(match (is_post, called(address)) {
        (true, Some(call)) => {
            Step::good("Address", text!("{call}: the address fits.", call = Text::new(title(call))))
        }
        (false, Some(_)) => Step::bad(
            "Address",
            "The method is wrong. The calls of the wallet are POST. Other methods get status 405.",
        ),
        (_, None) => Step::bad(
            "Address",
            "This is not the address of a call of the wallet, POST /api/<payment_segment>/minigame/pay, balance, \
             present, cancel, query or topup.",
        ),
    })
}

/// The call that an address leads to.
fn called(address: &str) -> Option<WalletCall> {
    let (_, path) = method_and_path(address);
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let ["api", _, "minigame", segment] = parts[..] else { return None };
    WalletCall::ALL.into_iter().find(|call| call.segment() == segment)
}

fn method_and_path(address: &str) -> (&str, &str) {
    let (method, target) = address.split_once(' ').unwrap_or(("POST", address));
    let path =
        target.split_once("://").map_or(target, |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
    (method, path.trim().split(['?', ' ']).next().unwrap_or_default())
}

fn title(call: WalletCall) -> &'static str {
    match call {
        WalletCall::Exchange => "It is an exchange",
        WalletCall::Present => "It is a present",
        WalletCall::Cancel => "It is a cancel",
        WalletCall::Balance => "It is a balance",
        WalletCall::Query => "It is a query",
        WalletCall::Topup => "It is an order of a top-up",
    }
}

fn app_step(chosen: &str, fields: &Fields) -> Option<Step> {
    match fields.text("app_id") {
        None => Some(Step::refused("app_id", MISSING, Code::Unauthorised)),
        Some(sent) if !chosen.is_empty() && sent != chosen => Some(Step::bad(
            "app_id",
            "The request names another app. This check uses the pay keys of the app that you chose.",
        )),
        Some(_) => None,
    }
}

async fn token_step(state: &AppState, app: &App, fields: &Fields) -> Result<Step, ConsoleError> {
    let refused = |says: &'static str| Step::refused("access_token", says, Code::Unauthorised);
    let Some(token) = fields.text("access_token") else { return Ok(refused(MISSING)) };
    Ok(match state.store.token_state(&app.id, token_hash(token)).await? {
        TokenState::Valid => Step::good("access_token", "The token is valid."),
        TokenState::Expired => refused("The token has expired. Request a new token"),
        TokenState::Unknown => refused("The app has no such token"),
    })
}

fn signature_step(finding: &SignatureFinding) -> Step {
    let what = "sign";
    match finding.verdict {
        SignatureVerdict::Missing => Step::refused(what, MISSING, Code::BadSignature),
        SignatureVerdict::Current => {
            Step::good(what, "The signature matches. It was made with the current pay key.")
        }
        SignatureVerdict::Previous => Step::wait(
            what,
            "The signature matches. It was made with the previous pay key, which is valid until the next \
             rotation. Give the game server the current pay key.",
        ),
        SignatureVerdict::Differs(Some(mistake)) => {
            Step::bad(what, text!("The signature does not match: {mistake}.", mistake = mistake.text()))
        }
        SignatureVerdict::Differs(None) => Step::bad(
            what,
            "The signature does not match, and no known mistake explains it. Compare the string below, byte for \
             byte, with the string that the game server signed. If they are equal, the key is wrong.",
        ),
    }
}

/// A signature that does not match, and nobody looked why.
fn undiagnosed_step(why: NoDiagnosis) -> Step {
    let says = match why {
        NoDiagnosis::Busy => Text::new(
            "The signature does not match. The diagnosis of this app is busy: send the form again in a second to learn why.",
        ),
        NoDiagnosis::FormTooLarge => {
            text!(
                "The signature does not match. A form above {max} bytes is not diagnosed.",
                max = FORM_BYTES_MAX
            )
        }
    };
    Step::bad("sign", says)
}

/// Whether a call has a field of this name.
fn is_known(call: WalletCall, name: &str) -> bool {
    call.signs(name) || HIDDEN_FIELDS.contains(&name)
}

/// The value of a field as the page shows it.
fn value_shown<'a>(name: &str, value: &'a str) -> &'a str {
    if HIDDEN_FIELDS.contains(&name) { "hidden" } else { value }
}

/// What the signature check makes of a field.
fn usage(call: WalletCall, name: &str, value: &str) -> &'static str {
    match (call.signs(name), value.is_empty(), name) {
        (true, false, _) => "signed",
        (true, true, _) => "empty: not in the string",
        (false, _, "access_token" | "sign") => "not signed",
        (false, _, _) => "unknown: ignored",
    }
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
        let standing = |address: &str| address_step(address).map(|step| step.standing);
        assert_eq!(standing(""), None);
        for good in [
            "/api/kpay/minigame/pay",
            "POST /api/kpay/minigame/pay",
            "POST https://pay.example//api//kpay/minigame/pay?x=1 HTTP/1.1",
            "POST /api/kpay/minigame/cancel",
        ] {
            assert_eq!(standing(good), Some(Standing::Good), "{good}");
        }
        for bad in ["GET /api/kpay/minigame/pay", "POST /api/minigame/pay", "https://pay.example", "/"] {
            assert_eq!(standing(bad), Some(Standing::Bad), "{bad}");
        }
    }

    #[test]
    fn the_first_byte_that_differs_is_found() {
        let differ = |byte, expected: &str, got: &str| Compared::Differ {
            byte,
            expected: expected.to_owned(),
            got: got.to_owned(),
        };
        assert_eq!(compare("a=1&b=2", "a=1&b=2"), Compared::Same);
        assert_eq!(compare("a=1&b=2", "a=1&c=2"), differ(5, "\"b=2\"", "\"c=2\""));
        assert_eq!(compare("a=1", "a=1&b=2"), differ(4, "the end", "\"&b=2\""));
        assert_eq!(compare("a=币", "a=布"), differ(5, "\"币\"", "\"布\""));
    }

    #[test]
    fn secrets_are_not_shown() {
        let fields = read_request("access_token=t0ken&sign=abc&app_secret=s&amount=5&os=&x=1").unwrap();
        let rows = fields
            .texts()
            .map(|(name, value)| (name, value_shown(name, value), usage(WalletCall::Exchange, name, value)));
        let expected = [
            ("access_token", "hidden", "not signed"),
            ("sign", "hidden", "not signed"),
            ("app_secret", "hidden", "unknown: ignored"),
            ("amount", "5", "signed"),
            ("os", "", "empty: not in the string"),
            ("x", "1", "unknown: ignored"),
        ];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }
}
