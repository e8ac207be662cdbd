//! Rows as the program would have written them, with their hashes. There is a credit for each wallet, then an exchange
//! for each, and so on. So the entries of a wallet are far apart in the table.

use std::fmt::Write as _;

use domain::event::EventType;
use domain::ids::ItemId;
use domain::ledger::{CHAIN_START, CREDIT, ChainHash, EXCHANGE, LedgerEntry};

use testkit::bench::log_lines;

use crate::Fallible;
use crate::stage::Session;

const APP_ID: &str = "bench";
/// What each wallet is credited in both purses.
const PURSE: i64 = 1_000_000;
const AMOUNT: i64 = 60;
/// 2026-01-01 as ledger entries count time; each turn is a second later.
const FIRST_AT: i64 = 820_540_800_000_000;
/// Exchanges that a busy service writes in one transaction.
const BATCH: u32 = 40;
/// Types of the events.
const CREDITED: &str = EventType::WalletCredited.as_str();
const EXCHANGED: &str = EventType::ExchangeSucceeded.as_str();
/// Rows of one portion of a copy.
const PORTION: usize = 10_000;

/// Tables, the columns that are filled and what makes their keys once the rows are there.
const TABLES: [(&str, &str); 2] = [
    (
        "ledger_entries",
        "app_no, wallet_no, seq, kind, reference, free_change, charge_change, free_balance, charge_balance, at, chain_hash, \
         pay_priority, ts, item_id, zone_id, os, user_ip, extension, remark",
    ),
    ("wallets", "app_no, wallet_no, open_id, free_balance, charge_balance, entry_count, chain_hash"),
];
/// Keys, each with its definition.
const KEYS: [(&str, &str, &str); 4] = [
    ("ledger_entries", "ledger_entries_pkey", "PRIMARY KEY (app_no, reference)"),
    ("ledger_entries", "ledger_entries_seq", "UNIQUE (app_no, wallet_no, seq)"),
    ("wallets", "wallets_pkey", "PRIMARY KEY (app_no, wallet_no)"),
    ("wallets", "wallets_open_id_unique", "UNIQUE (app_no, open_id)"),
];
/// What every exchange has bought.
const ITEM: [&str; 3] = ["bundle", r#"[{"product_id":1,"product_num":1,"product_type":0}]"#, "of the bench"];

/// What the wallets have come to.
pub(crate) struct Filler {
    /// Hash of each wallet's last entry.
    chains: Vec<ChainHash>,
    turns: u32,
}

impl Filler {
    pub(crate) fn new(wallets: u32) -> Self {
        Self { chains: (0..wallets).map(|_| CHAIN_START).collect(), turns: 0 }
    }

    /// So many entries for every wallet, the first of them a credit.
    pub(crate) fn history(&mut self, session: &mut Session, per_wallet: u32) -> Fallible<()> {
        session.execute("SET synchronous_commit = off; SET maintenance_work_mem = '1GB'")?;
        session.execute("DROP INDEX ledger_entries_seq")?;
        for (table, key, _) in KEYS {
            session.execute(&format!("ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {key}"))?;
        }
        let [name, info, desc] = ITEM;
        session
            .execute(&format!("INSERT INTO apps (app_id, app_no, app_secret) VALUES ('{APP_ID}', 1, '')"))?;
        session.execute(&format!(
            "INSERT INTO items (app_no, item_id, product_name, product_info, product_desc)
             VALUES (1, '\\x{}', '{name}', '{info}', '{desc}')",
            hex::encode(ItemId::of(name, info, desc).0)
        ))?;
        let count = self.chains.len();
        for turn in 0..per_wallet {
            eprintln!("filling: entry {} of {per_wallet} of each wallet", turn + 1);
            self.turn(session, count)?;
        }
        copy(session, 1, count, |wallet, row| {
            let chain = hex::encode(self.chains[wallet]);
            let left = PURSE - i64::from(self.turns - 1) * AMOUNT;
            let turns = self.turns;
            writeln!(row, "1\t{wallet}\to{wallet:09}\t{PURSE}\t{left}\t{turns}\t\\\\x{chain}")
        })?;
        for (table, key, definition) in KEYS {
            eprintln!("{key}");
            session.execute(&format!("ALTER TABLE {table} ADD CONSTRAINT {key} {definition}"))?;
        }
        for (table, _) in TABLES {
            session.execute(&format!("VACUUM ANALYZE {table}"))?;
        }
        eprintln!("the operator's log");
        session.execute(&log_lines::of_credits())?;
        session.execute("VACUUM ANALYZE operator_log")?;
        session.execute("CHECKPOINT")
    }

    /// One exchange more for the first wallets.
    pub(crate) fn more(&mut self, session: &mut Session, wallets: u32) -> Fallible<()> {
        self.turn(session, usize::try_from(wallets)?)?;
        session.execute(&format!(
            "UPDATE wallets w SET charge_balance = e.charge_balance, entry_count = seq, chain_hash = e.chain_hash
             FROM ledger_entries e WHERE e.seq = {} AND w.app_no = e.app_no AND w.wallet_no = e.wallet_no",
            self.turns
        ))
    }

    /// The next entry of the first wallets, with its record.
    fn turn(&mut self, session: &mut Session, wallets: usize) -> Fallible<()> {
        let turn = self.turns;
        self.turns += 1;
        let at_micros = FIRST_AT + i64::from(turn) * 1_000_000;
        // PostgreSQL reads it back to the very microsecond.
        let at = format!("2026-01-01 00:{:02}:{:02}+00", turn / 60 % 60, turn % 60);
        let [name, info, desc] = ITEM;
        let item_id = ItemId::of(name, info, desc).0;
        let is_credit = turn == 0;
        events(session, wallets, (turn + 1, &at), if is_credit { CREDITED } else { EXCHANGED })?;
        copy(session, 0, wallets, |wallet, row| {
            let mark = if is_credit { "!" } else { "" };
            let reference = format!("{mark}n{turn:04}{wallet:09}");
            let entry = LedgerEntry {
                app_no: 1,
                wallet_no: i64::try_from(wallet).unwrap_or_default(),
                seq: i64::from(turn) + 1,
                kind: if is_credit { CREDIT } else { EXCHANGE },
                reference: &reference,
                of_biz_no: None,
                remaining: None,
                item_id: (!is_credit).then_some(item_id),
                pay_priority: (!is_credit).then_some(0),
                free_change: if is_credit { PURSE } else { 0 },
                charge_change: if is_credit { PURSE } else { -AMOUNT },
                free_balance: PURSE,
                charge_balance: PURSE - i64::from(turn) * AMOUNT,
                at: at_micros,
            };
            let chain = &mut self.chains[wallet];
            *chain = entry.chain_hash(chain);
            let LedgerEntry { seq, kind, free_change, charge_change, free_balance, charge_balance, .. } =
                entry;
            let of_kind = if is_credit {
                "\\N\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\t".to_owned()
            } else {
                format!("0\t1767225600000\t\\\\x{}\ts1_r1\tandroid\t203.0.113.9\t\t\\N", hex::encode(item_id))
            };
            writeln!(
                row,
                "1\t{wallet}\t{seq}\t{kind}\t{reference}\t{free_change}\t{charge_change}\t\
                 {free_balance}\t{charge_balance}\t{at}\t\\\\x{}\t{of_kind}",
                hex::encode(chain)
            )
        })
    }
}

/// Tells of an entry of each of the first wallets: the events of one batch have one row.
fn events(session: &mut Session, wallets: usize, (seq, at): (u32, &str), of: &str) -> Fallible<()> {
    session.execute(&format!(
        "INSERT INTO events (app_id, last_no, at, count, type, row_id, keys)
         SELECT '{APP_ID}', h.last_no + sum(b.count) OVER (ORDER BY b.batch), '{at}', b.count, '{of}',
             int8send({seq}) || int8send(b.batch), b.keys
         FROM event_head h, (
             SELECT w / {BATCH} AS batch, count(*)::int AS count,
                 string_agg(int8send(w) || int8send({seq}), ''::bytea ORDER BY w) AS keys
             FROM generate_series(0, {wallets}::bigint - 1) AS w GROUP BY 1) AS b"
    ))?;
    session.execute(&format!("UPDATE event_head SET last_no = last_no + {wallets}"))
}

/// Fills one of the tables with a row for each of so many wallets.
fn copy(
    session: &mut Session,
    table: usize,
    wallets: usize,
    mut row: impl FnMut(usize, &mut String) -> std::fmt::Result,
) -> Fallible<()> {
    let (table, columns) = TABLES[table];
    let portions = (0..wallets).step_by(PORTION).map(|first| {
        let mut rows = String::new();
        for wallet in first..wallets.min(first + PORTION) {
            row(wallet, &mut rows).expect("a text takes whatever is written to it");
        }
        rows
    });
    session.runtime.block_on(async {
        let copy = format!("COPY {table} ({columns}) FROM STDIN");
        let mut copy = session.connection.copy_in_raw(&copy).await?;
        for portion in portions {
            copy.send(portion.into_bytes()).await?;
        }
        copy.finish().await?;
        Ok(())
    })
}
