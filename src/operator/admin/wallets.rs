//! Players and their wallets.

use domain::fields::{Expected, FieldError, LINE_BYTES_MAX, parse_integer, parse_line};
use domain::ids::{CreditRef, OpenId, Reason};
use domain::operation::app::KnownPlayers;
use domain::operation::freeze::{FreezeCommand, FreezeReport};
use domain::operation::player::ErasedPlayer;
use domain::operation::wallet::{
    ChangedPurses, Credit, Debit, WalletCommand, WalletReport, check_registered,
};
use domain::wallet::check_credit;
use serde_json::{Value, json};
use store::{EntryKind, LedgerFilter, LedgerRow, PlayerCursor, PlayerFilter, Wallet, WalletDetail};

use super::super::player_export::{export_file, export_name};
use super::apps::command;
use super::call::Call;
use super::describe::{ListBody, MOMENT, after, answers, file, ids, in_order, lists, moment};
use super::messages::{example, no_app, no_player};
use super::problem::Problem;
use super::routes::{AnsweredFile, routes};
use crate::openapi::{APP_ID, Content, Input, OPEN_ID};
use crate::state::AppState;

routes! { "Players":
    /// Register players
    ///
    /// Each gets an empty wallet. Only known players can pay and have orders.
    POST "/apps/{app_id}/users", "addUsers", Once(Administer): command[AddUsers] -> KnownPlayers =>
        answers("known", "Who is registered now.", json!({ "app_id": APP_ID, "open_ids": ["player-2"] }))
            .members([ids::<OpenId>("open_ids", &["player-2"], "1 to 1,000 of them; known ones are fine.")])
            .wrong("open_ids[0]", "expected 1 to 64 of 0-9A-Za-z_-, got \"o.1\"");
    /// Erase a player
    ///
    /// For a request about personal data (13.7): a pseudonym takes the place of the `open_id`, for ever. The money stays.
    /// `left` names where the database still has the `open_id`, and why.
    DELETE "/apps/{app_id}/players/{player}", "erasePlayer", Replace(Administer): erase -> ErasedPlayer =>
        answers("erased", "What was done.", json!({
            "app_id": APP_ID, "pseudonym": "erased-5f0c1a2b3c4d5e6f7a8b",
            "rows": {
                "archived_entries": 0, "change_requests": 0, "ledger_entries": 1, "login_codes": 0, "operator_log": 1,
                "orders": 0, "refusals": 0, "topup_payments": 0, "wallet": 1,
            },
            "archive_files": [],
            "left": [
                { "column": "ledger_entries.reference", "rows": 1, "why": "a number that a game or an operator chose" },
                { "column": "operator_log.after", "rows": 1, "why": "in a number or a longer name, or what an operator set" },
            ],
        }));
    /// Export a player
    ///
    /// For a request about personal data (13.6): a zip of all that is recorded of a player, each kind of rows as JSON and
    /// as CSV. The operator's log has the export.
    GET "/apps/{app_id}/players/{player}/export", "exportPlayer", Read(Administer): export -> AnsweredFile =>
        file("made", "The zip.", Content::Zip, &export_name(APP_ID, "player-1"));
    /// List players
    ///
    /// The players of an app with both purses, by their open ids.
    GET "/apps/{app_id}/wallets", "listWallets", Read(Read): list -> ListBody<Wallet> =>
        lists("A page of wallets.", &json!(wallet_example()))
            .query(players_and_place)
            .wrong("open_id", "expected 1 to 64 of 0-9A-Za-z_-, got \"o.1\"");
    /// Show a wallet
    ///
    /// Both purses of a player as they are: gifted (`free_balance`) and charged currency, and the number of
    /// ledger entries. `debt` is what the wallet owes for refunds. `refusals` are the properly signed exchanges, presents and cancels of the player that were refused
    /// in the last 30 days, once for each number and code.
    GET "/apps/{app_id}/wallets/{open_id}", "getWallet", Read(Read): get -> WalletDetail =>
        answers("shown", "The wallet.", json!(WalletDetail { wallet: wallet_example(), debt: None, refusals: Vec::new() }));
    /// List ledger entries
    ///
    /// What went into a wallet and out of it, newest first, each with both balances after it. `text` is
    /// what was bought, or the note of the credit. A page looks through 100,000 entries at most: it may be
    /// empty and have a `next`.
    GET "/apps/{app_id}/wallets/{open_id}/entries", "listEntries", Read(Read): entries -> ListBody<LedgerRow> =>
        lists("A page of entries.", &json!({
            "seq": 1, "kind": "credit", "biz_no": null, "ref": "start-player-1", "free_change": 40, "charge_change": 100,
            "free_balance": 40, "charge_balance": 100, "at": MOMENT, "text": "", "pay_biz_no": null,
        }))
        .query(entries_and_place)
        .wrong("kind", "expected credit, debit, exchange, present, cancel, topup, refund or settlement, got \"gift\"");
    /// Credit a wallet
    ///
    /// Adds to both purses of a known player; with `create` it registers the player. The same `ref` again with the same
    /// amounts does nothing and answers `replayed: true`, under any idempotency key and after any time.
    /// With other amounts it is 409. A debit takes a credit back.
    POST "/apps/{app_id}/wallets/{open_id}/credits", "creditWallet", Once(Money): credit -> ChangedPurses =>
        answers("credited", "Both purses right after the credit.", json!({
            "ref": "order-4711", "free_balance": 90, "charge_balance": 600, "replayed": false,
        }))
        .read(|body| credit_to(&OpenId::parse(OPEN_ID).expect("it is an id"), body))
        .wrong("free", "expected an integer from 0 to 9223372036854775807, got -5")
        .refuses([example::ref_used(), example::balance_too_large(), example::needs_second()]);
    /// Debit a wallet
    ///
    /// Takes from both purses, exactly and never below zero. Credits, debits and cancels share the refs of an app. The same
    /// `ref` again with the same amounts does nothing and answers `replayed: true`; with other amounts it is 409.
    POST "/apps/{app_id}/wallets/{open_id}/debits", "debitWallet", Once(Money): debit -> ChangedPurses =>
        answers("debited", "Both purses right after the debit.", json!({
            "ref": "order-4711", "free_balance": 10, "charge_balance": 0, "replayed": false,
        }))
        .read(|body| debit_from(&OpenId::parse(OPEN_ID).expect("it is an id"), body))
        .wrong("free", "expected an integer from 0 to 9223372036854775807, got -5")
        .refuses([example::ref_used(), example::not_covered(), example::needs_second()]);
    /// Freeze a wallet
    ///
    /// Stops one player: within a second every server refuses the player's exchanges, presents and cancels with 10000609.
    /// Queries, balances and what operators do go on. A second freeze replaces `reason` and `until`.
    POST "/apps/{app_id}/wallets/{open_id}/freezes", "freezeWallet", Once(Administer): freeze -> FreezeReport =>
        answers("frozen", "The wallet is frozen.", freeze_example(true))
            .read(freeze_command)
            .wrong("reason", "is missing");
    /// Thaw a wallet
    ///
    /// Ends a freeze. It has no body. A wallet that is not frozen stays as it is.
    DELETE "/apps/{app_id}/wallets/{open_id}/freezes", "thawWallet", Replace(Administer): thaw -> FreezeReport =>
        answers("thawed", "The wallet is not frozen.", freeze_example(false)).members([]);
}

/// The players of an app, by the beginning of their open ids.
async fn erase(state: &AppState, call: &Call) -> Result<ErasedPlayer, Problem> {
    call.fields.only(&[])?;
    let (app_id, open_id) = (call.app_id()?, call.segment("player", "player", OpenId::parse)?);
    Ok(state.store.erase_player(&call.operator(), &app_id, &open_id).await?)
}

async fn export(state: &AppState, call: &Call) -> Result<AnsweredFile, Problem> {
    call.fields.only(&[])?;
    let (app_id, open_id) = (call.app_id()?, call.segment("player", "player", OpenId::parse)?);
    Ok(AnsweredFile(export_file(&state.store, call.operator(), app_id, open_id).await?))
}

async fn list(state: &AppState, call: &Call) -> Result<ListBody<Wallet>, Problem> {
    let app_id = call.app_id()?;
    let (open_id, after) = call.read(players_and_place)?;
    let filter = PlayerFilter { app_id: Some(app_id.clone()), open_id, ..PlayerFilter::default() };
    let found = state.store.find_players(&filter, after.as_ref(), call.limit()?).await?;
    if found.items.is_empty() && state.store.find_app(&app_id).await?.is_none() {
        return Err(no_app(&app_id));
    }
    Ok(ListBody { items: found.items, next: found.next.map(|next| next.to_string()) })
}

fn players_and_place(query: &mut Input<'_>) -> Result<(Option<OpenId>, Option<PlayerCursor>), FieldError> {
    let open_id = query.field("open_id", "An open id, or the beginning of it.").example("player");
    let open_id = open_id.optional(OpenId::parse)?;
    let expected = Expected::new("the place of a player, as an earlier page gave it");
    Ok((open_id, after(query, |text| text.parse().map_err(|_| expected))?))
}

/// A wallet's ledger, newest first.
async fn entries(state: &AppState, call: &Call) -> Result<ListBody<LedgerRow>, Problem> {
    let (app_id, open_id) = (call.app_id()?, call.segment("open_id", "player", OpenId::parse)?);
    let (filter, after) = call.read(entries_and_place)?;
    let found = state.store.ledger(&app_id, &open_id, &filter, after, call.limit()?).await?;
    if found.items.is_empty() && !state.store.is_known(&app_id, &open_id).await? {
        return Err(no_player(&app_id, &open_id));
    }
    Ok(ListBody { items: found.items, next: found.next.map(|next| next.to_string()) })
}

fn entries_and_place(query: &mut Input<'_>) -> Result<(LedgerFilter, Option<i64>), FieldError> {
    let words = "A `biz_no` or a `ref`: the entries of this number alone.";
    let reference = |text: &str| CreditRef::stored(text).map(|reference| reference.to_string());
    let filter = LedgerFilter {
        kind: query.field("kind", "Of this kind alone.").example("credit").optional(EntryKind::parse)?,
        since: moment(query.field("since", "At or after this moment."))?,
        until: moment(query.field("until", "Before this moment."))?,
        reference: query.field("reference", words).optional_as::<CreditRef, _>(reference)?,
    };
    in_order(filter.since, filter.until)?;
    let place = |text: &str| parse_integer(text, 1, i64::MAX, "the place of an entry");
    Ok((filter, after(query, place)?))
}

async fn get(state: &AppState, call: &Call) -> Result<WalletDetail, Problem> {
    call.fields.only(&[])?;
    let (app_id, open_id) = (call.app_id()?, call.segment("open_id", "player", OpenId::parse)?);
    let wallet = state.store.wallet(&app_id, &open_id).await?;
    let wallet = wallet.ok_or_else(|| no_player(&app_id, &open_id))?;
    let refusals = state.store.refusals_of_player(&app_id, &open_id).await?;
    let debt = state.store.debt_of_player(&app_id, &open_id).await?.any();
    Ok(WalletDetail { wallet, debt, refusals })
}

async fn credit(state: &AppState, call: &Call) -> Result<ChangedPurses, Problem> {
    let open_id = call.segment("open_id", "player", OpenId::parse)?;
    let credit = call.read(|body| credit_to(&open_id, body))?;
    check_coins(credit.free, credit.charge)?;
    changed(state, call, credit).await
}

async fn debit(state: &AppState, call: &Call) -> Result<ChangedPurses, Problem> {
    let open_id = call.segment("open_id", "player", OpenId::parse)?;
    let debit = call.read(|body| debit_from(&open_id, body))?;
    check_coins(debit.free, debit.charge)?;
    changed(state, call, debit).await
}

fn check_coins(free: i64, charge: i64) -> Result<(), Problem> {
    check_credit(free, charge).map_err(|expected| {
        let wrong = ["free", "charge"];
        let wrong = wrong.map(|name| FieldError::malformed_number(name, expected.0.clone(), "0"));
        Problem::from(wrong.to_vec())
    })
}

async fn changed(
    state: &AppState,
    call: &Call,
    command: impl Into<WalletCommand>,
) -> Result<ChangedPurses, Problem> {
    match state.store.change_wallet(&call.operator(), &call.app_id()?, command).await? {
        WalletReport::Changed(changed) => Ok(changed),
        WalletReport::Returned(_) => Err(Problem::internal("a credit or a debit was a cancel")),
    }
}

async fn freeze(state: &AppState, call: &Call) -> Result<FreezeReport, Problem> {
    set_freeze(state, call, call.read(freeze_command)?).await
}

async fn thaw(state: &AppState, call: &Call) -> Result<FreezeReport, Problem> {
    call.fields.only(&[])?;
    set_freeze(state, call, FreezeCommand::Thaw { reason: None }).await
}

async fn set_freeze(state: &AppState, call: &Call, command: FreezeCommand) -> Result<FreezeReport, Problem> {
    let (app_id, open_id) = (call.app_id()?, call.segment("open_id", "player", OpenId::parse)?);
    Ok(state.store.freeze_wallet(&call.operator(), &app_id, &open_id, command).await?)
}

fn freeze_command(body: &mut Input<'_>) -> Result<FreezeCommand, FieldError> {
    let words = "Why, for the operator's log. The game never sees it.";
    let reason = body.field("reason", words).required("chargeback", Reason::parse)?;
    let until = moment(body.field("until", "When it ends by itself; without it an operator ends it."))?;
    Ok(FreezeCommand::Freeze { reason, until })
}

fn debit_from(open_id: &OpenId, body: &mut Input<'_>) -> Result<Debit, FieldError> {
    let free = body.field("free", "Gifted currency to take; 0 without it.").example(30);
    let free = free.integer(0, i64::MAX)?.unwrap_or_default();
    let charge = body.field("charge", "Charged currency to take; 0 without it.").example(100);
    let charge = charge.integer(0, i64::MAX)?.unwrap_or_default();
    let (reference, note) = ref_and_note(body, "Credited twice")?;
    Ok(Debit { open_id: open_id.clone(), free, charge, reference, note })
}

/// `ref` and `note` of a debit or a cancel.
pub(super) fn ref_and_note(
    body: &mut Input<'_>,
    note: &'static str,
) -> Result<(CreditRef, String), FieldError> {
    let words = "Your reference, unique in the app: the same ref is the same change for ever.";
    let reference = body.field("ref", words).required("order-4711", CreditRef::parse)?;
    let described = body.field("note", "Note, for people.").demand("maxLength", LINE_BYTES_MAX);
    Ok((reference, described.example(note).optional(parse_line)?.unwrap_or_default()))
}

fn credit_to(open_id: &OpenId, body: &mut Input<'_>) -> Result<Credit, FieldError> {
    let free = body.field("free", "Gifted currency to add; 0 without it.").example(50);
    let free = free.integer(0, i64::MAX)?.unwrap_or_default();
    let charge = body.field("charge", "Charged currency to add; 0 without it.").example(500);
    let charge = charge.integer(0, i64::MAX)?.unwrap_or_default();
    let words = "Your reference, unique in the app: the same ref is the same credit for ever.";
    let reference = body.field("ref", words).required("order-4711", CreditRef::parse)?;
    let note = body.field("note", "Note, for people.").demand("maxLength", LINE_BYTES_MAX);
    let note = note.example("Starter bundle").optional(parse_line)?.unwrap_or_default();
    let words = "Whether to register the player if the app does not know them; no without it.";
    let create = body.field("create", words).example(false).flag()?.unwrap_or_default();
    check_registered(open_id, create)?;
    Ok(Credit { open_id: open_id.clone(), free, charge, reference, note, create })
}

fn wallet_example() -> Wallet {
    let (app_id, open_id) = (APP_ID.to_owned(), OPEN_ID.to_owned());
    Wallet { app_id, open_id, free_balance: 40, charge_balance: 100, entries: 1, ..Wallet::default() }
}

fn freeze_example(frozen: bool) -> Value {
    json!({ "app_id": APP_ID, "open_id": OPEN_ID, "frozen": frozen, "until": null })
}
