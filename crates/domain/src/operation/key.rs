//! Commands of operators to the keys of the admin API (contract 8.7). Keys and tokens of an app are in `app`.

use super::Subject;
use crate::console_user::Role;
use crate::ids::ApiKeyName;
use crate::rights::Rights;
use crate::secret::Secret;
use crate::text;

/// A new key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApiKey {
    /// Its name.
    pub name: ApiKeyName,
    /// What it may do.
    pub rights: Rights,
    /// How many coins it moves in 24 hours without a second person, apart from its maker. `None`: it shares the limit of
    /// its maker.
    pub alone_max: Option<i64>,
}

impl NewApiKey {
    /// Whether two people make it, where one person alone has a limit (contract 8.6.44). A key of the role admin makes
    /// users, and one of the role payments makes charged coins. One with a limit of its own has another limit than its
    /// maker.
    #[must_use]
    pub const fn is_made_by_two_people(&self) -> bool {
        matches!(self.rights.role, Role::Admin | Role::Payments) || self.alone_max.is_some()
    }

    /// A key that shares the limit of its maker.
    #[must_use]
    pub const fn new(name: ApiKeyName, rights: Rights) -> Self {
        Self { name, rights, alone_max: None }
    }
}

/// A command to an API key.
#[derive(Debug, Clone)]
pub enum ApiKeyCommand {
    /// Make a key.
    Create(NewApiKey),
    /// Every instance refuses it from now on.
    Revoke(ApiKeyName),
}

/// The change of an API key.
#[derive(Debug, Clone)]
pub struct ApiKeyReport {
    /// The text of a new key, which cannot be shown again.
    pub api_key: Option<Secret>,
}

refusals! {
    /// Another key has the name, or had it.
    key_taken(name): Conflict,
        text!("the name {name} belongs to another API key, which may be revoked; choose a new name, so that the \
               operator log is clear", name);
    /// The key was revoked before.
    already_revoked(name): Conflict, text!("the API key {name} is already revoked", name);
    /// There is no such key.
    unknown_key(name): Unknown(Subject::ApiKey), text!("there is no API key {name}", name);
}
