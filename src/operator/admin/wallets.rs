//! Players and their wallets.

use domain::app_command::KnownPlayers;
use domain::fields::{Expected, parse_integer};
use domain::ids::{CreditRef, OpenId};
use domain::moment;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use store::{Credit, CreditOutcome, EntryKind, LedgerFilter, LedgerRow, PlayerCursor, PlayerFilter, Wallet};

use super::apps::commands;
use super::call::Call;
use super::describe::{self, Described, MOMENT, Page, app_in_path, describe, problem, wrong_field};
use super::messages::{balance_too_large, no_app, no_player, ref_used};
use super::problem::Problem;
use crate::openapi::{APP_ID, Example, Field, OPEN_ID};
use crate::state::AppState;

/// Longest note of a credit, in bytes.
pub const TEXT_BYTES_MAX: usize = 512;

commands! {
    add_users: AddUsers -> KnownPlayers,
}

/// A text for people, in one line.
fn line(text: &str) -> Result<String, Expected> {
    if text.len() <= TEXT_BYTES_MAX && !text.contains(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err(Expected::new("at most 512 bytes without control characters"))
    }
}

/// The players of an app, by the beginning of their open ids.
pub(super) async fn list(state: &AppState, call: &Call) -> Result<Page<Wallet>, Problem> {
    let app_id = call.app_id()?;
    let query = call.query(&["open_id", "limit", "after"])?;
    let filter =
        PlayerFilter { app_id: Some(app_id.clone()), open_id: query.optional("open_id", OpenId::parse)? };
    let after = query.optional("after", |text| {
        text.parse::<PlayerCursor>()
            .map_err(|_| Expected::new("the place of a player, as an earlier page gave it"))
    })?;
    let found = state.store.find_players(&filter, after.as_ref(), call.limit()?).await?;
    if found.items.is_empty() && state.store.find_app(&app_id).await?.is_none() {
        return Err(no_app(&app_id));
    }
    Ok(Page { items: found.items, next: found.next.map(|next| next.to_string()) })
}

/// A wallet's ledger, newest first.
pub(super) async fn entries(state: &AppState, call: &Call) -> Result<Page<LedgerRow>, Problem> {
    let (app_id, open_id) = (call.app_id()?, call.segment("open_id", "player", OpenId::parse)?);
    let query = call.query(&["kind", "since", "until", "reference", "limit", "after"])?;
    let filter = LedgerFilter {
        kind: query.optional("kind", EntryKind::parse)?,
        since: query.optional("since", moment::parse)?,
        until: query.optional("until", moment::parse)?,
        reference: query.optional("reference", CreditRef::parse)?.map(|reference| reference.to_string()),
    };
    let after = query.optional("after", |text| parse_integer(text, 1, i64::MAX, "the place of an entry"))?;
    let found = state.store.ledger(&app_id, &open_id, &filter, after, call.limit()?).await?;
    if found.items.is_empty() && !state.store.is_known(&app_id, &open_id).await? {
        return Err(no_player(&app_id, &open_id));
    }
    Ok(Page { items: found.items, next: found.next.map(|next| next.to_string()) })
}

pub(super) async fn get(state: &AppState, call: &Call) -> Result<Wallet, Problem> {
    call.query(&[])?;
    let (app_id, open_id) = (call.app_id()?, call.segment("open_id", "player", OpenId::parse)?);
    let wallet = state.store.wallet(&app_id, &open_id).await?;
    wallet.ok_or_else(|| no_player(&app_id, &open_id))
}

pub(super) async fn credit(state: &AppState, call: &Call) -> Result<Credited, Problem> {
    let (app_id, open_id) = (call.app_id()?, call.segment("open_id", "player", OpenId::parse)?);
    let input = call.input.only(&["free", "charge", "ref", "note"])?;
    let credit = Credit {
        open_id,
        free: input.integer("free", 0, i64::MAX)?.unwrap_or_default(),
        charge: input.integer("charge", 0, i64::MAX)?.unwrap_or_default(),
        reference: input.required("ref", CreditRef::parse)?,
        note: input.optional("note", line)?.unwrap_or_default(),
    };
    let reference = credit.reference.to_string();
    let operator = call.operator(&json!({ "ref": reference }));
    match state.store.credit(&operator, &app_id, credit).await? {
        CreditOutcome::Done { balances, replayed } => Ok(Credited {
            reference,
            free_balance: balances.free(),
            charge_balance: balances.charge(),
            replayed,
        }),
        CreditOutcome::RefConflict => Err(ref_used(&reference)),
        CreditOutcome::OutOfRange => Err(balance_too_large()),
        CreditOutcome::UnknownApp => Err(no_app(&app_id)),
    }
}

/// A credit that was made.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Credit")]
pub(super) struct Credited {
    #[serde(rename = "ref")]
    reference: String,
    /// Gifted currency right after the credit.
    free_balance: i64,
    /// Charged currency right after it.
    charge_balance: i64,
    /// Whether an earlier request made it.
    replayed: bool,
}

fn player_in_path() -> [Field; 2] {
    [app_in_path(), Field::required::<OpenId>("open_id", OPEN_ID, "The player.")]
}

fn unknown_player() -> Example<Problem> {
    let open_id = OpenId::parse(OPEN_ID).expect("the player of the examples has an id");
    problem("no_player", "The app knows no such player.", no_player(&describe::app_id(), &open_id))
}

pub(super) fn describe_add_users() -> Described<KnownPlayers> {
    let ids = ["player-2"];
    describe(
        "Make players known",
        "Each gets an empty wallet. Only known players can pay and have orders.",
        ("known", "Who is known now."),
        json!({ "app_id": APP_ID, "open_ids": ids }),
    )
    .path([app_in_path()])
    .body([describe::list::<OpenId>("open_ids", &ids, "1 to 1,000 of them; known ones are fine.")])
    .refuses([wrong_field("open_ids[0]", "expected 1 to 64 of 0-9A-Za-z_-, got \"o.1\""), describe::no_app()])
}

pub(super) fn describe_list() -> Described<Page<Wallet>> {
    let wallet = wallet_example();
    describe(
        "List players",
        "The players of an app with both purses, by their open ids.",
        ("listed", "A page of wallets."),
        json!({ "items": [wallet], "next": null }),
    )
    .path([app_in_path()])
    .query([Field::optional::<OpenId>("open_id", "An open id, or the beginning of it.").example("player")])
    .paged()
    .refuses([wrong_field("open_id", "expected 1 to 64 of 0-9A-Za-z_-, got \"o.1\""), describe::no_app()])
}

fn wallet_example() -> Wallet {
    let (app_id, open_id) = (APP_ID.to_owned(), OPEN_ID.to_owned());
    Wallet { app_id, open_id, free_balance: 40, charge_balance: 100, entries: 1 }
}

pub(super) fn describe_entries() -> Described<Page<LedgerRow>> {
    let entry = json!({
        "seq": 1, "kind": "credit", "biz_no": null, "ref": "start-player-1", "free_change": 40, "charge_change": 100,
        "free_balance": 40, "charge_balance": 100, "at": MOMENT, "text": "",
    });
    describe(
        "List ledger entries",
        "What went into a wallet and out of it, newest first, each with both balances after it. `text` is what was bought, or \
         the note of the credit. A page looks through 100,000 entries at most: it may be empty and have a `next`.",
        ("listed", "A page of entries."),
        json!({ "items": [entry], "next": null }),
    )
    .path(player_in_path())
    .query([
        Field::optional::<EntryKind>("kind", "Of this kind alone.").example("credit"),
        describe::moment("since", "At or after this moment."),
        describe::moment("until", "Before this moment."),
        Field::optional::<CreditRef>("reference", "A `biz_no` or a `ref`: the entries of this number alone."),
    ])
    .paged()
    .refuses([wrong_field("kind", "expected credit or exchange, got \"gift\""), unknown_player()])
}

pub(super) fn describe_get() -> Described<Wallet> {
    describe(
        "Show a wallet",
        "Both purses of a player as they are: gifted (`free_balance`) and charged currency, and the number of ledger entries.",
        ("shown", "The wallet."),
        json!(wallet_example()),
    )
    .path(player_in_path())
    .refuses([unknown_player()])
}

pub(super) fn describe_credit() -> Described<Credited> {
    let amount = |name, description: &str| Field::optional::<i64>(name, description).demand("minimum", 0);
    describe(
        "Credit a wallet",
        "Adds to both purses and makes the wallet where there is none. The same `ref` again with the same amounts does nothing \
         and answers `replayed: true`, under any idempotency key and after any time; with other amounts it is 409. A credit \
         cannot be taken back.",
        ("credited", "Both purses right after the credit."),
        json!({ "ref": "order-4711", "free_balance": 90, "charge_balance": 600, "replayed": false }),
    )
    .path(player_in_path())
    .body([
        amount("free", "Gifted currency to add; 0 without it.").example(50),
        amount("charge", "Charged currency to add; 0 without it.").example(500),
        Field::required::<CreditRef>(
            "ref",
            "order-4711",
            "Your reference, unique in the app: the same ref is the same credit for ever.",
        ),
        Field::optional::<String>("note", "Note, for people.")
            .demand("maxLength", TEXT_BYTES_MAX)
            .example("Starter bundle"),
    ])
    .refuses([
        wrong_field("free", "expected an integer from 0 to 9223372036854775807, got -5"),
        describe::no_app(),
        problem("ref_used", "The ref stands for another credit.", ref_used("order-4711")),
        problem("balance_too_large", "A purse cannot hold that much.", balance_too_large()),
    ])
}
