//! The columns that a batch writes.

use domain::exchange::Exchange;
use domain::ids::AppId;
use time::OffsetDateTime;
use tokio_postgres::types::ToSql;

use super::batch::{Batch, Decisions, Deduction, WalletUpdate};

/// Declares the columns in the order of the parameters of the statement that writes.
macro_rules! columns {
    ($($name:ident: $type:ty,)+) => {
        /// The parameters of the statement that writes ([`super::statements`]).
        pub(super) struct Columns<'a> {
            $(pub(super) $name: $type,)+
        }

        impl Columns<'_> {
            /// The columns in the order of the statement's parameters.
            pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 27] {
                [$(&self.$name),+]
            }
        }
    };
}

columns! {
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
    at: OffsetDateTime,
    chain_hash: Vec<&'a [u8]>,
    wallet_chain_hash: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    pub(super) fn new(batch: &Batch<'a>, decisions: &'a Decisions, at: OffsetDateTime) -> Self {
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
        let wallet_numbers = |of: fn(&WalletUpdate) -> i64| wallets.iter().map(of).collect::<Vec<_>>();
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
            at,
            chain_hash: deductions.iter().map(|row| row.chain_hash.as_slice()).collect(),
            wallet_chain_hash: wallets.iter().map(|row| row.chain_hash.as_slice()).collect(),
        }
    }
}
