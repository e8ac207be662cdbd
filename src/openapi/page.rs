//! The description of the public API as one page: no script, nothing from elsewhere.

use std::fmt::Write as _;

use super::json::Json;
use super::operation::{Body, Content, Field, Operation, Place};
use super::{Call, calls, introduction, refusal_json};
use crate::config::Config;
use crate::error::ErrorStatus;

/// What the page looks like; served beside it.
pub const STYLE: &str = include_str!("page.css");

/// What a page shows of a call.
pub(super) struct Shown<'a> {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) operation: &'a Operation,
    /// Headers that the example needs, besides those of the operation.
    pub(super) headers: Vec<String>,
    /// Its refusals in HTML.
    pub(super) refusals: String,
}

/// What a page shows besides its calls.
pub(super) struct Frame {
    pub(super) title: &'static str,
    /// Where its calls are sent to.
    pub(super) base: String,
    /// The style sheet, as the page reaches it.
    pub(super) style: &'static str,
    /// The document, likewise.
    pub(super) document: &'static str,
    /// The page of the other API, and what it is called.
    pub(super) other: (&'static str, &'static str),
    /// Heading of the part behind the calls.
    pub(super) rules_title: &'static str,
    /// That part, in HTML.
    pub(super) rules: String,
}

/// The page, as these settings make it. It expects [`STYLE`] at `docs/style.css` and the document at
/// `openapi.json`.
#[must_use]
pub fn page(config: &Config) -> String {
    let calls = calls(config);
    let shown = calls.iter().map(|call| Shown {
        method: call.method,
        path: call.route.path,
        operation: &call.operation,
        headers: Vec::new(),
        refusals: refusals(call),
    });
    let frame = Frame {
        title: "Minitill: the calls",
        base: config.public.base_url(),
        style: "docs/style.css",
        document: "openapi.json",
        other: ("docs/admin", "The admin API"),
        rules_title: "Answers and codes",
        rules: formatted(&introduction()),
    };
    framed(&frame, &shown.collect::<Vec<_>>())
}

/// A page of calls in its frame.
pub(super) fn framed(frame: &Frame, calls: &[Shown<'_>]) -> String {
    let links = calls.iter().map(|call| {
        let (id, method) = (call.operation.id, call.method);
        let (path, summary) = (escaped(call.path), escaped(call.operation.summary));
        format!(
            "<li><a href=\"#{id}\"><b class=\"method {method}\">{method}</b> <span>{summary}<code>{path}</code></span></a></li>\n"
        )
    });
    let Frame { title, base, style, document, other: (other, other_title), rules_title, rules } = frame;
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <link rel=\"stylesheet\" href=\"{style}\">\n</head>\n<body>\n\
         <nav aria-label=\"Calls\"><h1>Minitill <small>{version}</small></h1>\n<ul>\n{links}</ul>\n\
         <p><a href=\"#rules\">{rules_title}</a></p>\n\
         <p><a href=\"{document}\">OpenAPI document</a></p>\n\
         <p><a href=\"{other}\">{other_title}</a></p></nav>\n<main>\n{calls}\
         <section id=\"rules\">\n<h2>{rules_title}</h2>\n{rules}</section>\n</main>\n</body>\n</html>\n",
        version = env!("CARGO_PKG_VERSION"),
        links = links.collect::<String>(),
        calls = calls.iter().map(|call| section(call, base)).collect::<String>(),
    )
}

fn section(call: &Shown<'_>, base: &str) -> String {
    let operation = call.operation;
    let mut html = format!(
        "<section id=\"{id}\">\n<h2>{summary}</h2>\n\
         <p class=\"address\"><b class=\"method {method}\">{method}</b> <code>{path}</code></p>\n{description}",
        id = operation.id,
        summary = escaped(operation.summary),
        method = call.method,
        path = escaped(call.path),
        description = formatted(&operation.description),
    );
    for place in [Place::Path, Place::Query, Place::Header] {
        let fields = operation.parameters.iter().filter(|parameter| parameter.place == place);
        html += &field_table(place.word(), fields.map(|parameter| &parameter.field));
    }
    if let Some(usual) = operation.bodies.first() {
        let kinds: Vec<&str> = operation.bodies.iter().map(|body| body.media_type).collect();
        html += &field_table(&format!("body: {}", kinds.join(", or ")), usual.fields.iter());
    }
    let _ = writeln!(html, "<h3>Example</h3>\n<pre>{}</pre>", escaped(&command(call, base)));
    html += &successes(operation);
    html += &call.refusals;
    html + "</section>\n"
}

fn field_table<'a>(title: &str, fields: impl Iterator<Item = &'a Field>) -> String {
    let rows: String = fields.map(field_row).collect();
    if rows.is_empty() {
        return String::new();
    }
    table(&escaped(&capitalised(title)), ["field", "accepted", "meaning"], &rows)
}

fn field_row(field: &Field) -> String {
    let optional = if field.required { "" } else { "<br><small>optional</small>" };
    format!(
        "<tr><td><code>{}</code>{optional}</td><td>{}</td><td>{}</td></tr>\n",
        escaped(field.name),
        accepted(&field.schema),
        inline(&field.description)
    )
}

/// A schema in words.
fn accepted(schema: &Json) -> String {
    let number = |name: &str| schema.get(name).map(Json::plain);
    let mut words = Vec::new();
    if let Some(Json::List(values)) = schema.get("enum") {
        let values = values.iter().map(|value| format!("<code>{}</code>", escaped(&value.compact())));
        return values.collect::<Vec<_>>().join(", ");
    }
    if let Some(value) = schema.get("const") {
        return format!("<code>{}</code>", escaped(&value.compact()));
    }
    if let Some(Json::List(options)) = schema.get("anyOf") {
        let formats = options.iter().filter_map(|option| option.get("format").map(Json::plain));
        return escaped(&formats.collect::<Vec<_>>().join(" or "));
    }
    if let Some(pattern) = number("pattern") {
        words.push(format!("<code>{}</code>", escaped(&pattern)));
    }
    if let (Some(minimum), Some(maximum)) = (number("minimum"), number("maximum")) {
        words.push(format!("integer, {minimum} to {maximum}"));
    }
    match (number("minLength"), number("maxLength")) {
        (Some(min), Some(max)) => words.push(format!("text, {min} to {max} characters")),
        (None, Some(max)) => words.push(format!("at most {max} characters")),
        (Some(_) | None, None) => {}
    }
    if words.is_empty() {
        words.push(number("type").map(|kind| escaped(&kind)).unwrap_or_default());
    }
    words.join("<br>")
}

fn successes(operation: &Operation) -> String {
    let mut html = String::from("<h3>Success</h3>\n");
    for success in &operation.successes {
        let _ =
            writeln!(html, "<p><b class=\"status\">{}</b> {}</p>", success.status, inline(success.summary));
        let headers = success.headers.iter();
        let mut lines: Vec<String> =
            headers.map(|(name, _, value)| format!("{}: {value}", name.to_ascii_lowercase())).collect();
        if let Content::Json { example, .. } = &success.content {
            lines.push(example.compact());
        }
        if !lines.is_empty() {
            let _ = writeln!(html, "<pre>{}</pre>", escaped(&lines.join("\n")));
        }
    }
    html
}

fn refusals(call: &Call) -> String {
    let rows = call.operation.refusals.iter().map(|example| refusal_row(call, example));
    table("Refusals", ["code", "status", "when, and the answer"], &rows.collect::<String>())
}

/// A table under its heading.
pub(super) fn table(title: &str, [first, second, third]: [&str; 3], rows: &str) -> String {
    format!(
        "<h3>{title}</h3>\n<div class=\"wide\"><table>\n\
         <thead><tr><th>{first}</th><th>{second}</th><th>{third}</th></tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )
}

fn refusal_row(call: &Call, example: &super::operation::RefusalExample) -> String {
    let [platform, rest] = [ErrorStatus::Platform, ErrorStatus::Rest]
        .map(|setting| example.refusal.status(setting).as_u16().to_string());
    let statuses =
        if platform == rest { platform } else { format!("{platform}<br><small>rest: {rest}</small>") };
    format!(
        "<tr><td><code>{}</code></td><td>{statuses}</td><td>{}<pre>{}</pre></td></tr>\n",
        example.refusal.code.number(),
        inline(example.summary),
        escaped(&refusal_json(call.route.envelope, &example.refusal).compact())
    )
}

/// The example as a command that can be pasted.
fn command(call: &Shown<'_>, base: &str) -> String {
    let operation = call.operation;
    let mut path = call.path.to_owned();
    for (name, value) in examples(operation, Place::Path) {
        path = path.replace(&format!("{{{name}}}"), &value);
    }
    let query = examples(operation, Place::Query).map(|(name, value)| format!("{name}={}", encoded(&value)));
    let query = query.collect::<Vec<_>>().join("&");
    let mark = if query.is_empty() { "" } else { "?" };
    let address = quoted(&format!("{base}{path}{mark}{query}"));
    let mut command = match (call.method, operation.body_required) {
        ("HEAD", _) => format!("curl --head {address}"),
        ("GET", _) | ("POST", true) => format!("curl {address}"),
        (method, _) => format!("curl -X {method} {address}"),
    };
    for header in &call.headers {
        let _ = write!(command, " \\\n  -H {}", quoted(header));
    }
    if operation.body_required {
        for argument in operation.bodies.first().map(body_arguments).unwrap_or_default() {
            let _ = write!(command, " \\\n  {argument}");
        }
    }
    command
}

fn examples(operation: &Operation, place: Place) -> impl Iterator<Item = (&'static str, String)> {
    let parameters = operation.parameters.iter().filter(move |parameter| parameter.place == place);
    parameters.filter_map(|parameter| {
        let example = parameter.field.example.as_ref()?;
        Some((parameter.field.name, example.plain()))
    })
}

fn body_arguments(body: &Body) -> Vec<String> {
    let values = body.fields.iter().filter_map(|field| Some((field.name, field.example.as_ref()?.plain())));
    match body.media_type {
        "application/json" => vec![
            "-H 'content-type: application/json'".to_owned(),
            format!("--data {}", quoted(&body.example().compact())),
        ],
        "multipart/form-data" => {
            values.map(|(name, value)| format!("-F {}", quoted(&format!("{name}=@{value}")))).collect()
        }
        _ => values
            .map(|(name, value)| format!("--data-urlencode {}", quoted(&format!("{name}={value}"))))
            .collect(),
    }
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn capitalised(text: &str) -> String {
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    first.to_uppercase() + rest
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// `code` and **bold** inside a line.
pub(super) fn inline(text: &str) -> String {
    let mut html = String::new();
    for (index, piece) in text.split('`').enumerate() {
        if index % 2 == 1 {
            let _ = write!(html, "<code>{}</code>", escaped(piece));
            continue;
        }
        for (index, piece) in piece.split("**").enumerate() {
            let piece = escaped(piece);
            let (open, close) = if index % 2 == 1 { ("<b>", "</b>") } else { ("", "") };
            let _ = write!(html, "{open}{piece}{close}");
        }
    }
    html
}

/// Paragraphs, lists and tables.
pub(super) fn formatted(text: &str) -> String {
    let block = |block: &str| {
        if block.starts_with("- ") {
            let items =
                block.lines().map(|line| format!("<li>{}</li>\n", inline(line.trim_start_matches("- "))));
            return format!("<ul>\n{}</ul>\n", items.collect::<String>());
        }
        if block.starts_with('|') {
            let cells = |line: &str, tag: &str| {
                let cells = line.trim_matches('|').split('|');
                let cells = cells.map(|cell| format!("<{tag}>{}</{tag}>", inline(cell.trim())));
                format!("<tr>{}</tr>\n", cells.collect::<String>())
            };
            let mut lines = block.lines();
            let heading = cells(lines.next().unwrap_or_default(), "th");
            let rows: String = lines.skip(1).map(|line| cells(line, "td")).collect();
            return format!(
                "<div class=\"wide\"><table>\n<thead>{heading}</thead>\n<tbody>\n{rows}</tbody></table></div>\n"
            );
        }
        format!("<p>{}</p>\n", inline(block))
    };
    text.split("\n\n").map(block).collect()
}
