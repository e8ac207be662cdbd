//! Changes of users and API keys that wait for a second person (contract 8.6.44), as large changes of wallets do. They
//! are the changes by which one admin could become two.

use super::key::NewApiKey;
use crate::console_user::{ConsoleUserName, PasswordHash};
use crate::rights::Rights;
use crate::text;

crate::word_enum! {
    /// The kinds of these changes.
    pub enum AccountChangeKind {
        /// A new user.
        AddUser = "add_user",
        /// Other rights of a user.
        SetRights = "set_rights",
        /// A user signs in without the second factor.
        ResetSecondFactor = "reset_second_factor",
        /// A new API key that two people make ([`NewApiKey::is_made_by_two_people`]).
        CreateKey = "create_key",
    }
}

/// A change of a user or an API key. Who asks is shown the new password or key at once. It is of use once another admin has
/// confirmed the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountChange {
    /// Add a user with this password.
    AddUser(ConsoleUserName, Rights, PasswordHash),
    /// Set the role and the apps of a user.
    SetRights(ConsoleUserName, Rights),
    /// Forget the second factor of a user.
    ResetSecondFactor(ConsoleUserName),
    /// Make an API key with this SHA-256.
    CreateKey(NewApiKey, [u8; 32]),
}

impl AccountChange {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> AccountChangeKind {
        match self {
            Self::AddUser(..) => AccountChangeKind::AddUser,
            Self::SetRights(..) => AccountChangeKind::SetRights,
            Self::ResetSecondFactor(_) => AccountChangeKind::ResetSecondFactor,
            Self::CreateKey(..) => AccountChangeKind::CreateKey,
        }
    }

    /// The name of the user or the key.
    #[must_use]
    pub fn account(&self) -> &str {
        match self {
            Self::AddUser(name, ..) | Self::SetRights(name, _) | Self::ResetSecondFactor(name) => {
                name.as_str()
            }
            Self::CreateKey(key, _) => key.name.as_str(),
        }
    }

    /// The limit that it gives an API key of its own.
    #[must_use]
    pub const fn alone_max(&self) -> Option<i64> {
        match self {
            Self::CreateKey(key, _) => key.alone_max,
            Self::AddUser(..) | Self::SetRights(..) | Self::ResetSecondFactor(_) => None,
        }
    }

    /// The rights that it gives.
    #[must_use]
    pub const fn rights(&self) -> Option<&Rights> {
        match self {
            Self::AddUser(_, rights, _) | Self::SetRights(_, rights) => Some(rights),
            Self::CreateKey(key, _) => Some(&key.rights),
            Self::ResetSecondFactor(_) => None,
        }
    }
}

refusals! {
    /// Only two people make this change of a user or a key.
    account_needs_second_person(): NotAllowed,
        text!("this change of users or API keys needs a second person; ask for it in the console");
    /// The same change waits already.
    already_asked(account): Conflict,
        text!("somebody has asked for this change of {account} already, and it waits", account);
    /// Whoever asked and whoever confirms may be one person (contract 8.6.45).
    perhaps_one_person(asked_by): NotAllowed,
        text!("one of you made or changed the account of the other in the last 30 days, or one person made both, so \
               an admin who is neither must confirm what {asked_by} asked for", asked_by);
    /// Whoever asked may no longer ask for it (contract 8.6.46).
    asker_lost_right(asked_by): NotAllowed,
        text!("nobody can confirm this, because {asked_by} may no longer ask for it", asked_by);
    /// The request is not the one that the operator's log tells of (contract 8.6.47).
    request_differs(reference): NotAllowed,
        text!("the request {reference} is not what the operator log says, so somebody has changed the database; run \
               minitill audit", reference);
    /// A user is not what the operator's log tells.
    user_differs(name): NotAllowed,
        text!("the user {name} is not what the operator log says, so somebody has changed the database; run \
               minitill audit", name);
}
