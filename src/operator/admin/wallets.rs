//! Players and their wallets.

use domain::fields::{Expected, parse_integer};
use domain::ids::{CreditRef, OpenId};
use domain::moment;
use serde_json::{Value, json};
use store::{Credit, CreditOutcome, EntryKind, LedgerFilter, PlayerCursor, PlayerFilter};

use super::apps::line;
use super::call::Call;
use super::messages::{balance_too_large, no_app, no_player, ref_used};
use super::problem::Problem;
use crate::state::AppState;

pub(super) async fn add_users(state: &AppState, call: &Call) -> Result<Value, Problem> {
    let app_id = call.app_id()?;
    let open_ids = call.input.only(&["open_ids"])?.required_list("open_ids", OpenId::parse)?;
    let texts: Vec<&str> = open_ids.iter().map(OpenId::as_str).collect();
    let answer = json!({ "app_id": app_id.as_str(), "open_ids": texts });
    let found = state.store.add_users(&call.operator(&answer), &app_id, &open_ids).await?;
    if found { Ok(answer) } else { Err(no_app(&app_id)) }
}

/// The players of an app, by the beginning of their open ids.
pub(super) async fn list(state: &AppState, call: &Call) -> Result<Value, Problem> {
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
    Ok(json!(found))
}

/// A wallet's ledger, newest first.
pub(super) async fn entries(state: &AppState, call: &Call) -> Result<Value, Problem> {
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
    Ok(json!({ "items": found.items, "next": found.next.map(|next| next.to_string()) }))
}

pub(super) async fn get(state: &AppState, call: &Call) -> Result<Value, Problem> {
    call.query(&[])?;
    let (app_id, open_id) = (call.app_id()?, call.segment("open_id", "player", OpenId::parse)?);
    let wallet = state.store.wallet(&app_id, &open_id).await?;
    wallet.map(|wallet| json!(wallet)).ok_or_else(|| no_player(&app_id, &open_id))
}

pub(super) async fn credit(state: &AppState, call: &Call) -> Result<Value, Problem> {
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
        CreditOutcome::Done { balances, replayed } => Ok(json!({
            "ref": reference,
            "free_balance": balances.free(),
            "charge_balance": balances.charge(),
            "replayed": replayed,
        })),
        CreditOutcome::RefConflict => Err(ref_used(&reference)),
        CreditOutcome::OutOfRange => Err(balance_too_large()),
        CreditOutcome::UnknownApp => Err(no_app(&app_id)),
    }
}
