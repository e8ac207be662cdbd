//! Batches of reports against the rules carried out one report at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::app::App;
use domain::caller::{Caller, TokenState};
use domain::ids::{AppId, ImgId, OpenId, OrderNo, PoiId};
use domain::order::{Order, OrderCreateTime, OrderReport, OrderStatus};
use proptest::prelude::*;

use super::ReportOutcome;
use super::batch::{
    FoundImage, FoundOrder, ReportContext, ReportDecisions, ReportRequest, decide, order_key,
};

type OwnedKey = (String, String);

/// The tables that reports read and write.
#[derive(Debug, Clone, Default, PartialEq)]
struct Tables {
    /// Each order with the number of its events and the creation time that the last one reported.
    orders: BTreeMap<OwnedKey, (Order, i64, i64)>,
    payments: BTreeMap<OwnedKey, String>,
    events: BTreeMap<(OwnedKey, i64), Order>,
    /// Images that a report has named.
    marked: BTreeSet<OwnedKey>,
}

/// One report of a test: few apps, orders, payments and contents, so that they often meet.
#[derive(Debug, Clone, Copy)]
struct Reported {
    app: u8,
    order: u8,
    payment: u8,
    player: u8,
    status: i64,
    time: i64,
    image: u8,
    poi: Option<u8>,
    page: bool,
}

fn reported() -> impl Strategy<Value = Reported> {
    let statuses = prop::sample::select(vec![1, 2, 6, 10, 12]);
    // The last player and the last point of interest are unknown, the last image is unknown and the one before it blocked.
    let names = (0..6_u8, 0..6_u8, prop::option::of(0..3_u8), prop::bool::weighted(0.95));
    (0..2_u8, 0..4_u8, 0..5_u8, statuses, 0..2_i64, names).prop_map(
        |(app, order, payment, status, time, (player, image, poi, page))| Reported {
            app,
            order,
            payment,
            player: player.saturating_sub(3),
            status,
            time,
            image,
            poi,
            page,
        },
    )
}

impl Reported {
    fn request(self) -> ReportRequest {
        let mut app = App::new(AppId::parse(&format!("app{}", self.app)).unwrap());
        app.pages = vec!["pages/a".to_owned()];
        app.settings.preorder_check = self.app == 1;
        let now = 1_800_000_000_000;
        let report = OrderReport {
            out_biz_order_no: OrderNo::parse(&format!("order_{}", self.order)).unwrap(),
            out_order_no: OrderNo::parse(&format!("payment_{}", self.payment)).unwrap(),
            open_id: OpenId::parse(&format!("o{}", self.player)).unwrap(),
            order_create_time: OrderCreateTime::parse(&(now - self.time).to_string(), now).unwrap(),
            order_status: OrderStatus::parse(&self.status.to_string()).unwrap(),
            order_path: if self.page { "pages/a" } else { "pages/b" }.to_owned(),
            product_cover_img_id: ImgId::from_random([self.image; 24]),
            order_backup_url: None,
            poi_id: self.poi.map(|poi| PoiId::parse(&format!("poi{poi}")).unwrap()),
            product_id: None,
            product_catalog_code: None,
            product_city: None,
        };
        (Caller::new(Arc::new(app), TokenState::Valid).unwrap(), report)
    }

    /// What the tables show of this report.
    fn found(self, tables: &Tables) -> ReportContext {
        let request = self.request();
        let (caller, report) = &request;
        let key = |no: &str| (caller.app().id.to_string(), no.to_owned());
        let order = tables.orders.get(&key(report.out_biz_order_no.as_str())).cloned();
        ReportContext {
            open_id: self.player < 2,
            image: (self.image < 5).then(|| FoundImage {
                is_blocked: self.image == 4,
                is_reported: tables.marked.contains(&key(report.product_cover_img_id.as_str())),
            }),
            poi: self.poi.is_some_and(|poi| poi < 2),
            preorder: self.payment != 4,
            payment_of: tables.payments.get(&key(report.out_order_no.as_str())).cloned(),
            order: order.map(|(order, event_count, reported_create_time)| FoundOrder {
                order,
                event_count,
                reported_create_time,
            }),
        }
    }
}

impl Tables {
    /// Carries a batch out as the database does.
    fn apply(&mut self, decisions: &ReportDecisions<'_>) {
        let owned = |key: &(&str, &str)| (key.0.to_owned(), key.1.to_owned());
        for event in &decisions.events {
            let former = self.events.insert((owned(&event.key), event.seq), event.order.clone());
            assert_eq!(former, None, "an event is written once");
        }
        for update in &decisions.orders {
            let last = &self.events[&(owned(&update.key), update.event_count)];
            let row = (update.order.clone(), update.event_count, last.order_create_time);
            let former = self.orders.insert(owned(&update.key), row);
            assert_eq!(former.map_or(0, |(_, event_count, _)| event_count), update.event_count_before);
        }
        for (payment, order_no) in &decisions.payments {
            let former = self.payments.insert(owned(payment), (*order_no).to_owned());
            assert_eq!(former, None, "a payment number is claimed once");
        }
        for image in &decisions.images {
            assert!(self.marked.insert(owned(image)), "an image is marked once");
        }
    }

    fn report(&mut self, reports: &[Reported], held: &[usize]) -> Vec<Option<ReportOutcome>> {
        let requests: Vec<ReportRequest> = reports.iter().map(|reported| reported.request()).collect();
        let found = reports.iter().map(|reported| reported.found(self)).collect();
        let held = held.iter().map(|place| order_key(&requests[*place])).collect();
        let decisions = decide(&requests.iter().collect::<Vec<_>>(), found, &held);
        self.apply(&decisions);
        decisions.outcomes
    }
}

proptest! {
    #[test]
    fn a_batch_does_what_its_reports_do_one_after_another(
        batches in prop::collection::vec(prop::collection::vec(reported(), 1..24), 1..6),
    ) {
        let (mut batched, mut single) = (Tables::default(), Tables::default());
        for batch in batches {
            let outcomes = batched.report(&batch, &[]);
            for (reported, outcome) in batch.iter().zip(outcomes) {
                prop_assert_eq!(&single.report(&[*reported], &[])[0], &outcome, "{:?}", reported);
            }
            prop_assert_eq!(&batched, &single);
        }
    }

    /// Contract 4.4 and 4.5, without the code that decides. Owners and kinds of goods of orders never change, and a
    /// payment number belongs to one order.
    #[test]
    fn what_a_batch_writes_keeps_the_rules_of_orders(batch in prop::collection::vec(reported(), 1..64)) {
        let mut tables = Tables::default();
        let outcomes = tables.report(&batch, &[]);
        let mut owners: BTreeMap<(u8, u8), u8> = BTreeMap::new();
        let mut payments: BTreeMap<(u8, u8), u8> = BTreeMap::new();
        for (reported, outcome) in batch.iter().zip(outcomes) {
            let is_known = reported.player < 2 && reported.image < 4 && reported.page
                && reported.poi.is_none_or(|poi| poi < 2) && (reported.app == 0 || reported.payment != 4);
            if outcome == Some(ReportOutcome::Done) {
                prop_assert!(is_known, "{:?}", reported);
                let owner = *owners.entry((reported.app, reported.order)).or_insert(reported.player);
                prop_assert_eq!(owner, reported.player);
                let order = *payments.entry((reported.app, reported.payment)).or_insert(reported.order);
                prop_assert_eq!(order, reported.order);
            }
        }
        prop_assert_eq!(tables.orders.len(), owners.len());
        prop_assert_eq!(tables.payments.len(), payments.len());
    }

    #[test]
    fn reports_of_held_orders_are_set_aside_and_change_nothing(
        batch in prop::collection::vec(reported(), 2..24), held in 0..2_usize,
    ) {
        let key = |reported: &Reported| (reported.app, reported.order);
        let mut tables = Tables::default();
        let outcomes = tables.report(&batch, &[held]);
        for (reported, outcome) in batch.iter().zip(outcomes) {
            prop_assert_eq!(outcome.is_none(), key(reported) == key(&batch[held]));
        }
        let free: Vec<Reported> =
            batch.iter().copied().filter(|reported| key(reported) != key(&batch[held])).collect();
        let mut others = Tables::default();
        others.report(&free, &[]);
        prop_assert_eq!(tables, others);
    }
}
