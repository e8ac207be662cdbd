//! The message after a credit, a debit or a cancel, on the page of the player or the exchange.

use super::i18n::said;
use domain::fields::Fields;
use domain::ids::{AppId, CreditRef};
use domain::ledger::ReferenceKind;
use domain::text;
use store::ChangeRecord;

use super::error::ConsoleError;
use super::page::Shown as _;
use super::request::{ConsoleRequest, address};

/// The address of the page at `path`, with the message about a change.
pub(super) fn address_after_change(path: &str, reference: &CreditRef, replayed: bool) -> String {
    let fields = [("changed", reference.as_str()), ("again", if replayed { "1" } else { "" })];
    address(path, &Fields::default(), &fields)
}

/// The message that the address of a page requests. The change is looked up in the store, because anybody can
/// write an address. `is_here` tells whether the page shows the change.
pub(super) async fn change_notice(
    request: &ConsoleRequest,
    app_id: &AppId,
    is_here: impl FnOnce(&ChangeRecord) -> bool,
) -> Result<Option<String>, ConsoleError> {
    let Ok(reference) = CreditRef::stored(request.text("changed")) else { return Ok(None) };
    let record = request.state.store.change_by_ref(app_id, &reference).await?;
    let Some(ChangeRecord { line, .. }) = record.filter(is_here) else { return Ok(None) };
    let [free, charge] = [line.free_change, line.charge_change].map(|change| change.unsigned_abs().shown());
    let done = match ReferenceKind::parse(&line.kind) {
        Ok(ReferenceKind::Credit) => text!("Credited"),
        Ok(ReferenceKind::Debit) => text!("Debited"),
        Ok(ReferenceKind::Cancel) => text!("Gave back"),
        // What a game or a provider does has no ref.
        Ok(
            ReferenceKind::Exchange
            | ReferenceKind::Present
            | ReferenceKind::Closed
            | ReferenceKind::TopupOrder
            | ReferenceKind::Topup
            | ReferenceKind::Refund
            | ReferenceKind::Settlement,
        )
        | Err(_) => return Ok(None),
    };
    let (what, seq) =
        (text!("{done} {free} gifted and {charge} charged coins", done, free, charge), line.seq);
    Ok(Some(said(&if request.text("again").is_empty() {
        text!("{what} with the reference {reference} (entry {seq}).", what, reference, seq)
    } else {
        text!(
            "Nothing was changed now. {what} with the reference {reference} before (entry {seq}).",
            what,
            reference,
            seq
        )
    })))
}
