//! Health of the till over time (contract 16.1 and 16.2): this instance tells each minute what it saw, and knows
//! what all told.
//!
//! What cannot be written while the database is away waits in memory. So the history has no gap when it is back, and
//! the console can show the last figures meanwhile.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use domain::health::{FORGOTTEN_AFTER, HealthMinute, HealthSpan, Verdict};
use domain::period::{TimeSpan, TimeZone};
use store::{SalesOfHours, Store, StoreError};
use time::OffsetDateTime;
use tokio::time::timeout;

use crate::metrics::{Metrics, Sample};

/// Minutes that wait for the database: three days of them.
const WAITING_MAX: usize = 3 * 24 * 60;
/// Minutes that are written at once.
const WRITTEN_AT_ONCE: usize = 500;
/// How long the database may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Samples after which a minute is told.
const SAMPLES_OF_MINUTE: u64 = 6;
/// The time that the strip of the console shows.
pub const STRIP: Duration = Duration::from_hours(7 * 24);
/// The length of one of its cells.
pub const CELL: Duration = Duration::from_hours(1);

/// The observations of this instance.
#[derive(Debug)]
pub struct Health {
    instance: String,
    zone: TimeZone,
    /// Samples since the start.
    samples: AtomicU64,
    /// The first minute since the start.
    first: OnceLock<OffsetDateTime>,
    waiting: Mutex<VecDeque<HealthMinute>>,
    known: Mutex<HealthHistory>,
}

/// What all instances told, as of the last minute in which the database answered, and what this one saw since.
#[derive(Debug, Clone, Default)]
pub struct HealthHistory {
    /// The minutes of the last hour.
    pub minutes: Vec<HealthMinute>,
    /// The cells of the strip, oldest first.
    pub cells: Vec<HealthSpan>,
    /// The sales of all apps. `None` where nobody adds it up.
    pub business: Option<Business>,
}

/// The sales of all apps today until now. Its whole hours alone are compared with yesterday, because nobody adds up a
/// part of an hour. A day is one of the console's time zone, and begins with the first whole hour in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Business {
    /// When it was added up.
    pub now: OffsetDateTime,
    /// Of today until then.
    pub today: SalesOfHours,
    /// The end of the last whole hour.
    pub until: OffsetDateTime,
    /// Of the whole hours of today.
    pub whole_hours: SalesOfHours,
    /// Of the same hours of yesterday.
    pub yesterday: SalesOfHours,
}

impl Health {
    /// Nothing seen yet by the instance that listens on this port. Days are those of the time zone.
    #[must_use]
    pub fn new(port: u16, zone: TimeZone) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self {
            instance: format!("{host}:{port}"),
            zone,
            samples: AtomicU64::new(0),
            first: OnceLock::new(),
            waiting: Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// The present state.
    #[must_use]
    pub fn known(&self) -> HealthHistory {
        self.lock_known().clone()
    }

    /// The verdict now.
    #[must_use]
    pub fn verdict(&self, now: OffsetDateTime) -> Verdict {
        Verdict::of(&self.lock_known().minutes, now)
    }

    /// A sample was taken. The first one learns what others told, and each sixth one tells a minute.
    ///
    /// # Errors
    /// The database is away, or slow.
    pub async fn sampled(&self, store: &Store, metrics: &Metrics, now_millis: i64) -> store::Result<()> {
        let earlier = self.samples.fetch_add(1, Ordering::Relaxed);
        if earlier == 0 {
            self.learn(store, now_millis).await
        } else if (earlier + 1).is_multiple_of(SAMPLES_OF_MINUTE) {
            self.tell(store, &metrics.last_hour(), false).await
        } else {
            Ok(())
        }
    }

    /// Tells the minute that these samples end, oldest first, and learns what others told.
    ///
    /// # Errors
    /// The database is away, or slow. Then the minute is told with the next one.
    pub async fn tell(&self, store: &Store, samples: &[Sample], stopped: bool) -> store::Result<()> {
        let Some(minute) = self.minute(samples, stopped) else { return Ok(()) };
        let now = minute.at + Duration::from_mins(1);
        {
            let mut known = self.lock_known();
            known.minutes.retain(|known| (known.at, &known.instance) != (minute.at, &minute.instance));
            known.minutes.push(minute.clone());
        }
        {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            // A minute that is told anew still waits where the database was away: it cannot be written twice at once.
            waiting.pop_back_if(|last| last.at == minute.at);
            if waiting.len() == WAITING_MAX {
                waiting.pop_front();
            }
            waiting.push_back(minute);
        }
        self.exchange_news_in_time(store, now).await
    }

    /// Learns what others told.
    ///
    /// # Errors
    /// The database is away, or slow.
    pub async fn learn(&self, store: &Store, now_millis: i64) -> store::Result<()> {
        match OffsetDateTime::from_unix_timestamp(now_millis.div_euclid(1000)) {
            Ok(now) => self.exchange_news_in_time(store, now).await,
            Err(_) => Ok(()),
        }
    }

    async fn exchange_news_in_time(&self, store: &Store, now: OffsetDateTime) -> store::Result<()> {
        let exchanged = timeout(PATIENCE, self.exchange_news(store, now)).await;
        exchanged.unwrap_or_else(|_| Err(StoreError::unavailable("health waits for the database")))
    }

    async fn exchange_news(&self, store: &Store, now: OffsetDateTime) -> store::Result<()> {
        loop {
            let some: Vec<_> = {
                let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                waiting.iter().take(WRITTEN_AT_ONCE).cloned().collect()
            };
            if some.is_empty() {
                break;
            }
            store.write_health(&some).await?;
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            // Who tells at the same time may have taken them.
            let written = some.len().min(waiting.len());
            waiting.drain(..written);
        }
        let minutes = store.health(now - FORGOTTEN_AFTER, now + FORGOTTEN_AFTER).await?;
        let cells = store.health_spans(first_cell(now), now + FORGOTTEN_AFTER, CELL).await?;
        let business = self.business(store, now).await?;
        *self.lock_known() = HealthHistory { minutes, cells, business };
        Ok(())
    }

    async fn business(&self, store: &Store, now: OffsetDateTime) -> store::Result<Option<Business>> {
        let Some(begin) = self.day_begins(now) else { return Ok(None) };
        let (until, hour, day) = (whole_hour(now), Duration::from_hours(1), Duration::from_hours(24));
        // The sums have the part of this hour that has passed, too.
        let Some(today) = store.sales_of_hours(begin, until + hour).await? else { return Ok(None) };
        let whole_hours = store.sales_of_hours(begin, until).await?.unwrap_or_default();
        let yesterday = store.sales_of_hours(begin - day, until - day).await?.unwrap_or_default();
        Ok(Some(Business { now, today, until, whole_hours, yesterday }))
    }

    /// The first whole hour of the day in the time zone.
    fn day_begins(&self, now: OffsetDateTime) -> Option<OffsetDateTime> {
        let moment = TimeSpan { since: now, until: now + Duration::from_secs(1) };
        let (_, begin) = self.zone.days(moment).into_iter().next()?;
        let begin = begin.unix_timestamp();
        OffsetDateTime::from_unix_timestamp((begin + 3599).div_euclid(3600) * 3600).ok()
    }

    /// The minute in which the last of these samples was taken.
    fn minute(&self, samples: &[Sample], stopped: bool) -> Option<HealthMinute> {
        let last = samples.last()?;
        let begins = last.at_millis - 60_000;
        let first = samples.iter().rev().find(|sample| sample.at_millis <= begins).or(samples.first())?;
        let within =
            || samples.iter().rev().take_while(|sample| sample.at_millis > first.at_millis).chain([last]);
        let answers = last.exchanges.since(&first.exchanges);
        let millis = |share| answers.quantile(share).map(|seconds| seconds * 1000.0);
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let round_trips = within().map(|sample| sample.reading.database_probe.as_secs_f64() * 1000.0);
        let (queue, queue_max) = last.reading.queue;
        let at = OffsetDateTime::from_unix_timestamp(begins.div_euclid(60_000) * 60).ok()?;
        Some(HealthMinute {
            at,
            instance: self.instance.clone(),
            succeeded: count(answers.succeeded),
            refused: answers.by_number().map(|(code, refused)| (code, count(refused))).collect(),
            p50_ms: millis(0.5),
            p99_ms: millis(0.99),
            queue: i64::try_from(queue).unwrap_or(i64::MAX),
            queue_max: i64::try_from(queue_max).unwrap_or(i64::MAX),
            database_up: within().all(|sample| sample.reading.database_up),
            round_trip_ms: round_trips.fold(0.0, f64::max),
            takes_uploads: within().all(|sample| sample.reading.takes_uploads),
            receivers_failing: count(last.reading.receivers.failing),
            stopped,
            started: *self.first.get_or_init(|| at) == at,
            connections: i64::try_from(last.reading.connections).ok(),
            database_connections: Some(last.reading.pool.in_use().into()),
        })
    }

    fn lock_known(&self) -> MutexGuard<'_, HealthHistory> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The beginning of the first cell of the strip: a whole hour.
#[must_use]
pub fn first_cell(now: OffsetDateTime) -> OffsetDateTime {
    whole_hour(now) - STRIP + CELL
}

/// The beginning of the hour.
fn whole_hour(now: OffsetDateTime) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(now.unix_timestamp().div_euclid(3600) * 3600).unwrap_or(now)
}
