//! Operators credit wallets, once for each ref (contract 8.3). A credit and its line in the operator's
//! log are one transaction.

use domain::exchange::{BalanceOutOfRange, Balances};
use domain::ids::AppId;
use domain::ledger::{CREDIT, LedgerEntry, REF_MARK, micros};
use domain::operator::Operator;
use serde::Serialize;
use serde_json::json;
use sqlx::PgConnection;

use super::entry::{lock_wallet, write_entry};
use super::{Credit, CreditOutcome, make_known};
use crate::app::app_exists;
use crate::operator_log::{Action, LogLine};
use crate::{Refusable, Result, Store};

/// The result of an import, for its line in the operator's log.
#[derive(Debug, Clone, Serialize)]
pub struct ImportSummary {
    /// Name of the file.
    pub file: String,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Number of lines.
    pub rows: u64,
    /// Number of new credits.
    pub credited: u64,
    /// Number of credits that an earlier call had made.
    pub replayed: u64,
    /// Gifted currency of the new credits, as text: a sum may need more than 64 bits.
    pub free: String,
    /// Charged currency of the new credits, as text.
    pub charge: String,
    /// True when the whole file was imported.
    pub complete: bool,
}

impl Store {
    /// Credits a wallet, once for each ref (contract 8.3.3).
    pub async fn credit(&self, operator: &Operator, app_id: &AppId, credit: Credit) -> Result<CreditOutcome> {
        self.credit_as(Action::WalletCredit, operator, app_id, credit).await
    }

    /// Credits a wallet for a line of an import. [`Store::log_import`] records the file.
    pub async fn import_credit(
        &self,
        operator: &Operator,
        app_id: &AppId,
        credit: Credit,
    ) -> Result<CreditOutcome> {
        self.credit_as(Action::WalletImportCredit, operator, app_id, credit).await
    }

    /// Writes the one line that stands for all credits of an import.
    pub async fn log_import(
        &self,
        operator: &Operator,
        app_id: &AppId,
        summary: ImportSummary,
    ) -> Result<()> {
        let context = (operator.clone(), app_id.clone(), summary);
        self.transaction(context, move |connection, (operator, app_id, summary)| {
            let line = LogLine::new(operator, Action::WalletImport, &summary.sha256).of_app(app_id);
            Box::pin(line.after(json!(summary)).record(connection))
        })
        .await
    }

    async fn credit_as(
        &self,
        action: Action,
        operator: &Operator,
        app_id: &AppId,
        credit: Credit,
    ) -> Result<CreditOutcome> {
        if !app_exists(&self.pool, app_id).await? {
            return Ok(CreditOutcome::UnknownApp);
        }
        let context = (operator.clone(), app_id.clone(), credit);
        let outcome = self.transaction(context, move |connection, (operator, app_id, credit)| {
            Box::pin(write_credit(connection, action, operator, app_id, credit))
        });
        match outcome.await {
            Ok(outcome) | Err(Refusable::Refused(outcome)) => Ok(outcome),
            Err(Refusable::Store(error)) => Err(error),
        }
    }
}

/// The error is an outcome after which the transaction is rolled back.
async fn write_credit(
    connection: &mut PgConnection,
    action: Action,
    operator: &Operator,
    app_id: &AppId,
    credit: &Credit,
) -> Result<CreditOutcome, Refusable<CreditOutcome>> {
    if credit.create {
        make_known(connection, app_id, &credit.open_id).await?;
    }
    let Some(wallet) = lock_wallet(connection, app_id, &credit.open_id).await? else {
        return Err(Refusable::Refused(CreditOutcome::UnknownPlayer));
    };
    if let Some(balances) = earlier_credit(connection, app_id, credit).await? {
        return Ok(CreditOutcome::Done { balances, replayed: true });
    }
    let (before, seq) = (wallet.balances, wallet.entry_count + 1);
    let change = before.credit(credit.free, credit.charge).map_err(out_of_range)?;
    let after = change.after;
    let reference = format!("{REF_MARK}{}", credit.reference.as_str());
    let entry = LedgerEntry {
        app_no: wallet.app_no,
        wallet_no: wallet.wallet_no,
        seq,
        kind: CREDIT,
        reference: &reference,
        of_biz_no: None,
        remaining: None,
        item_id: None,
        pay_priority: None,
        free_change: change.free_change,
        charge_change: change.charge_change,
        free_balance: after.free(),
        charge_balance: after.charge(),
        at: micros(wallet.at),
    };
    write_entry(connection, &wallet, &entry, &credit.note).await?;
    let line = LogLine::new(operator, action, credit.open_id.as_str())
        .of_app(app_id)
        .before(json!({ "free_balance": before.free(), "charge_balance": before.charge() }))
        .after(json!({
            "free_balance": after.free(), "charge_balance": after.charge(), "ref": credit.reference,
        }))
        .note(&credit.note)
        .answer(&json!({
            "free_balance": after.free(), "charge_balance": after.charge(), "replayed": false,
        }));
    line.record(connection).await?;
    Ok(CreditOutcome::Done { balances: after, replayed: false })
}

/// The balances right after the credit that an earlier call made.
async fn earlier_credit(
    connection: &mut PgConnection,
    app_id: &AppId,
    credit: &Credit,
) -> Result<Option<Balances>, Refusable<CreditOutcome>> {
    let earlier = sqlx::query!(
        r#"SELECT open_id AS "open_id!", free_change AS "free_change!", charge_change AS "charge_change!",
                free_balance AS "free_balance!", charge_balance AS "charge_balance!"
         FROM ledger WHERE app_no = (SELECT app_no FROM apps WHERE app_id = $1) AND entry_reference = $2"#,
        app_id.as_str(),
        format!("{REF_MARK}{}", credit.reference.as_str())
    );
    let Some(row) = earlier.fetch_optional(connection).await? else { return Ok(None) };
    let same = row.open_id == credit.open_id.as_str()
        && (row.free_change, row.charge_change) == (credit.free, credit.charge);
    if !same {
        return Err(Refusable::Refused(CreditOutcome::RefConflict));
    }
    Balances::new(row.free_balance, row.charge_balance).map(Some).map_err(out_of_range)
}

fn out_of_range(BalanceOutOfRange: BalanceOutOfRange) -> Refusable<CreditOutcome> {
    Refusable::Refused(CreditOutcome::OutOfRange)
}
