//! Players and their wallets as the document tells them.

use domain::ids::{AppId, CREDIT_REF_BYTES_MAX, OpenId};

use super::apps::{MOMENT, app_in_path, texts};
use super::problems::{ProblemExample, example, no_app, wrong_field};
use super::{
    Said, answers, flag, list_of, moment, operation, page_of, paging, record, text, text_or_null,
    whole_number,
};
use crate::openapi::json::{Json, object};
use crate::openapi::operation::{
    APP_ID, Field, OPEN_ID, Parameter, Place, integer, pattern, text as text_of,
};
use crate::operator::admin::{TEXT_BYTES_MAX, messages};

fn player_in_path() -> Vec<Parameter> {
    let player = Field::required("open_id", pattern(OpenId::PATTERN), OPEN_ID, "The player.");
    vec![app_in_path(), player.at(Place::Path)]
}

pub(super) fn add_users() -> Said {
    let schema = record(vec![("app_id", pattern(AppId::PATTERN)), ("open_ids", list_of(text()))]);
    let example = object! { "app_id": APP_ID, "open_ids": vec!["player-2"] };
    let ids = texts(pattern(OpenId::PATTERN));
    let fields =
        vec![Field::required("open_ids", ids, vec!["player-2"], "1 to 1,000 of them; known ones are fine.")];
    let operation = operation(
        "Make players known",
        "Each gets an empty wallet. Only known players can pay and have orders.",
        answers("known", "Who is known now.", schema, example),
    );
    let wrong = wrong_field("open_ids[0]", "expected 1 to 64 of 0-9A-Za-z_-, got \"o.1\"");
    let operation = operation.with_parameters(vec![app_in_path()]).with_body(fields);
    Said { operation, problems: vec![wrong, no_app()] }
}

fn wallet() -> Json {
    record(vec![
        ("app_id", pattern(AppId::PATTERN)),
        ("open_id", pattern(OpenId::PATTERN)),
        ("free_balance", whole_number()),
        ("charge_balance", whole_number()),
        ("entries", whole_number()),
    ])
}

fn wallet_example() -> Json {
    object! { "app_id": APP_ID, "charge_balance": 100, "entries": 1, "free_balance": 40, "open_id": OPEN_ID }
}

pub(super) fn list() -> Said {
    let beginning =
        Field::optional("open_id", pattern(OpenId::PATTERN), "An open id, or the beginning of it.");
    let mut parameters = vec![app_in_path(), beginning.example("player").at(Place::Query)];
    parameters.extend(paging());
    let example = object! { "items": vec![wallet_example()], "next": Json::Null };
    let operation = operation(
        "List players",
        "The players of an app with both purses, by their open ids.",
        answers("listed", "A page of wallets.", page_of(wallet()), example),
    );
    let wrong = wrong_field("open_id", "expected 1 to 64 of 0-9A-Za-z_-, got \"o.1\"");
    Said { operation: operation.with_parameters(parameters), problems: vec![wrong, no_app()] }
}

fn no_player() -> ProblemExample {
    let ids = (AppId::parse(APP_ID), OpenId::parse(OPEN_ID));
    let (Ok(app_id), Ok(open_id)) = ids else { panic!("the player of the examples has an id") };
    example("no_player", "The app knows no such player.", messages::no_player(&app_id, &open_id))
}

pub(super) fn entries() -> Said {
    let entry = record(vec![
        ("seq", whole_number()),
        ("kind", kind()),
        ("biz_no", text_or_null()),
        ("ref", text_or_null()),
        ("free_change", whole_number()),
        ("charge_change", whole_number()),
        ("free_balance", whole_number()),
        ("charge_balance", whole_number()),
        ("at", moment()),
        ("text", text()),
    ]);
    let item = object! {
        "at": MOMENT,
        "biz_no": Json::Null,
        "charge_balance": 100,
        "charge_change": 100,
        "free_balance": 40,
        "free_change": 40,
        "kind": "credit",
        "ref": "start-player-1",
        "seq": 1,
        "text": "",
    };
    let reference = Field::optional(
        "reference",
        text_of(1, CREDIT_REF_BYTES_MAX),
        "A `biz_no` or a `ref`: the entries of this number alone.",
    );
    let mut parameters = player_in_path();
    parameters
        .push(Field::optional("kind", kind(), "Of this kind alone.").example("credit").at(Place::Query));
    parameters.push(Field::optional("since", moment(), "At or after this moment.").at(Place::Query));
    parameters.push(Field::optional("until", moment(), "Before this moment.").at(Place::Query));
    parameters.push(reference.at(Place::Query));
    parameters.extend(paging());
    let operation = operation(
        "List ledger entries",
        "What went into a wallet and out of it, newest first, each with both balances after it; `text` is what was bought, or the \
         note of the credit. A page looks through 100,000 entries at most: it may be empty and have a `next`.",
        answers(
            "listed",
            "A page of entries.",
            page_of(entry),
            object! { "items": vec![item], "next": Json::Null },
        ),
    );
    let wrong = wrong_field("kind", "expected credit or exchange, got \"gift\"");
    Said { operation: operation.with_parameters(parameters), problems: vec![wrong, no_player()] }
}

fn kind() -> Json {
    object! { "type": "string", "enum": vec!["credit", "exchange"] }
}

pub(super) fn get() -> Said {
    let operation = operation(
        "Show a wallet",
        "Both purses of a player as they stand: gifted (`free_balance`) and charged currency, and the number of ledger entries.",
        answers("shown", "The wallet.", wallet(), wallet_example()),
    );
    Said { operation: operation.with_parameters(player_in_path()), problems: vec![no_player()] }
}

pub(super) fn credit() -> Said {
    let schema = record(vec![
        ("ref", text()),
        ("free_balance", whole_number()),
        ("charge_balance", whole_number()),
        ("replayed", flag()),
    ]);
    let example_of =
        object! { "charge_balance": 600, "free_balance": 90, "ref": "order-4711", "replayed": false };
    let fields = vec![
        Field::optional("free", integer(0, i64::MAX), "Gifted currency to add; 0 unless it is said.")
            .example(50),
        Field::optional("charge", integer(0, i64::MAX), "Charged currency to add; likewise.").example(500),
        Field::required(
            "ref",
            text_of(1, CREDIT_REF_BYTES_MAX),
            "order-4711",
            "Your reference, unique in the app: the same ref is the same credit for ever.",
        ),
        Field::optional("note", text_of(0, TEXT_BYTES_MAX), "Note, for people.").example("Starter bundle"),
    ];
    let operation = operation(
        "Credit a wallet",
        "Adds to both purses and makes the wallet where there is none. The same `ref` again with the same amounts does nothing \
         and answers `replayed: true`, under any idempotency key and after any time; with other amounts it is 409. A credit \
         cannot be taken back.",
        answers("credited", "Both purses right after the credit.", schema, example_of),
    );
    let wrong = wrong_field("free", "expected an integer from 0 to 9223372036854775807, got -5");
    let used = example("ref_used", "The ref stands for another credit.", messages::ref_used("order-4711"));
    let too_large = example("balance_too_large", "No purse holds that much.", messages::balance_too_large());
    let operation = operation.with_parameters(player_in_path()).with_body(fields);
    Said { operation, problems: vec![wrong, no_app(), used, too_large] }
}
