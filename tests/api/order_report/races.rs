//! Reports that come at once, at one server and at two (contract 4.4).

use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::{SUCCESS, Scene, request};
use crate::support::{Answer, TestTill};

#[tokio::test(flavor = "multi_thread")]
async fn reports_that_race_make_one_order_with_a_gapless_history() {
    let scene = Scene::new().await;
    let second = TestTill::start_on(scene.till.database_url.clone(), |_| {}).await;
    let mut tries = JoinSet::new();
    for index in 0..40 {
        let report = scene.with(&[
            ("order_status", json!(1 + index % 6)),
            ("out_order_no", json!(format!("payment_{index:02}"))),
        ]);
        let request = request(&scene.app, Value::Object(report).to_string().as_bytes());
        let address = if index % 2 == 0 { scene.till.address } else { second.address };
        tries.spawn(async move { request.send(address).await });
    }
    for answer in tries.join_all().await {
        answer.assert_body(SUCCESS);
    }
    assert_eq!(scene.rows().await, (1, 40, 40));
    let gapless = "SELECT count(*) FROM orders WHERE event_count = 40 AND event_count = (SELECT max(seq) FROM order_events) \
                   AND order_status = (SELECT order_status FROM order_events WHERE seq = 40)";
    assert_eq!(scene.till.number(gapless).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_races_for_two_orders_goes_to_one_of_them() {
    let scene = Scene::new().await;
    let second = TestTill::start_on(scene.till.database_url.clone(), |_| {}).await;
    for round in 0..10 {
        let mut tries = JoinSet::new();
        for index in 0..4 {
            let report = scene.with(&[
                ("out_biz_order_no", json!(format!("order_{round}_{index}"))),
                ("out_order_no", json!(format!("payment_{round}"))),
            ]);
            let request = request(&scene.app, Value::Object(report).to_string().as_bytes());
            let address = if index % 2 == 0 { scene.till.address } else { second.address };
            tries.spawn(async move { request.send(address).await });
        }
        let mut codes: Vec<u64> = tries.join_all().await.iter().map(Answer::code).collect();
        codes.sort_unstable();
        assert_eq!(codes, [1, 10_000_200, 10_000_200, 10_000_200]);
    }
    assert_eq!(scene.rows().await, (10, 10, 10));
}

/// Sends reports at once, by turns to each of two servers on one database.
async fn race(scene: &Scene, second: &TestTill, reports: Vec<Map<String, Value>>) -> Vec<Answer> {
    let mut tries = JoinSet::new();
    for (index, report) in reports.into_iter().enumerate() {
        let request = request(&scene.app, Value::Object(report).to_string().as_bytes());
        let address = if index % 2 == 0 { scene.till.address } else { second.address };
        tries.spawn(async move { request.send(address).await });
    }
    tries.join_all().await
}

fn sorted_codes(answers: &[Answer]) -> Vec<u64> {
    let mut codes: Vec<u64> = answers.iter().map(Answer::code).collect();
    codes.sort_unstable();
    codes
}

#[tokio::test(flavor = "multi_thread")]
async fn identical_first_reports_that_race_make_one_order_with_one_event() {
    let scene = Scene::new().await;
    let second = TestTill::start_on(scene.till.database_url.clone(), |_| {}).await;
    for round in 0..5 {
        let number = json!(format!("order_{round:04}"));
        let report = scene.with(&[("out_biz_order_no", number.clone()), ("out_order_no", number)]);
        for answer in race(&scene, &second, vec![report; 12]).await {
            answer.assert_body(SUCCESS);
        }
        assert_eq!(scene.rows().await, (round + 1, round + 1, round + 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_owners_that_race_for_an_order_one_has_it_and_the_other_leaves_nothing() {
    let scene = Scene::new().await;
    let second = TestTill::start_on(scene.till.database_url.clone(), |_| {}).await;
    for round in 0..10 {
        let reports = (0..4).map(|index| {
            scene.with(&[
                ("open_id", json!(if (index / 2 + round) % 2 == 0 { "o1" } else { "o2" })),
                ("out_biz_order_no", json!(format!("order_{round:04}"))),
                ("out_order_no", json!(format!("payment_{round}_{index}"))),
            ])
        });
        let answers = race(&scene, &second, reports.collect()).await;
        assert_eq!(sorted_codes(&answers), [1, 1, 10_000_423, 10_000_423]);
    }
    assert_eq!(scene.rows().await, (10, 20, 20));
    let strange = "SELECT count(*) FROM order_events e JOIN orders o USING (app_id, out_biz_order_no) \
                   WHERE e.report->>'open_id' <> o.open_id";
    assert_eq!(scene.till.number(strange).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_virtual_and_physical_goods_that_race_one_kind_wins() {
    let scene = Scene::new().await;
    let second = TestTill::start_on(scene.till.database_url.clone(), |_| {}).await;
    for round in 0..10 {
        let number = json!(format!("order_{round:04}"));
        let of = |status: i64| {
            scene.with(&[
                ("out_biz_order_no", number.clone()),
                ("out_order_no", number.clone()),
                ("order_status", json!(status)),
            ])
        };
        scene.send(&of(1)).await.assert_body(SUCCESS);
        let answers = race(&scene, &second, vec![of(10), of(12), of(13), of(11)]).await;
        assert_eq!(sorted_codes(&answers), [1, 1, 10_000_200, 10_000_200]);
    }
    assert_eq!(scene.rows().await, (10, 30, 10));
    let mixed = "SELECT count(*) FROM order_events e JOIN orders o USING (app_id, out_biz_order_no) \
                 WHERE e.order_status >= 10 AND (e.order_status <= 11) <> (o.goods_kind = 'virtual')";
    assert_eq!(scene.till.number(mixed).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_orders_that_are_there_and_race_for_a_payment_one_has_it_and_the_others_stay() {
    let scene = Scene::new().await;
    let second = TestTill::start_on(scene.till.database_url.clone(), |_| {}).await;
    let of = |order: i64, payment: &str, status: i64| {
        scene.with(&[
            ("out_biz_order_no", json!(format!("order_{order:04}"))),
            ("out_order_no", json!(payment)),
            ("order_status", json!(status)),
        ])
    };
    for order in 0..4 {
        scene.send(&of(order, &format!("payment_{order}"), 1)).await.assert_body(SUCCESS);
    }
    for round in 1..=10 {
        let payment = format!("shared_{round}");
        let reports = (0..4).map(|order| of(order, &payment, 2)).collect();
        let answers = race(&scene, &second, reports).await;
        assert_eq!(sorted_codes(&answers), [1, 10_000_200, 10_000_200, 10_000_200]);
        for answer in answers.iter().filter(|answer| answer.code() != 1) {
            let message = "out_order_no: expected a payment of this order, got one of another order";
            answer.assert_refused(10_000_200, message);
        }
        assert_eq!(scene.rows().await, (4, 4 + round, 4 + round));
    }
    let strange = "SELECT count(*) FROM order_events e JOIN order_payments p \
                   ON p.app_id = e.app_id AND p.out_order_no = e.report->>'out_order_no' \
                   WHERE p.out_biz_order_no <> e.out_biz_order_no";
    assert_eq!(scene.till.number(strange).await, 0);
}
