//! The columns that a batch writes.

use domain::exchange::Exchange;
use domain::ledger::EXCHANGE;
use time::OffsetDateTime;
use tokio_postgres::types::ToSql;

use super::batch::{Batch, Decisions, Deduction, WalletUpdate};

/// Declares the columns in the order of the parameters of the statement that writes.
macro_rules! columns {
    ($($name:ident: $type:ty,)+) => {
        /// The parameters of the statement that writes ([`super::statements`]).
        pub(super) struct Columns<'a> {
            $(pub(super) $name: $type,)+
            /// Items that the database may not have.
            pub(super) items: Items<'a>,
        }

        impl Columns<'_> {
            /// The columns in the order of the statement's parameters.
            pub(super) fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
                let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![$(&self.$name),+];
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
    app_no: Vec<i32>,
    wallet_no: Vec<i64>,
    seq: Vec<i64>,
    kind: Vec<&'a str>,
    reference: Vec<&'a str>,
    free_change: Vec<i64>,
    charge_change: Vec<i64>,
    free_balance: Vec<i64>,
    charge_balance: Vec<i64>,
    chain_hash: Vec<&'a [u8]>,
    pay_priority: Vec<i16>,
    ts: Vec<i64>,
    item_id: Vec<&'a [u8]>,
    zone_id: Vec<&'a str>,
    os: Vec<&'a str>,
    user_ip: Vec<&'a str>,
    extension: Vec<&'a str>,
    at: OffsetDateTime,
    wallet_app_no: Vec<i32>,
    wallet_wallet_no: Vec<i64>,
    wallet_free_balance: Vec<i64>,
    wallet_charge_balance: Vec<i64>,
    entry_count_before: Vec<i64>,
    entry_count: Vec<i64>,
    wallet_chain_hash: Vec<&'a [u8]>,
}

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
        let deductions = &decisions.deductions;
        let texts = |of: fn(&'a Exchange) -> &'a str| {
            deductions.iter().map(|row| of(batch.exchanges[row.exchange].1)).collect::<Vec<_>>()
        };
        let numbers = |of: fn(&Deduction, &'a Exchange) -> i64| {
            deductions.iter().map(|row| of(row, batch.exchanges[row.exchange].1)).collect::<Vec<_>>()
        };
        let priority = |row: &Deduction| batch.exchanges[row.exchange].1.content.pay_priority.code();
        let item_id = |row: &Deduction| batch.exchanges[row.exchange].1.item_id.0.as_slice();
        let wallets = &decisions.wallets;
        let wallet_numbers = |of: fn(&WalletUpdate) -> i64| wallets.iter().map(of).collect::<Vec<_>>();
        Self {
            app_no: deductions.iter().map(|row| batch.exchanges[row.exchange].0.0).collect(),
            wallet_no: numbers(|row, _| row.wallet_no.0),
            seq: numbers(|row, _| row.seq),
            kind: deductions.iter().map(|_| EXCHANGE).collect(),
            reference: texts(|exchange| exchange.biz_no.as_str()),
            free_change: numbers(|row, _| row.change.free_change),
            charge_change: numbers(|row, _| row.change.charge_change),
            free_balance: numbers(|row, _| row.change.after.free()),
            charge_balance: numbers(|row, _| row.change.after.charge()),
            chain_hash: deductions.iter().map(|row| row.chain_hash.as_slice()).collect(),
            pay_priority: deductions.iter().map(priority).collect(),
            ts: numbers(|_, exchange| exchange.ts.unix_millis()),
            item_id: deductions.iter().map(item_id).collect(),
            zone_id: texts(|exchange| exchange.content.zone_id.as_str()),
            os: texts(|exchange| exchange.os.as_str()),
            user_ip: texts(|exchange| exchange.user_ip.as_str()),
            extension: texts(|exchange| exchange.content.extension.as_str()),
            at,
            wallet_app_no: wallets.iter().map(|row| batch.wallets.app_nos[row.wallet]).collect(),
            wallet_wallet_no: wallet_numbers(|row| row.wallet_no.0),
            wallet_free_balance: wallet_numbers(|row| row.balances.free()),
            wallet_charge_balance: wallet_numbers(|row| row.balances.charge()),
            entry_count_before: wallet_numbers(|row| row.entry_count_before),
            entry_count: wallet_numbers(|row| row.entry_count),
            wallet_chain_hash: wallets.iter().map(|row| row.chain_hash.as_slice()).collect(),
            items,
        }
    }
}
