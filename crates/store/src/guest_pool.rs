//! Sessions for what needs no credentials: served pictures, and look-ups of apps and tokens that were
//! never found. So a flood of strangers takes no session of payments.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgConnection, PgPool, Postgres};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::error::{Result, StoreError};

/// One session comes on this many connections of the store.
const CONNECTIONS_PER_SESSION: u32 = 4;
/// The sessions, and the turns of those who want one. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct GuestPool {
    pool: PgPool,
    turns: Arc<Semaphore>,
    turn_timeout: Duration,
}

/// A session while it is a stranger's turn.
pub(super) struct StrangerSession {
    session: PoolConnection<Postgres>,
    _turn: OwnedSemaphorePermit,
}

impl GuestPool {
    /// A quarter as many sessions as `connections`, opened when they are needed. A stranger waits two thirds of the
    /// pool's time for its turn: with the defaults, both waits stay below the 3 seconds of contract 9.5.3.
    pub(super) fn new(options: PgPoolOptions, address: PgConnectOptions, connections: u32) -> Self {
        let sessions = connections.div_ceil(CONNECTIONS_PER_SESSION);
        Self {
            turn_timeout: options.get_acquire_timeout() * 2 / 3,
            pool: options.max_connections(sessions).connect_lazy_with(address),
            turns: Arc::new(Semaphore::new(sessions as usize)),
        }
    }

    /// Waits for a turn, then for its session.
    pub(super) async fn session(&self) -> Result<StrangerSession> {
        let waiting = timeout(self.turn_timeout, Arc::clone(&self.turns).acquire_owned()).await;
        let turn = waiting.map_err(|_| StoreError::Overloaded)?;
        let turn = turn.map_err(|closed| StoreError::Internal(closed.to_string()))?;
        // In a box: one that waits above has no room for the opening of a session.
        Ok(StrangerSession { session: Box::pin(self.pool.acquire()).await?, _turn: turn })
    }

    pub(super) fn pool(&self) -> &PgPool {
        &self.pool
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

impl Deref for StrangerSession {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.session
    }
}

impl DerefMut for StrangerSession {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.session
    }
}
