//! The write of a batch: its columns, and the SQL that is made of them. One row of the table below is the name of a
//! column, its type and its parameter.
//!
//! The compiler does not check these statements. Each session prepares all of them when it opens. In them `@name` is a
//! parameter of the table. `{entry_app}` and its like are the app of a row: its own column, such as `unnest(@app_no)`. On
//! Citus it is the first element of that array, as a batch has one app there.

use std::collections::{BTreeMap, HashSet};

use domain::event::{EventKeys, EventType, row_id};
use domain::ids::{AppNo, ItemId, WalletNo};
use domain::wallet::{DeveloperTexts, LedgerItem, Sender, WalletRequest};
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use time::OffsetDateTime;
use tokio_postgres::types::ToSql;

use super::batch::{Batch, Decisions, NewRow, WalletUpdate};
use crate::engine::Engine;
use crate::secrets::random_bytes;

/// How many stored items a session remembers. It limits the memory (some 2 MB).
const ITEMS_REMEMBERED_MAX: usize = 32_768;

/// A column that a batch writes: the name of its parameter in the SQL, `@name`, and its type.
#[derive(Clone, Copy)]
struct Parameter {
    name: &'static str,
    sql_type: &'static str,
}

/// The columns of the texts of the developer, which stand before [`ENTRIES`].
fn texts() -> [Parameter; DeveloperTexts::NAMES.len()] {
    DeveloperTexts::NAMES.map(|name| Parameter { name, sql_type: "text[]" })
}

/// Declares the columns of each statement that writes, in the order of its parameters.
macro_rules! columns {
    ($($(#[$doc:meta])* $statement:ident { $($name:ident: $type:ty = $sql_type:literal,)+ })+) => {
        $(
            $(#[$doc])*
            const $statement: &[Parameter] =
                &[$(Parameter { name: stringify!($name), sql_type: $sql_type }),+];
        )+

        /// The parameters of the statement that writes ([`write_statement`]).
        pub(crate) struct Columns<'a> {
            /// In the order of [`texts`].
            texts: [Vec<Option<&'a str>>; DeveloperTexts::NAMES.len()],
            $($(pub(super) $name: $type,)+)+
            /// Items that the database may not have.
            pub(super) items: Items<'a>,
        }

        impl<'a> Columns<'a> {
            /// Binds the columns to the statement without items.
            pub(super) fn bind(self, query: Query<'a, Postgres, PgArguments>) -> Query<'a, Postgres, PgArguments> {
                let query = self.texts.into_iter().fold(query, Query::bind);
                query$($(.bind(self.$name))+)+
            }
        }

        impl Columns<'_> {
            /// The columns in the order of the statement's parameters.
            pub(crate) fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
                let mut parameters: Vec<&(dyn ToSql + Sync)> = Vec::new();
                parameters.extend(self.texts.iter().map(|texts| texts as &(dyn ToSql + Sync)));
                parameters.extend([$($(&self.$name as &(dyn ToSql + Sync)),+),+]);
                if !self.items.item_id.is_empty() {
                    let Items { app_no, item_id, product_name, product_info, product_desc } = &self.items;
                    parameters.extend([
                        app_no as &(dyn ToSql + Sync), item_id, product_name, product_info, product_desc,
                    ]);
                }
                parameters
            }
        }
    };
}

columns! {
    /// Ledger entries and closed numbers, but for [`texts`]. The names are those of the table.
    ENTRIES {
        app_no: Vec<i32> = "integer[]",
        wallet_no: Vec<i64> = "bigint[]",
        seq: Vec<Option<i64>> = "bigint[]",
        kind: Vec<&'a str> = "text[]",
        reference: Vec<&'a str> = "text[]",
        free_change: Vec<i64> = "bigint[]",
        charge_change: Vec<i64> = "bigint[]",
        free_balance: Vec<i64> = "bigint[]",
        charge_balance: Vec<i64> = "bigint[]",
        chain_hash: Vec<Option<&'a [u8]>> = "bytea[]",
        pay_priority: Vec<Option<i16>> = "smallint[]",
        ts: Vec<Option<i64>> = "bigint[]",
        item_id: Vec<Option<&'a [u8]>> = "bytea[]",
        zone_id: Vec<Option<&'a str>> = "text[]",
        os: Vec<Option<&'a str>> = "text[]",
        user_ip: Vec<Option<&'a str>> = "text[]",
        remark: Vec<Option<&'a str>> = "text[]",
        of_biz_no: Vec<Option<&'a str>> = "text[]",
        remaining: Vec<Option<i64>> = "bigint[]",
        at: OffsetDateTime = "timestamptz",
    }
    /// Wallets that have changed.
    WALLETS {
        wallet_app_no: Vec<i32> = "integer[]",
        wallet_wallet_no: Vec<i64> = "bigint[]",
        wallet_free_balance: Vec<i64> = "bigint[]",
        wallet_charge_balance: Vec<i64> = "bigint[]",
        entry_count_before: Vec<i64> = "bigint[]",
        entry_count: Vec<i64> = "bigint[]",
        wallet_chain_hash: Vec<&'a [u8]> = "bytea[]",
        wallet_open_id: Vec<&'a str> = "text[]",
        wallet_is_frozen: Vec<bool> = "boolean[]",
        wallets_at: OffsetDateTime = "timestamptz",
    }
    /// Events of the entries.
    OUTBOX {
        outbox_app_no: Vec<i32> = "integer[]",
        outbox_row_id: Vec<Vec<u8>> = "bytea[]",
        outbox_type: Vec<&'static str> = "text[]",
        outbox_count: Vec<i32> = "integer[]",
        outbox_keys: Vec<Vec<u8>> = "bytea[]",
        outbox_at: OffsetDateTime = "timestamptz",
    }
}

/// Items that the database may not have, in the order of [`Items`].
const ITEMS: &[Parameter] = &[
    Parameter { name: "new_item_app_no", sql_type: "integer[]" },
    Parameter { name: "new_item_id", sql_type: "bytea[]" },
    Parameter { name: "product_name", sql_type: "text[]" },
    Parameter { name: "product_info", sql_type: "text[]" },
    Parameter { name: "product_desc", sql_type: "text[]" },
];

/// The texts of items, each once, in the order of their keys.
#[derive(Default)]
pub(super) struct Items<'a> {
    pub(super) app_no: Vec<i32>,
    pub(super) item_id: Vec<&'a [u8]>,
    pub(super) product_name: Vec<&'a str>,
    pub(super) product_info: Vec<&'a str>,
    pub(super) product_desc: Vec<&'a str>,
}

/// The items that this session has stored, as far as it remembers. A new session begins without any, so
/// a database that was restored to an earlier time gets them again.
#[derive(Default)]
pub(super) struct StoredItems(HashSet<(AppNo, ItemId)>);

impl StoredItems {
    /// The items of new entries that are not known to be stored, each once, in the order of their keys.
    pub(super) fn missing<'a>(&self, batch: &Batch<'a>, decisions: &Decisions) -> Items<'a> {
        let bought = decisions.rows.iter().filter_map(|row| {
            let (app_no, request) = batch.requests[row.request];
            // The row of a closed number has none, and neither has a change of an operator.
            Some((app_no, request.item()?))
        });
        let mut missing: Vec<(AppNo, LedgerItem<'a>)> =
            bought.filter(|(app_no, item)| !self.0.contains(&(*app_no, *item.id))).collect();
        missing.sort_unstable_by_key(|(app_no, item)| (*app_no, item.id));
        missing.dedup_by_key(|(app_no, item)| (*app_no, item.id));
        let texts = |of: fn(&LedgerItem<'a>) -> &'a str| missing.iter().map(|(_, item)| of(item)).collect();
        Items {
            app_no: missing.iter().map(|(app_no, _)| app_no.0).collect(),
            item_id: missing.iter().map(|(_, item)| item.id.0.as_slice()).collect(),
            product_name: texts(|item| item.product_name),
            product_info: texts(|item| item.product_info),
            product_desc: texts(|item| item.product_desc),
        }
    }

    /// Remembers items after their commit.
    pub(super) fn add(&mut self, stored: &Items<'_>) {
        if self.0.len() > ITEMS_REMEMBERED_MAX {
            self.0.clear();
        }
        let ids = stored.item_id.iter().filter_map(|id| Some(ItemId(<[u8; 16]>::try_from(*id).ok()?)));
        self.0.extend(stored.app_no.iter().map(|app_no| AppNo(*app_no)).zip(ids));
    }
}

impl<'a> Columns<'a> {
    pub(super) fn new(
        batch: &Batch<'a>,
        decisions: &'a Decisions,
        at: OffsetDateTime,
        items: Items<'a>,
    ) -> Self {
        let rows = &decisions.rows;
        let request = |row: &NewRow| batch.requests[row.request].1;
        let numbers = |of: fn(&NewRow) -> i64| rows.iter().map(of).collect::<Vec<_>>();
        let texts = |of: fn(&'a WalletRequest) -> Option<&'a str>| -> Vec<_> {
            rows.iter().map(|row| of(request(row))).collect()
        };
        let senders = |of: fn(&'a Sender) -> &'a str| -> Vec<_> {
            rows.iter().map(|row| request(row).sender.as_ref().map(of)).collect()
        };
        let developer_texts = |place: usize| -> Vec<_> {
            rows.iter().map(|row| Some(request(row).sender.as_ref()?.texts.all()[place])).collect()
        };
        let wallets = &decisions.wallets;
        let outbox = outbox(batch, rows);
        let wallet_numbers = |of: fn(&WalletUpdate) -> i64| wallets.iter().map(of).collect::<Vec<_>>();
        Self {
            texts: std::array::from_fn(developer_texts),
            app_no: rows.iter().map(|row| batch.requests[row.request].0.0).collect(),
            wallet_no: numbers(|row| row.wallet_no.0),
            seq: rows.iter().map(|row| row.entry.map(|(seq, _)| seq)).collect(),
            kind: rows.iter().map(|row| row.kind.as_str()).collect(),
            reference: rows.iter().map(|row| request(row).reference.as_str()).collect(),
            free_change: numbers(|row| row.change.free_change),
            charge_change: numbers(|row| row.change.charge_change),
            free_balance: numbers(|row| row.change.after.free()),
            charge_balance: numbers(|row| row.change.after.charge()),
            chain_hash: rows.iter().map(|row| row.entry.as_ref().map(|(_, hash)| hash.as_slice())).collect(),
            pay_priority: rows.iter().map(|row| Some(request(row).purchase()?.pay_priority.code())).collect(),
            ts: rows.iter().map(|row| Some(request(row).ts?.unix_millis())).collect(),
            item_id: rows.iter().map(|row| Some(request(row).item()?.id.0.as_slice())).collect(),
            zone_id: senders(|sender| sender.zone_id.as_str()),
            os: senders(|sender| sender.os.as_str()),
            user_ip: senders(|sender| sender.user_ip.as_str()),
            remark: texts(|request| request.remark.as_deref()),
            of_biz_no: texts(WalletRequest::target),
            remaining: rows.iter().map(|row| row.remaining).collect(),
            at,
            wallet_app_no: wallets.iter().map(|row| batch.wallets.app_nos[row.wallet]).collect(),
            wallet_wallet_no: wallet_numbers(|row| row.now.wallet_no.0),
            wallet_free_balance: wallet_numbers(|row| row.now.balances.free()),
            wallet_charge_balance: wallet_numbers(|row| row.now.balances.charge()),
            entry_count_before: wallet_numbers(|row| row.entry_count_before),
            entry_count: wallet_numbers(|row| row.now.entry_count),
            wallet_chain_hash: wallets.iter().map(|row| row.now.chain_hash.as_slice()).collect(),
            wallet_open_id: wallets.iter().map(|row| batch.wallets.names[row.wallet]).collect(),
            wallet_is_frozen: wallets.iter().map(|row| row.now.is_frozen).collect(),
            wallets_at: at,
            outbox_app_no: outbox.iter().map(|row| row.app_no).collect(),
            outbox_row_id: outbox.iter().map(|_| row_id(at, random_bytes()).to_vec()).collect(),
            outbox_type: outbox.iter().map(|row| row.event_type.as_str()).collect(),
            outbox_count: outbox.iter().map(|row| row.count).collect(),
            outbox_keys: outbox.into_iter().map(|row| row.keys).collect(),
            outbox_at: at,
            items,
        }
    }
}

/// The events of one app and type.
struct WalletOutboxRow {
    app_no: i32,
    event_type: EventType,
    count: i32,
    keys: Vec<u8>,
}

/// One event for each new ledger entry, in rows of one app and type.
fn outbox(batch: &Batch<'_>, rows: &[NewRow]) -> Vec<WalletOutboxRow> {
    let mut entries: BTreeMap<(i32, EventType), Vec<(WalletNo, i64)>> = BTreeMap::new();
    for row in rows {
        if let (Some((seq, _)), Some(event_type)) = (row.entry, EventType::of_entry(row.kind)) {
            let app_no = batch.requests[row.request].0.0;
            entries.entry((app_no, event_type)).or_default().push((row.wallet_no, seq));
        }
    }
    let rows = entries.iter().flat_map(|(&(app_no, event_type), entries)| {
        EventKeys::in_rows(entries, EventKeys::Entries).map(move |(count, keys)| WalletOutboxRow {
            app_no,
            event_type,
            count,
            keys,
        })
    });
    rows.collect()
}

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
/// Entries whose time is a minute old cause a division by zero, as a wallet that has changed does. Then the batch reads
/// again, and has a new time. So a period gets no more entries soon after its end ([`crate::books`]).
fn enter() -> String {
    let columns = [&texts(), ENTRIES].concat();
    let names = columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", ");
    let value = |column: &Parameter| match column.name {
        "app_no" => "{entry_app}".to_owned(),
        "at" => "@at".to_owned(),
        name => format!("unnest(@{name})"),
    };
    let values = columns.iter().map(value).collect::<Vec<_>>().join(", ");
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

/// Writes a batch, with items that the database may not have. COMMIT follows without a wait, so a conflict must fail
/// here: a wallet that has changed causes a division by zero.
pub(crate) fn write_statement(engine: Engine, with_items: bool) -> String {
    let items = if with_items { format!("itemised AS ({STORE_ITEMS}), ") } else { String::new() };
    let change = CHANGE.replace("{entry_count}", "c.entry_count");
    let enter = enter();
    let sql = format!(
        "WITH {items}entered AS ({enter}), told AS ({TELL}), changed AS ({change} AND {UNCHANGED} RETURNING 1)
         SELECT 1 / (count(*) = cardinality(@wallet_app_no))::integer FROM changed"
    );
    number(engine, &sql, &[&texts(), ENTRIES, WALLETS, OUTBOX, ITEMS])
}

/// The same as statements of one transaction: the items, the entries, the balances of wallets that exist, and the events.
/// Citus plans them in half of the time.
pub(super) fn write_statements_apart() -> [String; 4] {
    let unchanged = format!("c.entry_count / ({UNCHANGED})::integer");
    let change = CHANGE.replace("{entry_count}", &unchanged);
    let number = |sql: &str, parameters: &[&[Parameter]]| number(Engine::Citus, sql, parameters);
    [
        number(STORE_ITEMS, &[ITEMS]),
        number(&enter(), &[&texts(), ENTRIES]),
        number(&change, &[WALLETS]),
        number(TELL, &[OUTBOX]),
    ]
}

/// Fills in the apps of a statement, and numbers its parameters `@name` in the order of the columns.
fn number(engine: Engine, sql: &str, statements: &[&[Parameter]]) -> String {
    let parameters: Vec<&Parameter> = statements.iter().copied().flatten().collect();
    let place = |name: &str| parameters.iter().position(|parameter| parameter.name == name);
    // Only on Citus is an app a parameter itself.
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
