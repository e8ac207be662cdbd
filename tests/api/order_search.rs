//! Orders as operators and players look for them: what is found, in which order, page by page, and what
//! the reports of one have changed.

use domain::ids::{AppId, OpenId, OrderNo};
use domain::order::{GoodsKind, OrderStatus};
use domain::order_center::Tab;
use serde_json::{Value, json};
use store::{OrderFilter, StoredOrder};

use crate::support::{PAGE, Request, TestApp, TestTill};

const MADE: i64 = 1_700_000_000_000;

/// Writes orders as reports would have: number, player, status, city, and milliseconds after [`MADE`].
async fn orders(till: &TestTill, app: &str, rows: &[(&str, &str, i16, &str, i64)]) {
    for (number, player, status, city, after) in rows {
        let (made, city) =
            (MADE + after, if city.is_empty() { "NULL".to_owned() } else { format!("'{city}'") });
        till.execute(&format!(
            "INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
                    order_path, product_cover_img_id, product_city, event_count)
             VALUES ('{app}', '{number}', 'pay_{number}', '{player}', {made}, {status}, 'p', '{}', {city}, 1);
             INSERT INTO order_payments (app_id, out_order_no, out_biz_order_no)
             VALUES ('{app}', 'pay_{number}', '{number}')",
            "0".repeat(48)
        ))
        .await;
    }
}

async fn found(till: &TestTill, filter: &OrderFilter) -> Vec<String> {
    let page = till.store.orders(filter, 100).await.unwrap();
    assert_eq!(page.next, None);
    page.items.into_iter().map(|order| format!("{}/{}", order.app_id, order.out_biz_order_no)).collect()
}

fn of_app(app: &str) -> OrderFilter {
    OrderFilter { app_id: Some(AppId::parse(app).unwrap()), ..OrderFilter::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_found_by_each_field_and_by_several_newest_first() {
    let till = TestTill::start().await;
    till.app("a1").await;
    till.app("a2").await;
    orders(
        &till,
        "a1",
        &[
            ("order_1", "o1", 1, "浙江省杭州市", 0),
            ("order_2", "o1", 2, "北京", 10),
            ("order_3", "o2", 5, "", 20),
        ],
    )
    .await;
    orders(&till, "a2", &[("order_1", "o1", 1, "杭州", 5), ("order_9", "o9", 6, "", 20)]).await;
    let any = OrderFilter::default();
    assert_eq!(
        found(&till, &any).await,
        ["a2/order_9", "a1/order_3", "a1/order_2", "a2/order_1", "a1/order_1"]
    );
    assert_eq!(found(&till, &of_app("a1")).await, ["a1/order_3", "a1/order_2", "a1/order_1"]);
    assert_eq!(found(&till, &of_app("a3")).await, [""; 0]);
    let numbered = |number: &str| Some(OrderNo::parse(number).unwrap());
    assert_eq!(
        found(&till, &OrderFilter { number: numbered("order_1"), ..any.clone() }).await,
        ["a2/order_1", "a1/order_1"]
    );
    assert_eq!(
        found(&till, &OrderFilter { number: numbered("pay_order_2"), ..any.clone() }).await,
        ["a1/order_2"]
    );
    assert_eq!(found(&till, &OrderFilter { number: numbered("pay_order_2"), ..of_app("a2") }).await, [""; 0]);
    let of_player = |player: &str| OrderFilter {
        open_id: Some(OpenId::parse(player).unwrap()),
        ..OrderFilter::default()
    };
    assert_eq!(found(&till, &of_player("o1")).await, ["a1/order_2", "a2/order_1", "a1/order_1"]);
    assert_eq!(found(&till, &OrderFilter { number: numbered("order_1"), ..of_player("o2") }).await, [""; 0]);
    assert_eq!(
        found(&till, &OrderFilter { statuses: vec![5, 6], ..any.clone() }).await,
        ["a2/order_9", "a1/order_3"]
    );
    assert_eq!(
        found(&till, &OrderFilter { city: Some("杭州".to_owned()), ..any.clone() }).await,
        ["a2/order_1", "a1/order_1"]
    );
    assert_eq!(found(&till, &OrderFilter { city: Some("%".to_owned()), ..any.clone() }).await, [""; 0]);
    let between = OrderFilter { created_since: Some(MADE + 5), created_until: Some(MADE + 20), ..any };
    assert_eq!(found(&till, &between).await, ["a1/order_2", "a2/order_1"], "from is included, to is not");
}

/// Pages of every length hold each order once, while newer and older ones arrive between them.
#[tokio::test(flavor = "multi_thread")]
async fn pages_neither_skip_nor_repeat_while_orders_arrive() {
    let till = TestTill::start().await;
    till.app("a1").await;
    till.app("a2").await;
    // Ten orders of five moments: two apps share each moment, so that ties are cut by pages as well.
    for at in 0..5 {
        for app in ["a1", "a2"] {
            orders(&till, app, &[(&format!("order_{at}"), "o1", 1, "", at)]).await;
        }
    }
    let mut arrived = 0;
    for length in [1, 2, 3, 7] {
        for filter in [
            OrderFilter::default(),
            OrderFilter { open_id: Some(OpenId::parse("o1").unwrap()), ..OrderFilter::default() },
        ] {
            let (mut filter, mut seen) = (filter, Vec::new());
            loop {
                let page = till.store.orders(&filter, length).await.unwrap();
                assert!(page.items.len() <= length as usize);
                seen.extend(
                    page.items
                        .iter()
                        .map(|order: &StoredOrder| format!("{}{}", order.app_id, order.out_biz_order_no)),
                );
                arrived += 1;
                orders(&till, "a1", &[(&format!("newer_{arrived}"), "o1", 1, "", 100 + arrived)]).await;
                let Some(next) = page.next else { break };
                filter.after = Some(next);
            }
            let before: Vec<&String> = seen.iter().filter(|order| order.contains("order_")).collect();
            let expected: Vec<String> =
                (0..5).rev().flat_map(|at| [format!("a2order_{at}"), format!("a1order_{at}")]).collect();
            assert_eq!(before, expected.iter().collect::<Vec<_>>(), "pages of {length}");
            till.execute("DELETE FROM orders WHERE out_biz_order_no LIKE 'newer%'").await;
        }
    }
}

/// Contract 8.6.27: a page examines a limited number of orders of each app, and the next one goes on from there.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_examines_a_limited_number_of_orders() {
    let till = TestTill::start().await;
    till.app("a1").await;
    till.app("a2").await;
    // With orders of 500 apps a page examines 1,000 of each.
    till.execute(
        "INSERT INTO apps (app_id, app_no, app_secret)
         SELECT 'more' || n, 1000 + n, '' FROM generate_series(1, 498) n",
    )
    .await;
    orders(&till, "a1", &[("order_first", "o1", 2, "杭州", 0)]).await;
    till.execute(
        "INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status, order_path,
             product_cover_img_id, event_count)
         SELECT 'a1', 'filler_' || n, 'filler', 'o2', 1700000001000 + n, 1, 'p', '', 1 FROM generate_series(1, 1500) n",
    )
    .await;
    till.execute(
        "INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status, order_path,
             product_cover_img_id, event_count)
         SELECT 'more' || n, 'only', 'only', 'o2', 1700000001000, 1, 'p', '', 1 FROM generate_series(1, 498) n",
    )
    .await;
    // Older than what the first page examines of the other app, and newer than what the second one finds there.
    orders(&till, "a2", &[("order_other", "o1", 2, "杭州", 1_200)]).await;
    for (filter, oldest_first) in [
        (OrderFilter { city: Some("杭州".to_owned()), ..OrderFilter::default() }, false),
        (OrderFilter { statuses: vec![2], ..OrderFilter::default() }, false),
        (OrderFilter { statuses: vec![2], ..OrderFilter::default() }, true),
    ] {
        let (mut filter, mut pages) = (OrderFilter { oldest_first, ..filter }, Vec::new());
        loop {
            assert!(pages.len() < 9, "the pages end");
            let page = till.store.orders(&filter, 50).await.unwrap();
            pages.push(page.items.iter().map(|order| order.out_biz_order_no.to_string()).collect::<Vec<_>>());
            let Some(next) = page.next else { break };
            filter.after = Some(next);
        }
        let expected = if oldest_first {
            vec![vec!["order_first", "order_other"], vec![]]
        } else {
            vec![vec![], vec!["order_other", "order_first"]]
        };
        assert_eq!(pages, expected, "{filter:?}");
    }
}

/// Every status code of contract 4.3, and the tabs that show it.
#[tokio::test(flavor = "multi_thread")]
async fn each_tab_of_the_order_center_shows_the_orders_of_its_statuses() {
    let till = TestTill::start().await;
    till.app("a1").await;
    for code in OrderStatus::CODES {
        let number = format!("order_{code:02}");
        orders(&till, "a1", &[(&number, "o1", i16::try_from(code).unwrap(), "", -code)]).await;
    }
    let shown = async |tab: Tab| {
        let filter = OrderFilter {
            open_id: Some(OpenId::parse("o1").unwrap()),
            statuses: tab.statuses().to_vec(),
            ..of_app("a1")
        };
        let orders = till.store.orders(&filter, 100).await.unwrap().items.into_iter();
        orders.map(|order| i64::from(order.order_status)).collect::<Vec<_>>()
    };
    assert_eq!(shown(Tab::All).await, OrderStatus::CODES);
    assert_eq!(shown(Tab::ToPay).await, [1]);
    assert_eq!(shown(Tab::InProgress).await, [2, 10, 12, 13, 14]);
    assert_eq!(shown(Tab::AfterSale).await, [4, 5, 6]);
}

async fn report(till: &TestTill, app: &TestApp, img_id: &str, changes: Value) {
    let mut report = json!({
        "out_biz_order_no": "order_0001", "out_order_no": "payment_01", "open_id": "o1",
        "order_create_time": MADE, "order_status": 1, "order_path": PAGE, "product_cover_img_id": img_id,
    });
    report.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let target =
        format!("/openapi/mp/developer/order/v1/report?app_id={}&access_token={}", app.id, app.token);
    let answer = till.send(Request::post(&target).body(report.to_string())).await;
    answer.assert_body(r#"{"result":1,"error_msg":"success"}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_shows_its_payments_and_what_each_report_changed() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.app("a2").await;
    till.player(&app, "o1", 0, 0).await;
    let img_id = till.image(&app).await.to_string();
    report(&till, &app, &img_id, json!({})).await;
    report(&till, &app, &img_id, json!({"out_order_no": "payment_02", "product_city": "北京"})).await;
    report(&till, &app, &img_id, json!({"out_order_no": "payment_02", "product_city": "北京"})).await;
    report(&till, &app, &img_id, json!({"order_status": 10})).await;

    let number = OrderNo::parse("order_0001").unwrap();
    let order = till.store.order(&app.id, &number).await.unwrap().unwrap();
    assert_eq!((order.order_status, order.event_count, order.goods_kind), (10, 3, Some(GoodsKind::Virtual)));
    assert_eq!((order.out_order_no.as_str(), order.product_city.as_deref()), ("payment_01", Some("北京")));
    let payments = till.store.order_payments(&app.id, &number).await.unwrap();
    let payments: Vec<&str> = payments.iter().map(|payment| payment.out_order_no.as_str()).collect();
    assert_eq!(payments, ["payment_01", "payment_02"]);

    let events = till.store.order_events(&app.id, &number, None, 10).await.unwrap();
    let told: Vec<(i64, Value)> = events
        .iter()
        .map(|event| {
            let changes =
                event.changes.iter().map(|change| json!([change.field, change.before, change.after]));
            (event.seq, changes.collect())
        })
        .collect();
    let expected = [
        (
            3,
            json!([
                ["goods_kind", null, "virtual"],
                ["order_status", 1, 10],
                ["out_order_no", "payment_02", "payment_01"]
            ]),
        ),
        (2, json!([["out_order_no", "payment_01", "payment_02"], ["product_city", null, "北京"]])),
        (
            1,
            json!([
                ["open_id", null, "o1"],
                ["order_create_time", null, MADE],
                ["order_path", null, PAGE],
                ["order_status", null, 1],
                ["out_order_no", null, "payment_01"],
                ["product_cover_img_id", null, img_id]
            ]),
        ),
    ];
    assert_eq!(told, expected);
    let earlier = till.store.order_events(&app.id, &number, Some(3), 1).await.unwrap();
    assert_eq!(earlier.iter().map(|event| event.seq).collect::<Vec<_>>(), [2]);
    assert_eq!(earlier[0], events[1], "what a report changed does not depend on the page");

    // The same number of another app is another order, and here none.
    let other = AppId::parse("a2").unwrap();
    assert_eq!(till.store.order(&other, &number).await.unwrap(), None);
    assert!(till.store.order_events(&other, &number, None, 10).await.unwrap().is_empty());
    assert!(till.store.order_payments(&other, &number).await.unwrap().is_empty());
}
