//! Orders in the console.

use domain::console_user::Role;

use serde_json::Value;

use crate::admin::Caller;
use crate::support::console::{ESCAPED, HOSTILE};
use crate::support::program::Program;
use crate::support::{NOW, TestTill};

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
    let with = viewer.get("/console/orders").await.body;
    assert!(with.contains(column), "{with}");
    let start = "<thead><tr><th scope=\"col\">Created</th><th scope=\"col\">Order</th>";
    assert!(with.contains(start), "the time is not cut off: {with}");
    till.execute("UPDATE orders SET product_city = NULL").await;
    let without = viewer.get("/console/orders").await.body;
    assert!(without.contains("order_1") && !without.contains(column), "{without}");
}

/// Writes an order in this status, made this many minutes ago and reported then; then other reports, each with its
/// status and age in minutes.
async fn order_with_reports(till: &TestTill, number: &str, reports: &[(i16, i64)]) {
    let (made, (status, last)) = (reports[0].1, *reports.last().unwrap());
    let count = reports.len();
    till.execute(&format!(
        "INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
                order_path, product_cover_img_id, event_count, created_at, updated_at)
         VALUES ('a1', '{number}', '{number}', 'o1',
                 (extract(epoch FROM now() - make_interval(mins => {made})) * 1000)::bigint, {status}, 'p', 'x', {count},
                 now() - make_interval(mins => {made}), now() - make_interval(mins => {last}))"
    ))
    .await;
    for (index, (status, age)) in reports.iter().enumerate() {
        till.execute(&format!(
            "INSERT INTO order_events (app_id, out_biz_order_no, seq, order_status, report, at)
             VALUES ('a1', '{number}', {}, {status}, '{{}}', now() - make_interval(mins => {age}))",
            index + 1
        ))
        .await;
    }
}

/// The order numbers of a list, in its order.
fn of_list(orders: &Value) -> Vec<&str> {
    orders.as_array().unwrap().iter().map(|order| order["out_biz_order_no"].as_str().unwrap()).collect()
}

/// The order numbers of a page, in their order.
fn numbers(page: &str) -> Vec<&str> {
    let rest = page.split("<th scope=\"row\"").skip(1);
    rest.map(|cell| cell.split("title=\"").nth(1).unwrap().split('"').next().unwrap()).collect()
}

const DAY: i64 = 24 * 60;

/// Rule 8.6.27: an order is stuck while its status stays, whatever else is reported.
#[tokio::test(flavor = "multi_thread")]
async fn stuck_orders_are_those_whose_status_stays() {
    let till = TestTill::start().await;
    till.app("a1").await;
    for (number, reports) in [
        ("stuck_long", vec![(2, 5 * DAY), (12, 4 * DAY)]),
        // Its path was reported anew an hour ago.
        ("stuck_with_news", vec![(12, 2 * DAY), (12, 60)]),
        ("moved_lately", vec![(2, 6 * DAY), (12, 60)]),
        // It was in this status before, and comes back to it.
        ("moved_and_back", vec![(12, 6 * DAY), (13, 90), (12, 60)]),
        ("came_back_alone", vec![(13, 6 * DAY), (12, 60), (12, 30)]),
        ("closed_long_ago", vec![(15, 9 * DAY)]),
        ("fresh_order", vec![(1, 120)]),
    ] {
        order_with_reports(&till, number, &reports).await;
    }
    let viewer = till.browser(Role::Viewer).await;
    for (path, class) in [("/console", "class=\"button\" "), ("/console/orders", "")] {
        let page = viewer.get(path).await.body;
        let address = "/console/orders?status=open&#38;longer=1d&#38;sort=oldest";
        let link = format!("<a {class}href=\"{address}\">Stuck orders</a>");
        assert!(page.contains(&link), "{page}");
    }
    let shown = async |query: &str| {
        let page = viewer.get(&format!("/console/orders?{query}")).await;
        assert_eq!(page.status, 200, "{query}");
        numbers(&page.body).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(shown("status=open&longer=1d&sort=oldest").await, ["stuck_long", "stuck_with_news"]);
    assert_eq!(shown("status=open&longer=1d").await, ["stuck_with_news", "stuck_long"]);
    assert_eq!(shown("status=open&longer=3d").await, ["stuck_long"]);
    assert_eq!(shown("longer=1d&sort=oldest").await, ["closed_long_ago", "stuck_long", "stuck_with_news"]);
    assert_eq!(
        shown("status=open&longer=1h40m&sort=oldest").await,
        ["stuck_long", "stuck_with_news", "fresh_order"]
    );
    assert_eq!(shown("status=open&longer=50m&sort=newest").await.len(), 6);
    assert_eq!(shown("status=1").await, ["fresh_order"]);
    // The admin API and the command line take the same words.
    let caller = Caller::new(&till, "watch", Role::Viewer).await;
    let program = Program::on(&till.database_url);
    for (query, options, orders) in [
        (
            "status=open&longer=1d&sort=oldest",
            &["--status", "open", "--longer", "1d", "--oldest-first"][..],
            &["stuck_long", "stuck_with_news"][..],
        ),
        (
            "status=open&longer=1d",
            &["--status", "open", "--longer", "1d"],
            &["stuck_with_news", "stuck_long"],
        ),
        ("status=1", &["--status", "1"], &["fresh_order"]),
    ] {
        let listed = caller.get(&format!("/orders?{query}")).await.json();
        assert_eq!(of_list(&listed["items"]), orders, "{query}");
        let printed = program.json(&[&["order", "list", "a1"], options].concat());
        assert_eq!(of_list(&printed["orders"]), orders, "{options:?}");
    }
    let stuck = viewer.get("/console/orders?status=open&longer=1d&sort=oldest").await.body;
    assert!(stuck.contains("sort=oldest\" aria-current=\"page\">Stuck orders</a>"), "{stuck}");
    assert!(stuck.contains("their status has not changed for a day. The oldest is the first."));
    for (query, named) in [
        ("longer=soon", "Expected a duration such as 36h or 5d, at most 36500d, got &#34;soon&#34;."),
        ("longer=36501d", "Expected a duration such as 36h or 5d, at most 36500d, got &#34;36501d&#34;."),
        ("sort=age", "Expected newest or oldest, got &#34;age&#34;."),
        ("rows=51", "Expected 50, 100 or 200, got &#34;51&#34;."),
    ] {
        let page = viewer.get(&format!("/console/orders?{query}")).await;
        assert_eq!(page.status, 400, "{query}");
        assert!(page.body.contains(named), "{query}: {}", page.body);
    }
}

/// Rule 8.6.27: pages of 50, 100 or 200 orders in both directions hold each order once.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_as_many_orders_as_wanted_in_both_directions() {
    let till = TestTill::start().await;
    till.app("a1").await;
    till.app("a2").await;
    // Many of one moment, in two apps.
    till.execute(
        "INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
                order_path, product_cover_img_id, event_count)
         SELECT CASE WHEN n % 2 = 0 THEN 'a1' ELSE 'a2' END, 'order_' || n, 'order_' || n, 'o1',
                1700000000000 + n / 40, 1, 'p', 'x', 1 FROM generate_series(1000, 1229) n",
    )
    .await;
    let viewer = till.browser(Role::Viewer).await;
    let all = async |rows: &str, sort: &str| {
        let (mut path, mut seen, mut sizes) =
            (format!("/console/orders?rows={rows}&sort={sort}"), Vec::new(), Vec::new());
        loop {
            let page = viewer.get(&path).await.body;
            let found = numbers(&page);
            sizes.push(found.len());
            seen.extend(found.into_iter().map(str::to_owned));
            let words = if sort == "oldest" { "Newer orders" } else { "Older orders" };
            let Some((before, _)) = page.split_once(&format!("\" rel=\"next\">{words}</a>")) else { break };
            path = before.rsplit("href=\"").next().unwrap().replace("&#38;", "&");
        }
        (seen, sizes)
    };
    let (newest, sizes) = all("", "").await;
    assert_eq!(sizes, [50, 50, 50, 50, 30]);
    assert_eq!(all("100", "newest").await, (newest.clone(), vec![100, 100, 30]));
    let oldest: Vec<String> = newest.iter().rev().cloned().collect();
    assert_eq!(all("200", "oldest").await, (oldest.clone(), vec![200, 30]));
    assert_eq!(all("50", "oldest").await, (oldest, vec![50, 50, 50, 50, 30]));
}

/// Rule 8.6.27: presets are whole days of the zone of the page, and keep the rest of the search.
#[tokio::test(flavor = "multi_thread")]
async fn presets_choose_a_range_and_keep_the_search() {
    let till =
        TestTill::start_with(|config| config.console.time_zone = "Pacific/Kiritimati".parse().unwrap()).await;
    till.app("a1").await;
    // The clock of a test till stands at 08:00 UTC of 15 January, and 22:00 there.
    let (today, tomorrow) = ("2027-01-15", "2027-01-16");
    assert_eq!(NOW, 1_800_000_000_000);
    order_with_reports(&till, "order_of_now", &[(1, 0)]).await;
    till.execute("UPDATE orders SET order_create_time = 1800000000000").await;
    let viewer = till.browser(Role::Viewer).await;
    let page = viewer.get("/console/orders?app_id=a1&after=1.a1.order_1").await.body;
    let address = format!("/console/orders?app_id=a1&#38;from={today}T00%3A00&#38;to={tomorrow}T00%3A00");
    assert!(page.contains(&format!("<li><a href=\"{address}\">Today</a></li>")), "{page}");
    for name in ["Yesterday", "Last 7 days", "Last 30 days", "This month", "Last month"] {
        assert!(page.contains(&format!(">{name}</a></li>")), "{name}");
    }
    let chosen = viewer.get(&address.replace("&#38;", "&")).await.body;
    assert!(
        chosen.contains(&format!("<li><a href=\"{address}\" aria-current=\"true\">Today</a></li>")),
        "{chosen}"
    );
    assert_eq!(numbers(&chosen), ["order_of_now"]);
}
