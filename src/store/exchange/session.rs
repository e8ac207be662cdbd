//! A writer's session with PostgreSQL and the statements of a batch.
//!
//! The other statements of this program go through sqlx. These go through tokio-postgres, because
//! it sends statements without waiting for the answers of those before: a batch is two round trips
//! where it would be six. The session is driven by the writer's own task, without a hop.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::{join, join3, join4};
use sqlx::postgres::PgConnectOptions;
use tokio::time::Instant;
use tokio_postgres::error::Severity;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, NoTls, Row, Statement};

use super::batch::{Batch, Decisions, Deduction, Record, RecordedContent, WalletChange, WalletState};
use super::tls;
use crate::domain::exchange::{Balances, Exchange};
use crate::domain::ids::AppId;
use crate::store::{IDLE_IN_TRANSACTION_TIMEOUT, StoreError};

/// How long the first success is answered again (contract 3).
const REPLAY_HOURS: i32 = 48;
/// How long a batch waits for a wallet that another transaction holds, before it goes on without.
const LOCK_TIMEOUT: Duration = Duration::from_millis(200);
/// How much longer than a statement may run its answer is waited for.
const ANSWER_MARGIN: Duration = Duration::from_secs(1);

/// How old the plans of the statements may be. They follow the sizes of the tables, and a plan for
/// a table that was nearly empty would read the whole of it for every batch once it has grown.
const PLANS_KEPT_FOR: Duration = Duration::from_secs(1);

/// What a batch needs to know, a row for each of its exchanges: its wallet, and what is recorded
/// under its number. Nothing is locked.
const READ: &str = "\
SELECT k.place, w.free_balance, w.charge_balance, w.entry_count,
       x.open_id, x.zone_id, x.amount, x.pay_priority, x.product_name, x.product_info, x.product_desc,
       x.extension, e.free_balance, e.charge_balance,
       clock_timestamp() >= x.created_at + make_interval(hours => $4)
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS k (app_id, open_id, biz_no, place)
LEFT JOIN wallets w ON w.app_id = k.app_id AND w.open_id = k.open_id
LEFT JOIN exchanges x ON x.app_id = k.app_id AND x.biz_no = k.biz_no
LEFT JOIN ledger_entries e ON e.app_id = x.app_id AND e.open_id = x.open_id AND e.seq = x.seq";

/// Locks the wallets of the batch in the order of their keys, and gives them as they are then:
/// after a wait for the lock PostgreSQL reads the row anew.
const LOCK: &str = "\
SELECT k.place, w.free_balance, w.charge_balance, w.entry_count
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (app_id, open_id, place)
JOIN wallets w ON w.app_id = k.app_id AND w.open_id = k.open_id
ORDER BY k.place FOR UPDATE OF w";

/// The same without those that are locked already.
const LOCK_FREE_ONES: &str = "\
SELECT k.place, w.free_balance, w.charge_balance, w.entry_count
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (app_id, open_id, place)
JOIN wallets w ON w.app_id = k.app_id AND w.open_id = k.open_id
ORDER BY k.place FOR UPDATE OF w SKIP LOCKED";

/// Which of the wallets are there at all.
const KNOWN: &str = "\
SELECT k.place FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (app_id, open_id, place)
JOIN wallets w ON w.app_id = k.app_id AND w.open_id = k.open_id";

/// What is recorded under the numbers of the batch. Must be a later statement than the lock: only
/// then does it see what the transaction that held the lock before has committed.
const RECORDS: &str = "\
SELECT k.place, x.open_id, x.zone_id, x.amount, x.pay_priority, x.product_name, x.product_info, x.product_desc,
       x.extension, e.free_balance, e.charge_balance,
       clock_timestamp() >= x.created_at + make_interval(hours => $3)
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (app_id, biz_no, place)
JOIN exchanges x ON x.app_id = k.app_id AND x.biz_no = k.biz_no
JOIN ledger_entries e ON e.app_id = x.app_id AND e.open_id = x.open_id AND e.seq = x.seq";

/// Writes idempotency records, ledger entries and balances. COMMIT is sent right behind it, so what
/// must not be committed has to fail here: a number that another transaction has just recorded
/// violates the record's key, and a wallet that is not as it was read divides by zero.
const WRITE: &str = "\
WITH deducted AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::smallint[],
        $7::text[], $8::text[], $9::bigint[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[],
        $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[])
    AS d (app_id, biz_no, open_id, seq, amount, pay_priority, zone_id, os, ts, user_ip, product_name,
        product_info, product_desc, extension, free_change, charge_change, free_balance, charge_balance)
), recorded AS (
    INSERT INTO exchanges (app_id, biz_no, open_id, seq, amount, pay_priority, zone_id, os, ts, user_ip,
        product_name, product_info, product_desc, extension)
    SELECT app_id, biz_no, open_id, seq, amount, pay_priority, zone_id, os, ts, user_ip,
        product_name, product_info, product_desc, extension FROM deducted
), entered AS (
    INSERT INTO ledger_entries (app_id, open_id, seq, kind, reference, free_change, charge_change,
        free_balance, charge_balance)
    SELECT app_id, open_id, seq, 'exchange', biz_no, free_change, charge_change, free_balance, charge_balance
    FROM deducted
), changed AS (
    UPDATE wallets w SET free_balance = c.free_balance, charge_balance = c.charge_balance,
        entry_count = c.entry_count
    FROM unnest($19::text[], $20::text[], $21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[])
        AS c (app_id, open_id, free_balance, charge_balance, entry_count_before, entry_count)
    WHERE w.app_id = c.app_id AND w.open_id = c.open_id AND w.entry_count = c.entry_count_before
    RETURNING 1
)
SELECT 1 / (count(*) = cardinality($19::text[]))::integer FROM changed";

/// Names of the constraints that two transactions for one number can meet at.
const RACED_CONSTRAINTS: [&str; 2] = ["exchanges_pkey", "ledger_entries_pkey"];

/// How a session is opened.
#[derive(Debug, Clone)]
pub(in crate::store) struct Opening {
    pub(in crate::store) options: PgConnectOptions,
    pub(in crate::store) connect_timeout: Duration,
    pub(in crate::store) statement_timeout: Duration,
}

/// Why a batch was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// The whole transaction is to be run again.
    Again,
    /// Somebody else holds a lock for long.
    Blocked,
    /// The session is gone. Whether a COMMIT that was on its way has happened is not known.
    Lost(String),
    /// Anything else; the session can go on.
    Other(StoreError),
}

/// One session, outside any transaction between two batches.
pub(super) struct Session {
    client: Client,
    connection: Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>,
    statements: Statements,
    answer_timeout: Duration,
    planned_at: Instant,
}

struct Statements {
    read: Statement,
    lock: Statement,
    lock_free_ones: Statement,
    known: Statement,
    records: Statement,
    write: Statement,
}

impl Session {
    /// Connects, and prepares everything a batch needs. A database that refuses is away; a session
    /// that was made and ended meanwhile is lost, and another may do better.
    pub(super) async fn open(opening: &Opening) -> Result<Self, Fault> {
        let connecting = tokio::time::timeout(opening.connect_timeout, connect(&opening.options));
        let (client, mut connection) = connecting
            .await
            .map_err(|_| Fault::Other(StoreError::Unavailable("it does not answer".to_owned())))??;
        let answer_timeout = opening.statement_timeout + ANSWER_MARGIN;
        let statements = drive(&mut connection, answer_timeout, prepare(&client, opening)).await?;
        Ok(Self { client, connection, statements, answer_timeout, planned_at: Instant::now() })
    }

    /// Waits until the session ends by itself, as when the database goes away.
    pub(super) async fn ended(&mut self) {
        let _ = (&mut self.connection).await;
    }

    /// Reads what the batch needs, without a lock: [`Session::write`] finds out when it changes.
    pub(super) async fn read(&mut self, batch: &Batch<'_>) -> Result<Known, Fault> {
        let forgets_plans = self.forgets_plans();
        let Self { client, connection, statements, answer_timeout, .. } = self;
        let app_ids: Vec<&str> = batch.exchanges.iter().map(|(app_id, _)| app_id.as_str()).collect();
        let open_ids: Vec<&str> =
            batch.exchanges.iter().map(|(_, asked)| asked.content.open_id.as_str()).collect();
        let biz_nos: Vec<&str> = batch.exchanges.iter().map(|(_, asked)| asked.biz_no.as_str()).collect();
        let work = async {
            let (discarded, rows) = join(
                async { if forgets_plans { client.batch_execute("DISCARD PLANS").await } else { Ok(()) } },
                client.query(&statements.read, &[&app_ids, &open_ids, &biz_nos, &REPLAY_HOURS]),
            )
            .await;
            discarded?;
            rows
        };
        let rows = drive(connection, *answer_timeout, work).await?;
        let mut known = Known::nothing(batch);
        for row in &rows {
            let place = place(row).filter(|place| *place < batch.exchanges.len());
            let place = place.ok_or_else(|| damaged("wallets"))?;
            if row.try_get::<_, Option<i64>>(1).map_err(|_| damaged("wallets"))?.is_some() {
                known.wallets[batch.wallets.place_of[place]] =
                    wallet(row).ok_or_else(|| damaged("wallets"))?;
            }
            if row.try_get::<_, Option<&str>>(4).map_err(|_| damaged("exchanges"))?.is_some() {
                let record = record(row, 4).map_err(|_| damaged("exchanges"))?;
                known.records[batch.numbers.place_of[place]] = Some(record);
            }
        }
        Ok(known)
    }

    /// Writes what was decided about what [`Session::read`] gave, in one statement: all of it,
    /// durably, or nothing. `Again` when it is not as it was read any more.
    pub(super) async fn write(&mut self, batch: &Batch<'_>, decisions: &Decisions) -> Result<(), Fault> {
        let Self { client, connection, statements, answer_timeout, .. } = self;
        let columns = Columns::new(batch, decisions);
        let parameters = columns.parameters();
        let writing = client.query(&statements.write, &parameters);
        drive(connection, *answer_timeout, writing).await.map(drop)
    }

    /// Begins a transaction, locks the wallets of the batch and reads what is recorded under its
    /// numbers. With `skips_held` the wallets that somebody else has locked are left out.
    pub(super) async fn begin(&mut self, batch: &Batch<'_>, skips_held: bool) -> Result<Known, Fault> {
        let opening_words = if self.forgets_plans() { "DISCARD PLANS; BEGIN" } else { "BEGIN" };
        let Self { client, connection, statements, answer_timeout, .. } = self;
        let (wallets, numbers) = (&batch.wallets, &batch.numbers);
        let lock = if skips_held { &statements.lock_free_ones } else { &statements.lock };
        // Polled from left to right, and sent when first polled.
        let work = async {
            let (begun, locked, recorded, there) = join4(
                client.batch_execute(opening_words),
                client.query(lock, &[&wallets.app_ids, &wallets.names]),
                client.query(&statements.records, &[&numbers.app_ids, &numbers.names, &REPLAY_HOURS]),
                async {
                    if skips_held {
                        client.query(&statements.known, &[&wallets.app_ids, &wallets.names]).await
                    } else {
                        Ok(Vec::new())
                    }
                },
            )
            .await;
            begun?;
            Ok((locked?, recorded?, there?))
        };
        let driven = drive(connection, *answer_timeout, work).await;
        let known = driven.and_then(|(locked, recorded, there)| {
            let mut known = Known::nothing(batch);
            known.take_wallets(&locked, &there)?;
            known.take_records(&recorded)?;
            Ok(known)
        });
        match known {
            Ok(_) | Err(Fault::Lost(_)) => known,
            Err(fault) => {
                self.roll_back().await?;
                Err(fault)
            }
        }
    }

    /// Writes what was decided in the transaction that [`Session::begin`] began, and commits,
    /// durably. A fault but `Lost` means that nothing was written.
    pub(super) async fn commit(&mut self, batch: &Batch<'_>, decisions: &Decisions) -> Result<(), Fault> {
        let Self { client, connection, statements, answer_timeout, .. } = self;
        let work = async {
            if decisions.deductions.is_empty() {
                return client.batch_execute("COMMIT").await;
            }
            let columns = Columns::new(batch, decisions);
            let parameters = columns.parameters();
            let (written, committed) =
                join(client.query(&statements.write, &parameters), client.batch_execute("COMMIT")).await;
            // After a fault COMMIT has rolled back, and says nothing about it.
            written?;
            committed
        };
        drive(connection, *answer_timeout, work).await
    }

    fn forgets_plans(&mut self) -> bool {
        let forgets = self.planned_at.elapsed() >= PLANS_KEPT_FOR;
        if forgets {
            self.planned_at = Instant::now();
        }
        forgets
    }

    async fn roll_back(&mut self) -> Result<(), Fault> {
        let Self { client, connection, answer_timeout, .. } = self;
        drive(connection, *answer_timeout, client.batch_execute("ROLLBACK")).await
    }
}

type Connection = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

async fn connect(options: &PgConnectOptions) -> Result<(Client, Connection), Fault> {
    let config = tls::configuration(options);
    let unavailable = |error: Error| {
        let was_ended = error.code().is_some_and(|code| code.code() == "57P01");
        if was_ended {
            Fault::Lost(words(&error))
        } else {
            Fault::Other(StoreError::Unavailable(words(&error)))
        }
    };
    if let Some(connector) = tls::connector(options).map_err(Fault::Other)? {
        let (client, connection) = config.connect(connector).await.map_err(unavailable)?;
        Ok((client, Box::pin(connection)))
    } else {
        let (client, connection) = config.connect(NoTls).await.map_err(unavailable)?;
        Ok((client, Box::pin(connection)))
    }
}

async fn prepare(client: &Client, opening: &Opening) -> Result<Statements, Error> {
    // One plan for batches of every size, and by the keys.
    let session = format!(
        "SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}; \
         SET plan_cache_mode = force_generic_plan; \
         SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off",
        opening.statement_timeout.as_millis(),
        LOCK_TIMEOUT.as_millis(),
        IDLE_IN_TRANSACTION_TIMEOUT.as_millis(),
    );
    client.batch_execute(&session).await?;
    let (lock, lock_free_ones, known) =
        join3(client.prepare(LOCK), client.prepare(LOCK_FREE_ONES), client.prepare(KNOWN)).await;
    let (read, records, write) =
        join3(client.prepare(READ), client.prepare(RECORDS), client.prepare(WRITE)).await;
    Ok(Statements {
        read: read?,
        lock: lock?,
        lock_free_ones: lock_free_ones?,
        known: known?,
        records: records?,
        write: write?,
    })
}

/// Runs the session until `work` is done.
async fn drive<T>(
    connection: &mut Connection,
    limit: Duration,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Fault> {
    let driven = async {
        tokio::select! {
            biased;
            done = work => done.map_err(|error| fault(&error)),
            ended = connection => Err(Fault::Lost(ended.err().map_or_else(|| "it closed the session".to_owned(), |error| words(&error)))),
        }
    };
    tokio::time::timeout(limit, driven)
        .await
        .unwrap_or_else(|_| Err(Fault::Lost("it does not answer".to_owned())))
}

fn fault(error: &Error) -> Fault {
    let Some(told) = error.as_db_error() else { return Fault::Lost(words(error)) };
    if matches!(told.parsed_severity(), Some(Severity::Fatal | Severity::Panic)) {
        return Fault::Lost(words(error));
    }
    match told.code().code() {
        // serialisation failure, deadlock, and the guard of WRITE: a wallet that has changed
        "40001" | "40P01" | "22012" => Fault::Again,
        "55P03" => Fault::Blocked,
        "23505" if told.constraint().is_some_and(|name| RACED_CONSTRAINTS.contains(&name)) => Fault::Again,
        code => Fault::Other(StoreError::from_code(code, words(error))),
    }
}

/// What happened, without the details, which quote values of players.
fn words(error: &Error) -> String {
    match error.as_db_error() {
        Some(told) => format!("{}: {}", told.code().code(), told.message()),
        None => std::error::Error::source(error)
            .map_or_else(|| error.to_string(), |source| format!("{error}: {source}")),
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

/// What the database holds of a batch, in the order of the batch's keys.
pub(super) struct Known {
    pub(super) wallets: Vec<WalletState>,
    pub(super) records: Vec<Option<Record>>,
}

impl Known {
    fn nothing(batch: &Batch<'_>) -> Self {
        Self {
            wallets: vec![WalletState::Unknown; batch.wallets.names.len()],
            records: vec![None; batch.numbers.names.len()],
        }
    }

    fn take_wallets(&mut self, locked: &[Row], there: &[Row]) -> Result<(), Fault> {
        for row in there {
            let state = place(row).and_then(|place| self.wallets.get_mut(place));
            *state.ok_or_else(|| damaged("wallets"))? = WalletState::Held;
        }
        for row in locked {
            let state = place(row).and_then(|place| self.wallets.get_mut(place));
            *state.ok_or_else(|| damaged("wallets"))? = wallet(row).ok_or_else(|| damaged("wallets"))?;
        }
        Ok(())
    }

    fn take_records(&mut self, rows: &[Row]) -> Result<(), Fault> {
        for row in rows {
            let entry = place(row).and_then(|place| self.records.get_mut(place));
            let record = record(row, 1).map_err(|_| damaged("exchanges"))?;
            *entry.ok_or_else(|| damaged("exchanges"))? = Some(record);
        }
        Ok(())
    }
}

/// The wallet in the columns behind the place.
fn wallet(row: &Row) -> Option<WalletState> {
    let balances = Balances::new(row.try_get(1).ok()?, row.try_get(2).ok()?).ok()?;
    Some(WalletState::Open { balances, entry_count: row.try_get(3).ok()? })
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

/// What [`WRITE`] takes, column by column.
struct Columns<'a> {
    app_id: Vec<&'a str>,
    biz_no: Vec<&'a str>,
    open_id: Vec<&'a str>,
    seq: Vec<i64>,
    amount: Vec<i64>,
    pay_priority: Vec<i16>,
    zone_id: Vec<&'a str>,
    os: Vec<&'a str>,
    ts: Vec<i64>,
    user_ip: Vec<&'a str>,
    product_name: Vec<&'a str>,
    product_info: Vec<&'a str>,
    product_desc: Vec<&'a str>,
    extension: Vec<&'a str>,
    free_change: Vec<i64>,
    charge_change: Vec<i64>,
    free_balance: Vec<i64>,
    charge_balance: Vec<i64>,
    wallet_app_id: Vec<&'a str>,
    wallet_open_id: Vec<&'a str>,
    wallet_free_balance: Vec<i64>,
    wallet_charge_balance: Vec<i64>,
    entry_count_before: Vec<i64>,
    entry_count: Vec<i64>,
}

impl<'a> Columns<'a> {
    fn new(batch: &Batch<'a>, decisions: &Decisions) -> Self {
        let deductions = &decisions.deductions;
        let texts = |of: &dyn Fn(&'a AppId, &'a Exchange) -> &'a str| {
            let rows = deductions.iter().map(|deduction| batch.exchanges[deduction.exchange]);
            rows.map(|(app_id, exchange)| of(app_id, exchange)).collect::<Vec<_>>()
        };
        let numbers = |of: &dyn Fn(&Deduction, &'a Exchange) -> i64| {
            deductions.iter().map(|row| of(row, batch.exchanges[row.exchange].1)).collect::<Vec<_>>()
        };
        let priority = |row: &Deduction| batch.exchanges[row.exchange].1.content.pay_priority.code();
        let wallets = &decisions.wallets;
        let wallet_texts = |keys: &[&'a str]| wallets.iter().map(|row| keys[row.wallet]).collect::<Vec<_>>();
        let wallet_numbers = |of: fn(&WalletChange) -> i64| wallets.iter().map(of).collect::<Vec<_>>();
        Self {
            app_id: texts(&|app_id, _| app_id.as_str()),
            biz_no: texts(&|_, exchange| exchange.biz_no.as_str()),
            open_id: texts(&|_, exchange| exchange.content.open_id.as_str()),
            seq: numbers(&|row, _| row.seq),
            amount: numbers(&|_, exchange| exchange.content.amount.get()),
            pay_priority: deductions.iter().map(priority).collect(),
            zone_id: texts(&|_, exchange| exchange.content.zone_id.as_str()),
            os: texts(&|_, exchange| exchange.os.as_str()),
            ts: numbers(&|_, exchange| exchange.ts.unix_millis()),
            user_ip: texts(&|_, exchange| exchange.user_ip.as_str()),
            product_name: texts(&|_, exchange| exchange.content.product_name.as_str()),
            product_info: texts(&|_, exchange| exchange.content.product_info.as_str()),
            product_desc: texts(&|_, exchange| exchange.content.product_desc.as_str()),
            extension: texts(&|_, exchange| exchange.content.extension.as_str()),
            free_change: numbers(&|row, _| row.change.free_change),
            charge_change: numbers(&|row, _| row.change.charge_change),
            free_balance: numbers(&|row, _| row.change.after.free()),
            charge_balance: numbers(&|row, _| row.change.after.charge()),
            wallet_app_id: wallet_texts(&batch.wallets.app_ids),
            wallet_open_id: wallet_texts(&batch.wallets.names),
            wallet_free_balance: wallet_numbers(|row| row.balances.free()),
            wallet_charge_balance: wallet_numbers(|row| row.balances.charge()),
            entry_count_before: wallet_numbers(|row| row.entry_count_before),
            entry_count: wallet_numbers(|row| row.entry_count),
        }
    }

    /// In the order of the statement's parameters.
    fn parameters(&self) -> [&(dyn ToSql + Sync); 24] {
        [
            &self.app_id,
            &self.biz_no,
            &self.open_id,
            &self.seq,
            &self.amount,
            &self.pay_priority,
            &self.zone_id,
            &self.os,
            &self.ts,
            &self.user_ip,
            &self.product_name,
            &self.product_info,
            &self.product_desc,
            &self.extension,
            &self.free_change,
            &self.charge_change,
            &self.free_balance,
            &self.charge_balance,
            &self.wallet_app_id,
            &self.wallet_open_id,
            &self.wallet_free_balance,
            &self.wallet_charge_balance,
            &self.entry_count_before,
            &self.entry_count,
        ]
    }
}
