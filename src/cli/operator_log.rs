//! `minitill operator-log` shows the changes that operators made.

use anyhow::Result;
use clap::Args;
use domain::changes::changes;
use domain::clock::{Clock as _, SystemClock};
use domain::ids::AppId;
use domain::moment;
use serde_json::{Value, json};
use store::{OperatorLogFilter, OperatorLogLine, Store};
use time::OffsetDateTime;

use super::Context;
use super::output::table;

#[derive(Debug, Args)]
pub(super) struct OperatorLogArguments {
    /// Only lines from this moment on: `2026-11-21`, `2026-11-21T08:00:00Z`, or `36h` for 36 hours ago
    #[arg(long, value_name = "T", value_parser = parse_moment)]
    since: Option<OffsetDateTime>,
    /// Only lines before this moment, in the same formats
    #[arg(long, value_name = "T", value_parser = parse_moment)]
    until: Option<OffsetDateTime>,
    /// Only lines of this app
    #[arg(long, value_name = "APP_ID")]
    app: Option<AppId>,
    /// Only lines about this player, version, picture, ref or other value
    #[arg(long, value_name = "S")]
    subject: Option<String>,
    /// Show at most this many lines, the newest ones
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
}

/// Parses a moment, or a duration before now.
fn parse_moment(text: &str) -> Result<OffsetDateTime, String> {
    moment_at(text, SystemClock::new().unix_millis())
        .ok_or_else(|| "expected 2026-11-21, 2026-11-21T08:00:00Z or 36h".to_owned())
}

fn moment_at(text: &str, now_millis: i64) -> Option<OffsetDateTime> {
    match humantime::parse_duration(text) {
        Ok(duration) => moment::of_millis(now_millis)?.checked_sub(duration.try_into().ok()?),
        Err(_) => moment::parse(text).ok(),
    }
}

/// Prints the log. For this command `--operator` is a filter.
pub(super) async fn run(context: &Context, store: &Store, arguments: OperatorLogArguments) -> Result<()> {
    let filter = OperatorLogFilter {
        since: arguments.since,
        until: arguments.until,
        app_id: arguments.app,
        subject: arguments.subject,
        operator: context.operator_given.as_ref().map(|operator| operator.name().to_owned()),
        ..OperatorLogFilter::default()
    };
    let lines = store.operator_log(&filter, arguments.limit).await?;
    let is_table = !context.output.is_json && !lines.is_empty();
    let text = if is_table { log_table(&lines) } else { "No line matches.".to_owned() };
    context.output.print(&json!({ "lines": lines }), text)
}

fn log_table(lines: &[OperatorLogLine]) -> String {
    let rows = lines.iter().map(|line| {
        let change = describe_change(line.before.as_ref(), line.after.as_ref());
        let texts = [&line.operator, &line.action, &line.app_id, &line.subject, &change, &line.note];
        [line.seq.to_string(), moment::rfc3339(line.at)].into_iter().chain(texts.map(Clone::clone)).collect()
    });
    table(&["seq", "at", "operator", "action", "app_id", "subject", "change", "note"], rows)
}

/// `name: before → after` for each name that changed.
fn describe_change(before: Option<&Value>, after: Option<&Value>) -> String {
    let described = changes(before, after).into_iter().map(|change| match (change.before, change.after) {
        (Some(before), Some(after)) => format!("{}: {before} → {after}", change.field),
        (Some(before), None) => format!("{}: {before} → removed", change.field),
        (None, after) => format!("{}: {}", change.field, after.unwrap_or_default()),
    });
    described.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_date_a_time_or_a_while_ago() {
        let now_millis = 1_800_000_000_000;
        let at = |text: &str| moment_at(text, now_millis).unwrap().unix_timestamp();
        assert_eq!(at("2027-01-15"), 1_799_971_200);
        assert_eq!(at("2027-01-15T08:00:00Z"), 1_800_000_000);
        assert_eq!(at("2027-01-15T08:00:00"), 1_800_000_000);
        assert_eq!(at("2027-01-15T10:00:00+02:00"), 1_800_000_000);
        assert_eq!(at("1h"), 1_800_000_000 - 3600);
        assert!(parse_moment("yesterday").is_err() && parse_moment("2027-13-01").is_err());
    }

    #[test]
    fn a_change_shows_what_was_and_what_became() {
        let change = |before: Value, after: Value| {
            describe_change(Some(&before).filter(|v| !v.is_null()), Some(&after).filter(|v| !v.is_null()))
        };
        assert_eq!(change(json!({"suspended": false}), json!({"suspended": true})), "suspended: no → yes");
        assert_eq!(change(json!({"a": 1, "b": null}), json!({"a": 1, "b": 2})), "b: none → 2");
        assert_eq!(change(Value::Null, json!({"poi_ids": ["p1", "p2"]})), "poi_ids: p1 p2");
        assert_eq!(change(json!({"reason": "r"}), Value::Null), "reason: r → removed");
        assert_eq!(change(Value::Null, Value::Null), "");
    }
}
