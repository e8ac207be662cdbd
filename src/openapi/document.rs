//! The objects of an OpenAPI 3.1 document, as they are written.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::Field;

/// Values by their names, in the order in which they were put in.
#[derive(Debug, Clone)]
pub(super) struct Ordered<T>(pub(super) Vec<(String, T)>);

impl<T> Ordered<T> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Serialize> Serialize for Ordered<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// An OpenAPI 3.1 document.
#[derive(Debug, Serialize)]
pub struct Document {
    pub(super) openapi: &'static str,
    pub(super) info: Info,
    pub(super) servers: [Value; 1],
    pub(super) security: Vec<Value>,
    pub(super) tags: Vec<Value>,
    pub(super) paths: Ordered<Ordered<OperationObject>>,
    #[serde(skip_serializing_if = "Ordered::is_empty")]
    pub(super) webhooks: Ordered<Value>,
    pub(super) components: Components,
}

#[derive(Debug, Serialize)]
pub(super) struct Info {
    pub(super) title: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: String,
    pub(super) version: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Components {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) security_schemes: Option<Value>,
    pub(super) schemas: BTreeMap<String, Value>,
    pub(super) examples: BTreeMap<String, ExampleObject>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OperationObject {
    pub(super) operation_id: &'static str,
    pub(super) tags: [&'static str; 1],
    pub(super) summary: &'static str,
    pub(super) description: String,
    pub(super) parameters: Vec<Field>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_body: Option<RequestBody>,
    pub(super) responses: BTreeMap<u16, ResponseObject>,
}

#[derive(Debug, Serialize)]
pub(super) struct RequestBody {
    pub(super) required: bool,
    pub(super) content: Ordered<BodyObject>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct BodyObject {
    pub(super) schema: BodySchema,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) encoding: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) example: Option<BodyExample>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(super) enum BodyExample {
    /// One text: the whole body.
    Whole(Value),
    Members(Ordered<Value>),
}

#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(super) enum BodySchema {
    Whole(Value),
    Members(MembersSchema),
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MembersSchema {
    pub(super) r#type: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) required: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) additional_properties: Option<bool>,
    pub(super) properties: Ordered<Value>,
}

#[derive(Debug, Serialize)]
pub(super) struct ResponseObject {
    pub(super) description: String,
    pub(super) headers: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) content: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ExampleObject {
    pub(super) summary: &'static str,
    pub(super) value: Value,
}

impl Document {
    /// The document on many lines.
    ///
    /// # Panics
    /// Never: the document is JSON.
    #[must_use]
    pub fn pretty(&self) -> String {
        serde_json::to_string_pretty(self).expect("the document is JSON")
    }
}
