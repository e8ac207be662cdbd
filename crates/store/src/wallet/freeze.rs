//! Operators stop one player and not the app (contract 17). A change, its event and its line in the operator's log are one
//! transaction. The writers read the freeze with the wallet.

use domain::event::{EventType, NO_END, THAWED};
use domain::ids::{AppId, OpenId, Reason, WalletNo};
use domain::ledger::{micros, unix_millis};
use domain::moment::rfc3339;
use domain::operation::freeze::{FreezeCommand, FreezeReport, until_past};
use domain::operation::wallet::unknown_player;
use domain::operator::Operator;
use serde_json::{Value, json};
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::app_number::number_of;
use crate::error::{OperationError, Result};
use crate::event::tell_of_freeze;
use crate::operator_log::{LogLine, OperatorAction, OperatorLogLine};
use crate::store::Store;

/// A wallet, whose row is locked.
struct LockedWallet {
    wallet_no: i64,
    is_frozen: bool,
    /// `None` without an end.
    until: Option<OffsetDateTime>,
    now: OffsetDateTime,
}

impl Store {
    /// Freezes the wallet of a player, or thaws it. An exchange that is decided after the commit obeys.
    ///
    /// # Errors
    /// The app does not know the player, the freeze would end before now, or the database is away.
    pub async fn freeze_wallet(
        &self,
        operator: &Operator,
        app_id: &AppId,
        open_id: &OpenId,
        command: FreezeCommand,
    ) -> Result<FreezeReport, OperationError> {
        let context = (operator.clone(), app_id.clone(), open_id.clone(), command);
        let report = self.transaction(context, |connection, (operator, app_id, open_id, command)| {
            Box::pin(write_freeze(connection, operator, (app_id, open_id), command))
        });
        let report = report.await?;
        self.events.notify_one();
        Ok(report)
    }

    /// The line of the last freeze of a wallet: who froze it, when and why.
    pub async fn freeze_of(&self, app_id: &AppId, open_id: &OpenId) -> Result<Option<OperatorLogLine>> {
        self.newest_line(OperatorAction::WalletFreeze, app_id, open_id).await
    }
}

async fn write_freeze(
    connection: &mut PgConnection,
    operator: &Operator,
    (app_id, open_id): (&AppId, &OpenId),
    command: &FreezeCommand,
) -> Result<FreezeReport, OperationError> {
    let report = FreezeReport::after(command, app_id, open_id);
    let app_no = number_of(&mut *connection, app_id).await?;
    let wallet = lock(connection, app_no, open_id).await?;
    let wallet = wallet.ok_or_else(|| unknown_player(app_id, open_id))?;
    let (until, reason) = match command {
        FreezeCommand::Freeze { until: Some(until), .. } if *until <= wallet.now => {
            return Err(until_past(*until, wallet.now).into());
        }
        // Nothing is to be ended, so nothing is written.
        FreezeCommand::Thaw { .. } if !wallet.is_frozen => return Ok(report),
        FreezeCommand::Freeze { reason, until } => (*until, Some(reason)),
        FreezeCommand::Thaw { reason } => (None, reason.as_ref()),
    };
    let (action, event_type, end) = if report.frozen {
        let end = until.map_or(NO_END, |until| unix_millis(micros(until)));
        (OperatorAction::WalletFreeze, EventType::WalletFrozen, end)
    } else {
        (OperatorAction::WalletThaw, EventType::WalletThawed, THAWED)
    };
    sqlx::query!(
        "UPDATE wallets SET frozen_until = CASE WHEN $3 THEN coalesce($4, 'infinity'::timestamptz) END
         WHERE app_no = $1 AND wallet_no = $2",
        app_no,
        wallet.wallet_no,
        report.frozen,
        until
    )
    .execute(&mut *connection)
    .await?;
    tell_of_freeze(connection, app_id.as_str(), event_type, (WalletNo(wallet.wallet_no), end)).await?;
    let line = LogLine::new(operator, action, open_id.as_str())
        .of_app(app_id)
        .before(state(wallet.is_frozen, wallet.until))
        .after(state(report.frozen, until))
        .note(reason.map_or("", Reason::as_str))
        .answer(&report);
    line.record(connection).await?;
    Ok(report)
}

/// Locks the row of a wallet and reads its freeze.
async fn lock(connection: &mut PgConnection, app_no: i32, open_id: &OpenId) -> Result<Option<LockedWallet>> {
    let wallet = sqlx::query_as!(
        LockedWallet,
        r#"SELECT wallet_no, coalesce(frozen_until > clock_timestamp(), false) AS "is_frozen!",
               CASE WHEN isfinite(frozen_until) THEN frozen_until END AS until, clock_timestamp() AS "now!"
           FROM wallets WHERE app_no = $1 AND open_id = $2 FOR UPDATE"#,
        app_no,
        open_id.as_str()
    );
    Ok(wallet.fetch_optional(connection).await?)
}

/// The state for the operator's log.
fn state(is_frozen: bool, until: Option<OffsetDateTime>) -> Value {
    json!({ "frozen": is_frozen, "until": until.filter(|_| is_frozen).map(rfc3339) })
}
