//! `minitill operator-log` shows the changes that operators made.

use anyhow::Result;
use clap::Args;
use domain::changes::{changes, words};
use domain::ids::AppId;
use domain::moment;
use serde_json::{Value, json};
use store::{LoggedAction, MadeBy, OperatorLogFilter, OperatorLogLine, Store};

use super::Context;
use super::app::require_app_of;
use super::output::Output;
use super::span::SpanArguments;

#[derive(Debug, Args)]
pub(super) struct OperatorLogArguments {
    #[command(flatten)]
    span: SpanArguments,
    /// Only lines of this app
    #[arg(long, help_heading = "Filter", value_name = "APP_ID")]
    app: Option<AppId>,
    /// Only lines about this player, version, picture, ref or other value
    #[arg(long, help_heading = "Filter", value_name = "S")]
    subject: Option<String>,
    /// Only lines with this action, such as app.change
    #[arg(long, help_heading = "Filter", value_name = "ACTION", value_parser = LoggedAction::parse)]
    action: Option<LoggedAction>,
    /// Only lines of people, or of programs with API keys
    #[arg(long, help_heading = "Filter", value_name = "people|programs")]
    by: Option<MadeBy>,
    /// Show at most this many lines, the newest ones
    #[arg(long, help_heading = "Filter", value_name = "N", default_value_t = 50)]
    limit: u32,
}

/// Prints the log. For this command `--operator` is a filter.
pub(super) async fn run(context: &Context, store: &Store, arguments: OperatorLogArguments) -> Result<()> {
    let [since, until] = arguments.span.ends(context)?;
    let filter = OperatorLogFilter {
        since,
        until,
        app_id: arguments.app,
        subject: arguments.subject,
        operator: context.operator_given.as_ref().map(|operator| operator.name().to_owned()),
        action: arguments.action,
        by: arguments.by,
        ..OperatorLogFilter::default()
    };
    let lines = store.operator_log(&filter, arguments.limit).await?;
    require_app_of(store, &lines, filter.app_id.as_ref()).await?;
    let output = arguments.span.output(context);
    let is_table = !output.is_json && !lines.is_empty();
    let text = if is_table { log_table(&output, &lines) } else { "No line matches.".to_owned() };
    output.print(&json!({ "lines": lines }), text)
}

fn log_table(output: &Output, lines: &[OperatorLogLine]) -> String {
    let rows = lines.iter().map(|line| {
        let change = describe_change(line.before.as_ref(), line.after.as_ref());
        let texts = [&line.operator, &line.action, &line.app_id, &line.subject, &change, &line.note];
        [line.seq.to_string(), moment::rfc3339(line.at)].into_iter().chain(texts.map(Clone::clone)).collect()
    });
    output.table(&["seq", "at", "operator", "action", "app_id", "subject", "change", "note"], rows)
}

/// `name: before → after` for each name that changed.
fn describe_change(before: Option<&Value>, after: Option<&Value>) -> String {
    let described = changes(before, after).into_iter().map(|change| match (change.before, change.after) {
        (Some(before), Some(after)) => format!("{}: {} → {}", change.field, words(before), words(after)),
        (Some(before), None) => format!("{}: {} → removed", change.field, words(before)),
        (None, after) => format!("{}: {}", change.field, after.map(words).unwrap_or_default()),
    });
    described.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

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
