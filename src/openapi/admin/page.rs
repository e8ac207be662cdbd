//! The description of the admin API as one page: no script, nothing from elsewhere.

use super::problems::ProblemExample;
use super::{API_KEY, IDEMPOTENCY_KEY, calls, introduction, problem_json};
use crate::config::Config;
use crate::openapi::page::{Frame, Shown, escaped, formatted, framed, inline, table};
use crate::operator::admin::Access;
use crate::operator::admin::problem::Kind;

/// The page, as these settings make it.
#[must_use]
pub fn page(config: &Config) -> String {
    let calls = calls(config);
    let shown = calls.iter().map(|call| {
        let mut headers = vec![format!("Authorization: Bearer {API_KEY}")];
        if call.route.access == Access::Once {
            headers.push(format!("Idempotency-Key: {IDEMPOTENCY_KEY}"));
        }
        let rows: String = call.problems.iter().map(problem_row).collect();
        Shown {
            method: call.route.method,
            path: call.route.path,
            operation: &call.operation,
            headers,
            refusals: table("Problems", ["type", "status", "when, and the answer"], &rows),
        }
    });
    let frame = Frame {
        title: "Minitill: the admin API",
        base: config.ops.base_url(),
        style: "style.css",
        document: "../admin/openapi.json",
        other: ("../docs", "The public API"),
        rules_title: "Keys, writes, pages and problems",
        rules: format!("{}{}", formatted(&introduction()), kinds()),
    };
    framed(&frame, &shown.collect::<Vec<_>>())
}

fn problem_row(example: &ProblemExample) -> String {
    let kind = example.problem.kind;
    format!(
        "<tr><td><a href=\"#problem-{name}\">{name}</a></td><td>{}</td><td>{}<pre>{}</pre></td></tr>\n",
        kind.status().as_u16(),
        inline(example.summary),
        escaped(&problem_json(example).compact()),
        name = kind.name(),
    )
}

/// What the `type` of a problem leads to.
fn kinds() -> String {
    let told = Kind::ALL.iter().map(|kind| {
        format!(
            "<h3 id=\"problem-{}\">{} {}</h3>\n<p>{}</p>\n",
            kind.name(),
            kind.status().as_u16(),
            escaped(kind.title()),
            inline(kind.remedy())
        )
    });
    told.collect()
}
