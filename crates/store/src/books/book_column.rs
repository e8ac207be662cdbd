//! Columns of the books of others that are compared, and the number that they are compared by (contract 13.5.2).

use std::borrow::Cow;
use std::fmt::{Debug, Display};

use domain::csv::csv_text;
use domain::fields::Expected;
use domain::ids::BizNo;
use domain::period::TimeZone;
use domain::strays::without_strays;

use super::bill::{BillColumn, SheetWords};
use super::reconcile::is_same_value;
use super::their_file::TheirLine;

/// A column of books that are compared with a file.
pub trait FileColumn: Copy + PartialEq + Debug + Display + Send + Sync + 'static {
    /// The column of this name.
    fn named(name: &str) -> Option<Self>;
    /// Its word.
    fn as_str(self) -> &'static str;
    /// Whether its value is what the books are compared by, or another number that is not compared.
    fn is_number(self) -> bool;
    /// The value in a row of the books.
    fn sql(self) -> &'static str;
    /// Whether a value there is the one here. A time without an offset is in this zone.
    fn is_same(self, here: &str, there: &str, zone: &TimeZone) -> bool;
    /// The time zone of a file whose headings are those of a workbook of ours, and their names then.
    fn zone_of_workbook(
        names: &mut Vec<String>,
        languages: &[SheetWords],
        is_mapped: bool,
    ) -> Option<TimeZone>;
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
    /// A number without what does not belong to it.
    fn bare<'a>(&self, number: &'a str) -> &'a str;
    /// What names a line of the file here.
    fn key<'a>(&self, line: &'a TheirLine<'_, Self::Column>) -> Cow<'a, str>;
    /// The relation, what names a row of it, the time of a row, and which rows are compared.
    fn rows(&self) -> [Cow<'static, str>; 4];
    /// What is shown of a number.
    fn shown(&self, number: &str) -> BookNumber;
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
        // What stands around a biz_no and keeps it from being a number does not belong to it.
        let bare = without_strays(number);
        if *self == Self::BizNo && BizNo::parse(bare).is_ok() { bare } else { number }
    }

    fn key<'a>(&self, line: &'a TheirLine<'_, BookColumn>) -> Cow<'a, str> {
        match self {
            Self::BizNo => line.number.into(),
            Self::Ref => without_apostrophe(line.number),
        }
    }

    fn rows(&self) -> [Cow<'static, str>; 4] {
        let ours = match self {
            Self::BizNo => "kind IN ('exchange', 'present', 'cancel') AND biz_no IS NOT NULL",
            Self::Ref => "kind IN ('credit', 'debit', 'cancel') AND ref IS NOT NULL",
        };
        ["bill_lines", self.as_str(), "at", ours].map(Cow::Borrowed)
    }

    fn shown(&self, number: &str) -> BookNumber {
        let number = Some(number.to_owned());
        match self {
            Self::BizNo => BookNumber { biz_no: number, reference: None },
            Self::Ref => BookNumber { biz_no: None, reference: number },
        }
    }
}

/// A ref without the apostrophe that keeps it from being a formula (contract 8.3.10).
fn without_apostrophe(there: &str) -> Cow<'_, str> {
    let bare = there.strip_prefix('\'').unwrap_or(there).replace(";'", ";");
    if bare != there && csv_text(&bare) == there { Cow::Owned(bare) } else { Cow::Borrowed(there) }
}

impl FileColumn for BookColumn {
    fn named(name: &str) -> Option<Self> {
        Self::parse(name).ok()
    }

    fn as_str(self) -> &'static str {
        Self::as_str(self)
    }

    // An entry has a biz_no or a ref, so there is nothing to compare in the other one.
    fn is_number(self) -> bool {
        matches!(self, Self::Bill(BillColumn::BizNo | BillColumn::Ref))
    }

    fn sql(self) -> &'static str {
        Self::sql(self)
    }

    fn is_same(self, here: &str, there: &str, zone: &TimeZone) -> bool {
        is_same_value(self, here, there, zone)
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

    /// The value in a row of `bill_lines`, as the bill writes it for programs before formulas are made texts.
    pub(super) const fn sql(self) -> &'static str {
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
}

domain::text_traits!(BookColumn, { "type": "string", "enum": &Self::WORDS[..] });
