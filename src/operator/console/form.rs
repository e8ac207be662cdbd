//! The forms of the console: read, and checked to come from a page of this console.

use std::ops::Deref;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use domain::app_command::AppRefusal;
use domain::fields::{Expected, FieldError, FieldProblem, Fields};
use store::CommandError;

use super::error::ConsoleError;
use super::session::SignedIn;
use crate::body::read_body_of;
use crate::state::AppState;

/// Largest form, in bytes.
const FORM_BYTES_MAX: usize = 64 * 1024;

/// What somebody typed: the fields of a form, or of an address when a page takes it as its argument.
pub(super) struct Input(Fields);

impl Input {
    /// Reads a form of at most `bytes_max` bytes, within `http.body_timeout`.
    pub(super) async fn read(
        state: &AppState,
        request: Request,
        bytes_max: usize,
    ) -> Result<Self, ConsoleError> {
        let body = read_body_of(&state.config.http, request.into_body(), bytes_max).await?;
        Ok(Self(Fields::from_form(&body)?))
    }

    /// A field without the blanks around it; empty when it did not come.
    pub(super) fn text(&self, name: &str) -> &str {
        self.as_typed(name).trim()
    }

    /// A field exactly as it was typed, for passwords; empty when it did not come.
    pub(super) fn as_typed(&self, name: &str) -> &str {
        self.0.text(name).unwrap_or_default()
    }

    /// Whether a box was ticked.
    pub(super) fn is_checked(&self, name: &str) -> bool {
        self.0.text(name).is_some()
    }

    /// The fields, for readers that know no console.
    pub(super) fn fields(&self) -> &Fields {
        &self.0
    }

    /// The address of `path` with these fields, but for those that `changed` gives another value; an
    /// empty one is left out. For links to other pages of the same search.
    pub(super) fn address(&self, path: &str, changed: &[(&str, &str)]) -> String {
        let kept = self.0.texts().filter(|(name, _)| changed.iter().all(|(other, _)| other != name));
        let pairs = kept.chain(changed.iter().copied()).filter(|(_, value)| !value.is_empty());
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
    }

    /// A field, parsed; an empty one is `None`.
    ///
    /// # Errors
    /// A page that names the field and what was expected.
    pub(super) fn optional<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Expected>,
    ) -> Result<Option<T>, ConsoleError> {
        Ok(self.0.optional(name, parse)?)
    }

    /// A field, parsed, that must not be empty.
    ///
    /// # Errors
    /// A page that names the field and what was expected.
    pub(super) fn required<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Expected>,
    ) -> Result<T, ConsoleError> {
        Ok(self.0.required(name, parse)?)
    }
}

/// A sentence that names the field as its label does.
impl From<FieldError> for ConsoleError {
    fn from(error: FieldError) -> Self {
        let name = error.field.replace('_', " ");
        Self::BadRequest(match error.problem {
            FieldProblem::Missing => format!("{name} is missing."),
            FieldProblem::Unknown { expected } => format!("{name}: {expected}."),
            FieldProblem::WrongType { expected, got }
            | FieldProblem::Malformed { expected, got: Some(got) }
                if got != "\"\"" =>
            {
                format!("{name}: expected {expected}, got {got}.")
            }
            FieldProblem::WrongType { expected, .. } | FieldProblem::Malformed { expected, .. } => {
                format!("{name}: expected {expected}.")
            }
        })
    }
}

impl From<CommandError> for ConsoleError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Store(error) => error.into(),
            CommandError::Refused(AppRefusal::UnknownApp(app_id)) => no_such_app(app_id.as_str()),
            CommandError::Refused(AppRefusal::IdTaken(app_id)) => Self::BadRequest(format!(
                "There is an app {app_id} already. Its keys are not shown again; if they were lost, make new ones on its page."
            )),
            CommandError::Refused(AppRefusal::KeysChanged(app_id)) => Self::BadRequest(format!(
                "The keys of the app {app_id} have changed since this form was shown, by this very form or by somebody else."
            )),
            CommandError::Refused(AppRefusal::UnknownToken(app_id)) => {
                Self::BadRequest(format!("The app {app_id} has no such token."))
            }
        }
    }
}

/// The page of an app that is not there.
pub(super) fn no_such_app(name: &str) -> ConsoleError {
    ConsoleError::NotFound(format!("There is no app {name}."))
}

impl FromRequestParts<AppState> for Input {
    type Rejection = ConsoleError;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, ConsoleError> {
        Ok(Self(Fields::from_form(parts.uri.query().unwrap_or_default().as_bytes())?))
    }
}

/// A form that changes something: sent by an admin, from a page of this console, with that session's
/// token. A route that takes it has [`super::route::Access::Admin`].
pub(super) struct AdminForm {
    /// Who sent it.
    pub(super) admin: SignedIn,
    fields: Input,
}

/// A form that changes nothing but the session of whoever sends it; a viewer may.
pub(super) struct ViewerForm {
    /// Who sent it.
    pub(super) signed_in: SignedIn,
    fields: Input,
}

impl Deref for AdminForm {
    type Target = Input;

    fn deref(&self) -> &Input {
        &self.fields
    }
}

impl Deref for ViewerForm {
    type Target = Input;

    fn deref(&self) -> &Input {
        &self.fields
    }
}

impl FromRequest<AppState> for ViewerForm {
    type Rejection = ConsoleError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ConsoleError> {
        let (mut parts, body) = request.into_parts();
        let signed_in = SignedIn::from_request_parts(&mut parts, state).await?;
        let fields = Input::read(state, Request::from_parts(parts, body), FORM_BYTES_MAX).await?;
        if signed_in.has_csrf_token(fields.text("csrf")) {
            Ok(Self { signed_in, fields })
        } else {
            Err(ConsoleError::Foreign)
        }
    }
}

impl FromRequest<AppState> for AdminForm {
    type Rejection = ConsoleError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ConsoleError> {
        let ViewerForm { signed_in, fields } = ViewerForm::from_request(request, state).await?;
        if signed_in.is_admin() {
            Ok(Self { admin: signed_in, fields })
        } else {
            Err(ConsoleError::AdminsOnly)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(query: &str) -> Input {
        Input(Fields::from_form(query.as_bytes()).unwrap())
    }

    #[test]
    fn a_link_keeps_what_was_typed_and_changes_what_it_must() {
        let typed = input("app_id=a1&note=%3Cb%3E+%26&after=7&empty=");
        assert_eq!(
            typed.address("/console/log", &[("after", "8")]),
            "/console/log?app_id=a1&note=%3Cb%3E+%26&after=8"
        );
        assert_eq!(input("after=7").address("/console/log", &[("after", "")]), "/console/log");
    }

    #[test]
    fn a_field_that_does_not_parse_is_named() {
        let typed = input("app_id=a%20b&blank=++");
        let error = typed.required("app_id", domain::ids::AppId::parse).unwrap_err();
        let ConsoleError::BadRequest(words) = error else { panic!("{error:?}") };
        assert!(words.starts_with("app id: expected "), "{words}");
        assert_eq!(typed.optional("blank", domain::ids::AppId::parse), Ok(None));
        assert_eq!(typed.optional("absent", domain::ids::AppId::parse), Ok(None));
    }
}
