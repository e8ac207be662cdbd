//! The decisions of a batch of reports. They are a pure function of the reports, in the order of their arrival, and of
//! the rows that they depend on.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use domain::app::App;
use domain::caller::Caller;
use domain::order::{Order, OrderReport};

use super::ReportOutcome;

/// A report and the app that sent it.
pub(crate) type ReportRequest = (Caller, OrderReport);

/// An app and one of its numbers: of an order, a payment or an image.
pub(super) type AppScopedId<'a> = (&'a str, &'a str);

/// What one report depends on.
#[derive(Debug, Clone, Default)]
pub(super) struct ReportContext {
    /// The app knows the player.
    pub(super) open_id: bool,
    pub(super) image: Option<FoundImage>,
    /// The point of interest is registered.
    pub(super) poi: bool,
    /// The pre-order is registered.
    pub(super) preorder: bool,
    /// The order that the payment number belongs to.
    pub(super) payment_of: Option<String>,
    pub(super) order: Option<FoundOrder>,
}

/// An image that the app has.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundImage {
    pub(super) is_blocked: bool,
    /// A report has named it before.
    pub(super) is_reported: bool,
}

/// An order that exists.
#[derive(Debug, Clone)]
pub(super) struct FoundOrder {
    pub(super) order: Order,
    pub(super) event_count: i64,
    /// The creation time that the last event reported.
    pub(super) reported_create_time: i64,
}

/// The result of a batch: an outcome for each report, and the rows to write, each kind in the order of its keys.
#[derive(Debug, Default)]
pub(super) struct ReportDecisions<'a> {
    /// `None` for a report whose order another transaction holds.
    pub(super) outcomes: Vec<Option<ReportOutcome>>,
    pub(super) orders: Vec<OrderUpdate<'a>>,
    pub(super) events: Vec<NewEvent<'a>>,
    /// New payment numbers, each with its order.
    pub(super) payments: BTreeMap<AppScopedId<'a>, &'a str>,
    /// Images that no report has named before.
    pub(super) images: BTreeSet<AppScopedId<'a>>,
}

/// An order to make or to change.
#[derive(Debug)]
pub(super) struct OrderUpdate<'a> {
    pub(super) key: AppScopedId<'a>,
    /// The order after all reports of the batch.
    pub(super) order: Order,
    /// Number of events before the batch. 0 for a new order.
    pub(super) event_count_before: i64,
    pub(super) event_count: i64,
}

/// A report that changed an order.
#[derive(Debug)]
pub(super) struct NewEvent<'a> {
    pub(super) key: AppScopedId<'a>,
    pub(super) seq: i64,
    /// The order after the report, but with the creation time that the report states.
    pub(super) order: Order,
}

/// An order while the reports of a batch are decided.
struct OrderState {
    event_count_before: i64,
    event_count: i64,
    order: Option<Order>,
    reported_create_time: Option<i64>,
}

impl OrderState {
    fn of(found: Option<FoundOrder>) -> Self {
        let event_count = found.as_ref().map_or(0, |found| found.event_count);
        let reported_create_time = found.as_ref().map(|found| found.reported_create_time);
        let order = found.map(|found| found.order);
        Self { event_count_before: event_count, event_count, order, reported_create_time }
    }
}

/// The key of a report's order.
pub(super) fn order_key((caller, report): &ReportRequest) -> AppScopedId<'_> {
    (caller.app().id.as_str(), report.out_biz_order_no.as_str())
}

/// Decides reports in their order. `found` has one element for each report, all from one snapshot. Reports of the orders
/// in `held` are set aside.
pub(super) fn decide<'a>(
    requests: &[&'a ReportRequest],
    found: Vec<ReportContext>,
    held: &BTreeSet<AppScopedId<'_>>,
) -> ReportDecisions<'a> {
    let mut decisions = ReportDecisions::default();
    let mut orders: BTreeMap<AppScopedId<'a>, OrderState> = BTreeMap::new();
    for (request, found) in requests.iter().zip(found) {
        let key = order_key(request);
        if held.contains(&key) {
            decisions.outcomes.push(None);
            continue;
        }
        let outcome = decisions.report(&mut orders, request, found);
        decisions.outcomes.push(Some(outcome.err().unwrap_or(ReportOutcome::Done)));
    }
    let changed = orders.into_iter().filter(|(_, state)| state.event_count > state.event_count_before);
    decisions.orders.extend(changed.filter_map(|(key, state)| {
        let OrderState { event_count_before, event_count, order, .. } = state;
        Some(OrderUpdate { key, order: order?, event_count_before, event_count })
    }));
    decisions
}

impl<'a> ReportDecisions<'a> {
    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    /// Decides one report after those before it. The error says why it is refused.
    fn report(
        &mut self,
        orders: &mut BTreeMap<AppScopedId<'a>, OrderState>,
        request: &'a ReportRequest,
        found: ReportContext,
    ) -> Result<(), ReportOutcome> {
        let (key, (caller, report)) = (order_key(request), request);
        let image = check_names(caller.app(), report, &found)?;
        let state = match orders.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(OrderState::of(found.order)),
        };
        let order = Order::after(state.order.as_ref(), report).map_err(ReportOutcome::Conflict)?;
        let payment = (key.0, report.out_order_no.as_str());
        let owner = self.payments.get(&payment).copied().or(found.payment_of.as_deref());
        if owner.is_some_and(|owner| owner != key.1) {
            return Err(ReportOutcome::PaymentOfAnotherOrder);
        }
        let create_time = report.order_create_time.unix_millis();
        if state.order.as_ref() == Some(&order) && state.reported_create_time == Some(create_time) {
            // The last event has claimed the same payment number already.
            return Ok(());
        }
        if owner.is_none() {
            self.payments.insert(payment, key.1);
        }
        if !image.is_reported {
            self.images.insert((key.0, report.product_cover_img_id.as_str()));
        }
        state.event_count += 1;
        state.reported_create_time = Some(create_time);
        // The event keeps the time of its report. The order keeps that of its first one.
        let reported = Order { order_create_time: create_time, ..order.clone() };
        state.order = Some(order);
        self.events.push(NewEvent { key, seq: state.event_count, order: reported });
        Ok(())
    }
}

/// Checks what a report names, in the order of contract 4.6.1.
fn check_names(app: &App, report: &OrderReport, found: &ReportContext) -> Result<FoundImage, ReportOutcome> {
    // A developer finds no erased player, as a game finds none (contract 13.7.12).
    if !found.open_id || report.open_id.is_pseudonym() {
        return Err(ReportOutcome::UnknownOpenId);
    }
    if !app.publishes(&report.order_path) {
        return Err(ReportOutcome::UnknownPage);
    }
    let image = found.image.ok_or(ReportOutcome::UnknownImage)?;
    if image.is_blocked {
        return Err(ReportOutcome::BlockedImage);
    }
    if report.poi_id.is_some() && !found.poi {
        return Err(ReportOutcome::UnknownPoi);
    }
    if app.settings.preorder_check && !found.preorder {
        return Err(ReportOutcome::UnknownPreorder);
    }
    Ok(image)
}
