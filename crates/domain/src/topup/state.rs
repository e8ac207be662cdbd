//! The states of payments and of their refunds (contract 19.3 and 19.5).

crate::word_enum! {
    /// What became of a payment.
    pub enum PaymentState {
        /// It was credited.
        Paid = "paid",
        /// It fits nothing, and waits for an operator.
        Unmatched = "unmatched",
        /// It fitted nothing, and the money went back.
        PaidBack = "paid_back",
    }
}

crate::word_enum! {
    /// What became of a refund.
    pub enum RefundState {
        /// It was carried out.
        Refunded = "refunded",
        /// Its payment is not credited yet.
        Waiting = "waiting",
        /// It did not fit its payment.
        Refused = "refused",
        /// The refunds have this sum already. No row has this state.
        Unchanged = "unchanged",
    }
}

impl PaymentState {
    /// Whether it was kept, and no purse changed (contract 19.4.4).
    #[must_use]
    pub const fn is_kept(self) -> bool {
        match self {
            Self::Unmatched => true,
            Self::Paid | Self::PaidBack => false,
        }
    }
}

impl RefundState {
    /// Whether it was kept, and no purse changed (contract 19.4.4).
    #[must_use]
    pub const fn is_kept(self) -> bool {
        match self {
            Self::Waiting | Self::Refused => true,
            Self::Refunded | Self::Unchanged => false,
        }
    }
}
