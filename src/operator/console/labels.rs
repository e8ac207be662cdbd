//! The labels of fields, by their names: a refusal names a field as the form shows it. The admin API and the command line
//! name it as it is sent.

use domain::app::{AppLimits, AppSettings};
use domain::app_settings::{AppField, AppFieldKind};
use domain::text;
use domain::text::Text;

use super::i18n::{said, word};

/// Fields that have one label in all forms, or nearly all. Another form tells its own label.
const LABELS: &[(&str, &str)] = &[
    // The rights of a user and of a key name the field so.
    ("app", "Apps"),
    ("app_id", "App ID"),
    ("apps", "Apps"),
    ("at", "Right before"),
    ("call", "Call"),
    ("day", "Day"),
    ("event_id", "Event id"),
    ("format", "Format"),
    ("from", "Since"),
    ("group", "Rows by"),
    ("month", "Month"),
    ("open_id", "Player (open_id)"),
    ("os", "Platform"),
    ("out_order_nos", "Payment numbers, one per line"),
    ("pages", "Pages, one per line"),
    ("poi_ids", "IDs, one per line"),
    ("product_id", "Product"),
    ("reason", "Reason"),
    ("reference", "Reference"),
    ("role", "Role"),
    ("second_person_above", "Second person needed above"),
    ("to", "Until"),
    ("union_id", "Union ID"),
    ("until", "Thaw automatically at"),
    ("url", "URL"),
    ("version", "Version"),
];

/// The label of a field in the language of the page. `None` for one that no form shows.
pub(super) fn label_of(field: &str) -> Option<String> {
    if let Some((_, label)) = LABELS.iter().find(|(name, _)| *name == field) {
        return Some(word(label));
    }
    let mut settings = AppSettings::FIELDS.into_iter().chain(AppLimits::FIELDS);
    settings.find(|setting| setting.name == field).map(|setting| label_of_setting(&setting))
}

/// The label of a setting of an app, with the unit of its number.
pub(super) fn label_of_setting(field: &AppField) -> String {
    match field.kind {
        AppFieldKind::Limit => said(&text!("{what} per second", what = Text::new(field.title))),
        AppFieldKind::Text(_)
        | AppFieldKind::Choice(_)
        | AppFieldKind::Set(_)
        | AppFieldKind::Flag
        | AppFieldKind::Quota => word(field.title),
    }
}
