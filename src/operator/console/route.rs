//! One row in the table of the console's pages: a method, a path, who may request it, and its handler.

use axum::routing::MethodRouter;

use crate::state::AppState;

/// Who may request a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody: the sign-in, the style sheet, the script and the icon.
    Anyone,
    /// Every signed-in user. Such a request changes nothing except the user's own session.
    Viewer,
    /// Users with the role admin.
    Admin,
    /// The same, who proved a short while ago who they are: keys, money and users.
    Proven,
}

/// A page, or the target of a form.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// `GET` (which includes HEAD) or `POST`.
    pub method: &'static str,
    /// Path, with parameters in braces.
    pub path: &'static str,
    /// Who may request it.
    pub access: Access,
    /// Makes the handler.
    pub handler: fn() -> MethodRouter<AppState>,
}

impl Route {
    /// A page for every signed-in user.
    pub(super) const fn page(path: &'static str, handler: fn() -> MethodRouter<AppState>) -> Self {
        Self { method: "GET", path, access: Access::Viewer, handler }
    }

    /// A page for admins only, such as the form of a change.
    pub(super) const fn admin_page(path: &'static str, handler: fn() -> MethodRouter<AppState>) -> Self {
        Self { method: "GET", path, access: Access::Admin, handler }
    }

    /// A change of the user's own account.
    pub(super) const fn own(path: &'static str, handler: fn() -> MethodRouter<AppState>) -> Self {
        Self { method: "POST", path, access: Access::Viewer, handler }
    }

    /// A change of keys, money or users, for admins who prove that they are there.
    pub(super) const fn proven(path: &'static str, handler: fn() -> MethodRouter<AppState>) -> Self {
        Self { method: "POST", path, access: Access::Proven, handler }
    }

    /// A change, for admins only.
    pub(super) const fn change(path: &'static str, handler: fn() -> MethodRouter<AppState>) -> Self {
        Self { method: "POST", path, access: Access::Admin, handler }
    }
}
