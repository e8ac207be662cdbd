//! Commands of operators to users of the console, and of a user to themselves (contract 8.6).

use std::fmt::Display;

use super::{OperationRefusal, RefusalKind, Subject};
use crate::console_user::PasswordHash;
use crate::rights::Rights;
use crate::secret::Secret;
use crate::text;

/// What is done to a user.
#[derive(Debug, Clone)]
pub enum UserCommand {
    /// Add the user.
    Add(Rights, PasswordHash),
    /// Set the password and forget the failed attempts.
    Password(PasswordHash),
    /// The user sets their own password. It ends their other sessions, and does nothing when the present
    /// password has changed meanwhile.
    OwnPassword {
        /// Hash of the present password, which was verified.
        present: PasswordHash,
        /// Hash of the new one.
        new: PasswordHash,
        /// The session that stays, by the hash of its token.
        session: [u8; 32],
    },
    /// Set the second factor of a user who has none, and end their other sessions.
    SecondFactor(NewSecondFactor),
    /// Forget the second factor, and end all sessions.
    ResetSecondFactor,
    /// End one session, by its id.
    EndSession(String),
    /// Set the role and its apps. The next sign-in at an OpenID Connect provider sets the role of the user's groups
    /// again, and leaves the apps.
    Rights(Rights),
    /// Forget the failed attempts of all addresses, so that none has to wait.
    Unlock,
    /// Remove the user.
    Remove,
}

/// A second factor that a user sets up.
#[derive(Debug, Clone)]
pub struct NewSecondFactor {
    /// The secret, in base32.
    pub secret: Secret,
    /// The step of the code that the user typed to show that they have it.
    pub step: u64,
    /// The hashes of the recovery codes.
    pub recovery_codes: Vec<[u8; 32]>,
    /// The session that goes on, by the hash of its secret.
    pub session: [u8; 32],
}

/// There is a user with this name.
#[must_use]
pub fn user_taken(name: impl Display) -> OperationRefusal {
    OperationRefusal::new(RefusalKind::Conflict, text!("there is already a user {name}", name))
}

/// There is no such user.
#[must_use]
pub fn unknown_user(name: impl Display) -> OperationRefusal {
    OperationRefusal::new(RefusalKind::Unknown(Subject::User), text!("there is no user {name}", name))
}

/// The user has no such session.
#[must_use]
pub fn unknown_session(name: impl Display) -> OperationRefusal {
    let text = text!("the user {name} has no such session", name);
    OperationRefusal::new(RefusalKind::Unknown(Subject::Session), text)
}

/// A user of an OpenID Connect provider has neither password nor second factor here (contract 8.6.23).
#[must_use]
pub fn of_a_provider(name: impl Display) -> OperationRefusal {
    let text = text!("the user {name} signs in by OpenID Connect and has no password here", name);
    OperationRefusal::new(RefusalKind::Conflict, text)
}

/// Somebody has set another password since the present one was verified.
#[must_use]
pub fn password_changed(name: impl Display) -> OperationRefusal {
    let text = text!("the password of the user {name} has just been changed", name);
    OperationRefusal::new(RefusalKind::Conflict, text)
}

/// The user has set up a second factor.
#[must_use]
pub fn has_second_factor(name: impl Display) -> OperationRefusal {
    let text = text!("the user {name} has a second factor already; an admin can reset it", name);
    OperationRefusal::new(RefusalKind::Conflict, text)
}

/// The console keeps an admin of all apps (contract 8.6.4).
#[must_use]
pub fn last_admin(name: impl Display) -> OperationRefusal {
    let text = text!(
        "the user {name} is the last admin of all apps; make another user an admin first, or run minitill \
         console-user on the server",
        name
    );
    OperationRefusal::new(RefusalKind::NotAllowed, text)
}

/// An app that the user or key would be for does not exist (contract 8.6.39).
#[must_use]
pub fn unknown_own_app(app_id: impl Display) -> OperationRefusal {
    OperationRefusal::new(RefusalKind::Invalid("app"), text!("there is no app {app_id}", app_id))
}
