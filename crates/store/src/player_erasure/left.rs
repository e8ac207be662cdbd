//! The search at the end of an erasure: every text column of the database, for what is left of the `open_id`, and why
//! (contract 13.7.9). The columns come from the catalogue of PostgreSQL, so a new column is searched too.
//!
//! It reads all entries of an app. So it runs after the transactions of the erasure, when nobody waits for their locks.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::ids::{AppId, OpenId};
use domain::operation::player::LeftText;
use sqlx::{AssertSqlSafe, PgConnection, Row as _};

use crate::app_number::number_if_any;
use crate::error::{Result, StoreError};
use crate::store::Store;
use crate::transaction;

/// What holds for the search of one table. The limit is enough for tens of millions of entries.
const OF_A_TABLE: &str = "SET TRANSACTION READ ONLY; SET LOCAL statement_timeout = '2min'";

/// How long the session of a search may be silent: longer than its statement may take.
const SILENCE_MAX: Duration = Duration::from_secs(150);

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

impl SearchedTable {
    /// The statement that counts the rows by column. The names are those of the catalogue.
    fn counting(&self) -> String {
        let Self { name, columns, of_app } = self;
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
        // Every statement has the same parameters.
        format!("SELECT {counts} FROM \"{name}\" WHERE ({of_app}) AND ($2, $3, $4) IS NOT NULL")
    }
}

/// What is searched for.
#[derive(Clone)]
struct SearchedPlayer {
    app_id: AppId,
    app_no: Option<i32>,
    open_id: OpenId,
}

impl Store {
    /// Searches all tables. A word is what [`super::texts::Names::replaced`] replaces. The erasure stands, so a table that
    /// could not be searched is told, and is no error.
    pub(super) async fn search_left(&self, app_id: &AppId, open_id: &OpenId) -> Vec<LeftText> {
        let (tables, app_no) = match self.searched_tables(app_id).await {
            Ok(searched) => searched,
            Err(error) => return vec![not_searched("*", &error)],
        };
        let player = SearchedPlayer { app_id: app_id.clone(), app_no, open_id: open_id.clone() };
        let mut left = Vec::new();
        for table in &tables {
            match self.count_left(table, &player).await {
                Ok(counts) => {
                    let counts = table.columns.iter().zip(counts).filter(|(_, rows)| *rows > 0);
                    left.extend(counts.map(|(column, rows)| LeftText {
                        column: format!("{}.{column}", table.name),
                        rows: u64::try_from(rows).unwrap_or_default(),
                        why: why(&table.name, column).to_owned(),
                    }));
                }
                Err(error) => left.push(not_searched(&format!("{}.*", table.name), &error)),
            }
        }
        left
    }

    async fn searched_tables(&self, app_id: &AppId) -> Result<(Vec<SearchedTable>, Option<i32>)> {
        let mut connection = self.pool.acquire().await?;
        let app_no = number_if_any(&mut *connection, app_id).await?;
        Ok((tables(&mut connection).await?, app_no))
    }

    /// How many rows of a table still have the player, by column.
    #[expect(clippy::disallowed_methods, reason = "the columns are those of the catalogue")]
    async fn count_left(&self, table: &SearchedTable, player: &SearchedPlayer) -> Result<Vec<i64>> {
        let context = (table.counting(), player.clone());
        let silence_max = Some(SILENCE_MAX);
        transaction::run(
            &self.runtime,
            self.pool.clone(),
            silence_max,
            context,
            |connection, (counting, player)| {
                Box::pin(async move {
                    sqlx::raw_sql(OF_A_TABLE).execute(&mut *connection).await?;
                    let open_id = player.open_id.as_str();
                    let row = sqlx::query(AssertSqlSafe(counting.as_str()))
                        .bind(open_id)
                        .bind(format!("(^|[^0-9A-Za-z_-]){open_id}($|[^0-9A-Za-z_-])"))
                        .bind(player.app_id.as_str())
                        .bind(player.app_no)
                        .fetch_one(&mut *connection)
                        .await?;
                    let counts = (0..row.len()).map(|index| row.try_get(index));
                    Ok::<_, StoreError>(counts.collect::<Result<Vec<i64>, sqlx::Error>>()?)
                })
            },
        )
        .await
    }
}

/// Tells that a table was not searched to its end.
fn not_searched(column: &str, error: &StoreError) -> LeftText {
    tracing::warn!(column, %error, "the search at the end of an erasure did not end");
    let why = "not searched to the end: it took too long, or the database was away";
    LeftText { column: column.to_owned(), rows: 0, why: why.to_owned() }
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
        // What there was has the pseudonym.
        (_, "open_id") => "of a new player of this name, or of a call that was under way: look at these rows",
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
