//! `minitill topup expect` compares the payments of an app with a provider's settlement file (contract 19.7).

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use domain::ids::AppId;
use domain::period::TimeZone;
use domain::topup::{Currency, Payment, PaymentKey, PaymentProvider, PaymentState};
use serde::Serialize;
use store::{MissingPayment, PaymentBooks, PaymentColumn, Reconciled, Store, StoreError};

use super::output::complain;
use super::reconcile::{ComparedPeriod, Printed, TOLD_MAX, compare, exit_code, parse_mapped, show};
use super::{Context, not_done};

/// Payments that are looked up among those of other apps at once.
const BATCH: usize = 500;

#[derive(Debug, Args)]
pub(super) struct ExpectArguments {
    /// App of the payments
    app_id: AppId,
    /// CSV file with a heading; it has a column `provider_order_id`, and others of a payment
    file: PathBuf,
    /// The payment provider, where no column of the file names it
    #[arg(long, help_heading = "File")]
    provider: Option<PaymentProvider>,
    /// Code of the currency of all lines, such as CNY, where no column of the file tells it
    #[arg(long, help_heading = "File", value_parser = Currency::parse)]
    currency: Option<Currency>,
    /// A column of the file that has another name than in a payment, such as `fee_cents=fee`; `money` is in units, such as 6.00
    #[arg(long, help_heading = "File", value_name = "THEIRS=OURS", value_parser = parse_mapped::<PaymentColumn>)]
    map: Vec<(String, PaymentColumn)>,
    /// Enter the payments that are only in the file, but for those that another app has
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
    state: PaymentState,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// A payment that another app has.
#[derive(Debug, Serialize)]
struct PaymentOfOtherApp<'a> {
    #[serde(rename = "ref")]
    reference: &'a str,
    app_id: &'a str,
}

pub(super) async fn expect(context: &Context, store: &Store, arguments: ExpectArguments) -> Result<ExitCode> {
    let ExpectArguments { app_id, file, provider, currency, map, apply, period, time_zone: zone } = arguments;
    if currency.is_some() && map.iter().any(|(_, ours)| *ours == PaymentColumn::Currency) {
        bail!("--currency: expected none beside --map of a column currency");
    }
    let span = period.span(&zone)?;
    let books = PaymentBooks { provider, currency };
    let mut found = compare(store, &app_id, &file, (books, &map), span).await?;
    let mut printed = Printed::new(context.output.is_json);
    let (mut remains, mut of_other_apps) = (false, 0);
    if apply {
        let at = (&zone, store.now().await?.unix_timestamp());
        refuse_wrong(&mut found, at).await?;
        (remains, of_other_apps) = enter(context, store, (&app_id, at), &mut found, &mut printed).await?;
    }
    remains |= show(&mut printed, &mut found, !apply, of_other_apps).await?;
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

/// Enters what is only in the file, but for what another app has. Returns whether something of it remains, and how many
/// payments are of other apps.
async fn enter(
    context: &Context,
    store: &Store,
    (app_id, at): (&AppId, (&TimeZone, i64)),
    found: &mut Reconciled<PaymentBooks>,
    printed: &mut Printed,
) -> Result<(bool, usize)> {
    printed.list("entered")?;
    let (batch, of_other_apps) = (Vec::with_capacity(BATCH), Vec::new());
    let mut entering =
        EnteredPayments { context, store, app_id, printed, batch, remains: false, of_other_apps };
    found.each_missing(at, async |missing| entering.add(missing).await).await?;
    entering.enter_batch().await?;
    let EnteredPayments { printed, remains, of_other_apps, .. } = entering;
    printed.list("other_app")?;
    for (reference, app_id) in &of_other_apps {
        printed.item(&PaymentOfOtherApp { reference, app_id }, &["other app", reference, app_id])?;
    }
    Ok((remains || !of_other_apps.is_empty(), of_other_apps.len()))
}

/// Payments of a file on their way into the till.
struct EnteredPayments<'a> {
    context: &'a Context,
    store: &'a Store,
    app_id: &'a AppId,
    printed: &'a mut Printed,
    /// Payments that are not entered yet, each with its ref.
    batch: Vec<(String, Payment)>,
    /// Whether something fits nothing.
    remains: bool,
    /// The refs of payments that another app has, each with the app.
    of_other_apps: Vec<(String, String)>,
}

impl EnteredPayments<'_> {
    async fn add(&mut self, MissingPayment { reference, payment }: MissingPayment) -> Result<()> {
        let payment = payment.map_err(|error| anyhow!("{reference}: {error}"))?;
        self.batch.push((reference, payment));
        if self.batch.len() < BATCH { Ok(()) } else { self.enter_batch().await }
    }

    async fn enter_batch(&mut self) -> Result<()> {
        let Self { context, store, app_id, .. } = *self;
        let batch = std::mem::take(&mut self.batch);
        let keys: Vec<&PaymentKey> = batch.iter().map(|(_, payment)| &payment.key).collect();
        // The key of a payment is of its app alone, and one merchant account may serve several apps.
        let mut others = store.other_apps_of_payments(app_id, &keys).await?;
        for (reference, payment) in batch {
            if let Some(other) = others.remove(&reference) {
                self.of_other_apps.push((reference, other));
                continue;
            }
            let report = store.take_payment(&context.operator, app_id, payment).await.map_err(not_done)?;
            self.remains |= report.reason.is_some();
            let reason = report.reason.as_deref();
            let entered = Entered { reference: &reference, state: report.state, reason };
            let cells = ["entered", &reference, report.state.as_str(), reason.unwrap_or_default()];
            self.printed.item(&entered, &cells)?;
        }
        Ok(())
    }
}
