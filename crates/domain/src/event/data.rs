//! What events tell (contract 12.1).

use schemars::JsonSchema;
use serde::Serialize;

use crate::ids::{ImgId, OpenId, OrderNo};
use crate::order::OrderStatus;

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
    /// Of `order.changed`.
    Order(OrderData),
    /// Of `image.blocked`.
    Image(ImageData),
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
            /// Change of the gifted purse. A deduction is negative.
            pub free_change: i64,
            /// Change of the charged purse. A deduction is negative.
            pub charge_change: i64,
            /// Gifted currency after it.
            pub free_balance: i64,
            /// Charged currency after it.
            pub charge_balance: i64,
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
