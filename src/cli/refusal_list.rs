//! `minitill refusal list` shows which exchanges, presents and cancels were refused (contract 13.1).

use anyhow::Result;
use clap::Subcommand;
use domain::code::Code;
use domain::ids::{AppId, OpenId};
use serde::Serialize;
use serde_json::json;
use store::{RefusalFilter, RefusalRow, Store};

use super::Context;
use super::app::require_app_of;
use super::span::SpanArguments;

#[derive(Debug, Subcommand)]
pub(super) enum RefusalCommand {
    /// List properly signed exchanges, presents and cancels that were refused in the last 30 days, newest first
    List {
        /// Only of this app
        #[arg(long, help_heading = "Filter", value_name = "APP_ID")]
        app: Option<AppId>,
        /// Only of this player
        #[arg(long, help_heading = "Filter", value_name = "OPEN_ID")]
        open_id: Option<OpenId>,
        /// Only with this code, such as 10000601
        #[arg(long, help_heading = "Filter", value_name = "CODE", value_parser = Code::number_of)]
        code: Option<u32>,
        #[command(flatten)]
        span: SpanArguments,
        /// List at most this many
        #[arg(long, help_heading = "Filter", value_name = "N", default_value_t = 100)]
        limit: u32,
    },
}

pub(super) async fn run(context: &Context, store: &Store, command: RefusalCommand) -> Result<()> {
    let RefusalCommand::List { app: app_id, open_id, code, span, limit } = command;
    let [since, until] = span.ends(context)?;
    let filter = RefusalFilter { app_id, open_id, code, since, until, ..RefusalFilter::default() };
    let found = store.refusals(&filter, None, limit).await?.items;
    require_app_of(store, &found, filter.app_id.as_ref()).await?;
    let columns = "last_at app_id kind code meaning count open_id biz_no amount product_name \
        free_balance charge_balance";
    let output = span.output(context);
    let shown: Vec<_> = found.iter().map(|row| RefusalInWords { row, meaning: meaning(row) }).collect();
    let text = if shown.is_empty() {
        "No refusal of the last 30 days matches.".to_owned()
    } else {
        output.object_table(columns, &shown)?
    };
    output.print(&json!({ "refusals": found }), text)
}

/// A refusal for people.
#[derive(Serialize)]
struct RefusalInWords<'a> {
    #[serde(flatten)]
    row: &'a RefusalRow,
    meaning: String,
}

fn meaning(row: &RefusalRow) -> String {
    Code::meanings(row.refusal.code).collect::<Vec<_>>().join(" or ")
}
