//! The steps behind the signature: scope, fields, number, time and wallet.

use domain::app::App;
use domain::code::Code;
use domain::ledger::ReferenceKind;
use domain::text;
use domain::text::Text;
use domain::topup::TopupOrder;
use domain::wallet::{Action, Change, WalletForm, WalletRequest};
use store::BizNoUse;

use super::{Step, refusal};
use crate::operator::console::error::ConsoleError;
use crate::operator::console::page::Shown as _;
use crate::public::wallet::refused_field;
use crate::state::AppState;

/// The scope, the fields, then `biz_no`, `ts` and the wallet.
pub(super) async fn wallet_steps(
    state: &AppState,
    app: &App,
    form: &WalletForm,
) -> Result<Vec<Step>, ConsoleError> {
    let mut steps = Vec::new();
    if let Some(scope) = form.call.scope() {
        steps.push(if app.holds(scope) {
            Step::good("Scope", text!("The app has the scope {scope}.", scope))
        } else {
            Step::refused("Scope", text!("The app lacks the scope {scope}", scope), Code::Forbidden)
        });
    }
    let request = match WalletRequest::parse(form, &state.reading_now()) {
        Ok(request) => request,
        Err(error) => {
            let refusal = refused_field(error);
            steps.push(Step::refused("Fields", refusal.message, refusal.code));
            return Ok(steps);
        }
    };
    steps.push(Step::good("Fields", "All fields are valid."));
    if let Action::Change(_) | Action::Order(_) = request.action {
        if let Some(used) = state.store.number_use(&app.id, &request.reference).await? {
            let (at, conflict) = (used.at.shown(), Code::BizNoConflict.number());
            let first = text!("It was used at {at} for {kind}", at, kind = kind_of(&used));
            steps.push(match (used.is_closed(), used.is_expired) {
                (true, _) => {
                    Step::refused("biz_no", text!("A query closed it at {at}", at), Code::NumberClosed)
                }
                (false, true) => Step::wait(
                    "biz_no",
                    refusal(&text!("{first} and has expired", first), Code::BizNoExpired),
                ),
                (false, false) => Step::wait(
                    "biz_no",
                    text!(
                        "{first}. The same content is a replay. Other content is refused with {conflict}.",
                        first,
                        conflict
                    ),
                ),
            });
            return Ok(steps);
        }
        steps.push(Step::good("biz_no", "It was not used before."));
    }
    if !request.is_fresh {
        let code = Code::TsOutsideWindow.number();
        let says = text!(
            "It is outside the accepted time window. If sent now, the request is refused with {code}.",
            code
        );
        steps.push(Step::wait("ts", says));
    }
    steps.push(wallet_step(state, app, &request).await?);
    Ok(steps)
}

/// What has used a number.
fn kind_of(used: &BizNoUse) -> Text {
    ReferenceKind::parse(&used.kind).map_or_else(|_| Text::same(&used.kind), |kind| Text::new(kind.as_str()))
}

/// Whether the wallet has what the request needs.
async fn wallet_step(state: &AppState, app: &App, request: &WalletRequest) -> Result<Step, ConsoleError> {
    let Some(wallet) = state.store.wallet(&app.id, &request.open_id).await? else {
        return Ok(Step::refused("open_id", "The app has no such player", Code::IllegalOpenId));
    };
    if let (Action::Change(_), true) = (&request.action, wallet.frozen) {
        return Ok(Step::refused("open_id", "An operator has frozen the wallet", Code::WalletFrozen));
    }
    let (free, charge) = (wallet.free_balance, wallet.charge_balance);
    let held = text!(
        "The balances are {free} gifted and {charge} charged",
        free = free.shown(),
        charge = charge.shown()
    );
    Ok(match &request.action {
        Action::Change(Change::Exchange(bought)) if free.saturating_add(charge) < bought.amount.get() => {
            Step::refused("amount", text!("{held}. That is not enough", held), Code::InsufficientBalance)
        }
        Action::Change(Change::Exchange(_)) => Step::good("amount", text!("{held}. That is enough.", held)),
        Action::Change(Change::Cancel { of, amount }) => {
            let exchange = state.store.exchange(&app.id, of, false).await?;
            match exchange.filter(|exchange| exchange.open_id == request.open_id.as_str()) {
                None => Step::refused("pay_biz_no", "This player has no such exchange", Code::UnknownNumber),
                Some(exchange) => {
                    let left = text!(
                        "{remaining} of {amount} is left to give back",
                        remaining = exchange.remaining.shown(),
                        amount = exchange.amount.shown()
                    );
                    if exchange.remaining < amount.get() {
                        Step::refused("amount", left, Code::MoreThanLeft)
                    } else {
                        Step::good("amount", text!("{left}.", left))
                    }
                }
            }
        }
        Action::Query { .. } => match state.store.number_use(&app.id, &request.reference).await? {
            Some(used) if used.open_id == request.open_id.as_str() => Step::good(
                "biz_no",
                text!("It was used at {at} for {kind}.", at = used.at.shown(), kind = kind_of(&used)),
            ),
            Some(_) => Step::refused("biz_no", "Another player has used it", Code::UnknownNumber),
            None => Step::wait("biz_no", "Nothing has used it. With close=1 the query closes it."),
        },
        Action::Order(TopupOrder { product_id, .. }) => {
            match state.store.offer(app.no, product_id, 0).await? {
                Some(_) => Step::good("product_id", "The app sells the product."),
                None => Step::refused("product_id", "The app does not sell it", Code::ProductNotForSale),
            }
        }
        Action::Change(
            Change::Present(_)
            | Change::Credit { .. }
            | Change::Debit { .. }
            | Change::Topup { .. }
            | Change::Refund { .. }
            | Change::Settlement(_),
        )
        | Action::Balance => Step::good("open_id", text!("{held}.", held)),
    })
}
