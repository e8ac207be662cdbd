//! Look-up of recorded exchanges, for the console and the admin API.

use std::borrow::Cow;

use domain::ids::{AppId, BizNo};
use domain::ledger::ReferenceKind;
use domain::operation::wallet::GiveBackLimit;
use domain::product_info::{self, Item};
use domain::rights::Apps;
use domain::wallet::{DeveloperTexts, REPLAY_HOURS, Repeat};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::types::Json;
use time::OffsetDateTime;

use super::refusals::RefusalRecord;
use crate::app_number::number_if_any;
use crate::error::Result;
use crate::store::Store;

/// An exchange that deducted, with its ledger entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Exchange")]
pub struct ExchangeRecord {
    /// The app.
    #[schemars(with = "AppId")]
    pub app_id: String,
    /// The order number.
    #[schemars(with = "BizNo")]
    pub biz_no: String,
    /// The player whose wallet paid.
    pub open_id: String,
    /// Zone and role, as sent.
    pub zone_id: String,
    /// Platform, as sent. Absent for an exchange that was archived before archives kept it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// Time of the request in Unix milliseconds, as sent. Absent for an archived exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ts: Option<i64>,
    /// Address of the player, as sent. It is personal, so it is present only on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_ip: Option<String>,
    /// Deduction from both purses together.
    pub amount: i64,
    /// Effective priority: 0 charged first, 1 gifted first.
    pub pay_priority: i16,
    /// Name of the item or bundle, as sent.
    pub product_name: String,
    /// The items, JSON text as sent.
    pub product_info: String,
    /// The parsed items. Empty when the text does not parse.
    pub items: Vec<Item>,
    /// Remark, as sent.
    pub product_desc: String,
    /// The texts of the developer by their names, as sent; empty when absent. Absent for an archived exchange.
    #[serde(flatten)]
    #[schemars(with = "TextsSchema")]
    pub texts: IndexMap<&'static str, String>,
    /// Its ledger entry in the player's wallet.
    pub seq: i64,
    /// Change of the gifted purse, never positive.
    pub free_change: i64,
    /// Change of the charged purse, never positive.
    pub charge_change: i64,
    /// Gifted currency after it. Absent for an archived exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_balance: Option<i64>,
    /// Charged currency after it. Absent for an archived exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charge_balance: Option<i64>,
    /// First success, database time.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: OffsetDateTime,
    /// The `biz_no` is expired from this time on.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub replayed_until: OffsetDateTime,
    /// The present answer to the same content.
    pub same_content: Repeat,
    /// The present answer to other content under this `biz_no`.
    pub other_content: Repeat,
    /// What can still be given back.
    pub remaining: i64,
    /// What was given back, oldest first, at most 100.
    pub cancels: Vec<CancelRecord>,
    /// Replays of the last 30 days, if any. Some may be missing.
    pub replays: Option<ReplayCount>,
    /// Refusals of this number in the last 30 days, the newest first, at most 100. Some may be missing.
    pub refusals: Vec<RefusalRecord>,
    /// The file with the ledger entry of an archived exchange. Some fields are only there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
}

impl ExchangeRecord {
    /// The limit of an operator who may give back at most `max` coins of it.
    #[must_use]
    pub const fn give_back_limit(&self, max: i64) -> GiveBackLimit {
        GiveBackLimit::new(max, self.amount)
    }
}

/// The schema of the texts of the developer.
struct TextsSchema;

impl schemars::JsonSchema for TextsSchema {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "DeveloperTexts".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let description = "As sent; empty when absent. Absent for an archived exchange.";
        let text = json!({ "description": description, "type": ["string", "null"] });
        let properties: serde_json::Map<_, _> =
            DeveloperTexts::NAMES.into_iter().map(|name| (name.to_owned(), text.clone())).collect();
        schemars::json_schema!({ "type": "object", "properties": properties })
    }
}

/// The texts of the developer in a row of `ledger_entries`, by their names. An archived exchange has no such row.
fn texts_of(entry: Option<&Value>) -> IndexMap<&'static str, String> {
    let text = |name| Some((name, entry?.get(name)?.as_str()?.to_owned()));
    DeveloperTexts::NAMES.into_iter().filter_map(text).collect()
}

/// What is known of a number: the exchange that deducted under it, or that nothing did and how it was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "ExchangeOrRefusals")]
#[serde(untagged)]
pub enum NumberRecord {
    /// An exchange deducted.
    Exchange(Box<ExchangeRecord>),
    /// No exchange deducted.
    Refused(RefusedNumber),
}

/// A number under which no exchange has deducted, and that was refused (contract 13.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct RefusedNumber {
    /// The app.
    #[schemars(with = "AppId")]
    pub app_id: String,
    /// The number.
    #[schemars(with = "BizNo")]
    pub biz_no: String,
    /// Its refusals in the last 30 days, the newest first, at most 100. Some may be missing.
    pub refusals: Vec<RefusalRecord>,
}

/// A cancel of an exchange.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Cancel")]
pub struct CancelRecord {
    /// `biz_no` of a game's cancel.
    pub biz_no: Option<String>,
    /// Ref of an operator's cancel.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// Its ledger entry in the player's wallet.
    pub seq: i64,
    /// Gifted currency that it gave back.
    pub free_change: i64,
    /// Charged currency that it gave back.
    pub charge_change: i64,
    /// What it left to give back.
    pub remaining: i64,
    /// Remark of the game, or note of the operator.
    pub remark: String,
    /// Database time.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: OffsetDateTime,
}

impl CancelRecord {
    /// The cancel's `biz_no` or ref.
    #[must_use]
    pub fn number(&self) -> &str {
        self.biz_no.as_deref().or(self.reference.as_deref()).unwrap_or_default()
    }
}

/// Replays of one `biz_no`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ReplayCount {
    /// Number of replays.
    pub replays: i64,
    /// When the first was recorded.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub first_at: OffsetDateTime,
    /// When the last was recorded.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_at: OffsetDateTime,
}

/// A ledger entry that a search has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReferenceMatch {
    /// The app.
    pub app_id: String,
    /// Its kind.
    pub kind: String,
    /// The `biz_no` or the ref.
    pub reference: String,
    /// The player.
    pub open_id: String,
    /// The ledger entry in that wallet.
    pub seq: i64,
    /// Change of the gifted purse.
    pub free_change: i64,
    /// Change of the charged purse.
    pub charge_change: i64,
    /// Name of the item, or remark.
    pub text: String,
    /// Database time.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

/// What a `biz_no` was used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BizNoUse {
    /// The player.
    pub open_id: String,
    /// Its kind: a word of [`ReferenceKind`].
    pub kind: String,
    /// Database time.
    pub at: OffsetDateTime,
    /// True when a repeat comes too late for a replay.
    pub is_expired: bool,
}

impl BizNoUse {
    /// True for a number that a query has closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.kind == ReferenceKind::Closed.as_str()
    }
}

impl Store {
    /// What a `biz_no` of the app was used for. `None` when nothing has used it.
    pub async fn number_use(&self, app_id: &AppId, biz_no: &str) -> Result<Option<BizNoUse>> {
        Ok(sqlx::query_as!(
            BizNoUse,
            r#"SELECT open_id AS "open_id!", kind AS "kind!", at AS "at!",
                   clock_timestamp() >= at + make_interval(hours => $3) AS "is_expired!"
               FROM numbers JOIN wallets USING (app_no, wallet_no)
               WHERE app_no = (SELECT app_no FROM apps WHERE app_id = $1) AND reference = $2"#,
            app_id.as_str(),
            biz_no,
            REPLAY_HOURS
        )
        .fetch_optional(&self.pool)
        .await?)
    }

    /// The exchange with this `biz_no`, or its refusals where none deducted. `None` when there is nothing of either.
    /// `with_user_ip` includes the player's address.
    pub async fn number(
        &self,
        app_id: &AppId,
        biz_no: &BizNo,
        with_user_ip: bool,
    ) -> Result<Option<NumberRecord>> {
        if let Some(exchange) = self.exchange(app_id, biz_no, with_user_ip).await? {
            return Ok(Some(NumberRecord::Exchange(Box::new(exchange))));
        }
        let refusals = self.refusals_of_number(app_id, biz_no).await?;
        let (app_id, biz_no) = (app_id.to_string(), biz_no.to_string());
        let is_known = !refusals.is_empty();
        Ok(is_known.then_some(NumberRecord::Refused(RefusedNumber { app_id, biz_no, refusals })))
    }

    /// The exchange with this `biz_no`. `None` when none deducted. `with_user_ip` includes the player's address.
    pub async fn exchange(
        &self,
        app_id: &AppId,
        biz_no: &BizNo,
        with_user_ip: bool,
    ) -> Result<Option<ExchangeRecord>> {
        let Some(app_no) = number_if_any(&self.pool, app_id).await? else { return Ok(None) };
        // Each table is asked for the number of the app, so that Citus sends the statement to its node as it is.
        // `is_expired` is by the hours and the clock of the writers' statements.
        let row = sqlx::query!(
            r#"SELECT w.open_id AS "open_id!", x.zone_id AS "zone_id!", x.os AS "os?", e.ts AS "ts?",
                      e.user_ip AS "user_ip?", x.pay_priority AS "pay_priority!",
                      i.product_name AS "product_name!", i.product_info AS "product_info!",
                      i.product_desc AS "product_desc!", to_jsonb(e) AS "entry?", x.wallet_no AS "wallet_no!",
                      x.seq AS "seq!", x.at AS "created_at!", x.free_change AS "free_change!",
                      x.charge_change AS "charge_change!", e.free_balance AS "free_balance?",
                      e.charge_balance AS "charge_balance?", x.is_archived AS "is_archived!",
                      x.at + make_interval(hours => $3) AS "replayed_until!",
                      clock_timestamp() >= x.at + make_interval(hours => $3) AS "is_expired!",
                      coalesce((SELECT min(c.remaining) FROM numbers c WHERE c.app_no = $1
                          AND c.of_biz_no = $2), -(x.free_change + x.charge_change)) AS "remaining!",
                      coalesce((
                          SELECT jsonb_agg(jsonb_build_object(
                              'biz_no', CASE WHEN c.reference NOT LIKE '!%' THEN c.reference END,
                              'ref', CASE WHEN c.reference LIKE '!%' THEN substr(c.reference, 2) END,
                              'seq', c.seq, 'free_change', c.free_change, 'charge_change', c.charge_change,
                              'remaining', c.remaining, 'remark', coalesce(c.remark, ''), 'at', c.at
                          ) ORDER BY c.remaining DESC)
                          FROM (SELECT * FROM numbers c WHERE c.app_no = $1 AND c.of_biz_no = $2
                              ORDER BY c.remaining DESC LIMIT 100) c), '[]') AS "cancels!: Json<Vec<CancelRecord>>"
               FROM numbers x
               JOIN wallets w ON w.app_no = $1 AND w.wallet_no = x.wallet_no
               JOIN items i ON i.app_no = $1 AND i.item_id = x.item_id
               LEFT JOIN ledger_entries e ON e.app_no = $1 AND e.reference = $2
               WHERE x.app_no = $1 AND x.reference = $2 AND x.kind = 'exchange'"#,
            app_no,
            biz_no.as_str(),
            REPLAY_HOURS
        );
        let Some(row) = row.fetch_optional(&self.pool).await? else { return Ok(None) };
        let archive = if row.is_archived {
            self.file_of_entry(app_id, app_no, row.wallet_no, row.seq).await?
        } else {
            None
        };
        Ok(Some(ExchangeRecord {
            app_id: app_id.to_string(),
            biz_no: biz_no.to_string(),
            open_id: row.open_id,
            zone_id: row.zone_id,
            os: row.os,
            ts: row.ts,
            user_ip: row.user_ip.filter(|_| with_user_ip),
            amount: -(row.free_change + row.charge_change),
            pay_priority: row.pay_priority,
            product_name: row.product_name,
            items: product_info::items(&row.product_info).unwrap_or_default(),
            product_info: row.product_info,
            product_desc: row.product_desc,
            texts: texts_of(row.entry.as_ref()),
            seq: row.seq,
            free_change: row.free_change,
            charge_change: row.charge_change,
            free_balance: row.free_balance,
            charge_balance: row.charge_balance,
            created_at: row.created_at,
            replayed_until: row.replayed_until,
            same_content: Repeat::answer(row.is_expired, true),
            other_content: Repeat::answer(row.is_expired, false),
            remaining: row.remaining,
            cancels: row.cancels.0,
            replays: self.replays_of(app_id, biz_no).await?,
            refusals: self.refusals_of_number(app_id, biz_no).await?,
            archive,
        }))
    }

    /// The file that has an archived entry.
    async fn file_of_entry(
        &self,
        app_id: &AppId,
        app_no: i32,
        wallet_no: i64,
        seq: i64,
    ) -> Result<Option<String>> {
        let file = sqlx::query_scalar!(
            "SELECT a.file FROM archived_wallets s JOIN archives a ON a.archive_no = s.archive_no
             WHERE a.app_id = $1 AND s.app_no = $2 AND s.wallet_no = $3 AND s.seq >= $4 ORDER BY s.archive_no LIMIT 1",
            app_id.as_str(),
            app_no,
            wallet_no,
            seq
        );
        Ok(file.fetch_optional(&self.pool).await?)
    }

    async fn replays_of(&self, app_id: &AppId, biz_no: &BizNo) -> Result<Option<ReplayCount>> {
        let replays = sqlx::query_as!(
            ReplayCount,
            "SELECT replays, first_at, last_at FROM exchange_replays WHERE app_id = $1 AND biz_no = $2",
            app_id.as_str(),
            biz_no.as_str()
        );
        Ok(replays.fetch_optional(&self.pool).await?)
    }

    /// At most `limit` ledger entries with this `biz_no` or ref, of one app or of all.
    /// Several apps may use the same. It reads each app by its key.
    pub async fn find_reference(
        &self,
        app_id: Option<&AppId>,
        reference: &str,
        limit: u32,
    ) -> Result<Vec<ReferenceMatch>> {
        self.find_reference_among(&Apps::ALL, app_id, reference, limit).await
    }

    /// The same, of these apps alone.
    pub async fn find_reference_among(
        &self,
        apps: &Apps,
        app_id: Option<&AppId>,
        reference: &str,
        limit: u32,
    ) -> Result<Vec<ReferenceMatch>> {
        Ok(sqlx::query_as!(
            ReferenceMatch,
            r#"SELECT a.app_id, n.kind AS "kind!", $2::text AS "reference!", w.open_id AS "open_id!",
                      n.seq AS "seq!", n.free_change AS "free_change!", n.charge_change AS "charge_change!",
                      coalesce((SELECT i.product_name FROM items i WHERE i.app_no = n.app_no AND i.item_id = n.item_id),
                          n.remark, '') AS "text!", n.at AS "at!"
               FROM apps a JOIN numbers n ON n.app_no = a.app_no AND n.reference IN ($2, '!' || $2, '$' || $2, '%' || $2, '&' || $2)
               JOIN wallets w ON w.app_no = n.app_no AND w.wallet_no = n.wallet_no
               WHERE n.seq IS NOT NULL AND ($1::text IS NULL OR a.app_id = $1)
                   AND ($4::text[] IS NULL OR a.app_id = ANY ($4))
               ORDER BY a.app_id, n.reference DESC LIMIT $3"#,
            app_id.map(AppId::as_str),
            reference,
            i64::from(limit),
            apps.ids()
        )
        .fetch_all(&self.pool)
        .await?)
    }
}
