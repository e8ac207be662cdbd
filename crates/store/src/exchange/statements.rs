//! The SQL of a batch.
//!
//! The compiler does not check these statements. Each session prepares all of them when it opens.

use futures_util::future::join4;
use tokio_postgres::{Client, Error, Statement};

/// How long an exchange is replayed (contract 3.3.4).
pub(super) const REPLAY_HOURS: i32 = 48;

/// Columns of a wallet, as `rows.rs` reads them.
const WALLET_COLUMNS: &str = "w.wallet_no, w.free_balance, w.charge_balance, w.entry_count, w.chain_hash";

/// Columns of an idempotency record, as `rows.rs` reads them. The first parameter is
/// [`REPLAY_HOURS`].
const RECORD_COLUMNS: &str = "\
xw.open_id, x.zone_id, -(x.free_change + x.charge_change), x.pay_priority, x.item_id, x.extension,
x.free_balance, x.charge_balance, clock_timestamp() >= x.at + make_interval(hours => $1)";

/// Reads the wallet and the idempotency record of each exchange of a batch. It locks nothing.
const READ_FROM: &str = "\
FROM unnest($2::integer[], $3::text[], $4::text[]) WITH ORDINALITY AS k (app_no, open_id, biz_no, position)
LEFT JOIN wallets w ON w.app_no = k.app_no AND w.open_id = k.open_id
LEFT JOIN ledger_entries x ON x.app_no = k.app_no AND x.reference = k.biz_no
LEFT JOIN wallets xw ON xw.app_no = x.app_no AND xw.wallet_no = x.wallet_no";

/// Locks the wallets of a batch in the order of their keys and reads them. After a wait for a lock
/// PostgreSQL reads the row again.
const LOCK_FROM: &str = "\
FROM unnest($1::integer[], $2::text[]) WITH ORDINALITY AS k (app_no, open_id, position)
JOIN wallets w ON w.app_no = k.app_no AND w.open_id = k.open_id
ORDER BY k.position FOR UPDATE OF w";

/// Lists the wallets of a batch that exist.
const PRESENT: &str = "\
SELECT k.position FROM unnest($1::integer[], $2::text[]) WITH ORDINALITY AS k (app_no, open_id, position)
JOIN wallets w ON w.app_no = k.app_no AND w.open_id = k.open_id";

/// Reads the idempotency records of a batch. It must be a later statement than the lock. Only then it
/// sees the commit of the transaction that held the lock before.
const RECORDS_FROM: &str = "\
FROM unnest($2::integer[], $3::text[]) WITH ORDINALITY AS k (app_no, biz_no, position)
JOIN ledger_entries x ON x.app_no = k.app_no AND x.reference = k.biz_no
JOIN wallets xw ON xw.app_no = x.app_no AND xw.wallet_no = x.wallet_no";

/// Reads the database's time after the wallets are locked.
const NOW: &str = "SELECT clock_timestamp()";

/// Stores items that the database may not have. Another transaction may store the same.
const ITEMS: &str = "\
itemised AS (
    INSERT INTO items (app_no, item_id, product_name, product_info, product_desc)
    SELECT unnest($26::integer[]), unnest($27::bytea[]), unnest($28::text[]), unnest($29::text[]),
        unnest($30::text[])
    ON CONFLICT DO NOTHING
),";

/// Writes ledger entries and balances. An entry is its idempotency record, too. COMMIT follows without
/// a wait, so a conflict must fail here: a `biz_no` that another transaction has recorded violates the
/// primary key, and a wallet that has changed causes a division by zero.
///
/// `unnest` stands in the list of columns, where all arrays advance together, row by row. In FROM,
/// PostgreSQL would first copy each array to a tuple store. That is a third of the statement's
/// cost.
const WRITE: &str = "\
entered AS (
    INSERT INTO ledger_entries (app_no, wallet_no, seq, kind, reference, free_change, charge_change,
        free_balance, charge_balance, chain_hash, pay_priority, ts, item_id, zone_id, os, user_ip,
        extension, at)
    SELECT unnest($1::integer[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::text[]),
        unnest($5::text[]), unnest($6::bigint[]), unnest($7::bigint[]), unnest($8::bigint[]),
        unnest($9::bigint[]), unnest($10::bytea[]), unnest($11::smallint[]), unnest($12::bigint[]),
        unnest($13::bytea[]), unnest($14::text[]), unnest($15::text[]), unnest($16::text[]),
        unnest($17::text[]), $18::timestamptz
), changed AS (
    UPDATE wallets w SET free_balance = c.free_balance, charge_balance = c.charge_balance,
        entry_count = c.entry_count, chain_hash = c.chain_hash
    FROM (
        SELECT unnest($19::integer[]) AS app_no, unnest($20::bigint[]) AS wallet_no,
            unnest($21::bigint[]) AS free_balance, unnest($22::bigint[]) AS charge_balance,
            unnest($23::bigint[]) AS entry_count_before, unnest($24::bigint[]) AS entry_count,
            unnest($25::bytea[]) AS chain_hash
    ) AS c
    WHERE w.app_no = c.app_no AND w.wallet_no = c.wallet_no AND w.entry_count = c.entry_count_before
    RETURNING 1
)
SELECT 1 / (count(*) = cardinality($19::integer[]))::integer FROM changed";

/// The prepared statements of a session.
pub(super) struct PreparedStatements {
    pub(super) read: Statement,
    pub(super) lock: Statement,
    pub(super) lock_skipping_held: Statement,
    pub(super) present: Statement,
    pub(super) records: Statement,
    pub(super) now: Statement,
    pub(super) write: Statement,
    pub(super) write_with_items: Statement,
}

impl PreparedStatements {
    /// Prepares the statements, which checks them against the schema.
    pub(super) async fn prepare(client: &Client) -> Result<Self, Error> {
        let read = format!(
            "SELECT k.position, {WALLET_COLUMNS}, {RECORD_COLUMNS}, statement_timestamp() {READ_FROM}"
        );
        let lock = format!("SELECT k.position, {WALLET_COLUMNS} {LOCK_FROM}");
        let lock_skipping_held = format!("{lock} SKIP LOCKED");
        let records = format!("SELECT k.position, {RECORD_COLUMNS} {RECORDS_FROM}");
        let (write, write_with_items) = (format!("WITH {WRITE}"), format!("WITH {ITEMS} {WRITE}"));
        let (lock, lock_skipping_held, present, now) = join4(
            client.prepare(&lock),
            client.prepare(&lock_skipping_held),
            client.prepare(PRESENT),
            client.prepare(NOW),
        )
        .await;
        let (read, records, write, write_with_items) = join4(
            client.prepare(&read),
            client.prepare(&records),
            client.prepare(&write),
            client.prepare(&write_with_items),
        )
        .await;
        Ok(Self {
            read: read?,
            lock: lock?,
            lock_skipping_held: lock_skipping_held?,
            present: present?,
            records: records?,
            now: now?,
            write: write?,
            write_with_items: write_with_items?,
        })
    }
}
