//! Rights of a user of the console or of an API key (contract 8.6.36): a role, and the apps that it is for.

use std::collections::BTreeSet;

use super::console_user::Role;
use super::fields::Expected;
use super::ids::AppId;

/// The right that a page of the console or a call of the admin API needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Reads. Each role may.
    Read,
    /// Gives exchanges back.
    GiveBack,
    /// Credits and debits wallets.
    Money,
    /// Reads and closes periods: revenue, statements and bills.
    Reports,
    /// Tells of payments for top-ups.
    Payments,
    /// Changes keys, tokens, packages, receivers and settings of an app.
    Develop,
    /// Changes all else: apps, limits, pictures, users and API keys.
    Administer,
}

impl Need {
    /// Every need.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::GiveBack,
        Self::Money,
        Self::Reports,
        Self::Payments,
        Self::Develop,
        Self::Administer,
    ];
}

impl Role {
    /// Whether the role may do this. What no line allows is refused.
    #[must_use]
    pub const fn may(self, need: Need) -> bool {
        matches!(
            (self, need),
            (Self::Admin, _)
                | (_, Need::Read)
                | (Self::Support, Need::GiveBack)
                | (Self::Finance, Need::Reports)
                | (Self::Payments, Need::Payments)
                | (Self::Developer, Need::Develop)
        )
    }
}

/// The apps that a user or a key sees: all of them, those of tomorrow and what belongs to no app too, or some
/// alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Apps {
    /// Ids in order, each once. None: all apps.
    ids: Vec<String>,
}

impl Apps {
    /// All apps.
    pub const ALL: Self = Self { ids: Vec::new() };
    /// The most apps that a user or a key can name.
    pub const NAMED_MAX: usize = 100;

    /// Reads ids between blanks or commas. None of them: all apps.
    ///
    /// # Errors
    /// A text that is no id of an app, or more than [`Self::NAMED_MAX`] of them.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let ids = text.split([',', ' ', '\t', '\r', '\n']).filter(|id| !id.is_empty());
        let ids: Result<Vec<AppId>, Expected> = ids.map(AppId::parse).collect();
        ids.and_then(Self::of)
            .map_err(|_| Expected::new("at most 100 ids of apps, with blanks or commas between them"))
    }

    /// These apps. None of them: all apps.
    ///
    /// # Errors
    /// More than [`Self::NAMED_MAX`].
    pub fn of(ids: impl IntoIterator<Item = AppId>) -> Result<Self, Expected> {
        let ids: BTreeSet<String> = ids.into_iter().map(|id| id.to_string()).collect();
        if ids.len() > Self::NAMED_MAX {
            return Err(Expected::new("at most 100 apps"));
        }
        Ok(Self { ids: ids.into_iter().collect() })
    }

    /// Whether it is all apps.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.ids.is_empty()
    }

    /// Whether the app with this id is one of them.
    #[must_use]
    pub fn has(&self, app_id: &str) -> bool {
        self.is_all() || self.ids.iter().any(|id| id == app_id)
    }

    /// The ids for a query; `None` for all apps.
    #[must_use]
    pub fn ids(&self) -> Option<&[String]> {
        (!self.is_all()).then_some(&self.ids)
    }

    /// The ids, as the database and lists have them: none for all apps.
    #[must_use]
    pub fn listed(&self) -> &[String] {
        &self.ids
    }
}

/// The rights of a user or a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// What.
    pub role: Role,
    /// In which apps.
    pub apps: Apps,
}

impl Rights {
    /// Reads what the database has: a word, and ids.
    ///
    /// # Errors
    /// A word that is no role, or a text that is no id.
    pub fn stored(role: &str, apps: &[String]) -> Result<Self, Expected> {
        let apps: Result<Vec<AppId>, Expected> = apps.iter().map(|id| AppId::parse(id)).collect();
        Ok(Self { role: Role::parse(role)?, apps: Apps::of(apps?)? })
    }

    /// Whether it is everything: an admin of all apps.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.role == Role::Admin && self.apps.is_all()
    }
}

/// The role for all apps.
impl From<Role> for Rights {
    fn from(role: Role) -> Self {
        Self { role, apps: Apps::ALL }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 8.6.36: the table of roles. A need that is added is allowed to admins alone.
    #[test]
    fn a_role_may_what_its_line_says_and_nothing_else() {
        let may = |role: Role| Need::ALL.into_iter().filter(|need| role.may(*need)).collect::<Vec<_>>();
        assert_eq!(may(Role::Viewer), [Need::Read]);
        assert_eq!(may(Role::Support), [Need::Read, Need::GiveBack]);
        assert_eq!(may(Role::Finance), [Need::Read, Need::Reports]);
        assert_eq!(may(Role::Payments), [Need::Read, Need::Payments]);
        assert_eq!(may(Role::Developer), [Need::Read, Need::Develop]);
        assert_eq!(may(Role::Admin), Need::ALL);
    }

    #[test]
    fn no_id_is_all_apps_and_any_id_is_those_alone() {
        let all = Apps::parse(" , ").unwrap();
        assert!(all.is_all() && all.has("a1") && all.ids().is_none() && all.listed().is_empty());
        let some = Apps::parse("a2, a1 a2").unwrap();
        assert_eq!(some.listed(), ["a1", "a2"]);
        let some = Apps::parse("a1").unwrap();
        assert!(some.has("a1") && !some.has("a2") && !some.has("a11") && !some.has(""));
        assert!(Apps::parse("a1 a/2").is_err());
        let many = |count: usize| (0..count).map(|id| id.to_string()).collect::<Vec<_>>().join(" ");
        assert!(Apps::parse(&many(100)).is_ok() && Apps::parse(&many(101)).is_err());
    }

    #[test]
    fn stored_rights_are_read_or_refused_and_never_widened() {
        let stored = |role: &str, apps: &[&str]| {
            Rights::stored(role, &apps.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(stored("admin", &[]).unwrap(), Rights::from(Role::Admin));
        assert!(stored("admin", &[]).unwrap().is_everything());
        assert!(!stored("admin", &["a1"]).unwrap().is_everything());
        assert!(stored("owner", &[]).is_err() && stored("viewer", &["a 1"]).is_err());
    }
}
