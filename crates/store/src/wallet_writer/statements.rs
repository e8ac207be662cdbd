//! The SQL of a batch.
//!
//! The compiler does not check these statements. Each session prepares all of them when it opens. `{app}` stands for the
//! app of a key ([`Engine::key`]), `{numbers}` for what has all numbers that were ever used.

use futures_util::future::{join3, join5, try_join, try_join4};
use tokio_postgres::{Client, Error, Statement};

use super::columns::{ENTRIES, ITEMS, OUTBOX, Parameter, WALLETS};
use super::record;
use crate::engine::Engine;

/// Columns of a wallet.
const WALLET_COLUMNS: &str = "\
w.wallet_no, w.free_balance, w.charge_balance, w.entry_count, w.chain_hash,
coalesce(w.frozen_until > statement_timestamp(), false) AS is_frozen";

/// Reads the wallet of each request of a batch and the records of its numbers. It locks nothing.
const READ_FROM: &str = "\
FROM unnest($2::integer[], $3::text[], $4::text[]) WITH ORDINALITY AS k (app_no, open_id, number, position)
LEFT JOIN wallets w ON w.app_no = {app} AND w.open_id = k.open_id
LEFT JOIN {numbers} x ON x.app_no = {app} AND x.reference = k.number";

/// The wallets of a batch.
const WALLETS_FROM: &str = "\
FROM unnest($1::integer[], $2::text[]) WITH ORDINALITY AS k (app_no, open_id, position)
JOIN wallets w ON w.app_no = {app} AND w.open_id = k.open_id";

/// Locks the wallets of a batch in the order of their keys. After a wait for a lock PostgreSQL reads the row again.
const LOCKED: &str = "ORDER BY k.position FOR UPDATE OF w";

/// Reads the records of a batch. It must be a later statement than the lock. Only then it sees the commit of the
/// transaction that held the lock before.
const RECORDS_FROM: &str = "\
FROM unnest($2::integer[], $3::text[]) WITH ORDINALITY AS k (app_no, number, position)
JOIN {numbers} x ON x.app_no = {app} AND x.reference = k.number";

/// Reads what queries show of exchanges besides their records. It must be a later statement than the one that reads the
/// records, so that each of them has its detail. One cancel more than is shown tells that there are more.
const DETAILS: &str = "\
SELECT k.position, coalesce(i.product_name, '') AS product_name,
    coalesce(g.remaining, -(x.free_change + x.charge_change)) AS remaining, c.references, c.amounts, c.at AS times
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
const STORE_ITEMS: &str = "\
INSERT INTO items (app_no, item_id, product_name, product_info, product_desc)
SELECT {item_app}, unnest(@new_item_id), unnest(@product_name), unnest(@product_info), unnest(@product_desc)
ON CONFLICT DO NOTHING";

/// Writes ledger entries and closed numbers. A reference that another transaction has used violates the primary key.
///
/// `unnest` stands in the list of columns, where all arrays advance together, row by row. In FROM,
/// PostgreSQL would first copy each array to a tuple store. That is a third of the statement's
/// cost.
///
/// Entries whose time is a minute old cause a division by zero, as a wallet that has changed does: then the batch reads
/// again, and has a new time. So a period gets no more entries soon after its end ([`crate::books`]).
fn enter() -> String {
    let names = ENTRIES.iter().map(|column| column.name).collect::<Vec<_>>().join(", ");
    let value = |column: &Parameter| match column.name {
        "app_no" => "{entry_app}".to_owned(),
        "at" => "@at".to_owned(),
        name => format!("unnest(@{name})"),
    };
    let values = ENTRIES.iter().map(value).collect::<Vec<_>>().join(", ");
    format!(
        "INSERT INTO ledger_entries ({names}) SELECT {values}
         WHERE 1 / (@at > statement_timestamp() - interval '1 minute')::integer = 1"
    )
}

/// Writes balances.
const CHANGE: &str = "\
UPDATE wallets w SET free_balance = c.free_balance, charge_balance = c.charge_balance,
    entry_count = {entry_count}, chain_hash = c.chain_hash
FROM (
    SELECT {wallet_app} AS app_no, unnest(@wallet_wallet_no) AS wallet_no,
        unnest(@wallet_free_balance) AS free_balance, unnest(@wallet_charge_balance) AS charge_balance,
        unnest(@entry_count_before) AS entry_count_before, unnest(@entry_count) AS entry_count,
        unnest(@wallet_chain_hash) AS chain_hash, unnest(@wallet_open_id) AS open_id,
        unnest(@wallet_is_frozen) AS is_frozen
) AS c
WHERE w.app_no = {changed_app} AND w.wallet_no = c.wallet_no";

/// Whether a wallet is as it was read. The player of a wallet that was erased meanwhile is another
/// ([`crate::player_erasure`]). A wallet may have been frozen meanwhile.
const UNCHANGED: &str = "\
w.entry_count = c.entry_count_before AND w.open_id = c.open_id
    AND coalesce(w.frozen_until > @wallets_at, false) = c.is_frozen";

/// Writes the events of the entries.
const TELL: &str = "\
INSERT INTO wallet_outbox (app_no, row_id, type, count, keys, at)
SELECT {outbox_app}, unnest(@outbox_row_id), unnest(@outbox_type), unnest(@outbox_count), unnest(@outbox_keys),
    @outbox_at";

/// Locks the wallets of a batch and reads them.
pub(super) fn lock(engine: Engine) -> String {
    format!("{} {LOCKED}", look(engine))
}

/// The same without the wallets that another transaction has locked.
pub(super) fn lock_skipping_held(engine: Engine) -> String {
    format!("{} SKIP LOCKED", lock(engine))
}

/// Reads the wallets of a batch. It locks nothing.
pub(super) fn look(engine: Engine) -> String {
    fill(engine, 1, &format!("SELECT k.position, {WALLET_COLUMNS} {WALLETS_FROM}"))
}

/// Lists the wallets of a batch that exist.
pub(super) fn existing(engine: Engine) -> String {
    fill(engine, 1, &format!("SELECT k.position, w.wallet_no {WALLETS_FROM}"))
}

/// Reads the records of a batch.
pub(super) fn records(engine: Engine) -> String {
    fill(engine, 2, &format!("SELECT k.position, {} {RECORDS_FROM}", record::columns()))
}

/// Writes a batch, with items that the database may not have. COMMIT follows without a wait, so a conflict must fail
/// here: a wallet that has changed causes a division by zero.
pub(super) fn write(engine: Engine, with_items: bool) -> String {
    let items = if with_items { format!("itemised AS ({STORE_ITEMS}), ") } else { String::new() };
    let change = CHANGE.replace("{entry_count}", "c.entry_count");
    let enter = enter();
    let sql = format!(
        "WITH {items}entered AS ({enter}), told AS ({TELL}), changed AS ({change} AND {UNCHANGED} RETURNING 1)
         SELECT 1 / (count(*) = cardinality(@wallet_app_no))::integer FROM changed"
    );
    number(engine, &sql, &[ENTRIES, WALLETS, OUTBOX, ITEMS])
}

/// The same as statements of one transaction: the items, the entries, the balances of wallets that exist, and the events.
/// Citus plans them in half of the time.
pub(super) fn write_apart() -> [String; 4] {
    let unchanged = format!("c.entry_count / ({UNCHANGED})::integer");
    let change = CHANGE.replace("{entry_count}", &unchanged);
    let each =
        [(STORE_ITEMS.to_owned(), ITEMS), (enter(), ENTRIES), (change, WALLETS), (TELL.to_owned(), OUTBOX)];
    each.map(|(sql, parameters)| number(Engine::Citus, &sql, &[parameters]))
}

/// Fills in the apps of a statement, and numbers its parameters `@name` in the order of the columns.
fn number(engine: Engine, sql: &str, statements: &[&[Parameter]]) -> String {
    let parameters: Vec<&Parameter> = statements.iter().copied().flatten().collect();
    let place = |name: &str| parameters.iter().position(|parameter| parameter.name == name);
    // Only on Citus is an app a parameter itself, the first of its statement.
    let app = |column: &str, name: &str| {
        let number = place(name).and_then(|place| u8::try_from(place + 1).ok());
        number.map_or_else(String::new, |number| engine.key(column, number, "integer"))
    };
    let sql = sql
        .replace("{entry_app}", &app("unnest(@app_no)", "app_no"))
        .replace("{wallet_app}", &app("unnest(@wallet_app_no)", "wallet_app_no"))
        .replace("{changed_app}", &app("c.app_no", "wallet_app_no"))
        .replace("{outbox_app}", &app("unnest(@outbox_app_no)", "outbox_app_no"))
        .replace("{item_app}", &app("unnest(@new_item_app_no)", "new_item_app_no"));
    let mut parts = sql.split('@');
    let mut numbered = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|letter: char| letter != '_' && !letter.is_ascii_lowercase());
        let (name, rest) = part.split_at(end.unwrap_or(part.len()));
        // A name that is no column stays as it is, and the statement is not prepared.
        let parameter = place(name).map_or_else(
            || format!("@{name}"),
            |place| format!("${}::{}", place + 1, parameters[place].sql_type),
        );
        numbered += &parameter;
        numbered += rest;
    }
    numbered
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
pub(super) struct WalletStatements {
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

impl WalletStatements {
    /// Prepares the statements, which checks them against the schema.
    pub(super) async fn prepare(client: &Client, engine: Engine) -> Result<Self, Error> {
        let read = format!(
            "SELECT k.position, {WALLET_COLUMNS}, {}, statement_timestamp() AS read_at {READ_FROM}",
            record::columns()
        );
        let read = fill(engine, 2, &read);
        let (lock, lock_skipping_held, records) = (lock(engine), lock_skipping_held(engine), records(engine));
        let (existing, details) = (existing(engine), fill(engine, 1, DETAILS));
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
