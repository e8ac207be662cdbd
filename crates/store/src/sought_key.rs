//! The API key that a caller shows, as a look-up finds it.

use domain::ids::ApiKeyName;
use domain::rights::Rights;

/// The API key of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its name.
    pub name: ApiKeyName,
    /// What it may do.
    pub rights: Rights,
    /// How many coins it moves in 24 hours without a second person, where it has a limit of its own.
    pub alone_max: Option<i64>,
    /// True when an operator has revoked it.
    pub is_revoked: bool,
}
