//! Settings of the store.

use std::num::NonZeroU32;
use std::time::Duration;

use domain::picture_store::PictureStore;

use crate::objects::ObjectStoreSettings;

/// Settings of the store.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// Maximum number of connections. A quarter as many come on top for what strangers may ask; they are
    /// opened when they are needed.
    pub connections: u32,
    /// How many of `connections` are opened at the start. A server opens all, because connections that
    /// open under load come in storms. A command seldom needs a second one.
    pub connections_at_start: u32,
    /// How long a request waits for a connection.
    pub acquire_timeout: Duration,
    /// How long one statement may run.
    pub statement_timeout: Duration,
    /// Refuse a read-only session. After a failover, an old address may lead to a standby for a
    /// while. The audit accepts a standby.
    pub must_write: bool,
    /// Number of exchange writers, each with a session of its own.
    pub exchange_writers: usize,
    /// Maximum number of exchanges that wait, and of order reports.
    pub exchange_queue_max: usize,
    /// How many live access tokens an app has at most.
    pub tokens_per_app: NonZeroU32,
    /// The store of the bytes of new pictures.
    pub picture_store: PictureStore,
    /// The object stores besides the database.
    pub picture_stores: ObjectStoreSettings,
}
