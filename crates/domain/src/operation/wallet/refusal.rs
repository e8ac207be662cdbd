//! Refusals of an operator's change of a wallet.

use crate::ids::{AppId, CreditRef, OpenId};
use crate::operation::{OperationRefusal, Subject};
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

refusals! {
    /// The app does not know the player, and the change registers nobody.
    unknown_player(app_id, open_id): Unknown(Subject::Player) of app_id,
        text!("there is no player {open_id} of an app {app_id}", open_id, app_id);
    /// The player of a payment was erased, and is never credited again (contract 13.7.13).
    erased_player(app_id, open_id): Conflict,
        text!("there is no player {open_id} of an app {app_id}: the player was erased; pay the money back, or credit \
               another player", open_id, app_id);
    /// The app has sold nothing under this number.
    unknown_exchange(app_id, biz_no): Unknown(Subject::Exchange) of app_id,
        text!("there is no exchange {biz_no} of an app {app_id}", biz_no, app_id);
    /// The purses do not cover a debit.
    not_covered(free, charge): Conflict,
        text!("the player has {free} gifted and {charge} charged coins", free, charge);
    /// Less is left of the exchange.
    more_than_left(remaining): Conflict, text!("{remaining} is left to give back", remaining);
    /// The ref stands for another change, or for a request of one.
    ref_used(reference): Conflict,
        text!("the ref {reference} was used for another player or with other amounts", reference);
    /// A purse cannot hold that much.
    balance_too_large(): Limit, text!("a balance would be more than 9223372036854775807");
    /// The role of whoever asked gives back no more of an exchange (contract 8.6.38).
    above_limit(max): NotAllowed,
        text!("the role support gives back at most {max} coins of an exchange", max);
    /// The same of an exchange of which coins were given back before.
    above_rest_of_limit(max, given): NotAllowed,
        text!("the role support gives back at most {max} coins of an exchange; {given} were given back already, and \
               only an admin gives back more", max, given);
    /// There is no such request of a change.
    unknown_request(app_id, reference): Unknown(Subject::Request) of app_id,
        text!("there is no request {reference} of an app {app_id}", reference, app_id);
    /// There is no such gift.
    unknown_gift(app_id, gift): Unknown(Subject::Gift) of app_id,
        text!("there is no gift {gift} of an app {app_id}", gift, app_id);
    /// The lines of a gift are not those that were shown.
    gift_differs(gift): Conflict,
        text!("the list of {gift} is not the one that was shown; send the list again", gift);
    /// Nobody confirms what they asked for themselves (contract 8.6.40).
    own_request(): NotAllowed, text!("you asked for this change yourself, and another admin must confirm it");
    /// Somebody moves more coins in 24 hours than one person may (contract 8.6.40).
    needs_second_person(max): NotAllowed,
        text!("more than {max} coins in 24 hours need a second person; ask for this change in the console", max);
    /// The same of a payment, for which the console has no request.
    needs_command_line(max): NotAllowed,
        text!("more than {max} coins in 24 hours need a second person; settle and refund such a payment at the \
               command line: minitill topup", max);
}
