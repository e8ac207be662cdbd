//! The order report (contract 4).

mod body;
mod fields;
mod races;

use std::time::Duration;

use domain::app::Category;
use domain::ids::{OrderNo, PackageVersion, PagePath, PoiId};
use domain::operation::app::AppCommand;
use fields::bad_fields;
use serde_json::{Map, Value, json};

use crate::support::{Answer, AppKind, PAGE, Request, TestApp, TestTill};

const SUCCESS: &str = r#"{"result":1,"error_msg":"success"}"#;
const CREATED: i64 = 1_700_000_000_000;
/// The refusal of a player whom the app does not know.
fn unknown_player(open_id: &str) -> String {
    format!(
        "open_id: expected a player of this app; a login makes a player known, and so does the operator's `minitill user \
         add`, got \"{open_id}\""
    )
}

/// The refusal of a payment that the app has no pre-order for.
fn no_preorder(payment: &str) -> String {
    format!(
        "out_order_no: expected a payment pre-order of this app; the operator's `minitill app preorder add` registers it, \
         got \"{payment}\""
    )
}

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
        let message = format!("order_status: expected a status code: 1 to 6 or 10 to 15, got {status}");
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
        .assert_refused(10_001_007, "order_path: expected an in-app path of 1 to 1024 bytes, and at most 4096 with its query, got \"?id=1\"");
    // A stranger's order is about the player first.
    let both = scene.send_with(&[("order_path", json!("pages/x")), ("open_id", json!("nobody"))]).await;
    both.assert_refused(10_000_423, &unknown_player("nobody"));
    let (version, page) = (PackageVersion::parse("2").unwrap(), PagePath::parse("pages/new").unwrap());
    scene.till.command(&scene.app, AppCommand::Publish(version.clone(), vec![page])).await;
    scene.till.clock.advance(Duration::from_secs(3));
    path("pages/new").await.assert_body(SUCCESS);
    assert_eq!(path(PAGE).await.code(), 10_001_007);
    scene.till.execute("DELETE FROM packages").await;
    scene.till.clock.advance(Duration::from_secs(3));
    path("pages/new").await.assert_refused(
        10_001_007,
        "order_path: expected a page of the latest published package, got \"pages/new\"; the app has published no \
         package: the operator's `minitill app publish` does",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_another_app_is_as_what_does_not_exist() {
    let scene = Scene::new().await;
    let other = scene.till.app("a2").await;
    scene.till.player(&other, "theirs", 0, 0).await;
    let their_image = scene.till.image(&other).await.to_string();
    scene.till.command(&other, AppCommand::AddPois(vec![PoiId::parse("their-poi").unwrap()])).await;
    scene
        .send_with(&[("open_id", json!("theirs"))])
        .await
        .assert_refused(10_000_423, &unknown_player("theirs"));
    let image = scene.send_with(&[("product_cover_img_id", json!(their_image))]).await;
    image.assert_refused(
        10_000_417,
        &format!("product_cover_img_id: \"{their_image}\" is unknown here: upload the picture again"),
    );
    let poi = scene.send_with(&[("poi_id", json!("their-poi"))]).await;
    poi.assert_refused(
        10_002_003,
        "poi_id: expected one registered for this app; the operator's `minitill app poi add` registers it, got \"their-poi\"",
    );
    scene.till.command(&scene.app, AppCommand::AddPois(vec![PoiId::parse("our-poi").unwrap()])).await;
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
    scene.send(&scene.report()).await.assert_refused(10_002_018, &no_preorder("payment_01"));
    assert_eq!(scene.rows().await, (0, 0, 0));
    scene
        .till
        .command(&scene.app, AppCommand::AddPreorders(vec![OrderNo::parse("payment_01").unwrap()]))
        .await;
    scene.send(&scene.report()).await.assert_body(SUCCESS);
    scene
        .send_with(&[("out_order_no", json!("payment_02"))])
        .await
        .assert_refused(10_002_018, &no_preorder("payment_02"));
    assert_eq!(scene.rows().await, (1, 1, 1));
}

/// Rule 4.4.12.
#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_app_without_a_package_takes_any_path() {
    let scene = Scene::like(AppKind { sandbox: true, publishes: false, ..AppKind::default() }).await;
    scene.send_with(&[("order_path", json!("no/such/page?x=1"))]).await.assert_body(SUCCESS);
    let empty = scene.send_with(&[("order_path", json!(""))]).await;
    assert_eq!(empty.code(), 10_000_200, "{}", empty.body);
    let live = scene.till.app_like("a2", AppKind { publishes: false, ..AppKind::default() }).await;
    scene.till.player(&live, "o1", 0, 0).await;
    let mut report = scene.report();
    report.insert("product_cover_img_id".to_owned(), json!(scene.till.image(&live).await.to_string()));
    let refused = scene.till.send(request(&live, Value::Object(report).to_string().as_bytes())).await;
    refused.assert_refused(
        10_001_007,
        &format!(
            "order_path: expected a page of the latest published package, got \"{PAGE}\"; the app has published no \
             package: the operator's `minitill app publish` does"
        ),
    );
    let (version, pages) = (PackageVersion::parse("1").unwrap(), vec![PagePath::parse(PAGE).unwrap()]);
    scene.till.command(&scene.app, AppCommand::Publish(version, pages)).await;
    scene.till.clock.advance(Duration::from_secs(3));
    let refused = scene.send_with(&[("order_path", json!("no/such/page"))]).await;
    assert_eq!(refused.code(), 10_001_007, "with a package its pages count: {}", refused.body);
}

/// Rule 4.1.3.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_provider_sends_the_same_report_under_other_names() {
    let scene = Scene::new().await;
    let send_to = async |path: &str, query: String, more: &[(&str, Value)]| {
        let path = format!("/openapi/mp/{path}/order/v1/report?{query}");
        let body = Value::Object(scene.with(more)).to_string();
        scene.till.send(Request::post(&path).body(body)).await
    };
    let send = async |query: String| send_to("tp", query, &[]).await;
    let token = crate::support::encoded(&scene.app.token);
    for (query, text) in [
        ("x=1".to_owned(), "component_app_id is missing"),
        (
            "component_app_id=a1".to_owned(),
            "authorizer_access_token is missing; /oauth2/access_token gives one",
        ),
        (format!("app_id=a1&access_token={token}"), r#"component_app_id is missing; "app_id" came"#),
        (
            format!("component_app_id=a1&access_token={token}"),
            r#"authorizer_access_token is missing; "access_token" came"#,
        ),
        (format!("componentAppId=a1&x={token}"), r#"component_app_id is missing; "componentAppId" came"#),
        (
            format!("component_app_id=a1&amp;authorizer_access_token={token}"),
            r#"authorizer_access_token is missing; "amp;authorizer_access_token" came"#,
        ),
        (
            format!("component_app_id=a1?authorizer_access_token={token}"),
            r#"authorizer_access_token is missing; it came in the value of component_app_id: join fields with "&""#,
        ),
        (
            format!("component_app_id=a9&authorizer_access_token={token}"),
            r#"component_app_id: unknown app "a9"; use the id that the operator of this till gave you"#,
        ),
        (
            "component_app_id=a1&authorizer_access_token=x".to_owned(),
            "authorizer_access_token: expected a token of this app from /oauth2/access_token",
        ),
    ] {
        send(query).await.assert_refused(100_200_102, text);
    }
    let in_the_body = [("component_app_id", json!("a1")), ("authorizer_access_token", json!("x"))];
    for (query, field) in [("", "component_app_id"), ("component_app_id=a1", "authorizer_access_token")] {
        let text = format!("{field}: expected in the query, it came in the body");
        send_to("tp", query.to_owned(), &in_the_body).await.assert_refused(100_200_102, &text);
    }
    let query = format!("component_app_id=a1&authorizer_access_token={token}");
    let text = r#"app_id is missing; "component_app_id" came"#;
    send_to("developer", query, &[]).await.assert_refused(100_200_102, text);
    assert_eq!(scene.rows().await, (0, 0, 0));
    let query = format!("component_app_id=a1&authorizer_access_token={token}&app_id=a2");
    send(query).await.assert_body(SUCCESS);
    // It is the same order, so the same report changes nothing.
    scene.send(&scene.report()).await.assert_body(SUCCESS);
    assert_eq!(scene.rows().await, (1, 1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_an_order_does_not_change() {
    let scene = Scene::new().await;
    scene.send(&scene.report()).await.assert_body(SUCCESS);
    let owner = scene.send_with(&[("open_id", json!("o2")), ("order_status", json!(2))]).await;
    owner.assert_refused(10_000_423, "open_id: expected the owner of the order, who does not change");
    assert_eq!(scene.rows().await, (1, 1, 1));
    assert_eq!(
        scene.till.number("SELECT count(*) FROM orders WHERE open_id = 'o1' AND order_status = 1").await,
        1
    );
}

/// Rule (contract 4.4.6): a client that sends the present time with every report succeeds. The order
/// keeps the first time, and the event of each report keeps its own.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_keeps_its_first_create_time_and_an_event_that_of_its_report() {
    let scene = Scene::new().await;
    let report = async |time: i64, status: i64| {
        let changes = [("order_create_time", json!(time)), ("order_status", json!(status))];
        scene.send_with(&changes).await.assert_body(SUCCESS);
    };
    report(CREATED, 1).await;
    report(CREATED - 1000, 2).await;
    report(CREATED + 1000, 2).await;
    assert_eq!(scene.rows().await, (1, 3, 1));
    // An identical repeat adds no event.
    report(CREATED + 1000, 2).await;
    assert_eq!(scene.rows().await, (1, 3, 1));
    report(CREATED, 2).await;
    assert_eq!(scene.rows().await, (1, 4, 1));
    let times: Vec<i64> =
        sqlx::query_scalar("SELECT (report ->> 'order_create_time')::bigint FROM order_events ORDER BY seq")
            .fetch_all(&scene.till.sql)
            .await
            .unwrap();
    assert_eq!(times, [CREATED, CREATED - 1000, CREATED + 1000, CREATED]);
    let kept = scene.till.number("SELECT order_create_time FROM orders").await;
    assert_eq!(kept, CREATED);
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
async fn an_optional_field_that_is_left_out_null_or_empty_keeps_its_value() {
    let scene = Scene::new().await;
    scene.till.command(&scene.app, AppCommand::AddPois(vec![PoiId::parse("poi 1").unwrap()])).await;
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
    scene.till.command(&scene.app, AppCommand::Publish(version.clone(), vec![page])).await;
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
async fn a_path_is_compared_exactly_and_the_nearest_of_several_pages_is_named() {
    let scene = Scene::new().await;
    let version = PackageVersion::parse("2").unwrap();
    let longest = format!("pages/{}", "x".repeat(1018));
    let pages: Vec<PagePath> = ["pages/index", "pages/order/list", "pages/order/detail", &longest]
        .map(|page| PagePath::parse(page).unwrap())
        .to_vec();
    scene.till.command(&scene.app, AppCommand::Publish(version.clone(), pages.clone())).await;
    scene.till.clock.advance(Duration::from_secs(3));
    let path = async |path: &str| scene.send_with(&[("order_path", json!(path))]).await;
    let query = format!("pages/index?{}", "x".repeat(4084));
    for good in ["pages/index", "/pages/order/list#top", "/pages/index?next=pages/none?", &query, &longest] {
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
        ("pages/order", "pages/order", "pages/order/list"),
        ("pages/order/", "pages/order/", "pages/order/list"),
    ] {
        let message = format!(
            "order_path: expected a page of the latest published package, got \"{read}\"; the nearest page is \
             \"{nearest}\""
        );
        path(sent).await.assert_refused(10_001_007, &message);
    }
    // What a developer can make the server compare is short.
    let long = "pages/order/detail".repeat(4);
    let message =
        format!("order_path: expected a page of the latest published package, got \"{}\"...", &long[..64]);
    path(&long).await.assert_refused(10_001_007, &message);
    let expected = "an in-app path of 1 to 1024 bytes, and at most 4096 with its query";
    for bad in ["/", "?", "#", "/?id=1"] {
        let message = format!("order_path: expected {expected}, got {bad:?}");
        path(bad).await.assert_refused(10_001_007, &message);
    }
    for bad in ["pages/in\ndex", "pages/index\n", "//pages/index"] {
        let message = format!(
            "order_path: expected {expected}, without control characters and without // at its beginning, got {bad:?}"
        );
        path(bad).await.assert_refused(10_001_007, &message);
    }
    let message = format!("order_path: expected {expected}, got \"{}\"...", &longest[..64]);
    path(&format!("{longest}x")).await.assert_refused(10_001_007, &message);
    // The query counts for the length of the whole alone.
    let message = format!("order_path: expected {expected}, got \"pages/index?{}\"...", "x".repeat(52));
    path(&format!("pages/index?{}", "x".repeat(4085))).await.assert_refused(10_001_007, &message);
    assert_eq!(scene.books().await, books);
    // The page may have gone from the package; what was published last counts.
    let first = PackageVersion::parse("1").unwrap();
    scene.till.command(&scene.app, AppCommand::Publish(first.clone(), pages[..1].to_vec())).await;
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
        for (nothing, problem) in [(json!(null), "missing"), (json!(""), "empty")] {
            let mut report = scene.with(&given);
            report.insert((*name).to_owned(), nothing);
            // The order has the value, but the report must bring it.
            scene.send(&report).await.assert_refused(10_000_200, &format!("{name} is {problem}"));
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
    scene.till.command(&other, AppCommand::AddPreorders(vec![OrderNo::parse("payment_01").unwrap()])).await;
    scene.send(&scene.report()).await.assert_refused(10_002_018, &no_preorder("payment_01"));
    assert_eq!(scene.rows().await, (0, 0, 0));
    let theirs =
        scene.with(&[("product_cover_img_id", json!(their_image)), ("out_order_no", json!("payment_77"))]);
    let body = Value::Object(theirs).to_string();
    scene.till.send(request(&other, body.as_bytes())).await.assert_body(SUCCESS);
}
