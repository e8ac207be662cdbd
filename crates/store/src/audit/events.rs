//! Compares the events that still have rows with the ledger entries that they tell of, and their numbers with the head. So
//! an event that the role of the servers removed, invented or changed is found.

use std::sync::LazyLock;

use domain::audit::{Check, Findings};
use domain::event::{EventKeys, EventType};
use domain::ledger::{LedgerEntry, ReferenceKind};
use domain::record_set::{RecordLine, RecordSet};
use futures_util::TryStreamExt as _;
use sqlx::PgConnection;

use super::AuditError;
use super::copy_reader::Copied;
use crate::error::StoreError;

/// The rows that events of ledger entries have, with and without numbers.
const ROWS: &str = "SELECT app_id, type, at, keys FROM events
    UNION ALL SELECT a.app_id, o.type, o.at, o.keys FROM wallet_outbox o JOIN apps a ON a.app_no = o.app_no";

/// The events of ledger entries since a time, as one side has them.
#[derive(Clone)]
pub(super) struct ToldEntries {
    /// In microseconds since 2000. `None` where no row is there, so that nothing can be compared.
    since: Option<i64>,
    set: RecordSet,
}

impl ToldEntries {
    pub(super) fn new(empty: RecordSet, since: Option<i64>) -> Self {
        Self { since, set: empty }
    }

    /// Adds a ledger entry of this app.
    pub(super) fn add(&mut self, app_id: &str, entry: &LedgerEntry<'_>) {
        let event_type = ReferenceKind::parse(entry.kind).ok().and_then(EventType::of_entry);
        let Some(event_type) = event_type else { return };
        self.add_key(app_id, event_type, entry.at, (entry.wallet_no, entry.seq));
    }

    fn add_key(&mut self, app_id: &str, of: EventType, at: i64, (wallet_no, seq): (i64, i64)) {
        if self.since.is_some_and(|since| at >= since) {
            let balances = [wallet_no, seq, at, 0];
            self.set.add(&RecordLine { app_id, number: of.as_str(), open_id: "", balances });
        }
    }
}

/// The time from which on each ledger entry has its event. Rows leave after `notify.keep` in the order of their numbers, and
/// a number is at most seconds younger than the change. So no row that left was two minutes younger than one that stayed.
pub(super) async fn since(connection: &mut PgConnection) -> Result<Option<i64>, AuditError> {
    let first = sqlx::query_scalar!(
        r#"SELECT ((extract(epoch FROM at) - 946684800) * 1000000)::bigint
               + CASE WHEN removed_no = 0 THEN 0 ELSE 120000000 END AS "since!"
           FROM events, event_head WHERE events.last_no > removed_no ORDER BY events.last_no LIMIT 1"#
    );
    Ok(first.fetch_optional(connection).await?)
}

/// Reads what the events tell of the ledger, and names numbers that no row has.
pub(super) async fn read(
    connection: &mut PgConnection,
    told: &mut ToldEntries,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    compare_numbers(connection, findings).await?;
    let mut rows = Copied::of(connection, ROWS).await?;
    while let Some(mut row) = rows.next().await? {
        let (app_id, of, at, keys) = (row.text()?, row.text()?, row.number()?, row.bytes()?);
        let Ok(of) = EventType::parse(of) else { continue };
        if let Some(EventKeys::Entries(keys)) = EventKeys::decode(of, keys) {
            for (wallet_no, seq) in keys {
                told.add_key(app_id, of, at, (wallet_no.0, seq));
            }
        }
    }
    Ok(())
}

/// Each number behind the last removed one, up to the head, is that of one event.
async fn compare_numbers(connection: &mut PgConnection, findings: &mut Findings) -> Result<(), AuditError> {
    let mut gaps = sqlx::query!(
        r#"WITH rows AS (
               SELECT e.last_no - e.count AS before, e.last_no FROM events e, event_head h WHERE e.last_no > h.removed_no
               UNION ALL SELECT last_no, NULL FROM event_head
           ), steps AS (
               SELECT before, coalesce(lag(last_no) OVER (ORDER BY before, last_no), (SELECT removed_no FROM event_head)) AS last_no
               FROM rows
           )
           SELECT before AS "before!", last_no AS "last_no!" FROM steps WHERE before <> last_no ORDER BY before"#
    )
    .fetch(connection);
    while let Some(gap) = gaps.try_next().await? {
        findings.add(Check::Event, "", "events", || match gap.before - gap.last_no {
            1 => format!("number {} is missing", gap.before),
            2.. => format!("numbers {} to {} are missing", gap.last_no + 1, gap.before),
            _ => format!("numbers {} to {} are there twice", gap.before + 1, gap.last_no),
        });
    }
    Ok(())
}

/// Compares both sides, and names what differs.
pub(super) async fn compare(
    connection: &mut PgConnection,
    (ledger, events): (&ToldEntries, &ToldEntries),
    findings: &mut Findings,
) -> Result<(), AuditError> {
    let Some(since) = events.since.filter(|_| !ledger.set.is_same(&events.set)) else { return Ok(()) };
    let kinds: Vec<_> = ENTRY_TYPES.iter().map(|(kind, _)| (*kind).to_owned()).collect();
    let types: Vec<_> = ENTRY_TYPES.iter().map(|(_, of)| (*of).to_owned()).collect();
    let mut rows = sqlx::query!(
        r#"WITH types AS (SELECT unnest($2::text[]) AS kind, unnest($3::text[]) AS type),
           since AS (SELECT timestamptz '2000-01-01 00:00:00Z' + $1::bigint * interval '1 microsecond' AS at),
           rows AS (
               SELECT app_id, type, at, count, keys, last_no FROM events
               UNION ALL
               SELECT a.app_id, o.type, o.at, o.count, o.keys, NULL FROM wallet_outbox o JOIN apps a ON a.app_no = o.app_no
           ), told AS (
               SELECT r.app_id, r.type, r.at, r.last_no - r.count + 1 + k AS no,
                   ('x' || encode(substring(r.keys FROM 16 * k + 1 FOR 8), 'hex'))::bit(64)::bigint AS wallet_no,
                   ('x' || encode(substring(r.keys FROM 16 * k + 9 FOR 8), 'hex'))::bit(64)::bigint AS seq
               FROM rows r JOIN types t ON t.type = r.type, generate_series(0, octet_length(r.keys) / 16 - 1) AS k
               WHERE r.at >= (SELECT at FROM since)
           ), numbered AS (
               SELECT *, row_number() OVER (PARTITION BY app_id, type, wallet_no, seq, at ORDER BY no) AS copy FROM told
           ), entries AS (
               SELECT p.app_id, p.open_id, t.type, e.at, e.wallet_no, e.seq FROM ledger_entries e
               JOIN players p ON p.app_no = e.app_no AND p.wallet_no = e.wallet_no JOIN types t ON t.kind = e.kind
               WHERE e.seq IS NOT NULL AND e.at >= (SELECT at FROM since)
           )
           SELECT coalesce(e.app_id, n.app_id) AS "app_id!", e.open_id AS "open_id?", e.seq AS "entry?", n.no, n.type AS "type?",
               n.wallet_no, n.seq
           FROM entries e FULL JOIN numbered n ON n.app_id = e.app_id AND n.type = e.type AND n.wallet_no = e.wallet_no
               AND n.seq = e.seq AND n.at = e.at AND n.copy = 1
           WHERE e.app_id IS NULL OR n.app_id IS NULL"#,
        since,
        &kinds,
        &types
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        if let (Some(open_id), Some(entry)) = (&row.open_id, row.entry) {
            findings.add(Check::Event, &row.app_id, open_id, || format!("entry {entry} has no event"));
            continue;
        }
        let (of, wallet_no, seq) = (row.r#type, row.wallet_no, row.seq);
        let (Some(of), Some(wallet_no), Some(seq)) = (of, wallet_no, seq) else {
            return Err(StoreError::damaged("events").into());
        };
        let name = row.no.map_or_else(|| "an event without a number".to_owned(), |no| format!("event {no}"));
        findings.add(Check::Event, &row.app_id, &name, || {
            format!("{of}: it tells of entry {seq} of wallet {wallet_no}, which is none of its own")
        });
    }
    Ok(())
}

/// The kinds of ledger entries, and the types of their events.
static ENTRY_TYPES: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let of = |kind: ReferenceKind| Some((kind.as_str(), EventType::of_entry(kind)?.as_str()));
    ReferenceKind::ALL.into_iter().filter_map(of).collect()
});
