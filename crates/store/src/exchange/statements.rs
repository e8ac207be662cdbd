//! The SQL of a batch.
//!
//! The compiler does not check these statements. Each session prepares all of them when it opens.

use futures_util::future::{join3, join4};
use tokio_postgres::{Client, Error, Statement};

/// How long an exchange is replayed (contract 3.3.4).
pub(super) const REPLAY_HOURS: i32 = 48;

/// Columns of a wallet, as `rows.rs` reads them.
const WALLET_COLUMNS: &str = "w.free_balance, w.charge_balance, w.entry_count, w.chain_hash";

/// Columns of an idempotency record, as `rows.rs` reads them. The first parameter is
/// [`REPLAY_HOURS`].
const RECORD_COLUMNS: &str = "\
x.open_id, x.zone_id, x.amount, x.pay_priority, x.product_name, x.product_info, x.product_desc, x.extension,
e.free_balance, e.charge_balance, clock_timestamp() >= x.created_at + make_interval(hours => $1)";

/// Reads the wallet and the idempotency record of each exchange of a batch. It locks nothing.
const READ_FROM: &str = "\
FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS k (app_id, open_id, biz_no, position)
LEFT JOIN wallets w ON w.app_id = k.app_id AND w.open_id = k.open_id
LEFT JOIN exchanges x ON x.app_id = k.app_id AND x.biz_no = k.biz_no
LEFT JOIN ledger_entries e ON e.app_id = x.app_id AND e.open_id = x.open_id AND e.seq = x.seq";

/// Locks the wallets of a batch in the order of their keys and reads them. After a wait for a lock
/// PostgreSQL reads the row again.
const LOCK_FROM: &str = "\
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (app_id, open_id, position)
JOIN wallets w ON w.app_id = k.app_id AND w.open_id = k.open_id
ORDER BY k.position FOR UPDATE OF w";

/// Lists the wallets of a batch that exist.
const PRESENT: &str = "\
SELECT k.position FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (app_id, open_id, position)
JOIN wallets w ON w.app_id = k.app_id AND w.open_id = k.open_id";

/// Reads the idempotency records of a batch. It must be a later statement than the lock. Only then it
/// sees the commit of the transaction that held the lock before.
const RECORDS_FROM: &str = "\
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS k (app_id, biz_no, position)
JOIN exchanges x ON x.app_id = k.app_id AND x.biz_no = k.biz_no
JOIN ledger_entries e ON e.app_id = x.app_id AND e.open_id = x.open_id AND e.seq = x.seq";

/// Reads the database's time after the wallets are locked.
const NOW: &str = "SELECT clock_timestamp()";

/// Writes idempotency records, ledger entries and balances. COMMIT follows without a wait, so a
/// conflict must fail here: a `biz_no` that another transaction has recorded violates the primary
/// key, and a wallet that has changed causes a division by zero.
///
/// `unnest` stands in the list of columns, where all arrays advance together, row by row. In FROM,
/// PostgreSQL would first copy each array to a tuple store. That is a third of the statement's
/// cost.
const WRITE: &str = "\
WITH recorded AS (
    INSERT INTO exchanges (app_id, biz_no, open_id, seq, amount, pay_priority, zone_id, os, ts, user_ip,
        product_name, product_info, product_desc, extension, created_at)
    SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::bigint[]),
        unnest($5::bigint[]), unnest($6::smallint[]), unnest($7::text[]), unnest($8::text[]),
        unnest($9::bigint[]), unnest($10::text[]), unnest($11::text[]), unnest($12::text[]),
        unnest($13::text[]), unnest($14::text[]), $25::timestamptz
), entered AS (
    INSERT INTO ledger_entries (app_id, open_id, seq, kind, reference, free_change, charge_change,
        free_balance, charge_balance, chain_hash, at)
    SELECT unnest($1::text[]), unnest($3::text[]), unnest($4::bigint[]), 'exchange', unnest($2::text[]),
        unnest($15::bigint[]), unnest($16::bigint[]), unnest($17::bigint[]), unnest($18::bigint[]),
        unnest($26::bytea[]), $25::timestamptz
), changed AS (
    UPDATE wallets w SET free_balance = c.free_balance, charge_balance = c.charge_balance,
        entry_count = c.entry_count, chain_hash = c.chain_hash
    FROM (
        SELECT unnest($19::text[]) AS app_id, unnest($20::text[]) AS open_id,
            unnest($21::bigint[]) AS free_balance, unnest($22::bigint[]) AS charge_balance,
            unnest($23::bigint[]) AS entry_count_before, unnest($24::bigint[]) AS entry_count,
            unnest($27::bytea[]) AS chain_hash
    ) AS c
    WHERE w.app_id = c.app_id AND w.open_id = c.open_id AND w.entry_count = c.entry_count_before
    RETURNING 1
)
SELECT 1 / (count(*) = cardinality($19::text[]))::integer FROM changed";

/// The prepared statements of a session.
pub(super) struct PreparedStatements {
    pub(super) read: Statement,
    pub(super) lock: Statement,
    pub(super) lock_skipping_held: Statement,
    pub(super) present: Statement,
    pub(super) records: Statement,
    pub(super) now: Statement,
    pub(super) write: Statement,
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
        let (lock, lock_skipping_held, present) =
            join3(client.prepare(&lock), client.prepare(&lock_skipping_held), client.prepare(PRESENT)).await;
        let (now, read, records, write) = join4(
            client.prepare(NOW),
            client.prepare(&read),
            client.prepare(&records),
            client.prepare(WRITE),
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
        })
    }
}
