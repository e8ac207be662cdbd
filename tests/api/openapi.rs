//! The document of the public API: every example in it is sent, and the answer must be the documented
//! one.

pub(crate) mod scenario;
pub(crate) mod schema;

use domain::event::EventType;
use minitill::config::Config;
use minitill::http::refusal::Refusal;
use minitill::openapi::{Content, Example, Success, viewer};
use minitill::public::{DescribedCall, calls, document};
use scenario::{IN_TURN, Scenario, in_turn};
use serde_json::Value;

use crate::support::program::Program;
use crate::support::{Answer, Request, TestTill, committed, fresh_database};

fn defaults() -> Config {
    Config::load(None, std::iter::empty()).unwrap()
}

fn documented() -> Value {
    serde_json::to_value(document(&defaults())).unwrap()
}

fn call(id: &str) -> DescribedCall {
    calls(&defaults()).into_iter().find(|call| call.route.id == id).unwrap()
}

/// The document's text about a status of a call.
fn response(document: &Value, call: &DescribedCall, status: u16) -> Value {
    let operation = &document["paths"][call.route.path][call.route.method.to_ascii_lowercase()];
    operation["responses"][status.to_string()].clone()
}

/// The answer is one that the document describes: status, content type, headers and schema.
fn assert_described(document: &Value, call: &DescribedCall, answer: &Answer, context: &str) {
    let response = response(document, call, answer.status);
    assert!(response.is_object(), "{context}: status {} is not described", answer.status);
    for (name, header) in response["headers"].as_object().unwrap() {
        let is_there = answer.header(&name.to_ascii_lowercase()).is_some();
        assert!(is_there || header["required"] != true, "{context}: {name} is missing");
    }
    if call.route.method == "HEAD" {
        return;
    }
    let Some(content_type) = answer.header("content-type") else {
        assert!(response.get("content").is_none(), "{context}: expected content");
        return;
    };
    let media_type = content_type.split(';').next().unwrap();
    let described = &response["content"][media_type];
    assert!(described.is_object(), "{context}: {media_type} is not described");
    if media_type == "application/json" {
        let faults = schema::faults(document, &described["schema"], &answer.json(), "answer");
        assert!(faults.is_empty(), "{context}: {faults:?}");
    }
}

/// Ids and tokens are fresh each time; everything else must be as documented.
fn assert_same(documented: &Value, answer: &Answer, context: &str) {
    let mut got = answer.json();
    if let (Some(id), Some(expected)) = (got.pointer_mut("/data/imgId"), documented.pointer("/data/imgId")) {
        *id = expected.clone();
    }
    if let (Some(token), Some(expected)) = (got.get_mut("access_token"), documented.get("access_token")) {
        assert_eq!(token.as_str().unwrap().len(), 64);
        *token = expected.clone();
    }
    if let (Some(key), Some(expected)) = (got.get_mut("session_key"), documented.get("session_key")) {
        assert_eq!(key.as_str().unwrap().len(), 24);
        *key = expected.clone();
    }
    let times =
        ["/data/createTime", "/data/expireTime", "/data/cancels/0/createTime", "/data/firstChargeTime"];
    for path in times {
        if let (Some(time), Some(expected)) = (got.pointer_mut(path), documented.pointer(path)) {
            assert!(time.as_i64().is_some_and(|millis| millis > 1_700_000_000_000), "{context}: {time}");
            *time = expected.clone();
        }
    }
    assert_eq!(&got, documented, "{context}");
}

/// A notification is one that the document describes, in one of the formats; the schema of this place holds.
pub(crate) fn assert_webhook(of: &str, format: usize, notification: &Value) {
    let document = documented();
    let schema = &document["webhooks"][of]["post"]["requestBody"]["content"]["application/json"]["schema"];
    let faults = schema::faults(&document, &schema["anyOf"][format], notification, of);
    assert!(faults.is_empty(), "{of}: {faults:?}");
}

async fn try_every_example(id: &str) {
    let (document, call) = (documented(), call(id));
    for success in &call.operation.successes {
        try_success(&document, &call, success).await;
    }
    let (in_turn, alone) = in_turn(&IN_TURN, &call.operation.refusals);
    let shared = Scenario::prepare(&call, IN_TURN[0], 0).await;
    for example in in_turn {
        try_refusal(&document, &call, example, &shared).await;
    }
    for example in alone {
        let own = Scenario::prepare(&call, example.name, 0).await;
        try_refusal(&document, &call, example, &own).await;
    }
}

/// The document has the example at this status.
fn assert_shown(document: &Value, call: &DescribedCall, example: &Example<Refusal>, status: u16) {
    if call.route.method == "HEAD" {
        return;
    }
    let described = &response(document, call, status)["content"]["application/json"];
    let is_shown = described["examples"][example.name].is_object();
    assert!(is_shown, "{} {}: not shown at {status}", call.route.id, example.name);
}

/// The documented success, for every kind of body that the call takes.
async fn try_success(document: &Value, call: &DescribedCall, success: &Success) {
    for body in 0..call.operation.media_types.len().max(1) {
        let context = format!("{} {} with body {body}", call.route.id, success.name);
        let prepared = Scenario::prepare(call, success.name, body).await;
        let answer = prepared.about(success.name).await.send().await;
        assert_eq!(answer.status, success.status, "{context}: {}", answer.body);
        assert_described(document, call, &answer, &context);
        if let Content::Json { example, .. } = &success.content {
            assert_same(example, &answer, &context);
        }
        for (name, _, _) in &success.headers {
            assert!(answer.header(&name.to_ascii_lowercase()).is_some(), "{context}: {name}");
        }
    }
}

async fn try_refusal(
    document: &Value,
    call: &DescribedCall,
    example: &Example<Refusal>,
    scenario: &Scenario,
) {
    let context = format!("{} {}", call.route.id, example.name);
    let answer = scenario.about(example.name).await.send().await;
    assert_described(document, call, &answer, &context);
    assert_eq!(answer.header("retry-after").is_some(), example.refusal.retry_after.is_some(), "{context}");
    if call.route.method != "HEAD" {
        assert_same(&example.refusal.body(call.route.envelope), &answer, &context);
    }
    assert_shown(document, call, example, answer.status);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_exchange_is_answered_as_documented() {
    try_every_example("exchange").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_other_calls_of_the_wallet_is_answered_as_documented() {
    for id in ["getBalance", "present", "cancel", "queryNumber", "orderTopup"] {
        try_every_example(id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_order_report_is_answered_as_documented() {
    try_every_example("reportOrder").await;
    try_every_example("reportOrderByProvider").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_upload_by_file_is_answered_as_documented() {
    try_every_example("uploadWithFile").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_upload_by_url_is_answered_as_documented() {
    try_every_example("uploadWithUrl").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_access_token_is_answered_as_documented() {
    try_every_example("getAccessToken").await;
    try_every_example("postAccessToken").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_login_is_answered_as_documented() {
    try_every_example("getGameSession").await;
    try_every_example("postGameSession").await;
    try_every_example("getProgramSession").await;
    try_every_example("postProgramSession").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_a_picture_is_answered_as_documented() {
    try_every_example("getImage").await;
    try_every_example("headImage").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_test_world_is_answered_as_documented() {
    try_every_example("askForFault").await;
    try_every_example("tellOfShipment").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_callback_is_answered_as_documented() {
    try_every_example("notify").await;
}

/// Rule 12.1.2: the document has a webhook for each type, with an example of both formats. Tests of notifications
/// compare what is sent.
#[test]
fn every_type_of_events_is_a_webhook() {
    let document = documented();
    let webhooks = document["webhooks"].as_object().unwrap();
    let mut types = EventType::WORDS.to_vec();
    types.sort_unstable();
    let mut names: Vec<_> = webhooks.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, types);
    for (of, webhook) in webhooks {
        let examples = &webhook["post"]["requestBody"]["content"]["application/json"]["examples"];
        for (format, name) in ["standard", "platform"].into_iter().enumerate() {
            assert_webhook(of, format, &examples[name]["value"]);
        }
    }
}

#[test]
fn the_tests_above_try_every_call() {
    // Tests of a sandbox server try those that it alone has, and `sandbox.rs` the list of calls, which asks no database.
    let calls = calls(&defaults());
    let of_all = calls.iter().filter(|call| !call.route.is_of_sandbox_server);
    let ids: Vec<&str> = of_all.map(|call| call.route.id).filter(|id| *id != "listRequests").collect();
    let tried = [
        "exchange",
        "getBalance",
        "present",
        "cancel",
        "queryNumber",
        "orderTopup",
        "reportOrder",
        "reportOrderByProvider",
        "uploadWithFile",
        "uploadWithUrl",
        "getAccessToken",
        "postAccessToken",
        "getGameSession",
        "postGameSession",
        "getProgramSession",
        "postProgramSession",
        "askForFault",
        "tellOfShipment",
        "notify",
        "getImage",
        "headImage",
    ];
    assert_eq!(ids, tried);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_committed_document_is_what_the_program_prints_and_serves() {
    let committed = &committed("docs/openapi.json");
    let program = Program::with_defaults(&fresh_database().await.url);
    let printed = String::from_utf8(program.run(&["openapi"]).stdout).unwrap();
    assert!(&printed == committed, "run: minitill openapi > docs/openapi.json");
    assert_eq!(program.json(&["openapi"]), serde_json::from_str::<Value>(committed).unwrap());
    let till = TestTill::start_with(|config| {
        let defaults = Config::load(None, std::iter::empty()).unwrap();
        config.fetch = defaults.fetch;
        config.exchange = defaults.exchange;
    })
    .await;
    let served = Request::get("/openapi.json").send(till.operator_address).await;
    let expected: Value = serde_json::from_str(committed).unwrap();
    assert_eq!((served.status, served.json()["paths"].clone()), (200, expected["paths"].clone()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_on_the_operators_listener_alone_and_needs_no_other_host() {
    let till = TestTill::start().await;
    let get = async |path: &str| Request::get(path).send(till.operator_address).await;
    let script = format!("/docs/viewer-{}.js", viewer::VERSION);
    for (path, folder) in [("/docs", "/"), ("/docs/admin", "/docs/")] {
        let shown = get(path).await;
        assert_eq!((shown.status, shown.header("content-type")), (200, Some("text/html; charset=utf-8")));
        let policy = shown.header("content-security-policy").unwrap();
        let allowed = regex_lite::Regex::new("^('none'|'self'|'unsafe-inline'|data:)$").unwrap();
        for directive in policy.split(';') {
            let (name, sources) = directive.trim().split_once(' ').unwrap();
            assert!(sources.split(' ').all(|source| allowed.is_match(source)), "{directive}");
            assert!(!name.starts_with("script") || sources == "'self'", "{directive}");
        }
        // Whatever the page names is there.
        let names = regex_lite::Regex::new("(?:src|href|data-document)=\"([^\"]+)\"").unwrap();
        for found in names.captures_iter(&shown.body) {
            let address = found[1].to_owned();
            if address != "data:," {
                let path = format!("{folder}{address}").replace("/docs/../", "/");
                assert_eq!(get(&path).await.status, 200, "{path}");
            }
        }
        assert!(shown.body.contains(&script[script.rfind('/').unwrap() + 1..]));
        assert!(!shown.body.contains("pay_key\""), "neither page sends calls of the wallet");
    }
    let viewer = get(&script).await;
    assert_eq!(viewer.header("content-encoding"), Some("gzip"));
    for path in ["/docs", "/docs/style.css", "/docs/start.js", "/openapi.json", &script] {
        assert_eq!(till.send(Request::get(path)).await.status, 404, "{path}");
    }
}

#[test]
fn the_viewer_is_the_file_that_the_readme_names() {
    use sha2::Digest as _;
    let mut child = std::process::Command::new("gzip")
        .args(["-dc", concat!(env!("CARGO_MANIFEST_DIR"), "/assets/scalar-api-reference/standalone.js.gz")])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut child.stdout.take().unwrap(), &mut bytes).unwrap();
    assert!(child.wait().unwrap().success());
    let readme = committed("assets/README.md");
    assert!(readme.contains(&hex::encode(sha2::Sha256::digest(&bytes))));
    assert!(readme.contains(&format!("| version | {} |", viewer::VERSION)));
}
