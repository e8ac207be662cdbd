//! `minitill order ...` shows orders as developers have reported them.

use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Subcommand;
use domain::ids::{AppId, OpenId, OrderNo};
use serde_json::json;
use store::{OrderFilter, Store, StoredOrder};

use super::Context;
use super::app::require_app_of;

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
        /// Only orders with this status code; open: something is still to come
        #[arg(long, value_name = "CODE", value_parser = OrderFilter::parse_statuses)]
        status: Option<Statuses>,
        /// Only orders whose status has not changed for this long, such as 1d
        #[arg(long, value_name = "DURATION", value_parser = OrderFilter::parse_wait)]
        longer: Option<Duration>,
        /// The oldest order first
        #[arg(long)]
        oldest_first: bool,
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

/// clap reads a `Vec` as an option that can be repeated.
type Statuses = Vec<i16>;

pub(super) async fn run(context: &Context, store: &Store, command: OrderCommand) -> Result<()> {
    match command {
        OrderCommand::List { app_id, number, open_id, status, longer, oldest_first, limit } => {
            let filter = OrderFilter {
                app_id: Some(app_id.clone()),
                number,
                open_id,
                statuses: status.unwrap_or_default(),
                in_status_for: longer,
                oldest_first,
                ..OrderFilter::default()
            };
            let columns = "out_biz_order_no open_id order_status order_path updated_at event_count";
            let orders = found(store, filter, limit).await?;
            require_app_of(store, &orders, Some(&app_id)).await?;
            context.output.list("orders", &orders, columns, "No order matches.")
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

/// The first orders that match. A page of the store examines a limited number of orders, so it takes as many as it needs.
async fn found(store: &Store, mut filter: OrderFilter, limit: u32) -> Result<Vec<StoredOrder>> {
    let mut orders = Vec::new();
    loop {
        let left = limit.saturating_sub(u32::try_from(orders.len()).unwrap_or(u32::MAX));
        let page = store.orders(&filter, left).await?;
        orders.extend(page.items);
        if page.next.is_none() || orders.len() >= usize::try_from(limit).unwrap_or(usize::MAX) {
            return Ok(orders);
        }
        filter.after = page.next;
    }
}
