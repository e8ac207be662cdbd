//! One row in the table of the console's pages: a method, a path, who may request it, and its handler.

use axum::routing::MethodRouter;
use domain::rights::Need;

use crate::operator::Reach;
use crate::state::AppState;

/// Who may request a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody: the sign-in, the style sheet, the script and the icon.
    Anyone,
    /// Users whose role allows this. With [`Need::Read`] a request changes nothing except the user's own session.
    Needs(Need),
    /// The same, who proved a short while ago who they are: keys, money and users.
    Proven(Need),
}

impl Access {
    /// What the user's role must allow. `None` for everybody.
    #[must_use]
    pub fn need(self) -> Option<Need> {
        match self {
            Self::Anyone => None,
            Self::Needs(need) | Self::Proven(need) => Some(need),
        }
    }
}

/// A page, or the target of a form.
#[derive(Debug, Clone, Copy)]
pub struct ConsoleRoute {
    /// `GET` (which includes HEAD) or `POST`.
    pub method: &'static str,
    /// Path, with parameters in braces.
    pub path: &'static str,
    /// Who may request it.
    pub access: Access,
    /// Makes the handler.
    pub handler: fn() -> MethodRouter<AppState>,
    /// Whose data it is about, where its path names no app.
    said_reach: Reach,
}

/// A route without an app in its path is only for users of all apps, unless `ConsoleRoute::of_own_apps` says more.
impl ConsoleRoute {
    const fn new(
        method: &'static str,
        path: &'static str,
        access: Access,
        handler: fn() -> MethodRouter<AppState>,
    ) -> Self {
        Self { method, path, access, handler, said_reach: Reach::AllApps }
    }

    /// A page or a form for everybody.
    pub(super) const fn anyone(
        method: &'static str,
        path: &'static str,
        handler: fn() -> MethodRouter<AppState>,
    ) -> Self {
        Self::new(method, path, Access::Anyone, handler)
    }

    /// A page for every signed-in user.
    pub(super) const fn page(path: &'static str, handler: fn() -> MethodRouter<AppState>) -> Self {
        Self::page_for(Need::Read, path, handler)
    }

    /// A page for users whose role allows this, such as the form of a change.
    pub(super) const fn page_for(
        need: Need,
        path: &'static str,
        handler: fn() -> MethodRouter<AppState>,
    ) -> Self {
        Self::new("GET", path, Access::Needs(need), handler)
    }

    /// A form that changes at most the user's own account.
    pub(super) const fn own(path: &'static str, handler: fn() -> MethodRouter<AppState>) -> Self {
        Self::new("POST", path, Access::Needs(Need::Read), handler).of_own_apps()
    }

    /// A change of keys, money or users, for users whose role allows it and who prove that they are there.
    pub(super) const fn proven(
        need: Need,
        path: &'static str,
        handler: fn() -> MethodRouter<AppState>,
    ) -> Self {
        Self::new("POST", path, Access::Proven(need), handler)
    }

    /// A change, for users whose role allows it.
    pub(super) const fn change(
        need: Need,
        path: &'static str,
        handler: fn() -> MethodRouter<AppState>,
    ) -> Self {
        Self::new("POST", path, Access::Needs(need), handler)
    }

    /// The same for users of some apps too: its handler leaves out what is of other apps.
    pub(super) const fn of_own_apps(self) -> Self {
        Self { said_reach: Reach::OwnApps, ..self }
    }

    /// Whose data it is about.
    #[must_use]
    pub fn reach(&self) -> Reach {
        Reach::of(self.path, self.said_reach)
    }
}

/// Declares the routes of a part: who may request each and its path, as a function of [`ConsoleRoute`] takes them, and what
/// answers it.
macro_rules! routes {
    ($($kind:ident($($who:expr),+)$(.$reach:ident())? => $handler:expr;)+) => {
        &[$(ConsoleRoute::$kind($($who,)+ || $handler)$(.$reach())?),+]
    };
}
pub(super) use routes;
