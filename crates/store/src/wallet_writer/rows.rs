//! Rows that a batch reads: its wallets, and the idempotency records of its references, with their SQL. A record also
//! answers a change that comes again under its reference (contract 3.3, 8.3.3 and 10.2).
//!
//! The compiler does not check these statements. Each session prepares all of them when it opens. Two names in them depend
//! on the [`Engine`]:
//!
//! - `{app}` is the app of a key: its own column, `k.app_no`. On Citus it is the first element of the array of apps, as a
//!   batch has one app there.
//! - `{numbers}` has all numbers that were ever used: the view `numbers`, with those in archives. On Citus it is the table
//!   `ledger_entries`: nothing is archived there, and a view would be planned for every batch.

use std::borrow::Cow;

use domain::ids::{ItemId, WalletNo};
use domain::ledger::{ChainHash, ReferenceKind, micros, unix_millis};
use domain::wallet::{
    Action, Balances, Change, DeveloperTexts, GivenBack, OrderReceipt, PayPriority, PurseChange, Receipt,
    Refused, Repeat, Sender, WalletOutcome, WalletRequest,
};
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::batch::{Batch, OpenWallet, Rows, WalletState};
use crate::engine::Engine;
use crate::error::StoreError;
use crate::writer::SessionFault;

/// Columns of a wallet.
pub(crate) const WALLET_COLUMNS: &str = "\
w.wallet_no, w.free_balance, w.charge_balance, w.entry_count, w.chain_hash,
coalesce(w.frozen_until > statement_timestamp(), false) AS is_frozen";

/// The wallet of each request of a batch and the records of its numbers.
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

/// The records of a batch. It must be a later statement than the lock. Only then it sees the commit of the
/// transaction that held the lock before.
const RECORDS_FROM: &str = "\
FROM unnest($2::integer[], $3::text[]) WITH ORDINALITY AS k (app_no, number, position)
JOIN {numbers} x ON x.app_no = {app} AND x.reference = k.number";

/// Reads the database's time after the wallets are locked.
pub(super) const NOW: &str = "SELECT clock_timestamp()";

/// Reads the wallet of each request of a batch and the records of its numbers. It locks nothing.
pub(super) fn read_statement(engine: Engine) -> String {
    let columns = record_columns();
    let sql = format!(
        "SELECT k.position, {WALLET_COLUMNS}, {columns}, statement_timestamp() AS read_at {READ_FROM}"
    );
    fill(engine, 2, &sql)
}

/// Locks the wallets of a batch and reads them; with `skips_held` without those that another transaction has locked.
pub(super) fn lock_statement(engine: Engine, skips_held: bool) -> String {
    let skip = if skips_held { " SKIP LOCKED" } else { "" };
    format!("{} {LOCKED}{skip}", look_statement(engine))
}

/// Reads the wallets of a batch. It locks nothing.
pub(super) fn look_statement(engine: Engine) -> String {
    fill(engine, 1, &format!("SELECT k.position, {WALLET_COLUMNS} {WALLETS_FROM}"))
}

/// Lists the wallets of a batch that exist.
pub(super) fn existing_statement(engine: Engine) -> String {
    fill(engine, 1, &format!("SELECT k.position, w.wallet_no {WALLETS_FROM}"))
}

/// Reads the records of a batch.
pub(super) fn records_statement(engine: Engine) -> String {
    fill(engine, 2, &format!("SELECT k.position, {} {RECORDS_FROM}", record_columns()))
}

/// Fills in `{app}` and `{numbers}`. `parameter` is the number of the array with the apps of a batch.
pub(super) fn fill(engine: Engine, parameter: u8, sql: &str) -> String {
    let numbers = match engine {
        Engine::Postgres => "numbers",
        Engine::Citus => "ledger_entries",
    };
    sql.replace("{app}", &engine.key("k.app_no", parameter, "integer")).replace("{numbers}", numbers)
}

/// The database's rows of a batch, and the time of the read.
pub(super) struct ReadRows {
    pub(super) rows: Rows,
    pub(super) at: OffsetDateTime,
}

/// The results of the statements that read a locked batch, each row with its position.
pub(super) struct LockedRows {
    pub(super) wallets: Vec<(usize, WalletState)>,
    pub(super) at: OffsetDateTime,
    pub(super) records: Vec<(usize, Record<'static>)>,
    /// The wallets that exist, when not all of the batch were locked. It must be read later than the records: a wallet
    /// that is unknown then has none of them.
    pub(super) existing: Vec<(usize, WalletNo)>,
}

impl ReadRows {
    pub(super) fn nothing(batch: &Batch<'_>) -> Self {
        let rows = Rows {
            wallets: vec![WalletState::Unknown; batch.wallets.names.len()],
            records: vec![None; batch.numbers.names.len()],
            details: vec![None; batch.requests.len()],
            are_locked: false,
        };
        Self { rows, at: OffsetDateTime::UNIX_EPOCH }
    }

    pub(super) fn of_locked(batch: &Batch<'_>, locked: LockedRows) -> Result<Self, SessionFault> {
        let mut known = Self { at: locked.at, ..Self::nothing(batch) };
        let Rows { wallets, records, are_locked, .. } = &mut known.rows;
        *are_locked = true;
        // A wallet that exists and was not locked is held by another session, or is newer than the lock.
        for (position, wallet_no) in locked.existing {
            *wallets.get_mut(position).ok_or_else(|| damaged("wallets"))? = WalletState::Held(wallet_no);
        }
        for (position, wallet) in locked.wallets {
            *wallets.get_mut(position).ok_or_else(|| damaged("wallets"))? = wallet;
        }
        for (position, record) in locked.records {
            *records.get_mut(position).ok_or_else(|| damaged("ledger_entries"))? = Some(record);
        }
        Ok(known)
    }

    /// The time of the read, as [`domain::ledger::LedgerEntry::at`] counts it.
    pub(super) fn at(&self) -> i64 {
        micros(self.at)
    }
}

/// The fault of a row that does not parse.
pub(super) fn damaged(table: &str) -> SessionFault {
    SessionFault::Other(StoreError::damaged(table))
}

/// From the rows of [`read_statement`], one for each number of a request.
pub(super) fn known(batch: &Batch<'_>, rows: &[Row]) -> Result<ReadRows, SessionFault> {
    let (mut known, lookups) = (ReadRows::nothing(batch), batch.lookups().collect::<Vec<_>>());
    for row in rows {
        let lookup = position(row).and_then(|position| lookups.get(position));
        let (place_of_wallet, place_of_number) = *lookup.ok_or_else(|| damaged("wallets"))?;
        if row.column::<Option<i64>>("wallet_no").ok_or_else(|| damaged("wallets"))?.is_some() {
            let wallet = wallet(row).ok_or_else(|| damaged("wallets"))?;
            known.rows.wallets[place_of_wallet] = wallet;
        }
        if Record::is_in(row).ok_or_else(|| damaged("ledger_entries"))? {
            let record = Record::read(row).ok_or_else(|| damaged("ledger_entries"))?;
            known.rows.records[place_of_number] = Some(record);
        }
        known.at = row.column("read_at").ok_or_else(|| damaged("wallets"))?;
    }
    Ok(known)
}

/// The wallets in [`WALLET_COLUMNS`], each with its position.
pub(crate) fn wallets<R: ColumnReader>(rows: &[R]) -> Result<Vec<(usize, WalletState)>, SessionFault> {
    rows.iter().map(|row| position(row).zip(wallet(row)).ok_or_else(|| damaged("wallets"))).collect()
}

/// From the rows of [`existing_statement`].
pub(super) fn existing<R: ColumnReader>(rows: &[R]) -> Result<Vec<(usize, WalletNo)>, SessionFault> {
    let existing = |row: &R| Some((position(row)?, WalletNo(row.column("wallet_no")?)));
    rows.iter().map(|row| existing(row).ok_or_else(|| damaged("wallets"))).collect()
}

/// From the rows of [`records_statement`].
pub(super) fn records<R: ColumnReader>(rows: &[R]) -> Result<Vec<(usize, Record<'static>)>, SessionFault> {
    let record = |row: &R| position(row).zip(Record::read(row));
    rows.iter().map(|row| record(row).ok_or_else(|| damaged("ledger_entries"))).collect()
}

/// The wallet in [`WALLET_COLUMNS`].
fn wallet(row: &impl ColumnReader) -> Option<WalletState> {
    let wallet_no = WalletNo(row.column("wallet_no")?);
    let balances = Balances::new(row.column("free_balance")?, row.column("charge_balance")?).ok()?;
    let chain_hash = ChainHash::try_from(row.column::<&[u8]>("chain_hash")?).ok()?;
    let entry_count = row.column("entry_count")?;
    let is_frozen = row.column("is_frozen")?;
    Some(WalletState::Open(OpenWallet { wallet_no, balances, entry_count, chain_hash, is_frozen }))
}

/// The texts of the developer of a record, in the order of their names.
pub(super) type RecordTexts<'a> = [Option<Cow<'a, str>>; DeveloperTexts::NAMES.len()];

/// The use of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) wallet_no: WalletNo,
    pub(super) kind: ReferenceKind,
    pub(super) free_change: i64,
    pub(super) charge_change: i64,
    /// Both purses right after it.
    pub(super) balances: Balances,
    /// The amount that can still be given back: of an exchange now, and of the exchange of a cancel right after it.
    pub(super) remaining: i64,
    /// The exchange of a cancel.
    pub(super) of: Option<Cow<'a, str>>,
    pub(super) pay_priority: Option<PayPriority>,
    pub(super) item_id: Option<ItemId>,
    pub(super) zone_id: Option<Cow<'a, str>>,
    pub(super) texts: RecordTexts<'a>,
    pub(super) remark: Option<Cow<'a, str>>,
    /// As [`domain::ledger::LedgerEntry::at`] counts it.
    pub(super) at: i64,
    /// True when it is too old for a replay.
    pub(super) is_expired: bool,
}

/// The columns of a record, by name, but for the texts of the developer. The first parameter is
/// [`domain::wallet::REPLAY_HOURS`]. The last cancel of an exchange has what is left of it. Only a known exchange is looked
/// up for it.
const RECORD_COLUMNS: [(&str, &str); 14] = [
    ("record_wallet_no", "x.wallet_no"),
    ("kind", "x.kind"),
    ("free_change", "x.free_change"),
    ("charge_change", "x.charge_change"),
    ("record_free_balance", "x.free_balance"),
    ("record_charge_balance", "x.charge_balance"),
    (
        "remaining",
        "CASE WHEN x.kind = 'exchange' THEN coalesce(
            (SELECT c.remaining FROM {numbers} c WHERE c.app_no = {app} AND c.of_biz_no = x.reference
             ORDER BY c.remaining LIMIT 1), -(x.free_change + x.charge_change)) ELSE x.remaining END",
    ),
    ("of_biz_no", "x.of_biz_no"),
    ("pay_priority", "x.pay_priority"),
    ("item_id", "x.item_id"),
    ("zone_id", "x.zone_id"),
    ("remark", "x.remark"),
    ("at", "x.at"),
    ("is_expired", "clock_timestamp() >= x.at + make_interval(hours => $1)"),
];

/// The columns as a SELECT lists them.
fn record_columns() -> String {
    let texts = DeveloperTexts::NAMES.map(|name| format!("x.{name}"));
    let others = RECORD_COLUMNS.map(|(name, sql)| format!("{sql} AS {name}"));
    [&texts[..], &others].concat().join(", ")
}

impl<'b> Record<'b> {
    /// The record of a change or an order that is carried out now, or of a number that is closed.
    pub(super) fn new(
        request: &'b WalletRequest,
        wallet_no: WalletNo,
        kind: ReferenceKind,
        change: PurseChange,
        remaining: Option<i64>,
        at: i64,
    ) -> Self {
        let purchase = request.purchase();
        let paid = purchase.map_or(0, |purchase| purchase.amount.get());
        let sender = request.sender.as_ref();
        Self {
            wallet_no,
            kind,
            free_change: change.free_change,
            charge_change: change.charge_change,
            balances: change.after,
            remaining: remaining.unwrap_or(paid),
            of: request.target().map(Cow::Borrowed),
            pay_priority: purchase.map(|purchase| purchase.pay_priority),
            item_id: request.item().map(|item| *item.id),
            zone_id: sender.map(|sender| Cow::Borrowed(sender.zone_id.as_str())),
            texts: Self::texts_of(sender),
            remark: request.remark.as_deref().map(Cow::Borrowed),
            at,
            is_expired: false,
        }
    }

    /// The texts of the developer of a request. An operator sends none.
    pub(super) fn texts_of(sender: Option<&'b Sender>) -> RecordTexts<'b> {
        let texts = sender.map(|sender| sender.texts.all().map(|text| Some(Cow::Borrowed(text))));
        texts.unwrap_or_default()
    }
}

impl Record<'static> {
    /// Whether a row has a record. `None` when the row is damaged.
    pub(super) fn is_in(row: &impl ColumnReader) -> Option<bool> {
        Some(row.column::<Option<i64>>("record_wallet_no")?.is_some())
    }

    /// The record in a row. `None` when the row is damaged.
    pub(super) fn read(row: &impl ColumnReader) -> Option<Self> {
        let text = |name| Some(row.column::<Option<String>>(name)?.map(Cow::Owned));
        let pay_priority = match row.column::<Option<i16>>("pay_priority")? {
            Some(code) => Some(PayPriority::from_code(code)?),
            None => None,
        };
        let item_id = match row.column::<Option<&[u8]>>("item_id")? {
            Some(bytes) => Some(ItemId(<[u8; 16]>::try_from(bytes).ok()?)),
            None => None,
        };
        let mut texts = RecordTexts::default();
        for (name, kept) in DeveloperTexts::NAMES.into_iter().zip(&mut texts) {
            *kept = text(name)?;
        }
        let (free, charge) = (row.column("record_free_balance")?, row.column("record_charge_balance")?);
        Some(Self {
            wallet_no: WalletNo(row.column("record_wallet_no")?),
            kind: ReferenceKind::parse(row.column("kind")?).ok()?,
            free_change: row.column("free_change")?,
            charge_change: row.column("charge_change")?,
            balances: Balances::new(free, charge).ok()?,
            remaining: row.column::<Option<i64>>("remaining")?.unwrap_or_default(),
            of: text("of_biz_no")?,
            pay_priority,
            item_id,
            zone_id: text("zone_id")?,
            texts,
            remark: text("remark")?,
            at: micros(row.column::<OffsetDateTime>("at")?),
            is_expired: row.column("is_expired")?,
        })
    }
}

impl Record<'_> {
    pub(super) fn borrowed(&self) -> Record<'_> {
        Record {
            of: self.of.as_deref().map(Cow::Borrowed),
            zone_id: self.zone_id.as_deref().map(Cow::Borrowed),
            texts: self.texts.each_ref().map(|text| text.as_deref().map(Cow::Borrowed)),
            remark: self.remark.as_deref().map(Cow::Borrowed),
            ..*self
        }
    }

    /// The answer to a change or an order whose reference has this record.
    pub(super) fn answer(&self, wallet: WalletState, request: &WalletRequest) -> WalletOutcome {
        if self.kind == ReferenceKind::Closed {
            return WalletOutcome::Refused(Refused::Closed, wallet.balances());
        }
        // The ref of an operator is replayed for ever (contract 8.3.3).
        let is_expired = self.is_expired && request.sender.is_some();
        match Repeat::answer(is_expired, self.is_same(wallet.wallet_no(), request)) {
            Repeat::Replayed => WalletOutcome::Replayed(self.receipt(request)),
            Repeat::Conflict => WalletOutcome::Refused(Refused::Conflict, wallet.balances()),
            Repeat::Expired => WalletOutcome::Refused(Refused::Expired, wallet.balances()),
        }
    }

    /// True when a change or an order has the business content of this record (contract 3.3.6, 10.2.3, 19.2.4). What a game
    /// says of its player and platform may differ, and the note of an operator is for people.
    fn is_same(&self, wallet_no: Option<WalletNo>, request: &WalletRequest) -> bool {
        if request.kind() != Some(self.kind) || wallet_no != Some(self.wallet_no) {
            return false;
        }
        let is_same = match &request.action {
            Action::Change(change) => self.is_same_change(change),
            // The remark has the product too. The price is that of the first order.
            Action::Order(_) => true,
            Action::Balance | Action::Query { .. } => false,
        };
        if !is_same {
            return false;
        }
        let Some(sender) = &request.sender else { return true };
        self.zone_id.as_deref() == Some(sender.zone_id.as_str())
            && self.has_texts(sender)
            && self.remark.as_deref() == request.remark.as_deref()
    }

    /// Whether the texts of the developer are those of a request. A row from before the column of a text has NULL, as if the
    /// text had been absent. An archived row has NULL too, but its number is always expired.
    fn has_texts(&self, sender: &Sender) -> bool {
        let mut pairs = self.texts.iter().zip(sender.texts.all());
        pairs.all(|(kept, sent)| kept.as_deref().unwrap_or_default() == sent)
    }

    fn is_same_change(&self, change: &Change) -> bool {
        let amount = i128::from(self.free_change) + i128::from(self.charge_change);
        let changes = (self.free_change, self.charge_change);
        match change {
            Change::Exchange(purchase) => {
                amount == -i128::from(purchase.amount.get())
                    && self.pay_priority == Some(purchase.pay_priority)
                    && self.item_id == Some(purchase.item_id)
            }
            Change::Present(asked) => amount == asked.get().into(),
            Change::Cancel { of, amount: asked } => {
                amount == asked.get().into() && self.of.as_deref() == Some(of.as_str())
            }
            Change::Credit { free, charge } => changes == (*free, *charge),
            Change::Debit { free, charge } => changes == (-*free, -*charge),
            Change::Topup { bonus, charge } => changes == (*bonus, *charge),
            // Their own rows tell what they were asked for.
            Change::Refund { .. } | Change::Settlement(_) => false,
        }
    }

    pub(super) fn receipt(&self, request: &WalletRequest) -> Receipt {
        let given_back = self.of.as_ref().map(|of| GivenBack {
            of: of.to_string(),
            free: self.free_change,
            charge: self.charge_change,
            remaining: self.remaining,
        });
        let ordered = self.ordered();
        Receipt { reference: request.reference.clone(), balances: self.balances, given_back, ordered }
    }

    /// The terms that an order has fixed.
    pub(super) fn ordered(&self) -> Option<OrderReceipt> {
        let item_id = self.item_id.filter(|_| self.kind == ReferenceKind::TopupOrder)?;
        Some(OrderReceipt { item_id, created_at: unix_millis(self.at) })
    }
}

/// The columns of a row of either driver. The writers use tokio-postgres, and operators' changes use sqlx.
pub(crate) trait ColumnReader {
    /// The column of this name, if it has this type.
    fn column<'r, T>(&'r self, name: &str) -> Option<T>
    where
        T: FromSql<'r> + sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>;
}

impl ColumnReader for Row {
    fn column<'r, T>(&'r self, name: &str) -> Option<T>
    where
        T: FromSql<'r> + sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        self.try_get(name).ok()
    }
}

impl ColumnReader for PgRow {
    fn column<'r, T>(&'r self, name: &str) -> Option<T>
    where
        T: FromSql<'r> + sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        sqlx::Row::try_get(self, name).ok()
    }
}

/// The position of a row's key in the batch.
pub(super) fn position(row: &impl ColumnReader) -> Option<usize> {
    // WITH ORDINALITY counts from 1.
    usize::try_from(row.column::<i64>("position")?.checked_sub(1)?).ok()
}
