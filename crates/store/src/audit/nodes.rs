//! The audit on Citus: the money of each node, in a snapshot of that node.
//!
//! The coordinator has no snapshot of all nodes. But all money of an app lies on one of them. A session with a node
//! sees the shards of that node under the names of the tables. So the statements of the audit are the same.

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};

use super::{AuditError, begin_both};
use crate::error::StoreError;
use crate::hosts::Hosts;

/// Makes the names of all tables that have shards stand for the shards of this node, and the views with them.
const SEE_SHARDS: &str = "\
SET citus.enable_ddl_propagation = off;
DO $$
DECLARE
    statement text;
    views text[] := ARRAY(
        SELECT format('CREATE TEMPORARY VIEW %I AS %s', v, pg_get_viewdef(to_regclass(v)))
        FROM unnest(ARRAY['numbers', 'players', 'ledger', 'archived_standings']) AS v);
BEGIN
    FOR statement IN
        SELECT format('CREATE TEMPORARY VIEW %I AS %s', c.relname, string_agg(
            format('SELECT * FROM %I.%I', n.nspname, c.relname || '_' || s.shardid), ' UNION ALL '))
        FROM pg_dist_shard s
        JOIN pg_dist_placement p USING (shardid)
        JOIN pg_class c ON c.oid = s.logicalrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE p.groupid = (SELECT groupid FROM pg_dist_local_group)
        GROUP BY n.nspname, c.relname
    LOOP
        EXECUTE statement;
    END LOOP;
    FOREACH statement IN ARRAY views LOOP
        EXECUTE statement;
    END LOOP;
END $$";

/// The nodes of the shards of the wallets.
const PLACEMENTS: &str = "\
SELECT n.nodename, n.nodeport, n.groupid = (SELECT groupid FROM pg_dist_local_group), array_agg(p.shardid ORDER BY p.shardid)
FROM pg_dist_placement p JOIN pg_dist_node n USING (groupid) JOIN pg_dist_shard s USING (shardid)
WHERE s.logicalrelid = 'wallets'::regclass AND n.noderole = 'primary' GROUP BY 1, 2, 3 ORDER BY 1, 2";

/// How often the snapshots are opened anew because apps have moved meanwhile.
const ATTEMPTS_MAX: u32 = 5;

/// Host, port, whether it is the coordinator, and its shards.
type Placement = (String, i32, bool, Vec<i64>);

/// Two sessions with a node that share one snapshot.
pub(super) struct NodeSnapshot {
    pub(super) first: PgConnection,
    pub(super) second: PgConnection,
}

/// Opens snapshots of all nodes that hold money. Between the first and the last no app has moved.
///
/// # Errors
/// A node is not reached; or apps keep moving.
pub(super) async fn open(
    coordinator: &PgConnectOptions,
    hosts: &Hosts,
) -> Result<Vec<NodeSnapshot>, AuditError> {
    let mut session = PgConnection::connect_with(coordinator).await?;
    let mut placements = placements(&mut session).await?;
    for _ in 0..ATTEMPTS_MAX {
        let mut nodes = Vec::new();
        for (host, port, is_coordinator, _) in &placements {
            let reached = u16::try_from(*port).ok().and_then(|port| hosts.at(host, port));
            let options = match reached {
                Some(node) => node.address().clone(),
                None if *is_coordinator => coordinator.clone(),
                None => {
                    let cause = format!(
                        "the audit must reach the node {host}:{port}: name the coordinator by its host"
                    );
                    return Err(StoreError::unavailable(cause).into());
                }
            };
            let (first, second) = begin_both(&options, SEE_SHARDS).await?;
            nodes.push(NodeSnapshot { first, second });
        }
        let after = self::placements(&mut session).await?;
        if after == placements {
            let _ = session.close().await;
            return Ok(nodes);
        }
        placements = after;
    }
    Err(StoreError::unavailable("apps keep moving to other nodes").into())
}

#[expect(clippy::disallowed_methods, reason = "only Citus has these tables")]
async fn placements(session: &mut PgConnection) -> Result<Vec<Placement>, AuditError> {
    Ok(sqlx::query_as(PLACEMENTS).fetch_all(session).await?)
}
