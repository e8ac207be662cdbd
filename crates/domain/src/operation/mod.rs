//! Operations of operators (contract 8), one file a subject. It has the command with every field parsed, the report of
//! what was done, and the refusals. Command line, admin API and console read their input into a command, hand it to the
//! store, and render the report or the refusal.

/// Declares refusals, each a function of what its text says: its kind, and `of` which app's thing it is.
macro_rules! refusals {
    ($(
        $(#[$doc:meta])*
        $name:ident($($value:ident),*): $kind:ident $(($what:expr))? $(of $app:ident)?, $text:expr;
    )+) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $name($($value: impl ::std::fmt::Display),*) -> $crate::operation::OperationRefusal {
                let kind = $crate::operation::RefusalKind::$kind $(($what))?;
                $crate::operation::OperationRefusal::new(kind, $text)$(.of_app($app))?
            }
        )+
    };
}

pub mod account;
pub mod app;
pub mod books;
pub mod freeze;
pub mod image;
pub mod key;
pub mod player;
pub mod receiver;
pub mod topup;
pub mod user;
pub mod wallet;

use std::fmt::Display;

use crate::text;
use crate::text::Text;

/// Why an operation was not carried out. Nothing has changed. A function for each refusal makes it, so every face says
/// the same words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationRefusal {
    /// How a face answers it.
    pub kind: RefusalKind,
    /// The fault, without a full stop.
    pub text: Text,
    /// The app, for a face that tells what to do next.
    pub app_id: Option<String>,
}

/// What a face tells a refusal apart by: the admin API its type of problem, the console its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// There is no such thing.
    Unknown(Subject),
    /// It contradicts what is there.
    Conflict,
    /// There would be more than there may be.
    Limit,
    /// Somebody else may do it.
    NotAllowed,
    /// This field fits no longer, or not with the others.
    Invalid(&'static str),
}

/// The subject of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// An app.
    App,
    /// A player of an app.
    Player,
    /// An exchange of an app.
    Exchange,
    /// A payment for a top-up.
    Payment,
    /// An order of a top-up.
    TopupOrder,
    /// A payment provider of an app.
    PaymentProvider,
    /// A change of a wallet that waits for a second person.
    Request,
    /// A list of credits of an app.
    Gift,
    /// An access token of an app.
    Token,
    /// A receiver of an app.
    Receiver,
    /// An event for a receiver.
    Event,
    /// An image.
    Image,
    /// The block of a picture.
    Block,
    /// A key of the admin API.
    ApiKey,
    /// A user of the console.
    User,
    /// A session of a user.
    Session,
    /// The records of a player, whether or not the app knows them.
    Records,
}

impl OperationRefusal {
    /// A refusal of this kind. The text is one sentence without a full stop.
    #[must_use]
    pub const fn new(kind: RefusalKind, text: Text) -> Self {
        Self { kind, text, app_id: None }
    }

    /// The same refusal of something of an app.
    #[must_use]
    pub fn of_app(self, app_id: impl Display) -> Self {
        Self { app_id: Some(app_id.to_string()), ..self }
    }
}

refusals! {
    /// There is no such app.
    unknown_app(app_id): Unknown(Subject::App) of app_id, text!("there is no app {app_id}", app_id);
}
