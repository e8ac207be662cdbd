//! Orders in the console.

use domain::console_user::Role;

use crate::support::TestTill;
use crate::support::console::{ESCAPED, HOSTILE};

/// An order whose every free text is hostile, and its first report.
async fn hostile_order(till: &TestTill, app: &str, number: &str, link: &str) {
    let text = HOSTILE.replace('\'', "''");
    till.execute(&format!(
        "INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
                order_path, product_cover_img_id, order_backup_url, poi_id, product_id, product_catalog_code,
                product_city, event_count)
         VALUES ('{app}', '{number}', 'payment_1', 'o1', 1700000000000, 14, '{text}', '{}', '{link}', '{text}', '{text}',
                77, '{text}', 1);
         INSERT INTO order_payments (app_id, out_order_no, out_biz_order_no) VALUES ('{app}', 'payment_1', '{number}');
         INSERT INTO order_events (app_id, out_biz_order_no, seq, order_status, report)
         SELECT app_id, out_biz_order_no, 1, order_status, to_jsonb(orders) FROM orders",
        "0".repeat(48)
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_found_and_shown_and_all_its_texts_are_text() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 0).await;
    hostile_order(&till, "a1", "order_1", "https://shop.example/o?a=<b>").await;
    let viewer = till.browser(Role::Viewer).await;
    for path in [
        "/console/orders",
        "/console/orders?number=payment_1",
        "/console/orders?app_id=a1&open_id=o1&status=14&from=2023-11-14&to=2023-11-15",
        "/console/apps/a1/orders/order_1",
        "/console/orders/center?app_id=a1&open_id=o1",
        "/console/orders/center?app_id=a1&open_id=o1&tab=in_progress",
    ] {
        let page = viewer.get(path).await;
        assert_eq!(page.status, 200, "{path}");
        for fact in ["/console/apps/a1/orders/order_1", "Pending receipt", "2023-11-14 22:13:20"] {
            let is_its_own = path == "/console/apps/a1/orders/order_1" && fact == path;
            assert!(is_its_own || page.body.contains(fact), "{path}: {fact}");
        }
        assert!(page.body.contains(ESCAPED) && !page.body.contains("<img src=x"), "{path}");
    }
    for path in [
        "/console/orders?status=1",
        "/console/orders?app_id=a2",
        "/console/orders?to=2023-11-14",
        "/console/orders?city=%25",
        "/console/orders/center?app_id=a1&open_id=o1&tab=to_pay",
    ] {
        let page = viewer.get(path).await;
        assert!(page.status == 200 && !page.body.contains("order_1"), "{path}");
    }
    let searched = viewer.get("/console/orders?city=%3Cimg").await;
    assert!(searched.body.contains("value=\"&#60;img\""), "what was typed is text as well");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fallback_link_is_the_address_it_leads_to_and_only_web_addresses_are_links() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 0).await;
    // A Cyrillic letter that looks like a Latin one.
    hostile_order(&till, "a1", "order_1", "https://аpple.example/x").await;
    let viewer = till.browser(Role::Viewer).await;
    let link = "<a href=\"https://xn--pple-43d.example/x\" rel=\"noopener noreferrer nofollow\" \
                referrerpolicy=\"no-referrer\">https://xn--pple-43d.example/x</a>";
    for path in ["/console/apps/a1/orders/order_1", "/console/orders/center?app_id=a1&open_id=o1"] {
        assert!(viewer.get(path).await.body.contains(link), "{path}");
    }
    till.execute("UPDATE orders SET order_backup_url = 'javascript:alert(1)'").await;
    for path in ["/console/apps/a1/orders/order_1", "/console/orders/center?app_id=a1&open_id=o1"] {
        assert!(!viewer.get(path).await.body.contains("href=\"javascript:"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_apps_order_and_an_unknown_player_are_not_found() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.app("a2").await;
    till.player(&app, "o1", 0, 0).await;
    hostile_order(&till, "a1", "order_1", "https://shop.example/").await;
    let viewer = till.browser(Role::Viewer).await;
    for path in [
        "/console/apps/a2/orders/order_1",
        "/console/apps/a1/orders/order_2",
        "/console/apps/a1/orders/%3Cb%3E",
        "/console/orders/center?app_id=a2&open_id=o1",
    ] {
        let page = viewer.get(path).await;
        assert_eq!(page.status, 404, "{path}");
        assert!(!page.body.contains("<b>"), "{path}");
    }
    for path in
        ["/console/orders?number=%3Cb%3E", "/console/orders?after=x", "/console/orders/center?app_id=%3Cb%3E"]
    {
        assert_eq!(viewer.get(path).await.status, 400, "{path}");
    }
}

/// The link to the next page keeps what was searched for.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_search_hold_each_order_once() {
    let till = TestTill::start().await;
    till.app("a1").await;
    till.execute(
        "INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
                order_path, product_cover_img_id, product_city, event_count)
         SELECT 'a1', 'order_' || n, 'order_' || n, 'o1', 1700000000000 + n, CASE WHEN n % 2 = 0 THEN 1 ELSE 2 END,
                'p', 'x', 'A&B', 1 FROM generate_series(100, 330) n",
    )
    .await;
    let viewer = till.browser(Role::Viewer).await;
    let mut path = "/console/orders?app_id=a1&status=1&city=A%26B".to_owned();
    let mut seen = Vec::new();
    loop {
        let page = viewer.get(&path).await.body;
        let numbers = page.split("/console/apps/a1/orders/").skip(1);
        seen.extend(numbers.map(|rest| rest.split('"').next().unwrap().to_owned()));
        let Some(next) = page.split("rel=\"next\"").next().filter(|_| page.contains("rel=\"next\"")) else {
            break;
        };
        path = next.rsplit("href=\"").next().unwrap().split('"').next().unwrap().replace("&#38;", "&");
    }
    let expected: Vec<String> =
        (100..=330).rev().filter(|n| n % 2 == 0).map(|n| format!("order_{n}")).collect();
    assert_eq!(seen, expected);
}

/// Rule: a column that would be empty is left out.
#[tokio::test(flavor = "multi_thread")]
async fn a_column_without_a_value_is_left_out() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 0).await;
    hostile_order(&till, "a1", "order_1", "https://shop.example/").await;
    let viewer = till.browser(Role::Viewer).await;
    let column = "<th scope=\"col\">City</th>";
    assert!(viewer.get("/console/orders").await.body.contains(column));
    till.execute("UPDATE orders SET product_city = NULL").await;
    let without = viewer.get("/console/orders").await.body;
    assert!(without.contains("order_1") && !without.contains(column), "{without}");
}
