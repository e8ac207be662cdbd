//! The settings and the limits of an app as arguments, made from the table of settings.

use clap::builder::{BoolValueParser, PossibleValuesParser, StringValueParser, TypedValueParser as _};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use domain::app::{AppChange, AppLimits, AppLimitsChange, AppSettings, ScopeSteps};
use domain::app_settings::{AppField, AppFieldKind};
use domain::fields::{FieldError, FieldValue, Fields};
use domain::per_second::PerSecond;
use domain::quota::Quota;

/// The settings of a new app.
#[derive(Debug, Clone)]
pub(in crate::cli) struct NewSettings(pub(super) AppSettings);

/// The settings that change; what is left out stays.
#[derive(Debug, Clone)]
pub(in crate::cli) struct ChangedSettings(pub(super) AppChange, pub(super) ScopeSteps);

/// All limits; one left out takes the setting of the server.
#[derive(Debug, Clone)]
pub(in crate::cli) struct LimitArguments(pub(super) AppLimitsChange);

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
arguments!(ChangedSettings, AppSettings::FIELDS, false, |fields| {
    Ok(Self(AppChange::read(fields)?, ScopeSteps::read(fields)?))
});
arguments!(LimitArguments, AppLimits::FIELDS, false, |fields| {
    Ok(Self(AppLimits::default().changed(&AppLimitsChange::read(fields)?).into()))
});

/// The arguments of one field. Their parsers make the value that the field has in a request.
fn arguments(field: &AppField, is_new: bool) -> Vec<Arg> {
    let help = field.help.trim_end_matches('.');
    let argument = Arg::new(field.name)
        .long(field.flag())
        .value_name(field.name.to_ascii_uppercase())
        .help(help)
        .help_heading(heading(field));
    let one_of = |words| PossibleValuesParser::new(words).map(FieldValue::Text);
    match field.kind {
        AppFieldKind::Text(_) => vec![argument.value_parser(StringValueParser::new().map(FieldValue::Text))],
        AppFieldKind::Choice(words) => vec![argument.value_parser(one_of(words))],
        AppFieldKind::Set(words) => {
            // The flag that is given once for each word of a set: `scope` of `scopes`.
            let one = field.flag().trim_end_matches('s').to_owned();
            let none = Arg::new(no_flag(field))
                .long(no_flag(field))
                .action(ArgAction::SetTrue)
                .conflicts_with(field.name)
                .help_heading(heading(field))
                .help(format!("No {}", field.title.to_lowercase()));
            let step = |step: &str, help: String| {
                let flag = format!("{step}{one}");
                argument
                    .clone()
                    .id(format!("{step}{}", field.name))
                    .value_name(one.to_ascii_uppercase())
                    .long(flag)
                    .value_parser(one_of(words))
                    .action(ArgAction::Append)
                    .help(help)
            };
            let all = step("", format!("{help}; may be repeated"));
            if is_new {
                return vec![all];
            }
            let steps = [("add-", "Add"), ("remove-", "Take away")].map(|(flag, verb)| {
                let help = format!("{verb} this {one} and keep the others; may be repeated");
                step(flag, help).conflicts_with_all([field.name.to_owned(), no_flag(field)])
            });
            [all, none].into_iter().chain(steps).collect()
        }
        AppFieldKind::Flag => {
            let argument = argument.value_parser(BoolValueParser::new().map(FieldValue::Flag));
            vec![if is_new { argument.action(ArgAction::SetTrue) } else { argument.value_name("true|false") }]
        }
        AppFieldKind::Limit => vec![argument.value_name("N").value_parser(|text: &str| {
            text.parse().map(|limit: PerSecond| FieldValue::Number(limit.get().to_string()))
        })],
        AppFieldKind::Quota => vec![argument.value_name("N").value_parser(|text: &str| {
            text.parse().map(|quota: Quota| FieldValue::Number(quota.get().to_string()))
        })],
    }
}

/// The group of a field in the help.
fn heading(field: &AppField) -> &'static str {
    match field.kind {
        AppFieldKind::Text(_) | AppFieldKind::Choice(_) => "Description",
        AppFieldKind::Set(_) => "Scopes",
        AppFieldKind::Flag => "Behaviour",
        AppFieldKind::Limit => "Rates",
        AppFieldKind::Quota => "Pictures",
    }
}

/// The flag that empties a set.
fn no_flag(field: &AppField) -> String {
    format!("no-{}", field.flag())
}

/// What was given, as fields of a request.
fn typed(matches: &ArgMatches, fields: &[AppField], is_new: bool) -> Fields {
    let mut given = Fields::typed([]);
    for field in fields {
        let mut values = matches.get_many::<FieldValue>(field.name).map(Iterator::cloned);
        let value = if let AppFieldKind::Set(_) = field.kind {
            let none = || (!is_new && matches.get_flag(&no_flag(field))).then(Vec::new);
            values.map(Iterator::collect).or_else(none).map(FieldValue::List)
        } else {
            values.as_mut().and_then(Iterator::next)
        };
        let mut push = |name: String, value| given.push(name, value).expect("each field has another name");
        if let Some(value) = value {
            push(field.name.to_owned(), value);
        }
        if !is_new && let AppFieldKind::Set(_) = field.kind {
            for step in ["add", "remove"] {
                if let Some(words) = matches.get_many::<FieldValue>(&format!("{step}-{}", field.name)) {
                    push(format!("{step}_{}", field.name), FieldValue::List(words.cloned().collect()));
                }
            }
        }
    }
    given
}
