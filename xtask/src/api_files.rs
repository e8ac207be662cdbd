//! Files for editors, agents and API tools, made of the committed OpenAPI documents: plain Markdown with an `llms.txt`, `.http`
//! files, and a collection of Bruno. Signed calls are signed by a script of the tool.

use std::fmt::Write as _;

use serde_json::Value;

use crate::surface::resolved;

/// The folder that holds these files and no others.
pub(crate) const FOLDER: &str = "docs/tools";

/// What stands for a field in a tool: a variable where each installation, or each call, has its own value.
const VARIABLES: [(&str, &str); 7] = [
    ("app_id", "app_id"),
    ("access_token", "access_token"),
    ("app_secret", "app_secret"),
    ("component_app_id", "app_id"),
    ("authorizer_access_token", "access_token"),
    ("product_cover_img_id", "img_id"),
    ("img_id", "img_id"),
];
/// What the default seed of a sandbox server has, and what a call has of its own.
const SANDBOX: [(&str, &str); 7] = [
    ("base", "http://127.0.0.1:8080"),
    ("app_id", "mygame"),
    ("access_token", "mygame-token"),
    ("app_secret", "mygame-secret"),
    ("pay_key", "mygame-pay-key"),
    ("img_id", "0123456789abcdef0123456789abcdef0123456789abcdef"),
    ("api_key", "mtk_of_minitill_api-key_create"),
];

/// Signs a form: fields that are not empty, in the order of their names.
const SIGN: &str = "  fields.ts = String(Date.now());
  if (fields.biz_no && isNew) fields.biz_no = `n${Date.now()}`;
  const signed = Object.keys(fields).filter((name) => fields[name] !== '' && !['access_token', 'sign'].includes(name));
  const text = signed.sort().map((name) => `${name}=${fields[name]}`).join('&');
";

/// One call of an API, as a tool sends it.
struct ToolCall<'a> {
    id: &'a str,
    summary: &'a str,
    method: String,
    path: String,
    query: Vec<(String, String)>,
    content_type: Option<&'a str>,
    body: Option<&'a Value>,
}

impl ToolCall<'_> {
    fn is_signed(&self) -> bool {
        self.content_type.is_some_and(|kind| kind.ends_with("x-www-form-urlencoded"))
            && self.body.is_some_and(|body| body["sign"].is_string())
    }

    /// The fields of a form; variables in double braces.
    fn form(&self) -> Vec<(String, String)> {
        let fields = self.body.and_then(Value::as_object).into_iter().flatten();
        fields.map(|(name, value)| (name.clone(), filled(name, &plain(value)))).collect()
    }

    /// The text of a JSON body, with variables.
    fn json(&self) -> String {
        let mut body = self.body.cloned().unwrap_or_default();
        for (name, value) in body.as_object_mut().into_iter().flatten() {
            if let Some((_, variable)) = VARIABLES.iter().find(|(field, _)| field == name) {
                *value = format!("{{{{{variable}}}}}").into();
            }
        }
        serde_json::to_string_pretty(&body).unwrap_or_default()
    }

    fn url(&self, base: &str) -> String {
        let query: Vec<String> = self.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{{{{{base}}}}}{}{mark}{}", self.path, query.join("&"))
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn filled(name: &str, value: &str) -> String {
    let variable = VARIABLES.iter().find(|(field, _)| *field == name);
    variable.map_or_else(|| value.to_owned(), |(_, variable)| format!("{{{{{variable}}}}}"))
}

/// The calls of a document, in its order.
fn calls(document: &Value) -> Vec<ToolCall<'_>> {
    let mut calls = Vec::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, call) in methods.as_object().into_iter().flatten() {
            let Some(id) = call["operationId"].as_str() else { continue };
            let (mut path, mut query) = (path.clone(), Vec::new());
            for parameter in call["parameters"].as_array().into_iter().flatten() {
                let parameter = resolved(document, parameter);
                let name = parameter["name"].as_str().unwrap_or_default();
                let value = filled(name, &plain(&parameter["example"]));
                match parameter["in"].as_str() {
                    Some("path") => path = path.replace(&format!("{{{name}}}"), &value),
                    Some("query")
                        if parameter["required"] == true
                            || VARIABLES.iter().any(|(field, _)| *field == name) =>
                    {
                        query.push((name.to_owned(), value));
                    }
                    _ => {}
                }
            }
            let content =
                call["requestBody"]["content"].as_object().and_then(|content| content.iter().next());
            calls.push(ToolCall {
                id,
                summary: call["summary"].as_str().unwrap_or_default(),
                method: method.to_uppercase(),
                path,
                query,
                content_type: content.map(|(kind, _)| kind.as_str()),
                body: content.map(|(_, body)| &body["example"]).filter(|example| !example.is_null()),
            });
        }
    }
    calls
}

/// All files: the path below [`FOLDER`], and the text.
pub(crate) fn files(public: &Value, admin: &Value) -> Vec<(String, String)> {
    let mut files = vec![
        ("llms.txt".to_owned(), llms(public, admin)),
        ("public-api.md".to_owned(), markdown(public)),
        ("admin-api.md".to_owned(), markdown(admin)),
        ("public.http".to_owned(), http(public, "base")),
        ("admin.http".to_owned(), http(admin, "operator")),
        (
            "bruno/bruno.json".to_owned(),
            "{\n  \"version\": \"1\",\n  \"name\": \"Minitill\",\n  \"type\": \"collection\"\n}\n".to_owned(),
        ),
        ("bruno/environments/sandbox.bru".to_owned(), environment()),
    ];
    for (folder, document, base) in [("public", public, "base"), ("admin", admin, "operator")] {
        for (at, call) in calls(document).iter().enumerate().filter(|(_, call)| !is_upload(call)) {
            files.push((format!("bruno/{folder}/{}.bru", call.id), bruno(call, base, at + 1)));
        }
    }
    files
}

/// Tools attach files by hand.
fn is_upload(call: &ToolCall<'_>) -> bool {
    call.content_type.is_some_and(|kind| kind.starts_with("multipart/"))
}

fn variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    SANDBOX.into_iter().chain([("operator", "http://127.0.0.1:8081")])
}

fn environment() -> String {
    let lines: String =
        variables().fold(String::new(), |text, (name, value)| text + &format!("  {name}: {value}\n"));
    format!("vars {{\n{lines}}}\n")
}

/// A file of calls for httpYac, which other clients of `.http` files read but for the scripts that sign.
fn http(document: &Value, base: &str) -> String {
    let mut text = "# Made by `cargo xtask generate`. For httpYac, such as in Visual Studio Code, against `minitill sandbox serve`.\n\n".to_owned();
    for (name, value) in variables() {
        let _ = writeln!(text, "@{name} = {value}");
    }
    for call in calls(document).iter().filter(|call| !is_upload(call)) {
        let _ = write!(text, "\n### {}\n# @name {}\n", call.summary, call.id);
        if call.is_signed() {
            text += &signed_http(call, base);
            continue;
        }
        let _ = writeln!(text, "{} {}", call.method, call.url(base));
        if base == "operator" {
            text += "Authorization: Bearer {{api_key}}\n";
            if call.method == "POST" {
                text += "Idempotency-Key: {{$uuid}}\n";
            }
        }
        match call.content_type.filter(|_| call.body.is_some()) {
            Some("application/json") => {
                let _ = writeln!(text, "Content-Type: application/json\n\n{}", call.json());
            }
            Some(kind) => {
                let fields: Vec<String> =
                    call.form().iter().map(|(name, value)| format!("{name}={value}")).collect();
                let _ = writeln!(text, "Content-Type: {kind}\n\n{}", fields.join("&"));
            }
            None => {}
        }
    }
    text
}

/// A signed call, with the script that signs it.
fn signed_http(call: &ToolCall<'_>, base: &str) -> String {
    let (script, new) = (fields_of(call), call.id != "queryNumber");
    let own = ["ts", "biz_no", "sign"];
    let form: Vec<String> = call
        .form()
        .iter()
        .map(|(name, value)| match (own.contains(&name.as_str()), value.starts_with("{{")) {
            (true, _) => format!("{name}={{{{{name}}}}}"),
            (false, true) => format!("{name}={value}"),
            (false, false) => format!("{name}={}", encoded(value)),
        })
        .collect();
    let exported = "  exports.ts = fields.ts;\n  exports.biz_no = fields.biz_no;\n";
    format!(
        "{{{{\n  const isNew = {new};\n{script}{SIGN}{exported}  \
         exports.sign = require('crypto').createHmac('sha256', pay_key).update(text).digest('hex');\n}}}}\n{} {}\n\
         Content-Type: application/x-www-form-urlencoded\n\n{}\n",
        call.method,
        call.url(base),
        form.join("&")
    )
}

/// A value as a form has it.
fn encoded(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    value.bytes().fold(String::new(), |text, byte| {
        if is_plain(byte) { text + &char::from(byte).to_string() } else { text + &format!("%{byte:02X}") }
    })
}

/// The fields of a form as an object of JavaScript.
fn fields_of(call: &ToolCall<'_>) -> String {
    let mut text = "  const fields = {\n".to_owned();
    for (name, value) in call.form().iter().filter(|(name, _)| name != "sign") {
        let value = match value.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")) {
            Some(variable) => variable.to_owned(),
            None => Value::from(value.as_str()).to_string(),
        };
        let _ = writeln!(text, "    {name}: {value},");
    }
    text + "  };\n"
}

/// A call of Bruno's collection.
fn bruno(call: &ToolCall<'_>, base: &str, at: usize) -> String {
    let body = match call.content_type.filter(|_| call.body.is_some()) {
        Some("application/json") => "json",
        Some(_) => "formUrlEncoded",
        None => "none",
    };
    let mut text = format!(
        "meta {{\n  name: {}\n  type: http\n  seq: {at}\n}}\n\n{} {{\n  url: {}\n  body: {body}\n  auth: {}\n}}\n",
        call.id,
        call.method.to_lowercase(),
        call.url(base),
        if base == "operator" { "bearer" } else { "none" }
    );
    if !call.query.is_empty() {
        let lines = call
            .query
            .iter()
            .fold(String::new(), |text, (name, value)| text + &format!("  {name}: {value}\n"));
        let _ = write!(text, "\nparams:query {{\n{lines}}}\n");
    }
    if base == "operator" {
        if call.method == "POST" {
            text += "\nheaders {\n  Idempotency-Key: {{$guid}}\n}\n";
        }
        text += "\nauth:bearer {\n  token: {{api_key}}\n}\n";
    }
    if body == "json" {
        let _ = write!(text, "\nbody:json {{\n{}\n}}\n", indented(&call.json()));
    } else if body == "formUrlEncoded" && !call.is_signed() {
        let lines = call
            .form()
            .iter()
            .fold(String::new(), |text, (name, value)| text + &format!("  {name}: {value}\n"));
        let _ = write!(text, "\nbody:form-urlencoded {{\n{lines}}}\n");
    }
    if call.is_signed() {
        let of_tool = SANDBOX.iter().filter(|(name, _)| ["app_id", "access_token", "pay_key"].contains(name));
        let read = of_tool.fold(String::new(), |text, (name, _)| {
            text + &format!("  const {name} = bru.getEnvVar('{name}');\n")
        });
        let (script, new) = (fields_of(call), call.id != "queryNumber");
        let _ = write!(
            text,
            "\nscript:pre-request {{\n  const crypto = require('crypto-js');\n{read}  const isNew = {new};\n{script}{SIGN}  \
             fields.sign = crypto.HmacSHA256(text, pay_key).toString();\n  \
             req.setHeader('Content-Type', 'application/x-www-form-urlencoded');\n  \
             req.setBody(Object.entries(fields).map(([name, value]) => `${{name}}=${{encodeURIComponent(value)}}`).join('&'));\n}}\n"
        );
        text = text.replacen("  body: formUrlEncoded", "  body: text", 1);
    }
    text
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// A document as Markdown: each call with its fields and its examples.
fn markdown(document: &Value) -> String {
    let info = &document["info"];
    let mut text = format!("# {}\n\n{}\n", plain(&info["title"]), plain(&info["description"]));
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, call) in
            methods.as_object().into_iter().flatten().filter(|(_, call)| call["operationId"].is_string())
        {
            let _ = write!(
                text,
                "\n## {}: {}\n\n`{} {path}`\n\n{}\n",
                plain(&call["operationId"]),
                plain(&call["summary"]),
                method.to_uppercase(),
                plain(&call["description"])
            );
            text += &fields_in_markdown(document, call);
            for (status, answer) in call["responses"].as_object().into_iter().flatten() {
                for (_, body) in resolved(document, answer)["content"].as_object().into_iter().flatten() {
                    for (_, example) in body["examples"].as_object().into_iter().flatten() {
                        let example = resolved(document, example);
                        let (summary, value) = (plain(&example["summary"]), &example["value"]);
                        let _ = write!(text, "\n{status}: {summary}\n\n```json\n{value}\n```\n");
                    }
                }
            }
        }
    }
    text
}

fn fields_in_markdown(document: &Value, call: &Value) -> String {
    let mut rows = Vec::new();
    for parameter in call["parameters"].as_array().into_iter().flatten() {
        let parameter = resolved(document, parameter);
        let required = parameter["required"] == true;
        rows.push((
            plain(&parameter["name"]),
            plain(&parameter["in"]),
            required,
            plain(&parameter["description"]),
        ));
    }
    if let Some((kind, body)) =
        call["requestBody"]["content"].as_object().and_then(|content| content.iter().next())
    {
        let schema = resolved(document, &body["schema"]);
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.iter().any(|known| known == name);
            rows.push((name.clone(), kind.clone(), is_required, plain(&field["description"])));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut text = "\n| field | in | required | meaning |\n|---|---|---|---|\n".to_owned();
    for (name, place, required, meaning) in rows {
        let required = if required { "yes" } else { "no" };
        let _ = writeln!(text, "| `{name}` | {place} | {required} | {} |", meaning.replace('|', "\\|"));
    }
    text
}

/// The file that an agent reads first.
fn llms(public: &Value, admin: &Value) -> String {
    let mut text = "\
        # Minitill\n\n> A self-hosted till for mini-games and mini-programs: a wallet service and an order center on PostgreSQL. \
        `minitill sandbox serve` is the platform on a laptop, with fixed keys.\n\n\
        ## Guides\n\n\
        - [First exchange, retries, signing](../api.md)\n- [A sandbox server for tests](../sandbox.md)\n\
        - [Every rule of the public API](../contract.md)\n- [Commands](../cli.md)\n\
        - [Clients in six languages](../../examples/client/README.md)\n\n\
        ## References\n\n\
        - [Public API as Markdown](public-api.md), [as OpenAPI](../openapi.json), [as .http](public.http)\n\
        - [Admin API as Markdown](admin-api.md), [as OpenAPI](../admin-openapi.json), [as .http](admin.http)\n"
        .to_owned();
    for (heading, document) in [("Public API", public), ("Admin API", admin)] {
        let _ = write!(text, "\n## {heading}\n\n");
        for call in calls(document) {
            let path = document["paths"].as_object().into_iter().flatten();
            let path = path.filter(|(_, methods)| {
                methods.as_object().into_iter().flatten().any(|(_, known)| known["operationId"] == call.id)
            });
            let path = path.map(|(path, _)| path.as_str()).next().unwrap_or_default();
            let _ = writeln!(text, "- `{} {path}`: {}", call.method, call.summary);
        }
    }
    text
}
