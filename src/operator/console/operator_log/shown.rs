//! The changes of a line as people read them. Times are by the clock of the page, numbers in groups, and money in the
//! units that people count.

use domain::changes::{changes, words};
use domain::moment;
use serde_json::Value;
use store::OperatorLogLine;
use time::OffsetDateTime;

use super::super::currency::money;
use super::super::i18n::word;
use super::super::page::Shown as _;

/// A value before or after a change.
pub(super) enum LoggedValue {
    Time(OffsetDateTime),
    Words(String),
}

/// A field that a line has changed.
pub(super) struct LoggedChange {
    pub(super) field: String,
    pub(super) before: Option<LoggedValue>,
    pub(super) after: Option<LoggedValue>,
}

/// The fields that a line has changed.
pub(super) fn logged_changes(line: &OperatorLogLine) -> Vec<LoggedChange> {
    let (before, after) = (line.before.as_ref(), line.after.as_ref());
    let currency = [after, before].into_iter().flatten().find_map(|state| state.get("currency")?.as_str());
    let changed = changes(before, after).into_iter().map(|change| {
        // An amount beside a currency is money. Another one is of coins, or of a currency that the line does not name.
        let currency = currency.filter(|_| change.field == "amount");
        let shown = |value| value_shown(value, currency);
        LoggedChange {
            field: change.field.to_owned(),
            before: change.before.map(shown),
            after: change.after.map(shown),
        }
    });
    changed.collect()
}

fn value_shown(value: &Value, currency: Option<&str>) -> LoggedValue {
    match value.as_str().and_then(time_of) {
        Some(at) => LoggedValue::Time(at),
        None => LoggedValue::Words(in_words(value, currency)),
    }
}

/// The time that a text is as the log writes it, to the second at least and in UTC. A day or a month is none.
fn time_of(text: &str) -> Option<OffsetDateTime> {
    moment::parse(text).ok().filter(|_| text.contains('T') && text.ends_with('Z'))
}

fn in_words(value: &Value, currency: Option<&str>) -> String {
    match value {
        Value::Null | Value::Bool(_) => word(&words(value)),
        Value::Number(number) => match (number.as_i64(), currency) {
            (Some(amount), Some(currency)) => money(currency, amount),
            (Some(count), None) => count.shown(),
            (None, _) => number.to_string(),
        },
        Value::Array(items) => items.iter().map(|item| in_words(item, None)).collect::<Vec<_>>().join(" "),
        Value::String(_) | Value::Object(_) => words(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(value: &Value, currency: Option<&str>) -> String {
        match value_shown(value, currency) {
            LoggedValue::Time(at) => format!("at {}", at.shown()),
            LoggedValue::Words(words) => words,
        }
    }

    #[test]
    fn times_numbers_and_money_are_as_on_other_pages() {
        for (value, currency, expected) in [
            (json!("2026-11-30T13:40:55.616024Z"), None, "at 2026-11-30 13:40:55"),
            (json!("2026-11"), None, "2026-11"),
            (json!("2026-11-30T13:40:55"), None, "2026-11-30T13:40:55"),
            (json!(20_038), None, "20\u{202f}038"),
            (json!([1_000, "a"]), None, "1\u{202f}000 a"),
            (json!(600), Some("CNY"), "6.00 CNY"),
            (json!(0.5), None, "0.5"),
            (json!(null), None, "none"),
            (json!(true), None, "yes"),
        ] {
            assert_eq!(shown(&value, currency), expected, "{value}");
        }
    }
}
