//! The field of a form that names an app, with every app to choose from.

use askama::Template;

use super::page::ConsoleError;
use crate::till::Till;

/// Shown by `{{ app_field|safe }}`, which is as safe as the template it stands for.
#[derive(Template)]
#[template(path = "app_field.html")]
pub(super) struct AppField<'a> {
    label: &'static str,
    /// What an empty field means; nothing where it must not be empty.
    hint: Option<&'static str>,
    chosen: &'a str,
    apps: Vec<String>,
}

impl<'a> AppField<'a> {
    /// A field that may be left empty, for all apps.
    pub(super) async fn of_search(till: &Till, chosen: &'a str) -> Result<Self, ConsoleError> {
        Self::new(till, chosen, "App", Some("Empty: all apps.")).await
    }

    /// A field that must not be empty.
    pub(super) async fn required(till: &Till, chosen: &'a str) -> Result<Self, ConsoleError> {
        Self::new(till, chosen, "App", None).await
    }

    pub(super) async fn new(
        till: &Till,
        chosen: &'a str,
        label: &'static str,
        hint: Option<&'static str>,
    ) -> Result<Self, ConsoleError> {
        let apps = till.store.list_apps(None).await?.into_iter().map(|app| app.app_id).collect();
        Ok(Self { label, hint, chosen, apps })
    }
}
