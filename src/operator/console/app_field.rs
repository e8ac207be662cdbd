//! The form field for an app, with a list of all apps.

use askama::Template;

use super::error::ConsoleError;
use crate::state::AppState;

/// A template prints it with `{{ app_field|safe }}`. That is safe, because its own template escapes.
#[derive(Template)]
#[template(path = "app_field.html")]
pub(super) struct AppField<'a> {
    label: &'static str,
    /// What an empty field means, or an empty text.
    hint: &'static str,
    chosen: &'a str,
    apps: Vec<String>,
    is_required: bool,
}

impl<'a> AppField<'a> {
    /// A field that may be empty.
    pub(super) async fn new(state: &AppState, chosen: &'a str) -> Result<Self, ConsoleError> {
        let apps = state.store.list_apps(None).await?.into_iter().map(|app| app.app_id.to_string()).collect();
        Ok(Self { label: "App", hint: "", chosen, apps, is_required: false })
    }

    /// Adds a sentence about an empty field.
    pub(super) fn with_hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    pub(super) fn with_label(self, label: &'static str) -> Self {
        Self { label, ..self }
    }

    /// Makes the field required.
    pub(super) fn required(self) -> Self {
        Self { is_required: true, ..self }
    }
}
