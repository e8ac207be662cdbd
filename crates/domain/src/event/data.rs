//! The `data` of events, as JSON (contract 12.1.2).

use schemars::JsonSchema;
use serde::Serialize;

use super::EventType;
use crate::ids::{BizNo, ImgId, OpenId, OrderNo};
use crate::order::OrderStatus;
use crate::topup::{Currency, PaymentProvider, PricedProductId, ProviderOrderId, RefundId, UnmatchedReason};

/// The `data` of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum EventData {
    /// Of `exchange.succeeded`.
    Exchange(ExchangeData),
    /// Of `present.succeeded`.
    Present(PresentData),
    /// Of `cancel.succeeded`.
    Cancel(CancelData),
    /// Of `wallet.credited` and `wallet.debited`.
    Operator(OperatorData),
    /// Of `wallet.frozen` and `wallet.thawed`.
    Freeze(FreezeData),
    /// Of `topup.paid`.
    Topup(TopupData),
    /// Of `topup.unmatched`.
    Unmatched(UnmatchedData),
    /// Of `topup.refunded`.
    Refund(RefundData),
    /// Of `topup.refund_refused`.
    RefusedRefund(RefusedRefundData),
    /// Of `wallet.debt_changed`.
    Debt(DebtData),
    /// Of `order.changed`.
    Order(OrderData),
    /// Of `image.blocked`.
    Image(ImageData),
}

/// What a ledger entry did to the purses of its wallet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EntryPurses {
    /// Change of the gifted purse. A deduction is negative.
    pub free_change: i64,
    /// Change of the charged purse. A deduction is negative.
    pub charge_change: i64,
    /// Gifted currency after it.
    pub free_balance: i64,
    /// Charged currency after it.
    pub charge_balance: i64,
}

/// Declares the data of events of a wallet. All of them have both changes and both balances.
macro_rules! wallet_data {
    ($(#[$doc:meta])* $name:ident { $($(#[$before_doc:meta])* $before:ident: $before_type:ty,)+ }
        $({ $($(#[$after_doc:meta])* $after:ident: $after_type:ty,)+ })?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
        pub struct $name {
            /// The player.
            #[schemars(with = "OpenId")]
            pub open_id: String,
            $($(#[$before_doc])* pub $before: $before_type,)+
            /// What it did to the purses.
            #[serde(flatten)]
            pub purses: EntryPurses,
            $($($(#[$after_doc])* pub $after: $after_type,)+)?
        }
    };
}

wallet_data! {
    /// An exchange.
    ExchangeData {
        /// Zone and role.
        zone_id: String,
        /// Number of the ledger entry in its wallet. Later entries have higher ones.
        seq: i64,
        /// The order number.
        biz_no: String,
        /// What was paid.
        amount: i64,
    } {
        /// What was bought.
        product_name: String,
        /// JSON text of the items.
        product_info: String,
        /// Remark.
        product_desc: String,
        /// Text of the developer.
        extension: String,
    }
}

wallet_data! {
    /// A present.
    PresentData {
        /// Zone and role.
        zone_id: String,
        /// Number of the ledger entry in its wallet. Later entries have higher ones.
        seq: i64,
        /// The order number.
        biz_no: String,
        /// What was given.
        amount: i64,
    } {
        /// Remark.
        product_desc: String,
        /// Text of the developer.
        extension: String,
    }
}

wallet_data! {
    /// A cancel by a game or an operator.
    CancelData {
        /// Zone and role. Empty for an operator's.
        zone_id: String,
        /// Number of the ledger entry in its wallet. Later entries have higher ones.
        seq: i64,
        /// The number of the cancel: a game's order number, or an operator's ref.
        biz_no: String,
        /// What was given back.
        amount: i64,
    } {
        /// Remark of the game, or note of the operator.
        product_desc: String,
        /// Text of the developer. Empty for an operator's.
        extension: String,
        /// The exchange that was given back.
        pay_biz_no: String,
        /// What can still be given back of it.
        remaining: i64,
    }
}

wallet_data! {
    /// A credit or a debit by an operator.
    OperatorData {
        /// Number of the ledger entry in its wallet. Later entries have higher ones.
        seq: i64,
        /// The operator's reference.
        r#ref: String,
    }
}

wallet_data! {
    /// A payment that was credited.
    TopupData {
        /// Number of the ledger entry in its wallet. Later entries have higher ones.
        seq: i64,
        /// The payment provider.
        #[schemars(with = "PaymentProvider")]
        provider: String,
        /// The provider's id of the payment.
        #[schemars(with = "ProviderOrderId")]
        provider_order_id: String,
        /// The order. `null` for a payment without one.
        #[schemars(with = "Option<BizNo>")]
        biz_no: Option<String>,
        /// The product.
        #[schemars(with = "PricedProductId")]
        product_id: String,
        /// Currency of the money, such as `CNY`.
        #[schemars(with = "Currency")]
        currency: String,
        /// The money, in minor units.
        amount: i64,
    }
}

wallet_data! {
    /// A refund of a payment, or of a part of it.
    RefundData {
        /// Number of the ledger entry in its wallet. Later entries have higher ones.
        seq: i64,
        /// The payment provider.
        #[schemars(with = "PaymentProvider")]
        provider: String,
        /// The provider's id of the payment.
        #[schemars(with = "ProviderOrderId")]
        provider_order_id: String,
        /// The refund of it.
        #[schemars(with = "RefundId")]
        refund_id: String,
        /// The order. `null` for a payment without one.
        #[schemars(with = "Option<BizNo>")]
        biz_no: Option<String>,
        /// The product.
        #[schemars(with = "PricedProductId")]
        product_id: String,
        /// Currency of the money.
        #[schemars(with = "Currency")]
        currency: String,
        /// The money of this refund, in minor units.
        amount: i64,
    } {
        /// Gifted coins that were spent, and became debt.
        free_debt: i64,
        /// Charged coins that were spent, and became debt.
        charge_debt: i64,
    }
}

wallet_data! {
    /// Debt of a wallet, after a refund or a settlement.
    DebtData {
        /// Number of the ledger entry of the refund or the settlement.
        seq: i64,
    } {
        /// Gifted coins that the wallet owes after it.
        free_debt: i64,
        /// Charged coins that the wallet owes after it.
        charge_debt: i64,
    }
}

/// A refund that came before its payment, and would exceed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RefusedRefundData {
    /// The payment provider.
    #[schemars(with = "PaymentProvider")]
    pub provider: String,
    /// The provider's id of the payment.
    #[schemars(with = "ProviderOrderId")]
    pub provider_order_id: String,
    /// The refund of it.
    #[schemars(with = "RefundId")]
    pub refund_id: String,
    /// The money of this refund, in minor units.
    pub amount: i64,
}

/// A payment that fits no order and no price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnmatchedData {
    /// The payment provider.
    #[schemars(with = "PaymentProvider")]
    pub provider: String,
    /// The provider's id of the payment.
    #[schemars(with = "ProviderOrderId")]
    pub provider_order_id: String,
    /// The order that was told. `null` where none was.
    #[schemars(with = "Option<BizNo>")]
    pub biz_no: Option<String>,
    /// The player that was told. `null` where none was.
    #[schemars(with = "Option<OpenId>")]
    pub open_id: Option<String>,
    /// The product that was told. `null` where none was.
    #[schemars(with = "Option<PricedProductId>")]
    pub product_id: Option<String>,
    /// Currency of the money.
    #[schemars(with = "Currency")]
    pub currency: String,
    /// The money, in minor units.
    pub amount: i64,
    /// Why nothing was credited.
    #[schemars(with = "UnmatchedReason")]
    pub reason: String,
}

/// A wallet that an operator has frozen, or thawed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FreezeData {
    /// The player.
    #[schemars(with = "OpenId")]
    pub open_id: String,
    /// When the freeze ends by itself, in Unix milliseconds. `null` where it does not, and once it has ended.
    pub until: Option<i64>,
}

/// An order that a report has made or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OrderData {
    /// Order number.
    #[schemars(with = "OrderNo")]
    pub out_biz_order_no: String,
    /// Payment pre-order number.
    #[schemars(with = "OrderNo")]
    pub out_order_no: String,
    /// The player.
    #[schemars(with = "OpenId")]
    pub open_id: String,
    /// Status code after the report.
    #[schemars(with = "OrderStatus")]
    pub order_status: i16,
    /// Time of the order in Unix milliseconds.
    pub order_create_time: i64,
    /// In-app path.
    pub order_path: String,
    /// Cover image.
    #[schemars(with = "ImgId")]
    pub product_cover_img_id: String,
    /// 1 for the first report of the order. Each report that changes it adds one.
    pub seq: i64,
}

/// An image that an operator has blocked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImageData {
    /// The image.
    #[schemars(with = "ImgId")]
    pub img_id: String,
}

impl EntryPurses {
    fn of([free_change, charge_change]: [i64; 2], [free_balance, charge_balance]: [i64; 2]) -> Self {
        Self { free_change, charge_change, free_balance, charge_balance }
    }
}

impl OperatorData {
    fn example(open_id: String, charge_change: i64) -> Self {
        Self {
            open_id,
            seq: 5,
            r#ref: "order-4711".to_owned(),
            purses: EntryPurses::of([0, charge_change], [20, 100 + charge_change]),
        }
    }
}

impl TopupData {
    fn example(open_id: String) -> Self {
        Self {
            open_id,
            seq: 6,
            provider: "stripe".to_owned(),
            provider_order_id: "pi_3OrtQ2".to_owned(),
            biz_no: Some("20270115080000001".to_owned()),
            product_id: "gems60".to_owned(),
            currency: "CNY".to_owned(),
            amount: 600,
            purses: EntryPurses::of([6, 60], [26, 160]),
        }
    }
}

impl RefundData {
    fn example(open_id: String) -> Self {
        Self {
            open_id,
            seq: 8,
            provider: "stripe".to_owned(),
            provider_order_id: "pi_3OrtQ2".to_owned(),
            refund_id: "re_3OrtQ2".to_owned(),
            biz_no: Some("20270115080000001".to_owned()),
            product_id: "gems60".to_owned(),
            currency: "CNY".to_owned(),
            amount: 600,
            purses: EntryPurses::of([-6, -50], [20, 0]),
            free_debt: 0,
            charge_debt: 10,
        }
    }
}

impl DebtData {
    fn example(open_id: String) -> Self {
        Self { open_id, seq: 8, purses: EntryPurses::of([-6, -50], [20, 0]), free_debt: 0, charge_debt: 10 }
    }
}

impl RefusedRefundData {
    fn example() -> Self {
        Self {
            provider: "stripe".to_owned(),
            provider_order_id: "pi_3OrtQ2".to_owned(),
            refund_id: "re_3OrtQ2".to_owned(),
            amount: 700,
        }
    }
}

impl UnmatchedData {
    fn example() -> Self {
        Self {
            provider: "stripe".to_owned(),
            provider_order_id: "pi_3OrtQ2".to_owned(),
            biz_no: Some("20270115080000001".to_owned()),
            open_id: None,
            product_id: None,
            currency: "CNY".to_owned(),
            amount: 500,
            reason: "other_amount".to_owned(),
        }
    }
}

impl EventData {
    /// What an event of this type may tell: for tests of receivers, and for documents.
    #[must_use]
    pub fn example(of: EventType) -> Self {
        let text = |text: &str| text.to_owned();
        let (open_id, zone_id) = (text("player-1"), text("zone1_role1"));
        match of {
            EventType::ExchangeSucceeded => Self::Exchange(ExchangeData {
                open_id,
                zone_id,
                seq: 2,
                biz_no: text("order1001"),
                amount: 60,
                purses: EntryPurses::of([-40, -20], [0, 80]),
                product_name: text("Double-up card"),
                product_info: text(r#"[{"product_id":1001,"product_num":1,"product_type":0}]"#),
                product_desc: text("For one match"),
                extension: String::new(),
            }),
            EventType::PresentSucceeded => Self::Present(PresentData {
                open_id,
                zone_id,
                seq: 3,
                biz_no: text("present1001"),
                amount: 10,
                purses: EntryPurses::of([10, 0], [10, 80]),
                product_desc: text("For the first win"),
                extension: String::new(),
            }),
            EventType::CancelSucceeded => Self::Cancel(CancelData {
                open_id,
                zone_id,
                seq: 4,
                biz_no: text("refund1001"),
                amount: 30,
                purses: EntryPurses::of([10, 20], [20, 100]),
                product_desc: String::new(),
                extension: String::new(),
                pay_biz_no: text("order1001"),
                remaining: 30,
            }),
            EventType::WalletCredited => Self::Operator(OperatorData::example(open_id, 100)),
            EventType::WalletDebited => Self::Operator(OperatorData::example(open_id, -100)),
            EventType::WalletFrozen => Self::Freeze(FreezeData { open_id, until: Some(1_795_500_000_000) }),
            EventType::WalletThawed => Self::Freeze(FreezeData { open_id, until: None }),
            EventType::TopupPaid => Self::Topup(TopupData::example(open_id)),
            EventType::TopupUnmatched => Self::Unmatched(UnmatchedData::example()),
            EventType::TopupRefunded => Self::Refund(RefundData::example(open_id)),
            EventType::TopupRefundRefused => Self::RefusedRefund(RefusedRefundData::example()),
            EventType::WalletDebtChanged => Self::Debt(DebtData::example(open_id)),
            EventType::OrderChanged => Self::Order(OrderData {
                out_biz_order_no: text("order-000001"),
                out_order_no: text("pay-000001"),
                open_id,
                order_status: 2,
                order_create_time: 1_795_500_000_000,
                order_path: text("pages/order/detail?id=1"),
                product_cover_img_id: "0f".repeat(24),
                seq: 2,
            }),
            EventType::ImageBlocked => Self::Image(ImageData { img_id: "0f".repeat(24) }),
        }
    }
}
