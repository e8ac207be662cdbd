//! Callbacks of payment providers (contract 19.4).

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use domain::console_user::Role;
use domain::operation::topup::ProviderCommand;
use domain::per_second::PerSecond;
use domain::topup::{CallbackFormat, CallbackSecret, PaymentProvider};
use serde_json::{Value, json};

use crate::admin::{Caller, assert_answer, assert_problem};
use crate::game::Game;
use crate::support::callback::{hmac, standard_at};
use crate::support::program::Program;
use crate::support::{Answer, MASTER_KEY, NOW, Request, TestApp, TestTill, operator};
use crate::topups::{app, order, payment, tell};

/// Secrets of the providers of these tests.
pub(crate) const PAY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(crate) const NEXT: &str = "whsec_Zml2ZSB0aW1lcyBmaXZlIGlzIHR3ZW50eSBmaXZl";
const STRIPE: &str = "whsec_of_an_endpoint_of_stripe";
const AT: i64 = NOW / 1000;

pub(crate) async fn set(
    till: &TestTill,
    app: &TestApp,
    provider: &str,
    format: CallbackFormat,
    secret: &str,
) {
    let (provider, secret) =
        (PaymentProvider::parse(provider).unwrap(), CallbackSecret::parse(format, secret).unwrap());
    let command = ProviderCommand::Set(format, secret);
    till.store.change_topup_provider(&operator(), &app.id, &provider, command).await.unwrap();
}

/// An app with an order t1 of 600 for o1, and both providers.
async fn stage(till: &TestTill) -> TestApp {
    let app = app(till).await;
    set(till, &app, "pay", CallbackFormat::Standard, PAY).await;
    set(till, &app, "stripe", CallbackFormat::Stripe, STRIPE).await;
    order(till, &app, "t1").await;
    app
}

fn standard(body: &Value) -> Request {
    standard_at("/notify/a1/pay", PAY, AT, &body.to_string())
}

/// A callback of Stripe, signed as its documents say.
fn stripe(body: &Value) -> Request {
    let body = body.to_string();
    let sign = hex::encode(hmac(STRIPE.as_bytes(), format!("{AT}.{body}").as_bytes()));
    Request::post("/notify/a1/stripe").header("stripe-signature", &format!("t={AT},v1={sign}")).body(body)
}

fn succeeded(id: &str, amount: i64, biz_no: &str) -> Value {
    json!({"type": "payment.succeeded", "timestamp": "2026-11-21T08:00:01Z", "data": {
        "provider_order_id": id, "currency": "CNY", "amount": amount, "paid_at": "2026-11-21T08:00:00Z",
        "biz_no": biz_no, "fee": 6, "note": "by card",
    }})
}

fn refunded(id: &str, refund_id: &str, amount: i64) -> Value {
    json!({"type": "payment.refunded", "data": {
        "provider_order_id": id, "refund_id": refund_id, "amount": amount, "reason": "by mistake",
    }})
}

fn session(id: &str, status: &str, biz_no: &str) -> Value {
    json!({"id": "evt_1", "type": "checkout.session.completed", "created": 1_795_250_000, "data": {"object": {
        "id": "cs_1", "payment_intent": id, "payment_status": status, "amount_total": 600, "currency": "cny",
        "metadata": {"biz_no": biz_no},
    }}})
}

fn charge_refunded(event: &str, id: &str, sum: i64) -> Value {
    json!({"id": event, "type": "charge.refunded", "created": 1_795_250_100, "data": {"object": {
        "id": "ch_1", "payment_intent": id, "amount": 600, "amount_refunded": sum, "currency": "cny",
    }}})
}

#[track_caller]
fn assert_told(answer: &Answer, status: u16, state: &str) {
    let body = format!(r#"{{"result":1,"error_msg":"success","state":"{state}"}}"#);
    assert_eq!((answer.status, &answer.body), (status, &body));
    assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
}

#[track_caller]
fn assert_refused(answer: &Answer, status: u16, code: u64, text: &str) {
    let body = json!({"result": code, "error_msg": text});
    assert_eq!((answer.status, answer.json()), (status, body), "{}", answer.body);
}

async fn events(till: &TestTill, of: &str) -> Vec<Value> {
    till.store.number_events(None).await.unwrap();
    let admin = Caller::new(till, "reader", Role::Viewer).await;
    let events = admin.get(&format!("/events?type={of}")).await.json();
    events["items"].as_array().unwrap().iter().map(|event| event["data"].clone()).collect()
}

/// Rules 19.4.1, 19.4.4 and 19.4.6: a callback of the standard format credits its payment once, however often it is
/// reported and by whom. Its refund takes back once what it brought.
#[tokio::test(flavor = "multi_thread")]
async fn a_callback_of_the_standard_format_credits_once() {
    let till = TestTill::start().await;
    let app = stage(&till).await;
    let (admin, caller) = (Caller::admin(&till).await, Caller::new(&till, "payments", Role::Payments).await);
    for _ in 0..2 {
        assert_told(&till.send(standard(&succeeded("p1", 600, "t1"))).await, 200, "paid");
        assert_eq!(till.purses(&app, "o1").await, (46, 160, 2));
    }
    let mut same = payment("p1", "t1");
    same["provider"] = "pay".into();
    assert_eq!(tell(&caller, &same).await.json()["replayed"], true);
    let shown = admin.get("/apps/a1/topups/pay/p1").await.json();
    let told = ["told_by", "fee", "note", "paid_at", "state"].map(|name| shown[name].clone());
    assert_eq!(
        told,
        [
            "provider pay".into(),
            6.into(),
            "by card".into(),
            "2026-11-21T08:00:00Z".into(),
            Value::from("paid")
        ]
    );
    assert_eq!(events(&till, "topup.paid").await.len(), 1);
    assert_eq!(Game::new(&app, "o1", "b1", 200).send(&till).await.code(), 1);
    for _ in 0..2 {
        assert_told(&till.send(standard(&refunded("p1", "r1", 600))).await, 200, "refunded");
        assert_eq!(till.purses(&app, "o1").await.0, 0);
    }
    let debt = Game::balance(&app, "o1").send(&till).await.json()["data"]["debt"].clone();
    assert_eq!(debt, json!({"free": 0, "charge": 60}), "the money has gone, so what is spent becomes debt");
    let line = admin.get("/operator-log").await.json()["items"][0].clone();
    assert_eq!(
        (&line["operator_kind"], &line["operator"], &line["note"]),
        (&"provider".into(), &"pay".into(), &"by mistake".into())
    );
    till.assert_audit_clean().await;
}

/// Rules 19.4.5 and 19.4.6: a session of Stripe that is paid credits its order; `charge.refunded` tells a running sum, and a
/// smaller one changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_callback_of_stripe_credits_once_and_refunds_to_its_sum() {
    let till = TestTill::start().await;
    let app = stage(&till).await;
    assert_told(&till.send(stripe(&session("pi_1", "unpaid", "t1"))).await, 200, "ignored");
    assert_told(&till.send(stripe(&json!({"type": "customer.created"}))).await, 200, "ignored");
    assert_eq!(till.purses(&app, "o1").await, (40, 100, 1));
    let mut late = session("pi_1", "paid", "t1");
    late["type"] = "checkout.session.async_payment_succeeded".into();
    for body in [session("pi_1", "paid", "t1"), session("pi_1", "paid", "t1"), late] {
        assert_told(&till.send(stripe(&body)).await, 200, "paid");
        assert_eq!(till.purses(&app, "o1").await, (46, 160, 2));
    }
    for (event, sum, state, purses) in [
        ("evt_r2", 300, "refunded", (43, 130, 3)),
        ("evt_r2", 300, "refunded", (43, 130, 3)),
        ("evt_r1", 200, "unchanged", (43, 130, 3)),
        ("evt_r3", 600, "refunded", (40, 100, 4)),
        ("evt_r4", 600, "unchanged", (40, 100, 4)),
    ] {
        let answer = till.send(stripe(&charge_refunded(event, "pi_1", sum))).await;
        assert_told(&answer, 200, state);
        assert_eq!(till.purses(&app, "o1").await, purses, "{event}");
    }
    let paid_at = till.number("SELECT extract(epoch FROM paid_at)::bigint FROM topup_payments").await;
    assert_eq!(paid_at, 1_795_250_000);
    till.assert_audit_clean().await;
}

/// Rules 13.7.13 and 19.4.4: a callback for an order of an erased player is kept, and Stripe need not repeat it.
#[tokio::test(flavor = "multi_thread")]
async fn a_callback_for_an_order_of_an_erased_player_is_kept() {
    let till = TestTill::start().await;
    stage(&till).await;
    let erased = Program::on(&till.database_url).json(&["player", "erase", "a1", "o1", "--yes"]);
    assert!(erased["pseudonym"].is_string(), "{erased}");
    for _ in 0..2 {
        assert_told(&till.send(stripe(&session("pi_1", "paid", "t1"))).await, 202, "unmatched");
    }
    let kept = events(&till, "topup.unmatched").await;
    assert_eq!((kept.len(), &kept[0]["reason"]), (1, &json!("unknown_player")));
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries WHERE kind = 'topup'").await, 0);
    till.assert_audit_clean().await;
}

/// Rules 2.5.3, 2.5.6 and 19.4.5: a number may come as decimal text, an identifier as an integer, and what is empty is absent.
/// An offset may lack its colon (8.1.8).
#[tokio::test(flavor = "multi_thread")]
async fn fields_of_a_callback_are_read_as_those_of_the_public_api() {
    let till = TestTill::start().await;
    let app = stage(&till).await;
    order(&till, &app, "123").await;
    let of_order = json!({"type": "payment.succeeded", "data": {
        "provider_order_id": 4_200_001, "currency": "CNY", "amount": "600", "biz_no": 123, "open_id": "",
        "paid_at": "2026-11-21T16:00:00+0800", "os": "", "fee": "36", "note": "",
    }});
    assert_told(&till.send(standard(&of_order)).await, 200, "paid");
    assert_eq!(till.purses(&app, "o1").await, (46, 160, 2));
    let shown = Caller::admin(&till).await.get("/apps/a1/topups/pay/4200001").await.json();
    let told = ["biz_no", "amount", "fee", "paid_at"].map(|name| shown[name].clone());
    assert_eq!(told, ["123".into(), 600.into(), 36.into(), Value::from("2026-11-21T08:00:00Z")]);
    let mut of_player = of_order.clone();
    for (name, value) in
        [("provider_order_id", "4200002"), ("biz_no", ""), ("open_id", "o1"), ("product_id", "gems60")]
    {
        of_player["data"][name] = value.into();
    }
    assert_told(&till.send(standard(&of_player)).await, 200, "paid");
    assert_eq!(till.purses(&app, "o1").await, (52, 220, 3));
    let mut back = refunded("4200001", "r1", 300);
    back["data"]["provider_order_id"] = 4_200_001.into();
    back["data"]["amount"] = "300".into();
    back["data"]["reason"] = "".into();
    assert_told(&till.send(standard(&back)).await, 200, "refunded");
    assert_eq!(till.purses(&app, "o1").await, (49, 190, 4));
    let mut of_stripe = session("pi_1", "paid", "t1");
    of_stripe["data"]["object"]["amount_total"] = "600".into();
    assert_told(&till.send(stripe(&of_stripe)).await, 200, "paid");
    let mut empty = of_order;
    empty["data"]["amount"] = "".into();
    assert_refused(&till.send(standard(&empty)).await, 422, 10_000_200, "data.amount is empty");
    till.assert_audit_clean().await;
}

/// Rules 2.10.3 and 19.4.7: a body of another kind than JSON is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_another_kind_is_named() {
    let till = TestTill::start().await;
    stage(&till).await;
    for (body, got) in [("", "nothing"), ("[]", "an array"), ("type=ping", "a form"), ("{\0\"\0", "UTF-16")] {
        let text = format!("body: expected a JSON object, got {got}");
        let answer = till.send(standard_at("/notify/a1/pay", PAY, AT, body)).await;
        assert_refused(&answer, 422, 10_000_200, &text);
    }
}

/// Rules 19.4.3 and 19.4.8: a callback that no secret of its app and provider has signed at about the present is 401. It leaves
/// a count and no row.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_signed_leaves_a_count_and_no_row() {
    let till = TestTill::start().await;
    let app = stage(&till).await;
    let other = till.app("a2").await;
    set(&till, &other, "pay", CallbackFormat::Standard, NEXT).await;
    let body = succeeded("p1", 600, "t1").to_string();
    let unsigned = "webhook-signature: no secret of this provider has signed the body; to set the one that signs, run: minitill topup provider";
    let far = |at: i64| {
        format!(
            "webhook-timestamp: expected a time within 5 minutes of the present, in Unix seconds, got \"{at}\""
        )
    };
    let of = |path: &str, secret: &str, at: i64| standard_at(path, secret, at, &body);
    let (path, changed) = ("/notify/a1/pay", body.replace("600", "601"));
    let refused = [
        (of(path, NEXT, AT), unsigned.to_owned()),
        (of("/notify/a2/pay", PAY, AT), unsigned.to_owned()),
        (of(path, PAY, AT).body(changed), unsigned.to_owned()),
        (of(path, PAY, AT - 301), far(AT - 301)),
        (of(path, PAY, AT + 301), far(AT + 301)),
        (Request::post(path).body(body.clone()), "webhook-id is missing".to_owned()),
        (Request::post("/notify/a1/stripe").body(body.clone()), "stripe-signature is missing".to_owned()),
        (
            of("/notify/a1/stripe", PAY, AT),
            "stripe-signature is missing; webhook-signature came: to take callbacks of Standard Webhooks, run: minitill topup provider --format standard"
                .to_owned(),
        ),
        (
            Request::post(path).header("Stripe-Signature", "t=1,v1=00").body(body.clone()),
            "webhook-id is missing; stripe-signature came: to take callbacks of Stripe, run: minitill topup provider --format stripe"
                .to_owned(),
        ),
    ];
    let count = refused.len();
    for (request, text) in refused {
        assert_refused(&till.send(request).await, 401, 100_200_114, &text);
    }
    assert_eq!(till.purses(&app, "o1").await, (40, 100, 1));
    let rows = "SELECT (SELECT count(*) FROM topup_payments) + (SELECT count(*) FROM topup_refunds)";
    assert_eq!(till.number(rows).await, 0);
    let metrics = Request::get("/metrics").send(till.operator_address).await.body;
    let counted = format!(r#"minitill_http_requests_total{{code="100200114",endpoint="callback"}} {count}"#);
    assert!(metrics.lines().any(|line| line == counted), "{metrics}");
    for edge in [AT - 300, AT + 300] {
        assert_told(&till.send(of(path, PAY, edge)).await, 200, "paid");
    }
}

/// Rule 19.4.9: what the headers tell is checked before the body comes. So no stranger makes the server hold bodies.
#[tokio::test(flavor = "multi_thread")]
async fn an_unsigned_callback_is_refused_before_its_body() {
    let till = TestTill::start().await;
    stage(&till).await;
    let standard = |at: i64, sign: &str| {
        format!("webhook-id: msg_1\r\nwebhook-timestamp: {at}\r\nwebhook-signature: {sign}\r\n")
    };
    let mac = "A".repeat(43) + "=";
    for (provider, headers, named) in [
        ("pay", String::new(), "webhook-id is missing"),
        ("pay", standard(AT - 301, &format!("v1,{mac}")), "webhook-timestamp: expected"),
        ("pay", standard(AT, &format!("v2,{mac}")), "webhook-signature: no secret"),
        ("stripe", String::new(), "stripe-signature is missing"),
        (
            "stripe",
            format!("stripe-signature: t={},v1={}\r\n", AT - 301, "0".repeat(64)),
            "stripe-signature: expected",
        ),
    ] {
        // Not a byte of the body comes, and the client waits.
        let head = format!(
            "POST /notify/a1/{provider} HTTP/1.1\r\nhost: till\r\nconnection: close\r\n{headers}content-length: 262000\r\n\r\n"
        );
        let answer = crate::support::raw(till.address, head.as_bytes()).await;
        assert_eq!((answer.status, answer.code()), (401, 100_200_114), "{}", answer.body);
        assert!(answer.message().starts_with(named), "{}", answer.body);
    }
}

/// Rules 19.4.2, 19.4.5 and 19.4.7: each refusal of a callback has its status and names what is wrong.
#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_of_a_callback_has_its_status() {
    let till = TestTill::start_with(|config| {
        config.limits.exchanges_per_second = PerSecond::parse("1000").unwrap();
    })
    .await;
    let app = stage(&till).await;
    for (path, named) in [("a1/paypal", "paypal of an app a1"), ("a9/pay", "pay of an app a9")] {
        let text = format!(
            "path: there is no payment provider {named}; to take its callbacks, run: minitill topup provider"
        );
        let answer = till.send(standard_at(&format!("/notify/{path}"), PAY, AT, "{}")).await;
        assert_eq!(answer.message().replace('"', ""), text);
        assert_eq!((answer.status, answer.code()), (404, 10_000_200));
    }
    let large = format!("{}{{}}", " ".repeat(256 * 1024 - 1));
    let answer = till.send(standard_at("/notify/a1/pay", PAY, AT, &large)).await;
    assert_eq!((answer.status, answer.code()), (413, 10_000_200), "{}", answer.body);
    let answer = till.send(standard_at("/notify/a1/pay", PAY, AT, &large[1..])).await;
    assert_eq!(answer.status, 422, "{}", answer.body);
    // A provider takes 2xx for delivered.
    let coded = standard(&succeeded("p1", 600, "t1")).header("content-encoding", "gzip");
    let text = "content-encoding: expected none, got \"gzip\"";
    assert_refused(&till.send(coded).await, 422, 10_000_200, text);
    let mut other = succeeded("p1", 600, "t1");
    other["data"]["provider"] = "stripe".into();
    let paid_at = |at: &str| {
        let mut payment = succeeded("p1", 600, "t1");
        payment["data"]["paid_at"] = at.into();
        payment
    };
    let mut nameless = succeeded("p1", 600, "t1");
    nameless["data"].as_object_mut().unwrap().remove("biz_no");
    let mut no_number = session("pi_1", "paid", "t1");
    no_number["data"]["object"]["metadata"] = json!({});
    for (request, text) in [
        (standard(&json!({})), "type is missing"),
        (
            standard(&succeeded("p1", 0, "t1")),
            "data.amount: expected an integer from 1 to 1000000000000, got 0",
        ),
        (
            standard(&paid_at("9999-12-31T23:59:59-08:00")),
            "data.paid_at: expected a date and time in the years 1 to 9999 of UTC, got \"9999-12-31T23:59:59-08:00\"",
        ),
        (
            standard(&paid_at("2099-01-01T00:00:00Z")),
            "data.paid_at: expected a time from 2000-01-01 on and at most a day ahead of now, got \"2099-01-01T00:00:00Z\"",
        ),
        (standard(&other), r#"data.provider: expected pay, got "stripe""#),
        (standard(&nameless), "data.biz_no is missing; without it, expected open_id and product_id"),
        (stripe(&no_number), "data.object.metadata.biz_no is missing"),
    ] {
        assert_refused(&till.send(request).await, 422, 10_000_200, text);
    }
    assert_eq!(till.purses(&app, "o1").await, (40, 100, 1));
    assert_told(&till.send(standard(&succeeded("p1", 600, "t1"))).await, 200, "paid");
    let text = "the payment pay/p1 was told of with another amount; the first stands";
    assert_refused(&till.send(standard(&succeeded("p1", 601, "t1"))).await, 409, 10_000_200, text);
    assert_told(&till.send(standard(&refunded("p1", "r1", 100))).await, 200, "refunded");
    let text = "the refund pay/p1/r1 was told of with another amount; the first stands";
    assert_refused(&till.send(standard(&refunded("p1", "r1", 101))).await, 409, 10_000_200, text);
    till.assert_audit_clean().await;
}

/// Rules 19.3.1 and 19.5.1: a blank around an id makes no other payment and no other refund. A reason of a blank is none, for
/// the money has gone back all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_blank_around_an_id_credits_and_refunds_nothing_again() {
    let till = TestTill::start().await;
    let app = stage(&till).await;
    assert_told(&till.send(standard(&succeeded("p1", 600, "t1"))).await, 200, "paid");
    let mut blank = refunded("p1", "r1", 100);
    blank["data"]["reason"] = " ".into();
    assert_told(&till.send(standard(&blank)).await, 200, "refunded");
    let purses = till.purses(&app, "o1").await;
    let around = "expected no blank or unseen character around it, got";
    for (body, field, got) in [
        (succeeded("p1 ", 600, "t1"), "provider_order_id", "p1 "),
        (refunded("p1", " r1", 100), "refund_id", " r1"),
    ] {
        let text = format!("data.{field}: {around} {got:?}");
        assert_refused(&till.send(standard(&body)).await, 422, 10_000_200, &text);
    }
    // Payments of before may have one. This refund is of no payment that is kept.
    assert_told(&till.send(standard(&refunded(" p1", "r1", 100))).await, 202, "waiting");
    assert_eq!(till.purses(&app, "o1").await, purses);
    till.assert_audit_clean().await;
}

/// Rule 19.4.7: callbacks have a rate limit of their app of their own, as high as that of exchanges.
#[tokio::test(flavor = "multi_thread")]
async fn callbacks_have_a_rate_limit_of_their_app() {
    let till = TestTill::start_with(|config| {
        config.limits.exchanges_per_second = PerSecond::parse("2").unwrap();
    })
    .await;
    let app = stage(&till).await;
    till.clock.advance(Duration::from_secs(2));
    let ping = standard_at("/notify/a1/pay", PAY, AT + 2, r#"{"type":"ping"}"#);
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(till.send(ping.clone()).await);
    }
    let refused: Vec<_> = statuses.iter().filter(|answer| answer.status != 200).collect();
    assert!(!refused.is_empty() && refused.len() < 4, "{}", refused.len());
    for answer in refused {
        let text = "rate limit: expected at most 2 callbacks a second of this app; wait as Retry-After says";
        assert_refused(answer, 429, 10_000_305, text);
        assert!(answer.header("retry-after").is_some());
    }
    assert_eq!(Game::new(&app, "o1", "b1", 1).with("ts", NOW + 2000).send(&till).await.code(), 1);
}

/// Rules 19.4.6 and 19.5.8: what fits nothing is kept and answered 202. That is a payment of an unknown order, a refund
/// before its payment, or a refund above what is left.
#[tokio::test(flavor = "multi_thread")]
async fn what_fits_nothing_is_kept() {
    let till = TestTill::start().await;
    let app = stage(&till).await;
    assert_told(&till.send(standard(&succeeded("p9", 600, "nobodys"))).await, 202, "unmatched");
    assert_told(&till.send(standard(&refunded("p1", "r1", 300))).await, 202, "waiting");
    assert_told(&till.send(standard(&succeeded("p1", 600, "t1"))).await, 200, "paid");
    assert_eq!(till.purses(&app, "o1").await, (43, 130, 3));
    for _ in 0..2 {
        assert_told(&till.send(standard(&refunded("p1", "r2", 301))).await, 202, "refused");
    }
    assert_eq!(till.purses(&app, "o1").await, (43, 130, 3));
    let told = events(&till, "topup.refund_refused").await;
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0]["refund_id"], &told[0]["amount"]), (&"r2".into(), &301.into()));
    let logged =
        "SELECT count(*) FROM operator_log WHERE operator_kind = 'provider' AND action = 'topup.refund'
                  AND after ->> 'ref' = 'pay/p1/r2' AND after ->> 'state' = 'refused'";
    assert_eq!(till.number(logged).await, 1);
    assert_told(&till.send(standard(&refunded("p1", "r3", 300))).await, 200, "refunded");
    assert_eq!(till.purses(&app, "o1").await, (40, 100, 4));
    till.assert_audit_clean().await;
}

/// Rules 19.4.4 and 19.3.4: of many reports of a payment at once, by callbacks and by the admin API, one credits it.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_reports_at_once_one_credits() {
    let till = TestTill::start().await;
    let app = stage(&till).await;
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    let mut same = payment("p1", "t1");
    same["provider"] = "pay".into();
    let callbacks = (0..8).map(|_| till.send(standard(&succeeded("p1", 600, "t1"))));
    let calls = (0..8).map(|_| tell(&caller, &same));
    let (callbacks, calls) =
        tokio::join!(futures_util::future::join_all(callbacks), futures_util::future::join_all(calls));
    for answer in callbacks {
        assert_told(&answer, 200, "paid");
    }
    let first = calls.iter().filter(|answer| answer.json()["replayed"] == false).count();
    assert!(first <= 1 && calls.iter().all(|answer| answer.status == 200));
    assert_eq!(till.purses(&app, "o1").await, (46, 160, 2));
    till.assert_audit_clean().await;
}

/// Rule 19.4.2: a provider is set, shown without its secret, and removed; a former secret of the same format is valid for a
/// day. The log has a line for each change.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_is_set_with_two_valid_secrets_and_removed() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    order(&till, &app, "t1").await;
    let admin = Caller::admin(&till).await;
    let path = "/apps/a1/topup-providers";
    let put = async |format: &str, secret: &str| {
        let body = json!({"format": format, "secret": secret});
        admin.send("PUT", &format!("{path}/pay"), None, &body).await
    };
    let first = put("standard", PAY).await;
    let set_at = first.json()["set_at"].clone();
    let shown = json!({"provider": "pay", "format": "standard", "set_at": set_at, "former_until": null});
    assert_answer(&first, 200, &shown);
    assert_answer(&put("standard", PAY).await, 200, &shown);
    assert_answer(&admin.get(path).await, 200, &json!({"items": [shown], "next": null}));
    let second = put("standard", NEXT).await.json();
    assert!(second["former_until"].is_string() && second["set_at"] != set_at, "{second}");
    for secret in [PAY, NEXT] {
        let ping = standard_at("/notify/a1/pay", secret, AT, r#"{"type":"ping"}"#);
        assert_told(&till.send(ping).await, 200, "ignored");
    }
    till.execute("UPDATE topup_providers SET former_until = now() - interval '1 second'").await;
    till.clock.advance(Duration::from_secs(5));
    let with = |secret| standard_at("/notify/a1/pay", secret, AT, r#"{"type":"ping"}"#);
    assert_eq!(till.send(with(PAY)).await.status, 401);
    assert_told(&till.send(with(NEXT)).await, 200, "ignored");
    // The secret of another format signs nothing of this one.
    assert_eq!(put("stripe", STRIPE).await.json()["former_until"], Value::Null);
    let wrong = put("standard", "whsec_c2hvcnQ=").await;
    assert_problem(&wrong, 422, "invalid-field", "wrong: secret");
    assert_eq!(
        wrong.json()["errors"],
        json!([{"field": "secret", "detail": "expected whsec_ and 24 to 64 bytes in base64"}])
    );
    let developer = Caller::new(&till, "dev", Role::Developer).await;
    assert_eq!(developer.send("DELETE", &format!("{path}/pay"), None, &json!({})).await.status, 403);
    let removed = admin.send("DELETE", &format!("{path}/pay"), None, &json!({})).await;
    assert_answer(&removed, 200, &json!({"app_id": "a1", "provider": "pay", "removed": true}));
    let again = admin.send("DELETE", &format!("{path}/pay"), None, &json!({})).await;
    assert_problem(&again, 404, "not-found", "there is no payment provider pay of an app a1");
    till.clock.advance(Duration::from_secs(5));
    assert_eq!(till.send(with(NEXT)).await.status, 404);
    let log = admin.get("/operator-log").await.json();
    let lines: Vec<_> =
        log["items"].as_array().unwrap().iter().filter(|line| line["subject"] == "pay").collect();
    assert_eq!(
        lines.iter().map(|line| line["action"].as_str().unwrap()).collect::<Vec<_>>(),
        ["topup_provider.remove", "topup_provider.set", "topup_provider.set", "topup_provider.set"]
    );
    assert!(![PAY, NEXT, STRIPE].iter().any(|secret| log.to_string().contains(secret)));
    till.assert_audit_clean().await;
}

/// Rule 19.4.2: the command line sets, lists and removes a provider. A rotation of the master key encrypts its secrets again.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_sets_a_provider_whose_secret_survives_a_rotation() {
    let till = TestTill::start().await;
    app(&till).await;
    let program = Program::on(&till.database_url);
    for secret in [PAY, NEXT] {
        program.json(&["topup", "provider", "a1", "pay", "--format", "standard", "--secret", secret]);
    }
    let wrong =
        program.complaint(&["topup", "provider", "a1", "pay", "--format", "stripe", "--secret", "short"]);
    assert!(wrong.contains("--secret: expected 16 to 256 printable ASCII characters"), "{wrong}");
    assert!(!wrong.contains("short"), "{wrong}");
    let listed = program.json(&["topup", "providers", "a1"]);
    assert_eq!(listed["providers"][0]["provider"], "pay", "{listed}");
    let keys = format!("{},{MASTER_KEY}", "2".repeat(64));
    let program = program.with("MINITILL_SECRETS__MASTER_KEY", &keys);
    program.json(&["master-key", "rotate"]);
    let program = program.with("MINITILL_SECRETS__MASTER_KEY", &"2".repeat(64));
    let server = program.serve(None).await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    for secret in [PAY, NEXT] {
        let ping = standard_at("/notify/a1/pay", secret, now.try_into().unwrap(), r#"{"type":"ping"}"#);
        assert_told(&ping.send(server.address).await, 200, "ignored");
    }
    program.json(&["topup", "remove-provider", "a1", "pay"]);
    let gone = program.complaint(&["topup", "remove-provider", "a1", "pay"]);
    assert!(gone.contains("there is no payment provider pay of an app a1"), "{gone}");
}

/// Rules 2.11.1 and 19.4.2: a secret that does not fit is told what stands around it or came in its place, and is not shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_does_not_fit_is_told_why_and_not_shown() {
    let till = TestTill::start().await;
    app(&till).await;
    let program = Program::on(&till.database_url);
    let set_by = |piped: &[u8]| {
        let arguments = ["topup", "provider", "a1", "stripe", "--format", "stripe", "--secret", "-"];
        let mut command = program.command(&arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(piped).unwrap();
        child.wait_with_output().unwrap()
    };
    let in_utf16: Vec<u8> = format!("\u{feff}{STRIPE}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let printable = "expected 16 to 256 printable ASCII characters; it has";
    for (piped, text) in [
        (format!("\"{STRIPE}\"\n").into_bytes(), format!("{printable} quotes around it")),
        (format!("\u{feff}{STRIPE}\n").into_bytes(), format!("{printable} a zero-width character around it")),
        (
            format!("STRIPE_WEBHOOK_SECRET={STRIPE}\n").into_bytes(),
            format!("{printable} a name before it: send the value alone"),
        ),
        (
            b"sk_test_of_an_endpoint_of_stripe\n".to_vec(),
            "expected the signing secret of the endpoint (whsec_...), not an API key".to_owned(),
        ),
        (in_utf16[2..].to_vec(), "expected UTF-8 text, got UTF-16".to_owned()),
        (in_utf16, "expected UTF-8 text, got UTF-16".to_owned()),
        (b"whsec_\xb3\xe4_of_an_endpoint".to_vec(), "expected UTF-8 text".to_owned()),
    ] {
        let output = set_by(&piped);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        assert!(complaint.contains(&format!("--secret: {text}\n")), "{complaint}");
        assert!(!complaint.contains("endpoint_of_stripe"), "{complaint}");
    }
    let output = set_by(format!(" {STRIPE} \r\n").as_bytes());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let body = json!({"format": "stripe", "secret": format!("'{STRIPE}'")});
    let quoted = Caller::admin(&till).await.send("PUT", "/apps/a1/topup-providers/stripe", None, &body).await;
    assert_problem(&quoted, 422, "invalid-field", "wrong: secret");
    let detail = format!("{printable} quotes around it");
    assert_eq!(quoted.json()["errors"], json!([{"field": "secret", "detail": detail}]));
}
