//! The order center as a player sees it: what each status is called, and under which tab an order
//! stands (contract 4.3).

use super::order::OrderStatus;

crate::word_enum! {
    /// A tab of the order center. Its word stands in addresses.
    #[derive(Default)]
    pub enum Tab {
        /// Every order. Those that need nothing more stand here alone: cancelled, used, and received.
        #[default]
        All = "all",
        /// Orders that wait for their payment.
        ToPay = "to_pay",
        /// Orders that are paid and of which something is still to come: use, shipment or receipt.
        InProgress = "in_progress",
        /// Orders of the refund group of contract 4.3, whatever became of the refund.
        AfterSale = "after_sale",
    }
}

impl Tab {
    /// Its title.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::All => "All",
            Self::ToPay => "To pay",
            Self::InProgress => "In progress",
            Self::AfterSale => "Refund and after-sale",
        }
    }

    /// The status codes of the orders under it; none for [`Tab::All`], which has them all.
    #[must_use]
    pub const fn statuses(self) -> &'static [i16] {
        match self {
            Self::All => &[],
            Self::ToPay => &[1],
            Self::InProgress => &[2, 10, 12, 13, 14],
            Self::AfterSale => &[4, 5, 6],
        }
    }
}

/// The status codes of orders of which something is still to come: a payment, use, shipment, receipt or refund.
pub const OPEN: [i16; 7] = [1, 2, 4, 10, 12, 13, 14];

crate::word_enum! {
    /// How an order is shown: it ended well, it ended badly, or it continues. The word is the class of
    /// the style sheet.
    pub enum Standing {
        /// Something is still to come.
        Waits = "wait",
        /// It ended as the player wanted.
        Good = "good",
        /// It ended in another way.
        Bad = "bad",
    }
}

impl OrderStatus {
    /// The meaning of the code (contract 4.3).
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self.code() {
            1 => "Pending payment",
            2 => "Payment succeeded",
            3 => "Cancelled",
            4 => "Refunding",
            5 => "Refund failed",
            6 => "Refund succeeded",
            10 => "Pending use",
            11 => "Used",
            12 => "Pending shipment",
            13 => "Partially shipped",
            14 => "Pending receipt",
            15 => "Transaction succeeded",
            _ => "Unknown",
        }
    }

    /// How an order of this status stands.
    #[must_use]
    pub fn standing(self) -> Standing {
        match self.code() {
            2 | 6 | 11 | 15 => Standing::Good,
            3 | 5 => Standing::Bad,
            _ => Standing::Waits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every code of contract 4.3, its words, and the tabs besides "All" that show it.
    const STATUSES: [(i16, &str, &[Tab]); 12] = [
        (1, "Pending payment", &[Tab::ToPay]),
        (2, "Payment succeeded", &[Tab::InProgress]),
        (3, "Cancelled", &[]),
        (4, "Refunding", &[Tab::AfterSale]),
        (5, "Refund failed", &[Tab::AfterSale]),
        (6, "Refund succeeded", &[Tab::AfterSale]),
        (10, "Pending use", &[Tab::InProgress]),
        (11, "Used", &[]),
        (12, "Pending shipment", &[Tab::InProgress]),
        (13, "Partially shipped", &[Tab::InProgress]),
        (14, "Pending receipt", &[Tab::InProgress]),
        (15, "Transaction succeeded", &[]),
    ];

    #[test]
    fn every_status_of_the_spec_has_its_words_and_stands_under_one_tab_at_most() {
        assert_eq!(STATUSES.map(|(code, ..)| i64::from(code)), OrderStatus::CODES);
        for (code, words, tabs) in STATUSES {
            let status = OrderStatus::parse(&code.to_string()).unwrap();
            assert_eq!(status.meaning(), words);
            let shown: Vec<Tab> = Tab::ALL.into_iter().filter(|tab| tab.statuses().contains(&code)).collect();
            assert_eq!(shown, tabs, "{code}");
        }
        assert!(Tab::All.statuses().is_empty());
        let closed: Vec<i64> =
            OrderStatus::CODES.into_iter().filter(|code| !OPEN.map(i64::from).contains(code)).collect();
        assert_eq!(closed, [3, 5, 6, 11, 15]);
    }

    #[test]
    fn a_tab_is_known_by_its_word_alone() {
        for tab in Tab::ALL {
            assert_eq!(Tab::parse(tab.as_str()), Ok(tab));
        }
        assert!(Tab::parse("").is_err() && Tab::parse("All").is_err());
    }
}
