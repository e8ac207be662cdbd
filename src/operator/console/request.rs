//! A request of a signed-in user: who sent it, and what the user typed.

use std::fmt::Display;
use std::net::IpAddr;

use askama::Template;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use domain::console_user::Role;
use domain::fields::{Expected, FieldError, Fields};
use domain::operator::{Operator, OperatorKind};
use domain::rights::{Apps, Need};
use domain::text;
use domain::text::Text;
use http_server::counted_as;
use store::{SEARCH_PERIOD_DAYS_MAX, StoreError};
use subtle::ConstantTimeEq as _;
use time::OffsetDateTime;

use super::error::ConsoleError;
use super::i18n::said;
use super::page::{LoadsAgain, Page, Section, render};
use super::password;
use super::route::Access;
use super::session::SignedIn;
use crate::http::body::{read_body_of, refuse_coding_as_type};
use crate::http::client_address::ClientAddress;
use crate::http::operator_places::AllTaken;
use crate::operator::authorization::names_own_app;
use crate::state::AppState;

/// Largest form, in bytes.
pub(super) const FORM_BYTES_MAX: usize = 64 * 1024;

/// What a handler gives: a page, or an error whose page the guard shows.
pub(super) type Answer = Result<Response, ConsoleError>;

/// The answer that leads to another page.
#[expect(clippy::unnecessary_wraps, reason = "it is what a handler gives")]
pub(super) fn lead_to(path: &str) -> Answer {
    Ok(Redirect::to(path).into_response())
}

/// A request of a signed-in user. If it can change something, it is a form of this user's session.
pub(super) struct ConsoleRequest {
    pub(super) state: AppState,
    pub(super) user: SignedIn,
    /// Address of the client, as wrong passwords are counted.
    pub(super) client: IpAddr,
    /// The fields of the form, or of the address when the request is for a page.
    pub(super) fields: Fields,
    path: String,
    /// What its route needs.
    need: Need,
}

impl ConsoleRequest {
    /// The time of the server.
    pub(super) fn now(&self) -> OffsetDateTime {
        self.state.now()
    }

    /// A field without the blanks around it; empty when it did not come.
    pub(super) fn text(&self, name: &str) -> &str {
        text(&self.fields, name)
    }

    /// The text of a field without the blanks around it; `None` for an empty one.
    pub(super) fn filled(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// What a page tells after the change that the field `done` of its address names.
    pub(super) fn notice(
        &self,
        notices: impl IntoIterator<Item = (&'static str, &'static str)>,
    ) -> Option<String> {
        let done = self.text("done");
        notices.into_iter().find(|(change, _)| *change == done).map(|(_, words)| said(&Text::new(words)))
    }

    /// A page for this user.
    pub(super) fn page(&self, section: Section, title: impl Into<Text>) -> Page<'_> {
        let (title, user, typed) = (said(&title.into()), Some(&self.user), Some(&self.fields));
        let (section, apps) = (Some(section), Vec::new());
        Page { title, section, user, typed, wrong: &[], apps, loads_again: LoadsAgain::Never, notice: None }
    }

    /// A list with a filter by app: it offers all of them.
    pub(super) async fn search_page(&self, section: Section) -> Result<Page<'_>, ConsoleError> {
        let apps = self.state.store.apps(self.apps()).await?;
        Ok(Page { apps, loads_again: LoadsAgain::Regularly, ..self.page(section, section.name) })
    }

    /// The apps of the user: a page shows those alone.
    pub(super) fn apps(&self) -> &Apps {
        &self.user.rights.apps
    }

    /// Runs a search in the turn of the user, if no index bounds what it reads.
    pub(super) async fn search<T>(
        &self,
        is_unbounded: bool,
        search: impl Future<Output = store::Result<T>>,
    ) -> Result<T, ConsoleError> {
        let holder = self.user.place_holder();
        let found = self.state.operator_places.search(&holder, is_unbounded, search);
        Ok(found.await.map_err(|AllTaken| ConsoleError::PLACES_TAKEN)??)
    }

    /// A reader of the fields of a search.
    pub(super) fn filters(&self) -> Filters<'_> {
        Filters { fields: &self.fields, wrong: Vec::new() }
    }

    /// The user as the operator's log names them.
    ///
    /// # Errors
    /// The route only reads, or the role does not allow what it needs.
    pub(super) fn operator(&self) -> Result<Operator, ConsoleError> {
        if self.need == Need::Read || !self.user.rights.role.may(self.need) {
            return Err(ConsoleError::not_for_role(self.need));
        }
        self.moving_operator()
    }

    /// The user with the limits of what one person may do.
    pub(super) fn moving_operator(&self) -> Result<Operator, ConsoleError> {
        let operator = self.oneself()?;
        let operator = match self.give_back_max() {
            Some(max) => operator.giving_back_at_most(max),
            None => operator,
        };
        Ok(match self.state.config.console.alone_max() {
            Some(max) => operator.alone_up_to(max),
            None => operator,
        })
    }

    /// How many coins of an exchange the user may give back; `None` for all.
    pub(super) fn give_back_max(&self) -> Option<i64> {
        (self.user.rights.role == Role::Support).then_some(self.state.config.console.support_give_back_max)
    }

    /// The user as the operator's log names them, for a change of the user's own account.
    pub(super) fn oneself(&self) -> Result<Operator, ConsoleError> {
        let operator = Operator::new(OperatorKind::Console, self.user.name.as_str());
        operator.map_err(|_| StoreError::Internal("console_users.name: no operator's name".to_owned()).into())
    }

    /// The address of this page with what was typed, but for fields that `changed` gives another value.
    pub(super) fn address(&self, changed: &[(&str, &str)]) -> String {
        address(&self.path, &self.fields, changed)
    }

    /// The address of the next page of the same search, if there is one.
    pub(super) fn next(&self, after: Option<impl Display>) -> Option<String> {
        after.map(|after| self.address(&[("after", &after.to_string())]))
    }
}

/// Reads the fields of a search. The page marks those that cannot be used.
pub(super) struct Filters<'a> {
    fields: &'a Fields,
    /// The fields that cannot be used.
    pub(super) wrong: Vec<FieldError>,
}

impl Filters<'_> {
    /// A field; `None` where it is empty or cannot be used.
    pub(super) fn read<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Expected>,
    ) -> Option<T> {
        self.fields.optional(name, parse).unwrap_or_else(|wrong| {
            self.wrong.push(wrong);
            None
        })
    }
}

impl Filters<'_> {
    /// Marks the beginning of a period that a search without an index lacks, or that lies too far back.
    pub(super) fn demand_period(&mut self, is_lacking: bool) {
        if is_lacking {
            let expected = text!(
                "a moment at most {days} days before the end, because this search has no index",
                days = SEARCH_PERIOD_DAYS_MAX
            );
            let from = self.fields.text("from").unwrap_or_default();
            self.wrong.push(FieldError::malformed("from", expected, from));
        }
    }
}

/// Asks the user to prove once more who they are, and keeps what was typed.
#[derive(Template)]
#[template(path = "prove.html")]
struct ProvePage<'a> {
    page: Page<'a>,
    action: &'a str,
    kept: Vec<(&'a str, &'a str)>,
    has_failed: bool,
    /// Whether the user types a code of the second factor too.
    needs_code: bool,
    /// The host of the OpenID Connect provider that asks the user, instead of a password.
    provider: Option<String>,
}

/// The fields of the password and of the code in [`ProvePage`].
const PROOF: &str = "present_password";
const PROOF_CODE: &str = "present_code";

impl ConsoleRequest {
    /// Reads a request. If it can change something, it must be a form of this user's session.
    async fn receive(request: Request, state: &AppState) -> Result<Self, ConsoleError> {
        let arrival = Arrival::of(&request, state)?;
        let fields = read_fields(state, request, FORM_BYTES_MAX).await?;
        arrival.request(fields)
    }

    /// The page that asks for a proof, unless the password came with the form.
    async fn ask_for_proof(&self) -> Result<Option<Response>, ConsoleError> {
        let typed = self.fields.text(PROOF).filter(|_| self.user.has_password);
        if let Some(typed) = typed {
            let code = Some(self.text(PROOF_CODE));
            if password::verify(&self.state, self.client, &self.user.name, typed, code).await?.is_some() {
                self.state.store.prove_console_session(self.user.token_hash).await?;
                return Ok(None);
            }
        }
        let kept =
            self.fields.texts().filter(|(name, _)| !["csrf", PROOF, PROOF_CODE].contains(name)).collect();
        let provider = self.state.config.oidc.host().filter(|_| !self.user.has_password);
        let title = if self.user.has_password { "Your password, please" } else { "Sign in again, please" };
        let page = Page { user: Some(&self.user), ..Page::of_nobody(title) };
        let page = ProvePage {
            page,
            action: &self.path,
            kept,
            has_failed: typed.is_some(),
            needs_code: self.user.has_second_factor,
            provider,
        };
        Ok(Some((StatusCode::FORBIDDEN, render(&page)?).into_response()))
    }
}

/// A request of a signed-in user whose fields are not read yet.
pub(super) struct Arrival {
    state: AppState,
    user: SignedIn,
    client: IpAddr,
    path: String,
    need: Need,
    is_read: bool,
}

impl Arrival {
    /// What is known before the body.
    pub(super) fn of(request: &Request, state: &AppState) -> Result<Self, ConsoleError> {
        // The guard puts both there. A route for everybody has no user.
        let user = request.extensions().get::<SignedIn>().cloned().ok_or(ConsoleError::SIGN_IN_FIRST)?;
        let client = request.extensions().get::<ClientAddress>().ok_or(ConsoleError::SIGN_IN_FIRST)?.0;
        let access = request.extensions().get::<Access>().copied().unwrap_or(Access::Anyone);
        let need = access.need().ok_or(ConsoleError::SIGN_IN_FIRST)?;
        let (path, is_read) = (request.uri().path().to_owned(), request.method().is_safe());
        Ok(Self { state: state.clone(), user, client: counted_as(client), path, need, is_read })
    }

    /// The request with its fields. If it can change something, they must be of a form of this user's session.
    pub(super) fn request(self, fields: Fields) -> Result<ConsoleRequest, ConsoleError> {
        let Self { state, user, client, path, need, is_read } = self;
        let app_id = text(&fields, "app_id");
        if !names_own_app(&user.rights, Some(app_id)) {
            return Err(ConsoleError::no_such_app(app_id));
        }
        let token = text(&fields, "csrf").as_bytes();
        if is_read || user.csrf_token.as_bytes().ct_eq(token).into() {
            Ok(ConsoleRequest { state, user, client, fields, path, need })
        } else {
            Err(ConsoleError::FOREIGN)
        }
    }
}

impl FromRequest<AppState> for ConsoleRequest {
    type Rejection = Response;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Response> {
        let needs_proof = matches!(request.extensions().get::<Access>(), Some(Access::Proven(_)));
        let request = Self::receive(request, state).await.map_err(IntoResponse::into_response)?;
        if needs_proof && !request.user.has_proof {
            match request.ask_for_proof().await {
                Ok(None) => {}
                Ok(Some(page)) => return Err(page),
                Err(error) => return Err(error.into_response()),
            }
        }
        Ok(request)
    }
}

/// The fields of an address, or of a form of at most `bytes_max` bytes that comes within
/// `http.body_timeout`.
pub(super) async fn read_fields(
    state: &AppState,
    request: Request,
    bytes_max: usize,
) -> Result<Fields, ConsoleError> {
    if request.method().is_safe() {
        return Ok(Fields::from_form(request.uri().query().unwrap_or_default().as_bytes())?);
    }
    refuse_coding_as_type(&request)?;
    let body = read_body_of(&state.config.http, request.into_body(), bytes_max).await?;
    Ok(Fields::from_form(&body)?)
}

/// A field without the blanks around it; empty when it did not come.
pub(super) fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.text(name).unwrap_or_default().trim()
}

/// The address of `path` with what was typed, but for fields that `changed` gives another value. An empty
/// field is left out.
pub(super) fn address(path: &str, typed: &Fields, changed: &[(&str, &str)]) -> String {
    let kept = typed.texts().filter(|(name, _)| changed.iter().all(|(other, _)| other != name));
    let pairs = kept.chain(changed.iter().copied()).filter(|(_, value)| !value.is_empty());
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_what_was_typed_and_changes_what_it_must() {
        let typed = |query: &str| Fields::from_form(query.as_bytes()).unwrap();
        assert_eq!(
            address("/p", &typed("app_id=a1&note=%3Cb%3E+%26&after=7&empty="), &[("after", "8")]),
            "/p?app_id=a1&note=%3Cb%3E+%26&after=8"
        );
        assert_eq!(address("/p", &typed("after=7"), &[("after", "")]), "/p");
        assert_eq!(address("/p", &typed(""), &[("a", ""), ("b", "x&y=<z>")]), "/p?b=x%26y%3D%3Cz%3E");
    }
}
