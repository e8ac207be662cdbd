//! No secret gets into a log, an answer or a file.
//!
//! Contract 2.8: tokens, signatures, keys, `user_ip` and bodies appear in no log, trace,
//! metric or error; 2.1: no text tells a secret.
//!
//! Texts that exist nowhere else are planted in every credential and personal field, right and wrong ones. They are
//! tokens, secrets, keys, signatures, the player's address, free texts, the master key and the database's password.
//! What opens the console and the admin API is among them (`operators_side.rs`). Then the program is driven through
//! every endpoint and every command, succeeding and failing in all the ways that can be arranged. It has the most
//! talkative log there is, as text and as JSON, on a database with a URL and on its own. All output is searched for
//! each of them. That is standard output and error, every answer of both listeners, PostgreSQL's log, and every file in
//! the data folder but the tables. It is searched for as it stands, percent-encoded, and in base64. What is hexadecimal
//! is searched for as bytes and as a list of numbers, too. An answer may repeat what its own request sent, but no
//! credential. Commands that show a secret once (`app create`, `rotate-...`, `token issue`) are not searched for it.
//!
//! Seen to fail when the log line of a request held its URI, and when a refusal's text was logged. Before they were
//! mended, two faults made it fail too. A settings file had a slip in the line of a secret, and the way to the
//! console's sign-in repeated a token of the address.

mod operators_side;

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::calls::{credentials, exchange, now, picture, report, token, try_send_bytes, upload};
use crate::private;
use crate::service::game::Game;
use crate::service::program::Program;
use crate::service::{PAGE, Request, TestApp, fresh_database};
use crate::support::figures::Figures;
use crate::support::full_or_short;

const START_WITHIN: Duration = Duration::from_mins(1);
const MASTER_KEY: &str = "5eC4e7000102030405060708090a0b0c0d0e0f101112131415161718191a1bff";
/// A master key that is all digits, as one without its quotes may be.
const DIGITS: &str = "4729104729104729104729104729104729104729104729104729104729104729";
const PASSWORD: &str = "Planted-Password-81f2";
const WRONG_TOKEN: &str = "planted0wrong0token0c44e5a7b1d20";
const WRONG_SECRET: &str = "planted0wrong0secret07d3a6b09c1e";
const WRONG_CODE: &str = "planted0wrong0code0e7d6c5b4a392";
const WRONG_SIGN: &str = "planted0wrong0sign05f0e1d2c3b4a5";
const USER_IP: &str = "198.51.100.213";
const URL_PASSWORD: &str = "planted-url-password-3a9";
const FREE_TEXT: &str = "planted-free-text-5d1c";
/// Is to be found: what is searched is what was written.
const SPOKEN: &str = "spoken-request-id-77";

/// A text that must not come out.
#[derive(Debug, Clone)]
struct Planted {
    name: &'static str,
    text: String,
    /// An answer may repeat the value of a field that is no credential.
    may_be_answered: bool,
}

/// Something that came out.
struct Output {
    name: String,
    bytes: Vec<u8>,
    is_answer: bool,
}

/// A server with all that it says in files.
struct Talker {
    child: Child,
    folder: PathBuf,
    address: SocketAddr,
    operator_address: SocketAddr,
}

/// A folder that goes with the proof.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) async fn prove() -> Figures {
    let mut figures = Figures::default();
    let folder = Folder(std::env::temp_dir().join(format!("minitill-proof-secrets-{}", std::process::id())));
    fs::create_dir(&folder.0).unwrap();
    let filters = full_or_short(&["trace", "debug", "info"][..], &["trace"][..]);
    let mut planted = planted_by_hand();
    planted.extend(operators_side::planted_by_hand());
    let mut outputs = Vec::new();
    let database = fresh_database().await;
    let url = database.url.replace("postgres://minitill@", &format!("postgres://minitill:{PASSWORD}@"));
    assert!(url.contains(PASSWORD), "the URL has a password: {url}");
    let program = Program::on(&url).with("MINITILL_SECRETS__MASTER_KEY", MASTER_KEY);
    let sql = sqlx::PgPool::connect(&database.url).await.unwrap();
    let mut apps = 0;
    for filter in filters {
        for format in ["text", "json"] {
            apps += 1;
            let program =
                program.clone().with("MINITILL_LOG__FILTER", filter).with("MINITILL_LOG__FORMAT", format);
            let app = make_app(&program, &format!("app{apps}"), &mut planted, &mut outputs);
            let talker = Talker::start(&program, &folder.0.join(format!("{filter}-{format}"))).await;
            drive(&talker, &app, &mut planted, &mut outputs).await;
            operators_side::drive(&talker, &program, &app, &mut planted, &mut outputs).await;
            while_the_database_fails(&talker, &app, &sql, &mut outputs).await;
            if apps == 1 {
                drive_commands(&program, &app, &mut outputs);
            }
            talker.stop(&mut outputs);
        }
    }
    on_a_database_of_its_own(&folder.0, &mut planted, &mut outputs).await;
    wrong_settings(&program, &folder.0, &mut outputs);
    search(&planted, &outputs, &mut figures);
    figures
}

/// Those that are the same throughout.
fn planted_by_hand() -> Vec<Planted> {
    let planted =
        |name, text: &str, may_be_answered| Planted { name, text: text.to_owned(), may_be_answered };
    vec![
        planted("the master key", MASTER_KEY, false),
        planted("a master key of digits", DIGITS, false),
        planted("the database's password", PASSWORD, false),
        planted("a wrong token", WRONG_TOKEN, false),
        planted("a wrong app secret", WRONG_SECRET, false),
        planted("a wrong login code", WRONG_CODE, false),
        planted("a wrong signature", WRONG_SIGN, false),
        planted("a player's address", USER_IP, false),
        planted("a URL's password", URL_PASSWORD, false),
        planted("a free text", FREE_TEXT, true),
    ]
}

/// An app with everything, made by commands; its secrets are planted.
fn make_app(program: &Program, id: &str, planted: &mut Vec<Planted>, outputs: &mut Vec<Output>) -> TestApp {
    assert!(program.run(&["migrate"]).status.success());
    let text = |json: &Value, name: &str| json[name].as_str().unwrap().to_owned();
    let made = program.json(&["app", "create", id, "--scope", "epay"]);
    let issued = program.json(&["token", "issue", id]);
    let app = TestApp {
        id: id.parse().unwrap(),
        secret: text(&made, "app_secret"),
        pay_key: text(&made, "pay_key"),
        token: text(&issued, "access_token"),
    };
    let first = [("an app secret", &app.secret), ("a pay key", &app.pay_key), ("a token", &app.token)];
    for (name, text) in first {
        planted.push(Planted { name, text: text.clone(), may_be_answered: false });
    }
    for arguments in [
        &["app", "publish", id, "--version", "1", "--path", PAGE][..],
        &["user", "add", id, "o1"],
        &["wallet", "credit", id, "o1", "--free", "1000", "--charge", "1000", "--ref", "r1"],
    ] {
        outputs.push(command(program, arguments));
    }
    app
}

impl Talker {
    /// Starts a server whose output goes into files in a folder of its own.
    async fn start(program: &Program, folder: &Path) -> Self {
        fs::create_dir(folder).unwrap();
        let said = |name: &str| File::create(folder.join(name)).unwrap();
        let program = program
            .clone()
            .with("MINITILL_PUBLIC__LISTEN", "127.0.0.1:0")
            .with("MINITILL_OPS__LISTEN", "127.0.0.1:0")
            .with("RUST_BACKTRACE", "full");
        let child =
            program.command(&["serve"]).stdout(said("stdout")).stderr(said("stderr")).spawn().unwrap();
        // Dropped when it does not start: the process goes with it.
        let mut talker = Self {
            child,
            folder: folder.to_owned(),
            address: ([127, 0, 0, 1], 0).into(),
            operator_address: ([127, 0, 0, 1], 0).into(),
        };
        let started = Instant::now();
        loop {
            let log = fs::read_to_string(folder.join("stderr")).unwrap();
            if let Some((public, operator)) = addresses(&log) {
                (talker.address, talker.operator_address) = (public, operator);
                return talker;
            }
            let ended = talker.child.try_wait().unwrap();
            assert!(ended.is_none() && started.elapsed() < START_WITHIN, "not ready: {ended:?} {log}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn ask(&self, name: &str, request: Request, outputs: &mut Vec<Output>) -> Vec<u8> {
        let request = request.header("x-request-id", SPOKEN);
        self.ask_bytes(self.address, name, &request.bytes(), outputs).await
    }

    async fn ask_bytes(
        &self,
        address: SocketAddr,
        name: &str,
        request: &[u8],
        outputs: &mut Vec<Output>,
    ) -> Vec<u8> {
        let bytes = try_send_bytes(address, request).await.unwrap_or_default();
        outputs.push(Output { name: format!("the answer to {name}"), bytes: bytes.clone(), is_answer: true });
        bytes
    }

    /// Ends it, and takes what it has said.
    fn stop(mut self, outputs: &mut Vec<Output>) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap();
        for file in ["stdout", "stderr"] {
            let bytes = fs::read(self.folder.join(file)).unwrap();
            let name = format!("{file} of the server ({})", self.folder.file_name().unwrap().display());
            for said in [SPOKEN, "refused", "failed"] {
                let is_there = file == "stdout" || contains(&bytes, said.as_bytes());
                assert!(is_there, "{name}: what is searched is what was said");
            }
            outputs.push(Output { name, bytes, is_answer: false });
        }
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address on which a server says that it listens.
fn addresses(log: &str) -> Option<(SocketAddr, SocketAddr)> {
    let after = |word: &str| {
        let rest = log.split_once(&format!("{word} http://"))?.1;
        rest.split([',', ';', '"']).next()?.trim().parse().ok()
    };
    Some((after("ready: public")?, after("operator")?))
}

/// Every endpoint, well and badly.
async fn drive(talker: &Talker, app: &TestApp, planted: &mut Vec<Planted>, outputs: &mut Vec<Output>) {
    let uploaded = talker.ask("an upload", upload(app, &picture(1)), outputs).await;
    let img_id = between(&uploaded, "\"imgId\":\"", "\"").expect("an image");
    exchanges(talker, app, planted, outputs).await;
    let wrong = [
        TestApp { token: WRONG_TOKEN.to_owned(), ..app.clone() },
        TestApp { secret: WRONG_SECRET.to_owned(), ..app.clone() },
    ];
    for app in [app, &wrong[0], &wrong[1]] {
        talker.ask("a report", report(app, "order-1", "o1", &img_id, 1), outputs).await;
        talker.ask("a report that is refused", report(app, "x", FREE_TEXT, FREE_TEXT, 9), outputs).await;
        talker.ask("an upload that is no picture", upload(app, FREE_TEXT.as_bytes()), outputs).await;
        tokens(talker, app, planted, outputs).await;
        logins(talker, app, outputs).await;
        for url in [
            format!("http://user:{URL_PASSWORD}@203.0.113.1/{FREE_TEXT}.png"),
            format!("http://127.0.0.1:1/{FREE_TEXT}.png?key={URL_PASSWORD}"),
            format!("gopher://{FREE_TEXT}/{URL_PASSWORD}"),
        ] {
            let path = "/openapi/mp/developer/file/img/uploadWithUrl";
            let in_query = Request::post(&format!("{path}?{}&url={url}", credentials(app)));
            talker.ask("an upload by URL", in_query, outputs).await;
            let json = serde_json::json!({
                "app_id": app.id.as_str(), "access_token": app.token, "url": url,
            });
            talker.ask("an upload by URL in JSON", Request::post(path).body(json.to_string()), outputs).await;
        }
    }
    strays(talker, app, outputs).await;
    for path in ["/healthz", "/readyz", "/metrics", "/", &format!("/console?access_token={}", app.token)] {
        let request = Request::get(path).header("authorization", &format!("Bearer {}", app.token));
        let name = format!("the operator's {}", path.split('?').next().unwrap_or_default());
        talker.ask_bytes(talker.operator_address, &name, &request.bytes(), outputs).await;
    }
}

/// Exchanges; each signature is planted too.
async fn exchanges(talker: &Talker, app: &TestApp, planted: &mut Vec<Planted>, outputs: &mut Vec<Output>) {
    let good = || {
        Game::new(app, "o1", "b1", 1)
            .with("ts", now())
            .with("user_ip", USER_IP)
            .with("product_desc", FREE_TEXT)
            .with_texts(FREE_TEXT)
    };
    for (name, game) in [
        ("an exchange", good()),
        ("a replay", good()),
        ("a conflict", good().with("amount", 2)),
        ("too much", good().with("biz_no", "b2").with("amount", 1_000_000)),
        ("an old exchange", good().with("biz_no", "b3").with("ts", 1_600_000_000_000_i64)),
        ("an unknown player", good().with("biz_no", "b4").with("open_id", "nobody")),
        ("a wrong address", good().with("user_ip", format!("{USER_IP}.7"))),
        ("no address", good().without("user_ip")),
        ("a wrong number", good().with("biz_no", "b-5")),
        ("a wrong token", good().with("access_token", WRONG_TOKEN)),
        ("a wrong key", good().keyed(WRONG_SECRET)),
        ("a wrong signature", good().with("sign", WRONG_SIGN)),
        ("items that are none", good().with("product_info", format!("[{{\"{FREE_TEXT}\":"))),
    ] {
        let sign = between(game.body().as_bytes(), "&sign=", "&").expect("it is signed");
        planted.push(Planted { name: "a signature", text: sign, may_be_answered: false });
        talker.ask(name, game.request(), outputs).await;
    }
}

/// Token requests of every kind; what they give is planted, and may be in that answer alone.
async fn tokens(talker: &Talker, app: &TestApp, planted: &mut Vec<Planted>, outputs: &mut Vec<Output>) {
    let fields = format!("app_id={}&app_secret={}&grant_type=client_credentials", app.id, app.secret);
    let json = serde_json::json!({
        "app_id": app.id.as_str(), "app_secret": app.secret, "grant_type": "client_credentials",
    });
    let path = "/oauth2/access_token";
    let parts: Vec<(String, &[u8])> = [
        ("app_id", app.id.as_str()),
        ("app_secret", app.secret.as_str()),
        ("grant_type", "client_credentials"),
    ]
    .map(|(name, value)| (format!("content-disposition: form-data; name=\"{name}\""), value.as_bytes()))
    .into();
    let parts: Vec<(&str, &[u8])> = parts.iter().map(|(head, value)| (head.as_str(), *value)).collect();
    for request in [
        token(app),
        Request::post(path).body(fields.clone()),
        Request::post(path).body(json.to_string()),
        Request::post(path).multipart(&parts),
        Request::get(&format!("{path}?{fields}&app_secret={WRONG_SECRET}")),
        Request::get(&format!("{path}?app_id={}&app_secret={}&grant_type=none", app.id, app.secret)),
    ] {
        let bytes = try_send_bytes(talker.address, &request.bytes()).await.unwrap_or_default();
        if let Some(token) = between(&bytes, "\"access_token\":\"", "\"") {
            planted.push(Planted { name: "a token that was issued", text: token, may_be_answered: false });
        } else {
            outputs.push(Output { name: "the answer to a token request".to_owned(), bytes, is_answer: true });
        }
    }
}

/// Logins that are refused; each way of sending the code.
async fn logins(talker: &Talker, app: &TestApp, outputs: &mut Vec<Output>) {
    let fields = format!("app_id={}&app_secret={}&js_code={WRONG_CODE}", app.id, app.secret);
    let json = serde_json::json!({
        "app_id": app.id.as_str(), "app_secret": app.secret, "js_code": [WRONG_CODE],
    });
    let path = "/game/minigame/jscode2session";
    for request in [
        Request::get(&format!("{path}?{fields}")),
        Request::post(path).body(fields.clone()),
        Request::post(path).body(format!("{fields}&grant_type=none")),
        Request::post(path).body(json.to_string()),
    ] {
        talker.ask("a login that is refused", request, outputs).await;
    }
}

/// Requests that go nowhere, with credentials in every place a client may put them.
async fn strays(talker: &Talker, app: &TestApp, outputs: &mut Vec<Output>) {
    let credentials = credentials(app);
    for (name, request) in [
        ("a path that is unknown", Request::get(&format!("/unknown/{}?{credentials}", app.token))),
        (
            "a method that is not allowed",
            Request::get(&format!("/openapi/mp/developer/order/v1/report?{credentials}")),
        ),
        ("headers", Request::get("/").header("authorization", &app.token).header("cookie", &app.secret)),
        ("a trace", Request::get("/").header("traceparent", &format!("00-{}-{}-01", app.token, app.secret))),
        ("a body that is no JSON", {
            let path = format!("/openapi/mp/developer/order/v1/report?{credentials}");
            Request::post(&path).body(format!("{{\"{FREE_TEXT}\": {}", app.token))
        }),
        (
            "a field twice",
            Request::post(&format!("/api/kpay/minigame/pay?{credentials}"))
                .body(format!("{credentials}&{credentials}")),
        ),
        ("an unsafe exchange", exchange(app, "o1&x", "b9", 1, now())),
    ] {
        talker.ask(name, request, outputs).await;
    }
    let line = format!("GET /{} HTTP/9.9\r\n{}: {}\r\n\r\n", app.token, app.secret, app.pay_key);
    let long = format!("GET /{} HTTP/1.1\r\nx: {}\r\n\r\n", app.token, "y".repeat(70_000));
    let cut = format!("POST /api/k/minigame/pay HTTP/1.1\r\ncontent-length: 9\r\n\r\n{}\r\n\r\n", app.token);
    for (name, bytes) in [("no HTTP", line), ("a long head", long), ("too much body", cut)] {
        talker.ask_bytes(talker.address, name, bytes.as_bytes(), outputs).await;
    }
}

/// The tables are not what they should be, the sessions end: faults of ours, which are logged.
async fn while_the_database_fails(
    talker: &Talker,
    app: &TestApp,
    sql: &sqlx::PgPool,
    outputs: &mut Vec<Output>,
) {
    let execute = async |statement: &str| {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned())).execute(sql).await.unwrap();
    };
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                  WHERE datname = current_database() AND pid <> pg_backend_pid()";
    // No exchange, report, picture or token can be written as it is.
    let tables = ["ledger_entries", "orders", "images", "access_tokens"];
    for table in tables {
        execute(&format!("ALTER TABLE {table} ADD CONSTRAINT broken CHECK (false) NOT VALID")).await;
    }
    let game = Game::new(app, "o1", "broken", 1).with("ts", now()).with("user_ip", USER_IP);
    let img_id = "0".repeat(48);
    for (name, request) in [
        ("an exchange that cannot be written", game.request()),
        ("a report that cannot be written", report(app, "order-broken", "o1", &img_id, 1)),
        ("an upload that cannot be written", upload(app, &picture(99))),
        ("a token that cannot be written", token(app)),
    ] {
        talker.ask(name, request, outputs).await;
    }
    for table in tables {
        execute(&format!("ALTER TABLE {table} DROP CONSTRAINT broken")).await;
    }
    execute("ALTER TABLE ledger_entries RENAME TO hidden").await;
    talker.ask("an exchange without its table", game.request(), outputs).await;
    execute("ALTER TABLE hidden RENAME TO ledger_entries").await;
    execute(others).await;
    talker.ask("an exchange whose session ended", game.request(), outputs).await;
}

/// Commands that have no business with secrets, well and badly, as text and as JSON.
fn drive_commands(program: &Program, app: &TestApp, outputs: &mut Vec<Output>) {
    let id = app.id.as_str();
    for arguments in [
        &["app", "list"][..],
        &["app", "show", id],
        &["app", "show", "nobody"],
        &["app", "suspend", id],
        &["app", "resume", id],
        &["app", "limit", id],
        &["app", "create", id],
        &["app", "publish", id, "--version", "2", "--path", PAGE],
        &["app", "poi", "add", id, "poi1"],
        &["app", "preorder", "add", id, "order-1"],
        &["user", "add", id, "o1"],
        &["wallet", "credit", id, "o1", "--free", "1", "--charge", "1", "--ref", "r1"],
        &["wallet", "show", id, "o1"],
        &["wallet", "statement", id, "o1", "--format", "csv"],
        &["wallet", "statement", id, "o1", "--format", "jsonl"],
        &["image", "list"],
        &["audit"],
        &["migrate"],
        &["--help"],
        &["app", "show"],
    ] {
        outputs.push(command(program, arguments));
        outputs.push(command(program, &[arguments, &["--json"]].concat()));
    }
}

/// The private PostgreSQL's log, and the other files in its folder.
async fn on_a_database_of_its_own(folder: &Path, planted: &mut Vec<Planted>, outputs: &mut Vec<Output>) {
    let data_dir = folder.join("data");
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = Program::on("")
        .with("MINITILL_DATABASE__DATA_DIR", private::text(&data_dir))
        .with("MINITILL_SECRETS__MASTER_KEY", "")
        .with("MINITILL_LOG__FILTER", "trace");
    let talker = Talker::start(&program, &folder.join("private")).await;
    let app = make_app(&program, "private", planted, outputs);
    let key = fs::read_to_string(data_dir.join("master.key")).expect("it was made at the start");
    planted.push(Planted {
        name: "a master key that was made",
        text: key.trim().to_owned(),
        may_be_answered: false,
    });
    drive(&talker, &app, planted, outputs).await;
    let sql = private::connect(&data_dir).await;
    while_the_database_fails(&talker, &app, &sql, outputs).await;
    sql.close().await;
    talker.stop(outputs);
    for path in fs::read_dir(&data_dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_file() && !path.ends_with("master.key") {
            let name = format!("{} in the data folder", path.file_name().unwrap().display());
            outputs.push(Output { name, bytes: fs::read(&path).unwrap(), is_answer: false });
        }
    }
    let log = data_dir.join("postgres.log");
    assert!(fs::read(log).is_ok_and(|log| contains(&log, b"broken")), "PostgreSQL's log tells of the faults");
}

/// Settings that are slips of the operator's hand, each with a secret in it.
fn wrong_settings(program: &Program, folder: &Path, outputs: &mut Vec<Output>) {
    for (index, text) in [
        format!("[secrets]\nmaster_key = \"{MASTER_KEY}\n"),
        format!("[secrets]\nmaster_key = {MASTER_KEY}\n"),
        format!("[secrets]\nmaster_key = [\"{MASTER_KEY}\"]\n"),
        format!("[secrets]\nmaster_keys = \"{MASTER_KEY}\"\n"),
        format!("[database]\nurl = 'postgres://m:{PASSWORD}@localhost/x\" \n"),
        format!("[database]\nurl = \"postgres://m:{PASSWORD}@localhost/x\"\nurl = 'twice:{PASSWORD}'\n"),
        format!("database.url = \"postgres://m:{PASSWORD}@localhost/x\"\nurl = \"{PASSWORD}\"\n"),
        format!("[secrets]\nmaster_key = {DIGITS}\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let file = folder.join(format!("settings-{index}.toml"));
        fs::write(&file, text).unwrap();
        // Without the variables, which would win.
        let program = Program::on("").with("MINITILL_SECRETS__MASTER_KEY", "");
        outputs.push(command(&program, &["app", "list", "--config", private::text(&file)]));
    }
    for (name, value) in [
        ("DATABASE_URL", format!("postgres//m:{PASSWORD}@localhost")),
        ("DATABASE_URL", format!("postgres://m:{PASSWORD}@localhost:99999/x")),
        ("DATABASE_URL", format!("postgres://m:{PASSWORD}@127.0.0.1:1/x?sslmode={PASSWORD}")),
        ("MINITILL_SECRETS__MASTER_KEY", format!("{MASTER_KEY}00")),
        ("MINITILL_SECRETS__MASTER_KEY", MASTER_KEY.replace('5', "6")),
        ("MINITILL_SECRETS__MASTERKEY", MASTER_KEY.to_owned()),
        ("MINITILL_SECRETS__MASTER_KEY", format!("planted{MASTER_KEY}")),
    ] {
        let program = program.clone().with(name, &value);
        outputs.push(command(&program, &["app", "list"]));
    }
}

/// Runs a command; all that it says.
fn command(program: &Program, arguments: &[&str]) -> Output {
    let said = program.command(arguments).stdin(Stdio::null()).output().unwrap();
    let bytes = [said.stdout, said.stderr].concat();
    Output { name: format!("the output of {arguments:?}"), bytes, is_answer: false }
}

/// Searches everything for everything.
fn search(planted: &[Planted], outputs: &[Output], figures: &mut Figures) {
    for secret in planted {
        let spellings = spellings(&secret.text);
        for output in outputs.iter().filter(|output| !(secret.may_be_answered && output.is_answer)) {
            for spelling in &spellings {
                figures.expect(!contains(&output.bytes, spelling), || {
                    let shown = String::from_utf8_lossy(around(&output.bytes, spelling)).into_owned();
                    format!("{} is in {}: {shown:?}", secret.name, output.name)
                });
            }
        }
    }
    let bytes: usize = outputs.iter().map(|output| output.bytes.len()).sum();
    figures.note(format!(
        "{} secrets searched for in {} outputs of {bytes} bytes",
        planted.len(),
        outputs.len()
    ));
}

/// How a text may be written.
fn spellings(text: &str) -> Vec<Vec<u8>> {
    let mut spellings = vec![
        text.as_bytes().to_vec(),
        crate::service::encoded(text).into_bytes(),
        form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().into_bytes(),
        base64(text.as_bytes()),
    ];
    if let Ok(bytes) = hex::decode(text) {
        let numbers = format!("{bytes:?}");
        spellings.extend([
            text.to_ascii_lowercase().into_bytes(),
            text.to_ascii_uppercase().into_bytes(),
            numbers.trim_matches(['[', ']']).as_bytes().to_vec(),
            base64(&bytes),
            bytes,
        ]);
    }
    spellings.sort();
    spellings.dedup();
    spellings
}

/// Without padding, so that it is found within a longer one.
fn base64(bytes: &[u8]) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::new();
    for group in bytes.chunks_exact(3) {
        let bits = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        for shift in [18, 12, 6, 0] {
            text.push(LETTERS[(bits >> shift) as usize & 63]);
        }
    }
    text
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    position(bytes, text).is_some()
}

/// Skips to each possible first byte, because outputs are long.
fn position(bytes: &[u8], text: &[u8]) -> Option<usize> {
    let first = *text.first()?;
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == first) {
        if bytes[from + at..].starts_with(text) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

/// The place where it was found, with some of the text before it.
fn around<'a>(bytes: &'a [u8], text: &[u8]) -> &'a [u8] {
    let at = position(bytes, text).unwrap_or_default();
    &bytes[at.saturating_sub(120)..(at + text.len()).min(bytes.len())]
}

/// The text between two others.
fn between(bytes: &[u8], before: &str, after: &str) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let rest = text.split_once(before)?.1;
    Some(rest.split(after).next()?.to_owned())
}
