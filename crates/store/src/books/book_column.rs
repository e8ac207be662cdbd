//! Columns of the books of others that are compared, and the number that they are compared by (contract 13.5.2).

use domain::fields::Expected;

use super::bill::BillColumn;

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

impl ComparedBy {
    /// The column of its numbers.
    #[must_use]
    pub const fn column(self) -> BookColumn {
        match self {
            Self::BizNo => BookColumn::Bill(BillColumn::BizNo),
            Self::Ref => BookColumn::Bill(BillColumn::Ref),
        }
    }

    /// Which rows of `bill_lines` are compared.
    pub(super) const fn sql(self) -> &'static str {
        match self {
            Self::BizNo => "kind IN ('exchange', 'present', 'cancel') AND biz_no IS NOT NULL",
            Self::Ref => "kind IN ('credit', 'debit', 'cancel') AND ref IS NOT NULL",
        }
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
