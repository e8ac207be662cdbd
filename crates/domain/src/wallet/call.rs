//! The calls that a game server signs (contract 3 and 10), and the fields of each.

use std::sync::LazyLock;

use super::purses::PayPriority;
use super::request::{Reading, WalletRequest};
use crate::app_settings::Scope;
use crate::endpoint::Endpoint;
use crate::examples::NOW_MILLIS;
use crate::fields::Fields;
use crate::input::Input;
use crate::ledger::ReferenceKind;

/// A call of the wallet. It signs its fields with the pay key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WalletCall {
    /// Deducts currency in exchange for items (contract 3).
    Exchange,
    /// Adds gifted currency (contract 10).
    Present,
    /// Gives back an exchange, or a part of it (contract 10).
    Cancel,
    /// Shows both purses (contract 10).
    Balance,
    /// Shows what became of a `biz_no`, and can close an unknown one (contract 10).
    Query,
    /// Orders a top-up, which moves no coins (contract 19.2).
    Topup,
}

/// The fields of a call that are signed when they are not empty: those that it reads, and `app_id`.
#[derive(Debug)]
pub struct SignedFields {
    /// In the order of the contract's table.
    pub names: Vec<&'static str>,
    /// In ASCII order, as they are joined.
    pub sorted: Vec<&'static str>,
    /// Those that may be empty or absent.
    optional: Vec<&'static str>,
}

impl SignedFields {
    fn of(call: WalletCall) -> Self {
        let reading = Reading::new(PayPriority::ChargedFirst, NOW_MILLIS);
        let fields = Input::describe(|input| WalletRequest::read(call, input, &reading));
        let mut names: Vec<_> = fields.iter().map(|field| field.name).collect();
        // The table of the exchange names the player before the app.
        names.insert(usize::from(call == WalletCall::Exchange), "app_id");
        let mut sorted = names.clone();
        sorted.sort_unstable();
        let optional = fields.iter().filter(|field| !field.required).map(|field| field.name).collect();
        Self { names, sorted, optional }
    }
}

static SIGNED_FIELDS: LazyLock<[SignedFields; 6]> = LazyLock::new(|| WalletCall::ALL.map(SignedFields::of));

impl WalletCall {
    /// Every call.
    pub const ALL: [Self; 6] =
        [Self::Exchange, Self::Present, Self::Cancel, Self::Balance, Self::Query, Self::Topup];

    /// The call that has these fields. An exchange, where they fit none.
    #[must_use]
    pub fn of(fields: &Fields) -> Self {
        let has = |name| fields.text(name).is_some();
        let buys = has("product_info") || has("product_name");
        if has("product_id") && !buys {
            return Self::Topup;
        }
        match (has("pay_biz_no"), buys, has("amount"), has("biz_no")) {
            (true, ..) => Self::Cancel,
            (false, false, true, _) => Self::Present,
            (false, false, false, true) => Self::Query,
            (false, false, false, false) if has("open_id") => Self::Balance,
            (false, true, ..) | (false, false, false, false) => Self::Exchange,
        }
    }

    /// Its endpoint.
    #[must_use]
    pub const fn endpoint(self) -> Endpoint {
        match self {
            Self::Exchange => Endpoint::Exchange,
            Self::Present => Endpoint::Present,
            Self::Cancel => Endpoint::Cancel,
            Self::Balance => Endpoint::Balance,
            Self::Query => Endpoint::Query,
            Self::Topup => Endpoint::Topup,
        }
    }

    /// The scope that the app needs for it.
    #[must_use]
    pub const fn scope(self) -> Option<Scope> {
        match self {
            Self::Present => Some(Scope::Present),
            Self::Cancel => Some(Scope::Cancel),
            Self::Topup => Some(Scope::Topup),
            Self::Exchange | Self::Balance | Self::Query => None,
        }
    }

    /// What it changes a wallet by. `None` for a call that moves no coins.
    #[must_use]
    pub const fn change(self) -> Option<ReferenceKind> {
        match self {
            Self::Exchange => Some(ReferenceKind::Exchange),
            Self::Present => Some(ReferenceKind::Present),
            Self::Cancel => Some(ReferenceKind::Cancel),
            Self::Balance | Self::Query | Self::Topup => None,
        }
    }

    /// The last segment of its path.
    #[must_use]
    pub const fn segment(self) -> &'static str {
        match self {
            Self::Exchange => "pay",
            Self::Present => "present",
            Self::Cancel => "cancel",
            Self::Balance => "balance",
            Self::Query => "query",
            Self::Topup => "topup",
        }
    }

    /// The fields that it signs.
    #[must_use]
    pub fn signed_fields(self) -> &'static SignedFields {
        // The calls stand in `ALL` as they are declared.
        &SIGNED_FIELDS[self as usize]
    }

    /// True for a field that it signs.
    #[must_use]
    pub fn signs(self, name: &str) -> bool {
        self.signed_fields().names.contains(&name)
    }

    /// The fields that it must have beside its credentials, in the order of the table.
    pub fn required_fields(self) -> impl Iterator<Item = &'static str> {
        let SignedFields { names, optional, .. } = self.signed_fields();
        names.iter().copied().filter(|name| !optional.contains(name)).chain(["sign"])
    }
}

/// The form of a call.
#[derive(Debug, Clone)]
pub struct WalletForm {
    /// The call.
    pub call: WalletCall,
    /// Its fields as they came.
    pub fields: Fields,
}

impl WalletForm {
    /// The fields that the call signs, as they came.
    pub(crate) fn signed(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.texts().filter(|(name, _)| self.call.signs(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_tell_the_call() {
        for (fields, call) in [
            ("open_id=o&amount=1&biz_no=b&product_info=[]", WalletCall::Exchange),
            ("open_id=o&amount=1&biz_no=b", WalletCall::Present),
            ("open_id=o&amount=1&biz_no=b&pay_biz_no=p", WalletCall::Cancel),
            ("open_id=o&biz_no=b", WalletCall::Query),
            ("open_id=o&biz_no=b&product_id=gems60", WalletCall::Topup),
            ("open_id=o&zone_id=z_r", WalletCall::Balance),
            ("", WalletCall::Exchange),
        ] {
            assert_eq!(
                WalletCall::of(&Fields::from_urlencoded(fields.as_bytes()).unwrap()),
                call,
                "{fields}"
            );
        }
    }

    /// Contract 3.2 and 10.2. The names are an oracle of their own: those of the code come from the readers of the fields.
    #[test]
    fn the_signed_fields_are_those_of_the_contract() {
        for (call, names, optional) in [
            (
                WalletCall::Exchange,
                "open_id app_id zone_id os ts user_ip amount pay_priority biz_no product_name product_info product_desc \
                 extension",
                "pay_priority extension",
            ),
            (
                WalletCall::Present,
                "app_id open_id zone_id os ts user_ip amount biz_no product_desc extension",
                "product_desc extension",
            ),
            (
                WalletCall::Cancel,
                "app_id open_id zone_id os ts user_ip biz_no pay_biz_no amount product_desc extension",
                "product_desc extension",
            ),
            (WalletCall::Balance, "app_id open_id zone_id os ts user_ip extension", "extension"),
            (WalletCall::Query, "app_id open_id biz_no ts close", "close"),
            (
                WalletCall::Topup,
                "app_id open_id zone_id os ts user_ip biz_no product_id product_desc extension",
                "product_desc extension",
            ),
        ] {
            let known = call.signed_fields();
            let words = |text: &'static str| text.split_ascii_whitespace().collect::<Vec<_>>();
            assert_eq!((&known.names, &known.optional), (&words(names), &words(optional)), "{call:?}");
        }
    }
}
