//! The SQL of a batch of reports.
//!
//! The compiler does not check these statements. The session prepares all of them when it opens.

use std::collections::BTreeMap;

use domain::event::EventKeys;
use domain::ids::PoiId;
use domain::order::{GoodsKind, Order};
use futures_util::future::{join, join4};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

use super::batch::{FoundImage, FoundOrder, NewEvent, ReportContext, ReportDecisions, ReportRequest};
use crate::engine::Engine;
use crate::error::StoreError;
use crate::secrets::random_bytes;
use crate::writer::{SessionFault, answered};

/// Locks the orders of a batch in the order of their keys.
const LOCK: &str = "\
SELECT k.position FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (app_id, out_biz_order_no, position)
JOIN orders o ON o.app_id = k.app_id AND o.out_biz_order_no = k.out_biz_order_no
ORDER BY k.position FOR UPDATE OF o";

/// Reads all rows that the reports depend on. After a lock it must be a later statement. Only then it sees the commit of
/// the transaction that held the lock before.
const READ: &str = "\
SELECT k.position, {player}, i.blocked_by IS NOT NULL, i.is_reported, r.poi_id IS NOT NULL,
    q.out_order_no IS NOT NULL, p.out_biz_order_no, o.event_count, (e.report ->> 'order_create_time')::bigint,
    o.out_order_no, o.open_id, o.order_create_time, o.order_status, o.goods_kind, o.order_path,
    o.product_cover_img_id, o.order_backup_url, o.poi_id, o.product_id, o.product_catalog_code, o.product_city
FROM unnest($1::integer[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
    WITH ORDINALITY AS k (app_no, app_id, out_biz_order_no, out_order_no, open_id, img_id, poi_id, position)
{wallets}LEFT JOIN images i ON i.app_id = k.app_id AND i.img_id = k.img_id
LEFT JOIN pois r ON r.app_id = k.app_id AND r.poi_id = k.poi_id
LEFT JOIN preorders q ON q.app_id = k.app_id AND q.out_order_no = k.out_order_no
LEFT JOIN order_payments p ON p.app_id = k.app_id AND p.out_order_no = k.out_order_no
LEFT JOIN orders o ON o.app_id = k.app_id AND o.out_biz_order_no = k.out_biz_order_no
LEFT JOIN order_events e
    ON e.app_id = o.app_id AND e.out_biz_order_no = o.out_biz_order_no AND e.seq = o.event_count";

/// Writes orders, payments, reports and the events of the outbox, and marks images. COMMIT may follow without a wait,
/// so a conflict must fail here. An order or a payment number that another transaction has made violates a primary key.
/// An order that has changed, or an image that a sweep has removed, causes a division by zero. Owner and creation time
/// of an order never change.
const WRITE: &str = "\
WITH reported AS (
    SELECT unnest($1::text[]) AS app_id, unnest($2::text[]) AS out_biz_order_no,
        unnest($3::text[]) AS out_order_no, unnest($4::text[]) AS open_id,
        unnest($5::bigint[]) AS order_create_time, unnest($6::smallint[]) AS order_status,
        unnest($7::text[]) AS goods_kind, unnest($8::text[]) AS order_path,
        unnest($9::text[]) AS product_cover_img_id, unnest($10::text[]) AS order_backup_url,
        unnest($11::text[]) AS poi_id, unnest($12::text[]) AS product_id,
        unnest($13::bigint[]) AS product_catalog_code, unnest($14::text[]) AS product_city,
        unnest($15::bigint[]) AS event_count_before, unnest($16::bigint[]) AS event_count
), made AS (
    INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
        goods_kind, order_path, product_cover_img_id, order_backup_url, poi_id, product_id,
        product_catalog_code, product_city, event_count)
    SELECT app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status, goods_kind,
        order_path, product_cover_img_id, order_backup_url, poi_id, product_id, product_catalog_code,
        product_city, event_count
    FROM reported WHERE event_count_before = 0
    RETURNING 1
), changed AS (
    UPDATE orders o SET out_order_no = r.out_order_no, order_status = r.order_status, goods_kind = r.goods_kind,
        order_path = r.order_path, product_cover_img_id = r.product_cover_img_id,
        order_backup_url = r.order_backup_url, poi_id = r.poi_id, product_id = r.product_id,
        product_catalog_code = r.product_catalog_code, product_city = r.product_city,
        event_count = r.event_count, updated_at = now()
    FROM reported r
    WHERE r.event_count_before > 0 AND o.app_id = r.app_id AND o.out_biz_order_no = r.out_biz_order_no
        AND o.event_count = r.event_count_before
    RETURNING 1
), claimed AS (
    INSERT INTO order_payments (app_id, out_order_no, out_biz_order_no)
    SELECT unnest($17::text[]), unnest($18::text[]), unnest($19::text[])
), happened AS (
    INSERT INTO order_events (app_id, out_biz_order_no, seq, order_status, report)
    SELECT unnest($20::text[]), unnest($21::text[]), unnest($22::bigint[]), unnest($23::smallint[]),
        unnest($24::text[])::jsonb
), marked AS (
    UPDATE images i SET is_reported = true
    FROM (SELECT unnest($25::text[]) AS app_id, unnest($26::text[]) AS img_id) AS m
    WHERE i.app_id = m.app_id AND i.img_id = m.img_id
    RETURNING 1
), told AS (
    INSERT INTO outbox (app_id, row_id, type, count, keys)
    SELECT unnest($27::text[]), substring(int8send((extract(epoch FROM now()) * 1000)::bigint) FROM 3) || unnest($28::bytea[]),
        'order.changed', unnest($29::integer[]), unnest($30::bytea[])
)
SELECT 1 / ((SELECT count(*) FROM made) + (SELECT count(*) FROM changed) = cardinality($1::text[])
    AND (SELECT count(*) FROM marked) = cardinality($25::text[]))::integer";

/// Joins the wallets, where they lie on the same node.
const JOIN_WALLETS: &str = "LEFT JOIN wallets w ON w.app_no = k.app_no AND w.open_id = k.open_id\n";

/// Finds the players that the app knows, on Citus, where the wallets lie on another node. They are never removed.
const PLAYERS: &str = "\
SELECT k.position FROM unnest($1::integer[], $2::text[]) WITH ORDINALITY AS k (app_no, open_id, position)
JOIN wallets w ON w.app_no = {app} AND w.open_id = k.open_id";

/// The prepared statements of a session.
pub(super) struct OrderStatements {
    lock: Statement,
    lock_skipping_held: Statement,
    /// On Citus.
    players: Option<Statement>,
    read: Statement,
    write: Statement,
}

impl OrderStatements {
    /// Prepares the statements, which checks them against the schema.
    pub(super) async fn prepare(client: &Client, engine: Engine) -> Result<Self, Error> {
        let lock_skipping_held = format!("{LOCK} SKIP LOCKED");
        let (player, wallets, players) = match engine {
            Engine::Postgres => ("w.wallet_no IS NOT NULL", JOIN_WALLETS, None),
            Engine::Citus => {
                let players = PLAYERS.replace("{app}", &engine.key("k.app_no", 1, "integer"));
                ("false", "", Some(players))
            }
        };
        let read = READ.replace("{player}", player).replace("{wallets}", wallets);
        let (lock, lock_skipping_held, read, write) = join4(
            client.prepare(LOCK),
            client.prepare(&lock_skipping_held),
            client.prepare(&read),
            client.prepare(WRITE),
        )
        .await;
        let players = match players {
            Some(players) => Some(client.prepare(&players).await?),
            None => None,
        };
        Ok(Self { lock: lock?, lock_skipping_held: lock_skipping_held?, players, read: read?, write: write? })
    }

    /// Locks the orders with these keys, and returns the positions of those that it has locked. With `skips_held` it
    /// skips orders that another session has locked.
    pub(super) async fn lock(
        &self,
        client: &Client,
        (app_ids, order_nos): (&[&str], &[&str]),
        skips_held: bool,
    ) -> Result<Vec<usize>, SessionFault> {
        let lock = if skips_held { &self.lock_skipping_held } else { &self.lock };
        let rows = answered(client.query(lock, &[&app_ids, &order_nos]).await)?;
        rows.iter().map(|row| position(row).ok_or_else(damaged)).collect()
    }

    /// Reads what each report of a batch depends on, from one snapshot. Players never go, so they may be read apart.
    pub(super) async fn read(
        &self,
        client: &Client,
        requests: &[&ReportRequest],
    ) -> Result<Vec<ReportContext>, SessionFault> {
        fn texts<'a>(
            requests: &[&'a ReportRequest],
            text: impl Fn(&'a ReportRequest) -> &'a str,
        ) -> Vec<&'a str> {
            requests.iter().map(|request| text(request)).collect()
        }
        let app_nos: Vec<i32> = requests.iter().map(|(caller, _)| caller.app().no.0).collect();
        let app_ids = texts(requests, |(caller, _)| caller.app().id.as_str());
        let order_nos = texts(requests, |(_, report)| report.out_biz_order_no.as_str());
        let payments = texts(requests, |(_, report)| report.out_order_no.as_str());
        let open_ids = texts(requests, |(_, report)| report.open_id.as_str());
        let images = texts(requests, |(_, report)| report.product_cover_img_id.as_str());
        let pois: Vec<Option<&str>> =
            requests.iter().map(|(_, report)| report.poi_id.as_ref().map(PoiId::as_str)).collect();
        let players = async {
            match &self.players {
                Some(players) => client.query(players, &[&app_nos, &open_ids]).await,
                None => Ok(Vec::new()),
            }
        };
        let parameters: [&(dyn ToSql + Sync); 7] =
            [&app_nos, &app_ids, &order_nos, &payments, &open_ids, &images, &pois];
        let (players, rows) = join(players, client.query(&self.read, &parameters)).await;
        let (players, rows) = (answered(players)?, answered(rows)?);
        let mut all: Vec<Option<ReportContext>> = vec![None; requests.len()];
        for row in rows {
            let place = position(&row).and_then(|position| all.get_mut(position)).ok_or_else(damaged)?;
            *place = Some(found(&row).ok_or_else(damaged)?);
        }
        for row in players {
            let place = position(&row).and_then(|position| all.get_mut(position)).ok_or_else(damaged)?;
            place.as_mut().ok_or_else(damaged)?.open_id = true;
        }
        all.into_iter().collect::<Option<_>>().ok_or_else(damaged)
    }

    /// Writes the rows of a batch: all of them, or none. The fault is `Again` when an order, a payment number or an image
    /// is no longer as it was read.
    pub(super) async fn write(
        &self,
        client: &Client,
        decisions: &ReportDecisions<'_>,
    ) -> Result<(), SessionFault> {
        let ReportDecisions { orders, events, payments, images, .. } = decisions;
        macro_rules! column {
            ($rows:expr, $row:pat => $value:expr) => {
                &$rows.iter().map(|$row| $value).collect::<Vec<_>>()
            };
        }
        let reports: Result<Vec<String>, _> =
            events.iter().map(|event| serde_json::to_string(&event.order)).collect();
        let reports =
            reports.map_err(|error| SessionFault::Other(StoreError::Internal(error.to_string())))?;
        let outbox = outbox(events);
        let written = client
            .query(
                &self.write,
                &[
                    column!(orders, row => row.key.0),
                    column!(orders, row => row.key.1),
                    column!(orders, row => row.order.out_order_no.as_str()),
                    column!(orders, row => row.order.open_id.as_str()),
                    column!(orders, row => row.order.order_create_time),
                    column!(orders, row => row.order.order_status),
                    column!(orders, row => row.order.goods_kind.map(GoodsKind::as_str)),
                    column!(orders, row => row.order.order_path.as_str()),
                    column!(orders, row => row.order.product_cover_img_id.as_str()),
                    column!(orders, row => row.order.order_backup_url.as_deref()),
                    column!(orders, row => row.order.poi_id.as_deref()),
                    column!(orders, row => row.order.product_id.as_deref()),
                    column!(orders, row => row.order.product_catalog_code),
                    column!(orders, row => row.order.product_city.as_deref()),
                    column!(orders, row => row.event_count_before),
                    column!(orders, row => row.event_count),
                    column!(payments, (payment, _) => payment.0),
                    column!(payments, (payment, _) => payment.1),
                    column!(payments, (_, order_no) => *order_no),
                    column!(events, row => row.key.0),
                    column!(events, row => row.key.1),
                    column!(events, row => row.seq),
                    column!(events, row => row.order.order_status),
                    &reports,
                    column!(images, image => image.0),
                    column!(images, image => image.1),
                    column!(outbox, row => row.app_id),
                    column!(outbox, row => row.random.as_slice()),
                    column!(outbox, row => row.count),
                    column!(outbox, row => row.keys.as_slice()),
                ],
            )
            .await;
        answered(written).map(drop)
    }
}

/// The events of one app.
struct OrderOutboxRow<'a> {
    app_id: &'a str,
    random: Vec<u8>,
    count: i32,
    keys: Vec<u8>,
}

/// One event for each report that changed an order, in rows of one app.
fn outbox<'a>(events: &[NewEvent<'a>]) -> Vec<OrderOutboxRow<'a>> {
    let mut of_apps: BTreeMap<&str, Vec<(String, i64)>> = BTreeMap::new();
    for event in events {
        of_apps.entry(event.key.0).or_default().push((event.key.1.to_owned(), event.seq));
    }
    let rows = of_apps.iter().flat_map(|(app_id, keys)| {
        EventKeys::in_rows(keys, EventKeys::Orders).map(|(count, keys)| OrderOutboxRow {
            app_id,
            random: random_bytes::<10>().to_vec(),
            count,
            keys,
        })
    });
    rows.collect()
}

/// The position of a row's key in the batch.
fn position(row: &Row) -> Option<usize> {
    // WITH ORDINALITY counts from 1.
    usize::try_from(row.try_get::<_, i64>(0).ok()?.checked_sub(1)?).ok()
}

fn found(row: &Row) -> Option<ReportContext> {
    let is_reported: Option<bool> = row.try_get(3).ok()?;
    let is_blocked = row.try_get(2).ok()?;
    let event_count: Option<i64> = row.try_get(7).ok()?;
    Some(ReportContext {
        open_id: row.try_get(1).ok()?,
        image: is_reported.map(|is_reported| FoundImage { is_blocked, is_reported }),
        poi: row.try_get(4).ok()?,
        preorder: row.try_get(5).ok()?,
        payment_of: row.try_get(6).ok()?,
        order: match event_count {
            Some(event_count) => Some(found_order(row, event_count)?),
            None => None,
        },
    })
}

fn found_order(row: &Row, event_count: i64) -> Option<FoundOrder> {
    let goods_kind: Option<&str> = row.try_get(13).ok()?;
    let order = Order {
        out_order_no: row.try_get(9).ok()?,
        open_id: row.try_get(10).ok()?,
        order_create_time: row.try_get(11).ok()?,
        order_status: row.try_get(12).ok()?,
        goods_kind: goods_kind.map(GoodsKind::parse).transpose().ok()?,
        order_path: row.try_get(14).ok()?,
        product_cover_img_id: row.try_get(15).ok()?,
        order_backup_url: row.try_get(16).ok()?,
        poi_id: row.try_get(17).ok()?,
        product_id: row.try_get(18).ok()?,
        product_catalog_code: row.try_get(19).ok()?,
        product_city: row.try_get(20).ok()?,
    };
    Some(FoundOrder { order, event_count, reported_create_time: row.try_get(8).ok()? })
}

fn damaged() -> SessionFault {
    SessionFault::Other(StoreError::damaged("orders"))
}
