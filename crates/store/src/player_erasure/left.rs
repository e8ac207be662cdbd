//! The search at the end of an erasure: every text column of the database, for what is left of the `open_id`, and why
//! (contract 13.7.9). The columns come from the catalogue of PostgreSQL, so a new column is searched too.

use std::collections::BTreeMap;

use domain::operation::player::LeftText;
use sqlx::{AssertSqlSafe, PgConnection, Row as _};

use super::texts::Names;
use crate::error::Result;

/// Columns of numbers that games and operators choose. They are searched for the text in any word.
const REFERENCES: [&str; 10] = [
    "reference",
    "biz_no",
    "ref",
    "of_biz_no",
    "out_order_no",
    "out_biz_order_no",
    "poi_id",
    "provider_order_id",
    "refund_id",
    "paid_biz_no",
];
/// Columns of the operator's log that have such numbers among others.
const WITH_REFERENCES: [&str; 4] = ["before", "after", "state", "credits"];
/// Columns of other texts that a program chooses as one word, such as `player-1_2026`. A name in them may be a part of it.
const JOINED_WORDS: [&str; 3] = ["idempotency_key", "zone_id", "zone"];

/// A table with its text columns.
struct SearchedTable {
    name: String,
    columns: Vec<String>,
    /// The condition for rows of the app, which are the only ones that can be about the player.
    of_app: &'static str,
}

/// Searches all tables. A word is what [`Names::replaced`] replaces.
#[expect(clippy::disallowed_methods, reason = "the columns are those of the catalogue")]
pub(super) async fn search(
    connection: &mut PgConnection,
    app_no: i32,
    names: &Names<'_>,
) -> Result<Vec<LeftText>> {
    let word = format!("(^|[^0-9A-Za-z_-]){}($|[^0-9A-Za-z_-])", names.open_id);
    let mut left = Vec::new();
    for table in tables(connection).await? {
        let SearchedTable { name, columns, of_app } = &table;
        let counts: Vec<String> = columns
            .iter()
            .map(|column| {
                let text = format!("\"{column}\"::text");
                let in_any_word = [&REFERENCES[..], &WITH_REFERENCES[..], &JOINED_WORDS[..]];
                let is_part = in_any_word.iter().any(|listed| listed.contains(&column.as_str()));
                let is_word = if is_part { "true".to_owned() } else { format!("{text} ~ $2") };
                format!("count(*) FILTER (WHERE strpos({text}, $1) > 0 AND {is_word})")
            })
            .collect();
        let counts = counts.join(", ");
        // Every statement has the same parameters. The names are those of the catalogue.
        let sql = format!("SELECT {counts} FROM \"{name}\" WHERE ({of_app}) AND ($2, $3, $4) IS NOT NULL");
        let row = sqlx::query(AssertSqlSafe(sql))
            .bind(names.open_id)
            .bind(&word)
            .bind(names.app_id)
            .bind(app_no)
            .fetch_one(&mut *connection)
            .await?;
        for (index, column) in columns.iter().enumerate() {
            let rows: i64 = row.try_get(index)?;
            if rows > 0 {
                let (column, why) = (format!("{name}.{column}"), why(name, column).to_owned());
                left.push(LeftText { column, rows: u64::try_from(rows).unwrap_or_default(), why });
            }
        }
    }
    Ok(left)
}

/// The tables of this program that have text columns.
async fn tables(connection: &mut PgConnection) -> Result<Vec<SearchedTable>> {
    let columns = sqlx::query!(
        r#"SELECT c.table_name::text AS "table_name!", c.column_name::text AS "column_name!", c.data_type::text AS "data_type!"
           FROM information_schema.columns c
           JOIN information_schema.tables t USING (table_schema, table_name)
           WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE'
           ORDER BY c.table_name, c.ordinal_position"#
    );
    let mut tables: BTreeMap<String, SearchedTable> = BTreeMap::new();
    for column in columns.fetch_all(connection).await? {
        let name = column.table_name;
        let table =
            tables.entry(name.clone()).or_insert(SearchedTable { name, columns: Vec::new(), of_app: "true" });
        match (column.column_name.as_str(), column.data_type.as_str()) {
            // A line about all apps may name the player too.
            ("app_id", _) => table.of_app = "app_id IN ($3, '')",
            ("app_no", _) => table.of_app = "app_no = $4",
            (name, "text" | "json" | "jsonb" | "ARRAY") => table.columns.push(name.to_owned()),
            _ => {}
        }
    }
    Ok(tables.into_values().filter(|table| !table.columns.is_empty()).collect())
}

/// Why a column may still have the text.
fn why(table: &str, column: &str) -> &'static str {
    match (table, column) {
        (_, column) if REFERENCES.contains(&column) => "a number that a game or an operator chose",
        ("api_requests", "idempotency_key") => "a key of a request of the admin API, which goes after a day",
        ("receivers", "url") => "the URL of a receiver",
        ("orders" | "order_events", _) => "an order of another player, or its URL",
        ("items", "product_name" | "product_info") => "a product that the app sells, or a number of an item",
        ("packages", _) => "a page of the app",
        ("topup_prices" | "topup_payments", "product_id" | "paid_product_id")
        | ("ledger_entries", "remark") => "a product that the app sells",
        ("archived_entries" | "ledger_entries" | "sales_hours", "zone_id" | "zone") => {
            "a zone of the game's server"
        }
        ("archived_entries" | "ledger_entries" | "sales_hours", "os") => "the name of a platform",
        ("archived_entries", _) => "a note of another player's archived entry",
        ("operator_log", column) if WITH_REFERENCES.contains(&column) => {
            "in a number or a longer name, or what an operator set"
        }
        ("operator_log", "note") => "a note about all apps",
        ("picture_blocks", "reason") => "the reason of a block, which is about all apps",
        (_, "name" | "operator" | "subject" | "asked_by" | "ended_by" | "account" | "file") => {
            "a name of something else"
        }
        _ => "not known: look at these rows",
    }
}
