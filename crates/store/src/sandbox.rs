//! The test world of sandbox apps (contract 15): faults that games ask for, and what games say that they shipped. Every
//! function takes a [`SandboxApp`], so none can be called for an app that takes real money.

use std::time::Duration;

use domain::code::Code;
use domain::endpoint::Endpoint;
use domain::ids::{AppId, BizNo, OpenId};
use domain::operator::Operator;
use domain::sandbox::{Fault, FaultKind, FaultState, FaultTarget, SandboxApp};
use serde_json::json;
use sqlx::PgConnection;

use crate::error::{Result, StoreError};
use crate::operator_log::{LogLine, OperatorAction};
use crate::removal::remove_piece;
use crate::store::Store;

/// How long faults and shipments are kept.
const KEPT_DAYS: i32 = 7;
/// The most shipments of an app that are kept.
const SHIPMENTS_MAX: i64 = 100_000;

/// A fault that happens now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueFault {
    /// What happens.
    pub kind: FaultKind,
    /// How late the answer or the notification is.
    pub delay: Duration,
}

/// An exchange of a game under test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPurchase {
    /// Its number.
    pub biz_no: String,
    /// How often it was repeated, as written within the last second or before.
    pub replays: i64,
    /// How often the game says that it shipped it.
    pub shipments: i32,
}

impl Store {
    /// Asks for a fault, in place of what was asked for this target before. With an operator, the operator's log tells of
    /// it; without one, the app itself has asked.
    pub async fn ask_for_fault(
        &self,
        app: &SandboxApp,
        fault: Fault,
        operator: Option<&Operator>,
    ) -> Result<Vec<FaultState>> {
        let context = (app.clone(), fault, operator.cloned());
        self.transaction(context, |connection, (app, fault, operator)| {
            Box::pin(async move {
                let delay_ms = i32::try_from(fault.delay.as_millis()).unwrap_or(i32::MAX);
                sqlx::query!(
                    "INSERT INTO sandbox_faults (app_id, target, fault, delay_ms, times, code) VALUES ($1, $2, $3, $4, $5, $6)
                     ON CONFLICT (app_id, target) DO UPDATE SET fault = excluded.fault, delay_ms = excluded.delay_ms,
                         code = excluded.code, times = excluded.times, happened = 0, asked_at = now(), first_at = NULL, last_at = NULL",
                    app.id().as_str(),
                    fault.target.as_str(),
                    fault.kind.as_str(),
                    delay_ms,
                    fault.times,
                    fault.code.and_then(|code| i32::try_from(code.number()).ok())
                )
                .execute(&mut *connection)
                .await?;
                if let Some(operator) = operator {
                    let after = match fault.code {
                        None => json!({ "fault": fault.kind, "times": fault.times, "delay_ms": delay_ms }),
                        Some(code) => {
                            json!({ "fault": fault.kind, "times": fault.times, "code": code.number() })
                        }
                    };
                    let line = LogLine::new(operator, OperatorAction::SandboxFault, fault.target.as_str());
                    line.of_app(app.id()).after(after).record(&mut *connection).await?;
                }
                read_faults(connection, app.id()).await
            })
        })
        .await
    }

    /// Ends all faults of an app.
    pub async fn end_faults(&self, app: &SandboxApp) -> Result<()> {
        sqlx::query!("DELETE FROM sandbox_faults WHERE app_id = $1", app.id().as_str())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// The faults that were asked for, by target, with how often each has happened.
    pub async fn faults(&self, app: &SandboxApp) -> Result<Vec<FaultState>> {
        let mut connection = self.pool.acquire().await?;
        read_faults(&mut connection, app.id()).await
    }

    /// The code that a call is refused with now, before it is carried out, if a fault says so. It counts as happened.
    pub async fn due_refusal(&self, app: &SandboxApp, endpoint: Endpoint) -> Result<Option<Code>> {
        let due = sqlx::query_scalar!(
            r#"UPDATE sandbox_faults SET happened = happened + 1, first_at = coalesce(first_at, clock_timestamp()),
                 last_at = clock_timestamp()
             WHERE app_id = $1 AND target = $2 AND happened < times AND fault = 'refuse' RETURNING code AS "code!""#,
            app.id().as_str(),
            endpoint.as_str()
        );
        let due = due.fetch_optional(&self.pool).await?;
        let is_due = |code: &Code| i64::from(code.number()) == due.map_or(0, i64::from);
        Ok(Code::ALL.into_iter().find(is_due))
    }

    /// The fault that happens to this target now, if one does, but for a refusal. It counts as happened.
    pub async fn due_fault(&self, app: &SandboxApp, target: FaultTarget) -> Result<Option<DueFault>> {
        let due = sqlx::query!(
            "UPDATE sandbox_faults SET happened = happened + 1, first_at = coalesce(first_at, clock_timestamp()),
                 last_at = clock_timestamp()
             WHERE app_id = $1 AND target = $2 AND happened < times AND fault <> 'refuse' RETURNING fault, delay_ms",
            app.id().as_str(),
            target.as_str()
        );
        let Some(due) = due.fetch_optional(&self.pool).await? else { return Ok(None) };
        let kind = FaultKind::parse(&due.fault).map_err(|_| StoreError::damaged("sandbox_faults"))?;
        Ok(Some(DueFault { kind, delay: Duration::from_millis(u64::from(due.delay_ms.unsigned_abs())) }))
    }

    /// Notes that the game says that it shipped what this number bought. Returns how often it has said so. `None` when
    /// the app has noted as many numbers as it may.
    pub async fn note_shipment(&self, app: &SandboxApp, biz_no: &BizNo) -> Result<Option<i32>> {
        let count = |_| {
            let (store, id) = (self.clone(), app.id().clone());
            async move { store.look_up(store.count_shipments(&id)).await.map(Some) }
        };
        // Those who come at the same time share one count, and the next ones within a moment do too. So the app may have
        // a few more than the most.
        let (now, within) = (self.clock.monotonic(), self.look_up_within());
        if self.shipment_counts.get_or(app.id(), now, within, count).await?.unwrap_or(0) >= SHIPMENTS_MAX {
            return Ok(None);
        }
        let noted = sqlx::query_scalar!(
            "INSERT INTO sandbox_shipments AS s (app_id, biz_no) VALUES ($1, $2)
             ON CONFLICT (app_id, biz_no) DO UPDATE SET shipments = s.shipments + 1 RETURNING shipments",
            app.id().as_str(),
            biz_no.as_str()
        );
        Ok(Some(noted.fetch_one(&self.pool).await?))
    }

    async fn count_shipments(&self, app_id: &AppId) -> Result<i64> {
        Ok(sqlx::query_scalar!(
            r#"SELECT count(*) AS "count!" FROM sandbox_shipments WHERE app_id = $1"#,
            app_id.as_str()
        )
        .fetch_one(&self.pool)
        .await?)
    }

    /// The exchanges of a player in their order, with their replays and shipments.
    pub async fn purchases(&self, app: &SandboxApp, open_id: &OpenId) -> Result<Vec<SandboxPurchase>> {
        Ok(sqlx::query_as!(
            SandboxPurchase,
            r#"SELECT l.reference AS "biz_no!", coalesce(r.replays, 0) AS "replays!", coalesce(s.shipments, 0) AS "shipments!"
               FROM ledger l
               LEFT JOIN exchange_replays r ON r.app_id = l.app_id AND r.biz_no = l.reference
               LEFT JOIN sandbox_shipments s ON s.app_id = l.app_id AND s.biz_no = l.reference
               WHERE l.app_id = $1 AND l.open_id = $2 AND l.kind = 'exchange' ORDER BY l.seq"#,
            app.id().as_str(),
            open_id.as_str()
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// Numbers that the game says it shipped within this time, and under which nothing was bought.
    pub async fn shipped_for_nothing(&self, app: &SandboxApp, within: Duration) -> Result<Vec<String>> {
        Ok(sqlx::query_scalar!(
            "SELECT s.biz_no FROM sandbox_shipments s
             WHERE s.app_id = $1 AND s.first_at > now() - make_interval(secs => $2) AND NOT EXISTS (
                 SELECT 1 FROM ledger l WHERE l.app_id = $1 AND l.entry_reference = s.biz_no AND l.kind = 'exchange')
             ORDER BY s.first_at LIMIT 10",
            app.id().as_str(),
            within.as_secs_f64()
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// Deletes a piece of the old faults, and one of the old shipments. Returns how many.
    pub async fn forget_test_worlds(&self) -> Result<u64> {
        let faults =
            remove_piece!(self, "sandbox_faults", "asked_at < now() - make_interval(days => $2)", KEPT_DAYS);
        let shipments = remove_piece!(
            self,
            "sandbox_shipments",
            "first_at < now() - make_interval(days => $2)",
            KEPT_DAYS
        );
        Ok(faults + shipments)
    }
}

async fn read_faults(connection: &mut PgConnection, app_id: &AppId) -> Result<Vec<FaultState>> {
    let rows = sqlx::query!(
        "SELECT target, fault, delay_ms, code, times, happened, first_at, last_at FROM sandbox_faults
         WHERE app_id = $1 ORDER BY target",
        app_id.as_str()
    );
    let damaged = || StoreError::damaged("sandbox_faults");
    let rows = rows.fetch_all(connection).await?;
    rows.into_iter()
        .map(|row| {
            Ok(FaultState {
                target: FaultTarget::parse(&row.target).map_err(|_| damaged())?,
                fault: FaultKind::parse(&row.fault).map_err(|_| damaged())?,
                delay_ms: row.delay_ms,
                code: row.code,
                times: row.times,
                happened: row.happened,
                first_at: row.first_at,
                last_at: row.last_at,
            })
        })
        .collect()
}
