//! `minitill topup list` lists the payments of an app: as a table, or as CSV for finance (contract 19.3.9).

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use domain::csv::csv_text;
use domain::ids::{AppId, OpenId};
use domain::moment::rfc3339;
use domain::topup::Currency;
use serde_json::json;
use store::{Store, TopupFilter, TopupRow};

use super::Context;
use super::app::require_app_of;
use super::new_file::NewFile;
use super::output::ignore_gone_reader;
use super::report::to_out;
use super::span::SpanArguments;

/// Payments of a table, where no other limit was given.
const ROWS: u32 = 100;
/// Payments of a file that are read at once.
const PAGE: u32 = 500;
/// The columns of the table.
const TABLE: &str = "created_at provider provider_order_id state reason currency amount \
    open_id product_id biz_no charge bonus";
/// The columns of the file.
const HEADING: [&str; 17] = [
    "provider",
    "provider_order_id",
    "state",
    "reason",
    "currency",
    "money",
    "fee",
    "refunded",
    "paid_at",
    "created_at",
    "credited_at",
    "biz_no",
    "open_id",
    "product_id",
    "charge",
    "bonus",
    "note",
];

#[derive(Debug, Args)]
pub(super) struct TopupListArguments {
    /// App of the payments
    app_id: AppId,
    /// Only those that fit nothing and wait for an operator
    #[arg(long, help_heading = "Filter")]
    unmatched: bool,
    /// Only of this player
    #[arg(long, help_heading = "Filter", value_name = "OPEN_ID")]
    open_id: Option<OpenId>,
    #[command(flatten)]
    span: SpanArguments,
    /// List at most this many [default: 100, and all with --csv]
    #[arg(long, help_heading = "Filter", value_name = "N")]
    limit: Option<u32>,
    /// Write comma-separated values with a heading, with refunds; money is in units, such as 6.00
    #[arg(long, help_heading = "Format")]
    csv: bool,
    /// Write them to this file instead of standard output; it appears when it is complete
    #[arg(long, help_heading = "Format", value_name = "FILE", requires = "csv")]
    out: Option<PathBuf>,
}

pub(super) async fn list(context: &Context, store: &Store, arguments: TopupListArguments) -> Result<()> {
    let TopupListArguments { app_id, unmatched, open_id, span, limit, csv, out } = arguments;
    let [since, until] = span.ends(context)?;
    let filter = TopupFilter { unmatched, open_id, since, until };
    let of = (store, &app_id, &filter);
    if let Some(path) = &out {
        let file = NewFile::create(path)?;
        let payments = write_csv(of, limit, Some(&file)).await?;
        file.finish()?;
        let words = format!("{}: {payments} payments", path.display());
        return context.output.print(&json!({ "file": path, "payments": payments }), words);
    }
    if csv {
        ensure!(!context.output.is_json, "CSV is no JSON: with --json, write it with --out FILE");
        return write_csv(of, limit, None).await.map(drop);
    }
    let found = store.topups(&app_id, &filter, None, limit.unwrap_or(ROWS)).await?.items;
    require_app_of(store, &found, Some(&app_id)).await?;
    span.output(context).list("topups", &found, TABLE, "No payment of this app matches.")
}

/// Writes payments page by page, so that a long list needs little memory. Returns how many.
async fn write_csv(
    (store, app_id, filter): (&Store, &AppId, &TopupFilter),
    limit: Option<u32>,
    file: Option<&NewFile<'_>>,
) -> Result<u64> {
    let failed = |error: io::Error| match file {
        Some(file) => Err(file.failed(&error)),
        None => ignore_gone_reader(Err(error)),
    };
    let (mut after, mut left, mut written) = (None, limit.unwrap_or(u32::MAX), 0_u64);
    let mut out = to_out(file)?;
    let mut heading = Some(HEADING);
    loop {
        let page = store.topups(app_id, filter, after.as_ref(), left.min(PAGE)).await?;
        if heading.is_some() {
            require_app_of(store, &page.items, Some(app_id)).await?;
        }
        let lines = csv_lines(heading.take().as_ref(), &page.items)?;
        if let Err(error) = out.write_all(&lines) {
            failed(error)?;
            return Ok(written);
        }
        let count = u32::try_from(page.items.len()).unwrap_or(u32::MAX);
        (left, written) = (left.saturating_sub(count), written + u64::from(count));
        after = page.next;
        if after.is_none() || left == 0 {
            break;
        }
    }
    if let Err(error) = out.flush() {
        failed(error)?;
    }
    Ok(written)
}

/// Payments as lines of the file, behind its heading where that is wanted.
fn csv_lines(heading: Option<&[&str; 17]>, payments: &[TopupRow]) -> Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    if let Some(heading) = heading {
        writer.write_record(heading)?;
    }
    for payment in payments {
        writer.write_record(cells(payment))?;
    }
    Ok(writer.into_inner().map_err(csv::IntoInnerError::into_error)?)
}

/// The cells of a payment, in the order of the heading. No text of it is a formula.
fn cells(payment: &TopupRow) -> [String; 17] {
    let text = |text: Option<&String>| text.map(|text| csv_text(text).into_owned()).unwrap_or_default();
    let coins = |coins: Option<i64>| coins.map(|coins| coins.to_string()).unwrap_or_default();
    let money = |amount: i64| Currency::units_of(&payment.currency, amount);
    [
        text(Some(&payment.provider)),
        text(Some(&payment.provider_order_id)),
        payment.state.to_string(),
        payment.reason.clone().unwrap_or_default(),
        payment.currency.clone(),
        money(payment.amount),
        payment.fee.map(money).unwrap_or_default(),
        money(payment.refunded()),
        rfc3339(payment.paid_at),
        rfc3339(payment.created_at),
        payment.credited_at.map(rfc3339).unwrap_or_default(),
        text(payment.biz_no.as_ref()),
        text(payment.open_id.as_ref()),
        text(payment.product_id.as_ref()),
        coins(payment.charge),
        coins(payment.bonus),
        text(Some(&payment.note)),
    ]
}
