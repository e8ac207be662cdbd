//! Images and their blocks as the document tells them.

use domain::ids::{AppId, ImgId, REASON_CHARS_MAX};

use super::apps::MOMENT;
use super::problems::{ProblemExample, example, wrong_field};
use super::{Said, answers, flag, moment, operation, page_of, paging, record, text, whole_number};
use crate::openapi::json::{Json, object};
use crate::openapi::operation::{APP_ID, Field, IMG_ID, Parameter, Place, pattern, text as text_of};
use crate::operator::admin::messages;

/// SHA-256 of the contents of the picture of all examples.
const PICTURE: &str = "0f6dd32d6ad2a4b0c6f0c6b7d1f0a8f6f0d0c2d3f1b3ab5a7c4ee8f1d2c3b4a5";

fn image_in_path() -> Vec<Parameter> {
    vec![Field::required("img_id", pattern(ImgId::PATTERN), IMG_ID, "The image.").at(Place::Path)]
}

fn img_id() -> ImgId {
    ImgId::parse(IMG_ID).expect("the image of the examples has an id")
}

fn no_image() -> ProblemExample {
    example("no_image", "There is no such image.", messages::no_image(&img_id()))
}

fn hash() -> Json {
    pattern("^[0-9a-f]{64}$")
}

fn image() -> Vec<(&'static str, Json)> {
    vec![
        ("img_id", pattern(ImgId::PATTERN)),
        ("app_id", pattern(AppId::PATTERN)),
        ("format", object! { "type": "string", "enum": vec!["png", "jpeg"] }),
        ("side", whole_number()),
        ("bytes", whole_number()),
        ("picture", hash()),
        ("uploaded_at", moment()),
        ("blocked", flag()),
    ]
}

fn image_example() -> Json {
    object! {
        "app_id": APP_ID,
        "blocked": false,
        "bytes": 2310,
        "format": "png",
        "img_id": IMG_ID,
        "picture": PICTURE,
        "side": 128,
        "uploaded_at": MOMENT,
    }
}

pub(super) fn list() -> Said {
    let picture = "An image's id, or the SHA-256 of a picture as it was sent or is kept.";
    let mut parameters = vec![
        Field::optional("app_id", pattern(AppId::PATTERN), "Of this app alone.")
            .example(APP_ID)
            .at(Place::Query),
        Field::optional("picture", pattern("^([0-9a-f]{48}|[0-9A-Fa-f]{64})$"), picture).at(Place::Query),
        Field::optional("blocked", flag(), "Blocked ones alone, or the others.")
            .example(false)
            .at(Place::Query),
        Field::optional("uploaded_since", moment(), "Uploaded at or after this moment.").at(Place::Query),
        Field::optional("uploaded_until", moment(), "Uploaded before this moment.").at(Place::Query),
    ];
    parameters.extend(paging());
    let example = object! { "items": vec![image_example()], "next": Json::Null };
    let operation = operation(
        "List images",
        "Uploaded images of all apps, newest first.",
        answers("listed", "A page of images.", page_of(record(image())), example),
    );
    let wrong = wrong_field("blocked", "expected true or false, got \"yes\"");
    Said { operation: operation.with_parameters(parameters), problems: vec![wrong] }
}

pub(super) fn get() -> Said {
    let block = record(vec![
        ("picture", hash()),
        ("reason", text()),
        ("images", whole_number()),
        ("blocked_at", moment()),
    ]);
    let mut members = image();
    members.push(("blocked_by", object! { "anyOf": vec![block, object! { "type": "null" }] }));
    let schema = record(members);
    let example = image_example().with("blocked_by", Json::Null);
    let operation = operation(
        "Show an image",
        "An uploaded image. `picture` is the SHA-256 of what is kept of it: the same for every app that has uploaded it.",
        answers("shown", "The image.", schema, example),
    );
    Said { operation: operation.with_parameters(image_in_path()), problems: vec![no_image()] }
}

pub(super) fn block() -> Said {
    let schema = record(vec![
        ("picture", hash()),
        ("reason", text()),
        ("images", whole_number()),
        ("finds_near_copies", flag()),
    ]);
    let example = object! { "finds_near_copies": true, "images": 1, "picture": PICTURE, "reason": "gore" };
    let fields = vec![Field::required("reason", text_of(1, REASON_CHARS_MAX), "gore", "Why, for people.")];
    let operation = operation(
        "Block a picture",
        "For every app: the picture of this image, and whatever looks nearly the same, is not accepted, not served, and no order \
         may use it.",
        answers("blocked", "How many images fall under the block.", schema, example),
    );
    let wrong = wrong_field("reason", "is missing");
    let operation = operation.with_parameters(image_in_path()).with_body(fields);
    Said { operation, problems: vec![wrong, no_image()] }
}

pub(super) fn unblock() -> Said {
    let example_of = object! { "picture": PICTURE };
    let operation = operation(
        "End a block",
        "Ends the block that the image falls under. Images that another block matches stay blocked.",
        answers("unblocked", "Whose block has ended.", record(vec![("picture", hash())]), example_of),
    );
    let free = example("no_block", "The image is not blocked.", messages::no_block(&img_id()));
    Said { operation: operation.with_parameters(image_in_path()), problems: vec![no_image(), free] }
}
