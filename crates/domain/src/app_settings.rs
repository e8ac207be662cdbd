//! Settings of an app. Each setting is one row of a table in this file. Command line, admin API and console read the
//! row, and it is what they show.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::changes::words;
use crate::fields::{FieldError, FieldErrorKind, Fields, Update};
use crate::ids::{APP_NAME_CHARS_MAX, AppName};
use crate::language::Language;
use crate::per_second::PerSecond;
use crate::quota::Quota;
use crate::text;
use crate::text::Text;

/// A setting of an app, as the command line, the admin API and the console describe it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppField {
    /// Its name: the column, the JSON member, the field of a form, and the flag of the command line.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Its meaning, as a sentence.
    pub help: &'static str,
    /// The kind of its value.
    pub kind: AppFieldKind,
}

impl AppField {
    /// The field's flag on the command line.
    #[must_use]
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// A limit in words. `None` where the app has none of its own, and for what is no limit.
    #[must_use]
    pub fn limit(&self, value: &AppFieldValue) -> Option<Text> {
        match self.kind {
            AppFieldKind::Limit => PerSecond::deserialize(&value.0).ok().map(PerSecond::text),
            AppFieldKind::Quota => Quota::deserialize(&value.0).ok().map(Text::same),
            AppFieldKind::Text(_) | AppFieldKind::Choice(_) | AppFieldKind::Set(_) | AppFieldKind::Flag => {
                None
            }
        }
    }
}

/// The kind of the value of a setting of an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppFieldKind {
    /// Text of at most this many characters.
    Text(usize),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any of these words.
    Set(&'static [&'static str]),
    /// Yes or no.
    Flag,
    /// A [`PerSecond`], or the setting of the server.
    Limit,
    /// A [`Quota`], or the setting of the server.
    Quota,
}

/// The value of a setting of an app, for forms and people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppFieldValue(Value);

impl AppFieldValue {
    /// The text of an input; empty for none.
    #[must_use]
    pub fn text(&self) -> String {
        if self.0.is_null() { String::new() } else { words(&self.0) }
    }

    /// Whether it is yes, or this word, or the box of this word is ticked.
    #[must_use]
    pub fn has(&self, word: &str) -> bool {
        match &self.0 {
            Value::Array(words) => words.iter().any(|other| other == word),
            value => value == word || value == true,
        }
    }
}

/// A type of a setting of an app.
trait AppValue: Sized {
    const KIND: AppFieldKind;
    /// `None` where the field did not come.
    fn read(fields: &Fields, name: &str) -> Result<Option<Self>, FieldError>;
}

impl AppValue for AppName {
    const KIND: AppFieldKind = AppFieldKind::Text(APP_NAME_CHARS_MAX);

    fn read(fields: &Fields, name: &str) -> Result<Option<Self>, FieldError> {
        fields.present(name, Self::parse)
    }
}

impl AppValue for Category {
    const KIND: AppFieldKind = AppFieldKind::Choice(&Self::WORDS);

    fn read(fields: &Fields, name: &str) -> Result<Option<Self>, FieldError> {
        fields.present(name, Self::parse)
    }
}

impl AppValue for Language {
    const KIND: AppFieldKind = AppFieldKind::Choice(&Self::WORDS);

    fn read(fields: &Fields, name: &str) -> Result<Option<Self>, FieldError> {
        fields.present(name, Self::parse)
    }
}

impl AppValue for Vec<Scope> {
    const KIND: AppFieldKind = AppFieldKind::Set(&Scope::WORDS);

    fn read(fields: &Fields, name: &str) -> Result<Option<Self>, FieldError> {
        if fields.is_form() {
            let held = |scope: Scope| Ok((scope, fields.flag(&format!("{name}_{scope}"))?));
            let boxes = Scope::ALL.into_iter().map(held).collect::<Result<Vec<_>, _>>()?;
            let came = boxes.iter().any(|(_, ticked)| ticked.is_some());
            let ticked = boxes.into_iter().filter(|(_, ticked)| *ticked == Some(true));
            return Ok(came.then(|| ticked.map(|(scope, _)| scope).collect()));
        }
        let listed = fields.list(name, Scope::parse)?;
        Ok(listed.map(|mut scopes| {
            scopes.sort_unstable();
            scopes.dedup();
            scopes
        }))
    }
}

impl AppValue for bool {
    const KIND: AppFieldKind = AppFieldKind::Flag;

    fn read(fields: &Fields, name: &str) -> Result<Option<Self>, FieldError> {
        fields.flag(name)
    }
}

impl AppValue for Option<PerSecond> {
    const KIND: AppFieldKind = AppFieldKind::Limit;

    fn read(fields: &Fields, name: &str) -> Result<Option<Self>, FieldError> {
        fields.number(name, PerSecond::parse).map(own_or_server)
    }
}

impl AppValue for Option<Quota> {
    const KIND: AppFieldKind = AppFieldKind::Quota;

    fn read(fields: &Fields, name: &str) -> Result<Option<Self>, FieldError> {
        fields.number(name, Quota::parse).map(own_or_server)
    }
}

#[expect(clippy::option_option, reason = "what did not come is no change; a limit may be taken away")]
fn own_or_server<T>(update: Update<T>) -> Option<Option<T>> {
    match update {
        Update::Unchanged => None,
        Update::Cleared => Some(None),
        Update::To(limit) => Some(Some(limit)),
    }
}

/// Declares settings of an app and a change of them: one row a setting, with its name, type, title
/// and meaning. The name is also that of its column.
macro_rules! app_fields {
    (
        $(#[$meta:meta])* $settings:ident,
        $(#[$change_meta:meta])* $change:ident,
        $($name:ident: $type:ty, $title:literal, $help:literal;)+
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
        pub struct $settings {
            $(#[doc = $help] pub $name: $type,)+
        }

        $(#[$change_meta])*
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct $change {
            $(#[doc = $help] pub $name: Option<$type>,)+
        }

        impl $settings {
            /// The names of all settings.
            pub const NAMES: [&'static str; [$(stringify!($name)),+].len()] = [$(stringify!($name)),+];
            /// Every setting.
            pub const FIELDS: [AppField; Self::NAMES.len()] = [$(AppField {
                name: stringify!($name),
                title: $title,
                help: $help,
                kind: <$type as AppValue>::KIND,
            }),+];

            /// The values, in the order of [`Self::FIELDS`].
            #[must_use]
            pub fn values(&self) -> [AppFieldValue; Self::NAMES.len()] {
                [$(AppFieldValue(json!(self.$name))),+]
            }

            /// The settings after a change.
            #[must_use]
            pub fn changed(&self, change: &$change) -> Self {
                Self { $($name: change.$name.clone().unwrap_or_else(|| self.$name.clone()),)+ }
            }
        }

        impl $change {
            /// Reads what came; what did not come is unchanged.
            ///
            /// # Errors
            /// The first field that is not acceptable.
            pub fn read(fields: &Fields) -> Result<Self, FieldError> {
                Ok(Self { $($name: AppValue::read(fields, stringify!($name))?,)+ })
            }
        }

        impl From<$settings> for $change {
            fn from(settings: $settings) -> Self {
                Self { $($name: Some(settings.$name),)+ }
            }
        }
    };
}

app_fields! {
    /// The settings of an app.
    AppSettings,
    /// A change of an app's settings; `None` is unchanged.
    AppChange,
    name: AppName, "Name", "Name, for people.";
    category: Category, "Category", "What the app sells. Reports of a local-life app name product, category and city.";
    scopes: Vec<Scope>, "Permission scopes", "Its permission scopes: epay to report orders, present to give gifted currency, cancel to give exchanges back, topup to order top-ups.";
    sandbox: bool, "Sandbox", "For tests: explain why a signature does not match, and log in players named sandbox-NAME.";
    preorder_check: bool, "Pre-order check", "Refuse reports of payments that are not registered as pre-orders.";
    language: Language, "Language", "The language in which the app is told why a call is refused: en or zh.";
}

app_fields! {
    /// The limits of an app's own. `None` is the setting of the server.
    AppLimits,
    /// A change of an app's limits; `None` is unchanged.
    AppLimitsChange,
    exchanges_per_second: Option<PerSecond>, "Exchanges", "Exchanges, presents and cancels a second; 0 is no limit.";
    reads_per_second: Option<PerSecond>, "Reads", "Balances and queries a second; 0 is no limit.";
    reports_per_second: Option<PerSecond>, "Order reports", "Order reports a second; 0 is no limit.";
    uploads_per_second: Option<PerSecond>, "Image uploads", "Image uploads a second, both ways together; 0 is no limit.";
    tokens_per_second: Option<PerSecond>, "Token requests", "Token requests a second; 0 is no limit.";
    logins_per_second: Option<PerSecond>, "Logins", "Logins a second; 0 is no limit.";
    image_bytes_per_day: Option<Quota>, "Picture bytes a day", "Bytes of new pictures a day (UTC).";
    image_bytes_max: Option<Quota>, "Picture bytes", "Bytes of all pictures.";
    images_per_day: Option<Quota>, "Pictures a day", "New pictures a day (UTC).";
    images_max: Option<Quota>, "Pictures", "All pictures.";
}

/// Scopes that a change adds and takes away (contract 8.2). An app that has, or lacks, one of them already
/// keeps it so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScopeSteps {
    /// Scopes that the app has afterwards.
    pub add: Vec<Scope>,
    /// Scopes that it does not have afterwards.
    pub remove: Vec<Scope>,
}

impl ScopeSteps {
    /// The names of its fields.
    pub const NAMES: [&'static str; 2] = ["add_scopes", "remove_scopes"];

    /// Reads what came beside `scopes`.
    ///
    /// # Errors
    /// A word that is no scope, a scope in both lists, one of them beside `scopes`, which replaces all.
    pub fn read(fields: &Fields) -> Result<Self, FieldError> {
        let [add, remove] = Self::NAMES.map(|name| {
            let listed = fields.list(name, Scope::parse)?;
            if listed.is_some() && fields.list("scopes", Scope::parse)?.is_some() {
                let expected = text!("expected none beside scopes, which replaces all");
                return Err(FieldError {
                    field: name.to_owned(),
                    problem: FieldErrorKind::Unknown { expected },
                });
            }
            Ok(listed)
        });
        let (add, remove) = (add?.unwrap_or_default(), remove?.unwrap_or_default());
        match remove.iter().find(|scope| add.contains(scope)) {
            Some(both) => {
                let expected = text!("scopes that are not in add_scopes");
                Err(FieldError::malformed("remove_scopes", expected, both.as_str()))
            }
            None => Ok(Self { add, remove }),
        }
    }
}

impl AppSettings {
    /// The settings after these steps, with each scope once.
    #[must_use]
    pub fn stepped(mut self, steps: &ScopeSteps) -> Self {
        self.scopes.retain(|scope| !steps.remove.contains(scope) && !steps.add.contains(scope));
        self.scopes.extend(&steps.add);
        self.scopes.sort_unstable();
        self.scopes.dedup();
        self
    }
}

crate::word_enum! {
    /// The goods that an app sells.
    #[derive(Default)]
    pub enum Category {
        /// Anything else.
        #[default]
        General = "general",
        /// Local life: product id, catalog code and city are required in reports.
        LocalLife = "local_life",
    }
}

crate::word_enum! {
    /// A permission scope of an app.
    pub enum Scope {
        /// Guaranteed payment: the app may report orders.
        Epay = "epay",
        /// The app may give its players gifted currency (contract 10.3.2).
        Present = "present",
        /// The app may give exchanges back (contract 10.4.2).
        Cancel = "cancel",
        /// The app may order top-ups (contract 19.2).
        Topup = "topup",
    }
}
