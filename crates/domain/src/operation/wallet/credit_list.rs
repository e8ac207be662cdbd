//! Lists of credits (contract 8.3.5), in every face: what holds for all of a list, what a line of it has, what became of it.

use super::{ChangedPurses, Credit, check_registered};
use crate::fields::{Expected, FieldError, FieldErrorKind, parse_integer};
use crate::ids::{CreditRef, OpenId};
use crate::operation::{OperationRefusal, RefusalKind};
use crate::text::Text;
use crate::wallet::check_credit;

/// Longest prefix of refs, in bytes. The `open_id` fits behind it.
pub const REF_PREFIX_BYTES_MAX: usize = 63;

/// The common values of all credits of a list.
#[derive(Debug, Clone, Default)]
pub struct CreditsForAll {
    /// Gifted currency for each player, in place of a column.
    pub free: Option<i64>,
    /// Charged currency for each player, in place of a column.
    pub charge: Option<i64>,
    /// In place of refs: each ref is this, a hyphen and the `open_id`.
    pub ref_prefix: Option<String>,
    /// Note for people.
    pub note: String,
    /// Whether players are registered.
    pub create: bool,
}

/// The values of a line of a list; `None` where it has no such column.
#[derive(Debug, Clone, Default)]
pub struct CreditCells {
    /// The player.
    pub open_id: Option<OpenId>,
    /// Gifted currency.
    pub free: Option<i64>,
    /// Charged currency.
    pub charge: Option<i64>,
    /// The ref.
    pub reference: Option<CreditRef>,
}

impl CreditsForAll {
    /// The credit of a line.
    ///
    /// # Errors
    /// The line has no player or no ref, or the credit adds nothing.
    pub fn credit(&self, cells: CreditCells) -> Result<Credit, FieldError> {
        let CreditCells { open_id, free, charge, reference } = cells;
        let absent = |name: &str| FieldError { field: name.to_owned(), problem: FieldErrorKind::Missing };
        let open_id = open_id.ok_or_else(|| absent("open_id"))?;
        check_registered(&open_id, self.create)?;
        let (free, charge) = (free.or(self.free), charge.or(self.charge));
        let (free, charge) = (free.unwrap_or_default(), charge.unwrap_or_default());
        check_credit(free, charge).map_err(|expected| {
            let got = Some(Text::new("0 and 0"));
            let problem = FieldErrorKind::Malformed { expected: expected.0, got };
            FieldError { field: "free and charge".to_owned(), problem }
        })?;
        let prefixed = || CreditRef::parse(&format!("{}-{open_id}", self.ref_prefix.as_ref()?)).ok();
        let reference = reference.or_else(prefixed).ok_or_else(|| absent("ref"))?;
        Ok(Credit { open_id, free, charge, reference, note: self.note.clone(), create: self.create })
    }
}

/// Reads an amount of a list: no sign, no leading zero, no separators.
///
/// # Errors
/// It is none.
pub fn credit_amount(text: &str) -> Result<i64, Expected> {
    parse_integer(text, 0, i64::MAX, "an integer from 0 to 9223372036854775807")
}

/// Reads a prefix of refs.
///
/// # Errors
/// It is empty, too long, has control characters, or what makes it no ref.
pub fn ref_prefix(text: &str) -> Result<String, Expected> {
    if text.len() > REF_PREFIX_BYTES_MAX || CreditRef::stored(text).is_err() {
        return Err(Expected::new("1 to 63 bytes without control characters"));
    }
    CreditRef::parse(text).map(|_| text.to_owned())
}

crate::word_enum! {
    /// The outcome of one of many credits.
    pub enum CreditStatus {
        /// This request made the credit.
        Credited = "credited",
        /// An earlier request had made it.
        Replayed = "replayed",
        /// The ref was used for another player or with other amounts.
        RefUsed = "ref_used",
        /// The app does not know the player, and the request registers nobody.
        UnknownPlayer = "unknown_player",
        /// A balance would be more than 9223372036854775807.
        BalanceTooLarge = "balance_too_large",
    }
}

impl CreditStatus {
    /// What a result is.
    #[must_use]
    pub fn of(result: &Result<ChangedPurses, OperationRefusal>) -> Self {
        match result {
            Ok(ChangedPurses { replayed: false, .. }) => Self::Credited,
            Ok(ChangedPurses { replayed: true, .. }) => Self::Replayed,
            Err(refusal) => Self::of_refusal(refusal),
        }
    }

    /// What the refusal of a credit is.
    #[must_use]
    pub fn of_refusal(refusal: &OperationRefusal) -> Self {
        match refusal.kind {
            RefusalKind::Unknown(_) => Self::UnknownPlayer,
            RefusalKind::Limit => Self::BalanceTooLarge,
            RefusalKind::Conflict | RefusalKind::NotAllowed | RefusalKind::Invalid(_) => Self::RefUsed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_before_what_holds_for_all() {
        let all = CreditsForAll { free: Some(5), ref_prefix: Some("fair".to_owned()), ..Default::default() };
        let open_id = OpenId::parse("o1").ok();
        let credit = all.credit(CreditCells { open_id: open_id.clone(), ..Default::default() }).unwrap();
        assert_eq!((credit.free, credit.charge, credit.reference.as_str()), (5, 0, "fair-o1"));
        let reference = CreditRef::parse("r1").ok();
        let cells = CreditCells { open_id, free: Some(0), charge: Some(7), reference };
        let credit = all.credit(cells).unwrap();
        assert_eq!((credit.free, credit.charge, credit.reference.as_str()), (0, 7, "r1"));
        assert!(all.credit(CreditCells::default()).is_err(), "no player");
        // Rule 13.7.12: it registers no erased player.
        let erased = CreditCells { open_id: Some(OpenId::pseudonym([7; 10])), ..Default::default() };
        let creating = CreditsForAll { create: true, ..all.clone() };
        let refused = creating.credit(erased.clone()).unwrap_err().to_string();
        let expected =
            "open_id: expected another open_id: the form erased-... is kept for erased players, got";
        assert!(refused.starts_with(expected), "{refused}");
        assert!(all.credit(erased).is_ok());
        assert!(ref_prefix(&"p".repeat(63)).is_ok() && ref_prefix(&"p".repeat(64)).is_err());
        let expected = Expected::new("no blank or unseen character around it");
        assert_eq!(ref_prefix("fair "), Err(expected));
        assert_eq!(ref_prefix("a\n"), Err(Expected::new("1 to 63 bytes without control characters")));
        assert!(
            credit_amount("+5").is_err() && credit_amount("05").is_err() && credit_amount("1,000").is_err()
        );
    }
}
