//! Columns of the books of others that are compared, and the number that they are compared by (contract 13.5.2).

use std::borrow::Cow;
use std::fmt::{Debug, Display};
use std::str::FromStr;

use domain::csv::{csv_text, plain_text};
use domain::fields::Expected;
use domain::ids::BizNo;
use domain::ledger::ReferenceKind;
use domain::moment;
use domain::moment::GivenMoment;
use domain::period::TimeZone;
use domain::text::Text;
use time::OffsetDateTime;

use super::bill::{BillColumn, SheetWords};
use super::their_file::TheirLine;
use crate::wallet::{bare_id, bare_value};

/// The kinds of entries whose refs are payments and refunds. A top-up and its settlement have the same one.
const KINDS_OF_PAYMENTS: [&str; 3] =
    [ReferenceKind::Topup.as_str(), ReferenceKind::Refund.as_str(), ReferenceKind::Settlement.as_str()];
/// Stands between a ref and its kind. No ref has a control character.
const BEFORE_KIND: char = '\u{1}';

/// A column of books that are compared with a file.
pub trait FileColumn:
    Copy + PartialEq + Debug + Display + FromStr<Err = Expected> + Send + Sync + 'static
{
    /// Its word.
    fn as_str(self) -> &'static str;
    /// Whether its value is what the books are compared by, or another number that is not compared.
    fn is_number(self) -> bool;
    /// The value in a row of the books.
    fn sql(self) -> &'static str;
    /// Whether a value there is the one here. A time without an offset is in this zone.
    fn is_same(self, here: &str, there: &str, zone: &TimeZone) -> bool;
    /// A value here as a difference shows it.
    #[must_use]
    fn shown(self, here: String) -> String {
        here
    }
    /// What keeps a value there from being one of this column, where that can be said.
    #[must_use]
    fn fault(self, _here: &str, _there: &str) -> Option<Text> {
        None
    }
    /// The time zone of a file whose headings are those of a workbook of ours, unless columns are mapped. Their names become
    /// those of the columns.
    #[must_use]
    fn zone_of_workbook(_: &mut Vec<String>, _: &[SheetWords], _: bool) -> Option<TimeZone> {
        None
    }
}

/// Books that are compared with a file.
pub trait ComparedBooks: Clone + Debug + Send + Sync + 'static {
    /// Their columns.
    type Column: FileColumn;
    /// The column of the file that names a line.
    fn column(&self) -> Self::Column;
    /// Another column that the file must have.
    fn second_column(&self) -> Option<Self::Column> {
        None
    }
    /// A column that the file does not have, with the value that each of its lines has there.
    fn constant(&self) -> Option<(Self::Column, &str)> {
        None
    }
    /// A number without what does not belong to it.
    fn bare<'a>(&self, number: &'a str) -> &'a str;
    /// What names a line of the file here.
    fn key<'a>(&self, line: &'a TheirLine<'_, Self::Column>) -> Cow<'a, str>;
    /// Whether a number in a form such as 1.8E+12 is refused, because a spreadsheet has lost its last digits.
    fn refuses_shortened(&self) -> bool {
        false
    }
    /// Their place, for a file with these columns.
    fn rows(&self, columns: &[Self::Column]) -> BookRows;
    /// What is shown of a number.
    fn shown(&self, number: &str) -> BookNumber;
}

/// The place of the books in the database, as parts of a statement.
#[derive(Debug)]
pub struct BookRows {
    /// The relation.
    pub relation: &'static str,
    /// What names a row.
    pub number: &'static str,
    /// The time of a row.
    pub at: &'static str,
    /// The rows that are compared.
    pub compared: Cow<'static, str>,
}

/// What names a line in both books.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct BookNumber {
    /// The order number, where the books are compared by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub biz_no: Option<String>,
    /// The ref, where the books are compared by it.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

impl BookNumber {
    /// The number or ref.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.biz_no.as_deref().or(self.reference.as_deref()).unwrap_or_default()
    }
}

domain::word_enum! {
    /// What the books are compared by.
    #[derive(Default)]
    pub enum ComparedBy {
        /// The numbers of games: exchanges, presents and the games' cancels.
        #[default]
        BizNo = "biz_no",
        /// The refs of operators: credits, debits and the operators' cancels.
        Ref = "ref",
    }
}

/// A column of books that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BookColumn {
    /// One of the bill.
    Bill(BillColumn),
    /// Coins of both purses, without a sign.
    Amount,
}

impl ComparedBooks for ComparedBy {
    type Column = BookColumn;

    fn column(&self) -> BookColumn {
        match self {
            Self::BizNo => BookColumn::Bill(BillColumn::BizNo),
            Self::Ref => BookColumn::Bill(BillColumn::Ref),
        }
    }

    fn bare<'a>(&self, number: &'a str) -> &'a str {
        match self {
            Self::BizNo => bare_id(number, BizNo::parse),
            Self::Ref => number,
        }
    }

    // A ref may look like that. A number of a game has neither a point nor a plus sign.
    fn refuses_shortened(&self) -> bool {
        matches!(self, Self::BizNo)
    }

    fn key<'a>(&self, line: &'a TheirLine<'_, BookColumn>) -> Cow<'a, str> {
        match self {
            Self::BizNo => line.number.into(),
            Self::Ref => {
                let reference = plain_text(line.number);
                let kind = line.value(BookColumn::Bill(BillColumn::Kind)).map(bare_value);
                match kind.filter(|kind| KINDS_OF_PAYMENTS.contains(kind)) {
                    Some(kind) => format!("{reference}{BEFORE_KIND}{kind}").into(),
                    None => reference,
                }
            }
        }
    }

    fn rows(&self, columns: &[BookColumn]) -> BookRows {
        let has_kind = columns.contains(&BookColumn::Bill(BillColumn::Kind));
        let (number, compared) = match self {
            Self::BizNo => ("biz_no", "kind IN ('exchange', 'present', 'cancel') AND biz_no IS NOT NULL"),
            Self::Ref if has_kind => (
                "CASE WHEN kind IN ('topup', 'refund', 'settlement') THEN ref || chr(1) || kind ELSE ref END",
                "ref IS NOT NULL",
            ),
            Self::Ref => ("ref", "kind IN ('credit', 'debit', 'cancel') AND ref IS NOT NULL"),
        };
        BookRows { relation: "bill_lines", number, at: "at", compared: compared.into() }
    }

    fn shown(&self, number: &str) -> BookNumber {
        match self {
            Self::BizNo => BookNumber { biz_no: Some(number.to_owned()), reference: None },
            Self::Ref => BookNumber { biz_no: None, reference: Some(without_kind(number).to_owned()) },
        }
    }
}

/// A ref without the kind behind it.
fn without_kind(number: &str) -> &str {
    match number.rsplit_once(BEFORE_KIND) {
        Some((reference, kind)) if KINDS_OF_PAYMENTS.contains(&kind) => reference,
        Some(_) | None => number,
    }
}

impl FileColumn for BookColumn {
    fn as_str(self) -> &'static str {
        Self::as_str(self)
    }

    // An entry has a biz_no or a ref, so there is nothing to compare in the other one.
    fn is_number(self) -> bool {
        matches!(self, Self::Bill(BillColumn::BizNo | BillColumn::Ref))
    }

    // As the bill writes it for programs before formulas are made texts.
    fn sql(self) -> &'static str {
        match self {
            Self::Bill(BillColumn::At) => {
                "rtrim(rtrim(to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US'), '0'), '.') || 'Z'"
            }
            Self::Bill(BillColumn::OpenId) => "open_id",
            Self::Bill(BillColumn::Seq) => "seq::text",
            Self::Bill(BillColumn::Kind) => "kind",
            Self::Bill(BillColumn::BizNo) => "biz_no",
            Self::Bill(BillColumn::Ref) => "ref",
            Self::Bill(BillColumn::FreeChange) => "free_change::text",
            Self::Bill(BillColumn::ChargeChange) => "charge_change::text",
            Self::Bill(BillColumn::FreeBalance) => "free_balance::text",
            Self::Bill(BillColumn::ChargeBalance) => "charge_balance::text",
            Self::Bill(BillColumn::ZoneId) => "coalesce(zone_id, '')",
            Self::Bill(BillColumn::ProductName) => "coalesce(product_name, '')",
            Self::Amount => "abs(free_change::numeric + charge_change)::text",
        }
    }

    // An integer is compared as a number, a time to the precision that it has there, and an id without what stands around
    // it. A text is compared with or without the apostrophe that keeps it from being a formula.
    fn is_same(self, here: &str, there: &str, zone: &TimeZone) -> bool {
        if here == there {
            return true;
        }
        match self {
            _ if self.is_integer() => {
                whole(bare_value(there)).parse::<i128>().is_ok_and(|there| here.parse() == Ok(there))
            }
            Self::Bill(BillColumn::At) => {
                let there = bare_value(there);
                let given = moment::parse_given(there);
                let (Ok(here), Ok(given)) = (moment::parse(here), given) else { return false };
                // The clock shows some times twice, so it is the clock that is compared.
                let (here, at) = match given {
                    GivenMoment::Fixed(at) => (here, at),
                    GivenMoment::Local(at) => (zone.clock(here).assume_utc(), at.assume_utc()),
                };
                to_precision(here, there) == to_precision(at, there)
            }
            Self::Bill(BillColumn::OpenId | BillColumn::Kind | BillColumn::ZoneId)
                if bare_value(there) == here =>
            {
                true
            }
            _ => *there == *csv_text(here),
        }
    }

    fn zone_of_workbook(
        names: &mut Vec<String>,
        languages: &[SheetWords],
        is_mapped: bool,
    ) -> Option<TimeZone> {
        let zone = BillColumn::zone_of_workbook(names, languages).filter(|_| !is_mapped)?;
        *names = BillColumn::WORDS.map(str::to_owned).into();
        Some(zone)
    }
}

impl BookColumn {
    /// The words of all columns: those of the bill in their order, and the amount.
    const WORDS: [&'static str; BillColumn::WORDS.len() + 1] = {
        let mut words = ["amount"; BillColumn::WORDS.len() + 1];
        let (of_bill, _) = words.split_at_mut(BillColumn::WORDS.len());
        of_bill.copy_from_slice(&BillColumn::WORDS);
        words
    };

    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bill(column) => column.as_str(),
            Self::Amount => "amount",
        }
    }

    /// Reads a word.
    ///
    /// # Errors
    /// Text that is none of the words.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let of_bill = BillColumn::parse(text).ok().map(Self::Bill);
        let amount = (text == Self::Amount.as_str()).then_some(Self::Amount);
        of_bill.or(amount).ok_or_else(|| Expected::one_of(&Self::WORDS))
    }

    /// Whether it has an integer.
    pub(super) const fn is_integer(self) -> bool {
        match self {
            Self::Bill(column) => column.is_integer(),
            Self::Amount => true,
        }
    }
}

domain::text_traits!(BookColumn, { "type": "string", "enum": &Self::WORDS[..] });

/// A number without a point and zeros behind it, which some programs write of integers.
fn whole(number: &str) -> &str {
    let is_zero = |behind: &str| !behind.is_empty() && behind.bytes().all(|digit| digit == b'0');
    number.split_once('.').filter(|(_, behind)| is_zero(behind)).map_or(number, |(whole, _)| whole)
}

/// The moment in units of the last digit that the text has behind its seconds.
fn to_precision(at: OffsetDateTime, text: &str) -> i128 {
    let behind = text.split_once('.').map_or("", |(_, behind)| behind);
    let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
    let lost = u32::try_from(9_usize.saturating_sub(digits)).unwrap_or_default();
    at.unix_timestamp_nanos().div_euclid(10_i128.pow(lost))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_compared_by_the_meaning_of_its_column() {
        let at = "2026-10-31T08:00:05.123456Z";
        for (column, here, there) in [
            (BookColumn::Bill(BillColumn::FreeChange), "-60", " -060 "),
            (BookColumn::Bill(BillColumn::FreeChange), "60", "+60"),
            (BookColumn::Bill(BillColumn::FreeChange), "-60", "-60.00"),
            (BookColumn::Amount, "12", "=\"12\""),
            (BookColumn::Amount, "12", "`12.0"),
            (BookColumn::Bill(BillColumn::OpenId), "000123", "`000123"),
            (BookColumn::Bill(BillColumn::OpenId), "000123", "'000123"),
            (BookColumn::Bill(BillColumn::OpenId), "000123", "=\"000123\""),
            (BookColumn::Bill(BillColumn::OpenId), "000123", " 000123\t"),
            (BookColumn::Bill(BillColumn::ZoneId), "=1_2", "'=1_2"),
            (BookColumn::Bill(BillColumn::At), at, "`2026-10-31 08:00:05.123"),
            (BookColumn::Bill(BillColumn::At), at, "2026-10-31 08:00:05"),
            (BookColumn::Bill(BillColumn::At), at, "2026-10-31T16:00:05.123+08:00"),
            (BookColumn::Bill(BillColumn::At), at, "2026-10-31 08:00:05.123456+00"),
            (BookColumn::Bill(BillColumn::At), at, "2026-10-31T16:00:05.12 +08:00"),
            (BookColumn::Bill(BillColumn::ProductName), "=1+1", "'=1+1"),
            (BookColumn::Bill(BillColumn::ProductName), "'=1+1", "'=1+1"),
            (BookColumn::Bill(BillColumn::ProductName), "a;=b", "a;'=b"),
        ] {
            assert!(column.is_same(here, there, &TimeZone::UTC), "{column}: {here}, {there}");
        }
        for (column, here, there) in [
            (BookColumn::Bill(BillColumn::FreeChange), "-60", "60"),
            (BookColumn::Bill(BillColumn::FreeChange), "-60", ""),
            (BookColumn::Bill(BillColumn::FreeChange), "-60", "-60.5"),
            (BookColumn::Bill(BillColumn::FreeChange), "60", "60.0.0"),
            (BookColumn::Bill(BillColumn::FreeChange), "60", "60."),
            (BookColumn::Bill(BillColumn::OpenId), "000123", "123"),
            (BookColumn::Bill(BillColumn::OpenId), "o1", "\"o1\""),
            (BookColumn::Bill(BillColumn::At), at, "2026-10-31 08:00:06"),
            (BookColumn::Bill(BillColumn::At), at, "2026-10-31T08:00:05.123457Z"),
            (BookColumn::Bill(BillColumn::At), at, "2026-10-31 08:00:05.123456+08"),
            (BookColumn::Bill(BillColumn::At), at, "soon"),
            (BookColumn::Bill(BillColumn::ProductName), "=1+1", "=1+2"),
            (BookColumn::Bill(BillColumn::ProductName), "Sword", "'Sword"),
            (BookColumn::Bill(BillColumn::ProductName), "Sword", "sword"),
        ] {
            assert!(!column.is_same(here, there, &TimeZone::UTC), "{column}: {here}, {there}");
        }
    }
}
