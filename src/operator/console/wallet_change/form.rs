//! The change that a form requests.

use domain::fields::{Expected, FieldError, Fields, parse_integer};
use domain::ids::{BizNo, CreditRef, Reason};
use domain::operation::wallet::{Credit, Debit, GiveBack, WalletCommand, check_registered};
use domain::text;
use domain::text::Text;
use domain::wallet::{Amount, check_credit};
use store::{ChangeRequest, ExchangeRecord, StoreError};

use super::super::error::ConsoleError;
use super::super::page::Shown as _;
use super::super::request::ConsoleRequest;
use super::subject::{
    COINS_TO_ADD, COINS_TO_GIVE_BACK, COINS_TO_TAKE, ChangeSubject, Made, give_back_allowed,
};

/// The change that the form requests.
pub(super) struct Wanted {
    pub(super) command: WalletCommand,
}

impl Wanted {
    pub(super) fn read(request: &ConsoleRequest, target: &ChangeSubject) -> Result<Self, ConsoleError> {
        let fields = &request.fields;
        let open_id = target.open_id.clone();
        let command = match &target.made {
            Made::Credit { .. } => {
                let missing =
                    text!("Type the gifted coins or the charged coins to add. Both are empty or 0.");
                let (free, charge) = read_purses(fields, COINS_TO_ADD, missing)?;
                let create = fields.flag("create")?.unwrap_or_default();
                check_registered(&open_id, create)?;
                let (reference, note) = read_reference(fields)?;
                Credit { open_id, free, charge, reference, note, create }.into()
            }
            Made::Debit => {
                let missing =
                    text!("Type the gifted coins or the charged coins to take. Both are empty or 0.");
                let (free, charge) = read_purses(fields, COINS_TO_TAKE, missing)?;
                let (reference, note) = read_reference(fields)?;
                Debit { open_id, free, charge, reference, note }.into()
            }
            Made::GiveBack(exchange) => {
                let (biz_no, amount) = read_give_back(request, exchange)?;
                let (reference, note) = read_reference(fields)?;
                GiveBack { biz_no, amount, reference, note }.into()
            }
        };
        Ok(Self { command })
    }

    /// The fields of the form, with their values.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let command = &self.command;
        let mut fields = Vec::new();
        if let Some((free, charge)) = command.purses() {
            fields.extend([("gifted", free.to_string()), ("charged", charge.to_string())]);
        }
        fields.extend(command.given_back().map(|(_, amount)| ("amount", amount.get().to_string())));
        fields.extend(command.makes_known().then(|| ("create", "yes".to_owned())));
        fields
            .extend([("reference", command.reference().to_string()), ("reason", command.note().to_owned())]);
        fields
    }

    /// What can be given back of the exchange afterwards.
    pub(super) fn left(&self, exchange: &ExchangeRecord) -> i64 {
        exchange.remaining - self.command.coins()
    }

    /// Whether a request is for this change.
    pub(super) fn is_asked(&self, request: &ChangeRequest, target: &ChangeSubject) -> bool {
        request.change.is_of(&target.open_id, &self.command)
    }
}

/// The reference, and the reason as the note.
fn read_reference(fields: &Fields) -> Result<(CreditRef, String), FieldError> {
    let reference = fields.required("reference", CreditRef::parse)?;
    Ok((reference, fields.required("reason", Reason::parse)?.to_string()))
}

/// Gifted and charged coins of a credit or a debit, from the fields with these labels. `none` is told where there are none.
fn read_purses(fields: &Fields, labels: [&'static str; 2], none: Text) -> Result<(i64, i64), ConsoleError> {
    const EXPECTED: &str = "a whole number of coins from 0 to 9223372036854775807";
    let read = |name: &str, label| {
        let coins = fields.optional(name, |text| parse_integer(text, 0, i64::MAX, EXPECTED));
        coins.map(Option::unwrap_or_default).map_err(|error| ConsoleError::labelled(label, error))
    };
    let (free, charge) = (read("gifted", labels[0])?, read("charged", labels[1])?);
    check_credit(free, charge).map_err(|_| ConsoleError::bad_request(none))?;
    Ok((free, charge))
}

/// The exchange, and the coins to give back. More than is left is refused by the store, which knows a change that was made.
fn read_give_back(
    request: &ConsoleRequest,
    exchange: &ExchangeRecord,
) -> Result<(BizNo, Amount), ConsoleError> {
    const EXPECTED: &str = "a whole number of coins from 1 to 1000000000000";
    let expected = || match give_back_allowed(exchange, request.give_back_max()) {
        ..1 => Expected::new(EXPECTED),
        allowed => Expected(text!(
            "a whole number of coins from 1 to 1000000000000, and at most {allowed} of this exchange",
            allowed = allowed.shown()
        )),
    };
    let amount = request
        .fields
        .required("amount", |text| Amount::parse(text).map_err(|_| expected()))
        .map_err(|error| ConsoleError::labelled(COINS_TO_GIVE_BACK, error))?;
    let damaged = |_| StoreError::Internal(format!("the exchange {} is damaged", exchange.biz_no));
    Ok((BizNo::parse(&exchange.biz_no).map_err(damaged)?, amount))
}
