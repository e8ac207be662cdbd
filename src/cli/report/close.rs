//! `minitill report close` and `minitill report closed` (contract 13.3.9).

use anyhow::Result;
use clap::Args;
use domain::ids::AppId;
use domain::period::{Period, TimeZone};
use store::Store;

use super::super::app::OneApp;
use super::super::output::complain;
use super::super::{Context, not_done};

#[derive(Debug, Args)]
pub(in super::super) struct CloseArguments {
    /// Id of the app
    app_id: AppId,
    /// The month, such as 2026-10
    #[arg(long, value_name = "MONTH", value_parser = Period::month)]
    month: Period,
    /// Time zone of the month, by its IANA name
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = TimeZone::parse)]
    time_zone: TimeZone,
}

pub(super) async fn close(context: &Context, store: &Store, arguments: CloseArguments) -> Result<()> {
    let CloseArguments { app_id, month, time_zone } = arguments;
    let closed = store.close_period(&context.operator, &app_id, month, &time_zone, None).await;
    let closed = closed.map_err(not_done)?;
    context.output.show(&closed)?;
    // The close stands all the same: a studio may change its zone once.
    let all = store.closed_periods(&app_id).await.map_err(not_done)?;
    for unmet in closed.unmet_months(&all)? {
        complain(&unmet.english());
    }
    Ok(())
}

pub(super) async fn list(context: &Context, store: &Store, OneApp { app_id }: OneApp) -> Result<()> {
    let found = store.closed_periods(&app_id).await.map_err(not_done)?;
    let columns = "month time_zone sha256 closed_by closed_by_kind closed_at compared_at differs";
    context.output.list("closed_periods", &found, columns, "No month of this app is closed.")
}
