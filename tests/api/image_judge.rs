//! The operator's judge of pictures (docs/images.md, "A judge outside"; contract 5.5.3 to 5.5.5).

pub(crate) mod judge;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use ipnet::IpNet;
use judge::{Judge, Reply};
use minitill::config::Config;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::game::Game;
use crate::support::program::Program;
use crate::support::{Answer, NOW, PICTURE, Request, TestApp, TestTill, encoded, operator, until};

const SECRET: &str = "the tests' key of the judge";
const PART: &str = "content-disposition: form-data; name=\"file\"; filename=\"cover.png\"";
const JPEG: &[u8] = include_bytes!("../pictures/baseline.jpg");
const BLOCKED: &str = "file: the picture is blocked by risk control; use another one";
const TRY_AGAIN: &str = "the picture cannot be judged now, try again";
const ALLOW: &str = r#"{"verdict":"allow"}"#;
const BLOCK: &str = r#"{"verdict":"block","reason":"a tale of two swords"}"#;

/// Settings that ask the judge at this URL.
fn asking(url: &str, when_unavailable: &str) -> impl FnOnce(&mut Config) + use<> {
    let text = format!(
        "url = {url:?}\nsecret = {SECRET:?}\ntimeout = \"1m\"\nwhen_unavailable = {when_unavailable:?}\n\
         concurrent_max = 32\nconcurrent_per_app_max = 8"
    );
    move |config| config.image_judge = toml::from_str(&text).unwrap()
}

fn by_file(app: &TestApp, bytes: &[u8]) -> Request {
    let path = "/openapi/mp/developer/file/img/uploadWithFile";
    Request::post(&format!("{path}?app_id={}&access_token={}", app.id, app.token)).multipart(&[(PART, bytes)])
}

/// A picture of 8x8 pixels, another one for each shade.
fn picture(shade: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 8, 8);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(&[shade; 64]).unwrap();
    bytes
}

#[track_caller]
fn img_id(answer: &Answer) -> String {
    answer.json()["data"]["imgId"].as_str().unwrap_or_else(|| panic!("{}", answer.body)).to_owned()
}

/// No verdict, and an answer that asks to try again: no business answer, so clients repeat it.
#[track_caller]
fn assert_try_again(answer: &Answer, case: &str) {
    assert_eq!(
        (answer.status, answer.code(), answer.message().as_str(), answer.header("retry-after")),
        (503, 10_000_500, TRY_AGAIN, Some("1")),
        "{case}: {}",
        answer.body
    );
}

/// Rule: the judge gets the very bytes that would be served, and can tell from the headers who asks,
/// for which app, and when. Nothing else of the caller's is among them.
#[tokio::test(flavor = "multi_thread")]
async fn the_judge_gets_what_would_be_served_signed() {
    let judge = Judge::saying(|_| Reply::verdict(ALLOW)).await;
    let till = TestTill::start_with(asking(&judge.url("/v1/judge?k=v"), "block")).await;
    let app = till.app("a1").await;
    // A comment, which is stripped, and bytes behind the picture's end.
    let uploaded = [&JPEG[..2], b"\xff\xfe\x00\x06abcd", &JPEG[2..], b"behind"].concat();
    let id = img_id(&till.send(by_file(&app, &uploaded)).await);
    let [question] = judge.questions().try_into().expect("one question");
    let served = till.send(Request::get(&format!("/img/{id}"))).await.bytes;
    assert!(question.body == served && served != uploaded && served.len() < uploaded.len());

    let hash = hex::encode(Sha256::digest(&served));
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(format!("app_id=a1&content_sha256={hash}&ts={NOW}").as_bytes());
    let sign = hex::encode(mac.finalize().into_bytes());
    let expected = format!(
        "POST /v1/judge?k=v HTTP/1.1\r\nhost: {}\r\nuser-agent: minitill/{}\r\naccept: application/json\r\n\
         accept-encoding: identity\r\ncontent-type: image/jpeg\r\nx-minitill-app-id: a1\r\n\
         x-minitill-content-sha256: {hash}\r\nx-minitill-ts: {NOW}\r\nx-minitill-sign: {sign}\r\n\
         content-length: {}\r\n\r\n",
        judge.address,
        env!("CARGO_PKG_VERSION"),
        served.len()
    );
    assert_eq!(question.head, expected);
}

/// Rule: a block is 10000303, the reason stays inside, and nothing is kept. It is not remembered: the
/// next upload of the same bytes is judged anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_picture_is_10000303_and_judged_anew_the_next_time() {
    let judge = Judge::saying(|before| Reply::verdict(if before < 2 { BLOCK } else { ALLOW })).await;
    let till = TestTill::start_with(asking(&judge.url("/"), "allow")).await;
    let app = till.app("a1").await;
    for _ in 0..2 {
        till.send(by_file(&app, PICTURE)).await.assert_refused(10_000_303, BLOCKED);
    }
    assert_eq!(till.number("SELECT count(*) FROM images").await, 0);
    assert_eq!(till.number("SELECT count(*) FROM picture_parts").await, 0);
    img_id(&till.send(by_file(&app, PICTURE)).await);
    assert_eq!(judge.questions().len(), 3);
}

/// Rule: a picture that the app has already is not judged again; another app's is, because the
/// verdict may be another one for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_picture_is_asked_about_once_for_each_app() {
    let judge = Judge::asked_about(|question| {
        Reply::verdict(if question.header("x-minitill-app-id") == "a1" { ALLOW } else { BLOCK })
    })
    .await;
    let till = TestTill::start_with(asking(&judge.url("/"), "block")).await;
    let (app, other) = (till.app("a1").await, till.app("a2").await);
    let id = img_id(&till.send(by_file(&app, PICTURE)).await);
    for _ in 0..3 {
        assert_eq!(img_id(&till.send(by_file(&app, PICTURE)).await), id);
    }
    assert_eq!(judge.questions().len(), 1, "the same bytes again");
    till.send(by_file(&other, PICTURE)).await.assert_refused(10_000_303, BLOCKED);
    assert_eq!(judge.questions().len(), 2);
    assert_eq!(till.number("SELECT count(*) FROM images").await, 1);
}

/// Rule: what the operator's block list settles, and what is no picture, is not sent to the judge.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_settled_needs_no_judge() {
    let judge = Judge::saying(|_| Reply::status("500 Internal Server Error")).await;
    let till = TestTill::start_with(asking(&judge.url("/"), "block")).await;
    let app = till.app("a1").await;
    let contents = store::BlobHash::of(PICTURE);
    till.store.change_blocks(&operator(), crate::support::block(&contents, "listed")).await.unwrap();
    till.send(by_file(&app, PICTURE)).await.assert_refused(10_000_303, BLOCKED);
    assert_eq!(till.send(by_file(&app, b"GIF89a")).await.code(), 10_000_200);
    assert_eq!(judge.questions().len(), 0);
}

/// Rule: an upload by URL is judged as well.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_by_url_is_judged() {
    let judge = Judge::saying(|_| Reply::verdict(BLOCK)).await;
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = origin.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = origin.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", PICTURE.len());
        let _ = stream.write_all(&[head.as_bytes(), PICTURE].concat()).await;
    });
    let till = TestTill::start_with(|config| {
        asking(&judge.url("/"), "allow")(config);
        config.fetch.allow_networks = vec!["127.0.0.0/8".parse::<IpNet>().unwrap()];
        config.fetch.ports = vec![address.port()];
    })
    .await;
    let app = till.app("a1").await;
    let url = encoded(&format!("http://{address}/x.png"));
    let query = format!("app_id=a1&access_token={}&url={url}", app.token);
    let request = Request::post(&format!("/openapi/mp/developer/file/img/uploadWithUrl?{query}"));
    till.send(request).await.assert_refused(10_000_303, &BLOCKED.replace("file", "url"));
    assert_eq!(judge.questions()[0].body, PICTURE);
}

/// Rule: the guard against strangers' URLs does not apply to the judge, and the judge's freedom does not
/// apply to them. Nobody reaches the judge by an upload by URL.
#[tokio::test(flavor = "multi_thread")]
async fn strangers_do_not_reach_the_judges_address() {
    let judge = Judge::saying(|_| Reply::verdict(ALLOW)).await;
    let till = TestTill::start_with(asking(&judge.url("/"), "block")).await;
    let app = till.app("a1").await;
    let query = format!("app_id=a1&access_token={}&url={}", app.token, encoded(&judge.url("/")));
    let request = Request::post(&format!("/openapi/mp/developer/file/img/uploadWithUrl?{query}"));
    assert_eq!(till.send(request).await.code(), 10_000_419);
    assert_eq!((judge.connections(), judge.questions().len()), (0, 0));
}

/// What is no verdict, each with a name. An endless answer is one that never says its length.
fn no_verdicts() -> Vec<(&'static str, Reply)> {
    let long = format!(r#"{{"verdict":"allow","reason":"{}"}}"#, "x".repeat(4096));
    vec![
        ("a fault", Reply::status("500 Internal Server Error")),
        (
            "a fault with a verdict",
            Reply::raw(&format!("HTTP/1.1 500 x\r\ncontent-length: 19\r\n\r\n{ALLOW}")),
        ),
        ("not allowed to ask", Reply::status("403 Forbidden")),
        ("created", Reply::raw(&format!("HTTP/1.1 201 Created\r\ncontent-length: 19\r\n\r\n{ALLOW}"))),
        ("a redirect", Reply::raw("HTTP/1.1 302 Found\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n")),
        ("no JSON", Reply::verdict("allow")),
        ("no object", Reply::verdict(r#"["allow"]"#)),
        ("no verdict", Reply::verdict(r#"{"reason":"allow"}"#)),
        ("another word", Reply::verdict(r#"{"verdict":"maybe"}"#)),
        ("nothing", Reply::verdict("")),
        ("too long", Reply::verdict(&long)),
        ("compressed", Reply::raw(&format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n{ALLOW}"))),
        ("cut", Reply::raw("HTTP/1.1 200 OK\r\ncontent-length: 19\r\n\r\n{\"verdict\":")),
        ("no HTTP", Reply::raw("what?\r\n\r\n")),
        ("closed at once", Reply::raw("")),
        ("endless", Reply::Endless),
        ("hanging", Reply::Hanging),
    ]
}

/// Rule: whatever is no verdict in time is treated as the operator has set. Then "block" asks to
/// try again instead of calling the picture blocked. Each is over when the time limit is.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_verdict_the_setting_decides() {
    for setting in ["block", "allow"] {
        // Each case is an app of its own, by its number.
        let judge = Judge::asked_about(|question| {
            let number =
                question.header("x-minitill-app-id").strip_prefix('c').and_then(|text| text.parse().ok());
            no_verdicts()
                .into_iter()
                .nth(number.unwrap_or_default())
                .map_or(Reply::Hanging, |(_, reply)| reply)
        })
        .await;
        let till = TestTill::start_with(asking(&judge.url("/"), setting)).await;
        // Only the one that hangs has to run out of time.
        let impatient = TestTill::start_on(till.database_url.clone(), hasty(&judge.url("/"), setting)).await;
        let mut uploads = JoinSet::new();
        for (number, (case, reply)) in no_verdicts().into_iter().enumerate() {
            let app = till.app(&format!("c{number}")).await;
            let asked = if matches!(reply, Reply::Hanging) { &impatient } else { &till };
            let (request, address) = (by_file(&app, PICTURE), asked.address);
            uploads.spawn(async move { (case, request.send(address).await) });
        }
        let answers = uploads.join_all().await;
        assert!(
            judge.questions().len() >= answers.len() - 1,
            "all but the last one were asked about in time"
        );
        for (case, answer) in answers {
            assert_unjudged(&answer, setting, case);
        }
        let kept = till.number("SELECT count(*) FROM images").await;
        assert_eq!(kept, if setting == "allow" { i64::try_from(no_verdicts().len()).unwrap() } else { 0 });
    }
}

/// Rule: the same where there is not even a question: nobody listens, nobody reads, nobody speaks TLS.
#[tokio::test(flavor = "multi_thread")]
async fn a_judge_that_cannot_be_asked_gives_no_verdict() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let deaf = Judge::saying(|_| Reply::HangingUnread).await;
    let plain = Judge::saying(|_| Reply::verdict(ALLOW)).await;
    let database = TestTill::start().await;
    let app = database.app("a1").await;
    for (case, url) in [
        ("nobody listens", format!("http://{closed}/")),
        ("no such name", "http://name.invalid/".to_owned()),
        ("nobody reads", deaf.url("/")),
        ("no TLS", plain.url("/").replace("http", "https")),
    ] {
        for setting in ["block", "allow"] {
            let till = TestTill::start_on(database.database_url.clone(), hasty(&url, setting)).await;
            assert_unjudged(&till.send(by_file(&app, PICTURE)).await, setting, case);
        }
        database.execute("DELETE FROM images").await;
    }
    assert_eq!(plain.questions().len(), 0);
}

fn hasty(url: &str, when_unavailable: &str) -> impl FnOnce(&mut Config) + use<> {
    let asking = asking(url, when_unavailable);
    |config| {
        asking(config);
        config.image_judge.timeout = Duration::from_secs(1);
    }
}

#[track_caller]
fn assert_unjudged(answer: &Answer, setting: &str, case: &str) {
    if setting == "allow" {
        assert_eq!(answer.code(), 1, "{case}: {}", answer.body);
    } else {
        assert_try_again(answer, case);
    }
}

/// Rule: with a judge that does not answer, 32 uploads of an app hold neither a permit to decode nor a session of the
/// database. They hold no more of the judge than the app's share. Other apps upload, and exchanges are carried out,
/// meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_judge_holds_up_its_own_app_alone() {
    let judge = Judge::asked_about(|question| {
        if question.header("x-minitill-app-id") == "a1" { Reply::gated(ALLOW) } else { Reply::verdict(ALLOW) }
    })
    .await;
    let till = TestTill::start_with(|config| {
        asking(&judge.url("/"), "block")(config);
        config.image.decodes_max = 1;
        config.database.connections = 2;
    })
    .await;
    let (slow, quick) = (till.app("a1").await, till.app("a2").await);
    till.player(&quick, "o1", 100, 100).await;
    let mut uploads = JoinSet::new();
    for shade in 0..32 {
        let (request, address) = (by_file(&slow, &picture(shade)), till.address);
        uploads.spawn(async move { request.send(address).await });
    }
    until("the app's share of the judge is taken", async || judge.questions().len() >= 8).await;
    // The judge does not answer until all of these are served.
    for shade in 0..4 {
        assert_eq!(till.send(by_file(&quick, &picture(shade))).await.code(), 1);
    }
    assert_eq!(Game::new(&quick, "o1", "n1", 1).send(&till).await.code(), 1);
    assert_eq!(judge.questions().len(), 8 + 4, "an app asks no more than its share at once");
    judge.open_gate();
    let answers = uploads.join_all().await;
    assert!(answers.iter().all(|answer| answer.code() == 1));
    assert_eq!(till.number("SELECT count(*) FROM images WHERE app_id = 'a1'").await, 32);
}

/// Rule: a request that waits too long for a place at the judge is answered that the service is
/// overloaded, whatever the setting. So an app cannot slip a picture past the judge by uploading many
/// at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_at_the_judge_lets_nothing_through() {
    let judge = Judge::saying(|_| Reply::gated(ALLOW)).await;
    let till = TestTill::start_with(|config| {
        asking(&judge.url("/"), "allow")(config);
        config.image_judge.concurrent_per_app_max = 1;
        config.http.body_timeout = Duration::from_secs(2);
    })
    .await;
    let app = till.app("a1").await;
    let (first, address) = (by_file(&app, &picture(1)), till.address);
    let first = tokio::spawn(async move { first.send(address).await });
    until("the judge is asked", async || !judge.questions().is_empty()).await;
    let answer = till.send(by_file(&app, &picture(2))).await;
    assert_eq!((answer.status, answer.code()), (503, 10_000_500), "{}", answer.body);
    assert_eq!(answer.message(), "the service is overloaded, try again");
    judge.open_gate();
    assert_eq!(first.await.unwrap().code(), 1);
}

/// Rule (contract 2.8): at no level does the log hold the key, a signature or the address of the
/// judge. It holds a line for each verdict, a block's with the judge's reason.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_has_the_verdict_and_no_secret() {
    let judge = Judge::saying(|before| match before {
        0 => Reply::verdict(BLOCK),
        1 => Reply::verdict(ALLOW),
        _ => Reply::status("500 x"),
    })
    .await;
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let log = std::env::temp_dir().join(format!("minitill-judge-{}.jsonl", std::process::id()));
    let server = Program::on(&till.database_url)
        .with("MINITILL_LOG__FORMAT", "json")
        .with("MINITILL_LOG__FILTER", "trace")
        .with("MINITILL_IMAGE_JUDGE__URL", &judge.url("/a-secret-path"))
        .with("MINITILL_IMAGE_JUDGE__SECRET", SECRET)
        .with("MINITILL_IMAGE_JUDGE__TIMEOUT", "1m")
        .with("MINITILL_IMAGE_JUDGE__WHEN_UNAVAILABLE", "allow")
        .serve(Some(log.clone()))
        .await;
    let mut codes = Vec::new();
    for shade in 0..3 {
        codes.push(by_file(&app, &picture(shade)).send(server.address).await.code());
    }
    assert_eq!(codes, [10_000_303, 1, 1]);
    server.terminate();
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(log).unwrap();
    let questions = judge.questions();
    let signs: Vec<&str> = questions.iter().map(|question| question.header("x-minitill-sign")).collect();
    for secret in [&[SECRET, "a-secret-path", app.token.as_str()], &signs[..]].concat() {
        assert!(!text.contains(secret), "{secret} is in the log");
    }
    let line = |level: &str, message: &str| {
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.into_iter().find(|line| line["level"] == level && line["message"] == message).expect(message)
    };
    let blocked = line("INFO", "the image judge blocks a picture");
    assert_eq!(blocked["reason"], "\"a tale of two swords\"");
    assert_eq!(blocked["content_sha256"], questions[0].header("x-minitill-content-sha256"));
    assert_eq!(blocked["span"]["app_id"], "a1");
    line("DEBUG", "the image judge allows a picture");
    assert_eq!(line("WARN", "no verdict of the image judge: allowed")["cause"], "status_not_200");
    line("WARN", "a picture was kept without a verdict of the image judge");
}

/// The judge of docs/images.md, in Python. It ends with the test.
struct Example(Child);

impl Example {
    /// `None` where there is no Python.
    fn start(address: std::net::SocketAddr) -> Option<Self> {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/judge/judge.py");
        let mut command = Command::new("python3");
        command.arg(path).args([&address.port().to_string(), SECRET]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().ok().map(Self)
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Rule: the example shown in docs/images.md judges as it says, and refuses a wrong key and a question
/// of another time.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_judges_and_refuses_what_is_not_signed() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let Some(_example) = Example::start(address) else {
        println!("examples/judge/judge.py is left out: python3 is not on this machine");
        return;
    };
    let listens = async || tokio::net::TcpStream::connect(address).await.is_ok();
    until("the example listens", listens).await;
    let url = format!("http://{address}/");
    // This till's clock stands in another year.
    let till = TestTill::start_with(asking(&url, "block")).await;
    let app = till.app("a1").await;
    assert_try_again(&till.send(by_file(&app, PICTURE)).await, "a question of another time");
    let program = |secret: &str| {
        Program::on(&till.database_url)
            .with("MINITILL_IMAGE_JUDGE__URL", &url)
            .with("MINITILL_IMAGE_JUDGE__SECRET", secret)
            .with("MINITILL_IMAGE_JUDGE__TIMEOUT", "1m")
    };
    let server = program("not the key of the judge").serve(None).await;
    assert_try_again(&by_file(&app, PICTURE).send(server.address).await, "another key");
    drop(server);
    let server = program(SECRET).serve(None).await;
    assert_eq!(by_file(&app, PICTURE).send(server.address).await.code(), 1);
    let mut large = Vec::new();
    let mut encoder = png::Encoder::new(&mut large, 1001, 1001);
    encoder.set_compression(png::Compression::NoCompression);
    encoder.write_header().unwrap().write_image_data(&vec![7; 1001 * 1001]).unwrap();
    by_file(&app, &large).send(server.address).await.assert_refused(10_000_303, BLOCKED);
}

#[test]
fn the_docs_show_the_example_as_it_is() {
    let read = |path: &str| {
        std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
    };
    let shown = format!("```python\n{}```\n", read("examples/judge/judge.py"));
    assert!(
        read("docs/images.md").contains(&shown),
        "docs/images.md does not show examples/judge/judge.py as it is"
    );
}
