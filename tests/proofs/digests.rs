//! Digests of tables, short enough to compare: a count and a digest of every row of each.

use std::collections::BTreeMap;

use sqlx::{AssertSqlSafe, PgPool, Row as _};

/// For each table how many rows it has, and a digest of them that does not depend on their order.
pub(crate) type Digests = BTreeMap<String, (i64, String)>;

/// Digests of all rows of all tables; with `app_id` of the rows of that app, in the tables that tell apps apart.
pub(crate) async fn digests(sql: &PgPool, app_id: Option<&str>) -> Digests {
    let tables = match app_id {
        None => "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public'",
        Some(_) => {
            "SELECT table_name::text FROM information_schema.columns \
             WHERE table_schema = 'public' AND column_name = 'app_id'"
        }
    };
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(sql).await.unwrap();
    assert!(tables.len() >= 10, "the schema is there: {tables:?}");
    let mut digests = Digests::new();
    for table in tables {
        let only = app_id.map(|id| format!("WHERE app_id = '{id}'")).unwrap_or_default();
        let statement = format!(
            "SELECT count(*), coalesce(md5(string_agg(row_digest, '' ORDER BY row_digest)), '') \
             FROM (SELECT md5({table}::text) AS row_digest FROM {table} {only}) AS rows"
        );
        let row = sqlx::query(AssertSqlSafe(statement)).fetch_one(sql).await.unwrap();
        digests.insert(table, (row.get(0), row.get(1)));
    }
    digests
}
