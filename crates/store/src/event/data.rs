//! Reads what events tell from the rows that they name.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use domain::event::{
    CancelData, EntryPurses, EventData, EventType, ExchangeData, FreezeData, ImageData, OperatorData,
    OrderData, PresentData, TopupData, UnmatchedData, freeze_end,
};
use domain::ledger::{ReferenceKind, told_reference};
use domain::order::Order;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::reader::{EventKey, EventSubject};
use super::refunds::{self, RefundEventRow};
use crate::error::{Result, StoreError};

/// The data of events by their numbers.
pub(super) async fn read_data(
    connection: &mut PgConnection,
    keys: &[EventKey],
) -> Result<HashMap<i64, EventData>> {
    let mut told = HashMap::with_capacity(keys.len());
    let mut entries: BTreeMap<&str, Vec<(i64, i64, i64)>> = BTreeMap::new();
    let mut orders: Vec<(i64, &str, &str, i64)> = Vec::new();
    let mut freezes: Vec<(i64, &str, i64, i64)> = Vec::new();
    let mut unmatched: Vec<(i64, &str, &str)> = Vec::new();
    let mut refused: Vec<(i64, &str, &str)> = Vec::new();
    let mut debts: BTreeMap<&str, Vec<(i64, i64, i64)>> = BTreeMap::new();
    for EventKey { no, app_id, key, .. } in keys {
        match key {
            EventSubject::Entry(wallet_no, seq) => {
                entries.entry(app_id.as_str()).or_default().push((*no, wallet_no.0, *seq));
            }
            EventSubject::Order(number, seq) => orders.push((*no, app_id.as_str(), number, *seq)),
            EventSubject::Freeze(wallet_no, until) => {
                freezes.push((*no, app_id.as_str(), wallet_no.0, *until));
            }
            EventSubject::Payment(payment) => unmatched.push((*no, app_id.as_str(), payment)),
            EventSubject::Refund(refund) => refused.push((*no, app_id.as_str(), refund)),
            EventSubject::Debt(wallet_no, seq) => {
                debts.entry(app_id.as_str()).or_default().push((*no, wallet_no.0, *seq));
            }
            EventSubject::Image(img_id) => {
                told.insert(*no, EventData::Image(ImageData { img_id: img_id.clone() }));
            }
        }
    }
    for (app_id, entries) in entries {
        read_entries(connection, app_id, &entries, &mut told).await?;
    }
    if !orders.is_empty() {
        read_orders(connection, &orders, &mut told).await?;
    }
    if !freezes.is_empty() {
        read_freezes(connection, &freezes, &mut told).await?;
    }
    if !unmatched.is_empty() {
        read_unmatched(connection, &unmatched, &mut told).await?;
    }
    if !refused.is_empty() {
        refunds::read_refused(connection, &refused, &mut told).await?;
    }
    for (app_id, debts) in debts {
        refunds::read_debts(connection, app_id, &debts, &mut told).await?;
    }
    Ok(told)
}

/// A ledger entry with what was bought.
struct EntryRow {
    no: i64,
    open_id: String,
    seq: i64,
    kind: String,
    reference: String,
    of_biz_no: Option<String>,
    remaining: Option<i64>,
    free_change: i64,
    charge_change: i64,
    free_balance: i64,
    charge_balance: i64,
    zone_id: Option<String>,
    extension: Option<String>,
    remark: Option<String>,
    item_id: Option<Vec<u8>>,
}

/// A payment that was credited.
struct PaymentRow {
    no: i64,
    provider: String,
    provider_order_id: String,
    paid_biz_no: Option<String>,
    paid_product_id: String,
    currency: String,
    amount: i64,
}

impl PaymentRow {
    fn data(self, (open_id, seq): (String, i64), purses: EntryPurses) -> TopupData {
        TopupData {
            open_id,
            seq,
            provider: self.provider,
            provider_order_id: self.provider_order_id,
            biz_no: self.paid_biz_no,
            product_id: self.paid_product_id,
            currency: self.currency,
            amount: self.amount,
            purses,
        }
    }
}

/// The payments of top-ups, by the numbers of their events.
async fn read_payments(
    connection: &mut PgConnection,
    app_no: i32,
    topups: &[(i64, i64, i64)],
) -> Result<HashMap<i64, PaymentRow>> {
    if topups.is_empty() {
        return Ok(HashMap::new());
    }
    let column = |of: fn(&(i64, i64, i64)) -> i64| topups.iter().map(of).collect::<Vec<_>>();
    let rows = sqlx::query_as!(
        PaymentRow,
        r#"SELECT k.no AS "no!", p.provider, p.provider_order_id, p.paid_biz_no, p.paid_product_id AS "paid_product_id!",
               p.currency, p.amount
           FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS k (no, wallet_no, seq)
           JOIN topup_payments p ON p.app_no = $1 AND p.wallet_no = k.wallet_no AND p.seq = k.seq"#,
        app_no,
        &column(|topup| topup.0),
        &column(|topup| topup.1),
        &column(|topup| topup.2)
    );
    Ok(rows.fetch_all(connection).await?.into_iter().map(|row| (row.no, row)).collect())
}

/// Payments that fitted nothing, as they were reported.
async fn read_unmatched(
    connection: &mut PgConnection,
    payments: &[(i64, &str, &str)],
    told: &mut HashMap<i64, EventData>,
) -> Result<()> {
    let rows = sqlx::query!(
        r#"SELECT k.no AS "no!", p.provider, p.provider_order_id, p.biz_no, p.open_id, p.product_id, p.currency, p.amount,
               p.reason AS "reason!"
           FROM unnest($1::bigint[], $2::text[], $3::text[]) AS k (no, app_id, payment)
           JOIN apps a ON a.app_id = k.app_id
           JOIN topup_payments p ON p.app_no = a.app_no AND p.provider = split_part(k.payment, '/', 1)
               AND p.provider_order_id = substr(k.payment, strpos(k.payment, '/') + 1)"#,
        &payments.iter().map(|payment| payment.0).collect::<Vec<_>>(),
        &payments.iter().map(|payment| payment.1.to_owned()).collect::<Vec<_>>(),
        &payments.iter().map(|payment| payment.2.to_owned()).collect::<Vec<_>>()
    );
    for row in rows.fetch_all(connection).await? {
        let data = UnmatchedData {
            provider: row.provider,
            provider_order_id: row.provider_order_id,
            biz_no: row.biz_no,
            open_id: row.open_id,
            product_id: row.product_id,
            currency: row.currency,
            amount: row.amount,
            reason: row.reason,
        };
        told.insert(row.no, EventData::Unmatched(data));
    }
    Ok(())
}

/// The texts of an item.
struct ItemRow {
    item_id: Vec<u8>,
    product_name: String,
    product_info: String,
    product_desc: String,
}

/// Items are read once, and not for each entry: most exchanges buy what others bought, too.
async fn read_entries(
    connection: &mut PgConnection,
    app_id: &str,
    entries: &[(i64, i64, i64)],
    told: &mut HashMap<i64, EventData>,
) -> Result<()> {
    let app_no = sqlx::query_scalar!("SELECT app_no FROM apps WHERE app_id = $1", app_id);
    let app_no = app_no.fetch_one(&mut *connection).await?;
    let column = |of: fn(&(i64, i64, i64)) -> i64| entries.iter().map(of).collect::<Vec<_>>();
    let rows = sqlx::query_as!(
        EntryRow,
        r#"SELECT k.no AS "no!", w.open_id AS "open_id!", e.seq AS "seq!", e.kind AS "kind!", e.reference AS "reference!",
               e.of_biz_no AS "of_biz_no?", e.remaining AS "remaining?", e.free_change AS "free_change!",
               e.charge_change AS "charge_change!", e.free_balance AS "free_balance!",
               e.charge_balance AS "charge_balance!", e.zone_id AS "zone_id?", e.extension AS "extension?",
               e.remark AS "remark?", e.item_id AS "item_id?"
           FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS k (no, wallet_no, seq)
           JOIN ledger_entries e ON e.app_no = $1 AND e.wallet_no = k.wallet_no AND e.seq = k.seq
           JOIN wallets w ON w.app_no = $1 AND w.wallet_no = k.wallet_no"#,
        app_no,
        &column(|entry| entry.0),
        &column(|entry| entry.1),
        &column(|entry| entry.2)
    )
    .fetch_all(&mut *connection)
    .await?;
    let item_ids: BTreeSet<&[u8]> = rows.iter().filter_map(|row| row.item_id.as_deref()).collect();
    let items = sqlx::query_as!(
        ItemRow,
        "SELECT item_id, product_name, product_info, product_desc FROM items WHERE app_no = $1 AND item_id = ANY ($2)",
        app_no,
        &item_ids.into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>()
    );
    let items = items.fetch_all(&mut *connection).await?;
    let items: HashMap<&[u8], &ItemRow> = items.iter().map(|item| (item.item_id.as_slice(), item)).collect();
    let topups = rows.iter().filter(|row| row.kind == ReferenceKind::Topup.as_str()).map(|row| row.no);
    let topups: BTreeSet<i64> = topups.collect();
    let topups: Vec<_> = entries.iter().filter(|entry| topups.contains(&entry.0)).copied().collect();
    let mut payments = read_payments(connection, app_no, &topups).await?;
    let refunded = rows.iter().filter(|row| row.kind == ReferenceKind::Refund.as_str()).map(|row| row.no);
    let refunded: BTreeSet<i64> = refunded.collect();
    let refunded: Vec<_> = entries.iter().filter(|entry| refunded.contains(&entry.0)).copied().collect();
    let mut refunds = refunds::read_refunds(connection, app_no, &refunded).await?;
    for row in rows {
        let no = row.no;
        let item = row.item_id.as_deref().and_then(|id| items.get(id).copied());
        let of_topup = OfTopup { payment: payments.remove(&no), refund: refunds.remove(&no) };
        let data = row.data(item, of_topup);
        told.insert(no, data.ok_or_else(|| StoreError::damaged("ledger_entries"))?);
    }
    Ok(())
}

/// The row beside a ledger entry of a top-up or a refund.
struct OfTopup {
    payment: Option<PaymentRow>,
    refund: Option<RefundEventRow>,
}

impl OfTopup {
    fn data(self, entry: (String, i64), purses: EntryPurses) -> Option<EventData> {
        match (self.payment, self.refund) {
            (Some(payment), _) => Some(EventData::Topup(payment.data(entry, purses))),
            (None, Some(refund)) => Some(EventData::Refund(refund.data(entry, purses))),
            (None, None) => None,
        }
    }
}

impl EntryRow {
    fn data(self, item: Option<&ItemRow>, of_topup: OfTopup) -> Option<EventData> {
        let Self { open_id, seq, free_change, charge_change, free_balance, charge_balance, .. } = self;
        let purses = EntryPurses { free_change, charge_change, free_balance, charge_balance };
        let [zone_id, extension, remark] =
            [self.zone_id, self.extension, self.remark].map(Option::unwrap_or_default);
        let (biz_no, of_operator) = told_reference(&self.reference);
        let reference = biz_no.or(of_operator).unwrap_or_default().to_owned();
        // A credit may be larger, and has none.
        let amount = free_change.saturating_add(charge_change).saturating_abs();
        Some(match ReferenceKind::parse(&self.kind).ok().and_then(EventType::of_entry)? {
            EventType::ExchangeSucceeded => EventData::Exchange(ExchangeData {
                open_id,
                zone_id,
                seq,
                biz_no: reference,
                amount,
                purses,
                product_name: item?.product_name.clone(),
                product_info: item?.product_info.clone(),
                product_desc: item?.product_desc.clone(),
                extension,
            }),
            EventType::PresentSucceeded => EventData::Present(PresentData {
                open_id,
                zone_id,
                seq,
                biz_no: reference,
                amount,
                purses,
                product_desc: remark,
                extension,
            }),
            EventType::CancelSucceeded => EventData::Cancel(CancelData {
                open_id,
                zone_id,
                seq,
                biz_no: reference,
                amount,
                purses,
                product_desc: remark,
                extension,
                pay_biz_no: self.of_biz_no?,
                remaining: self.remaining?,
            }),
            EventType::WalletCredited | EventType::WalletDebited => {
                EventData::Operator(OperatorData { open_id, seq, r#ref: reference, purses })
            }
            EventType::TopupPaid | EventType::TopupRefunded => of_topup.data((open_id, seq), purses)?,
            EventType::WalletFrozen
            | EventType::WalletThawed
            | EventType::WalletDebtChanged
            | EventType::TopupUnmatched
            | EventType::TopupRefundRefused
            | EventType::OrderChanged
            | EventType::ImageBlocked => return None,
        })
    }
}

async fn read_orders(
    connection: &mut PgConnection,
    orders: &[(i64, &str, &str, i64)],
    told: &mut HashMap<i64, EventData>,
) -> Result<()> {
    let rows = sqlx::query!(
        r#"SELECT k.no AS "no!", e.out_biz_order_no, e.seq, e.report AS "report: Json<Order>", o.order_create_time
           FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) AS k (no, app_id, out_biz_order_no, seq)
           JOIN order_events e
               ON e.app_id = k.app_id AND e.out_biz_order_no = k.out_biz_order_no AND e.seq = k.seq
           JOIN orders o ON o.app_id = e.app_id AND o.out_biz_order_no = e.out_biz_order_no"#,
        &orders.iter().map(|order| order.0).collect::<Vec<_>>(),
        &orders.iter().map(|order| order.1.to_owned()).collect::<Vec<_>>(),
        &orders.iter().map(|order| order.2.to_owned()).collect::<Vec<_>>(),
        &orders.iter().map(|order| order.3).collect::<Vec<_>>()
    )
    .fetch_all(&mut *connection)
    .await?;
    for row in rows {
        let Json(report) = row.report;
        let data = OrderData {
            out_biz_order_no: row.out_biz_order_no,
            out_order_no: report.out_order_no,
            open_id: report.open_id,
            order_status: report.order_status,
            order_create_time: row.order_create_time,
            order_path: report.order_path,
            product_cover_img_id: report.product_cover_img_id,
            seq: row.seq,
        };
        told.insert(row.no, EventData::Order(data));
    }
    Ok(())
}

/// The players of wallets that were frozen or thawed.
async fn read_freezes(
    connection: &mut PgConnection,
    freezes: &[(i64, &str, i64, i64)],
    told: &mut HashMap<i64, EventData>,
) -> Result<()> {
    let rows = sqlx::query!(
        r#"SELECT k.no AS "no!", k.until AS "until!", w.open_id
           FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[]) AS k (no, app_id, wallet_no, until)
           JOIN apps a ON a.app_id = k.app_id
           JOIN wallets w ON w.app_no = a.app_no AND w.wallet_no = k.wallet_no"#,
        &freezes.iter().map(|freeze| freeze.0).collect::<Vec<_>>(),
        &freezes.iter().map(|freeze| freeze.1.to_owned()).collect::<Vec<_>>(),
        &freezes.iter().map(|freeze| freeze.2).collect::<Vec<_>>(),
        &freezes.iter().map(|freeze| freeze.3).collect::<Vec<_>>()
    );
    for row in rows.fetch_all(connection).await? {
        let data = FreezeData { open_id: row.open_id, until: freeze_end(row.until) };
        told.insert(row.no, EventData::Freeze(data));
    }
    Ok(())
}
