//! Building blocks for the descriptions of admin calls: answers with their problems, pages and segments of paths.

use domain::console_user::ConsoleUserName;
use domain::fields::{Expected, FieldError, LIST_ITEMS_MAX};
use domain::ids::{ApiKeyName, AppId, BizNo, ImgId, OpenId, OrderNo};
use domain::moment;
use domain::receiver::ReceiverId;
use domain::topup::{PaymentProvider, ProviderOrderId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::super::download::disposition;
use super::exchanges::BIZ_NO;
use super::messages::example;
use super::operators::{KEY, USER};
use super::orders::ORDER_NO;
use super::problem::Problem;
use super::receivers::RECEIVER_ID;
use super::routes::Answers;
use super::topups::{PROVIDER, PROVIDER_ORDER_ID};
use crate::openapi::{
    APP_ID, Content, Example, Field, FieldReader, IMG_ID, Input, OPEN_ID, Operation, Place, Schema, Success,
};

/// The moment of all examples.
pub(super) const MOMENT: &str = domain::examples::MOMENT;
/// Elements of a page, unless asked otherwise.
pub(super) const PAGE_ITEMS: u32 = 50;
/// Most elements of a page.
pub(super) const PAGE_ITEMS_MAX: u32 = 200;

/// What is said of a call that answers this: the name, the meaning and the JSON of its example.
pub(super) fn answers(name: &'static str, meaning: &'static str, example: Value) -> Operation<Problem> {
    let content = Content::Json { schema: Schema::default(), example };
    Operation::new("", "").answers(Success::new(name, meaning, 200, content))
}

/// The same of a call that answers a file.
pub(super) fn file(
    name: &'static str,
    meaning: &'static str,
    content: Content,
    file_name: &str,
) -> Operation<Problem> {
    let success = Success::new(name, meaning, 200, content);
    let about = "Says that it is a file, and its name.";
    Operation::new("", "").answers(success.header("Content-Disposition", about, disposition(file_name)))
}

/// The same of a call that answers a page of items like this one.
pub(super) fn lists(meaning: &'static str, item: &Value) -> Operation<Problem> {
    answers("listed", meaning, json!({ "items": [item], "next": null }))
}

impl Operation<Problem> {
    /// With the fields of the query, as their reader describes them.
    pub(super) fn query<T>(self, read: impl FnOnce(&mut Input<'_>) -> Result<T, FieldError>) -> Self {
        self.with(Place::Query, Input::describe(read))
    }

    /// With the members of the body, as their reader describes them.
    pub(super) fn read<T>(self, read: impl FnOnce(&mut Input<'_>) -> Result<T, FieldError>) -> Self {
        self.members(Input::describe(read))
    }

    /// With a body of one JSON object that has these members alone.
    pub(super) fn members(self, fields: impl IntoIterator<Item = Field>) -> Self {
        self.body(&["application/json"], fields)
    }

    /// With the problem of a wrong field.
    pub(super) fn wrong(self, name: &'static str, detail: &str) -> Self {
        let wrong = Problem::field(name, detail);
        self.refuses([Example::new("invalid_field", "A field is wrong; `errors` names it.", wrong)])
    }

    /// With an answer of 202: it was taken, and has not taken effect.
    pub(super) fn accepts(self, name: &'static str, meaning: &'static str, example: Value) -> Self {
        let content = Content::Json { schema: Schema::default(), example };
        self.answers(Success::new(name, meaning, 202, content))
    }

    /// As an answer of 201 that leads to what was made.
    pub(super) fn created(mut self, location: &'static str) -> Self {
        for success in &mut self.successes {
            success.status = 201;
            success.headers.push(("Location", "Where it is.", location.to_owned()));
        }
        self
    }

    /// With the words of a route, and the schema of its answers.
    pub(super) fn of<A: Answers>(mut self, words: &[&'static str]) -> Self {
        for success in &mut self.successes {
            if let Content::Json { schema: of_answer, .. } = &mut success.content {
                *of_answer = A::schema();
            }
        }
        let (summary, rules) = words.split_first().unwrap_or((&"", &[]));
        Self { summary: summary.trim_ascii(), description: rules.concat().trim_ascii().to_owned(), ..self }
    }
}

/// A page of a list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub(super) struct ListBody<T> {
    pub(super) items: Vec<T>,
    /// What to send as `after` for the next page. It is null on the last page.
    pub(super) next: Option<String>,
}

/// A segment of a path, and the problem of a path whose segment names nothing.
///
/// # Panics
/// On a segment that is not described here.
pub(super) fn segment(name: &'static str) -> (Field, Example<Problem>) {
    match name {
        "app_id" => (Field::required::<AppId>(name, APP_ID, "The app."), example::no_app()),
        "open_id" => (Field::required::<OpenId>(name, OPEN_ID, "The player."), example::no_player()),
        "img_id" => (Field::required::<ImgId>(name, IMG_ID, "The image."), example::no_image()),
        "biz_no" => (Field::required::<BizNo>(name, BIZ_NO, "The order number."), example::no_exchange()),
        "receiver_id" => {
            (Field::required::<ReceiverId>(name, RECEIVER_ID, "The receiver."), example::no_receiver())
        }
        "provider" => (
            Field::required::<PaymentProvider>(name, PROVIDER, "The payment provider."),
            example::no_payment(),
        ),
        "name" => (
            Field::required::<PaymentProvider>(name, "pay", "The payment provider."),
            example::no_provider_name(),
        ),
        "provider_order_id" => (
            Field::required::<ProviderOrderId>(name, PROVIDER_ORDER_ID, "The provider's id of the payment."),
            example::no_payment(),
        ),
        "user" => (Field::required::<ConsoleUserName>(name, USER, "The user."), example::no_user()),
        "key" => (Field::required::<ApiKeyName>(name, KEY, "The key, by its name."), example::no_key()),
        "player" => (Field::required::<OpenId>(name, OPEN_ID, "The player."), example::nothing_recorded()),
        "month" => (Field::required::<String>(name, "2026-10", "The month."), example::no_month()),
        "out_biz_order_no" => {
            (Field::required::<OrderNo>(name, ORDER_NO, "The order number."), example::no_order())
        }
        other => panic!("{other}: the segment is not described"),
    }
}

/// A list of 1 to 1,000 texts of this type.
pub(super) fn ids<T: JsonSchema>(name: &'static str, example: &[&str], description: &'static str) -> Field {
    let field = Field::required::<Vec<T>>(name, example.to_vec(), description);
    field.demand("minItems", 1).demand("maxItems", LIST_ITEMS_MAX)
}

/// Reads how many elements a page has.
pub(super) fn limit(query: &mut Input<'_>) -> Result<u32, FieldError> {
    let limit = query.field("limit", "How many at most.").example(PAGE_ITEMS).demand("default", PAGE_ITEMS);
    let limit = limit.integer(1, PAGE_ITEMS_MAX.into())?;
    Ok(limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(PAGE_ITEMS))
}

/// Reads where a page begins. Describes `limit` too, which [`limit`] reads.
pub(super) fn after<T>(
    query: &mut Input<'_>,
    parse: impl FnOnce(&str) -> Result<T, Expected>,
) -> Result<Option<T>, FieldError> {
    limit(query)?;
    query.field("after", "`next` of the page before.").optional_as::<String, _>(parse)
}

/// Refuses a span that ends before it begins: an empty list would read as if nothing had happened.
pub(super) fn in_order(
    since: Option<OffsetDateTime>,
    until: Option<OffsetDateTime>,
) -> Result<(), FieldError> {
    match (since, until) {
        (Some(since), Some(until)) if since >= until => {
            Err(FieldError::malformed("until", "a moment after since", &moment::rfc3339(until)))
        }
        _ => Ok(()),
    }
}

/// Reads a moment.
pub(super) fn moment(field: FieldReader<'_, '_>) -> Result<Option<OffsetDateTime>, FieldError> {
    field.demand("format", "date-time").optional_as::<String, _>(moment::parse)
}
