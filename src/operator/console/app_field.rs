//! The field of a form that names an app, with every app to choose from.

use askama::Template;

use super::error::ConsoleError;
use crate::state::AppState;

/// Shown by `{{ app_field|safe }}`, which is as safe as the template it stands for.
#[derive(Template)]
#[template(path = "app_field.html")]
pub(super) struct AppField<'a> {
    label: &'static str,
    /// What an empty field means, where it has to be said.
    hint: &'static str,
    chosen: &'a str,
    apps: Vec<String>,
    is_required: bool,
}

impl<'a> AppField<'a> {
    /// A field that may be left empty.
    pub(super) async fn new(state: &AppState, chosen: &'a str) -> Result<Self, ConsoleError> {
        let apps = state.store.list_apps(None).await?.into_iter().map(|app| app.app_id).collect();
        Ok(Self { label: "App", hint: "", chosen, apps, is_required: false })
    }

    /// With a sentence that says what it means when it is empty.
    pub(super) fn with_hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    pub(super) fn with_label(self, label: &'static str) -> Self {
        Self { label, ..self }
    }

    /// It must not be empty.
    pub(super) fn required(self) -> Self {
        Self { is_required: true, ..self }
    }
}
