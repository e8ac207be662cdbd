//! The order report (spec 4.2, contract 4).

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use minitill::domain::ids::{OrderNo, PackageVersion, PagePath, PoiId};
use minitill::store::Category;

use crate::support::{Answer, AppKind, NOW, PAGE, Request, TestApp, TestTill, operator};

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

    /// A report with one value written exactly so.
    async fn send_raw(&self, name: &str, value: &str) -> Answer {
        let marked = Value::Object(self.with(&[(name, json!("@raw@"))])).to_string();
        self.send_text(&marked.replace("\"@raw@\"", value)).await
    }

    async fn send_with(&self, changes: &[(&str, Value)]) -> Answer {
        self.send(&self.with(changes)).await
    }

    async fn rows(&self) -> (i64, i64, i64) {
        let count = async |table: &str| self.till.number(&format!("SELECT count(*) FROM {table}")).await;
        (count("orders").await, count("order_events").await, count("order_payments").await)
    }

    /// Everything that reports have written, times included.
    async fn books(&self) -> Vec<String> {
        let mut books = Vec::new();
        for table in ["orders", "order_events", "order_payments"] {
            let rows = format!("SELECT '{table}: ' || t::text FROM {table} t ORDER BY 1");
            let rows = sqlx::query_scalar::<_, String>(sqlx::AssertSqlSafe(rows));
            books.extend(rows.fetch_all(&self.till.sql).await.unwrap());
        }
        books
    }

    /// Status and payment after each event of an order, oldest first.
    async fn history(&self) -> Vec<(i16, String)> {
        sqlx::query_as("SELECT order_status, report->>'out_order_no' FROM order_events ORDER BY seq")
            .fetch_all(&self.till.sql)
            .await
            .unwrap()
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
    scene.till.store.set_suspended(&operator(), &scene.app.id, true).await.unwrap();
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
    scene.till.store.publish(&operator(), &scene.app.id, &version, &[page]).await.unwrap();
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
    scene.till.store.add_pois(&operator(), &other.id, &[PoiId::parse("their-poi").unwrap()]).await.unwrap();
    scene
        .send_with(&[("open_id", json!("theirs"))])
        .await
        .assert_refused(10_000_423, "open_id: expected a player of this app");
    let image = scene.send_with(&[("product_cover_img_id", json!(their_image))]).await;
    image.assert_refused(10_000_417, "product_cover_img_id: expected an image of this app");
    let poi = scene.send_with(&[("poi_id", json!("their-poi"))]).await;
    poi.assert_refused(10_002_003, "poi_id: expected one registered for this app");
    scene.till.store.add_pois(&operator(), &scene.app.id, &[PoiId::parse("our-poi").unwrap()]).await.unwrap();
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
    scene
        .till
        .store
        .add_preorders(&operator(), &scene.app.id, &[OrderNo::parse("payment_01").unwrap()])
        .await
        .unwrap();
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

/// Every field, and what its refusals say was expected.
const EXPECTED: [(&str, &str); 12] = [
    ("out_biz_order_no", "6 to 32 of 0-9A-Za-z_-*"),
    ("out_order_no", "6 to 32 of 0-9A-Za-z_-*"),
    ("open_id", "1 to 64 of 0-9A-Za-z_-"),
    ("order_create_time", "milliseconds since 1970"),
    ("order_status", "a status code: 1 to 6 or 10 to 15"),
    ("order_path", "an in-app path of 1 to 1024 bytes"),
    ("product_cover_img_id", "48 lower-case hexadecimal characters"),
    ("order_backup_url", "an absolute http or https URL with a host, at most 2048 bytes"),
    ("poi_id", "1 to 64 bytes without control characters"),
    ("product_id", "1 to 64 bytes"),
    ("product_catalog_code", "a positive integer"),
    ("product_city", "1 to 15 characters"),
];

/// Contract 2.5: whatever code a malformed value has, a value of a wrong type is 10000200.
#[tokio::test(flavor = "multi_thread")]
async fn a_boolean_an_object_an_array_a_float_or_a_sign_is_refused_in_every_field() {
    let scene = Scene::new().await;
    for (name, expected) in EXPECTED {
        for (value, got) in [
            ("false", "false"),
            ("true", "true"),
            ("{}", "an object"),
            (r#"{"a":"b"}"#, "an object"),
            ("[]", "an array"),
            ("[1]", "an array"),
            ("1.0", "1.0"),
            ("1000000.5", "1000000.5"),
            ("1e3", "1e3"),
            ("1E+3", "1E+3"),
            ("-1", "-1"),
            ("-0", "-0"),
        ] {
            let answer = scene.send_raw(name, value).await;
            answer.assert_refused(10_000_200, &format!("{name}: expected {expected}, got {got}"));
        }
        // No JSON at all.
        for value in ["01", "+1", "0x1", ".5", "1.", "NaN", "'1'", ""] {
            let answer = scene.send_raw(name, value).await;
            assert_eq!((answer.status, answer.code()), (200, 10_000_200), "{name} {value}: {}", answer.body);
            let start = "body: expected a JSON object, got a fault at line 1 column ";
            assert!(answer.message().starts_with(start), "{name} {value}: {}", answer.body);
        }
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
}

/// Contract 2.5: integers are canonical when they come as text, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_as_text_has_no_sign_leading_zero_exponent_or_space() {
    let scene = Scene::new().await;
    for (name, expected) in EXPECTED {
        if !["order_create_time", "order_status", "product_catalog_code"].contains(&name) {
            continue;
        }
        for text in ["+1", "-1", "01", "1.0", "1e0", " 1", "1 ", "0x1", "１", "1_0", "9223372036854775808"] {
            let answer = scene.send_with(&[(name, json!(text))]).await;
            answer.assert_refused(10_000_200, &format!("{name}: expected {expected}, got \"{text}\""));
        }
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
    let largest = scene.send_with(&[("product_catalog_code", json!(i64::MAX.to_string()))]).await;
    largest.assert_body(SUCCESS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_time_is_in_milliseconds_and_the_allowed_skew_is_a_setting() {
    let till = TestTill::start_with(|config| config.order.clock_skew_max = Duration::ZERO).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 0).await;
    let img_id = till.image(&app).await.to_string();
    let scene = Scene { till, app, img_id };
    let send = async |time: i64, number: &str| {
        let changes = [
            ("order_create_time", json!(time)),
            ("out_biz_order_no", json!(number)),
            ("out_order_no", json!(number)),
        ];
        scene.send_with(&changes).await
    };
    for seconds in [0, 1, NOW / 1000, 9_999_999_999] {
        let message = format!(
            "order_create_time: expected milliseconds (seconds given, milliseconds expected), got \"{seconds}\""
        );
        send(seconds, "order_0000").await.assert_refused(10_000_200, &message);
    }
    for later in [NOW + 1, NOW * 1000, i64::MAX] {
        let message =
            format!("order_create_time: expected a time in milliseconds at or before now, got \"{later}\"");
        send(later, "order_0000").await.assert_refused(10_000_200, &message);
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
    send(10_000_000_000, "order_0001").await.assert_body(SUCCESS);
    send(NOW, "order_0002").await.assert_body(SUCCESS);
    // Time goes on.
    scene.till.clock.advance(Duration::from_millis(1));
    send(NOW + 1, "order_0003").await.assert_body(SUCCESS);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_six_and_32_characters_are_accepted_and_no_other_characters() {
    let scene = Scene::new().await;
    for (biz, payment) in [("a-_*Z9", "000000"), (&"9".repeat(32), &"*".repeat(32))] {
        let changes = [("out_biz_order_no", json!(biz)), ("out_order_no", json!(payment))];
        scene.send_with(&changes).await.assert_body(SUCCESS);
    }
    let books = scene.books().await;
    for name in ["out_biz_order_no", "out_order_no"] {
        for bad in ["a.bcde", "a/bcde", " order1", "order1 ", "order号", "order\n1", "１２３４５６", "a+bcde"]
        {
            let answer = scene.send_with(&[(name, json!(bad))]).await;
            let message = format!("{name}: expected 6 to 32 of 0-9A-Za-z_-*, got {bad:?}");
            answer.assert_refused(10_000_200, &message);
        }
        let integer = scene.send_raw(name, "12345").await;
        let message = format!("{name}: expected 6 to 32 of 0-9A-Za-z_-*, got \"12345\"");
        integer.assert_refused(10_000_200, &message);
    }
    assert_eq!(scene.books().await, books);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_url_is_absolute_http_or_https_with_a_host_and_at_most_2048_bytes() {
    let scene = Scene::new().await;
    let of = |length: usize| format!("https://a.example/{}", "p".repeat(length - 18));
    let good = ["http://a.example", "HTTPS://a.example:8443/b?c=d&e=f#g", "http://[2001:db8::1]/", &of(2048)];
    for url in good {
        scene.send_with(&[("order_backup_url", json!(url))]).await.assert_body(SUCCESS);
    }
    let books = scene.books().await;
    let expected = "an absolute http or https URL with a host, at most 2048 bytes";
    for url in [
        "a.example",
        "//a.example/b",
        "http://",
        "https:///",
        "http:// a.example",
        "http://a.example/b c",
        "http://a.example/\n",
        "http://[::1",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "wss://a.example",
        "77",
    ] {
        let message = format!("order_backup_url: expected {expected}, got {url:?}");
        scene.send_with(&[("order_backup_url", json!(url))]).await.assert_refused(10_000_419, &message);
    }
    let long = of(2049);
    let message = format!("order_backup_url: expected {expected}, got \"{}\"...", &long[..64]);
    scene.send_with(&[("order_backup_url", json!(long))]).await.assert_refused(10_000_419, &message);
    // An identifier may come as an integer, and this one is no URL.
    let integer = scene.send_raw("order_backup_url", "77").await;
    integer.assert_refused(10_000_419, &format!("order_backup_url: expected {expected}, got \"77\""));
    assert_eq!(scene.books().await, books);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_id_is_taken_exactly_as_it_was_given() {
    let scene = Scene::new().await;
    let expected = "48 lower-case hexadecimal characters";
    let (upper, short, long) =
        (scene.img_id.to_uppercase(), scene.img_id[1..].to_owned(), format!("{}0", scene.img_id));
    for bad in [upper, short, long, format!(" {}", &scene.img_id[1..]), format!("{}%", &scene.img_id[1..])] {
        let message = format!("product_cover_img_id: expected {expected}, got \"{bad}\"");
        scene.send_with(&[("product_cover_img_id", json!(bad))]).await.assert_refused(10_000_417, &message);
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_optional_field_that_is_left_out_null_or_empty_keeps_its_value() {
    let scene = Scene::new().await;
    scene.till.store.add_pois(&operator(), &scene.app.id, &[PoiId::parse("poi 1").unwrap()]).await.unwrap();
    let given = [
        ("order_backup_url", json!("https://a.example/1")),
        ("poi_id", json!("poi 1")),
        ("product_id", json!("p1")),
        ("product_catalog_code", json!(5)),
        ("product_city", json!("上海市")),
    ];
    scene.send(&scene.report()).await.assert_body(SUCCESS);
    scene.send_with(&given).await.assert_body(SUCCESS);
    let books = scene.books().await;
    assert_eq!(scene.rows().await, (1, 2, 1));
    for nothing in [json!(null), json!("")] {
        let blank: Vec<(&str, Value)> = given.iter().map(|(name, _)| (*name, nothing.clone())).collect();
        scene.send_with(&blank).await.assert_body(SUCCESS);
    }
    scene.send(&scene.report()).await.assert_body(SUCCESS);
    // The same values in other dress are the same report.
    scene.send_with(&[("product_catalog_code", json!("5"))]).await.assert_body(SUCCESS);
    assert_eq!(scene.books().await, books, "neither the order nor its times changed");
    // One that is given is taken, and the others stay.
    scene.send_with(&[("product_catalog_code", json!(6))]).await.assert_body(SUCCESS);
    let state = "SELECT count(*) FROM orders WHERE order_backup_url = 'https://a.example/1' AND poi_id = 'poi 1' \
                 AND product_id = 'p1' AND product_catalog_code = 6 AND product_city = '上海市' AND event_count = 3";
    assert_eq!(scene.till.number(state).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_report_that_changes_something_is_an_event_with_its_time_also_one_back() {
    let scene = Scene::new().await;
    for (status, payment) in
        [(1, "payment_01"), (2, "payment_01"), (2, "payment_02"), (2, "payment_02"), (1, "payment_01")]
    {
        let changes = [("order_status", json!(status)), ("out_order_no", json!(payment))];
        scene.send_with(&changes).await.assert_body(SUCCESS);
    }
    let expected = [(1, "payment_01"), (2, "payment_01"), (2, "payment_02"), (1, "payment_01")];
    assert_eq!(scene.history().await, expected.map(|(status, payment)| (status, payment.to_owned())));
    assert_eq!(scene.rows().await, (1, 4, 2));
    let in_order = "SELECT count(*) FROM order_events later JOIN order_events earlier ON earlier.seq + 1 = later.seq \
                    WHERE later.at > earlier.at";
    assert_eq!(scene.till.number(in_order).await, 3);
    let kept: Value = sqlx::query_scalar("SELECT report FROM order_events WHERE seq = 3")
        .fetch_one(&scene.till.sql)
        .await
        .unwrap();
    assert_eq!(
        kept,
        json!({
            "out_order_no": "payment_02", "open_id": "o1", "order_create_time": CREATED, "order_status": 2,
            "goods_kind": null, "order_path": PAGE, "product_cover_img_id": scene.img_id, "order_backup_url": null,
            "poi_id": null, "product_id": null, "product_catalog_code": null, "product_city": null,
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_report_changes_nothing_of_an_order_that_is_there() {
    let scene = Scene::new().await;
    let (version, page) = (PackageVersion::parse("2").unwrap(), PagePath::parse("pages/other").unwrap());
    scene.send_with(&[("order_status", json!(10))]).await.assert_body(SUCCESS);
    let second = [("out_biz_order_no", json!("order_0002")), ("out_order_no", json!("payment_02"))];
    scene.send_with(&second).await.assert_body(SUCCESS);
    let books = scene.books().await;
    // Each would change the order and bring a new payment, were it not for the one field.
    let mut cases: Vec<(&str, Value, u64)> =
        bad_fields().into_iter().map(|(name, value, code, _)| (name, value, code)).collect();
    cases.extend([
        ("open_id", json!("o2"), 10_000_423),
        ("order_create_time", json!(CREATED - 1), 10_000_200),
        ("order_status", json!(12), 10_000_200),
        ("order_path", json!("pages/other"), 10_001_007),
        ("out_order_no", json!("payment_02"), 10_000_200),
    ]);
    for (name, value, code) in cases {
        let changes =
            [("order_status", json!(11)), ("out_order_no", json!("payment_99")), (name, value.clone())];
        let answer = scene.send_with(&changes).await;
        assert_eq!((answer.status, answer.code()), (200, code), "{name} {value}: {}", answer.body);
        assert_eq!(scene.books().await, books, "{name} {value}");
    }
    scene.till.store.publish(&operator(), &scene.app.id, &version, &[page]).await.unwrap();
    scene.till.clock.advance(Duration::from_secs(3));
    assert_eq!(scene.send_with(&[("order_status", json!(11))]).await.code(), 10_001_007);
    assert_eq!(scene.books().await, books);
    // The payment of the refusals was not taken by them.
    let changes = [
        ("out_biz_order_no", json!("order_0002")),
        ("out_order_no", json!("payment_99")),
        ("order_path", json!("pages/other")),
    ];
    scene.send_with(&changes).await.assert_body(SUCCESS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_given_twice_is_refused_whatever_its_values_and_however_it_is_written() {
    let scene = Scene::new().await;
    let good = Value::Object(scene.report()).to_string();
    let with = |more: &str| format!("{},{more}}}", good.trim_end_matches('}'));
    for (name, value) in scene.report() {
        for value in [value, json!(null), json!(""), json!([])] {
            let answer = scene.send_text(&with(&format!("\"{name}\":{value}"))).await;
            answer.assert_refused(10_000_200, &format!("{name}: expected once, given twice"));
        }
    }
    for (more, name) in [
        (r#""open\u005fid":"o1""#, "open_id"),
        (r#""sign":null,"sign":null"#, "sign"),
        (r#""poi_id":null,"poi_id":"""#, "poi_id"),
        (r#""":1,"":1"#, "a field without a name"),
    ] {
        let answer = scene.send_text(&with(more)).await;
        answer.assert_refused(10_000_200, &format!("{name}: expected once, given twice"));
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
    // Nested keys are no fields, and case makes another name.
    let nested = with(r#""nested":{"open_id":1,"open_id":2},"Open_id":"o2""#);
    scene.send_text(&nested).await.assert_body(SUCCESS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_as_long_as_allowed_is_read_and_one_byte_more_is_413() {
    let scene = Scene::new().await;
    let good = Value::Object(scene.report()).to_string();
    let padded = |length: usize| {
        let head = format!("{},\"x\":\"", good.trim_end_matches('}'));
        format!("{head}{}\"}}", "y".repeat(length - head.len() - 2))
    };
    let long = scene.send_text(&padded(65_537)).await;
    assert_eq!(
        (long.status, long.body.as_str()),
        (413, r#"{"result":10000200,"error_msg":"body: expected at most 65536 bytes"}"#)
    );
    assert_eq!(long.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(scene.rows().await, (0, 0, 0));
    scene.send_text(&padded(65_536)).await.assert_body(SUCCESS);
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_nesting_in_an_unknown_field_is_ignored_and_harms_nobody() {
    let scene = Scene::new().await;
    let good = Value::Object(scene.report()).to_string();
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let depth = 10_000;
        let inner = if open == "[" { "" } else { "1" };
        let nested = format!("{}{inner}{}", open.repeat(depth), close.repeat(depth));
        let body = format!("{},\"x\":{nested}}}", good.trim_end_matches('}'));
        scene.send_text(&body).await.assert_body(SUCCESS);
        let answer = scene.send_text(&nested).await;
        assert_eq!((answer.status, answer.code()), (200, 10_000_200), "{}", answer.body);
    }
}

/// Contract 2.1: the text tells what came.
#[tokio::test(flavor = "multi_thread")]
async fn more_fields_than_allowed_are_refused_in_words() {
    let scene = Scene::new().await;
    let good = Value::Object(scene.report()).to_string();
    let with_fields = |count: usize| {
        let more: Vec<String> = (7..count).map(|index| format!("\"f{index}\":1")).collect();
        format!("{},{}}}", good.trim_end_matches('}'), more.join(","))
    };
    scene.send_text(&with_fields(256)).await.assert_body(SUCCESS);
    for count in [257, 258, 300, 1000] {
        let answer = scene.send_text(&with_fields(count)).await;
        answer.assert_refused(10_000_200, "expected at most 256 fields");
    }
}

/// Contract 2.1: valid JSON that is no object has no fault at any column; the text tells what came.
#[tokio::test(flavor = "multi_thread")]
async fn a_json_value_that_is_no_object_is_refused_for_what_it_is() {
    let scene = Scene::new().await;
    for body in ["", " \r\n\t"] {
        let answer = scene.send_text(body).await;
        answer.assert_refused(10_000_200, "body: expected a JSON object, got nothing");
    }
    for body in ["[]", "[{}]", "[1,2]"] {
        let answer = scene.send_text(body).await;
        answer.assert_refused(10_000_200, "body: expected a JSON object, got an array");
    }
    for body in ["null", "true", "1", "\"text\""] {
        let answer = scene.send_text(body).await;
        assert_eq!((answer.status, answer.code()), (200, 10_000_200), "{}", answer.body);
        assert!(!answer.message().contains("a fault"), "{body}: {}", answer.body);
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
}

/// What comes back to a head that announces a body which never comes.
async fn answer_without_a_body(till: &TestTill, query: &str) -> String {
    let head = format!(
        "POST /openapi/mp/developer/order/v1/report?{query} HTTP/1.1\r\nhost: till\r\ncontent-type: application/json\r\n\
         content-length: 60000\r\n\r\n"
    );
    let mut stream = TcpStream::connect(till.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut received = vec![0; 4096];
    let reading = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut received));
    let length = reading.await.expect("a refusal that waits for no body").unwrap();
    String::from_utf8_lossy(&received[..length]).into_owned()
}

/// Contract 2.6.
#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_of_credentials_comes_before_the_body_does() {
    let scene = Scene::new().await;
    let till = &scene.till;
    let other = till.app("a2").await;
    let bare = till.app_like("a3", AppKind { scopes: &["Epay", "epay2"], ..AppKind::default() }).await;
    let suspended = till.app("a4").await;
    till.store.set_suspended(&operator(), &suspended.id, true).await.unwrap();
    let (short, _) = till.store.issue_token(&scene.app.id, Duration::from_secs(10)).await.unwrap().unwrap();
    till.clock.advance(Duration::from_secs(10));
    let of = |app_id: &str, token: &str| format!("app_id={app_id}&access_token={token}");
    for (query, message) in [
        (String::new(), "app_id is missing"),
        (format!("access_token={}", scene.app.token), "app_id is missing"),
        (of("", &scene.app.token), "app_id is missing"),
        ("app_id=a1".to_owned(), "access_token is missing"),
        (of("a1", ""), "access_token is missing"),
        (of("a1", &other.token), "access_token: expected a token of this app"),
        (of("a1", "never-issued"), "access_token: expected a token of this app"),
        (of("a1", &scene.app.secret), "access_token: expected a token of this app"),
        (of("a1", &short), "access_token: expired, request a new one"),
        (of("a2", &short), "access_token: expected a token of this app"),
        (of("nobody", &scene.app.token), "app_id: unknown app"),
        (of("a%2F1", &scene.app.token), "app_id: unknown app"),
        (of("A1", &scene.app.token), "app_id: unknown app"),
        (of("a3", &bare.token), "app_id: the app lacks the scope epay"),
        (of("a4", &suspended.token), "app_id: the app is suspended"),
        (of("a4", &other.token), "access_token: expected a token of this app"),
    ] {
        let text = answer_without_a_body(till, &query).await;
        assert!(text.starts_with("HTTP/1.1 200 "), "{query}: {text}");
        let body = format!(r#"{{"result":100200102,"error_msg":"{message}"}}"#);
        assert!(text.ends_with(&body), "{query}: {text}");
    }
    for (more, message) in [
        ("app_id=a1", "app_id: expected once, given twice"),
        ("x=1&x=2", "x: expected once, given twice"),
        ("x=%FF", "x: expected UTF-8 text"),
        ("x=%00", "x: expected text without NUL characters"),
    ] {
        let query = format!("{}&{more}", of("a1", &scene.app.token));
        let text = answer_without_a_body(till, &query).await;
        let body = format!(r#"{{"result":10000200,"error_msg":"{message}"}}"#);
        assert!(text.ends_with(&body), "{more}: {text}");
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
}

/// Contract 2.9: the query decides the tenant, and only the query.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_in_the_body_are_unknown_fields() {
    let scene = Scene::new().await;
    let other = scene.till.app("a2").await;
    let body = Value::Object(scene.with(&[("app_id", json!("a2")), ("access_token", json!(other.token))]));
    let stranger = Request::post("/openapi/mp/developer/order/v1/report").body(body.to_string());
    scene.till.send(stranger).await.assert_refused(100_200_102, "app_id is missing");
    scene.send_text(&body.to_string()).await.assert_body(SUCCESS);
    assert_eq!(scene.till.number("SELECT count(*) FROM orders WHERE app_id = 'a1'").await, 1);
    assert_eq!(scene.rows().await, (1, 1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_is_compared_exactly_and_the_nearest_of_several_pages_is_named() {
    let scene = Scene::new().await;
    let version = PackageVersion::parse("2").unwrap();
    let longest = format!("pages/{}", "x".repeat(1018));
    let pages: Vec<PagePath> = ["pages/index", "pages/order/list", "pages/order/detail", &longest]
        .map(|page| PagePath::parse(page).unwrap())
        .to_vec();
    scene.till.store.publish(&operator(), &scene.app.id, &version, &pages).await.unwrap();
    scene.till.clock.advance(Duration::from_secs(3));
    let path = async |path: &str| scene.send_with(&[("order_path", json!(path))]).await;
    for good in ["pages/index", "/pages/order/list#top", "/pages/index?next=pages/none?", &longest] {
        path(good).await.assert_body(SUCCESS);
    }
    let books = scene.books().await;
    for (sent, read, nearest) in [
        ("/pages/indx?a=1", "pages/indx", "pages/index"),
        ("pages/order/lists", "pages/order/lists", "pages/order/list"),
        ("Pages/index", "Pages/index", "pages/index"),
        ("pages/order/detail/", "pages/order/detail/", "pages/order/detail"),
        ("pages/order/detail%3Fid=1", "pages/order/detail%3Fid=1", "pages/order/detail"),
        (" pages/index", " pages/index", "pages/index"),
    ] {
        let message = format!(
            "order_path: expected a page of the latest published package, got \"{read}\"; the nearest page is \
             \"{nearest}\""
        );
        path(sent).await.assert_refused(10_001_007, &message);
    }
    let expected = "an in-app path of 1 to 1024 bytes";
    for bad in ["/", "?", "#", "/?id=1", "pages/in\ndex"] {
        let message = format!("order_path: expected {expected}, got {bad:?}");
        path(bad).await.assert_refused(10_001_007, &message);
    }
    let message = format!("order_path: expected {expected}, got \"{}\"...", &longest[..64]);
    path(&format!("{longest}x")).await.assert_refused(10_001_007, &message);
    assert_eq!(scene.books().await, books);
    // The page may have gone from the package; what was published last counts.
    let first = PackageVersion::parse("1").unwrap();
    scene.till.store.publish(&operator(), &scene.app.id, &first, &pages[..1]).await.unwrap();
    scene.till.clock.advance(Duration::from_secs(3));
    path("pages/index").await.assert_body(SUCCESS);
    assert_eq!(path("pages/order/list").await.code(), 10_001_007);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_life_app_must_give_its_fields_in_every_report_and_none_empty() {
    let scene = Scene::like(AppKind { category: Category::LocalLife, ..AppKind::default() }).await;
    let given = [
        ("product_id", json!("x".repeat(64))),
        ("product_catalog_code", json!(1)),
        ("product_city", json!("市".repeat(15))),
    ];
    scene.send_with(&given).await.assert_body(SUCCESS);
    let books = scene.books().await;
    for (name, _) in &given {
        for nothing in [json!(null), json!("")] {
            let mut report = scene.with(&given);
            report.insert((*name).to_owned(), nothing);
            // The order has the value, but the report must bring it.
            scene.send(&report).await.assert_refused(10_000_200, &format!("{name} is missing"));
        }
    }
    let mut long = scene.with(&given);
    long.insert("product_id".to_owned(), json!("市".repeat(22)));
    // Bytes count here, characters only in the city.
    let message = format!("product_id: expected 1 to 64 bytes, got \"{}\"", "市".repeat(22));
    scene.send(&long).await.assert_refused(10_000_200, &message);
    assert_eq!(scene.books().await, books);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preorder_of_another_app_is_none_and_without_the_check_nobody_asks() {
    let scene = Scene::like(AppKind { preorder_check: true, ..AppKind::default() }).await;
    let other = scene.till.app("a2").await;
    scene.till.player(&other, "o1", 0, 0).await;
    let their_image = scene.till.image(&other).await.to_string();
    scene
        .till
        .store
        .add_preorders(&operator(), &other.id, &[OrderNo::parse("payment_01").unwrap()])
        .await
        .unwrap();
    let message = "out_order_no: expected a payment pre-order of this app";
    scene.send(&scene.report()).await.assert_refused(10_002_018, message);
    assert_eq!(scene.rows().await, (0, 0, 0));
    let theirs =
        scene.with(&[("product_cover_img_id", json!(their_image)), ("out_order_no", json!("payment_77"))]);
    let body = Value::Object(theirs).to_string();
    scene.till.send(request(&other, body.as_bytes())).await.assert_body(SUCCESS);
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
