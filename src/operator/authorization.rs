//! Authorization of operators by role and app (contract 8.6.36 and 8.6.37): one decision for the console and the
//! admin API. A row of either route table says what it needs and what it reaches; what no rule allows is refused.

use domain::rights::{Need, Rights};

/// The apps whose data a route reads or changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// That of the app in its path.
    OneApp,
    /// That of the apps of whoever asks, and no other: its handler leaves the others out.
    OwnApps,
    /// That of all apps, or of none: only for who has all apps.
    AllApps,
}

impl Reach {
    /// The reach of a route that says `said` if its path names no app.
    pub(super) fn of(path: &str, said: Self) -> Self {
        if path.contains("{app_id}") { Self::OneApp } else { said }
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denied {
    /// The role may not do this.
    Role,
    /// It is only for who has all apps.
    AllAppsOnly,
    /// The app is none of theirs: for them there is no such app.
    NoSuchApp,
}

/// Whether somebody with these rights may make a request of a route. `app_id` is what its path names.
pub(super) fn admit(rights: &Rights, need: Need, reach: Reach, app_id: Option<&str>) -> Result<(), Denied> {
    if !rights.role.may(need) {
        return Err(Denied::Role);
    }
    match reach {
        Reach::AllApps if !rights.apps.is_all() => Err(Denied::AllAppsOnly),
        Reach::OneApp if !app_id.is_some_and(|app_id| rights.apps.has(app_id)) => Err(Denied::NoSuchApp),
        Reach::AllApps | Reach::OneApp | Reach::OwnApps => Ok(()),
    }
}

/// Whether the field `app_id` of a request, in its address or its body, names an app of theirs. Without it a list
/// is of all their apps.
pub(super) fn names_own_app(rights: &Rights, app_id: Option<&str>) -> bool {
    app_id.is_none_or(|app_id| app_id.is_empty() || rights.apps.has(app_id))
}

#[cfg(test)]
mod tests {
    use domain::console_user::Role;
    use domain::rights::Apps;

    use super::*;

    #[test]
    fn an_app_of_others_is_none_and_all_apps_are_for_who_has_them() {
        let of = |apps: &str| Rights { role: Role::Developer, apps: Apps::parse(apps).unwrap() };
        let judged = |apps: &str, need, reach, app_id| admit(&of(apps), need, reach, app_id);
        assert_eq!(judged("a1", Need::Develop, Reach::OneApp, Some("a1")), Ok(()));
        assert_eq!(judged("a1", Need::Develop, Reach::OneApp, Some("a2")), Err(Denied::NoSuchApp));
        assert_eq!(judged("a1", Need::Develop, Reach::OneApp, None), Err(Denied::NoSuchApp));
        assert_eq!(judged("a1", Need::Money, Reach::OneApp, Some("a1")), Err(Denied::Role));
        assert_eq!(judged("a1", Need::Read, Reach::AllApps, None), Err(Denied::AllAppsOnly));
        assert_eq!(judged("", Need::Read, Reach::AllApps, None), Ok(()));
        assert_eq!(judged("a1", Need::Read, Reach::OwnApps, None), Ok(()));
        assert!(names_own_app(&of("a1"), None) && names_own_app(&of("a1"), Some("")));
        assert!(names_own_app(&of("a1"), Some("a1")) && !names_own_app(&of("a1"), Some("a2")));
    }
}
