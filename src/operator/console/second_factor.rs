//! The second factor of a user: codes of an authenticator (RFC 6238), and recovery codes.

use askama::Template;
use axum::routing::{get, post};
use domain::console_user::ConsoleUserName;
use domain::operation::user::{NewSecondFactor, UserCommand};
use domain::secret::Secret;
use qrcode::{Color, QrCode};
use store::secrets::{random_bytes, token_hash};
use store::{CodeAttempt, StoreError};
use totp_rs::{Builder, Totp};

use super::error::ConsoleError;
use super::page::{Page, render};
use super::password;
use super::request::{Answer, ConsoleRequest, lead_to};
use super::route::{ConsoleRoute, routes};
use crate::state::AppState;

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page(PATH).of_own_apps() => get(page);
    own(PATH) => post(set_up);
};

/// Where a user sets up the second factor.
pub(super) const PATH: &str = "/console/account/second-factor";

const SECRET_BYTES: usize = 20;
const RECOVERY_CODES: usize = 10;

/// Whether a code is right and was not used before. Every code is, of a user without a second factor. Wrong codes are counted
/// (contract 8.6.50).
pub(super) async fn fits(state: &AppState, name: &ConsoleUserName, code: &str) -> Result<bool, ConsoleError> {
    let Some(secret) = state.store.second_factor(name).await? else { return Ok(true) };
    let code: String = code.chars().filter(char::is_ascii_alphanumeric).collect();
    if code.is_empty() {
        return Ok(false);
    }
    let attempt = state.store.attempt_code(name).await?;
    let step = totp(&secret).ok_or_else(damaged)?.check(&code, now(state));
    let fits = match step.filter(|_| attempt != CodeAttempt::RecoveryAlone) {
        Some(step) => state.store.use_second_factor_step(name, step).await?,
        None => state.store.use_recovery_code(name, token_hash(&code.to_ascii_lowercase())).await?,
    };
    if fits {
        state.store.forget_wrong_codes(name).await?;
    } else if attempt == CodeAttempt::IsLast {
        let user = name.as_str();
        tracing::warn!(
            user,
            "console: after 20 wrong codes and a right password only recovery codes sign this user in"
        );
    }
    Ok(fits)
}

fn now(state: &AppState) -> u64 {
    u64::try_from(state.clock.unix_millis() / 1000).unwrap_or_default()
}

/// Six digits each 30 seconds. The code before and the code after count too.
fn totp(secret: &str) -> Option<Totp> {
    let secret = totp_rs::Secret::try_from_base32(secret).ok()?;
    Builder::new().with_secret(secret).build().ok()
}

fn damaged() -> ConsoleError {
    StoreError::Internal("console_users.totp_secret: no base32 of 20 bytes".to_owned()).into()
}

#[derive(Template)]
#[template(path = "second_factor.html")]
struct SetUpPage<'a> {
    page: Page<'a>,
    secret: &'a str,
    uri: String,
    /// Modules on a side of the QR code, with its quiet zone.
    side: usize,
    /// Its dark modules, as a path.
    dark: String,
    is_required: bool,
}

async fn page(request: ConsoleRequest) -> Answer {
    if request.user.has_second_factor || !request.user.has_password {
        return lead_to(super::account::PATH);
    }
    let secret = totp_rs::Secret::from(random_bytes::<SECRET_BYTES>()).to_base32();
    let name = request.user.name.as_str();
    let uri = format!("otpauth://totp/Minitill:{}?secret={secret}&issuer=Minitill", name.replace('@', "%40"));
    let (side, dark) = qr_code(&uri).ok_or_else(damaged)?;
    let page = Page { user: Some(&request.user), ..Page::of_nobody("Second factor") };
    let is_required = request.user.lacks_second_factor(&request.state);
    render(&SetUpPage { page, secret: &secret, uri, side, dark, is_required })
}

/// The side of a QR code, and a path that draws its dark modules.
fn qr_code(text: &str) -> Option<(usize, String)> {
    const QUIET: usize = 4;
    let code = QrCode::new(text).ok()?;
    let width = code.width();
    let dark = code.to_colors().into_iter().enumerate().filter(|(_, color)| *color == Color::Dark);
    let squares = dark.map(|(at, _)| format!("M{} {}h1v1h-1z", at % width + QUIET, at / width + QUIET));
    Some((width + 2 * QUIET, squares.collect()))
}

#[derive(Template)]
#[template(path = "recovery_codes.html")]
struct CodesPage<'a> {
    page: Page<'a>,
    codes: &'a [String],
}

async fn set_up(request: ConsoleRequest) -> Answer {
    let (name, secret) = (&request.user.name, request.text("secret"));
    let unusable =
        || ConsoleError::bad_request("The secret of this form cannot be used. Open the page again.");
    let totp = totp(secret).ok_or_else(unusable)?;
    let typed = request.fields.text("password").unwrap_or_default();
    let known = password::verify(&request.state, request.client, name, typed, None).await?;
    known.ok_or(ConsoleError::WRONG_PASSWORD)?;
    let wrong = "The code is wrong. Check that the clock of your device is right, and type the code of now.";
    let step = totp.check(request.text("code"), now(&request.state));
    let step = step.ok_or_else(|| ConsoleError::bad_request(wrong))?;
    let codes: Vec<String> = (0..RECOVERY_CODES).map(|_| hex::encode(random_bytes::<10>())).collect();
    let new = NewSecondFactor {
        secret: Secret::new(secret.to_owned()),
        step,
        recovery_codes: codes.iter().map(|code| token_hash(code)).collect(),
        session: request.user.token_hash,
    };
    request
        .state
        .store
        .change_console_user(&request.oneself()?, name, UserCommand::SecondFactor(new))
        .await?;
    let page = Page { user: Some(&request.user), ..Page::of_nobody("Recovery codes") };
    render(&CodesPage { page, codes: &codes })
}
