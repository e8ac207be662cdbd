//! Apps, their keys, offers and tokens as the document tells them.

use domain::ids::{
    APP_NAME_CHARS_MAX, AppId, OrderNo, PACKAGE_VERSION_BYTES_MAX, PAGE_PATH_BYTES_MAX, POI_ID_BYTES_MAX,
    REASON_CHARS_MAX,
};

use super::problems::{ProblemExample, example, no_app, wrong_field};
use super::{Said, answers, flag, list_of, moment, operation, page_of, paging, record, text, text_or_null};
use crate::openapi::json::{Json, object};
use crate::openapi::operation::{
    APP_ID, Field, Parameter, Place, Success, integer, pattern, text as text_of,
};
use crate::operator::admin::{LIST_ITEMS_MAX, messages};

/// Keys of all examples. They are none.
const PAY_KEY: &str = "B7Y0c6E5bCKMEQOsvCExziNhq16ObGqh";
const APP_SECRET: &str = "q9Zr2mXw7Lk4Tn8Vb1Hc6Jd3Fg5Ps0Ya";
/// The moment of all examples.
pub(super) const MOMENT: &str = "2026-11-21T08:00:00Z";

/// `app_id` as a segment of the path.
pub(super) fn app_in_path() -> Parameter {
    Field::required("app_id", pattern(AppId::PATTERN), APP_ID, "The app.").at(Place::Path)
}

/// A list of texts in a body.
pub(super) fn texts(item: Json) -> Json {
    object! { "type": "array", "minItems": 1, "maxItems": LIST_ITEMS_MAX, "items": item }
}

fn limits() -> Json {
    let limit = || object! { "type": vec!["integer", "null"], "minimum": 0, "maximum": i32::MAX };
    record(vec![
        ("exchanges_per_second", limit()),
        ("reports_per_second", limit()),
        ("uploads_per_second", limit()),
        ("tokens_per_second", limit()),
    ])
}

fn limits_example(uploads: Json) -> Json {
    object! {
        "exchanges_per_second": Json::Null,
        "reports_per_second": Json::Null,
        "tokens_per_second": Json::Null,
        "uploads_per_second": uploads,
    }
}

fn app() -> Json {
    record(vec![
        ("app_id", pattern(AppId::PATTERN)),
        ("name", text()),
        ("category", category()),
        ("scopes", list_of(text())),
        ("sandbox", flag()),
        ("preorder_check", flag()),
        ("suspended", flag()),
        ("limits", limits()),
        ("package_version", text_or_null()),
        ("pages", list_of(text())),
        ("created_at", moment()),
    ])
}

fn app_example(sandbox: bool) -> Json {
    object! {
        "app_id": APP_ID,
        "category": "general",
        "created_at": MOMENT,
        "limits": limits_example(Json::Null),
        "name": "",
        "package_version": "1",
        "pages": vec!["pages/order/detail"],
        "preorder_check": false,
        "sandbox": sandbox,
        "scopes": vec!["epay"],
        "suspended": false,
    }
}

fn scopes() -> Json {
    object! { "type": "array", "maxItems": LIST_ITEMS_MAX, "items": object! { "const": "epay" } }
}

fn category() -> Json {
    object! { "type": "string", "enum": vec!["general", "local_life"] }
}

fn said(operation: crate::openapi::operation::Operation, problems: Vec<ProblemExample>) -> Said {
    Said { operation, problems }
}

pub(super) fn list() -> Said {
    let example = object! { "items": vec![app_example(false)], "next": Json::Null };
    let operation = operation(
        "List apps",
        "All apps by their ids.",
        answers("listed", "A page of apps.", page_of(app()), example),
    );
    let wrong = wrong_field("limit", "expected an integer from 1 to 200, got \"0\"");
    said(operation.with_parameters(paging()), vec![wrong])
}

pub(super) fn get() -> Said {
    let operation = operation(
        "Show an app",
        "One app, without its keys: they are shown when they are made, and never again.",
        answers("shown", "The app.", app(), app_example(false)),
    );
    said(operation.with_parameters(vec![app_in_path()]), vec![no_app()])
}

pub(super) fn create() -> Said {
    let schema =
        record(vec![("app_id", pattern(AppId::PATTERN)), ("app_secret", text()), ("pay_key", text())]);
    let example_of = object! { "app_id": "mygame", "app_secret": APP_SECRET, "pay_key": PAY_KEY };
    let location = ("Location", "Where the app is.", "/admin/v1/apps/mygame".to_owned());
    let created = Success {
        status: 201,
        headers: vec![location],
        ..answers("created", "The app, with its keys. They are shown once.", schema, example_of)
    };
    let fields = vec![
        Field::required("app_id", pattern(AppId::PATTERN), "mygame", "Id of the new app."),
        Field::optional("name", text_of(0, APP_NAME_CHARS_MAX), "Name, for people.").example("My game"),
        Field::optional("category", category(), "What the app sells; `general` unless it is said."),
        Field::optional("scopes", scopes(), "Permission scopes: `epay` may report orders.")
            .example(vec!["epay"]),
        Field::optional("sandbox", flag(), "Tell the app why its signature does not match."),
        Field::optional(
            "preorder_check",
            flag(),
            "Refuse reports of payments that are no registered pre-orders.",
        ),
    ];
    let operation = operation(
        "Create an app",
        "Makes an app with a pay key, which signs its exchanges, and a secret, which gets it access tokens.",
        created,
    );
    let mygame = AppId::parse("mygame").expect("the app of the example has an id");
    let taken = example("app_taken", "There is an app of this id.", messages::app_taken(&mygame));
    let wrong = wrong_field("app_id", "expected 1 to 64 of 0-9A-Za-z_-, got \"my game\"");
    self::said(operation.with_body(fields), vec![wrong, taken])
}

pub(super) fn change() -> Said {
    let fields = vec![
        Field::optional("name", text_of(0, APP_NAME_CHARS_MAX), "Name, for people."),
        Field::optional("category", category(), "What the app sells."),
        Field::optional("scopes", scopes(), "All its permission scopes.").example(vec!["epay"]),
        Field::optional("sandbox", flag(), "Tell the app why its signature does not match.").example(true),
        Field::optional(
            "preorder_check",
            flag(),
            "Refuse reports of payments that are no registered pre-orders.",
        ),
    ];
    let operation = operation(
        "Change an app",
        "Changes what is given and leaves the rest, on every server within five seconds.",
        answers("changed", "The app as it stands now.", app(), app_example(true)),
    );
    let wrong = wrong_field("sandbox", "expected true or false, got \"yes\"");
    said(operation.with_parameters(vec![app_in_path()]).with_body(fields), vec![wrong, no_app()])
}

pub(super) fn set_limits() -> Said {
    let schema = record(vec![("app_id", pattern(AppId::PATTERN)), ("limits", limits())]);
    let example = object! { "app_id": APP_ID, "limits": limits_example(Json::from(5)) };
    let limit = |name, of: &str| {
        Field::optional(name, integer(0, i32::MAX.into()), format!("{of} a second; 0 is no limit."))
    };
    let fields = vec![
        limit("exchanges_per_second", "Exchanges"),
        limit("reports_per_second", "Order reports"),
        limit("uploads_per_second", "Image uploads").example(5),
        limit("tokens_per_second", "Token requests"),
    ];
    let operation = operation(
        "Set an app's limits",
        "Sets all four; one left out takes the setting of the server again. They hold on every server within five seconds.",
        answers("set", "The limits that hold now.", schema, example),
    );
    let wrong = wrong_field("uploads_per_second", "expected an integer from 0 to 2147483647, got -1");
    said(operation.with_parameters(vec![app_in_path()]).with_body(fields), vec![wrong, no_app()])
}

fn suspension(summary: &'static str, description: &str, suspended: bool) -> Said {
    let schema = record(vec![("app_id", pattern(AppId::PATTERN)), ("suspended", flag())]);
    let example = object! { "app_id": APP_ID, "suspended": suspended };
    let operation = operation(summary, description, answers("done", "How it stands now.", schema, example));
    let reason = Field::optional("reason", text_of(1, REASON_CHARS_MAX), "Why, for the operator's log.");
    said(operation.with_parameters(vec![app_in_path()]).with_body(vec![reason]), vec![no_app()])
}

pub(super) fn suspend() -> Said {
    suspension(
        "Suspend an app",
        "Every request of the app is refused, on every server within five seconds.",
        true,
    )
}

pub(super) fn resume() -> Said {
    suspension("Resume an app", "Lets a suspended app go on.", false)
}

fn rotation(summary: &'static str, description: &str, name: &'static str, value: &str) -> Said {
    let schema = record(vec![("app_id", pattern(AppId::PATTERN)), (name, text())]);
    let example = object! { "app_id": APP_ID }.with(name, value);
    let operation =
        operation(summary, description, answers("made", "The new one. It is shown once.", schema, example));
    said(operation.with_parameters(vec![app_in_path()]), vec![no_app()])
}

pub(super) fn rotate_pay_key() -> Said {
    let description = "Makes a new pay key. The one before it stays valid, the one before that is retired.";
    rotation("Make a new pay key", description, "pay_key", PAY_KEY)
}

pub(super) fn rotate_secret() -> Said {
    let description = "Makes a new app secret; the old one ends at once. Tokens that it got live on until they end or are revoked.";
    rotation("Make a new app secret", description, "app_secret", APP_SECRET)
}

pub(super) fn publish() -> Said {
    let (version, pages) = ("2", vec!["pages/order/detail", "pages/index"]);
    let schema =
        record(vec![("app_id", pattern(AppId::PATTERN)), ("version", text()), ("pages", list_of(text()))]);
    let example = object! { "app_id": APP_ID, "pages": pages.clone(), "version": version };
    let fields = vec![
        Field::required("version", text_of(1, PACKAGE_VERSION_BYTES_MAX), version, "Version of the package."),
        Field::required(
            "pages",
            texts(text_of(1, PAGE_PATH_BYTES_MAX)),
            pages,
            "Its pages, as paths; what stands behind `?` or `#` does not count.",
        ),
    ];
    let operation = operation(
        "Publish a package",
        "The pages of the latest package are those that orders may lead to. A version that is published again is the latest.",
        answers("published", "What is published now.", schema, example),
    );
    let wrong = wrong_field(
        "pages[0]",
        "expected an in-app path of 1 to 1024 bytes, and at most 4096 with its query, got \"\"",
    );
    said(operation.with_parameters(vec![app_in_path()]).with_body(fields), vec![wrong, no_app()])
}

/// Registration of a list of things; known ones are fine.
fn registration(
    (summary, description): (&'static str, &str),
    name: &'static str,
    item: Json,
    value: &str,
    wrong: ProblemExample,
) -> Said {
    let schema = record(vec![("app_id", pattern(AppId::PATTERN)), (name, list_of(text()))]);
    let example = object! { "app_id": APP_ID }.with(name, vec![value]);
    let fields =
        vec![Field::required(name, texts(item), vec![value], "1 to 1,000 of them; known ones are fine.")];
    let operation =
        operation(summary, description, answers("registered", "What is registered.", schema, example));
    said(operation.with_parameters(vec![app_in_path()]).with_body(fields), vec![wrong, no_app()])
}

pub(super) fn add_pois() -> Said {
    let words = ("Register points of interest", "Reports may name these points of interest.");
    let wrong = wrong_field("poi_ids[0]", "expected 1 to 64 bytes without control characters, got \"\"");
    registration(words, "poi_ids", text_of(1, POI_ID_BYTES_MAX), "poi-1", wrong)
}

pub(super) fn add_preorders() -> Said {
    let words = (
        "Register payment pre-orders",
        "With `preorder_check`, only reports of these payments are accepted.",
    );
    let wrong = wrong_field("out_order_nos[0]", "expected 6 to 32 of 0-9A-Za-z_-*, got \"12345\"");
    registration(words, "out_order_nos", pattern(OrderNo::PATTERN), "pay-000001", wrong)
}
