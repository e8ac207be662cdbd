//! `minitill topup ...` shows payments for top-ups, enters one by hand, and settles what fitted nothing (contract 19.3).

use std::io::Read as _;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use domain::fields::FieldError;
use domain::ids::{AppId, BizNo, OpenId, Os, Reason};
use domain::moment;
use domain::operation::topup::{ProviderCommand, SettlePayment, Settlement, unknown_payment};
use domain::topup::{
    CallbackFormat, CallbackSecret, Currency, Excess, FIGURE_MAX, NewRefund, Payment, PaymentKey,
    PaymentProvider, PaymentTarget, PricedProductId, ProviderOrderId, RefundAmount, RefundId, RefundKey,
    Shortfall,
};
use store::Store;
use time::OffsetDateTime;

use super::topup_expect::{ExpectArguments, expect};
use super::topup_list::{TopupListArguments, list};
use super::{Context, not_done, refused, secret_text};

#[derive(Debug, Subcommand)]
pub(super) enum TopupCommand {
    /// Record a payment for which no callback came; a repeat changes nothing
    Pay(Box<PayArguments>),
    /// Compare the payments with a provider's settlement file; exit code 1 if anything differs
    Expect(Box<ExpectArguments>),
    /// List payments, newest first
    List(Box<TopupListArguments>),
    /// Show a payment with its refunds
    Show(OnePayment),
    /// Show what was used of the charged coins of a top-up
    Consumption(OnePayment),
    /// Refund a payment or a part of it, once: the player's coins are taken back
    Refund(RefundArguments),
    /// Set a payment provider that calls back, at `/notify/APP_ID/PROVIDER` of the public listener
    Provider {
        /// App of the payments
        app_id: AppId,
        /// Payment provider
        provider: PaymentProvider,
        /// Format and signature of its callbacks
        #[arg(long)]
        format: CallbackFormat,
        /// Secret that signs them; `-` reads it from standard input, so that no list of processes shows it
        #[arg(long, value_name = "S")]
        secret: String,
    },
    /// List the payment providers that call back
    Providers {
        /// App of the payments
        app_id: AppId,
    },
    /// Remove a payment provider that calls back: its callbacks are refused
    RemoveProvider {
        /// App of the payments
        app_id: AppId,
        /// Payment provider
        provider: PaymentProvider,
    },
    /// Settle an unmatched payment, once: credit it, or mark it as paid back
    Settle(SettleArguments),
}

#[derive(Debug, Args)]
pub(super) struct OnePayment {
    /// App of the payment
    app_id: AppId,
    /// Payment provider
    provider: PaymentProvider,
    /// The provider's id of the payment
    // One that is kept may have a blank at an end.
    #[arg(value_parser = ProviderOrderId::stored)]
    provider_order_id: ProviderOrderId,
}

impl OnePayment {
    /// The app, and the key of the payment.
    fn key(self) -> (AppId, PaymentKey) {
        let Self { app_id, provider, provider_order_id } = self;
        (app_id, PaymentKey { provider, provider_order_id })
    }
}

#[derive(Debug, Args)]
pub(super) struct PayArguments {
    #[command(flatten)]
    payment: OnePayment,
    /// Code of the currency, such as CNY
    #[arg(long, help_heading = "Money", value_parser = Currency::parse)]
    currency: Currency,
    /// The money, in minor units
    #[arg(long, help_heading = "Money", value_parser = clap::value_parser!(i64).range(1..=FIGURE_MAX))]
    amount: i64,
    /// Time when it was paid, such as 2026-11-21T08:00
    #[arg(long, help_heading = "Money", value_name = "TIME", value_parser = moment::parse)]
    paid_at: OffsetDateTime,
    /// The order that it pays
    #[arg(long, help_heading = "What is paid")]
    biz_no: Option<BizNo>,
    /// The player, in place of an order
    #[arg(long, help_heading = "What is paid")]
    open_id: Option<OpenId>,
    /// The product, in place of an order
    #[arg(long, help_heading = "What is paid")]
    product_id: Option<PricedProductId>,
    /// The player's platform, such as ios
    #[arg(long, help_heading = "What is paid")]
    os: Option<Os>,
    /// What the provider keeps, in minor units
    #[arg(long, help_heading = "Money", value_parser = clap::value_parser!(i64).range(0..=FIGURE_MAX))]
    fee: Option<i64>,
    /// Note for people
    #[arg(long, default_value = "", hide_default_value = true)]
    note: String,
}

#[derive(Debug, Args)]
pub(super) struct RefundArguments {
    #[command(flatten)]
    payment: OnePayment,
    /// The provider's id of the refund; the same one again changes nothing
    #[arg(long)]
    refund_id: RefundId,
    /// The money that went back, in minor units
    #[arg(long, value_parser = clap::value_parser!(i64).range(1..=FIGURE_MAX))]
    amount: i64,
    /// Reason, for the operator's log
    #[arg(long)]
    reason: Reason,
    /// For coins that are spent already: refuse the refund, or record them as debt
    #[arg(long, default_value = "refuse")]
    shortfall: Shortfall,
}

#[derive(Debug, Args)]
pub(super) struct SettleArguments {
    #[command(flatten)]
    payment: OnePayment,
    /// Reason, for the operator's log
    #[arg(long)]
    reason: Reason,
    #[command(flatten)]
    what: SettledAs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(super) struct SettledAs {
    /// Credit it to this order
    #[arg(long, conflicts_with_all = ["open_id", "product_id", "paid_back"])]
    biz_no: Option<BizNo>,
    /// Credit it to this player
    #[arg(long, requires = "product_id", conflicts_with = "paid_back")]
    open_id: Option<OpenId>,
    /// Credit this product
    #[arg(long, requires = "open_id", conflicts_with = "paid_back")]
    product_id: Option<PricedProductId>,
    /// The money went back, and nothing is credited
    #[arg(long)]
    paid_back: bool,
}

pub(super) async fn run(context: &Context, store: &Store, command: TopupCommand) -> Result<ExitCode> {
    match command {
        TopupCommand::Pay(arguments) => pay(context, store, *arguments).await,
        TopupCommand::List(arguments) => list(context, store, *arguments).await,
        TopupCommand::Show(payment) => {
            let (app_id, key) = payment.key();
            let row = store.topup(&app_id, &key).await?;
            context.output.show(&row.ok_or_else(|| refused(unknown_payment(&app_id, key.as_text())))?)
        }
        TopupCommand::Consumption(payment) => {
            let (app_id, key) = payment.key();
            context.output.show(&store.consumption(&app_id, &key).await.map_err(not_done)?)
        }
        TopupCommand::Provider { app_id, provider, format, secret } => {
            let secret = if secret == "-" { piped_secret()? } else { secret };
            let secret = CallbackSecret::parse(format, secret.trim());
            let secret = secret.map_err(|expected| anyhow!("--secret: {expected}"))?;
            let command = ProviderCommand::Set(format, secret);
            let set = store.change_topup_provider(&context.operator, &app_id, &provider, command).await;
            context.output.show(&set.map_err(not_done)?)
        }
        TopupCommand::Providers { app_id } => {
            let columns = "provider format set_at former_until";
            let found = store.topup_providers(&app_id).await.map_err(not_done)?;
            let none = "No payment provider calls back. To set one, run `minitill topup provider`.";
            context.output.list("providers", &found, columns, none)
        }
        TopupCommand::RemoveProvider { app_id, provider } => {
            let command = ProviderCommand::Remove;
            let removed = store.change_topup_provider(&context.operator, &app_id, &provider, command).await;
            removed.map_err(not_done)?;
            let value = serde_json::json!({ "app_id": app_id, "provider": provider, "removed": true });
            context.output.print(&value, format!("The callbacks of {provider} are refused."))
        }
        TopupCommand::Expect(arguments) => return expect(context, store, *arguments).await,
        TopupCommand::Refund(arguments) => refund(context, store, arguments).await,
        TopupCommand::Settle(arguments) => settle(context, store, arguments).await,
    }
    .map(|()| ExitCode::SUCCESS)
}

/// The secret from standard input.
fn piped_secret() -> Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).map_err(|error| anyhow!("--secret: {error}"))?;
    secret_text(bytes).map_err(|error| anyhow!("--secret: {error}"))
}

async fn pay(context: &Context, store: &Store, arguments: PayArguments) -> Result<()> {
    let PayArguments { payment, currency, amount, paid_at, .. } = arguments;
    let (app_id, key) = payment.key();
    ProviderOrderId::parse(key.provider_order_id.as_str())
        .map_err(|expected| anyhow!("PROVIDER_ORDER_ID: {expected}"))?;
    let target = PaymentTarget::of(arguments.biz_no, arguments.open_id, arguments.product_id);
    let target = target.ok_or_else(|| anyhow!("expected --biz-no, or --open-id and --product-id"))?;
    let payment = Payment {
        key,
        currency,
        amount,
        target,
        paid_at,
        os: arguments.os,
        fee: arguments.fee,
        note: arguments.note,
    };
    let of_option = |error| anyhow!("{}", FieldError { field: "--paid-at".to_owned(), ..error });
    payment.check_paid_at(store.now().await?.unix_timestamp()).map_err(of_option)?;
    let report = store.take_payment(&context.operator, &app_id, payment).await.map_err(not_done)?;
    context.output.show(&report)
}

async fn refund(context: &Context, store: &Store, arguments: RefundArguments) -> Result<()> {
    let RefundArguments { payment, refund_id, amount, reason, shortfall } = arguments;
    let (app_id, payment) = payment.key();
    let key = RefundKey { payment, refund_id };
    let excess = Excess::Refuse;
    let refund = NewRefund { key, amount: RefundAmount::Of(amount), reason, shortfall, excess };
    let report = store.refund_payment(&context.operator, &app_id, refund).await.map_err(not_done)?;
    context.output.show(&report)
}

async fn settle(context: &Context, store: &Store, arguments: SettleArguments) -> Result<()> {
    let SettleArguments { payment, reason, what } = arguments;
    let (app_id, key) = payment.key();
    let settlement = match (what.biz_no, what.open_id.zip(what.product_id)) {
        (Some(biz_no), _) => Settlement::CreditOrder(biz_no),
        (None, Some((open_id, product_id))) => Settlement::CreditPlayer(open_id, product_id),
        (None, None) => Settlement::PaidBack,
    };
    let command = SettlePayment { settlement, reason };
    let settled = store.settle_payment(&context.operator, &app_id, key, command).await.map_err(not_done)?;
    context.output.show(&settled)
}
