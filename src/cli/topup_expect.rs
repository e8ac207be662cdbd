//! `minitill topup expect` compares the payments of an app with a provider's settlement file (contract 19.7).

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use domain::ids::AppId;
use domain::period::TimeZone;
use domain::topup::PaymentProvider;
use serde::Serialize;
use store::{MissingPayment, PaymentBooks, PaymentColumn, Reconciled, Store, StoreError};

use super::output::complain;
use super::reconcile::{ComparedPeriod, Printed, TOLD_MAX, compare, exit_code, parse_mapped, show};
use super::{Context, not_done};

#[derive(Debug, Args)]
pub(super) struct ExpectArguments {
    /// App of the payments
    app_id: AppId,
    /// CSV file with a heading; it has a column `provider_order_id`, and others of a payment
    file: PathBuf,
    /// The payment provider, where no column of the file names it
    #[arg(long, help_heading = "File")]
    provider: Option<PaymentProvider>,
    /// A column of the file that has another name than in a payment, such as `fee_cents=fee`; `money` is in units, such as 6.00
    #[arg(long, help_heading = "File", value_name = "THEIRS=OURS", value_parser = parse_mapped::<PaymentColumn>)]
    map: Vec<(String, PaymentColumn)>,
    /// Enter the payments that are only in the file
    #[arg(long)]
    apply: bool,
    #[command(flatten, next_help_heading = "Period")]
    period: ComparedPeriod,
    /// Time zone of the day or month, and of times without an offset: an IANA name, such as Asia/Shanghai
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = TimeZone::parse)]
    time_zone: TimeZone,
}

/// A payment that was entered.
#[derive(Debug, Serialize)]
struct Entered<'a> {
    #[serde(rename = "ref")]
    reference: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

pub(super) async fn expect(context: &Context, store: &Store, arguments: ExpectArguments) -> Result<ExitCode> {
    let ExpectArguments { app_id, file, provider, map, apply, period, time_zone: zone } = arguments;
    let span = period.span(&zone);
    let mut found = compare(store, &app_id, &file, (PaymentBooks { provider }, &map), span).await?;
    let mut printed = Printed::new(context.output.is_json);
    let mut remains = false;
    if apply {
        let at = (&zone, context.clock.unix_millis() / 1000);
        refuse_wrong(&mut found, at).await?;
        remains = enter(context, store, (&app_id, at), &mut found, &mut printed).await?;
    }
    remains |= show(&mut printed, &mut found, !apply).await?;
    printed.end()?;
    found.close().await?;
    Ok(exit_code(remains))
}

/// Tells each line that is no payment.
///
/// # Errors
/// There is one. Nothing was entered.
async fn refuse_wrong(found: &mut Reconciled<PaymentBooks>, at: (&TimeZone, i64)) -> Result<()> {
    let mut wrong = 0;
    found
        .each_missing(at, async |MissingPayment { reference, payment }| {
            if let Err(error) = payment {
                wrong += 1;
                if wrong <= TOLD_MAX {
                    complain(&format!("{reference}: {error}"));
                }
            }
            Ok::<_, StoreError>(())
        })
        .await?;
    if wrong > 0 {
        Err(anyhow!("payments that cannot be entered: {wrong}; nothing was entered"))
    } else {
        Ok(())
    }
}

/// Enters what is only in the file. Returns whether something fits nothing.
async fn enter(
    context: &Context,
    store: &Store,
    (app_id, at): (&AppId, (&TimeZone, i64)),
    found: &mut Reconciled<PaymentBooks>,
    printed: &mut Printed,
) -> Result<bool> {
    printed.list("entered")?;
    let mut remains = false;
    found
        .each_missing(at, async |MissingPayment { reference, payment }| {
            let payment = payment.map_err(|error| anyhow!("{reference}: {error}"))?;
            let report = store.take_payment(&context.operator, app_id, payment).await.map_err(not_done)?;
            remains |= report.reason.is_some();
            let reason = report.reason.as_deref();
            let entered = Entered { reference: &reference, state: report.state, reason };
            let cells = ["entered", &reference, report.state, reason.unwrap_or_default()];
            Ok::<_, anyhow::Error>(printed.item(&entered, &cells)?)
        })
        .await?;
    Ok(remains)
}
