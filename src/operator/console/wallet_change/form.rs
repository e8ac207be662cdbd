//! The change that a form requests: reads it, and previews it.

use domain::fields::{Expected, FieldError, Fields, parse_integer};
use domain::ids::{BizNo, CreditRef, Reason};
use domain::operation::wallet::{Credit, Debit, GiveBack, WalletCommand, above_limit, refused};
use domain::text;
use domain::text::Text;
use domain::wallet::{Amount, Balances, NotGivenBack, Paid, PayPriority, PurseChange, Refused, check_credit};
use store::{ChangeRecord, ChangeRequest, ExchangeRecord, StoreError};

use super::super::error::ConsoleError;
use super::subject::{COINS_TO_ADD, COINS_TO_GIVE_BACK, COINS_TO_TAKE, ChangeSubject, Made};

/// The change that the form requests.
pub(super) struct Wanted {
    pub(super) command: WalletCommand,
    /// What the exchange that is given back has paid, and what can be given back of it before.
    given_from: Option<(Paid, i64)>,
}

impl Wanted {
    pub(super) fn read(fields: &Fields, target: &ChangeSubject) -> Result<Self, ConsoleError> {
        let (open_id, mut given_from) = (target.open_id.clone(), None);
        let command = match &target.made {
            Made::Credit { .. } => {
                let missing =
                    text!("Type the gifted coins or the charged coins to add. Both are empty or 0.");
                let (free, charge) = read_purses(fields, COINS_TO_ADD, missing)?;
                let create = fields.flag("create")?.unwrap_or_default();
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
                let (biz_no, amount, paid) = read_give_back(fields, exchange)?;
                let (reference, note) = read_reference(fields)?;
                given_from = Some((paid, exchange.remaining));
                GiveBack { biz_no, amount, reference, note }.into()
            }
        };
        Ok(Self { command, given_from })
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

    /// What can be given back of the exchange now, and afterwards.
    pub(super) fn left(&self) -> Option<(i64, i64)> {
        self.given_from.map(|(_, remaining)| (remaining, remaining - self.command.coins()))
    }

    /// Whether a request is for this change.
    pub(super) fn is_asked(&self, request: &ChangeRequest, target: &ChangeSubject) -> bool {
        request.change.is_of(&target.open_id, &self.command)
    }

    /// Whether `earlier` is the same change of the same target.
    pub(super) fn is(&self, earlier: &ChangeRecord, target: &ChangeSubject) -> bool {
        let (line, kind) = (&earlier.line, self.command.kind());
        let coins = (line.free_change.abs(), line.charge_change.abs());
        let is_like = |purses| line.kind == kind.as_str() && coins == purses;
        // Only a cancel has an exchange.
        let gives_back = |(biz_no, amount): (&BizNo, Amount)| {
            earlier.of_biz_no.as_deref() == Some(biz_no.as_str()) && coins.0 + coins.1 == amount.get()
        };
        let is_same =
            self.command.purses().map_or_else(|| self.command.given_back().is_some_and(gives_back), is_like);
        earlier.open_id == target.open_id.as_str() && is_same
    }

    /// Refuses what would give more of an exchange back than `max` coins, whoever gave them.
    pub(super) fn check_give_back(&self, max: Option<i64>) -> Result<(), ConsoleError> {
        let (Some((paid, _)), Some((_, left)), Some(max)) = (self.given_from, self.left(), max) else {
            return Ok(());
        };
        if paid.free + paid.charge - left > max { Err(above_limit(max).into()) } else { Ok(()) }
    }

    /// What it would do now.
    ///
    /// # Errors
    /// The refusal that the change itself would get.
    pub(super) fn preview(&self, target: &ChangeSubject) -> Result<PurseChange, ConsoleError> {
        let change = if target.is_unknown() && !self.command.makes_known() {
            Err(Refused::UnknownWallet)
        } else {
            self.change_of(target)?
        };
        let reference = self.command.reference();
        change.map_err(|why| refused(why, &target.app_id, &target.open_id, reference).into())
    }

    fn change_of(&self, target: &ChangeSubject) -> Result<Result<PurseChange, Refused>, StoreError> {
        let purses = Balances::new(target.wallet.free_balance, target.wallet.charge_balance)
            .map_err(|error| StoreError::Internal(error.to_string()))?;
        Ok(match (&self.command, self.given_from) {
            (WalletCommand::Credit(Credit { free, charge, .. }), _) => {
                purses.credit(*free, *charge).map_err(|_| Refused::PurseFull)
            }
            (WalletCommand::Debit(Debit { free, charge, .. }), _) => {
                purses.debit(*free, *charge).map_err(|_| Refused::InsufficientBalance(purses))
            }
            (WalletCommand::GiveBack(GiveBack { amount, .. }), Some((paid, remaining))) => {
                purses.give_back(paid, remaining, *amount).map_err(|error| match error {
                    NotGivenBack::MoreThanLeft => Refused::MoreThanLeft { remaining },
                    NotGivenBack::PurseFull => Refused::PurseFull,
                })
            }
            (WalletCommand::GiveBack(_), None) => Err(Refused::UnknownNumber),
        })
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

fn read_give_back(fields: &Fields, exchange: &ExchangeRecord) -> Result<(BizNo, Amount, Paid), ConsoleError> {
    const EXPECTED: &str = "a whole number of coins from 1 to 1000000000000";
    let damaged = || StoreError::Internal(format!("the exchange {} is damaged", exchange.biz_no));
    let amount = fields
        .required("amount", |text| Amount::parse(text).map_err(|_| Expected::new(EXPECTED)))
        .map_err(|error| ConsoleError::labelled(COINS_TO_GIVE_BACK, error))?;
    let of = BizNo::parse(&exchange.biz_no).map_err(|_| damaged())?;
    let pay_priority = PayPriority::from_code(exchange.pay_priority).ok_or_else(damaged)?;
    let paid = Paid { free: -exchange.free_change, charge: -exchange.charge_change, pay_priority };
    Ok((of, amount, paid))
}
