//! Many credits of one call: one transaction and one line in the operator's log.

use std::collections::HashSet;

use domain::ids::AppId;
use domain::ledger::without_ref_mark;
use domain::moment::rfc3339;
use domain::operation::OperationRefusal;
use domain::operation::wallet::{ChangedPurses, Credit, needs_second_person, refused};
use domain::operator::Operator;
use domain::wallet::{WalletOutcome, WalletRequest};
use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::alone_limit::require_within;
use crate::app_number::number_of;
use crate::engine::Engine;
use crate::error::{OperationError, Result, StoreError};
use crate::operator_log::{ListedCredit, LogLine, OperatorAction};
use crate::store::Store;
use crate::wallet_no::random_wallet_no;
use crate::wallet_writer::{MadeEntry, change, plan_by_keys};

/// The most credits of one call.
pub const CREDITS_MAX: usize = 10_000;
/// Credits of a longer list in one transaction. It locks the wallets of all its players, and on a busy machine its statements
/// stay below `database.statement_timeout`.
pub const CREDITS_AT_ONCE: usize = 2_000;

/// What an operator's log tells of many credits besides their sums.
#[derive(Debug, Clone)]
pub struct CreditsSource {
    /// Object of the action, such as the digest of a file.
    pub subject: String,
    /// More facts, such as the name of the file.
    pub facts: Map<String, Value>,
    /// Note for people.
    pub note: String,
}

/// The outcome of one of many credits.
pub type CreditResult = Result<ChangedPurses, OperationRefusal>;

impl Store {
    /// Credits many wallets of an app, each once for its ref, in their order and in one transaction. A refused credit
    /// leaves the others alone.
    ///
    /// # Errors
    /// There is no such app, or the database is away.
    pub async fn credit_many(
        &self,
        operator: &Operator,
        app_id: &AppId,
        source: CreditsSource,
        credits: Vec<Credit>,
    ) -> Result<Vec<CreditResult>, OperationError> {
        let app_no = number_of(&self.pool, app_id).await?;
        let engine = self.engine.get();
        let context = (operator.clone(), app_id.clone(), source, credits);
        let results = self.transaction(context, move |connection, (operator, app_id, source, credits)| {
            Box::pin(write_credits(connection, engine, operator, (app_id, app_no), source, credits))
        });
        let results = results.await?;
        self.events.notify_one();
        Ok(results)
    }
}

async fn write_credits(
    connection: &mut PgConnection,
    engine: Engine,
    operator: &Operator,
    app: (&AppId, i32),
    source: &CreditsSource,
    credits: &[Credit],
) -> Result<Vec<CreditResult>, OperationError> {
    let made = make_credits(connection, engine, app, credits).await?;
    made.log(connection, operator, app.0, source).await?;
    Ok(made.results)
}

/// Credits that were made, before their line in the operator's log.
pub(super) struct MadeCredits {
    /// The outcome of each, in their order.
    pub(super) results: Vec<CreditResult>,
    listed: Vec<ListedCredit<'static>>,
    free: i128,
    charge: i128,
    at: OffsetDateTime,
}

/// Makes credits. Whoever changes other rows besides does it before [`MadeCredits::log`], which locks the head of the log.
pub(super) async fn make_credits(
    connection: &mut PgConnection,
    engine: Engine,
    (app_id, app_no): (&AppId, i32),
    credits: &[Credit],
) -> Result<MadeCredits, OperationError> {
    plan_by_keys(connection, engine).await?;
    let requests: Vec<_> = credits.iter().map(Credit::request).collect();
    make_known(connection, app_no, &requests, credits).await?;
    let changed = change(connection, engine, app_no, &requests).await?;
    let (mut listed, mut free, mut charge) = (Vec::new(), 0_i128, 0_i128);
    for (request, (outcome, entry)) in requests.iter().zip(&changed.outcomes) {
        if let (WalletOutcome::Done(receipt), Some(MadeEntry { before, .. })) = (outcome, entry) {
            let after = receipt.balances;
            free += i128::from(after.free()) - i128::from(before.free());
            charge += i128::from(after.charge()) - i128::from(before.charge());
            let (player, reference) = (request.open_id.as_str(), without_ref_mark(&request.reference));
            let (player, reference) = (player.to_owned().into(), reference.to_owned().into());
            let purses = (before.free(), before.charge(), after.free(), after.charge());
            listed.push(ListedCredit(player, reference, purses.0, purses.1, purses.2, purses.3));
        }
    }
    let outcomes = changed.outcomes.into_iter().zip(credits);
    let results = outcomes.map(|((outcome, _), credit)| credited(outcome, app_id, credit));
    Ok(MadeCredits { results: results.collect::<Result<_>>()?, listed, free, charge, at: changed.at })
}

impl MadeCredits {
    /// Writes the line of what was credited.
    pub(super) async fn log(
        &self,
        connection: &mut PgConnection,
        operator: &Operator,
        app_id: &AppId,
        source: &CreditsSource,
    ) -> Result<(), OperationError> {
        if self.listed.is_empty() {
            return Ok(());
        }
        let mut sums = source.facts.clone();
        sums.insert("credited".to_owned(), self.listed.len().into());
        sums.insert("free".to_owned(), self.free.to_string().into());
        sums.insert("charge".to_owned(), self.charge.to_string().into());
        sums.insert("at".to_owned(), rfc3339(self.at).into());
        let line = LogLine::new(operator, OperatorAction::WalletCredits, &source.subject).of_app(app_id);
        line.after(json!(sums)).note(&source.note).credits(&self.listed).record(&mut *connection).await?;
        require_within(connection, operator, needs_second_person).await
    }
}

fn credited(outcome: WalletOutcome, app_id: &AppId, credit: &Credit) -> Result<CreditResult> {
    match outcome {
        WalletOutcome::Done(receipt) => Ok(Ok(ChangedPurses::new(&receipt, false))),
        WalletOutcome::Replayed(receipt) => Ok(Ok(ChangedPurses::new(&receipt, true))),
        WalletOutcome::Refused(why, _) => Ok(Err(refused(why, app_id, &credit.open_id, &credit.reference))),
        WalletOutcome::Balance { .. } | WalletOutcome::Number(_) => {
            Err(StoreError::Internal("a credit with the outcome of a read".to_owned()))
        }
    }
}

/// Registers the players whose credits say so, but for refs that were used already: such a credit is a replay or
/// is refused.
async fn make_known(
    connection: &mut PgConnection,
    app_no: i32,
    requests: &[WalletRequest],
    credits: &[Credit],
) -> Result<()> {
    let mut refs = HashSet::new();
    let first_uses = requests.iter().zip(credits).filter(|(request, _)| refs.insert(&request.reference));
    let mut players: Vec<_> = first_uses
        .filter(|(_, credit)| credit.create)
        .map(|(request, _)| (request.open_id.as_str(), request.reference.as_str()))
        .collect();
    if players.is_empty() {
        return Ok(());
    }
    // In one order, so that two such calls never wait for each other.
    players.sort_unstable();
    let numbers: Vec<_> = players.iter().map(|_| random_wallet_no()).collect();
    let (open_ids, references): (Vec<_>, Vec<_>) =
        players.into_iter().map(|(open_id, reference)| (open_id.to_owned(), reference.to_owned())).unzip();
    sqlx::query!(
        "INSERT INTO wallets (app_no, open_id, wallet_no)
         SELECT $1, k.open_id, k.wallet_no
         FROM unnest($2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY AS k (open_id, reference, wallet_no, position)
         -- No anti-join: without statistics its plan reads all numbers of the app for each line.
         WHERE (SELECT 1 FROM numbers x WHERE x.app_no = $1 AND x.reference = k.reference LIMIT 1) IS NULL
         ORDER BY k.position
         ON CONFLICT (app_no, open_id) DO NOTHING",
        app_no,
        &open_ids,
        &references,
        &numbers
    )
    .execute(connection)
    .await?;
    Ok(())
}
