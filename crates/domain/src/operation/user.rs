//! Commands of operators to users of the console, and of a user to themselves (contract 8.6).

use super::Subject;
use crate::console_user::PasswordHash;
use crate::rights::Rights;
use crate::secret::Secret;
use crate::text;

/// A command to a user.
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

refusals! {
    /// There is a user with this name.
    user_taken(name): Conflict, text!("there is already a user {name}", name);
    /// There is no such user.
    unknown_user(name): Unknown(Subject::User), text!("there is no user {name}", name);
    /// The user has no such session.
    unknown_session(name): Unknown(Subject::Session), text!("the user {name} has no such session", name);
    /// A user of an OpenID Connect provider has neither password nor second factor here (contract 8.6.23).
    of_a_provider(name): Conflict,
        text!("the user {name} signs in by OpenID Connect and has no password here", name);
    /// Somebody has set another password since the present one was verified.
    password_changed(name): Conflict, text!("the password of the user {name} has just been changed", name);
    /// The user has set up a second factor.
    has_second_factor(name): Conflict,
        text!("the user {name} has a second factor already; an admin can reset it", name);
    /// The console keeps an admin of all apps (contract 8.6.4).
    last_admin(name): NotAllowed,
        text!("the user {name} is the last admin of all apps; make another user an admin first, or run minitill \
               console-user on the server", name);
    /// An app that the user or key would be for does not exist (contract 8.6.39).
    unknown_own_app(app_id): Invalid("app"), text!("there is no app {app_id}", app_id);
}
