//! The settings and the rate limits of an app as arguments, made from the table of settings.

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};
use domain::app::{AppChange, AppLimits, AppLimitsChange, AppSettings};
use domain::app_settings::{AppField, AppFieldKind};
use domain::fields::{FieldError, FieldValue, Fields};
use domain::per_second::PerSecond;

/// The settings of a new app.
#[derive(Debug, Clone)]
pub(in crate::cli) struct NewSettings(pub(super) AppSettings);

/// The settings that change; what is left out stays.
#[derive(Debug, Clone)]
pub(in crate::cli) struct ChangedSettings(pub(super) AppChange);

/// All rate limits; one left out takes the setting of the server.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Limits(pub(super) AppLimitsChange);

/// Implements the arguments of a type by the fields of its table.
macro_rules! arguments {
    ($type:ident, $fields:expr, $is_new:literal, $read:expr) => {
        impl FromArgMatches for $type {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
                let read: fn(&Fields) -> Result<Self, FieldError> = $read;
                read(&typed(matches, &$fields, $is_new))
                    .map_err(|error| Error::raw(ErrorKind::ValueValidation, format!("{error}\n")))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }

        impl Args for $type {
            fn augment_args(command: Command) -> Command {
                command.args($fields.iter().flat_map(|field| arguments(field, $is_new)))
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }
    };
}

arguments!(NewSettings, AppSettings::FIELDS, true, |fields| {
    Ok(Self(AppSettings::default().changed(&AppChange::read(fields)?)))
});
arguments!(ChangedSettings, AppSettings::FIELDS, false, |fields| AppChange::read(fields).map(Self));
arguments!(Limits, AppLimits::FIELDS, false, |fields| {
    Ok(Self(AppLimits::default().changed(&AppLimitsChange::read(fields)?).into()))
});

/// The arguments of one field.
fn arguments(field: &AppField, is_new: bool) -> Vec<Arg> {
    let help = field.help.trim_end_matches('.');
    let argument = |flag: String| Arg::new(field.name).long(flag).help(help);
    let value = field.name.to_ascii_uppercase();
    match field.kind {
        AppFieldKind::Text(_) => vec![argument(field.flag()).value_name(value)],
        AppFieldKind::Choice(words) => {
            vec![argument(field.flag()).value_name(value).value_parser(PossibleValuesParser::new(words))]
        }
        AppFieldKind::Set(words) => {
            let (one, none) = (singular(&field.flag()), no_flag(field));
            let one = argument(one.clone())
                .value_name(one.to_ascii_uppercase())
                .value_parser(PossibleValuesParser::new(words))
                .action(ArgAction::Append)
                .help(format!("{help}; may be repeated"));
            let none = Arg::new(none.clone())
                .long(none)
                .action(ArgAction::SetTrue)
                .conflicts_with(field.name)
                .help(format!("No {}", field.title.to_lowercase()));
            if is_new { vec![one] } else { vec![one, none] }
        }
        AppFieldKind::Flag if is_new => vec![argument(field.flag()).action(ArgAction::SetTrue)],
        AppFieldKind::Flag => {
            vec![argument(field.flag()).value_name("true|false").value_parser(value_parser!(bool))]
        }
        AppFieldKind::Limit => {
            vec![argument(field.flag()).value_name("N").value_parser(value_parser!(PerSecond))]
        }
    }
}

/// The flag that is given once for each word of a set: `scope` of `scopes`.
fn singular(flag: &str) -> String {
    flag.trim_end_matches('s').to_owned()
}

/// The flag that empties a set.
fn no_flag(field: &AppField) -> String {
    format!("no-{}", field.flag())
}

/// What was given, as fields of a request.
fn typed(matches: &ArgMatches, fields: &[AppField], is_new: bool) -> Fields {
    let mut given = Fields::typed([]);
    for field in fields {
        let text = || matches.get_one::<String>(field.name).cloned();
        let value = match field.kind {
            AppFieldKind::Text(_) | AppFieldKind::Choice(_) => text().map(FieldValue::Text),
            AppFieldKind::Set(_) => {
                let words = matches.get_many::<String>(field.name);
                let words = words.map(|words| words.cloned().map(FieldValue::Text).collect());
                let none = || (!is_new && matches.get_flag(&no_flag(field))).then(Vec::new);
                words.or_else(none).map(FieldValue::List)
            }
            AppFieldKind::Flag if is_new => matches.get_flag(field.name).then_some(FieldValue::Flag(true)),
            AppFieldKind::Flag => matches.get_one::<bool>(field.name).copied().map(FieldValue::Flag),
            AppFieldKind::Limit => {
                let limit = matches.get_one::<PerSecond>(field.name);
                limit.map(|limit| FieldValue::Number(limit.get().to_string()))
            }
        };
        if let Some(value) = value {
            given.push(field.name.to_owned(), value).expect("each field has another name");
        }
    }
    given
}
