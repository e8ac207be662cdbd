//! The sandbox server: the platform on a laptop (contract 18). The real program is started, reset, moved and killed.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use domain::ids::AppId;
use minitill::config::Config;
use minitill::http::refusal::Envelope;
use minitill::public::{DescribedCall, calls};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection as _, Row as _};

use crate::game::Game;
use crate::support::program::Program;
use crate::support::receiver::{Receiver, Reply};
use crate::support::{Answer, PICTURE, Request, TestApp, TestTill, until};

const IMG_ID: &str = "00112233445566778899aabbccddeeff0011223344556677";
const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// A program that would reach nothing if it looked at `DATABASE_URL`.
fn program() -> Program {
    Program::with_defaults("postgres://nobody@127.0.0.1:1/nothing")
}

/// A folder that goes with its test.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("minitill-seeds-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A sandbox server that runs until its test ends.
struct SandboxProcess {
    child: Child,
    public: SocketAddr,
    operator: SocketAddr,
    folder: PathBuf,
    app: TestApp,
}

impl SandboxProcess {
    async fn start(seed: &str) -> Self {
        let folder = TestFolder::new();
        let file = folder.0.join("seed.toml");
        std::fs::write(folder.0.join("cover.png"), PICTURE).unwrap();
        std::fs::write(&file, seed).unwrap();
        let arguments = ["sandbox", "serve", "--port", "0", "--json", "--seed", file.to_str().unwrap()];
        let mut child = program().command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            line
        });
        let line: Value = serde_json::from_str(&line.await.unwrap()).unwrap();
        let address =
            |name: &str| line[name].as_str().unwrap().strip_prefix("http://").unwrap().parse().unwrap();
        assert_eq!(line["durable"], json!(false));
        Self {
            child,
            public: address("public"),
            operator: address("operator"),
            folder: line["data_dir"].as_str().unwrap().into(),
            app: TestApp {
                id: AppId::parse("g1").unwrap(),
                secret: "the-secret".to_owned(),
                pay_key: "the-pay-key".to_owned(),
                token: "the-token".to_owned(),
            },
        }
    }

    async fn send(&self, request: Request) -> Answer {
        request.send(self.public).await
    }

    async fn call(&self, path: &str, body: &Value) -> Answer {
        let path = format!("/sandbox/v1/{path}?app_id=g1&access_token=the-token");
        self.send(Request::post(&path).body(body.to_string())).await
    }

    async fn reset(&self) {
        let path = "/sandbox/v1/reset?app_id=g1&access_token=the-token";
        self.send(Request::post(path)).await.assert_body(r#"{"result":1,"error_msg":"success"}"#);
    }

    /// An exchange of 60 coins that a clock so far ahead accepts.
    async fn exchange(&self, biz_no: &str, ahead: Duration) -> Answer {
        let ts = (now() + ahead).as_millis();
        self.send(Game::new(&self.app, "o1", biz_no, 60).with("ts", ts).request()).await
    }

    async fn token(&self) -> String {
        let query = "grant_type=client_credentials&app_id=g1&app_secret=the-secret";
        let answer = self.send(Request::get(&format!("/oauth2/access_token?{query}"))).await;
        answer.json()["access_token"].as_str().unwrap().to_owned()
    }

    async fn sql(&self) -> PgConnection {
        let options = PgConnectOptions::new_without_pgpass()
            .socket(self.folder.join("run"))
            .username("minitill")
            .database("postgres");
        PgConnection::connect_with(&options).await.unwrap()
    }

    /// A command of the program on the server's database.
    fn command(&self, arguments: &[&str]) -> Value {
        let folder = self.folder.to_str().unwrap();
        program()
            .with("MINITILL_DATABASE__URL", "")
            .with("MINITILL_DATABASE__DATA_DIR", folder)
            .json(arguments)
    }

    /// Asks it to stop, and waits for that.
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        assert!(!self.folder.exists(), "the folder goes with the server");
    }
}

impl Drop for SandboxProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn now() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "the server in the other process has the machine's clock")]
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// A seed with all that a seed may have.
fn seed(more: &str) -> String {
    let players = (2..=100).map(|no| format!("[[apps.players]]\nopen_id = \"o{no}\"\nfree = {no}\n"));
    let players = players.collect::<Vec<_>>().concat();
    format!(
        r#"time_zone = "Asia/Shanghai"
        [[apps]]
        app_id = "g1"
        name = "A game"
        app_secret = "the-secret"
        pay_key = "the-pay-key"
        access_token = "the-token"
        scopes = ["epay"]
        category = "general"
        language = "en"
        preorder_check = true
        package = "2.0"
        pages = ["pages/order"]
        poi = ["poi-1"]
        preorders = ["payment-1"]
        [[apps.players]]
        open_id = "o1"
        free = 40
        charge = 100
        {players}
        [[apps.pictures]]
        file = "cover.png"
        imgId = "{IMG_ID}"
        {more}
        [[apps]]
        app_id = "g2"
        "#
    )
}

fn receiver_of(receiver: &Receiver) -> String {
    let url = receiver.url("/till");
    format!("[[apps.receivers]]\nurl = \"{url}\"\nevents = [\"exchange.succeeded\"]\nsecret = \"{SECRET}\"\n")
}

fn report(number: &str) -> Value {
    json!({
        "out_biz_order_no": "order-1", "out_order_no": number, "open_id": "o1", "order_create_time": 1_700_000_000_000_i64,
        "order_status": 2, "order_path": "pages/order?id=1", "order_backup_url": "https://shop.example/1",
        "product_cover_img_id": IMG_ID, "poi_id": "poi-1",
    })
}

/// Rules 18.1.1 to 18.1.6, and 18.1.8: keys, players, pages, pictures, pre-orders and receivers of the seed are there.
/// So are the documents. Commands reach the server by its folder.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_seed_names_is_there_with_its_fixed_keys() {
    let receiver = Receiver::taking().await;
    let server = SandboxProcess::start(&seed(&receiver_of(&receiver))).await;
    assert_eq!(server.send(Request::get("/docs")).await.status, 200);
    server.exchange("b1", Duration::ZERO).await.assert_body(
        r#"{"code":1,"msg":"SUCCESS","data":{"bizNo":"b1","freeBalance":40,"chargeBalance":40}}"#,
    );
    // A receiver on this machine is reached, signs with the secret of the seed, and is not told of the seed.
    let told = receiver.until_received(1).await;
    assert_eq!(
        (told[0].json()["type"].as_str(), told[0].data("biz_no").as_str()),
        (Some("exchange.succeeded"), "b1")
    );
    let reporting = |number: &str| {
        let path = "/openapi/mp/developer/order/v1/report?app_id=g1&access_token=the-token";
        Request::post(path).header("content-type", "application/json").body(report(number).to_string())
    };
    let refused = server.send(reporting("payment-2")).await;
    assert_eq!(refused.code(), 10_002_018, "{}", refused.body);
    server.send(reporting("payment-1")).await.assert_body(r#"{"result":1,"error_msg":"success"}"#);
    let picture = server.send(Request::get(&format!("/img/{IMG_ID}"))).await;
    assert_eq!((picture.status, picture.bytes.as_slice()), (200, PICTURE));
    let token = server.token().await;
    assert_eq!(token.len(), 64);
    let secret = server.send(Request::get(
        "/oauth2/access_token?grant_type=client_credentials&app_id=g2&app_secret=g2-secret",
    ));
    assert_eq!(secret.await.json()["result"], json!(1));
    let ready = Request::get("/readyz").send(server.operator).await;
    assert_eq!(ready.status, 200);
    let wallet = server.command(&["wallet", "show", "g1", "o1"]);
    assert_eq!((&wallet["free_balance"], &wallet["charge_balance"]), (&json!(40), &json!(40)));
    assert_eq!(server.command(&["audit"])["differences"], json!(0));
    let app = server.command(&["app", "list"])["apps"][0].clone();
    assert_eq!((&app["sandbox"], &app["scopes"]), (&json!(true), &json!(["epay"])));
    server.stop();
}

/// Rule 18.1.2: a seed that cannot be is an error that names what is wrong, and starts nothing.
#[test]
fn a_wrong_seed_is_refused() {
    let folder = TestFolder::new();
    let file = folder.0.join("seed.toml");
    let complaint = |seed: &str| {
        std::fs::write(&file, seed).unwrap();
        program().complaint(&["sandbox", "serve", "--port", "0", "--seed", file.to_str().unwrap()])
    };
    std::fs::write(&file, b"\xff\xfe[\0[\0").unwrap();
    let utf_16 = program().complaint(&["sandbox", "serve", "--port", "0", "--seed", file.to_str().unwrap()]);
    assert!(utf_16.contains("it is text in UTF-16: save it in UTF-8"), "{utf_16}");
    let app = "[[apps]]\napp_id = \"g1\"\n";
    assert!(complaint(&format!("{app}colour = 1")).contains("line 3: unknown field `colour`"));
    let price = complaint(&format!(
        "{app}[[apps.prices]]\nproduct_id = \"a\"\ncurrency = \"CNY\"\namount = 0\ncharge = 1\n"
    ));
    assert!(
        price.contains("prices: a: amount: expected an integer from 1 to 1000000000000, got 0"),
        "{price}"
    );
    let picture = complaint(&format!("{app}[[apps.pictures]]\nfile = \"none.png\"\nimgId = \"{IMG_ID}\""));
    assert!(
        picture.contains("the app g1 of the seed: pictures: ") && picture.contains("none.png"),
        "{picture}"
    );
    assert_eq!(
        program().json(&["sandbox", "seed"])["seed"],
        json!(include_str!("../../config/sandbox.toml"))
    );
}

/// The rows of each table that differ from the seed.
async fn differing(sql: &mut PgConnection) -> Vec<String> {
    // Jobs write these two by themselves as time goes by.
    let names = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'sandbox_seed' \
        AND tablename NOT IN ('health_minutes', 'sales_head')";
    let mut differing = Vec::new();
    for row in sqlx::query(names).fetch_all(&mut *sql).await.unwrap() {
        let name: String = row.get(0);
        let rows = format!(
            "SELECT count(*) FROM (SELECT t::text FROM public.{name} t) a FULL JOIN (SELECT t::text FROM sandbox_seed.{name} t) b \
             USING (t) WHERE a.t IS NULL OR b.t IS NULL"
        );
        let count: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(rows)).fetch_one(&mut *sql).await.unwrap();
        if count > 0 {
            differing.push(name);
        }
    }
    differing
}

/// Rules 18.2.1 and 18.2.2: every row is that of the seed again. The process has forgotten its state, a receiver is as
/// new, and a call under way ends first.
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_makes_everything_as_after_the_start() {
    let receiver = Receiver::taking().await;
    let server = SandboxProcess::start(&seed(&receiver_of(&receiver))).await;
    let mut sql = server.sql().await;
    assert_eq!(differing(&mut sql).await, Vec::<String>::new());
    for round in 1..=3 {
        assert_eq!(server.exchange("b1", Duration::ZERO).await.json()["data"]["chargeBalance"], json!(40));
        assert_eq!(server.exchange("b1", Duration::ZERO).await.header("idempotent-replayed"), Some("true"));
        server.call("faults", &json!({"target": "login", "fault": "lost"})).await;
        server.call("wallets", &json!({"open_id": "new", "free": 1, "charge": 2})).await;
        let token = server.token().await;
        let with_token = format!("/sandbox/v1/requests?app_id=g1&access_token={token}");
        assert_eq!(server.send(Request::get(&with_token)).await.code(), 1);
        receiver.until_received(round).await;
        assert!(!differing(&mut sql).await.is_empty());
        server.reset().await;
        assert_eq!(differing(&mut sql).await, Vec::<String>::new());
        // The process had it in its cache.
        assert_eq!(server.send(Request::get(&with_token)).await.code(), 100_200_102);
        let calls = server.send(Request::get("/sandbox/v1/requests?app_id=g1&access_token=the-token")).await;
        // The reset alone is there.
        assert_eq!(calls.json()["requests"].as_array().unwrap().len(), 1, "{}", calls.body);
    }
    // A stranger's token resets nothing; that of another app of the seed does.
    server.exchange("b2", Duration::ZERO).await;
    let stranger = server.send(Request::post("/sandbox/v1/reset?app_id=g1&access_token=g2-token")).await;
    assert_eq!(stranger.code(), 100_200_102);
    assert_eq!(server.command(&["wallet", "show", "g1", "o1"])["charge_balance"], json!(40));
    let other = server.send(Request::post("/sandbox/v1/reset?app_id=g2&access_token=g2-token")).await;
    assert_eq!(other.code(), 1);
    assert_eq!(server.command(&["wallet", "show", "g1", "o1"])["charge_balance"], json!(100));
    // The exchange waits for a wallet that is locked, and the reset for the exchange.
    let mut lock = sql.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM wallets FOR UPDATE").execute(&mut *lock).await.unwrap();
    let exchange = server.exchange("b3", Duration::ZERO);
    let reset = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.reset().await;
        Instant::now()
    };
    let release = async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let released = Instant::now();
        lock.rollback().await.unwrap();
        released
    };
    let (exchanged, done, released) = tokio::join!(exchange, reset, release);
    assert_eq!(exchanged.code(), 1, "{}", exchanged.body);
    assert!(released < done, "the reset waits for the exchange");
    assert_eq!(server.command(&["wallet", "show", "g1", "o1"])["charge_balance"], json!(100));
    assert_eq!(server.command(&["audit"])["differences"], json!(0));
}

/// Rule 18.2.3: the purses are as they were asked for, by ledger entries.
#[tokio::test(flavor = "multi_thread")]
async fn purses_are_set_as_ledger_entries() {
    let server = SandboxProcess::start(&seed("")).await;
    let set = async |open_id: &str, free: i64, charge: i64| {
        let body = json!({"open_id": open_id, "free": free, "charge": charge});
        server.call("wallets", &body).await.assert_body(&format!(
            r#"{{"result":1,"error_msg":"success","open_id":"{open_id}","free":{free},"charge":{charge}}}"#
        ));
        let entries = server.command(&["wallet", "statement", "g1", open_id]);
        let kinds = entries["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["kind"].as_str().unwrap().to_owned());
        let wallet = server.command(&["wallet", "show", "g1", open_id]);
        assert_eq!((&wallet["free_balance"], &wallet["charge_balance"]), (&json!(free), &json!(charge)));
        kinds.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(set("o1", 50, 30).await, "credit credit debit");
    assert_eq!(set("o1", 50, 30).await, "credit credit debit", "nothing changes");
    assert_eq!(set("nobody", 0, 0).await, "");
    assert_eq!(set("nobody", 0, 7).await, "credit");
    for (body, message) in [
        (json!({"free": 1, "charge": 1}), "open_id is missing"),
        (json!({"open_id": "o1", "charge": 1}), "free is missing"),
        (
            json!({"open_id": "o1", "free": -1, "charge": 1}),
            "free: expected an integer from 0 to 1000000000000, got -1",
        ),
        (
            json!({"open_id": "o 1", "free": 1, "charge": 1}),
            "open_id: expected 1 to 64 of 0-9A-Za-z_-, got \"o 1\"",
        ),
    ] {
        server.call("wallets", &body).await.assert_refused(10_000_200, message);
    }
    assert_eq!(server.command(&["audit"])["differences"], json!(0));
}

const PRICES: &str = "[[apps.prices]]\nproduct_id = \"gems60\"\ncurrency = \"CNY\"\namount = 600\ncharge = 60\nbonus = 6\n\
    [[apps.prices]]\nproduct_id = \"old\"\ncurrency = \"CNY\"\namount = 60\ncharge = 6\nactive = false\n";

/// Rule 18.2.8: a pretended payment goes from its order to its event. What cannot be sold or credited says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_pretended_payment_goes_from_its_order_to_its_event() {
    let server = SandboxProcess::start(&seed(PRICES).replace("\"epay\"", "\"epay\", \"topup\"")).await;
    let paid = server.call("topups", &json!({"open_id": "o1", "product_id": "gems60"})).await;
    let number = paid.json()["biz_no"].as_str().unwrap().to_owned();
    assert!(number.starts_with("sandbox"), "{number}");
    paid.assert_body(&format!(
        r#"{{"result":1,"error_msg":"success","state":"paid","reason":null,"biz_no":"{number}","open_id":"o1","charge":60,"bonus":6,"free_balance":46,"charge_balance":160,"replayed":false}}"#
    ));
    let shown = server.command(&["topup", "show", "g1", "sandbox", &number]);
    assert_eq!(
        (&shown["state"], &shown["amount"], &shown["told_by"]),
        (&json!("paid"), &json!(600), &json!("command_line sandbox"))
    );
    let mut sql = server.sql().await;
    let told = "SELECT count(*) FROM events WHERE type = 'topup.paid' AND app_id = 'g1'";
    until("the event", async || {
        let told: i64 = sqlx::query_scalar(told).fetch_one(&mut sql).await.unwrap();
        told == 1
    })
    .await;

    for (body, code, message) in [
        (json!({"open_id": "o1"}), 10_000_200, "product_id is missing"),
        (
            json!({"open_id": "o 1", "product_id": "gems60"}),
            10_000_200,
            "open_id: expected 1 to 64 of 0-9A-Za-z_-, got \"o 1\"",
        ),
        (
            json!({"open_id": "o1", "product_id": "old"}),
            10_000_610,
            "product_id: the app does not sell old; the operator adds it with `minitill price set`",
        ),
    ] {
        server.call("topups", &body).await.assert_refused(code, message);
    }
    let unknown = server.call("topups", &json!({"open_id": "nobody", "product_id": "gems60"})).await;
    assert_eq!(unknown.code(), 10_000_423, "{}", unknown.body);
    let told = documented("topups");
    assert!(told.operation.refusals.iter().any(|told| told.refusal.code.number() == 10_000_423));

    // The money came, but the purse can hold no more.
    let full = "UPDATE wallets SET charge_balance = 9223372036854775807 WHERE open_id = 'o2'";
    sqlx::query(full).execute(&mut sql).await.unwrap();
    let full = server.call("topups", &json!({"open_id": "o2", "product_id": "gems60"})).await.json();
    assert_eq!((&full["state"], &full["reason"]), (&json!("unmatched"), &json!("purse_full")));

    server.reset().await;
    assert_eq!(server.command(&["price", "list", "g1"])["prices"].as_array().unwrap().len(), 2);
    assert_eq!(server.command(&["topup", "list", "g1"])["topups"], json!([]));
    assert_eq!(server.command(&["audit"])["differences"], json!(0));
    server.stop();
}

/// Rule 18.2.8: a payment whose caller hangs up goes on to its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_pretended_payment_goes_on_when_its_caller_hangs_up() {
    let server = SandboxProcess::start(&seed(PRICES).replace("\"epay\"", "\"epay\", \"topup\"")).await;
    let (mut holder, mut sql) = (server.sql().await, server.sql().await);
    sqlx::raw_sql("BEGIN; LOCK TABLE topup_prices").execute(&mut holder).await.unwrap();
    let body = json!({"open_id": "o1", "product_id": "gems60"});
    let waiting = async {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        until("the order waits for its price", async || {
            sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut sql).await.unwrap() > 0
        })
        .await;
    };
    tokio::select! {
        answer = server.call("topups", &body) => panic!("{}", answer.body),
        () = waiting => {}
    }
    // Time in which the server notices it.
    tokio::time::sleep(Duration::from_millis(200)).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    let paid = "SELECT count(*) FROM topup_payments WHERE state = 'paid'";
    until("the payment is made", async || {
        sqlx::query_scalar::<_, i64>(paid).fetch_one(&mut sql).await.unwrap() == 1
    })
    .await;
    assert_eq!(server.command(&["wallet", "show", "g1", "o1"])["charge_balance"], json!(160));
    server.stop();
}

/// Rules 18.2.2 and 18.2.8: payments and resets at once leave all or nothing of each payment.
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_beside_pretended_payments_leaves_each_whole_or_away() {
    let server = SandboxProcess::start(&seed(PRICES).replace("\"epay\"", "\"epay\", \"topup\"")).await;
    let pay = async {
        for _ in 0..20 {
            let paid = server.call("topups", &json!({"open_id": "o1", "product_id": "gems60"})).await;
            assert_eq!(paid.json()["state"], json!("paid"), "{}", paid.body);
        }
    };
    let reset = async {
        for _ in 0..4 {
            server.reset().await;
        }
    };
    tokio::join!(pay, reset);
    let payments = server.command(&["topup", "list", "g1"])["topups"].as_array().unwrap().len();
    let charge = server.command(&["wallet", "show", "g1", "o1"])["charge_balance"].as_u64().unwrap();
    assert_eq!(charge, 100 + 60 * payments as u64);
    assert_eq!(server.command(&["audit"])["differences"], json!(0));
    server.stop();
}

/// Rules 18.2.4 and 19.3.1: commands judge the time of a payment by the clock that was moved.
#[tokio::test(flavor = "multi_thread")]
async fn commands_take_payments_of_the_moved_clock() {
    let server = SandboxProcess::start(&seed(PRICES).replace("\"epay\"", "\"epay\", \"topup\"")).await;
    assert_eq!(server.call("clock", &json!({"ahead": "49h"})).await.code(), 1);
    let millis = i64::try_from((now() + Duration::from_hours(49)).as_millis()).unwrap();
    let paid_at = domain::moment::rfc3339_of_millis(millis);
    let money = ["--currency", "CNY", "--amount", "600", "--paid-at", &paid_at];
    let target = ["--open-id", "o1", "--product-id", "gems60"];
    let paid = server.command(&[&["topup", "pay", "g1", "pay", "p1"][..], &money, &target].concat());
    assert_eq!(paid["state"], json!("paid"), "{paid}");
    let folder = TestFolder::new();
    let file = folder.0.join("settlement.csv");
    let lines = ["p1", "p2"].map(|id| format!("{id},CNY,600,o1,gems60,{paid_at}\n")).concat();
    let heading = "provider_order_id,currency,amount,open_id,product_id,paid_at\n";
    std::fs::write(&file, format!("{heading}{lines}")).unwrap();
    let expect = ["topup", "expect", "g1", file.to_str().unwrap(), "--provider", "pay", "--apply"];
    assert_eq!(server.command(&expect)["entered"], json!([{"ref": "pay/p2", "state": "paid"}]));
    server.stop();
}

/// Rules 18.2.4 and 18.2.5: one clock for `ts`, numbers, tokens, login codes and tries of notifications. It never goes back,
/// but by a reset.
#[tokio::test(flavor = "multi_thread")]
async fn the_clock_moves_forward_for_all_that_waits() {
    let receiver =
        Receiver::answering(|_, earlier| if earlier == 0 { Reply::status(500) } else { Reply::taken() })
            .await;
    let server = SandboxProcess::start(&seed(&receiver_of(&receiver))).await;
    let (token, hours) = (server.token().await, Duration::from_hours(49));
    let code = server.command(&["login-code", "issue", "g1", "o1"])["js_code"].as_str().unwrap().to_owned();
    server.exchange("b1", Duration::ZERO).await;
    receiver.until_received(1).await;
    let mut sql = server.sql().await;
    until("the failed try is noted", async || {
        sqlx::query_scalar::<_, i64>("SELECT count(*) FROM deliveries").fetch_one(&mut sql).await.unwrap()
            == 1
    })
    .await;
    let moved = server.call("clock", &json!({"ahead": "49h"})).await.json();
    let shown = moved["now"].as_i64().unwrap();
    let expected = i64::try_from((now() + hours).as_millis()).unwrap();
    assert_eq!(moved["ahead"], json!("49h"));
    assert!((0..60_000).contains(&(expected - shown)), "{shown} and {expected}");
    // The second try is due after 5 seconds, which have passed.
    receiver.until_received(2).await;
    let late = server.exchange("b2", Duration::ZERO).await;
    assert_eq!(late.code(), 10_000_604, "{}", late.body);
    server.exchange("b1", hours).await.assert_refused(
        10_000_603,
        "biz_no: b1 was used more than 48 hours ago; a new request needs a new number, and is carried out again: ask with a query first",
    );
    server.call("wallets", &json!({"open_id": "o1", "free": 0, "charge": 60})).await;
    assert_eq!(server.exchange("b2", hours).await.code(), 1);
    let path = format!("/sandbox/v1/reset?app_id=g1&access_token={token}");
    server
        .send(Request::post(&path))
        .await
        .assert_refused(100_200_102, "access_token: expired, get a new one from /oauth2/access_token");
    let login = format!("/game/minigame/jscode2session?app_id=g1&app_secret=the-secret&js_code={code}");
    assert_eq!(server.send(Request::get(&login)).await.code(), 100_200_103);
    for (ahead, message) in [
        ("48h", "ahead: expected at least 2days 1h, because the clock never goes back, got \"48h\""),
        ("soon", "ahead: expected a duration of at most 3660 days, such as 49h, got \"soon\""),
        ("3661d", "ahead: expected a duration of at most 3660 days, such as 49h, got \"3661d\""),
    ] {
        server.call("clock", &json!({ "ahead": ahead })).await.assert_refused(10_000_200, message);
    }
    assert_eq!(server.call("clock", &json!({"ahead": "49h"})).await.code(), 1);
    assert_eq!(server.command(&["audit"])["differences"], json!(0));
    server.reset().await;
    assert_eq!(server.exchange("b1", Duration::ZERO).await.code(), 1);
}

/// Rule 18.2.6: a normal server has no such calls, not even for a sandbox app.
#[tokio::test(flavor = "multi_thread")]
async fn a_normal_server_has_none_of_its_calls() {
    let till = TestTill::start().await;
    let app = till.app_like("a1", crate::support::AppKind { sandbox: true, ..Default::default() }).await;
    for call in ["reset", "wallets", "topups", "clock"] {
        let path = format!("/sandbox/v1/{call}?app_id={}&access_token={}", app.id, app.token);
        let answer = till.send(Request::post(&path).body(r#"{"ahead":"1h"}"#)).await;
        let message = format!("path: no such endpoint: \\\"/sandbox/v1/{call}\\\"");
        let body = format!(r#"{{"result":10000200,"error_msg":"{message}"}}"#);
        let told =
            documented(call).operation.refusals.into_iter().find(|told| told.name == "not_here").unwrap();
        assert_eq!(told.refusal.body(Envelope::Open), answer.json());
        assert_eq!((answer.status, answer.body), (404, body));
    }
}

/// What the document tells of a call that a sandbox server alone has.
fn documented(name: &str) -> DescribedCall {
    let path = format!("/sandbox/v1/{name}");
    let config = Config::load(None, std::iter::empty()).unwrap();
    calls(&config).into_iter().find(|call| call.route.path == path).unwrap()
}

/// Rule 18.1.7: after `kill -9` nothing runs, and the next start removes the folder.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_leaves_no_process_and_then_no_folder() {
    let mut server = SandboxProcess::start(&seed("")).await;
    let pid_file = std::fs::read_to_string(server.folder.join("pgdata/postmaster.pid")).unwrap();
    let postgres = Pid::from_raw(pid_file.lines().next().unwrap().trim().parse().unwrap()).unwrap();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    until("PostgreSQL ends", async || test_kill_process(postgres).is_err()).await;
    let next = SandboxProcess::start(&seed("")).await;
    assert!(!server.folder.exists() && Path::new(&next.folder).exists());
    next.stop();
}
