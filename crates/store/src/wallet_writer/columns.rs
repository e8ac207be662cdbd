//! The columns that a batch writes.

use std::collections::BTreeMap;

use domain::event::{EventKeys, EventType, row_id};
use domain::ids::WalletNo;
use domain::wallet::{Sender, WalletRequest};
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use time::OffsetDateTime;
use tokio_postgres::types::ToSql;

use super::batch::Batch;
use super::decide::{Decisions, NewRow, WalletUpdate};
use crate::secrets::random_bytes;

/// A column that a batch writes: the name of its parameter in the SQL, `@name`, and its type.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) sql_type: &'static str,
}

/// Declares the columns of each statement that writes, in the order of its parameters.
macro_rules! columns {
    ($($(#[$doc:meta])* $statement:ident { $($name:ident: $type:ty = $sql_type:literal,)+ })+) => {
        $(
            $(#[$doc])*
            pub(super) const $statement: &[Parameter] =
                &[$(Parameter { name: stringify!($name), sql_type: $sql_type }),+];
        )+

        /// The parameters of the statement that writes ([`super::statements`]).
        pub(super) struct Columns<'a> {
            $($(pub(super) $name: $type,)+)+
            /// Items that the database may not have.
            pub(super) items: Items<'a>,
        }

        impl<'a> Columns<'a> {
            /// Binds the columns to the statement without items.
            pub(super) fn bind(self, query: Query<'a, Postgres, PgArguments>) -> Query<'a, Postgres, PgArguments> {
                query$($(.bind(self.$name))+)+
            }
        }

        impl Columns<'_> {
            /// The columns in the order of the statement's parameters.
            pub(super) fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
                let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![$($(&self.$name),+),+];
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
    /// Ledger entries and closed numbers. The names are those of the table.
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
        extension: Vec<Option<&'a str>> = "text[]",
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
pub(super) const ITEMS: &[Parameter] = &[
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
        let wallets = &decisions.wallets;
        let outbox = outbox(batch, rows);
        let wallet_numbers = |of: fn(&WalletUpdate) -> i64| wallets.iter().map(of).collect::<Vec<_>>();
        Self {
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
            extension: senders(|sender| sender.extension.as_str()),
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
