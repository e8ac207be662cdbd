//! Pages of lists. A query reads one row more than the page holds, which shows whether there is
//! another page.

use std::fmt;
use std::str::FromStr;

use domain::fields::Expected;
use serde::Serialize;
use time::OffsetDateTime;

/// A list without pages ends here.
pub(crate) const LISTED_MAX: i64 = 1_000;

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListPage<T, C> {
    /// Its rows, in the order of the list.
    pub items: Vec<T>,
    /// The cursor of the next page, or `None`.
    pub next: Option<C>,
}

impl<T, C> ListPage<T, C> {
    /// Cuts the rows to the page. The cursor of the next page is that of the last row.
    pub(crate) fn cut(mut items: Vec<T>, limit: u32, cursor: impl FnOnce(&T) -> C) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| has_more).map(cursor);
        Self { items, next }
    }
}

/// The key that distinguishes rows of the same time in a [`TimeCursor`].
pub trait CursorKey: FromStr {
    /// The expected form of a cursor, in words that follow "expected".
    const EXPECTED: &'static str;
}

/// A position in a list, newest first. Its text form can be part of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeCursor<K> {
    pub(crate) at: OffsetDateTime,
    pub(crate) key: K,
}

impl<K: CursorKey> TimeCursor<K> {
    /// Parses the text form.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let cursor = text.split_once('.').and_then(|(micros, key)| {
            let nanos = i128::from(micros.parse::<i64>().ok()?) * 1000;
            Some(Self { at: OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()?, key: key.parse().ok()? })
        });
        cursor.ok_or(Expected::new(K::EXPECTED))
    }
}

impl<K: fmt::Display> fmt::Display for TimeCursor<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The database's times have microseconds.
        write!(f, "{}.{}", self.at.unix_timestamp_nanos() / 1000, self.key)
    }
}
