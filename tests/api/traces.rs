//! Traces for an OpenTelemetry collector (`[tracing]`): their spans, their parents, the secrets that
//! they never hold, and a collector that is away.

use std::collections::BTreeMap;

use minitill::config::Config;
use tokio::net::TcpListener;

use crate::game::Game;
use crate::image_judge::judge::{Judge, Reply};
use crate::support::program::Program;
use crate::support::{PATIENCE, Request, TestTill};

const CALLERS_TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLERS_SPAN: &str = "00f067aa0ba902b7";

/// A collector that accepts everything.
async fn collector() -> Judge {
    Judge::saying(|_| Reply::status("200 OK")).await
}

/// All spans that it received.
fn received(collector: &Judge) -> Vec<Span> {
    collector.questions().iter().flat_map(|question| spans(&question.body)).collect()
}

/// A field of a protobuf message: its number, and a number or bytes.
#[derive(Debug)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Reads a protobuf message.
fn fields(mut message: &[u8]) -> Vec<(u64, Field<'_>)> {
    fn varint(message: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = message[0];
            *message = &message[1..];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut message)),
            1 => {
                let (number, rest) = message.split_at(8);
                message = rest;
                Field::Number(u64::from_le_bytes(number.try_into().unwrap()))
            }
            2 => {
                let length = usize::try_from(varint(&mut message)).unwrap();
                let (bytes, rest) = message.split_at(length);
                message = rest;
                Field::Bytes(bytes)
            }
            5 => {
                let (number, rest) = message.split_at(4);
                message = rest;
                Field::Number(u32::from_le_bytes(number.try_into().unwrap()).into())
            }
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, field));
    }
    fields
}

/// The messages, or texts, that a message has in this field.
fn within(message: &[u8], number: u64) -> Vec<&[u8]> {
    let fields = fields(message).into_iter().filter(|(found, _)| *found == number);
    let bytes = fields.map(|(_, field)| match field {
        Field::Bytes(bytes) => bytes,
        Field::Number(number) => panic!("{number} is no message"),
    });
    bytes.collect()
}

fn number(message: &[u8], number: u64) -> Option<u64> {
    fields(message).into_iter().find(|(found, _)| *found == number).map(|(_, field)| match field {
        Field::Number(value) => value,
        Field::Bytes(bytes) => panic!("{bytes:?} are no number"),
    })
}

/// A span as the collector has it.
#[derive(Debug, Clone, PartialEq)]
struct Span {
    trace_id: String,
    id: String,
    parent_id: Option<String>,
    name: String,
    kind: Option<u64>,
    started: u64,
    ended: u64,
    attributes: BTreeMap<String, String>,
    status: Option<u64>,
}

fn attributes(message: &[u8], field: u64) -> BTreeMap<String, String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let read = |pair: &[u8]| {
        let any = within(pair, 2)[0];
        let value = number(any, 3).map_or_else(|| text(within(any, 1)[0]), |number| number.to_string());
        (text(within(pair, 1)[0]), value)
    };
    within(message, field).into_iter().map(read).collect()
}

/// The spans of an `ExportTraceServiceRequest`.
fn spans(body: &[u8]) -> Vec<Span> {
    let mut spans = Vec::new();
    for resource_spans in within(body, 1) {
        let resource = attributes(within(resource_spans, 1)[0], 1);
        assert_eq!((&*resource["service.name"], &*resource["service.version"]), ("minitill", "0.1.0"));
        assert_eq!(resource["service.instance.id"].len(), 16);
        for scope_spans in within(resource_spans, 2) {
            assert_eq!(within(within(scope_spans, 1)[0], 1), [b"minitill"]);
            spans.extend(within(scope_spans, 2).into_iter().map(|span| Span {
                trace_id: hex::encode(within(span, 1)[0]),
                id: hex::encode(within(span, 2)[0]),
                parent_id: within(span, 4).first().map(hex::encode),
                name: String::from_utf8(within(span, 5)[0].to_vec()).unwrap(),
                kind: number(span, 6),
                started: number(span, 7).unwrap(),
                ended: number(span, 8).unwrap(),
                attributes: attributes(span, 9),
                status: within(span, 15).first().and_then(|status| number(status, 3)),
            }));
        }
    }
    spans
}

const HEADERS: &str = "authorization=Bearer the-collectors-key, x-tenant=a=b";

fn tracing_to(url: &str) -> impl FnOnce(&mut Config) + use<> {
    let variable = |name: &str, value: &str| (format!("MINITILL_TRACING__{name}"), value.to_owned());
    let variables = [variable("OTLP_ENDPOINT", url), variable("OTLP_HEADERS", HEADERS)];
    |config| config.tracing = Config::load(None, variables.into_iter()).unwrap().tracing
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Rule: a request is a span of its caller's trace, with endpoint, status and code. An exchange's wait and
/// its database work are spans within it.
#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_is_a_span_of_its_callers_trace_with_its_database_work_in_it() {
    let collector = collector().await;
    let till = TestTill::start_with(tracing_to(&collector.url("/v1/traces"))).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let sampled = format!("00-{CALLERS_TRACE}-{CALLERS_SPAN}-01");
    let request = Game::new(&app, "o1", "b1", 60).request();
    let request = request.header("traceparent", &sampled).header("x-request-id", "r1");
    assert_eq!(till.send(request).await.code(), 1);
    till.till.tracer.as_ref().unwrap().flush().await;
    let request = &collector.questions()[0];
    assert!(request.head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{}", request.head);
    assert_eq!(request.header("content-type"), "application/x-protobuf");
    assert_eq!(request.header("authorization"), "Bearer the-collectors-key");
    assert_eq!(request.header("x-tenant"), "a=b");
    let spans = received(&collector);
    let named = |name: &str| {
        let mut found = spans.iter().filter(|span| span.name == name);
        let span = found.next().unwrap_or_else(|| panic!("{name} in {spans:?}"));
        assert!(found.next().is_none() && span.trace_id == CALLERS_TRACE && span.status.is_none());
        span
    };
    let request = named("POST /api/{payment_segment}/minigame/pay");
    assert_eq!((request.parent_id.as_deref(), request.kind), (Some(CALLERS_SPAN), Some(2)));
    let expected = [
        ("http.request.method", "POST"),
        ("http.response.status_code", "200"),
        ("http.route", "/api/{payment_segment}/minigame/pay"),
        ("minitill.code", "1"),
        ("minitill.endpoint", "exchange"),
        ("minitill.request_id", "r1"),
    ];
    assert_eq!(request.attributes, map(&expected));
    let (queue, batch) = (named("exchange queue"), named("exchange batch"));
    assert_eq!((queue.kind, batch.kind), (Some(1), Some(3)));
    assert_eq!(batch.attributes, map(&[("db.system.name", "postgresql"), ("minitill.batch.exchanges", "1")]));
    for span in [queue, batch] {
        assert_eq!(span.parent_id.as_ref(), Some(&request.id));
    }
    let moments = [request.started, queue.started, queue.ended, batch.started, batch.ended, request.ended];
    assert!(moments.is_sorted() && queue.ended == batch.started, "{moments:?}");
    assert_eq!(request.started, 1_800_000_000_000 * 1_000_000, "the clock's time");
    assert!(batch.ended > batch.started);
    assert_eq!(spans.len(), 3);
}

/// Rule: a fetch is a span with its outcome, and a fault of ours is one there. Nothing secret and nothing personal is
/// in it, wherever it came.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_fetches_and_faults_are_told_and_nothing_secret_is() {
    let collector = collector().await;
    let till = TestTill::start_with(tracing_to(&collector.url("/v1/traces"))).await;
    let app = till.app("a1").await;
    till.player(&app, "player-1", 0, 100).await;
    let game = Game::new(&app, "player-1", "b1", 60);
    assert_eq!(game.clone().keyed("another").send(&till).await.code(), 100_200_114);
    let by_url = format!(
        "/openapi/mp/developer/file/img/uploadWithUrl?app_id=a1&access_token={}&url=http://127.0.0.1/hidden.png",
        app.token
    );
    assert_eq!(till.send(Request::post(&by_url)).await.code(), 10_000_419);
    till.send(Request::get(&format!("/oauth2/access_token?app_id=a1&app_secret={}", app.secret))).await;
    till.send(Request::get(&format!("/{}", app.pay_key)).header("cookie", &app.secret)).await;
    till.execute("ALTER TABLE ledger_entries RENAME TO gone").await;
    let failed = game.send(&till).await.status;
    till.till.tracer.as_ref().unwrap().flush().await;
    let spans = received(&collector);
    let told: Vec<_> = spans
        .iter()
        .filter(|span| span.kind == Some(2))
        .map(|span| (&*span.attributes["minitill.endpoint"], &*span.attributes["minitill.code"], span.status))
        .collect();
    let expected = [
        ("exchange", "100200114", None),
        ("upload_with_url", "10000419", None),
        ("access_token", "100200100", None),
        ("unknown", "10000200", None),
        ("exchange", "10000500", Some(2)),
    ];
    assert_eq!((told, failed), (expected.to_vec(), 500));
    let fetch = spans.iter().find(|span| span.name == "fetch").unwrap();
    let upload = spans.iter().find(|span| Some(&span.id) == fetch.parent_id.as_ref()).unwrap();
    assert_eq!(upload.attributes["minitill.endpoint"], "upload_with_url");
    assert_eq!(fetch.attributes, map(&[("minitill.fetch.outcome", "address_not_public")]));
    assert_eq!((fetch.kind, spans.iter().any(|span| span.name == "GET")), (Some(3), true));
    let everything = format!("{spans:?}");
    for secret in
        [&*app.token, &*app.secret, &*app.pay_key, "player-1", "hidden.png", "127.0.0.1", "203.0.113"]
    {
        assert!(!everything.contains(secret), "{secret}: {everything}");
    }
}

/// Rule: `traceparent` is honoured (contract 2.8): who keeps no trace has none kept. Without one a trace begins here.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_keeps_no_trace_has_none_kept() {
    let collector = collector().await;
    let till = TestTill::start_with(tracing_to(&collector.url("/v1/traces"))).await;
    for header in [Some("00"), Some("01"), None] {
        let mut request = Request::get("/oauth2/access_token");
        if let Some(flags) = header {
            request = request.header("traceparent", &format!("00-{CALLERS_TRACE}-{CALLERS_SPAN}-{flags}"));
        }
        till.send(request).await;
    }
    till.till.tracer.as_ref().unwrap().flush().await;
    let spans = received(&collector);
    let [kept, begun] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((kept.trace_id.as_str(), kept.parent_id.as_deref()), (CALLERS_TRACE, Some(CALLERS_SPAN)));
    assert!(begun.trace_id != CALLERS_TRACE && begun.parent_id.is_none());
}

/// Rule: a collector that is away, or takes connections and never answers, slows nobody. All spans that it does
/// not take are dropped and counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_slows_nobody() {
    let hangs = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    for address in [hangs.local_addr().unwrap(), nobody] {
        let till = TestTill::start_with(tracing_to(&format!("http://{address}/v1/traces"))).await;
        let app = till.app("a1").await;
        till.player(&app, "o1", 0, 100).await;
        let paying = async {
            for number in 0..20 {
                assert_eq!(Game::new(&app, "o1", &format!("b{number}"), 1).send(&till).await.code(), 1);
            }
        };
        // Each would take five seconds more if it waited for the collector: they would take more than this together.
        tokio::time::timeout(PATIENCE, paying).await.expect("nobody waits for the collector");
        let tracer = till.till.tracer.as_ref().unwrap();
        tracer.flush().await;
        // More than the queue holds: the rest is dropped at once.
        let begun = tracer.begin(None, tokio::time::Instant::now(), 0).unwrap();
        let answered = telemetry::traces::Answered {
            method: "GET",
            route: None,
            endpoint: "unknown",
            status: 404,
            code: 1,
            request_id: "",
        };
        for _ in 0..20_000 {
            tracer.end(&begun, answered);
        }
        let dropped = || async {
            let text = Request::get("/metrics").send(till.operator_address).await.body;
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("minitill_traces_total{outcome=\"dropped\"} "));
            line.unwrap().parse::<u64>().unwrap()
        };
        assert!(dropped().await > 10_000, "{}", dropped().await);
    }
}

/// Rule: what was answered before the program stops is still sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_stops_sends_what_it_has() {
    let collector = collector().await;
    let till = TestTill::start().await;
    let program =
        Program::on(&till.database_url).with("MINITILL_TRACING__OTLP_ENDPOINT", &collector.url("/v1/traces"));
    let server = program.serve(None).await;
    assert_eq!(Request::get("/nowhere").send(server.address).await.status, 404);
    tokio::task::spawn_blocking(|| server.terminate()).await.unwrap();
    assert_eq!(received(&collector).len(), 1);
}
