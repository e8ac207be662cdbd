//! All that is recorded about a player in the order of time: ledger entries, refusals, orders, and what operators
//! changed.
//!
//! Each of the four has an index that leads to the newest rows of a player. A page reads a page of each, and keeps the
//! newest of them.

use std::fmt;
use std::time::Duration;

use domain::fields::Expected;
use domain::ids::{AppId, OpenId, OrderNo};
use domain::moment;
use time::{Date, OffsetDateTime, Time};

use crate::error::Result;
use crate::exchange_lookup::RefusalRecord;
use crate::operator_log::OperatorLogLine;
use crate::order::{OrderCursor, OrderFilter, StoredOrder};
use crate::paging::ListPage;
use crate::store::Store;
use crate::wallet::{EntryKind, LedgerFilter, LedgerRow};

/// The smallest step of the database's time.
const MICROSECOND: Duration = Duration::from_micros(1);

domain::word_enum! {
    /// The kind of a line of a player's history.
    pub enum HistoryKind {
        /// A deduction by an exchange.
        Exchange = "exchange",
        /// A present by a game.
        Present = "present",
        /// An exchange, or a part of it, that was given back.
        Cancel = "cancel",
        /// A credit by an operator.
        Credit = "credit",
        /// A debit by an operator.
        Debit = "debit",
        /// A payment that was credited.
        Topup = "topup",
        /// The coins that a refund of a payment took.
        Refund = "refund",
        /// The part of the wallet's debt that a top-up has settled.
        Settlement = "settlement",
        /// A refused exchange, present or cancel.
        Refusal = "refusal",
        /// An order.
        Order = "order",
        /// Another change by an operator.
        Change = "change",
    }
}

impl HistoryKind {
    /// The kind of ledger entry, if it is one.
    #[must_use]
    pub const fn entry(self) -> Option<EntryKind> {
        match self {
            Self::Exchange => Some(EntryKind::Exchange),
            Self::Present => Some(EntryKind::Present),
            Self::Cancel => Some(EntryKind::Cancel),
            Self::Credit => Some(EntryKind::Credit),
            Self::Debit => Some(EntryKind::Debit),
            Self::Topup => Some(EntryKind::Topup),
            Self::Refund => Some(EntryKind::Refund),
            Self::Settlement => Some(EntryKind::Settlement),
            Self::Refusal | Self::Order | Self::Change => None,
        }
    }
}

domain::word_enum! {
    /// The source of a line. Of lines of one moment, those of the first of these come first.
    enum Source {
        Ledger = "ledger",
        Refusals = "refusals",
        Orders = "orders",
        Log = "log",
    }
}

/// A filter of lines. The default lets all through.
#[derive(Debug, Clone, Default)]
pub struct HistoryFilter {
    /// Only of this kind.
    pub kind: Option<HistoryKind>,
    /// At or after this time.
    pub since: Option<OffsetDateTime>,
    /// Before this time.
    pub until: Option<OffsetDateTime>,
    /// With this `biz_no`, ref, order number or payment number.
    pub number: Option<String>,
}

impl HistoryFilter {
    /// The same filter of ledger entries. `None` where it lets none through.
    #[must_use]
    pub fn of_ledger(&self) -> Option<LedgerFilter> {
        let kind = match self.kind {
            Some(kind) => Some(kind.entry()?),
            None => None,
        };
        Some(LedgerFilter { kind, since: self.since, until: self.until, reference: self.number.clone() })
    }

    fn lets_through(&self, kind: HistoryKind) -> bool {
        self.kind.is_none_or(|wanted| wanted == kind)
    }
}

/// A line of a player's history.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryLine {
    /// A ledger entry, unless it is archived.
    Entry(LedgerRow),
    /// How often a code has refused a number. Its time is that of the last refusal.
    Refusal(RefusalRecord),
    /// An order as it is now. Its time is that of the order.
    Order(StoredOrder),
    /// A change by an operator that is no ledger entry.
    Change(OperatorLogLine),
}

impl HistoryLine {
    /// When it happened.
    #[must_use]
    pub fn at(&self) -> OffsetDateTime {
        match self {
            Self::Entry(row) => row.line.at,
            Self::Refusal(refusal) => refusal.last_at,
            // A time that no calendar has is as far away as it can be.
            Self::Order(order) => moment::of_millis(order.order_create_time)
                .unwrap_or(if order.order_create_time < 0 { OffsetDateTime::UNIX_EPOCH } else { end() }),
            Self::Change(line) => line.at,
        }
    }

    /// The key that distinguishes it from other lines of its source at the same moment.
    fn key(&self) -> String {
        match self {
            Self::Entry(_) => String::new(),
            Self::Refusal(refusal) => format!("{}.{}", refusal.code, refusal.biz_no),
            Self::Order(order) => format!("{}.{}", order.order_create_time, order.out_biz_order_no),
            Self::Change(line) => line.cursor().key.to_string(),
        }
    }
}

/// A position in a player's history, newest first. Its text form can be part of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryCursor {
    at: OffsetDateTime,
    source: Source,
    /// The lowest `seq` of the ledger entries that were shown.
    below: i64,
    key: String,
}

impl HistoryCursor {
    /// Parses the text form.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let mut parts = text.splitn(4, '.');
        let mut part = || parts.next().unwrap_or_default();
        let at = part().parse::<i64>().ok().map(|micros| i128::from(micros) * 1000);
        let at = at.and_then(|nanos| OffsetDateTime::from_unix_timestamp_nanos(nanos).ok());
        match (at, Source::parse(part()), part().parse()) {
            (Some(at), Ok(source), Ok(below)) => Ok(Self { at, source, below, key: part().to_owned() }),
            _ => Err(Expected::new("a cursor that a page before gave")),
        }
    }

    /// Where the lines of a source go on: those before a moment, and those of that moment below a key.
    fn place(after: Option<&Self>, source: Source) -> (OffsetDateTime, &str) {
        match after {
            None => (end(), ""),
            Some(after) if after.source == source => (after.at, &after.key),
            Some(after) if after.source < source => {
                (after.at.checked_add(MICROSECOND.try_into().unwrap_or_default()).unwrap_or(after.at), "")
            }
            Some(after) => (after.at, ""),
        }
    }
}

impl fmt::Display for HistoryCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.at.unix_timestamp_nanos() / 1000;
        write!(f, "{micros}.{}.{}.{}", self.source, self.below, self.key)
    }
}

/// After every moment.
fn end() -> OffsetDateTime {
    OffsetDateTime::new_utc(Date::MAX, Time::MIDNIGHT)
}

/// A page of lines, newest first. A page that has examined 100,000 ledger entries may be shorter than others, and has a
/// `next`.
pub type HistoryPage = ListPage<HistoryLine, HistoryCursor>;

/// A line with the moment by which it is sorted.
type Placed = (OffsetDateTime, Source, HistoryLine);

impl Store {
    /// At most `limit` lines of a player's history, newest first. With `after`, those that follow the page which gave
    /// it. The app need not know the player.
    pub async fn history(
        &self,
        (app_id, open_id): (&AppId, &OpenId),
        filter: &HistoryFilter,
        after: Option<&HistoryCursor>,
        limit: u32,
    ) -> Result<HistoryPage> {
        let player = (app_id, open_id);
        // One more row of each shows whether there is another page.
        let wanted = limit.saturating_add(1);
        let mut lines: Vec<Placed> = Vec::new();
        let mut add = |source, found: Vec<HistoryLine>| {
            // Each source is in its order. A clock that was put back does not change it.
            let mut latest = after.map_or_else(end, |after| after.at);
            lines.extend(found.into_iter().map(|line| {
                latest = latest.min(line.at());
                (latest, source, line)
            }));
        };
        let below = after.map_or(i64::MAX, |after| after.below);
        let mut horizon = None;
        if let Some(filter) = filter.of_ledger() {
            let page = self.ledger(app_id, open_id, &filter, Some(below), wanted).await?;
            if let Some(floor) = page.next.filter(|_| page.items.len() < limit as usize) {
                horizon = self.entry_at(player, floor).await?.map(|at| (at, floor));
            }
            add(Source::Ledger, page.items.into_iter().map(HistoryLine::Entry).collect());
        }
        if filter.lets_through(HistoryKind::Refusal) {
            let found = self.refusals_before(player, filter, after, wanted).await?;
            add(Source::Refusals, found.into_iter().map(HistoryLine::Refusal).collect());
        }
        if filter.lets_through(HistoryKind::Order) {
            let found = self.orders_before(player, filter, after, wanted).await?;
            add(Source::Orders, found.into_iter().map(HistoryLine::Order).collect());
        }
        if filter.lets_through(HistoryKind::Change) {
            let found = self.changes_before(player, filter, after, wanted).await?;
            add(Source::Log, found.into_iter().map(HistoryLine::Change).collect());
        }
        // Entries below the horizon were not examined yet, so older lines wait for the next page.
        if let Some((at, _)) = horizon {
            lines.retain(|(moment, source, _)| *source == Source::Ledger || *moment > at);
        }
        // A stable sort: lines of one source stay in their order.
        lines.sort_by_key(|(at, source, _)| (std::cmp::Reverse(*at), *source));
        Ok(cut(lines, limit, below, horizon))
    }

    /// The time of a ledger entry. `None` when it is not in the ledger.
    async fn entry_at(
        &self,
        (app_id, open_id): (&AppId, &OpenId),
        seq: i64,
    ) -> Result<Option<OffsetDateTime>> {
        let at = sqlx::query_scalar!(
            "SELECT e.at FROM ledger_entries e
             WHERE (e.app_no, e.wallet_no) = (SELECT app_no, wallet_no FROM players WHERE app_id = $1 AND open_id = $2)
                 AND e.seq = $3",
            app_id.as_str(),
            open_id.as_str(),
            seq
        );
        Ok(at.fetch_optional(&self.pool).await?)
    }

    async fn refusals_before(
        &self,
        (app_id, open_id): (&AppId, &OpenId),
        filter: &HistoryFilter,
        after: Option<&HistoryCursor>,
        limit: u32,
    ) -> Result<Vec<RefusalRecord>> {
        let (at, key) = HistoryCursor::place(after, Source::Refusals);
        Ok(sqlx::query_as!(
            RefusalRecord,
            r#"SELECT open_id, biz_no, kind, code, first_at, last_at, count, request_id, amount, product_name, free_balance,
                 charge_balance
               FROM exchange_refusals
               WHERE app_id = $1 AND open_id = $2 AND last_at > now() - interval '30 days' AND last_at <= $3
                 AND (last_at < $3 OR (code::text || '.' || biz_no) COLLATE "C" < $4)
                 AND ($5::timestamptz IS NULL OR last_at >= $5) AND ($6::timestamptz IS NULL OR last_at < $6)
                 AND ($7::text IS NULL OR biz_no = $7)
               ORDER BY last_at DESC, (code::text || '.' || biz_no) COLLATE "C" DESC LIMIT $8"#,
            app_id.as_str(),
            open_id.as_str(),
            at,
            key,
            filter.since,
            filter.until,
            filter.number,
            i64::from(limit)
        )
        .fetch_all(&self.pool)
        .await?)
    }

    async fn orders_before(
        &self,
        (app_id, open_id): (&AppId, &OpenId),
        filter: &HistoryFilter,
        after: Option<&HistoryCursor>,
        limit: u32,
    ) -> Result<Vec<StoredOrder>> {
        let number = match filter.number.as_deref().map(OrderNo::parse) {
            None => None,
            Some(Ok(number)) => Some(number),
            // No order has such a number.
            Some(Err(_)) => return Ok(Vec::new()),
        };
        let (at, key) = HistoryCursor::place(after, Source::Orders);
        let place =
            key.split_once('.').and_then(|(millis, number)| OrderCursor::of_app(app_id, millis, number));
        let place_until = (after.is_some() && place.is_none()).then(|| millis_up(at));
        let filter = OrderFilter {
            app_id: Some(app_id.clone()),
            open_id: Some(open_id.clone()),
            number,
            created_since: filter.since.map(millis_up),
            created_until: filter.until.map(millis_up).into_iter().chain(place_until).min(),
            after: place,
            ..OrderFilter::default()
        };
        Ok(self.orders(&filter, limit).await?.items)
    }

    /// Changes by operators that are no ledger entries.
    async fn changes_before(
        &self,
        (app_id, open_id): (&AppId, &OpenId),
        filter: &HistoryFilter,
        after: Option<&HistoryCursor>,
        limit: u32,
    ) -> Result<Vec<OperatorLogLine>> {
        let (at, key) = HistoryCursor::place(after, Source::Log);
        // The index has just these lines.
        Ok(sqlx::query_as!(
            OperatorLogLine,
            r#"SELECT seq AS "seq!", at AS "at!", operator_kind AS "operator_kind!", operator AS "operator!",
                 action AS "action!", app_id AS "app_id!", subject AS "subject!", before, after, note AS "note!",
                 id AS "id!"
             FROM player_lines
             WHERE app_id = $1 AND subject = $2 AND action NOT IN ('wallet.credit', 'wallet.debit', 'wallet.cancel')
               AND (at, id) < ($3, $4)
               AND ($5::timestamptz IS NULL OR at >= $5) AND ($6::timestamptz IS NULL OR at < $6)
               AND ($7::text IS NULL OR before ->> 'ref' = $7 OR after ->> 'ref' = $7)
             ORDER BY at DESC, id DESC LIMIT $8"#,
            app_id.as_str(),
            open_id.as_str(),
            at,
            key.parse().unwrap_or(i64::MIN),
            filter.since,
            filter.until,
            filter.number,
            i64::from(limit)
        )
        .fetch_all(&self.pool)
        .await?)
    }
}

/// The first whole millisecond that is not before a moment.
fn millis_up(at: OffsetDateTime) -> i64 {
    i64::try_from(-(-at.unix_timestamp_nanos()).div_euclid(1_000_000)).unwrap_or(i64::MAX)
}

/// Cuts sorted lines to a page.
fn cut(lines: Vec<Placed>, limit: u32, below: i64, horizon: Option<(OffsetDateTime, i64)>) -> HistoryPage {
    let limit = limit as usize;
    let has_more = lines.len() > limit;
    let (mut items, mut next, mut below) = (Vec::new(), None, below);
    for (at, source, line) in lines.into_iter().take(limit) {
        if let HistoryLine::Entry(row) = &line {
            below = row.line.seq;
        }
        next = Some(HistoryCursor { at, source, below, key: line.key() });
        items.push(line);
    }
    let next = match horizon {
        _ if has_more => next,
        Some((at, floor)) => {
            Some(HistoryCursor { at, source: Source::Ledger, below: floor, key: String::new() })
        }
        None => None,
    };
    ListPage { items, next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_reads_back_and_nothing_else_does() {
        for text in
            ["1700000000000000.ledger.7.", "-5.refusals.9223372036854775807.10000601.n.1", "0.log.1.-4"]
        {
            assert_eq!(HistoryCursor::parse(text).unwrap().to_string(), text);
        }
        for text in
            ["", "1", "1.ledger", "1.ledger.x.", "x.ledger.1.", "1.other.1.", "9223372036854775807.log.1.1"]
        {
            assert!(HistoryCursor::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_millisecond_is_rounded_up() {
        let of = |micros: i128| millis_up(OffsetDateTime::from_unix_timestamp_nanos(micros * 1000).unwrap());
        assert_eq!([of(0), of(1), of(1000), of(1001), of(-1), of(-1000)], [0, 1, 1, 2, 0, -1]);
    }
}
