//! The node of an app on Citus, and whether this process reaches it.
//!
//! Every node can answer for every app, so a wrong choice of the node costs time alone. That happens while an app moves
//! to another node.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};
use tokio::time::timeout;

use crate::writer::{Opening, SessionRefusal};

/// How long the node of an app is cached.
pub(super) const NODE_CACHED_FOR: Duration = Duration::from_secs(5);

/// Host and port of a node.
pub(super) type Address = (String, u16);

/// How sessions with a node are opened. `None` for a node that this process does not reach. Readiness asks the address of
/// the database, so a node that is away concerns its own apps alone.
pub(super) async fn opening_of(opening: &Opening, node: &Address) -> Option<Opening> {
    let hosts = opening.hosts.at(&node.0, node.1)?;
    let is_reached = answers(hosts.address(), opening.connect_timeout).await;
    is_reached.then(|| Opening { hosts, refusal: SessionRefusal::default(), ..opening.clone() })
}

/// Whether a node takes a session.
async fn answers(options: &PgConnectOptions, patience: Duration) -> bool {
    match timeout(patience, PgConnection::connect_with(options)).await {
        Ok(Ok(session)) => {
            drop(session.close().await);
            true
        }
        Ok(Err(_)) | Err(_) => false,
    }
}
