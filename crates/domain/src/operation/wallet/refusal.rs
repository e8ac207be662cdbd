//! Refusals of an operator's change of a wallet.

use std::fmt::Display;

use crate::ids::{AppId, CreditRef, OpenId};
use crate::operation::{OperationRefusal, RefusalKind, Subject};
use crate::text;
use crate::wallet::Refused;

/// Why the wallet of this player does not take an operator's change.
#[must_use]
pub fn refused(why: Refused, app_id: &AppId, open_id: &OpenId, reference: &CreditRef) -> OperationRefusal {
    match why {
        Refused::UnknownWallet => unknown_player(app_id, open_id),
        Refused::InsufficientBalance(purses) => not_covered(purses.free(), purses.charge()),
        Refused::MoreThanLeft { remaining } => more_than_left(remaining),
        Refused::PurseFull => balance_too_large(),
        // What only a request of a game meets is a ref that was used, too.
        Refused::Conflict
        | Refused::Expired
        | Refused::Closed
        | Refused::Frozen(_)
        | Refused::TsOutsideWindow
        | Refused::NotForSale
        | Refused::UnknownNumber => ref_used(reference),
    }
}

/// The app does not know the player, and the change makes nobody known.
#[must_use]
pub fn unknown_player(app_id: impl Display, open_id: impl Display) -> OperationRefusal {
    let text = text!("there is no player {open_id} of an app {app_id}", open_id, app_id);
    OperationRefusal::new(RefusalKind::Unknown(Subject::Player), text).of_app(app_id)
}

/// The app has sold nothing under this number.
#[must_use]
pub fn unknown_exchange(app_id: impl Display, biz_no: impl Display) -> OperationRefusal {
    let text = text!("there is no exchange {biz_no} of an app {app_id}", biz_no, app_id);
    OperationRefusal::new(RefusalKind::Unknown(Subject::Exchange), text).of_app(app_id)
}

/// The purses do not cover a debit.
#[must_use]
pub fn not_covered(free: impl Display, charge: impl Display) -> OperationRefusal {
    let text = text!("the player has {free} gifted and {charge} charged coins", free, charge);
    OperationRefusal::new(RefusalKind::Conflict, text)
}

/// Less is left of the exchange.
#[must_use]
pub fn more_than_left(remaining: impl Display) -> OperationRefusal {
    OperationRefusal::new(RefusalKind::Conflict, text!("{remaining} is left to give back", remaining))
}

/// The ref stands for another change, or for a request of one.
#[must_use]
pub fn ref_used(reference: impl Display) -> OperationRefusal {
    let text = text!("the ref {reference} was used for another player or with other amounts", reference);
    OperationRefusal::new(RefusalKind::Conflict, text)
}

/// A purse cannot hold that much.
#[must_use]
pub fn balance_too_large() -> OperationRefusal {
    OperationRefusal::new(RefusalKind::Limit, text!("a balance would be more than 9223372036854775807"))
}

/// The role of whoever asked gives back no more of an exchange (contract 8.6.38).
#[must_use]
pub fn above_limit(max: impl Display) -> OperationRefusal {
    let text = text!("the role support gives back at most {max} coins of an exchange", max);
    OperationRefusal::new(RefusalKind::NotAllowed, text)
}

/// There is no such request of a change.
#[must_use]
pub fn unknown_request(app_id: impl Display, reference: impl Display) -> OperationRefusal {
    let text = text!("there is no request {reference} of an app {app_id}", reference, app_id);
    OperationRefusal::new(RefusalKind::Unknown(Subject::Request), text).of_app(app_id)
}

/// There is no such gift.
#[must_use]
pub fn unknown_gift(app_id: impl Display, gift: impl Display) -> OperationRefusal {
    let text = text!("there is no gift {gift} of an app {app_id}", gift, app_id);
    OperationRefusal::new(RefusalKind::Unknown(Subject::Gift), text).of_app(app_id)
}

/// The lines of a gift are not those that were shown.
#[must_use]
pub fn gift_differs(gift: impl Display) -> OperationRefusal {
    let text = text!("the list of {gift} is not the one that was shown; send the list again", gift);
    OperationRefusal::new(RefusalKind::Conflict, text)
}

/// Nobody confirms what they asked for themselves (contract 8.6.40).
#[must_use]
pub fn own_request() -> OperationRefusal {
    let text = text!("you asked for this change yourself, and another admin must confirm it");
    OperationRefusal::new(RefusalKind::NotAllowed, text)
}

/// Somebody moves more coins in 24 hours than one person may (contract 8.6.40).
#[must_use]
pub fn needs_second_person(max: impl Display) -> OperationRefusal {
    let text = text!(
        "more than {max} coins in 24 hours need a second person; ask for this change in the console",
        max
    );
    OperationRefusal::new(RefusalKind::NotAllowed, text)
}

/// The same of a payment, for which the console has no request.
#[must_use]
pub fn needs_command_line(max: impl Display) -> OperationRefusal {
    let text = text!(
        "more than {max} coins in 24 hours need a second person; settle and refund such a payment at the command line: minitill topup",
        max
    );
    OperationRefusal::new(RefusalKind::NotAllowed, text)
}
