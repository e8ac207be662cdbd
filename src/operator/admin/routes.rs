//! The route table of the admin API: every route once, with what it asks of its caller and what is said of
//! it. Each subject has a part of it.

use std::sync::LazyLock;

use axum::response::Response;
use axum::routing::MethodFilter;
use domain::rights::Need;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::call::Call;
use super::problem::Problem;
use super::{
    apps, books, closed_periods, credits, events, exchanges, images, logins, operator_log, operators, orders,
    prices, receivers, reconcile, refusals, reports, tokens, topup_providers, topup_reports, topups, wallets,
};
use crate::http::body::BODY_BYTES_MAX;
use crate::openapi::{Operation, Schema, schema};
use crate::operator::Reach;
use crate::operator::reconcile_upload::FILE_BYTES_MAX;
use crate::state::AppState;

/// The largest body with many lines, in bytes: 10,000 credits with the longest texts.
const MANY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How a route takes effect. What its caller must be allowed is its [`Need`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteEffect {
    /// Reads.
    Read,
    /// Changes nothing, but is no GET.
    Check,
    /// Changes nothing, and its body is a file that the handler takes (`Call::file`). Its fields are those of the query.
    File,
    /// To repeat it changes nothing more.
    Replace,
    /// With an idempotency key: takes effect once.
    Once,
    /// Each of many lines takes effect once, by its own ref.
    Many,
}

impl RouteEffect {
    /// The largest body of a request, in bytes.
    pub(super) fn body_bytes_max(self) -> usize {
        match self {
            Self::Many => MANY_BYTES_MAX,
            Self::File => FILE_BYTES_MAX,
            Self::Read | Self::Check | Self::Replace | Self::Once => BODY_BYTES_MAX,
        }
    }
}

/// The answer of a route.
#[derive(Debug)]
pub(super) enum AdminAnswer {
    /// A JSON value.
    Json(Value),
    /// A file, with its headers.
    File(Response),
}

/// A type of answers: what is JSON, or a file.
pub(super) trait Answers {
    /// The schema of its JSON.
    fn schema() -> Schema;
    fn answer(self) -> AdminAnswer;
}

impl<T: JsonSchema + Serialize> Answers for T {
    fn schema() -> Schema {
        schema::<T>()
    }

    fn answer(self) -> AdminAnswer {
        AdminAnswer::Json(json!(self))
    }
}

/// A file, with its headers.
#[derive(Debug)]
pub(super) struct AnsweredFile(pub(super) Response);

impl Answers for AnsweredFile {
    fn schema() -> Schema {
        Schema::default()
    }

    fn answer(self) -> AdminAnswer {
        AdminAnswer::File(self.0)
    }
}

/// The handler of a route.
type AdminHandler = for<'a> fn(&'a AppState, &'a Call) -> BoxFuture<'a, Result<AdminAnswer, Problem>>;

/// One route of the admin API: one method of one path.
#[derive(Debug, Clone, Copy)]
pub struct AdminRoute {
    /// Its method.
    pub method: &'static str,
    /// Its path, with parameters in braces.
    pub path: &'static str,
    /// Its name among the metrics and in the API's document. It never changes.
    pub id: &'static str,
    /// Its group in the API's document.
    pub tag: &'static str,
    /// How it takes effect.
    pub access: RouteEffect,
    /// The right that the role of its caller must have.
    pub need: Need,
    /// The apps whose data it is about, where its path names no app.
    pub(super) said_reach: Reach,
    pub(super) filter: MethodFilter,
    pub(super) handler: AdminHandler,
    /// The text of the API's document about it.
    pub describe: fn() -> Operation<Problem>,
}

impl AdminRoute {
    /// The apps whose data it is about.
    #[must_use]
    pub fn reach(&self) -> Reach {
        Reach::of(self.path, self.said_reach)
    }
}

/// Declares the routes of a subject, which is a group of the API's document. The comment of a row is what the document
/// says of it: one line, and then the rules of the call. Then come how it takes effect, and in brackets what its
/// caller's role must allow. A route without an app in its path is only for keys of all apps. `OwnApps` opens it to
/// others: its handler leaves out what is of other apps ([`Call::apps`]). Then comes the handler, where it is that of
/// a command to an app with its action. Last come the type of its answers, and what it answers, takes and refuses.
macro_rules! routes {
    ($tag:literal: $($(#[doc = $words:literal])+ $method:ident $path:literal, $id:literal, $access:ident($need:ident $(, $reach:ident)?):
        $handler:ident $([$action:ident])? -> $answer:ty => $described:expr;)+) => {
        /// The routes of this subject, those of a path together.
        pub(super) const ROUTES: &[super::AdminRoute] = &[$(
            super::AdminRoute {
                method: stringify!($method),
                path: concat!("/admin/v1", $path),
                id: $id,
                tag: $tag,
                access: super::RouteEffect::$access,
                need: domain::rights::Need::$need,
                said_reach: [$(crate::operator::Reach::$reach,)? crate::operator::Reach::AllApps][0],
                filter: axum::routing::MethodFilter::$method,
                handler: |state, call| Box::pin(async move {
                    let answer: $answer =
                        $handler(state, call $(, domain::operation::app::AppAction::$action)?).await?;
                    Ok(super::routes::Answers::answer(answer))
                }),
                describe: || $described.of::<$answer>(&[$($words),+]),
            },
        )+];
    };
}
pub(super) use routes;

/// Every route of the admin API, those of a path together.
pub static ROUTES: LazyLock<Vec<AdminRoute>> = LazyLock::new(|| {
    let subjects = [
        apps::ROUTES,
        tokens::ROUTES,
        logins::ROUTES,
        wallets::ROUTES,
        credits::ROUTES,
        exchanges::ROUTES,
        prices::ROUTES,
        topup_providers::ROUTES,
        topup_reports::ROUTES,
        topups::ROUTES,
        refusals::ROUTES,
        reports::ROUTES,
        reconcile::ROUTES,
        orders::ROUTES,
        images::ROUTES,
        receivers::ROUTES,
        books::ROUTES,
        closed_periods::ROUTES,
        events::ROUTES,
        operator_log::ROUTES,
        operators::ROUTES,
    ];
    subjects.concat()
});
