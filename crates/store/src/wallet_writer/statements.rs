//! The SQL of a batch.
//!
//! The compiler does not check these statements. Each session prepares all of them when it opens. `{app}` stands for the
//! app of a key ([`Engine::key`]), `{numbers}` for what has all numbers that were ever used.

use std::ops::RangeInclusive;

use futures_util::future::{join3, join5, try_join, try_join4};
use tokio_postgres::{Client, Error, Statement};

use crate::engine::Engine;

/// Columns of a wallet, as `rows.rs` reads them.
const WALLET_COLUMNS: &str = "w.wallet_no, w.free_balance, w.charge_balance, w.entry_count, w.chain_hash";

/// Columns of a record, as `rows.rs` reads them. The first parameter is [`domain::wallet::REPLAY_HOURS`]. The last cancel of an exchange
/// has what is left of it. Only a known exchange is looked up for it.
const RECORD_COLUMNS: &str = "\
x.wallet_no, x.kind, x.free_change, x.charge_change, x.free_balance, x.charge_balance,
CASE WHEN x.kind = 'exchange' THEN coalesce(
    (SELECT c.remaining FROM {numbers} c WHERE c.app_no = {app} AND c.of_biz_no = x.reference
     ORDER BY c.remaining LIMIT 1), -(x.free_change + x.charge_change)) ELSE x.remaining END,
x.of_biz_no, x.pay_priority, x.item_id, x.zone_id, x.extension, x.remark, x.at,
clock_timestamp() >= x.at + make_interval(hours => $1)";

/// Reads the wallet of each request of a batch and the records of its numbers. It locks nothing.
const READ_FROM: &str = "\
FROM unnest($2::integer[], $3::text[], $4::text[]) WITH ORDINALITY AS k (app_no, open_id, number, position)
LEFT JOIN wallets w ON w.app_no = {app} AND w.open_id = k.open_id
LEFT JOIN {numbers} x ON x.app_no = {app} AND x.reference = k.number";

/// Locks the wallets of a batch in the order of their keys and reads them. After a wait for a lock
/// PostgreSQL reads the row again.
const LOCK_FROM: &str = "\
FROM unnest($1::integer[], $2::text[]) WITH ORDINALITY AS k (app_no, open_id, position)
JOIN wallets w ON w.app_no = {app} AND w.open_id = k.open_id
ORDER BY k.position FOR UPDATE OF w";

/// Lists the wallets of a batch that exist.
const EXISTING: &str = "\
SELECT k.position, w.wallet_no
FROM unnest($1::integer[], $2::text[]) WITH ORDINALITY AS k (app_no, open_id, position)
JOIN wallets w ON w.app_no = {app} AND w.open_id = k.open_id";

/// Reads the records of a batch. It must be a later statement than the lock. Only then it sees the commit of the
/// transaction that held the lock before.
const RECORDS_FROM: &str = "\
FROM unnest($2::integer[], $3::text[]) WITH ORDINALITY AS k (app_no, number, position)
JOIN {numbers} x ON x.app_no = {app} AND x.reference = k.number";

/// Reads what queries show of exchanges besides their records. It must be a later statement than the one that reads the
/// records, so that each of them has its detail. One cancel more than is shown tells that there are more.
const DETAILS: &str = "\
SELECT k.position, coalesce(i.product_name, ''), coalesce(g.remaining, -(x.free_change + x.charge_change)),
    c.references, c.amounts, c.at
FROM unnest($1::integer[], $2::text[]) WITH ORDINALITY AS k (app_no, number, position)
JOIN {numbers} x ON x.app_no = {app} AND x.reference = k.number AND x.kind = 'exchange'
LEFT JOIN items i ON i.app_no = {app} AND i.item_id = x.item_id
LEFT JOIN LATERAL (
    SELECT e.remaining FROM {numbers} e WHERE e.app_no = {app} AND e.of_biz_no = x.reference
    ORDER BY e.remaining LIMIT 1) g ON true
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(e.reference ORDER BY e.remaining DESC), '{}') AS references,
        coalesce(array_agg(e.free_change + e.charge_change ORDER BY e.remaining DESC), '{}') AS amounts,
        coalesce(array_agg(e.at ORDER BY e.remaining DESC), '{}') AS at
    FROM (
        SELECT e.* FROM {numbers} e WHERE e.app_no = {app} AND e.of_biz_no = x.reference
        ORDER BY e.remaining DESC LIMIT 101) e) c";

/// Reads the database's time after the wallets are locked.
pub(super) const NOW: &str = "SELECT clock_timestamp()";

/// Stores items that the database may not have. Another transaction may store the same.
const ITEMS: &str = "\
INSERT INTO items (app_no, item_id, product_name, product_info, product_desc)
SELECT {item_app}, unnest($37::bytea[]), unnest($38::text[]), unnest($39::text[]), unnest($40::text[])
ON CONFLICT DO NOTHING";

/// Writes ledger entries and closed numbers. A reference that another transaction has used violates the primary key.
///
/// `unnest` stands in the list of columns, where all arrays advance together, row by row. In FROM,
/// PostgreSQL would first copy each array to a tuple store. That is a third of the statement's
/// cost.
///
/// Entries whose time is a minute old cause a division by zero, as a wallet that has changed does: then the batch reads
/// again, and has a new time. So a period gets no more entries soon after its end ([`crate::books`]).
const ENTER: &str = "\
INSERT INTO ledger_entries (app_no, wallet_no, seq, kind, reference, free_change, charge_change,
    free_balance, charge_balance, chain_hash, pay_priority, ts, item_id, zone_id, os, user_ip,
    extension, remark, of_biz_no, remaining, at)
SELECT {entry_app}, unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::text[]),
    unnest($5::text[]), unnest($6::bigint[]), unnest($7::bigint[]), unnest($8::bigint[]),
    unnest($9::bigint[]), unnest($10::bytea[]), unnest($11::smallint[]), unnest($12::bigint[]),
    unnest($13::bytea[]), unnest($14::text[]), unnest($15::text[]), unnest($16::text[]),
    unnest($17::text[]), unnest($18::text[]), unnest($19::text[]), unnest($20::bigint[]), $21::timestamptz
WHERE 1 / ($21::timestamptz > statement_timestamp() - interval '1 minute')::integer = 1";

/// Writes balances.
const CHANGE: &str = "\
UPDATE wallets w SET free_balance = c.free_balance, charge_balance = c.charge_balance,
    entry_count = {entry_count}, chain_hash = c.chain_hash
FROM (
    SELECT {wallet_app} AS app_no, unnest($23::bigint[]) AS wallet_no,
        unnest($24::bigint[]) AS free_balance, unnest($25::bigint[]) AS charge_balance,
        unnest($26::bigint[]) AS entry_count_before, unnest($27::bigint[]) AS entry_count,
        unnest($28::bytea[]) AS chain_hash, unnest($29::text[]) AS open_id
) AS c
WHERE w.app_no = {changed_app} AND w.wallet_no = c.wallet_no";

/// Whether a wallet is as it was read. The player of a wallet that was erased meanwhile is another
/// ([`crate::player_erasure`]).
const UNCHANGED: &str = "w.entry_count = c.entry_count_before AND w.open_id = c.open_id";

/// Writes the events of the entries.
const TELL: &str = "\
INSERT INTO wallet_outbox (app_no, row_id, type, count, keys, at)
SELECT {outbox_app}, unnest($31::bytea[]), unnest($32::text[]), unnest($33::integer[]), unnest($34::bytea[]),
    $35::timestamptz";

/// The parameters of [`CHANGE`].
const OF_CHANGE: RangeInclusive<usize> = 22..=29;
/// The parameters of [`TELL`].
const OF_TELL: RangeInclusive<usize> = 30..=35;
/// The parameters of [`ITEMS`].
const OF_ITEMS: RangeInclusive<usize> = 36..=40;

/// Locks the wallets of a batch and reads them.
pub(super) fn lock(engine: Engine) -> String {
    fill(engine, 1, &format!("SELECT k.position, {WALLET_COLUMNS} {LOCK_FROM}"))
}

/// Lists the wallets of a batch that exist.
pub(super) fn existing(engine: Engine) -> String {
    fill(engine, 1, EXISTING)
}

/// Reads the records of a batch.
pub(super) fn records(engine: Engine) -> String {
    fill(engine, 2, &format!("SELECT k.position, {RECORD_COLUMNS} {RECORDS_FROM}"))
}

/// Writes a batch, with items that the database may not have. COMMIT follows without a wait, so a conflict must fail
/// here: a wallet that has changed causes a division by zero.
pub(super) fn write(engine: Engine, with_items: bool) -> String {
    let items = if with_items { format!("itemised AS ({ITEMS}), ") } else { String::new() };
    let change = CHANGE.replace("{entry_count}", "c.entry_count");
    let sql = format!(
        "WITH {items}entered AS ({ENTER}), told AS ({TELL}), changed AS ({change} AND {UNCHANGED} RETURNING 1)
         SELECT 1 / (count(*) = cardinality($22::integer[]))::integer FROM changed"
    );
    fill_apps(&sql, |column, parameter| engine.key(column, parameter, "integer"))
}

/// The same as statements of one transaction: the items, the entries, the balances of wallets that exist, and the events.
/// Citus plans them in half of the time.
pub(super) fn write_apart() -> [String; 4] {
    let unchanged = format!("c.entry_count / ({UNCHANGED})::integer");
    let (items, change) = (from_one(ITEMS, OF_ITEMS), from_one(CHANGE, OF_CHANGE));
    let tell = from_one(TELL, OF_TELL);
    let change = change.replace("{entry_count}", &unchanged);
    // Each of them has its apps as its first parameter.
    [items, ENTER.to_owned(), change, tell]
        .map(|sql| fill_apps(&sql, |_, _| Engine::Citus.key("", 1, "integer")))
}

/// Numbers the parameters from 1.
fn from_one(sql: &str, parameters: RangeInclusive<usize>) -> String {
    let first = *parameters.start();
    parameters.fold(sql.to_owned(), |sql, number| {
        sql.replace(&format!("${number}::"), &format!("${}::", number - first + 1))
    })
}

fn fill_apps(sql: &str, app: impl Fn(&str, u8) -> String) -> String {
    sql.replace("{entry_app}", &app("unnest($1::integer[])", 1))
        .replace("{wallet_app}", &app("unnest($22::integer[])", 1))
        .replace("{changed_app}", &app("c.app_no", 1))
        .replace("{outbox_app}", &app("unnest($30::integer[])", 30))
        .replace("{item_app}", &app("unnest($36::integer[])", 36))
}

/// Fills in the app of a key, and what has all numbers. The apps of a batch are the parameter. On Citus nothing is
/// archived, and it plans every statement anew.
fn fill(engine: Engine, parameter: u8, sql: &str) -> String {
    let numbers = match engine {
        Engine::Postgres => "numbers",
        Engine::Citus => "ledger_entries",
    };
    sql.replace("{app}", &engine.key("k.app_no", parameter, "integer")).replace("{numbers}", numbers)
}

/// The prepared statements of a session.
pub(super) struct PreparedStatements {
    pub(super) read: Statement,
    pub(super) lock: Statement,
    pub(super) lock_skipping_held: Statement,
    pub(super) existing: Statement,
    pub(super) details: Statement,
    pub(super) records: Statement,
    pub(super) now: Statement,
    pub(super) write: Writing,
}

/// The statements that write a batch.
pub(super) enum Writing {
    /// One statement, without and with items.
    Together { without_items: Statement, with_items: Statement },
    /// One after the other, in one transaction.
    Apart { items: Statement, entries: Statement, wallets: Statement, outbox: Statement },
}

impl Writing {
    async fn prepare(client: &Client, engine: Engine) -> Result<Self, Error> {
        match engine {
            Engine::Postgres => {
                let (without_items, with_items) = (write(engine, false), write(engine, true));
                let (without_items, with_items) =
                    try_join(client.prepare(&without_items), client.prepare(&with_items)).await?;
                Ok(Self::Together { without_items, with_items })
            }
            Engine::Citus => {
                let [items, entries, wallets, outbox] = write_apart();
                let (items, entries, wallets, outbox) = try_join4(
                    client.prepare(&items),
                    client.prepare(&entries),
                    client.prepare(&wallets),
                    client.prepare(&outbox),
                )
                .await?;
                Ok(Self::Apart { items, entries, wallets, outbox })
            }
        }
    }
}

impl PreparedStatements {
    /// Prepares the statements, which checks them against the schema.
    pub(super) async fn prepare(client: &Client, engine: Engine) -> Result<Self, Error> {
        let read = format!(
            "SELECT k.position, {WALLET_COLUMNS}, {RECORD_COLUMNS}, statement_timestamp() {READ_FROM}"
        );
        let read = fill(engine, 2, &read);
        let (lock, records) = (lock(engine), records(engine));
        let (existing, details) = (existing(engine), fill(engine, 1, DETAILS));
        let lock_skipping_held = format!("{lock} SKIP LOCKED");
        let (lock, lock_skipping_held, existing, now, details) = join5(
            client.prepare(&lock),
            client.prepare(&lock_skipping_held),
            client.prepare(&existing),
            client.prepare(NOW),
            client.prepare(&details),
        )
        .await;
        let (read, records, write) =
            join3(client.prepare(&read), client.prepare(&records), Writing::prepare(client, engine)).await;
        Ok(Self {
            read: read?,
            lock: lock?,
            lock_skipping_held: lock_skipping_held?,
            existing: existing?,
            details: details?,
            records: records?,
            now: now?,
            write: write?,
        })
    }
}
