//! Gifts: a list of credits that somebody sees before it is made (contract 8.3.14). The list is kept, so that a second
//! person can confirm it, and a server makes it piece by piece. A piece and the mark of its end are one transaction, so
//! whatever is killed, each credit is made once.

mod draft;
mod piece;
mod start;

use domain::ids::{AppId, CreditRef};
use sha2::{Digest as _, Sha256};
use sqlx::PgExecutor;
use time::OffsetDateTime;

use crate::error::{Result, StoreError};
use crate::removal::REMOVED_AT_ONCE;
use crate::store::Store;

pub use draft::GiftFault;
pub(crate) use start::begin;

/// The most lines of a gift.
pub const GIFT_LINES_MAX: usize = 100_000;
/// Lines of one read or write of a list.
const PIECE_LINES: usize = 5_000;
/// A gift that has ended is shown for so many days.
const KEPT_DAYS: i32 = 30;

/// A gift.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gift {
    /// Its app.
    pub app_id: String,
    /// Its name, which is also that of its request.
    pub name: CreditRef,
    /// How many lines it has.
    pub lines: i32,
    /// Gifted currency that it adds in all.
    pub free: i64,
    /// Charged currency that it adds in all.
    pub charge: i64,
    /// How many lines were credited before the list came.
    pub replayed: i32,
    /// Whether it registers players.
    pub create: bool,
    /// The note of each credit.
    pub reason: String,
    /// The operator who started it.
    pub started_by: Option<String>,
    /// The operator who asked for it, where another one confirmed it.
    pub asked_by: Option<String>,
    /// When it was started.
    pub started_at: Option<OffsetDateTime>,
    /// How many lines are done.
    pub done: i32,
    /// When it ended.
    pub ended_at: Option<OffsetDateTime>,
}

impl Gift {
    /// How many coins it moves, of both purses.
    #[must_use]
    pub fn coins(&self) -> i64 {
        self.free.saturating_add(self.charge)
    }
}

/// A line of a gift.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GiftLine {
    /// Its number, from 1.
    pub line: i32,
    /// The player.
    pub open_id: String,
    /// Gifted currency to add.
    pub free: i64,
    /// Charged currency to add.
    pub charge: i64,
    /// The ref of the credit.
    pub reference: String,
    /// What became of it, unless it was credited: a word of [`CreditStatus`](domain::operation::wallet::CreditStatus).
    pub outcome: Option<String>,
}

/// The digest of a gift, by which its list is known again.
struct GiftDigest(Sha256);

impl GiftDigest {
    fn new(create: bool, reason: &str) -> Self {
        let mut digest = Sha256::new();
        digest.update([u8::from(create)]);
        digest.update(Sha256::digest(reason));
        Self(digest)
    }

    fn add(&mut self, open_id: &str, (free, charge): (i64, i64), reference: &str) {
        self.0.update(format!("{open_id}\n{free}\n{charge}\n{reference}\n"));
    }

    fn name(self) -> String {
        format!("gift-{}", hex::encode(&self.0.finalize()[..16]))
    }
}

impl Store {
    /// A gift of an app.
    pub async fn gift(&self, app_id: &AppId, name: &CreditRef) -> Result<Option<Gift>> {
        find(&self.pool, app_id, name).await
    }

    /// The lines of a gift behind a number, in their order, at most 5,000.
    pub async fn gift_lines(&self, app_id: &AppId, name: &CreditRef, after: i32) -> Result<Vec<GiftLine>> {
        lines_after(&self.pool, (app_id.as_str(), name.as_str()), after, PIECE_LINES).await
    }

    /// How many lines of a gift register a player, and the first of these players, at most `limit`.
    pub async fn gift_newcomers(
        &self,
        app_id: &AppId,
        name: &CreditRef,
        limit: u32,
    ) -> Result<(i64, Vec<String>)> {
        let found = sqlx::query!(
            r#"SELECT open_id, count(*) OVER () AS "count!" FROM gift_lines
               WHERE app_id = $1 AND gift = $2 AND makes_known ORDER BY line LIMIT $3"#,
            app_id.as_str(),
            name.as_str(),
            i64::from(limit)
        );
        let found = found.fetch_all(&self.pool).await?;
        let count = found.first().map_or(0, |line| line.count);
        Ok((count, found.into_iter().map(|line| line.open_id).collect()))
    }

    /// How many lines of a gift have each outcome but credited.
    pub async fn gift_outcomes(&self, app_id: &AppId, name: &CreditRef) -> Result<Vec<(String, i64)>> {
        let found = sqlx::query!(
            r#"SELECT outcome AS "outcome!", count(*) AS "count!" FROM gift_lines
               WHERE app_id = $1 AND gift = $2 AND outcome IS NOT NULL GROUP BY outcome ORDER BY outcome"#,
            app_id.as_str(),
            name.as_str()
        );
        Ok(found.fetch_all(&self.pool).await?.into_iter().map(|row| (row.outcome, row.count)).collect())
    }

    /// The gifts of an app that were started, the newest first, at most `limit`.
    pub async fn started_gifts(&self, app_id: &AppId, limit: u32) -> Result<Vec<Gift>> {
        let rows = gifts!(
            "WHERE app_id = $1 AND started_at IS NOT NULL ORDER BY started_at DESC LIMIT $2",
            app_id.as_str(),
            i64::from(limit)
        );
        rows.fetch_all(&self.pool).await?.into_iter().collect()
    }

    /// Removes gifts that nobody started for a day, unless a request of them waits, and those that ended 30 days ago. It
    /// takes some of them: the last one begins before their lines are a full piece. A gift never loses some lines alone,
    /// because somebody could still start it.
    pub async fn forget_old_gifts(&self) -> Result<u64> {
        let removed = sqlx::query!(
            "WITH old AS (
                 SELECT app_id, gift, line_count FROM gifts g
                 WHERE ended_at < now() - make_interval(days => $1)
                     OR started_at IS NULL AND made_at < now() - interval '1 day' AND NOT EXISTS (
                         SELECT 1 FROM console_requests r WHERE r.app_id = g.app_id AND r.ref = g.gift
                             AND r.state = 'waiting' AND r.asked_at > now() - interval '7 days')
                 LIMIT $2 FOR UPDATE SKIP LOCKED
             ), piece AS (
                 SELECT app_id, gift, sum(line_count) OVER (ORDER BY app_id, gift) - line_count AS lines_before FROM old
             )
             DELETE FROM gifts g USING piece p
             WHERE g.app_id = p.app_id AND g.gift = p.gift AND p.lines_before < $2",
            KEPT_DAYS,
            i64::from(REMOVED_AT_ONCE)
        );
        Ok(removed.execute(&self.pool).await?.rows_affected())
    }
}

/// The query for gifts. `$rest` is its condition.
macro_rules! gifts {
    ($rest:literal $(, $parameter:expr)*) => {
        sqlx::query!(
            "SELECT app_id, gift, line_count, free, charge, replayed, create_wallets, reason, started_by, asked_by,
                 started_at, done_through, ended_at
             FROM gifts " + $rest
            $(, $parameter)*
        )
        .map(|row| -> Result<Gift> {
            Ok(Gift {
                app_id: row.app_id,
                name: CreditRef::parse(&row.gift).map_err(|_| StoreError::damaged("gifts"))?,
                lines: row.line_count,
                free: row.free,
                charge: row.charge,
                replayed: row.replayed,
                create: row.create_wallets,
                reason: row.reason,
                started_by: row.started_by,
                asked_by: row.asked_by,
                started_at: row.started_at,
                done: row.done_through,
                ended_at: row.ended_at,
            })
        })
    };
}
use gifts;

async fn find(executor: impl PgExecutor<'_>, app_id: &AppId, name: &CreditRef) -> Result<Option<Gift>> {
    let row = gifts!("WHERE app_id = $1 AND gift = $2", app_id.as_str(), name.as_str());
    row.fetch_optional(executor).await?.transpose()
}

async fn lines_after(
    executor: impl PgExecutor<'_>,
    (app_id, gift): (&str, &str),
    after: i32,
    limit: usize,
) -> Result<Vec<GiftLine>> {
    let lines = sqlx::query_as!(
        GiftLine,
        "SELECT line, open_id, free, charge, ref AS reference, outcome FROM gift_lines
         WHERE app_id = $1 AND gift = $2 AND line > $3 ORDER BY line LIMIT $4",
        app_id,
        gift,
        after,
        i64::try_from(limit).unwrap_or(i64::MAX)
    );
    Ok(lines.fetch_all(executor).await?)
}
