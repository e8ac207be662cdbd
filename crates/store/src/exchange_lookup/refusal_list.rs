//! The list of refused exchanges, presents and cancels, newest first (contract 13.1.10).

use std::fmt;
use std::str::FromStr;

use domain::code::Code;
use domain::fields::Expected;
use domain::ids::{AppId, BizNo, OpenId};
use domain::rights::Apps;
use serde::Serialize;
use time::OffsetDateTime;

use super::refusals::{KEPT_DAYS, RefusalRecord};
use crate::error::Result;
use crate::paging::{CursorKey, ListPage, TimeCursor};
use crate::store::Store;

/// A filter of refusals. The default lets all through.
#[derive(Debug, Clone, Default)]
pub struct RefusalFilter {
    /// Only of this app.
    pub app_id: Option<AppId>,
    /// Only of these apps.
    pub apps: Apps,
    /// Only of this player.
    pub open_id: Option<OpenId>,
    /// Only with this code.
    pub code: Option<u32>,
    /// Whose last time is at or after this.
    pub since: Option<OffsetDateTime>,
    /// Whose last time is before this.
    pub until: Option<OffsetDateTime>,
}

impl RefusalFilter {
    /// Whether it looks in all apps for what no index has. An app has 100,000 rows at most.
    #[must_use]
    pub fn is_unbounded(&self) -> bool {
        self.app_id.is_none() && self.open_id.is_none() && self.code.is_some()
    }
}

/// A refusal with its app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "AppRefusal")]
pub struct RefusalRow {
    /// The app.
    #[schemars(with = "AppId")]
    pub app_id: String,
    /// The refusal.
    #[serde(flatten)]
    pub refusal: RefusalRecord,
}

/// What distinguishes refusals of the same time. As text `<app_id>.<biz_no>.<open_id>.<code>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalKey {
    app_id: AppId,
    biz_no: BizNo,
    open_id: OpenId,
    code: u32,
}

/// A position in the list.
pub type RefusalCursor = TimeCursor<RefusalKey>;

impl fmt::Display for RefusalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", self.app_id, self.biz_no, self.open_id, self.code)
    }
}

impl FromStr for RefusalKey {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let parts: Vec<&str> = text.split('.').collect();
        let [app_id, biz_no, open_id, code] = parts[..] else { return Err(Expected::new(Self::EXPECTED)) };
        Ok(Self {
            app_id: AppId::parse(app_id)?,
            biz_no: BizNo::parse(biz_no)?,
            open_id: OpenId::parse(open_id)?,
            code: Code::number_of(code)?,
        })
    }
}

impl CursorKey for RefusalKey {
    const EXPECTED: &'static str = "the place of a refusal, as an earlier page gave it";
}

impl Store {
    /// At most `limit` refusals of the last 30 days, the newest first by their last time. Without an app it reads app by
    /// app.
    pub async fn refusals(
        &self,
        filter: &RefusalFilter,
        after: Option<&RefusalCursor>,
        limit: u32,
    ) -> Result<ListPage<RefusalRow, String>> {
        let key = after.map(|after| &after.key);
        let rows = sqlx::query!(
            "SELECT r.* FROM apps a CROSS JOIN LATERAL (
                 SELECT app_id, open_id, biz_no, kind, code, first_at, last_at, count, request_id, amount, product_name,
                     free_balance, charge_balance
                 FROM exchange_refusals
                 WHERE app_id = a.app_id AND last_at > now() - make_interval(days => $1)
                     AND ($4::text IS NULL OR open_id = $4) AND ($5::bigint IS NULL OR code = $5)
                     AND ($6::timestamptz IS NULL OR last_at >= $6) AND ($7::timestamptz IS NULL OR last_at < $7)
                     AND ($8::timestamptz IS NULL OR last_at <= $8
                         AND (last_at, app_id, biz_no, open_id, code) < ($8, $9::text, $10::text, $11::text, $12::bigint))
                 ORDER BY last_at DESC, biz_no DESC, open_id DESC, code DESC LIMIT $13) r
             WHERE ($2::text IS NULL OR a.app_id = $2) AND ($3::text[] IS NULL OR a.app_id = ANY ($3))
             ORDER BY r.last_at DESC, r.app_id DESC, r.biz_no DESC, r.open_id DESC, r.code DESC LIMIT $13",
            KEPT_DAYS,
            filter.app_id.as_ref().map(AppId::as_str),
            filter.apps.ids(),
            filter.open_id.as_ref().map(OpenId::as_str),
            filter.code.map(i64::from),
            filter.since,
            filter.until,
            after.map(|after| after.at),
            key.map(|key| key.app_id.as_str()),
            key.map(|key| key.biz_no.as_str()),
            key.map(|key| key.open_id.as_str()),
            key.map(|key| i64::from(key.code)),
            i64::from(limit) + 1
        )
        .map(|row| RefusalRow {
            app_id: row.app_id,
            refusal: RefusalRecord {
                open_id: row.open_id,
                biz_no: row.biz_no,
                kind: row.kind,
                code: row.code,
                first_at: row.first_at,
                last_at: row.last_at,
                count: row.count,
                request_id: row.request_id,
                amount: row.amount,
                product_name: row.product_name,
                free_balance: row.free_balance,
                charge_balance: row.charge_balance,
            },
        });
        let rows = rows.fetch_all(&self.pool).await?;
        Ok(ListPage::cut(rows, limit, |row| {
            let RefusalRecord { biz_no, open_id, code, last_at, .. } = &row.refusal;
            let micros = last_at.unix_timestamp_nanos() / 1000;
            format!("{micros}.{}.{biz_no}.{open_id}.{code}", row.app_id)
        }))
    }
}
