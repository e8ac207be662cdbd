//! OpenAPI 3.1 documents, rendered from what a face says of its routes, and the viewer that shows them.
//!
//! This module knows no route. Each row of a route table carries the function that describes it: an [`Operation`] of
//! fields and answers. Its schemas come from the types that are read and answered. Tests send every example to a server
//! and compare the answers.

mod document;
mod examples;
pub mod operation;
pub mod viewer;

use std::collections::{BTreeMap, BTreeSet};

pub use domain::examples::{ACCESS_TOKEN, APP_ID, IMG_ID, JS_CODE, NOW_MILLIS, OPEN_ID, PAY_KEY, UNION_ID};
pub use domain::input::{Field, Place, Schema, plain};
pub(crate) use domain::input::{FieldReader, Input, schema};
use serde_json::{Map, Value, json};

pub use self::document::Document;
use self::document::{
    BodyExample, BodyObject, BodySchema, Components, ExampleObject, Info, MembersSchema, OperationObject,
    Ordered, RequestBody, ResponseObject,
};
pub(crate) use self::examples::refusals;
pub use self::operation::{Content, Described, Example, Operation, Success};

/// An API as its document shows it.
#[derive(Debug)]
pub struct Api {
    /// Title of the document.
    pub title: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The rules of every call, in Markdown.
    pub description: String,
    /// The URL that serves it, and the listener there.
    pub server: (String, &'static str),
    /// What is said of the bearer key, where calls need one.
    pub api_key: Option<&'static str>,
    /// Whether a member of a body that is not described is refused.
    pub strict: bool,
    /// Groups of calls, with what each is about.
    pub tags: &'static [(&'static str, &'static str)],
    /// Content type of its refusals.
    pub refusal_type: &'static str,
    /// What is said of the refusals of one status.
    pub refusals_in_words: fn(&[&Example<WireRefusal>]) -> String,
    /// Its calls, those of a path one after the other.
    pub calls: Vec<DocumentedCall>,
    /// What it sends by itself.
    pub webhooks: Vec<Webhook>,
}

/// A request that the server sends.
#[derive(Debug)]
pub struct Webhook {
    /// Its name.
    pub name: &'static str,
    /// Its path item of the document.
    pub operation: Value,
    /// The schemas that it refers to.
    pub schema: Schema,
}

/// A call with its route.
#[derive(Debug)]
pub struct DocumentedCall {
    /// Its name for generated clients.
    pub id: &'static str,
    /// Its method.
    pub method: &'static str,
    /// Its path, with parameters in braces.
    pub path: &'static str,
    /// The group that it belongs to.
    pub tag: &'static str,
    /// What is said of it.
    pub operation: Operation<WireRefusal>,
    /// Schema of its refusals.
    pub refusal: Schema,
}

/// A refusal as it goes over the wire.
#[derive(Debug, Clone, PartialEq)]
pub struct WireRefusal {
    /// Its status.
    pub status: u16,
    /// Its code in short.
    pub code: String,
    /// The body.
    pub body: Value,
    /// Whether `Retry-After` comes with it.
    pub waits: bool,
}

impl Api {
    /// The document of the API.
    ///
    /// # Panics
    /// When two types have one name.
    #[must_use]
    pub fn document(self) -> Document {
        let examples = Examples::of(&self.calls);
        let mut paths: Vec<(String, Ordered<OperationObject>)> = Vec::new();
        for call in &self.calls {
            let entry = (call.method.to_ascii_lowercase(), self.operation(call, &examples));
            match paths.last_mut() {
                Some((last, operations)) if last == call.path => operations.0.push(entry),
                Some(_) | None => paths.push((call.path.to_owned(), Ordered(vec![entry]))),
            }
        }
        let security_schemes = self
            .api_key
            .map(|words| json!({ "apiKey": { "type": "http", "scheme": "bearer", "description": words } }));
        let (url, listener) = &self.server;
        Document {
            openapi: "3.1.0",
            servers: [json!({ "url": url, "description": listener })],
            security: self.api_key.iter().map(|_| json!({ "apiKey": [] })).collect(),
            tags: self
                .tags
                .iter()
                .map(|(name, words)| json!({ "name": name, "description": words }))
                .collect(),
            components: Components {
                security_schemes,
                schemas: schemas(&self.calls, &self.webhooks),
                examples: examples.0,
            },
            paths: Ordered(paths),
            webhooks: Ordered(
                self.webhooks
                    .into_iter()
                    .map(|webhook| (webhook.name.to_owned(), webhook.operation))
                    .collect(),
            ),
            info: Info {
                title: self.title,
                summary: self.summary,
                description: self.description,
                version: env!("CARGO_PKG_VERSION"),
            },
        }
    }

    fn operation(&self, call: &DocumentedCall, examples: &Examples) -> OperationObject {
        let operation = &call.operation;
        let statuses = operation.successes.iter().map(|success| success.status);
        let statuses = statuses.chain(operation.refusals.iter().map(|example| example.refusal.status));
        let statuses: BTreeSet<u16> = statuses.collect();
        let responses = statuses.into_iter().map(|status| (status, self.response(call, status, examples)));
        OperationObject {
            operation_id: call.id,
            tags: [call.tag],
            summary: operation.summary,
            description: operation.description.clone(),
            parameters: operation.fields.iter().filter(|field| field.place != Place::Body).cloned().collect(),
            request_body: self.request_body(operation),
            responses: responses.collect(),
        }
    }

    fn request_body(&self, operation: &Operation<WireRefusal>) -> Option<RequestBody> {
        let fields: Vec<&Field> = operation.fields_in(Place::Body).collect();
        let required: Vec<_> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
        let property = |field: &&Field| {
            let mut schema = field.schema.clone();
            schema["description"] = field.description.as_ref().into();
            (field.name.to_owned(), schema)
        };
        // The bytes of a picture have no place in JSON.
        let is_file = fields.iter().any(|field| field.name == "file");
        let example = |field: &&Field| Some((field.name.to_owned(), field.example.clone()?));
        let example = Ordered(fields.iter().filter_map(example).collect());
        let body = BodyObject {
            schema: BodySchema::Members(MembersSchema {
                r#type: "object",
                required: required.clone(),
                additional_properties: self.strict.then_some(false),
                properties: Ordered(fields.iter().map(property).collect()),
            }),
            encoding: is_file.then(|| json!({ "file": { "contentType": "image/png, image/jpeg" } })),
            example: (!is_file).then_some(BodyExample::Members(example)),
        };
        let body = match (operation.media_types, fields.as_slice()) {
            // A file of text is the body, and no member of one.
            (["text/csv"], [file]) => BodyObject {
                schema: BodySchema::Whole(property(file).1),
                encoding: None,
                example: file.example.clone().map(BodyExample::Whole),
            },
            _ => body,
        };
        let content = operation.media_types.iter().map(|media_type| ((*media_type).to_owned(), body.clone()));
        let content = Ordered(content.collect());
        (!fields.is_empty()).then_some(RequestBody { required: !required.is_empty(), content })
    }

    fn response(&self, call: &DocumentedCall, status: u16, examples: &Examples) -> ResponseObject {
        let operation = &call.operation;
        let successes = operation.successes.iter().filter(|success| success.status == status);
        let refusals: Vec<&Example<WireRefusal>> =
            operation.refusals.iter().filter(|example| example.refusal.status == status).collect();
        let mut words: Vec<String> = successes.clone().map(|success| success.summary.to_owned()).collect();
        let mut headers = Map::new();
        headers.insert("X-Request-Id".to_owned(), header("The id that came, or a new one.", true));
        if refusals.iter().any(|example| example.refusal.waits) {
            let seconds = json!({
                "description": "Whole seconds to wait. It is there when waiting helps.",
                "schema": { "type": "integer", "minimum": 1 },
            });
            headers.insert("Retry-After".to_owned(), seconds);
        }
        let (mut shown, mut content) = (BTreeMap::<&str, MediaType>::new(), Map::new());
        for success in successes {
            for (name, meaning, _) in &success.headers {
                headers.insert((*name).to_owned(), header(meaning, false));
            }
            let mut show = |media_type, schema| {
                let example = examples.reference(call.id, success.name);
                shown.entry(media_type).or_default().add(schema, success.name, example);
            };
            match &success.content {
                Content::Json { schema, .. } => show(JSON, &schema.root),
                Content::Csv { .. } => {
                    show(CSV, &json!({ "type": "string" }));
                    content.insert(XLSX.to_owned(), json!({}));
                }
                Content::Zip => drop(content.insert(ZIP.to_owned(), json!({}))),
                Content::Picture => {
                    let kinds = ["image/png", "image/jpeg"];
                    content.extend(kinds.map(|media_type| (media_type.to_owned(), json!({}))));
                }
                Content::Empty => {}
            }
        }
        if !refusals.is_empty() {
            words.push((self.refusals_in_words)(&refusals));
        }
        for example in refusals.into_iter().filter(|_| call.method != "HEAD") {
            let reference = examples.reference(call.id, example.name);
            shown.entry(self.refusal_type).or_default().add(&call.refusal.root, example.name, reference);
        }
        content.extend(shown.into_iter().map(|(media_type, shown)| (media_type.to_owned(), shown.media())));
        ResponseObject { description: words.join(" "), headers, content }
    }
}

/// Content type of most successes.
const JSON: &str = "application/json";
/// Content type of files of CSV.
const CSV: &str = "text/csv";
/// Content type of archives of files.
pub(crate) const ZIP: &str = "application/zip";
/// Content type of workbooks.
pub const XLSX: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

/// Schemas and examples of one content type.
#[derive(Default)]
struct MediaType {
    schemas: Vec<Value>,
    examples: Map<String, Value>,
}

impl MediaType {
    fn add(&mut self, schema: &Value, name: &str, example: Value) {
        if !self.schemas.contains(schema) {
            self.schemas.push(schema.clone());
        }
        self.examples.insert(name.to_owned(), example);
    }

    fn media(self) -> Value {
        let schema = match self.schemas.as_slice() {
            [schema] => schema.clone(),
            schemas => json!({ "anyOf": schemas }),
        };
        json!({ "schema": schema, "examples": self.examples })
    }
}

/// The examples of all calls. One that reads the same in every call stands once, under its own name.
struct Examples(BTreeMap<String, ExampleObject>);

impl Examples {
    fn of(calls: &[DocumentedCall]) -> Self {
        let mut by_name: BTreeMap<&str, Vec<(String, ExampleObject)>> = BTreeMap::new();
        for call in calls.iter().filter(|call| call.method != "HEAD") {
            let successes = call.operation.successes.iter().filter_map(|success| {
                success.content.example().map(|example| (success.name, success.summary, example))
            });
            let refusals = call.operation.refusals.iter();
            let refusals = refusals.map(|example| (example.name, example.summary, &example.refusal.body));
            for (name, summary, value) in successes.chain(refusals) {
                let example = ExampleObject { summary, value: value.clone() };
                by_name.entry(name).or_default().push((format!("{}.{name}", call.id), example));
            }
        }
        let mut named = BTreeMap::new();
        for (name, mut of_name) in by_name {
            if of_name.windows(2).all(|pair| pair[0].1 == pair[1].1) {
                named.extend(of_name.pop().map(|(_, example)| (name.to_owned(), example)));
            } else {
                named.extend(of_name);
            }
        }
        Self(named)
    }

    fn reference(&self, id: &str, name: &str) -> Value {
        let own = format!("{id}.{name}");
        let name = if self.0.contains_key(&own) { own.as_str() } else { name };
        json!({ "$ref": format!("#/components/examples/{name}") })
    }
}

/// The named schemas of all calls and webhooks.
fn schemas(calls: &[DocumentedCall], webhooks: &[Webhook]) -> BTreeMap<String, Value> {
    let mut named: BTreeMap<String, Value> = BTreeMap::new();
    named.extend(webhooks.iter().flat_map(|webhook| webhook.schema.named.clone()));
    for call in calls {
        let successes = call.operation.successes.iter();
        let successes = successes.filter_map(|success| success.content.schema());
        let refusal = (call.method != "HEAD").then_some(&call.refusal);
        for (name, schema) in successes.chain(refusal).flat_map(|schema| &schema.named) {
            let known = named.entry(name.clone()).or_insert_with(|| schema.clone());
            assert!(known == schema, "two types are named {name}");
        }
    }
    named
}

fn header(description: &str, required: bool) -> Value {
    json!({ "description": description, "required": required, "schema": { "type": "string" } })
}

#[cfg(test)]
mod tests;
