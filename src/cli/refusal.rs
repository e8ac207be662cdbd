//! Refusals of commands: their words, and what the user of a shell can do next.

use anyhow::{Error, anyhow};
use domain::ids::AppId;
use domain::operation;
use domain::operation::{OperationRefusal, RefusalKind, Subject};
use store::OperationError;

/// There is no such app.
pub(super) fn unknown_app(app_id: &AppId) -> Error {
    refused(operation::unknown_app(app_id))
}

/// Why a command was not carried out, in words for people.
pub(super) fn not_done(error: OperationError) -> Error {
    match error {
        OperationError::Refused(refusal) => refused(refusal),
        OperationError::Store(error) => error.into(),
    }
}

/// The words of a refusal, and what the user of a shell can do next.
pub(super) fn refused(refusal: OperationRefusal) -> Error {
    let app_id = refusal.app_id.unwrap_or_default();
    let next = match refusal.kind {
        RefusalKind::Unknown(Subject::App) => "; to list all apps, run `minitill app list`".to_owned(),
        RefusalKind::Unknown(Subject::Player) => {
            format!("; a login makes a player known, and so do `minitill user add {app_id}` and --create")
        }
        RefusalKind::Unknown(Subject::Receiver) => {
            format!("; to list all, run `minitill receiver list {app_id}`")
        }
        RefusalKind::Unknown(Subject::PaymentProvider) => {
            format!("; to list all, run `minitill topup providers {app_id}`")
        }
        RefusalKind::Unknown(Subject::Image) => {
            "; to list the newest images, run `minitill image list --all`".to_owned()
        }
        RefusalKind::Unknown(Subject::Block) => {
            "; to list all blocked pictures, run `minitill image list`".to_owned()
        }
        RefusalKind::Unknown(Subject::User) => {
            "; to list all users, run `minitill console-user list`".to_owned()
        }
        RefusalKind::Unknown(Subject::ApiKey) => "; to list all keys, run `minitill api-key list`".to_owned(),
        RefusalKind::Unknown(
            Subject::Exchange
            | Subject::Gift
            | Subject::Request
            | Subject::Payment
            | Subject::TopupOrder
            | Subject::Token
            | Subject::Event
            | Subject::Session
            | Subject::Records,
        )
        | RefusalKind::Conflict
        | RefusalKind::Limit
        | RefusalKind::NotAllowed => String::new(),
        RefusalKind::Invalid(field) => return anyhow!("--{field}: {}", refusal.text.english()),
    };
    anyhow!("{}{next}", refusal.text.english())
}
