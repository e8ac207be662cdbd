//! `minitill refusal list` shows which exchanges, presents and cancels were refused (contract 13.1).

use anyhow::Result;
use clap::Subcommand;
use domain::code::Code;
use domain::ids::{AppId, OpenId};
use domain::moment;
use store::{RefusalFilter, Store};
use time::OffsetDateTime;

use super::Context;

#[derive(Debug, Subcommand)]
pub(super) enum RefusalCommand {
    /// List properly signed exchanges, presents and cancels that were refused in the last 30 days, newest first
    List {
        /// Only of this app
        #[arg(long, value_name = "APP_ID")]
        app: Option<AppId>,
        /// Only of this player
        #[arg(long, value_name = "OPEN_ID")]
        open_id: Option<OpenId>,
        /// Only with this code, such as 10000601
        #[arg(long, value_name = "CODE", value_parser = parse_code)]
        code: Option<u32>,
        /// Only those whose last time is at or after this time, such as 2026-10-31T16:00:00Z
        #[arg(long, value_name = "TIME", value_parser = parse_moment)]
        since: Option<OffsetDateTime>,
        /// Only those whose last time is before this time
        #[arg(long, value_name = "TIME", value_parser = parse_moment)]
        until: Option<OffsetDateTime>,
        /// List at most this many
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: u32,
    },
}

fn parse_code(text: &str) -> Result<u32, String> {
    Code::number_of(text).map_err(|expected| expected.to_string())
}

fn parse_moment(text: &str) -> Result<OffsetDateTime, String> {
    moment::parse(text).map_err(|expected| expected.to_string())
}

pub(super) async fn run(context: &Context, store: &Store, command: RefusalCommand) -> Result<()> {
    let RefusalCommand::List { app: app_id, open_id, code, since, until, limit } = command;
    let filter = RefusalFilter { app_id, open_id, code, since, until, ..RefusalFilter::default() };
    let found = store.refusals(&filter, None, limit).await?.items;
    let columns = [
        "last_at",
        "app_id",
        "kind",
        "code",
        "count",
        "open_id",
        "biz_no",
        "amount",
        "product_name",
        "free_balance",
        "charge_balance",
    ];
    context.output.list("refusals", &found, &columns, "No refusal of the last 30 days matches.")
}
