//! The order report (spec 4.2, contract 4).

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use minitill::domain::ids::{OrderNo, PackageVersion, PagePath, PoiId};
use minitill::store::Category;

use crate::support::{Answer, AppKind, NOW, PAGE, Request, TestApp, TestTill};

const SUCCESS: &str = r#"{"result":1,"error_msg":"success"}"#;
const CREATED: i64 = 1_700_000_000_000;

/// A till with an app, a player and a picture.
struct Scene {
    till: TestTill,
    app: TestApp,
    img_id: String,
}

impl Scene {
    async fn new() -> Self {
        Self::like(AppKind::default()).await
    }

    async fn like(kind: AppKind) -> Self {
        let till = TestTill::start().await;
        let app = till.app_like("a1", kind).await;
        till.player(&app, "o1", 0, 0).await;
        till.player(&app, "o2", 0, 0).await;
        let img_id = till.image(&app).await.to_string();
        Self { till, app, img_id }
    }

    /// A report that is accepted.
    fn report(&self) -> Map<String, Value> {
        let report = json!({
            "out_biz_order_no": "order_0001",
            "out_order_no": "payment_01",
            "open_id": "o1",
            "order_create_time": CREATED,
            "order_status": 1,
            "order_path": PAGE,
            "product_cover_img_id": self.img_id,
        });
        report.as_object().unwrap().clone()
    }

    fn with(&self, changes: &[(&str, Value)]) -> Map<String, Value> {
        let mut report = self.report();
        for (name, value) in changes {
            report.insert((*name).to_owned(), value.clone());
        }
        report
    }

    async fn send(&self, report: &Map<String, Value>) -> Answer {
        self.send_text(&Value::Object(report.clone()).to_string()).await
    }

    async fn send_text(&self, body: &str) -> Answer {
        self.till.send(request(&self.app, body.as_bytes())).await
    }

    async fn send_with(&self, changes: &[(&str, Value)]) -> Answer {
        self.send(&self.with(changes)).await
    }

    async fn rows(&self) -> (i64, i64, i64) {
        let count = async |table: &str| self.till.number(&format!("SELECT count(*) FROM {table}")).await;
        (count("orders").await, count("order_events").await, count("order_payments").await)
    }
}

fn request(app: &TestApp, body: &[u8]) -> Request {
    let target =
        format!("/openapi/mp/developer/order/v1/report?app_id={}&access_token={}", app.id, app.token);
    Request::post(&target).header("content-type", "application/json").body(body)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_report_makes_the_order_and_a_later_one_updates_it() {
    let scene = Scene::new().await;
    scene.send(&scene.report()).await.assert_body(SUCCESS);
    assert_eq!(scene.rows().await, (1, 1, 1));
    // An identical repeat is success and adds no event.
    scene.send(&scene.report()).await.assert_body(SUCCESS);
    assert_eq!(scene.rows().await, (1, 1, 1));
    scene
        .send_with(&[("order_status", json!(2)), ("product_city", json!("上海市"))])
        .await
        .assert_body(SUCCESS);
    // What a report leaves out keeps its value.
    scene.send_with(&[("order_status", json!(10))]).await.assert_body(SUCCESS);
    assert_eq!(scene.rows().await, (1, 3, 1));
    let state = "SELECT count(*) FROM orders WHERE order_status = 10 AND product_city = '上海市' \
                 AND goods_kind = 'virtual' AND event_count = 3";
    assert_eq!(scene.till.number(state).await, 1);
    let statuses: Vec<i16> = sqlx::query_scalar("SELECT order_status FROM order_events ORDER BY seq")
        .fetch_all(&scene.till.sql)
        .await
        .unwrap();
    assert_eq!(statuses, [1, 2, 10]);
    let kept: Value = sqlx::query_scalar("SELECT report FROM order_events WHERE seq = 2")
        .fetch_one(&scene.till.sql)
        .await
        .unwrap();
    assert_eq!((&kept["product_city"], &kept["order_status"]), (&json!("上海市"), &json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_status_of_the_spec_is_accepted_and_no_other() {
    let scene = Scene::new().await;
    for status in [1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 15] {
        let number = format!("order_{status:04}");
        let answer = scene
            .send_with(&[
                ("order_status", json!(status)),
                ("out_biz_order_no", json!(number)),
                ("out_order_no", json!(number)),
            ])
            .await;
        answer.assert_body(SUCCESS);
    }
    for status in [json!(0), json!(7), json!(8), json!(9), json!(16), json!("x")] {
        let shown = status.as_str().map_or(status.to_string(), str::to_owned);
        let message = format!("order_status: expected a status code: 1 to 6 or 10 to 15, got \"{shown}\"");
        scene.send_with(&[("order_status", status)]).await.assert_refused(10_000_200, &message);
    }
    for (status, got) in
        [(json!(-1), "-1"), (json!(1.0), "1.0"), (json!(true), "true"), (json!([1]), "an array")]
    {
        let message = format!("order_status: expected a status code: 1 to 6 or 10 to 15, got {got}");
        scene.send_with(&[("order_status", status)]).await.assert_refused(10_000_200, &message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_required_field_is_named_when_it_is_absent_null_or_empty() {
    let scene = Scene::new().await;
    for name in scene.report().keys() {
        let mut absent = scene.report();
        absent.remove(name);
        for report in [absent, scene.with(&[(name, json!(null))]), scene.with(&[(name, json!(""))])] {
            scene.send(&report).await.assert_refused(10_000_200, &format!("{name} is missing"));
        }
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
}

/// Field, value, code and the text after the field's name.
#[expect(clippy::too_many_lines, reason = "a table, a row for each rule")]
fn bad_fields() -> Vec<(&'static str, Value, u64, String)> {
    let number = "6 to 32 of 0-9A-Za-z_-*";
    let url = "an absolute http or https URL with a host, at most 2048 bytes";
    let later = NOW + 5_001;
    vec![
        ("out_biz_order_no", json!("12345"), 10_000_200, format!("expected {number}, got \"12345\"")),
        (
            "out_biz_order_no",
            json!("x".repeat(33)),
            10_000_200,
            format!("expected {number}, got \"{}\"", "x".repeat(33)),
        ),
        ("out_order_no", json!("order 1"), 10_000_200, format!("expected {number}, got \"order 1\"")),
        ("out_order_no", json!({}), 10_000_200, format!("expected {number}, got an object")),
        ("open_id", json!("o 1"), 10_000_423, "expected 1 to 64 of 0-9A-Za-z_-, got \"o 1\"".to_owned()),
        ("open_id", json!("nobody"), 10_000_423, "expected a player of this app".to_owned()),
        ("open_id", json!(false), 10_000_200, "expected 1 to 64 of 0-9A-Za-z_-, got false".to_owned()),
        (
            "order_create_time",
            json!(1_700_000_000),
            10_000_200,
            "expected milliseconds (seconds given, milliseconds expected), got \"1700000000\"".to_owned(),
        ),
        (
            "order_create_time",
            json!(later),
            10_000_200,
            format!("expected a time in milliseconds at or before now, got \"{later}\""),
        ),
        (
            "order_create_time",
            json!("soon"),
            10_000_200,
            "expected milliseconds since 1970, got \"soon\"".to_owned(),
        ),
        (
            "order_create_time",
            json!(1.7e12),
            10_000_200,
            "expected milliseconds since 1970, got 1700000000000.0".to_owned(),
        ),
        (
            "product_cover_img_id",
            json!("short"),
            10_000_417,
            "expected 48 lower-case hexadecimal characters, got \"short\"".to_owned(),
        ),
        (
            "product_cover_img_id",
            json!("0".repeat(48)),
            10_000_417,
            "expected an image of this app".to_owned(),
        ),
        (
            "order_backup_url",
            json!("ftp://a.example"),
            10_000_419,
            format!("expected {url}, got \"ftp://a.example\""),
        ),
        ("order_backup_url", json!("/orders"), 10_000_419, format!("expected {url}, got \"/orders\"")),
        ("poi_id", json!("unknown"), 10_002_003, "expected one registered for this app".to_owned()),
        (
            "poi_id",
            json!("x".repeat(65)),
            10_002_003,
            format!("expected 1 to 64 bytes without control characters, got \"{}\"...", "x".repeat(64)),
        ),
        (
            "product_id",
            json!("x".repeat(65)),
            10_000_200,
            format!("expected 1 to 64 bytes, got \"{}\"...", "x".repeat(64)),
        ),
        ("product_catalog_code", json!(0), 10_000_200, "expected a positive integer, got \"0\"".to_owned()),
        ("product_catalog_code", json!(-3), 10_000_200, "expected a positive integer, got -3".to_owned()),
        (
            "product_city",
            json!("市".repeat(16)),
            10_000_200,
            format!("expected 1 to 15 characters, got \"{}\"", "市".repeat(16)),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_field_is_refused_by_its_own_rule_and_code() {
    let scene = Scene::new().await;
    for (name, value, code, message) in bad_fields() {
        let answer = scene.send_with(&[(name, value)]).await;
        answer.assert_refused(code, &format!("{name}: {message}"));
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_may_come_as_text_identifiers_as_integers_and_unknown_fields_are_ignored() {
    let scene = Scene::new().await;
    let body = format!(
        r#"{{"out_biz_order_no":20231101123456789012,"out_order_no":123456,"open_id":"o1","order_create_time":"{}",
            "order_status":"2","order_path":"/{PAGE}?id=1","product_cover_img_id":"{}","order_backup_url":"https://a.example/x?y=1",
            "poi_id":null,"product_id":77,"product_catalog_code":"5","product_city":"{}","sign":"x","app_id":[1,{{"a":2}}]}}"#,
        NOW + 5000,
        scene.img_id,
        "市".repeat(15)
    );
    scene.send_text(&body).await.assert_body(SUCCESS);
    let kept = format!(
        "SELECT count(*) FROM orders WHERE out_biz_order_no = '20231101123456789012' AND out_order_no = '123456' \
         AND order_create_time = {} AND order_path = '/{PAGE}?id=1' AND product_id = '77' AND product_catalog_code = 5 \
         AND poi_id IS NULL AND order_backup_url = 'https://a.example/x?y=1'",
        NOW + 5000
    );
    assert_eq!(scene.till.number(&kept).await, 1);
    // Whatever the content type says.
    let plain = request(&scene.app, body.as_bytes()).header("content-type", "text/plain");
    scene.till.send(plain).await.assert_body(SUCCESS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_not_one_json_object_is_refused() {
    let scene = Scene::new().await;
    let good = Value::Object(scene.report()).to_string();
    let twice = |more: &str| format!("{},{more}}}", good.trim_end_matches('}'));
    for (body, message) in [
        (String::new(), "body: expected a JSON object, got nothing"),
        ("[]".to_owned(), "body: expected a JSON object, got an array"),
        ("{\"a\":".to_owned(), "body: expected a JSON object, got a fault at line 1 column 5"),
        (twice(r#""open_id":"o1""#), "open_id: expected once, given twice"),
        (twice(r#""x":1,"x":2"#), "x: expected once, given twice"),
        (twice(r#""x":"\u0000""#), "x: expected text without NUL characters"),
        (twice(r#""x":"\ud800""#), "x: expected UTF-8 text"),
        (format!("{good}{good}"), "body: expected a JSON object, got a fault at line 1 column 233"),
    ] {
        let answer = scene.send_text(&body).await;
        assert_eq!((answer.status, answer.code()), (200, 10_000_200), "{}", answer.body);
        assert!(answer.message().starts_with(message.split(" at line").next().unwrap()), "{}", answer.body);
    }
    let not_text = scene.till.send(request(&scene.app, b"{\"a\":\"\xff\"}")).await;
    not_text.assert_refused(10_000_200, "body: expected UTF-8 text");
    let long = scene.send_text(&format!("{{\"x\":\"{}\"}}", "y".repeat(65_536))).await;
    assert_eq!(
        (long.status, long.body.as_str()),
        (413, r#"{"result":10000200,"error_msg":"body: expected at most 65536 bytes"}"#)
    );
    assert_eq!(scene.rows().await, (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_caller_needs_a_token_of_its_own_and_the_scope_before_anything_is_read() {
    let scene = Scene::new().await;
    let other = scene.till.app("a2").await;
    let bare = scene.till.app_like("a3", AppKind { scopes: &[], ..AppKind::default() }).await;
    let of = |query: &str| {
        Request::post(&format!("/openapi/mp/developer/order/v1/report?{query}")).body("nonsense")
    };
    let cases = [
        (String::new(), "app_id is missing"),
        ("app_id=a1".to_owned(), "access_token is missing"),
        (format!("app_id=a1&access_token={}", other.token), "access_token: expected a token of this app"),
        (format!("app_id=nobody&access_token={}", other.token), "app_id: unknown app"),
        (format!("app_id=a3&access_token={}", bare.token), "app_id: the app lacks the scope epay"),
    ];
    for (query, message) in cases {
        scene.till.send(of(&query)).await.assert_refused(100_200_102, message);
    }
    scene
        .till
        .send(of("app_id=a1&app_id=a1"))
        .await
        .assert_refused(10_000_200, "app_id: expected once, given twice");
    // The refusal comes although the body never does.
    let head = format!(
        "POST /openapi/mp/developer/order/v1/report?app_id=a3&access_token={} HTTP/1.1\r\nhost: till\r\ncontent-length: 60000\r\n\r\n",
        bare.token
    );
    let mut stream = TcpStream::connect(scene.till.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut received = vec![0; 2048];
    let length =
        tokio::time::timeout(Duration::from_secs(5), stream.read(&mut received)).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&received[..length]).contains("100200102"));
    scene.till.store.set_suspended(&scene.app.id, true).await.unwrap();
    scene.till.clock.advance(Duration::from_secs(3));
    scene.send(&scene.report()).await.assert_refused(100_200_102, "app_id: the app is suspended");
    scene.till.clock.advance(Duration::from_hours(48));
    scene.send(&scene.report()).await.assert_refused(100_200_102, "access_token: expired, request a new one");
    assert_eq!(scene.rows().await, (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_path_must_be_a_page_of_the_latest_published_package() {
    let scene = Scene::new().await;
    let path = async |path: &str| scene.send_with(&[("order_path", json!(path))]).await;
    for good in [PAGE, "/pages/order/detail", "pages/order/detail?id=1&x=/y", "/pages/order/detail?"] {
        path(good).await.assert_body(SUCCESS);
    }
    path("/pages/order/detial?id=1").await.assert_refused(
        10_001_007,
        "order_path: expected a page of the latest published package, got \"pages/order/detial\"; the nearest page is \
         \"pages/order/detail\"",
    );
    path("?id=1")
        .await
        .assert_refused(10_001_007, "order_path: expected an in-app path of 1 to 1024 bytes, got \"?id=1\"");
    // A stranger's order is about the player first.
    let both = scene.send_with(&[("order_path", json!("pages/x")), ("open_id", json!("nobody"))]).await;
    both.assert_refused(10_000_423, "open_id: expected a player of this app");
    let (version, page) = (PackageVersion::parse("2").unwrap(), PagePath::parse("pages/new").unwrap());
    scene.till.store.publish(&scene.app.id, &version, &[page]).await.unwrap();
    scene.till.clock.advance(Duration::from_secs(3));
    path("pages/new").await.assert_body(SUCCESS);
    assert_eq!(path(PAGE).await.code(), 10_001_007);
    scene.till.execute("DELETE FROM packages").await;
    scene.till.clock.advance(Duration::from_secs(3));
    path("pages/new").await.assert_refused(
        10_001_007,
        "order_path: expected a page of the latest published package, got \"pages/new\"; the app has published no package",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_another_app_is_as_what_does_not_exist() {
    let scene = Scene::new().await;
    let other = scene.till.app("a2").await;
    scene.till.player(&other, "theirs", 0, 0).await;
    let their_image = scene.till.image(&other).await.to_string();
    scene.till.store.add_pois(&other.id, &[PoiId::parse("their-poi").unwrap()]).await.unwrap();
    scene
        .send_with(&[("open_id", json!("theirs"))])
        .await
        .assert_refused(10_000_423, "open_id: expected a player of this app");
    let image = scene.send_with(&[("product_cover_img_id", json!(their_image))]).await;
    image.assert_refused(10_000_417, "product_cover_img_id: expected an image of this app");
    let poi = scene.send_with(&[("poi_id", json!("their-poi"))]).await;
    poi.assert_refused(10_002_003, "poi_id: expected one registered for this app");
    scene.till.store.add_pois(&scene.app.id, &[PoiId::parse("our-poi").unwrap()]).await.unwrap();
    scene.send_with(&[("poi_id", json!("our-poi"))]).await.assert_body(SUCCESS);
    // The same numbers in another app are another order.
    let mut report = scene.report();
    report.insert("open_id".to_owned(), json!("theirs"));
    report.insert("product_cover_img_id".to_owned(), json!(their_image));
    let body = Value::Object(report).to_string();
    scene.till.send(request(&other, body.as_bytes())).await.assert_body(SUCCESS);
    assert_eq!(scene.rows().await, (2, 2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_life_app_must_give_product_id_code_and_city() {
    let scene = Scene::like(AppKind { category: Category::LocalLife, ..AppKind::default() }).await;
    let full = scene.with(&[
        ("product_id", json!("p1")),
        ("product_catalog_code", json!(7)),
        ("product_city", json!("北京市朝阳区")),
    ]);
    for name in ["product_id", "product_catalog_code", "product_city"] {
        let mut report = full.clone();
        report.remove(name);
        scene.send(&report).await.assert_refused(10_000_200, &format!("{name} is missing"));
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
    scene.send(&full).await.assert_body(SUCCESS);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_preorder_check_the_payment_must_be_a_registered_preorder() {
    let scene = Scene::like(AppKind { preorder_check: true, ..AppKind::default() }).await;
    let message = "out_order_no: expected a payment pre-order of this app";
    scene.send(&scene.report()).await.assert_refused(10_002_018, message);
    assert_eq!(scene.rows().await, (0, 0, 0));
    scene.till.store.add_preorders(&scene.app.id, &[OrderNo::parse("payment_01").unwrap()]).await.unwrap();
    scene.send(&scene.report()).await.assert_body(SUCCESS);
    scene.send_with(&[("out_order_no", json!("payment_02"))]).await.assert_refused(10_002_018, message);
    assert_eq!(scene.rows().await, (1, 1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_and_create_time_of_an_order_do_not_change() {
    let scene = Scene::new().await;
    scene.send(&scene.report()).await.assert_body(SUCCESS);
    let owner = scene.send_with(&[("open_id", json!("o2")), ("order_status", json!(2))]).await;
    owner.assert_refused(10_000_423, "open_id: expected the owner of the order, who does not change");
    let time =
        scene.send_with(&[("order_create_time", json!(CREATED + 1)), ("order_status", json!(2))]).await;
    time.assert_refused(
        10_000_200,
        "order_create_time: expected 1700000000000, which does not change, got 1700000000001",
    );
    assert_eq!(scene.rows().await, (1, 1, 1));
    assert_eq!(
        scene.till.number("SELECT count(*) FROM orders WHERE open_id = 'o1' AND order_status = 1").await,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn several_payments_may_belong_to_an_order_but_one_payment_to_one_order_only() {
    let scene = Scene::new().await;
    scene.send(&scene.report()).await.assert_body(SUCCESS);
    scene.send_with(&[("out_order_no", json!("payment_02"))]).await.assert_body(SUCCESS);
    assert_eq!(scene.rows().await, (1, 2, 2));
    let stolen = scene.send_with(&[("out_biz_order_no", json!("order_0002"))]).await;
    stolen.assert_refused(
        10_000_200,
        "out_order_no: expected a payment of this order, got one of another order",
    );
    assert_eq!(scene.rows().await, (1, 2, 2));
    // Rule 1: order number and payment number may be the same.
    let same = [("out_biz_order_no", json!("order_0003")), ("out_order_no", json!("order_0003"))];
    scene.send_with(&same).await.assert_body(SUCCESS);
    assert_eq!(scene.rows().await, (2, 3, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn virtual_and_physical_goods_do_not_mix_and_any_other_transition_passes() {
    let scene = Scene::new().await;
    let status = async |status: i64| scene.send_with(&[("order_status", json!(status))]).await;
    for passing in [6, 1, 11, 10, 3] {
        status(passing).await.assert_body(SUCCESS);
    }
    for physical in 12..=15 {
        let message = format!("order_status: expected a status of virtual goods, got {physical}");
        status(physical).await.assert_refused(10_000_200, &message);
    }
    let second = |status: i64| {
        scene.with(&[
            ("out_biz_order_no", json!("order_0002")),
            ("out_order_no", json!("payment_02")),
            ("order_status", json!(status)),
        ])
    };
    scene.send(&second(12)).await.assert_body(SUCCESS);
    scene.send(&second(5)).await.assert_body(SUCCESS);
    for goods in [10, 11] {
        let message = format!("order_status: expected a status of physical goods, got {goods}");
        scene.send(&second(goods)).await.assert_refused(10_000_200, &message);
    }
    assert_eq!(scene.rows().await, (2, 7, 2));
}

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
