//! The code table (contract 7.1): every refusal code of the public API with all that depends on it.
//! One row of the table below feeds the enum, the OpenAPI document and the tables of the docs.

use crate::endpoint::Endpoint::{
    self, AccessToken, Balance, Callback, Cancel, Exchange, Image, Login, OrderReport, Present, Query,
    Sandbox, Topup, UploadWithFile, UploadWithUrl,
};
use crate::fields::{Expected, is_canonical_integer};

/// What an exchange with this code means for its `biz_no`, when it may be a repeat
/// (docs/api.md, "When no answer comes").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BizNoState {
    /// Nothing was deducted: the `biz_no` is free.
    Free,
    /// The `biz_no` paid before.
    Paid,
    /// The `biz_no` paid before, for other content.
    PaidOther,
    /// The `biz_no` has not paid and never will.
    Closed,
    /// The code does not show whether the `biz_no` paid before.
    Unknown,
}

macro_rules! codes {
    ($($variant:ident = $number:literal, $transport:expr, $biz_no:ident, $endpoints:expr, $meaning:literal;)+) => {
        /// A code of the table. Two of them share a number where callers are to do different things.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = concat!(stringify!($number), ": ", $meaning, ".")] $variant,)+
        }

        impl Code {
            /// Every row, in the order of the table.
            pub const ALL: [Self; [$(Self::$variant),+].len()] = [$(Self::$variant),+];
            const ROWS: [CodeRow; Self::ALL.len()] = [$(CodeRow {
                number: $number,
                transport_statuses: &$transport,
                biz_no: BizNoState::$biz_no,
                endpoints: &$endpoints,
                meaning: $meaning,
            }),+];
        }
    };
}

/// The meaning of a code.
#[derive(Debug)]
pub struct CodeRow {
    /// The number on the wire.
    pub number: u32,
    /// The statuses of the transport that the code comes with (contract 2.2 and 5.7).
    pub transport_statuses: &'static [u16],
    /// The meaning of this code of an exchange for its `biz_no`.
    pub biz_no: BizNoState,
    /// The endpoints that answer it.
    pub endpoints: &'static [Endpoint],
    /// The meaning in contract 7.1.
    pub meaning: &'static str,
}

/// The endpoints that check an access token or a secret.
const CALLED: [Endpoint; 12] = [
    Exchange,
    Present,
    Cancel,
    Balance,
    Query,
    Topup,
    OrderReport,
    UploadWithFile,
    UploadWithUrl,
    AccessToken,
    Login,
    Sandbox,
];
/// The endpoints that check an access token.
const WITH_TOKEN: [Endpoint; 10] =
    [Exchange, Present, Cancel, Balance, Query, Topup, OrderReport, UploadWithFile, UploadWithUrl, Sandbox];
/// The calls of the wallet, which check a signature.
const SIGNED: [Endpoint; 6] = [Exchange, Present, Cancel, Balance, Query, Topup];

// Name, number, statuses of the transport that it comes with, what it means for the biz_no, the
// endpoints that answer it, and its meaning.
codes! {
    TokenParameter = 100_200_100, [], Unknown, [AccessToken, Login],
        "token request and login: a parameter is missing or wrong";
    TokenCredentials = 100_200_101, [], Unknown, [AccessToken, Login],
        "token request and login: app_id or app_secret is wrong";
    Unauthorised = 100_200_102, [], Unknown, WITH_TOKEN,
        "authorisation error: credentials absent, unknown or expired";
    Forbidden = 100_200_102, [], Unknown, CALLED,
        "authorisation error: the app is suspended, lacks a scope or is no sandbox app";
    LoginCode = 100_200_103, [], Unknown, [Login],
        "login: js_code is unknown, used or expired";
    BadSignature = 100_200_114, [], Unknown, SIGNED,
        "the signature does not match";
    CallbackNotSigned = 100_200_114, [401], Unknown, [Callback],
        "no secret of the payment provider has signed the callback";
    IllegalParameter = 10_000_200, [400, 404, 405, 408, 413], Unknown, Endpoint::ALL,
        "illegal parameter";
    CallbackUnfit = 10_000_200, [409, 422], Unknown, [Callback],
        "the callback cannot be read, or was told with other content";
    ImageBlocked = 10_000_303, [], Unknown, [OrderReport, UploadWithFile, UploadWithUrl],
        "image blocked by risk control";
    RateLimited = 10_000_305, [], Unknown, CALLED,
        "rate limited";
    CallbackRateLimited = 10_000_305, [429], Unknown, [Callback],
        "rate limited";
    ImageNotFound = 10_000_417, [404], Unknown, [OrderReport, Image],
        "uploaded image does not exist";
    IllegalUrl = 10_000_419, [], Unknown, [OrderReport, UploadWithUrl],
        "illegal url";
    IllegalOpenId = 10_000_423, [], Free,
        [Exchange, Present, Cancel, Balance, Query, Topup, OrderReport, Sandbox],
        "illegal open id";
    SystemError = 10_000_500, [500, 503], Unknown, Endpoint::ALL,
        "system error";
    InsufficientBalance = 10_000_601, [], Free, [Exchange],
        "insufficient balance";
    BizNoConflict = 10_000_602, [], PaidOther, [Exchange, Present, Cancel, Topup],
        "biz_no already used with other content";
    BizNoExpired = 10_000_603, [], Paid, [Exchange, Present, Cancel, Topup],
        "biz_no expired";
    TsOutsideWindow = 10_000_604, [], Free, SIGNED,
        "ts outside the accepted window";
    MoreThanLeft = 10_000_605, [], Unknown, [Cancel],
        "more than is left to give back; the text tells how much is left";
    UnknownNumber = 10_000_606, [], Unknown, [Cancel, Query],
        "no such number of this player";
    LimitReached = 10_000_607, [], Unknown, [Present, Cancel],
        "over a limit; the text names it";
    NumberClosed = 10_000_608, [], Closed, [Exchange, Present, Cancel, Topup],
        "the number was closed by a query";
    WalletFrozen = 10_000_609, [], Free, [Exchange, Present, Cancel],
        "an operator has frozen the wallet";
    ProductNotForSale = 10_000_610, [], Unknown, [Topup, Sandbox],
        "the product is not for sale";
    IllegalPath = 10_001_007, [], Unknown, [OrderReport],
        "illegal path";
    IllegalPoiId = 10_002_003, [], Unknown, [OrderReport],
        "illegal poi id";
    OrderNotFound = 10_002_018, [], Unknown, [OrderReport],
        "order not found";
}

impl Code {
    /// Its row of the table.
    #[must_use]
    pub const fn row(self) -> &'static CodeRow {
        &Self::ROWS[self as usize]
    }

    /// The meanings of a number that a signed call of the wallet was refused with. Two codes of such calls share one. What a
    /// callback or an upload means by the number is left out.
    pub fn meanings(number: i64) -> impl Iterator<Item = &'static str> {
        let is_of_wallet = |code: &Self| code.row().endpoints.iter().any(|of| SIGNED.contains(of));
        Self::ALL
            .into_iter()
            .filter(move |code| i64::from(code.number()) == number && is_of_wallet(code))
            .map(|code| code.row().meaning)
    }

    /// The number of a code in the table.
    ///
    /// # Errors
    /// Any other text.
    pub fn number_of(text: &str) -> Result<u32, Expected> {
        let number = text.parse().ok().filter(|_| is_canonical_integer(text));
        number
            .filter(|number| Self::ALL.into_iter().any(|code| code.number() == *number))
            .ok_or(Expected::new("a code of a refusal, such as 10000601"))
    }

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.row().number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 13.1: a list of refused wallet calls does not tell what a callback means by the number.
    #[test]
    fn a_number_means_what_calls_of_the_wallet_mean_by_it() {
        let meanings = |number: i64| Code::meanings(number).collect::<Vec<_>>();
        assert_eq!(meanings(10_000_200), ["illegal parameter"]);
        assert_eq!(meanings(10_000_305), ["rate limited"]);
        assert_eq!(meanings(100_200_114), ["the signature does not match"]);
        assert_eq!(meanings(100_200_102).len(), 2);
        assert_eq!(meanings(1), [""; 0]);
    }
}
