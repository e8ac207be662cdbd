//! The app of the request under way, as far as it is known: for the log, the metrics, and the language of a refusal.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

use domain::app::App;
use domain::endpoint::Endpoint;
use domain::fields::Fields;
use domain::ids::AppId;
use domain::language::Language;
use futures_util::FutureExt as _;

use crate::http::request_log::masked_fields;

/// The known facts of the app of the request under way.
#[derive(Default)]
struct KnownApp {
    /// What it calls.
    endpoint: Option<Endpoint>,
    /// The app that was named, if it is a sandbox app.
    sandbox: OnceCell<Arc<App>>,
    /// What was read, for the log of a sandbox app.
    fields: RefCell<Vec<(String, String)>>,
    /// Whether a fault has refused the call.
    is_refused_by_fault: Cell<bool>,
    /// The app, once its token or secret was right.
    proven: OnceCell<Arc<App>>,
    /// The language of its refusals, once it is named with a token or proven.
    language: Cell<Language>,
}

tokio::task_local! {
    static KNOWN: KnownApp;
}

/// The app of a request that was answered.
#[derive(Default)]
pub struct Called {
    /// The app, if its token or secret was right.
    pub app: Option<Arc<App>>,
    /// What is logged of the call of a sandbox app.
    pub logged: Option<SandboxCall>,
}

/// A call that named a sandbox app, with a right token or not.
pub struct SandboxCall {
    /// The app.
    pub app_id: AppId,
    /// The fields, without secrets.
    pub fields: Vec<(String, String)>,
    /// Whether a fault has refused it.
    pub is_refused_by_fault: bool,
}

/// Answers a request, and gives its app.
pub fn with_called_app<F: Future>(
    endpoint: Option<Endpoint>,
    answering: F,
) -> impl Future<Output = (F::Output, Called)> {
    // An async block would hold `answering` twice, and every request moves that future.
    let both = answering.map(|answer| (answer, KNOWN.with(KnownApp::called)));
    KNOWN.scope(KnownApp { endpoint, ..KnownApp::default() }, both)
}

impl KnownApp {
    fn called(&self) -> Called {
        let logged = self.sandbox.get().map(|app| SandboxCall {
            app_id: app.id.clone(),
            fields: self.fields.take(),
            is_refused_by_fault: self.is_refused_by_fault.get(),
        });
        Called { app: self.proven.get().cloned(), logged }
    }
}

/// What the request under way calls.
pub(super) fn endpoint() -> Option<Endpoint> {
    KNOWN.try_with(|known| known.endpoint).ok().flatten()
}

/// Notes whether a fault has refused the call.
pub(super) fn note_fault(is_refused: bool) {
    let _ = KNOWN.try_with(|known| known.is_refused_by_fault.set(is_refused));
}

/// Notes what was read, if the request has named a sandbox app.
pub(super) fn note_fields(fields: &Fields) {
    let _ = KNOWN.try_with(|known| {
        if known.sandbox.get().is_some() {
            known.fields.borrow_mut().extend(masked_fields(fields));
        }
    });
}

/// Notes the sandbox app that a call without a token has named, with what was read. One that is noted stays as it is.
pub(super) fn note_named(app: &Arc<App>, fields: &Fields) {
    let is_noted = KNOWN.try_with(|known| known.sandbox.get().is_some()).unwrap_or_default();
    if !is_noted {
        note_sandbox(app);
        note_fields(fields);
    }
}

/// Notes that a sandbox app was named.
pub(super) fn note_sandbox(app: &Arc<App>) {
    if app.settings.sandbox {
        let _ = KNOWN.try_with(|known| known.sandbox.set(Arc::clone(app)));
    }
}

/// Notes the app for log and metrics.
pub(super) fn note_proven(app: &Arc<App>) {
    tracing::Span::current().record("app_id", app.id.as_str());
    note_language(app);
    let _ = KNOWN.try_with(|known| known.proven.set(Arc::clone(app)));
}

/// Notes the app of a callback that was signed.
pub(super) fn note_called(app: &Arc<App>) {
    note_sandbox(app);
    note_proven(app);
}

/// Notes the language of its refusals.
pub(super) fn note_language(app: &App) {
    let _ = KNOWN.try_with(|known| known.language.set(app.settings.language));
}

/// The language of a refusal of the request under way (contract 14.1): English before its app is known.
pub(super) fn language() -> Language {
    KNOWN.try_with(|known| known.language.get()).unwrap_or_default()
}
