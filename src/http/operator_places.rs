//! Places of the operator's listener: how many requests of API keys and console users use the database at once.
//!
//! A place stands for a database session of that listener. One key or user holds at most half of them, so one that asks
//! for much leaves the others room (operators' contract 9.5.6). A search that no index bounds needs a turn besides. It
//! takes a core of the database for as long as it runs, and payments need one too.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use guarded_fetch::bulkhead::{Bulkhead, Permit};
use tokio::time::{sleep, timeout};

use crate::config;

/// Searches at the same time, of which a key or a user has one.
const SEARCHES: u32 = 2;

/// The places. A request waits for one as long as for a database session.
#[derive(Debug)]
pub struct Places {
    all: Arc<Bulkhead>,
    searches: Arc<Bulkhead>,
    wait: Duration,
    statement_timeout: Duration,
}

/// All places, or all of the holder's own, are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllTaken;

/// A place of a request. Whoever gives it back says so ([`OperatorPlace::give_back`]). Where the client hangs up instead, the
/// statement under way runs on, so the place stays taken for as long as a statement may.
#[derive(Debug)]
pub struct OperatorPlace {
    permit: Option<Permit>,
    places: Arc<Bulkhead>,
    holder: String,
    statement_timeout: Duration,
}

impl Places {
    /// As many places as the listener has database sessions.
    #[must_use]
    pub fn new(sessions: u32, database: &config::Database) -> Self {
        Self {
            all: Arc::new(Bulkhead::halved(sessions)),
            searches: Arc::new(Bulkhead::halved(SEARCHES)),
            wait: database.acquire_timeout,
            statement_timeout: database.statement_timeout,
        }
    }

    /// A place for this key or user.
    ///
    /// # Errors
    /// None became free in time.
    pub async fn take(&self, holder: &str) -> Result<OperatorPlace, AllTaken> {
        self.take_of(&self.all, holder).await
    }

    /// Runs a search of this key or user in a turn, if no index bounds what it reads.
    ///
    /// # Errors
    /// No turn came in time.
    pub async fn search<T>(
        &self,
        holder: &str,
        is_unbounded: bool,
        search: impl Future<Output = T>,
    ) -> Result<T, AllTaken> {
        if !is_unbounded {
            return Ok(search.await);
        }
        let turn = self.take_of(&self.searches, holder).await?;
        let found = search.await;
        turn.give_back();
        Ok(found)
    }

    /// How many wait for a place, and for the turn of a search, each with its word in metrics.
    #[must_use]
    pub fn waiting(&self) -> [(&'static str, u64); 2] {
        [("operator", self.all.waiting()), ("search", self.searches.waiting())]
    }

    async fn take_of(&self, places: &Arc<Bulkhead>, holder: &str) -> Result<OperatorPlace, AllTaken> {
        let permit = timeout(self.wait, places.acquire(holder, 1)).await.map_err(|_| AllTaken)?;
        Ok(OperatorPlace {
            permit: Some(permit),
            places: Arc::clone(places),
            holder: holder.to_owned(),
            statement_timeout: self.statement_timeout,
        })
    }
}

impl OperatorPlace {
    /// Gives the place back: nothing of its request is under way.
    pub fn give_back(mut self) {
        self.permit = None;
    }

    /// Gives the place back. An answer that is made while it is sent takes one for each of its pieces, so a slow reader holds
    /// none.
    #[must_use]
    pub fn with(self, response: Response) -> Response {
        let (places, holder) = (Arc::clone(&self.places), self.holder.clone());
        let statement_timeout = self.statement_timeout;
        self.give_back();
        if response.body().size_hint().exact().is_some() {
            return response;
        }
        response.map(|body| {
            let pieces = (body.into_data_stream(), places, holder);
            Body::from_stream(stream::unfold(pieces, move |(mut pieces, places, holder)| async move {
                let permit = Some(places.acquire(&holder, 1).await);
                let place = Self { permit, places, holder, statement_timeout };
                let piece = pieces.next().await;
                let (places, holder) = (Arc::clone(&place.places), place.holder.clone());
                // At the end too: nothing is under way then.
                place.give_back();
                Some((piece?, (pieces, places, holder)))
            }))
        })
    }
}

impl Drop for OperatorPlace {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let statement_timeout = self.statement_timeout;
        // Without a runtime the server has ended.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                sleep(statement_timeout).await;
                drop(permit);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;

    use super::*;

    fn places(sessions: u32) -> Places {
        let (wait, statement_timeout) = (Duration::from_millis(20), Duration::from_secs(3));
        let (all, searches) = (Arc::new(Bulkhead::halved(sessions)), Arc::new(Bulkhead::halved(SEARCHES)));
        Places { all, searches, wait, statement_timeout }
    }

    /// Also one whose client has hung up: the database searches on.
    #[tokio::test]
    async fn a_holder_searches_once_at_a_time_and_others_beside_it() {
        let places = places(8);
        let endless = || places.search("key", true, std::future::pending::<()>());
        assert!(timeout(Duration::from_millis(1), endless()).await.is_err(), "hung up");
        let nothing = std::future::ready(());
        assert_eq!(places.search("key", true, nothing.clone()).await, Err(AllTaken));
        assert_eq!(places.search("key", false, nothing.clone()).await, Ok(()));
        assert_eq!(places.search("user", true, nothing.clone()).await, Ok(()));
        assert_eq!(places.search("user", true, nothing).await, Ok(()), "it was given back");
    }

    #[tokio::test]
    async fn a_holder_has_half_of_the_places_and_leaves_the_rest_to_others() {
        let places = places(4);
        let held = [places.take("key").await.unwrap(), places.take("key").await.unwrap()];
        assert_eq!(places.take("key").await.unwrap_err(), AllTaken);
        let others = [places.take("user").await.unwrap(), places.take("user").await.unwrap()];
        assert_eq!(places.take("third").await.unwrap_err(), AllTaken);
        held.into_iter().for_each(OperatorPlace::give_back);
        places.take("third").await.unwrap().give_back();
        others.into_iter().for_each(OperatorPlace::give_back);
    }

    /// The database does not notice who has hung up, and goes on for as long as a statement may.
    #[tokio::test]
    async fn a_client_that_hangs_up_keeps_its_place_until_its_statement_ends() {
        let places = places(2);
        drop(places.take("key").await.unwrap());
        assert_eq!(places.take("key").await.unwrap_err(), AllTaken);
        while places.take("key").await.map(OperatorPlace::give_back).is_err() {}
    }

    /// Rule: a reader who takes no more holds no place; each piece is made in one.
    #[tokio::test]
    async fn an_answer_that_is_made_while_it_is_sent_takes_a_place_for_each_piece() {
        let places = places(2);
        let pieces = stream::iter([Ok::<_, std::io::Error>(Bytes::from("a")), Ok("b".into())]);
        let made = Response::new(Body::from_stream(pieces));
        let mut made = places.take("key").await.unwrap().with(made).into_body().into_data_stream();
        let held = places.take("key").await.unwrap();
        assert!(timeout(Duration::from_millis(20), made.next()).await.is_err(), "it waits for a place");
        held.give_back();
        assert_eq!(made.next().await.unwrap().unwrap(), "a");
        places.take("key").await.unwrap().give_back();
        assert_eq!(made.next().await.unwrap().unwrap(), "b");
        assert!(made.next().await.is_none());
        places.take("key").await.unwrap().give_back();
        let whole = places.take("key").await.unwrap().with(Response::new(Body::from("whole")));
        assert_eq!(axum::body::to_bytes(whole.into_body(), 9).await.unwrap(), "whole");
    }

    /// A client that hangs up while a piece is made keeps the place, as any other does.
    #[tokio::test]
    async fn a_piece_that_is_given_up_keeps_its_place_until_its_statement_ends() {
        let places = places(2);
        let endless = Response::new(Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>()));
        let mut made = places.take("key").await.unwrap().with(endless).into_body().into_data_stream();
        assert!(timeout(Duration::from_millis(20), made.next()).await.is_err());
        drop(made);
        assert_eq!(places.take("key").await.unwrap_err(), AllTaken);
    }
}
