//! `minitill order ...` shows orders as developers have reported them.

use anyhow::{Result, anyhow};
use clap::Subcommand;
use domain::ids::{AppId, OpenId, OrderNo};
use domain::order::OrderStatus;
use serde_json::json;
use store::{OrderFilter, Store};

use super::Context;

/// Newest reports that `order show` prints.
const EVENTS_MAX: u32 = 50;

#[derive(Debug, Subcommand)]
pub(super) enum OrderCommand {
    /// List orders of an app, newest first
    List {
        /// Id of the app
        app_id: AppId,
        /// Only the order with this order number or payment number
        #[arg(long, value_name = "NUMBER")]
        number: Option<OrderNo>,
        /// Only orders of this player
        #[arg(long, value_name = "OPEN_ID")]
        open_id: Option<OpenId>,
        /// Only orders with this status code
        #[arg(long, value_name = "CODE", value_parser = parse_status)]
        status: Option<i16>,
        /// List at most this many orders
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
    },
    /// Show an order with its payments and its newest reports
    Show {
        /// Id of the app
        app_id: AppId,
        /// Number of the order
        out_biz_order_no: OrderNo,
    },
}

fn parse_status(text: &str) -> Result<i16, String> {
    OrderStatus::parse(text).map(OrderStatus::code).map_err(|expected| expected.to_string())
}

pub(super) async fn run(context: &Context, store: &Store, command: OrderCommand) -> Result<()> {
    match command {
        OrderCommand::List { app_id, number, open_id, status, limit } => {
            let statuses = status.into_iter().collect();
            let filter =
                OrderFilter { app_id: Some(app_id), number, open_id, statuses, ..OrderFilter::default() };
            let columns =
                ["out_biz_order_no", "open_id", "order_status", "order_path", "updated_at", "event_count"];
            let orders = store.orders(&filter, limit).await?.items;
            context.output.list("orders", &orders, &columns, "No order matches.")
        }
        OrderCommand::Show { app_id, out_biz_order_no } => {
            let order = store.order(&app_id, &out_biz_order_no).await?;
            let order = order.ok_or_else(|| anyhow!("the app {app_id} has no order {out_biz_order_no}"))?;
            let mut shown = json!(order);
            shown["payments"] = json!(store.order_payments(&app_id, &out_biz_order_no).await?);
            shown["reports"] = json!(store.order_events(&app_id, &out_biz_order_no, None, EVENTS_MAX).await?);
            context.output.show(&shown)
        }
    }
}
