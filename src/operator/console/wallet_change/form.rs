//! The change that a form requests: reads it, previews it, and makes it.

use domain::fields::{Expected, Fields, parse_integer};
use domain::ids::{BizNo, CreditRef, Reason};
use domain::ledger::ReferenceKind;
use domain::operator::Operator;
use domain::text;
use domain::text::Text;
use domain::wallet::{Amount, Balances, NotGivenBack, Paid, PayPriority, PurseChange, Refused, check_credit};
use store::{
    AskedAmounts, AskedChange, ChangeOutcome, ChangeRecord, ChangeRequest, Credit, CreditOutcome, Debit,
    ExchangeRecord, GiveBack, Store, StoreError,
};

use super::super::error::ConsoleError;
use super::super::exchange::no_exchange;
use super::super::i18n::word;
use super::super::page::Shown as _;
use super::subject::{Made, Target};

/// The change that the form requests.
pub(super) struct Wanted {
    amounts: Amounts,
    pub(super) reference: CreditRef,
    pub(super) reason: Reason,
}

enum Amounts {
    Credit {
        free: i64,
        charge: i64,
        /// Whether the credit makes the player known.
        create: bool,
    },
    Debit {
        free: i64,
        charge: i64,
    },
    GiveBack {
        of: BizNo,
        amount: Amount,
        paid: Paid,
        /// What can be given back of the exchange before it.
        remaining: i64,
    },
}

impl Wanted {
    pub(super) fn read(fields: &Fields, target: &Target) -> Result<Self, ConsoleError> {
        let amounts = match &target.made {
            Made::Credit { .. } => {
                let what = text!("Type the gifted coins or the charged coins to add. Both are empty or 0.");
                let (free, charge) = read_purses(fields, what)?;
                let create = fields.flag("create")?.unwrap_or_default();
                Amounts::Credit { free, charge, create }
            }
            Made::Debit => {
                let what = text!("Type the gifted coins or the charged coins to take. Both are empty or 0.");
                let (free, charge) = read_purses(fields, what)?;
                Amounts::Debit { free, charge }
            }
            Made::GiveBack(exchange) => read_give_back(fields, exchange)?,
        };
        let reference = fields.required("reference", CreditRef::parse)?;
        let reason = fields.required("reason", Reason::parse)?;
        Ok(Self { amounts, reference, reason })
    }

    /// The fields of the form, with their values.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = match &self.amounts {
            Amounts::Credit { free, charge, .. } | Amounts::Debit { free, charge } => {
                vec![("gifted", free.to_string()), ("charged", charge.to_string())]
            }
            Amounts::GiveBack { amount, .. } => vec![("amount", amount.get().to_string())],
        };
        if self.makes_known() {
            fields.push(("create", "yes".to_owned()));
        }
        fields.extend([("reference", self.reference.to_string()), ("reason", self.reason.to_string())]);
        fields
    }

    /// Whether it makes a player known.
    pub(super) fn makes_known(&self) -> bool {
        matches!(self.amounts, Amounts::Credit { create: true, .. })
    }

    /// What can be given back of the exchange now, and afterwards.
    pub(super) fn left(&self) -> Option<(i64, i64)> {
        match &self.amounts {
            Amounts::GiveBack { amount, remaining, .. } => Some((*remaining, remaining - amount.get())),
            Amounts::Credit { .. } | Amounts::Debit { .. } => None,
        }
    }

    /// The same change for a second person.
    pub(super) fn asked(&self, target: &Target) -> AskedChange {
        AskedChange {
            open_id: target.open_id.clone(),
            amounts: self.asked_amounts(),
            reference: self.reference.clone(),
            reason: self.reason.to_string(),
        }
    }

    fn asked_amounts(&self) -> AskedAmounts {
        match &self.amounts {
            Amounts::Credit { free, charge, create } => {
                AskedAmounts::Credit { free: *free, charge: *charge, create: *create }
            }
            Amounts::Debit { free, charge } => AskedAmounts::Debit { free: *free, charge: *charge },
            Amounts::GiveBack { of, amount, .. } => {
                AskedAmounts::GiveBack { biz_no: of.clone(), amount: *amount }
            }
        }
    }

    /// How many coins it moves.
    pub(super) fn coins(&self) -> i64 {
        self.asked_amounts().coins()
    }

    /// Whether a request is for this change.
    pub(super) fn is_asked(&self, request: &ChangeRequest, target: &Target) -> bool {
        request.change.open_id == target.open_id && request.change.amounts == self.asked_amounts()
    }

    /// Whether `earlier` is the same change of the same target.
    pub(super) fn is(&self, earlier: &ChangeRecord, target: &Target) -> bool {
        let line = &earlier.line;
        let is_like = |kind: ReferenceKind, free: i64, charge: i64| {
            earlier.open_id == target.open_id.as_str()
                && line.kind == kind.as_str()
                && (line.free_change, line.charge_change) == (free, charge)
        };
        match &self.amounts {
            Amounts::Credit { free, charge, .. } => is_like(ReferenceKind::Credit, *free, *charge),
            Amounts::Debit { free, charge } => is_like(ReferenceKind::Debit, -free, -charge),
            // Only a cancel has an exchange.
            Amounts::GiveBack { of, amount, .. } => {
                earlier.of_biz_no.as_deref() == Some(of.as_str())
                    && line.free_change + line.charge_change == amount.get()
            }
        }
    }

    /// Refuses what would give more of an exchange back than `max` coins, whoever gave them.
    pub(super) fn check_give_back(&self, target: &Target, max: Option<i64>) -> Result<(), ConsoleError> {
        let (Amounts::GiveBack { amount, paid, remaining, .. }, Some(max)) = (&self.amounts, max) else {
            return Ok(());
        };
        let given = paid.free + paid.charge - (remaining - amount.get());
        if given > max { Err(above_limit(max, target)) } else { Ok(()) }
    }

    /// What it would do now.
    ///
    /// # Errors
    /// The refusal that the change itself would get.
    pub(super) fn preview(&self, target: &Target) -> Result<PurseChange, ConsoleError> {
        if target.is_unknown() && !self.makes_known() {
            return Err(refusal(Refused::UnknownWallet, target));
        }
        let purses = Balances::new(target.wallet.free_balance, target.wallet.charge_balance)
            .map_err(|error| StoreError::Internal(error.to_string()))?;
        let change = match &self.amounts {
            Amounts::Credit { free, charge, .. } => {
                purses.credit(*free, *charge).map_err(|_| Refused::PurseFull)
            }
            Amounts::Debit { free, charge } => {
                purses.debit(*free, *charge).map_err(|_| Refused::InsufficientBalance(purses))
            }
            Amounts::GiveBack { amount, paid, remaining, .. } => {
                purses.give_back(*paid, *remaining, *amount).map_err(|error| match error {
                    NotGivenBack::MoreThanLeft => Refused::MoreThanLeft { remaining: *remaining },
                    NotGivenBack::PurseFull => Refused::PurseFull,
                })
            }
        };
        change.map_err(|why| refusal(why, target))
    }

    /// Makes the change. True when an earlier form has made it.
    pub(super) async fn make(
        self,
        store: &Store,
        operator: &Operator,
        target: &Target,
    ) -> Result<bool, ConsoleError> {
        let Self { amounts, reference, reason } = self;
        let (app_id, open_id, note) = (&target.app_id, target.open_id.clone(), reason.to_string());
        let given = reference.clone();
        let outcome = match amounts {
            Amounts::Credit { free, charge, create } => {
                let credit = Credit { open_id, free, charge, reference, note, create };
                match store.credit(operator, app_id, credit).await? {
                    CreditOutcome::Done { replayed, .. } => return Ok(replayed),
                    CreditOutcome::RefConflict => ChangeOutcome::Refused(Refused::Conflict),
                    CreditOutcome::OutOfRange => ChangeOutcome::Refused(Refused::PurseFull),
                    CreditOutcome::UnknownPlayer => ChangeOutcome::Refused(Refused::UnknownWallet),
                    CreditOutcome::UnknownApp => ChangeOutcome::UnknownApp,
                }
            }
            Amounts::Debit { free, charge } => {
                let debit = Debit { open_id, free, charge, reference, note };
                store.debit(operator, app_id, debit).await?
            }
            Amounts::GiveBack { of, amount, .. } => {
                let give_back = GiveBack { biz_no: of, amount, reference, note };
                let outcome = store.give_back(operator, app_id, give_back).await?;
                outcome.ok_or_else(|| no_exchange(app_id.as_str(), target.name()))?
            }
        };
        match outcome {
            ChangeOutcome::Done { replayed, .. } => Ok(replayed),
            ChangeOutcome::UnknownApp => Err(ConsoleError::no_such_app(app_id.as_str())),
            ChangeOutcome::AboveLimit { max } => Err(above_limit(max, target)),
            ChangeOutcome::Refused(Refused::Conflict) => Err(reference_taken(&given)),
            ChangeOutcome::Refused(why) => Err(refusal(why, target)),
        }
    }
}

/// Gifted and charged coins of a credit or a debit. `none` is told where there are none.
fn read_purses(fields: &Fields, none: Text) -> Result<(i64, i64), ConsoleError> {
    let parse = |text: &str| parse_integer(text, 0, i64::MAX, "a whole number of coins");
    let free = fields.optional("gifted", parse)?.unwrap_or_default();
    let charge = fields.optional("charged", parse)?.unwrap_or_default();
    check_credit(free, charge).map_err(|_| ConsoleError::bad_request(none))?;
    Ok((free, charge))
}

fn read_give_back(fields: &Fields, exchange: &ExchangeRecord) -> Result<Amounts, ConsoleError> {
    let damaged = || StoreError::Internal(format!("the exchange {} is damaged", exchange.biz_no));
    let parse = |text: &str| Amount::parse(text).map_err(|_| Expected::new("a whole number of coins from 1"));
    let amount = fields.required("amount", parse)?;
    let of = BizNo::parse(&exchange.biz_no).map_err(|_| damaged())?;
    let pay_priority = PayPriority::from_code(exchange.pay_priority).ok_or_else(damaged)?;
    let paid = Paid { free: -exchange.free_change, charge: -exchange.charge_change, pay_priority };
    Ok(Amounts::GiveBack { of, amount, paid, remaining: exchange.remaining })
}

/// The role gives back no more of an exchange.
fn above_limit(max: i64, target: &Target) -> ConsoleError {
    ConsoleError::bad_request(text!(
        "amount: the role support gives back at most {max} coins of an exchange. Ask an admin to give back more of the exchange {target}.",
        max = max.shown(),
        target = target.name()
    ))
}

/// A refusal of the till, in words.
pub(super) fn refusal(why: Refused, target: &Target) -> ConsoleError {
    let (app_id, open_id) = (&target.app_id, &target.open_id);
    ConsoleError::bad_request(match why {
        Refused::UnknownWallet => text!(
            "The app {app_id} has no player {open_id}. A login makes a player known, and so does the box of this form.",
            app_id,
            open_id
        ),
        Refused::InsufficientBalance(purses) => text!(
            "The player {open_id} has {purses_free} gifted and {purses_charge} charged coins. A debit takes no more than is there.",
            open_id,
            purses_free = purses.free().shown(),
            purses_charge = purses.charge().shown()
        ),
        Refused::MoreThanLeft { remaining: 0 } => {
            text!("Nothing is left to give back of the exchange {target}.", target = target.name())
        }
        Refused::MoreThanLeft { remaining } => {
            text!(
                "Only {remaining} coins are left to give back of the exchange {target}.",
                remaining = remaining.shown(),
                target = target.name()
            )
        }
        Refused::PurseFull => text!("A balance would be more than {max}.", max = i64::MAX),
        Refused::Conflict
        | Refused::Expired
        | Refused::Closed
        | Refused::TsOutsideWindow
        | Refused::UnknownNumber => text!("The change was refused: {why}.", why = word(&why.to_string())),
    })
}

/// The reference was used for something else.
pub(super) fn reference_taken(reference: &CreditRef) -> ConsoleError {
    ConsoleError::bad_request(text!(
        "reference: {reference} was used for another change or with other amounts. Type a new reference.",
        reference
    ))
}
