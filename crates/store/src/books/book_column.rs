//! Columns of the books of others that are compared, and the number that they are compared by (contract 13.5.2).

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

domain::word_enum! {
    /// The columns of books that are compared: those of the bill, and the amount.
    pub enum BookColumn {
        /// Database time.
        At = "at",
        /// The player.
        OpenId = "open_id",
        /// Sequence number in the wallet.
        Seq = "seq",
        /// Kind of the entry.
        Kind = "kind",
        /// Number of a game.
        BizNo = "biz_no",
        /// Ref of an operator.
        Ref = "ref",
        /// Coins of both purses, without a sign.
        Amount = "amount",
        /// Change of the gifted purse.
        FreeChange = "free_change",
        /// Change of the charged purse.
        ChargeChange = "charge_change",
        /// Gifted currency after it.
        FreeBalance = "free_balance",
        /// Charged currency after it.
        ChargeBalance = "charge_balance",
        /// Zone and role.
        ZoneId = "zone_id",
        /// What was bought.
        ProductName = "product_name",
    }
}

impl ComparedBy {
    /// The column of its numbers.
    #[must_use]
    pub const fn column(self) -> BookColumn {
        match self {
            Self::BizNo => BookColumn::BizNo,
            Self::Ref => BookColumn::Ref,
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
    /// Whether it has an integer.
    pub(super) const fn is_integer(self) -> bool {
        match self {
            Self::Seq
            | Self::Amount
            | Self::FreeChange
            | Self::ChargeChange
            | Self::FreeBalance
            | Self::ChargeBalance => true,
            Self::At
            | Self::OpenId
            | Self::Kind
            | Self::BizNo
            | Self::Ref
            | Self::ZoneId
            | Self::ProductName => false,
        }
    }

    /// The value in a row of `bill_lines`, as the bill writes it for programs before formulas are made texts.
    pub(super) const fn sql(self) -> &'static str {
        match self {
            Self::At => {
                "rtrim(rtrim(to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US'), '0'), '.') || 'Z'"
            }
            Self::OpenId => "open_id",
            Self::Seq => "seq::text",
            Self::Kind => "kind",
            Self::BizNo => "biz_no",
            Self::Ref => "ref",
            Self::Amount => "abs(free_change::numeric + charge_change)::text",
            Self::FreeChange => "free_change::text",
            Self::ChargeChange => "charge_change::text",
            Self::FreeBalance => "free_balance::text",
            Self::ChargeBalance => "charge_balance::text",
            Self::ZoneId => "coalesce(zone_id, '')",
            Self::ProductName => "coalesce(product_name, '')",
        }
    }
}
