//! Races around an order report (contract 4.4), whoever reports and however many at once. The
//! answers are those of reports that came one after another, and each write is whole.
//!
//! In some cases the moment matters. Then the test holds a lock in the database until the writers of two servers have
//! read what is there and wait to write. So both decide on the same, soon outdated, state.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::support::{Answer, NOW, PAGE, Request, TestTill, until};

const SUCCESS: &str = r#"{"result":1,"error_msg":"success"}"#;
const STOLEN: &str = "out_order_no: expected a payment of this order, got one of another order";

/// Two servers on one database, and what a report needs.
struct Scene {
    first: TestTill,
    second: TestTill,
    target: String,
    img_id: String,
}

/// A transaction of the test's own that reports have to wait for.
struct Held(sqlx::Transaction<'static, sqlx::Postgres>);

impl Scene {
    async fn new() -> Self {
        let first = TestTill::start().await;
        let second = TestTill::start_on(first.database_url.clone(), |_| ()).await;
        let app = first.app("a1").await;
        first.player(&app, "o1", 0, 0).await;
        let img_id = first.image(&app).await.to_string();
        let target =
            format!("/openapi/mp/developer/order/v1/report?app_id={}&access_token={}", app.id, app.token);
        let scene = Self { first, second, target, img_id };
        // A wait for a lock is short. Sessions that are open already begin to wait at the same time.
        let refused = scene.with("order_0000", "payment_00", "open_id", json!("nobody"));
        let answers = scene.start([refused.clone(), refused]).join_all().await;
        assert_eq!(sorted_codes(&answers), [10_000_423; 2]);
        scene
    }

    /// A report of this order with this payment number, in status 1.
    fn report(&self, order: &str, payment: &str) -> Map<String, Value> {
        let report = json!({
            "out_biz_order_no": order,
            "out_order_no": payment,
            "open_id": "o1",
            "order_create_time": NOW - 1000,
            "order_status": 1,
            "order_path": PAGE,
            "product_cover_img_id": self.img_id,
        });
        report.as_object().unwrap().clone()
    }

    fn with(&self, order: &str, payment: &str, name: &str, value: Value) -> Map<String, Value> {
        let mut report = self.report(order, payment);
        report.insert(name.to_owned(), value);
        report
    }

    fn request(&self, report: Map<String, Value>) -> Request {
        Request::post(&self.target).body(Value::Object(report).to_string())
    }

    async fn send(&self, report: Map<String, Value>) -> Answer {
        self.first.send(self.request(report)).await
    }

    /// Sends reports at once, by turns to each server.
    fn start(&self, reports: impl IntoIterator<Item = Map<String, Value>>) -> JoinSet<Answer> {
        let mut tries = JoinSet::new();
        for (index, report) in reports.into_iter().enumerate() {
            let request = self.request(report);
            let address = if index % 2 == 0 { self.first.address } else { self.second.address };
            tries.spawn(async move { request.send(address).await });
        }
        tries
    }

    async fn hold(&self, statement: &'static str) -> Held {
        let mut transaction = self.first.sql.begin().await.unwrap();
        sqlx::raw_sql(statement).execute(&mut *transaction).await.unwrap();
        Held(transaction)
    }

    /// Until the writers of both servers wait for a lock. Later reports wait in their queues.
    async fn both_wait(&self) {
        self.all_wait(2).await;
    }

    /// Until this many sessions wait for a lock.
    async fn all_wait(&self, count: i64) {
        self.first.until_locked_out(count).await;
    }

    /// Orders, events, payments.
    async fn rows(&self) -> (i64, i64, i64) {
        let count = async |table: &str| self.first.number(&format!("SELECT count(*) FROM {table}")).await;
        (count("orders").await, count("order_events").await, count("order_payments").await)
    }

    /// Each order has events without a gap and is as the last one says. Each payment is that of an
    /// event of the order it belongs to.
    async fn assert_books_whole(&self) {
        for wrong in [
            "SELECT count(*) FROM orders o WHERE ARRAY(SELECT generate_series(1, o.event_count)) <> ARRAY( \
                 SELECT seq FROM order_events e \
                 WHERE (e.app_id, e.out_biz_order_no) = (o.app_id, o.out_biz_order_no) ORDER BY seq)",
            "SELECT count(*) FROM orders o LEFT JOIN order_events e \
                 ON (e.app_id, e.out_biz_order_no, e.seq) = (o.app_id, o.out_biz_order_no, o.event_count) \
             WHERE e.order_status IS DISTINCT FROM o.order_status OR e.report IS DISTINCT FROM to_jsonb(o) \
                 - '{app_id,out_biz_order_no,event_count,created_at,updated_at}'::text[]",
            "SELECT count(*) FROM order_events e LEFT JOIN orders o USING (app_id, out_biz_order_no) \
             WHERE o.app_id IS NULL",
            "SELECT count(*) FROM (SELECT DISTINCT app_id, report->>'out_order_no', out_biz_order_no \
                 FROM order_events) e (app_id, out_order_no, out_biz_order_no) \
             FULL JOIN order_payments p USING (app_id, out_order_no, out_biz_order_no) \
             WHERE e IS NULL OR p IS NULL",
        ] {
            assert_eq!(self.first.number(wrong).await, 0, "{wrong}");
        }
    }
}

impl Held {
    async fn release(self) {
        self.0.rollback().await.unwrap();
    }
}

fn sorted_codes(answers: &[Answer]) -> Vec<u64> {
    let mut codes: Vec<u64> = answers.iter().map(Answer::code).collect();
    codes.sort_unstable();
    codes
}

#[tokio::test(flavor = "multi_thread")]
async fn many_reports_of_one_order_on_two_servers_are_all_written_each_once() {
    const REPORTS: i64 = 160;
    let scene = Scene::new().await;
    let reports = (0..REPORTS).map(|index| {
        scene.with("order_0001", &format!("payment_{index:03}"), "order_status", json!(1 + index % 6))
    });
    for answer in scene.start(reports).join_all().await {
        answer.assert_body(SUCCESS);
    }
    assert_eq!(scene.rows().await, (1, REPORTS, REPORTS));
    assert_eq!(scene.first.number("SELECT event_count FROM orders").await, REPORTS);
    scene.assert_books_whole().await;
}

/// A field that a report leaves out keeps its value (decision 16): also the value that another
/// report is just writing.
#[tokio::test(flavor = "multi_thread")]
async fn reports_that_have_read_the_same_order_do_not_undo_each_other() {
    let scene = Scene::new().await;
    scene.send(scene.report("order_0001", "payment_01")).await.assert_body(SUCCESS);
    let fields = [
        ("product_id", json!("p1")),
        ("product_catalog_code", json!(7)),
        ("product_city", json!("上海市")),
        ("order_backup_url", json!("https://shop.example/1")),
    ];
    let held = scene.hold("SELECT 1 FROM orders FOR UPDATE").await;
    let tries = scene.start(
        fields
            .iter()
            .map(|(name, value)| scene.with("order_0001", &format!("payment_{name}"), name, value.clone())),
    );
    scene.both_wait().await;
    held.release().await;
    for answer in tries.join_all().await {
        answer.assert_body(SUCCESS);
    }
    assert_eq!(scene.rows().await, (1, 5, 5));
    scene.assert_books_whole().await;
    // Each event keeps what the one before it had, and adds one field.
    let kept = "SELECT count(*) FROM order_events WHERE seq - 1 = num_nonnulls(report->>'product_id', \
                report->>'product_catalog_code', report->>'product_city', report->>'order_backup_url')";
    assert_eq!(scene.first.number(kept).await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn identical_reports_that_have_read_the_same_add_one_event() {
    let scene = Scene::new().await;
    // No report can make the order before this ends, and every report sees none.
    let held = scene
        .hold(
            "INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status, \
             order_path, product_cover_img_id, event_count) VALUES ('a1', 'order_0001', '', '', 0, 1, '', '', 1)",
        )
        .await;
    let tries = scene.start(vec![scene.report("order_0001", "payment_01"); 8]);
    scene.both_wait().await;
    held.release().await;
    for answer in tries.join_all().await {
        answer.assert_body(SUCCESS);
    }
    assert_eq!(scene.rows().await, (1, 1, 1));
    let held = scene.hold("SELECT 1 FROM orders FOR UPDATE").await;
    let paid = scene.with("order_0001", "payment_02", "order_status", json!(2));
    let tries = scene.start(vec![paid; 8]);
    scene.both_wait().await;
    held.release().await;
    for answer in tries.join_all().await {
        answer.assert_body(SUCCESS);
    }
    assert_eq!(scene.rows().await, (1, 2, 2));
    scene.assert_books_whole().await;
}

/// First for eight orders that are new, then for eight that are there.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_eight_orders_claim_at_once_goes_to_one_and_the_others_write_nothing() {
    let scene = Scene::new().await;
    // Nobody can claim the number before this ends, and everybody sees that nobody has.
    let first = "INSERT INTO order_payments (app_id, out_order_no, out_biz_order_no) VALUES ('a1', 'payment_01', 'x')";
    let second = "INSERT INTO order_payments (app_id, out_order_no, out_biz_order_no) VALUES ('a1', 'payment_02', 'x')";
    let refusals_of = |answers: &[Answer]| {
        assert_eq!(sorted_codes(answers), [1].into_iter().chain([10_000_200; 7]).collect::<Vec<_>>());
        for answer in answers.iter().filter(|answer| answer.code() != 1) {
            answer.assert_refused(10_000_200, STOLEN);
        }
    };
    let held = scene.hold(first).await;
    let tries = scene.start((0..8).map(|index| scene.report(&format!("order_{index:04}"), "payment_01")));
    scene.both_wait().await;
    held.release().await;
    refusals_of(&tries.join_all().await);
    assert_eq!(scene.rows().await, (1, 1, 1));
    scene.assert_books_whole().await;

    for index in 0..8 {
        let (order, payment) = (format!("there_{index:04}"), format!("own_{index:04}"));
        scene.send(scene.report(&order, &payment)).await.assert_body(SUCCESS);
    }
    let held = scene.hold(second).await;
    let paid = |index: i64| scene.with(&format!("there_{index:04}"), "payment_02", "order_status", json!(2));
    let tries = scene.start((0..8).map(paid));
    scene.both_wait().await;
    held.release().await;
    refusals_of(&tries.join_all().await);
    assert_eq!(scene.rows().await, (9, 10, 10));
    scene.assert_books_whole().await;
}

/// A report that changes its order, one that gives it another owner's goods and a repeat. The
/// refusals are those of the state that the winner left.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_lost_is_judged_by_what_the_winner_wrote() {
    let scene = Scene::new().await;
    scene.send(scene.report("order_0001", "payment_01")).await.assert_body(SUCCESS);
    let held = scene.hold("SELECT 1 FROM orders FOR UPDATE").await;
    let goods =
        |status: i64| scene.with("order_0001", &format!("payment_{status}"), "order_status", json!(status));
    let tries = scene.start([10, 12, 10, 12].map(goods));
    scene.both_wait().await;
    held.release().await;
    assert_eq!(sorted_codes(&tries.join_all().await), [1, 1, 10_000_200, 10_000_200]);
    // The two that agree are identical.
    assert_eq!(scene.rows().await, (1, 2, 2));
    scene.assert_books_whole().await;
}

/// Neither a sender that hangs up nor a server that stops decides between the two statements.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_arrived_is_written_although_its_connection_is_cut() {
    let scene = Scene::new().await;
    let stopping = TestTill::start_on(scene.first.database_url.clone(), |config| {
        config.http.drain_timeout = Duration::from_millis(50);
    })
    .await;
    let held = scene.hold("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE").await;
    let bytes = scene.request(scene.report("order_0001", "payment_01")).bytes();
    let mut sender = TcpStream::connect(stopping.address).await.unwrap();
    sender.write_all(&bytes).await.unwrap();
    // It waits to read; its connection is gone long before it can write.
    scene.all_wait(1).await;
    drop(stopping);
    let mut answer = Vec::new();
    // Cut with or without a reset, but without an answer.
    let _ = sender.read_to_end(&mut answer).await;
    assert_eq!(answer, b"");
    held.release().await;
    until("the report is written", async || scene.rows().await == (1, 1, 1)).await;
    scene.assert_books_whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn senders_that_hang_up_leave_nothing_half_written_and_no_session_in_a_transaction() {
    const REPORTS: u64 = 200;
    let scene = Scene::new().await;
    let report = |index: u64| {
        // Ten orders of twenty reports each, so that they race as well.
        scene.report(&format!("order_{:04}", index % 10), &format!("payment_{index:03}"))
    };
    let mut tries = JoinSet::new();
    for index in 0..REPORTS {
        let bytes = scene.request(report(index)).bytes();
        let address = if index % 2 == 0 { scene.first.address } else { scene.second.address };
        tries.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
            tokio::time::sleep(Duration::from_micros(index * 37 % 4000)).await;
        });
    }
    tries.join_all().await;
    for index in 0..REPORTS {
        scene.send(report(index)).await.assert_body(SUCCESS);
    }
    let (orders, _, payments) = scene.rows().await;
    assert_eq!((orders, payments), (10, 200));
    scene.assert_books_whole().await;
    let inside =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'";
    until("no session is in a transaction", async || scene.first.number(inside).await == 0).await;
}
