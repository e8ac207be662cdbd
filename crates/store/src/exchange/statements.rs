//! The statements of a batch, and what goes into them and comes out of them.
//!
//! The compiler does not check them: every session prepares them all when it is opened.

use domain::exchange::Balances;
use domain::ledger::{ChainHash, LedgerEntry, micros};
use futures_util::future::{join, join3};
use time::OffsetDateTime;
use tokio_postgres::{Client, Error, Row, Statement};

use super::batch::{Batch, Record, RecordedContent, WalletState};
use super::session::Fault;
use crate::StoreError;

/// How long the first success is answered again (contract 3).
pub(super) const REPLAY_HOURS: i32 = 48;

/// A wallet, as [`wallet`] reads it.
const WALLET_COLUMNS: &str = "w.free_balance, w.charge_balance, w.entry_count, w.chain_length, w.chain_hash";

/// How many entries [`UNCHAINED`] gives at most.
pub(super) const UNCHAINED_MAX: i64 = 10_000;

/// What is recorded under a number, as [`record`] reads it. The first parameter is [`REPLAY_HOURS`].
const RECORD_COLUMNS: &str = "\
x.open_id, x.zone_id, x.amount, x.pay_priority, x.product_name, x.product_info, x.product_desc, x.extension,
e.free_balance, e.charge_balance, clock_timestamp() >= x.created_at + make_interval(hours => $1)";

/// What a batch needs to know, a row for each of its exchanges: its wallet, and what is recorded
/// under its number. Nothing is locked.
const READ_FROM: &str = "\
FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS k (app_id, open_id, biz_no, place)
LEFT JOIN wallets w ON w.app_id = k.app_id AND w.open_id = k.open_id
LEFT JOIN exchanges x ON x.app_id = k.app_id AND x.biz_no = k.biz_no
LEFT JOIN ledger_entries e ON e.app_id = x.app_id AND e.open_id = x.open_id AND e.seq = x.seq";

/// Locks the wallets of the batch in the order of their keys, and gives them as they are then:
/// after a wait for the lock PostgreSQL reads the row anew.
const LOCK_FROM: &str = "\
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (app_id, open_id, place)
JOIN wallets w ON w.app_id = k.app_id AND w.open_id = k.open_id
ORDER BY k.place FOR UPDATE OF w";

/// Which of the wallets are there at all.
const KNOWN: &str = "\
SELECT k.place FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (app_id, open_id, place)
JOIN wallets w ON w.app_id = k.app_id AND w.open_id = k.open_id";

/// What is recorded under the numbers of the batch. Must be a later statement than the lock: only
/// then does it see what the transaction that held the lock before has committed.
const RECORDS_FROM: &str = "\
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS k (app_id, biz_no, place)
JOIN exchanges x ON x.app_id = k.app_id AND x.biz_no = k.biz_no
JOIN ledger_entries e ON e.app_id = x.app_id AND e.open_id = x.open_id AND e.seq = x.seq";

/// The database's time, once the wallets are locked.
const NOW: &str = "SELECT clock_timestamp()";

/// Entries of a wallet behind the one that its chain reaches, up to the last that was read.
const UNCHAINED: &str = "\
SELECT seq, kind, reference, free_change, charge_change, free_balance, charge_balance, at FROM ledger_entries
WHERE app_id = $1 AND open_id = $2 AND seq > $3 AND seq <= $4 ORDER BY seq LIMIT $5";

/// Writes idempotency records, ledger entries and balances. COMMIT is sent right behind it, so what
/// must not be committed has to fail here: a number that another transaction has just recorded
/// violates the record's key, and a wallet that is not as it was read divides by zero.
///
/// The arrays are taken apart in the list of columns, where they advance together, row by row. In
/// FROM each of them would first be written to a store of its own: a third of the statement's cost.
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
        entry_count = c.entry_count, chain_length = c.entry_count, chain_hash = c.chain_hash
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

pub(super) struct Statements {
    pub(super) read: Statement,
    pub(super) lock: Statement,
    pub(super) lock_free_ones: Statement,
    pub(super) known: Statement,
    pub(super) records: Statement,
    pub(super) now: Statement,
    pub(super) unchained: Statement,
    pub(super) write: Statement,
}

impl Statements {
    /// Checks the statements against the schema, and makes them ready.
    pub(super) async fn prepare(client: &Client) -> Result<Self, Error> {
        let read =
            format!("SELECT k.place, {WALLET_COLUMNS}, {RECORD_COLUMNS}, statement_timestamp() {READ_FROM}");
        let lock = format!("SELECT k.place, {WALLET_COLUMNS} {LOCK_FROM}");
        let lock_free_ones = format!("{lock} SKIP LOCKED");
        let records = format!("SELECT k.place, {RECORD_COLUMNS} {RECORDS_FROM}");
        let (lock, lock_free_ones, known) =
            join3(client.prepare(&lock), client.prepare(&lock_free_ones), client.prepare(KNOWN)).await;
        let (now, unchained) = join(client.prepare(NOW), client.prepare(UNCHAINED)).await;
        let (read, records, write) =
            join3(client.prepare(&read), client.prepare(&records), client.prepare(WRITE)).await;
        Ok(Self {
            read: read?,
            lock: lock?,
            lock_free_ones: lock_free_ones?,
            known: known?,
            records: records?,
            now: now?,
            unchained: unchained?,
            write: write?,
        })
    }
}

fn damaged(what: &str) -> Fault {
    Fault::Other(StoreError::damaged(what))
}

/// The place of a row's key in the batch.
fn place(row: &Row) -> Option<usize> {
    // WITH ORDINALITY counts from 1.
    usize::try_from(row.try_get::<_, i64>(0).ok()?.checked_sub(1)?).ok()
}

/// What the database holds of a batch, in the order of the batch's keys, and when that was so.
pub(super) struct Known {
    pub(super) wallets: Vec<WalletState>,
    pub(super) records: Vec<Option<Record>>,
    pub(super) at: OffsetDateTime,
    /// Wallets whose chain an older program has left behind: their place among the batch's, and the
    /// entry that it reaches.
    pub(super) unchained: Vec<(usize, i64)>,
}

impl Known {
    pub(super) fn nothing(batch: &Batch<'_>) -> Self {
        Self {
            wallets: vec![WalletState::Unknown; batch.wallets.names.len()],
            records: vec![None; batch.numbers.names.len()],
            at: OffsetDateTime::UNIX_EPOCH,
            unchained: Vec::new(),
        }
    }

    /// From the rows of [`Statements::read`], one for each exchange.
    pub(super) fn of_read(batch: &Batch<'_>, rows: &[Row]) -> Result<Self, Fault> {
        let mut known = Self::nothing(batch);
        for row in rows {
            let place = place(row).filter(|place| *place < batch.exchanges.len());
            let place = place.ok_or_else(|| damaged("wallets"))?;
            if row.try_get::<_, Option<i64>>(1).map_err(|_| damaged("wallets"))?.is_some() {
                let wallet = found_wallet(row, batch.wallets.place_of[place]);
                known.take_wallet(&wallet.ok_or_else(|| damaged("wallets"))?)?;
            }
            if row.try_get::<_, Option<&str>>(6).map_err(|_| damaged("exchanges"))?.is_some() {
                let record = record(row, 6).map_err(|_| damaged("exchanges"))?;
                known.records[batch.numbers.place_of[place]] = Some(record);
            }
            known.at = row.try_get(17).map_err(|_| damaged("wallets"))?;
        }
        Ok(known)
    }

    /// From what the statements that lock gave, for each key that was found.
    pub(super) fn of_locked(
        batch: &Batch<'_>,
        locked: Vec<FoundWallet>,
        present: Vec<usize>,
        recorded: Vec<(usize, Record)>,
        at: OffsetDateTime,
    ) -> Result<Self, Fault> {
        let mut known = Self { at, ..Self::nothing(batch) };
        // A wallet that is there and was not locked is held by somebody else.
        for place in present {
            *known.wallets.get_mut(place).ok_or_else(|| damaged("wallets"))? = WalletState::Held;
        }
        for wallet in locked {
            known.take_wallet(&wallet)?;
        }
        for (place, record) in recorded {
            *known.records.get_mut(place).ok_or_else(|| damaged("exchanges"))? = Some(record);
        }
        Ok(known)
    }

    pub(super) fn take_wallet(&mut self, found: &FoundWallet) -> Result<(), Fault> {
        let FoundWallet { place, state, chain_length } = *found;
        let known = self.wallets.get_mut(place).ok_or_else(|| damaged("wallets"))?;
        // Two exchanges of a batch may bring the same wallet.
        if let WalletState::Open { entry_count, .. } = state
            && chain_length < entry_count
            && *known != state
        {
            self.unchained.push((place, chain_length));
        }
        *known = state;
        Ok(())
    }

    /// The time of the batch, as ledger entries count it.
    pub(super) fn at(&self) -> i64 {
        micros(self.at)
    }
}

/// A wallet that was found.
pub(super) struct FoundWallet {
    /// Its place among the batch's.
    pub(super) place: usize,
    pub(super) state: WalletState,
    /// The entry that its chain reaches.
    pub(super) chain_length: i64,
}

/// From the rows of [`Statements::lock`].
pub(super) fn locked_wallets(rows: &[Row]) -> Result<Vec<FoundWallet>, Fault> {
    let found = rows.iter().map(|row| found_wallet(row, place(row)?));
    found.map(|wallet| wallet.ok_or_else(|| damaged("wallets"))).collect()
}

/// From the rows of [`Statements::known`].
pub(super) fn places(rows: &[Row]) -> Result<Vec<usize>, Fault> {
    rows.iter().map(|row| place(row).ok_or_else(|| damaged("wallets"))).collect()
}

/// From the rows of [`Statements::records`].
pub(super) fn records(rows: &[Row]) -> Result<Vec<(usize, Record)>, Fault> {
    rows.iter().map(|row| place(row).zip(record(row, 1).ok()).ok_or_else(|| damaged("exchanges"))).collect()
}

/// The wallet in the columns behind the place.
fn found_wallet(row: &Row, place: usize) -> Option<FoundWallet> {
    let balances = Balances::new(row.try_get(1).ok()?, row.try_get(2).ok()?).ok()?;
    let chain_hash = ChainHash::try_from(row.try_get::<_, &[u8]>(5).ok()?).ok()?;
    let state = WalletState::Open { balances, entry_count: row.try_get(3).ok()?, chain_hash };
    Some(FoundWallet { place, state, chain_length: row.try_get(4).ok()? })
}

/// Goes on with the chain of a wallet over a row of [`UNCHAINED`]; gives the entry's place.
pub(super) fn chain_on(
    app_id: &str,
    open_id: &str,
    row: &Row,
    chain_hash: &mut ChainHash,
) -> Result<i64, Error> {
    let entry = LedgerEntry {
        app_id,
        open_id,
        seq: row.try_get(0)?,
        kind: row.try_get(1)?,
        reference: row.try_get(2)?,
        free_change: row.try_get(3)?,
        charge_change: row.try_get(4)?,
        free_balance: row.try_get(5)?,
        charge_balance: row.try_get(6)?,
        at: micros(row.try_get(7)?),
    };
    *chain_hash = entry.chain_hash(chain_hash);
    Ok(entry.seq)
}

/// The record in the columns from `first` on.
fn record(row: &Row, first: usize) -> Result<Record, Error> {
    Ok(Record {
        content: RecordedContent {
            open_id: row.try_get(first)?,
            zone_id: row.try_get(first + 1)?,
            amount: row.try_get(first + 2)?,
            pay_priority: row.try_get(first + 3)?,
            product_name: row.try_get(first + 4)?,
            product_info: row.try_get(first + 5)?,
            product_desc: row.try_get(first + 6)?,
            extension: row.try_get(first + 7)?,
        },
        free_balance: row.try_get(first + 8)?,
        charge_balance: row.try_get(first + 9)?,
        is_expired: row.try_get(first + 10)?,
    })
}
