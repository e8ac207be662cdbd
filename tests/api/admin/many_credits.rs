//! Many credits in one request (contract 8.3.11).

use domain::ids::OpenId;
use serde_json::{Value, json};
use store::LedgerFilter;

use super::{Caller, assert_answer, assert_problem, log};
use crate::support::{TestApp, TestTill};

const PATH: &str = "/apps/a1/credits:batch";

async fn till() -> (TestTill, TestApp) {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 40, 100).await;
    (till, app)
}

fn line(reference: &str, status: &str, purses: Option<(i64, i64)>) -> Value {
    let (free, charge) = purses.unzip();
    json!({"ref": reference, "status": status, "free_balance": free, "charge_balance": charge})
}

/// Rule: each credit takes effect once, in the order of the request, and a refused one leaves the others alone.
#[tokio::test(flavor = "multi_thread")]
async fn each_of_many_credits_is_answered_and_a_repeat_credits_nothing() {
    let (till, app) = till().await;
    let caller = Caller::admin(&till).await;
    let request = json!({"note": "festival", "credits": [
        {"open_id": "o1", "free": 10, "ref": "g1"},
        {"open_id": "o9", "free": 10, "ref": "g2"},
        {"open_id": "o1", "charge": 5, "ref": "g3"},
        {"open_id": "o1", "free": 10, "ref": "g1"},
        {"open_id": "o1", "free": 11, "ref": "g1"},
        {"open_id": "o1", "free": i64::MAX, "ref": "g4"},
    ]});
    let caller = &caller;
    let send = |body: Value| async move { caller.send("POST", PATH, None, &body).await };
    let refused = [line("g1", "ref_used", None), line("g4", "balance_too_large", None)];
    let first = json!({"credited": 2, "replayed": 1, "refused": 3, "lines": [
        line("g1", "credited", Some((50, 100))),
        line("g2", "unknown_player", None),
        line("g3", "credited", Some((50, 105))),
        line("g1", "replayed", Some((50, 100))),
        refused[0], refused[1],
    ]});
    assert_answer(&send(request.clone()).await, 200, &first);
    let mut with_players = request.clone();
    with_players["create"] = true.into();
    let second = json!({"credited": 1, "replayed": 3, "refused": 2, "lines": [
        line("g1", "replayed", Some((50, 100))),
        line("g2", "credited", Some((10, 0))),
        line("g3", "replayed", Some((50, 105))),
        line("g1", "replayed", Some((50, 100))),
        refused[0], refused[1],
    ]});
    assert_answer(&send(with_players.clone()).await, 200, &second);
    let third = send(with_players).await.json();
    assert_eq!((&third["credited"], &third["replayed"]), (&json!(0), &json!(4)));
    assert_eq!(till.purses(&app, "o1").await, (50, 105, 3));
    assert_eq!(till.purses(&app, "o9").await, (10, 0, 1));
    let lines = log(&till).await;
    let made: Vec<_> = lines.iter().filter(|line| line.action == "wallet.credits").collect();
    assert_eq!(made.len(), 2, "a request that credits nothing leaves no line");
    let after = made[0].after.as_ref().unwrap();
    assert_eq!(
        (&after["credited"], &after["free"], &after["charge"], made[0].note.as_str()),
        (&json!(2), &json!("10"), &json!("5"), "festival")
    );
    let o9 = OpenId::parse("o9").unwrap();
    let entries = till.store.ledger(&app.id, &o9, &LedgerFilter::default(), None, 9).await.unwrap().items;
    assert_eq!((entries[0].operator.as_deref(), entries[0].text.as_str()), (Some("backend"), "festival"));
    till.assert_audit_clean().await;
}

/// Rule 8.5.5: the line of many credits names each ref as it was sent, also one that begins with the mark of refs.
#[tokio::test(flavor = "multi_thread")]
async fn a_ref_that_begins_with_the_mark_of_refs_is_found_by_the_audit() {
    let (till, _) = till().await;
    let caller = Caller::admin(&till).await;
    let credits =
        ["!g1", "!!g1", "g1"].map(|reference| json!({"open_id": "o1", "free": 1, "ref": reference}));
    let answer = caller.send("POST", PATH, None, &json!({"credits": credits})).await;
    let lines = answer.json()["lines"].clone();
    let told: Vec<_> = lines.as_array().unwrap().iter().map(|line| (&line["ref"], &line["status"])).collect();
    let credited = json!("credited");
    assert_eq!(told, [(&json!("!g1"), &credited), (&json!("!!g1"), &credited), (&json!("g1"), &credited)]);
    till.assert_audit_clean().await;
}

/// Rule: a player is registered by a credit that is made, and by no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_credit_makes_nobody_known() {
    let (till, _) = till().await;
    let caller = Caller::admin(&till).await;
    let body = json!({"create": true, "credits": [
        {"open_id": "o8", "free": 1, "ref": "start-o1"},
        {"open_id": "o7", "free": 1, "ref": "g1"},
        {"open_id": "o6", "free": 1, "ref": "g1"},
    ]});
    let answer = caller.send("POST", PATH, None, &body).await.json();
    assert_eq!((&answer["credited"], &answer["refused"]), (&json!(1), &json!(2)));
    assert_eq!(till.number("SELECT count(*) FROM wallets").await, 2, "o1 and o7");
    till.assert_audit_clean().await;
}

/// Rule: a wrong field refuses the whole request and names its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_line_is_named_and_nothing_is_credited() {
    let (till, app) = till().await;
    let caller = Caller::admin(&till).await;
    let good = json!({"open_id": "o1", "free": 1, "ref": "g1"});
    let many = |line: Value| json!({"credits": [good, line]});
    let amount = "an integer from 0 to 9223372036854775807";
    let cases = [
        (json!({}), "credits", "is missing".to_owned()),
        (
            json!({"credits": []}),
            "credits",
            "expected a list of 1 to 10000 objects, got a list of 0".to_owned(),
        ),
        (
            json!({"credits": {}}),
            "credits",
            "expected a list of 1 to 10000 objects, got an object".to_owned(),
        ),
        (
            json!({"credits": vec![good.clone(); 10_001]}),
            "credits",
            "expected a list of 1 to 10000 objects, got a list of 10001".to_owned(),
        ),
        (many(json!("o1")), "credits[1]", "expected an object, got \"o1\"".to_owned()),
        (
            many(json!({"open_id": "o.1", "free": 1, "ref": "g"})),
            "credits[1].open_id",
            "expected 1 to 64 of 0-9A-Za-z_-, got \"o.1\"".to_owned(),
        ),
        (many(json!({"open_id": "o1", "free": 1})), "credits[1].ref", "is missing".to_owned()),
        (
            many(json!({"open_id": "o1", "free": -1, "ref": "g"})),
            "credits[1].free",
            format!("expected {amount}, got -1"),
        ),
        (
            many(json!({"open_id": "o1", "charge": 1.5, "ref": "g"})),
            "credits[1].charge",
            format!("expected {amount}, got 1.5"),
        ),
        (
            many(json!({"open_id": "o1", "ref": "g"})),
            "credits[1].free",
            "expected 1 or more in one of them, got 0".to_owned(),
        ),
        (
            many(json!({"open_id": "o1", "amount": 1, "ref": "g"})),
            "credits[1].amount",
            "unknown field, expected open_id, free, charge, ref".to_owned(),
        ),
        (
            json!({"credits": [good], "colour": 1}),
            "colour",
            "unknown field, expected charge, create, credits, dry_run, free, note, ref_prefix".to_owned(),
        ),
    ];
    for (body, field, problem) in cases {
        let answer = caller.send("POST", PATH, None, &body).await;
        let shown = answer.json()["errors"].clone();
        assert_eq!((answer.status, shown), (422, json!([{"field": field, "detail": problem}])));
    }
    let twice = r#"{"credits": [{"open_id": "o1", "free": 1, "free": 2, "ref": "g1"}]}"#;
    let request = caller.request("POST", PATH).header("content-type", "application/json");
    let answer = request.body(twice.to_owned()).send(till.operator_address).await;
    let problem = "expected each name once, got \"free\"";
    assert_eq!(answer.json()["errors"], json!([{"field": "credits[0].free", "detail": problem}]));
    let unknown = caller.send("POST", "/apps/a9/credits:batch", None, &json!({"credits": [good]})).await;
    assert_problem(&unknown, 404, "not-found", "there is no app a9");
    assert_eq!(till.purses(&app, "o1").await, (40, 100, 1));
}

/// Rule 8.3.17: what looks like the same ref credits nobody again.
#[tokio::test(flavor = "multi_thread")]
async fn a_ref_with_something_unseen_around_it_is_refused() {
    let (till, app) = till().await;
    let caller = Caller::admin(&till).await;
    let of = |reference: &str| json!({"credits": [{"open_id": "o1", "free": 1, "ref": reference}]});
    assert_eq!(caller.send("POST", PATH, None, &of("g1")).await.status, 200);
    let prefix = json!({"credits": [{"open_id": "o1"}], "free": 1, "ref_prefix": "fair "});
    for (body, field, got) in [
        (of(" g1"), "credits[0].ref", "\" g1\""),
        (of("g1\u{200b}"), "credits[0].ref", "\"g1\\u{200b}\""),
        (prefix, "ref_prefix", "\"fair \""),
    ] {
        let answer = caller.send("POST", PATH, None, &body).await;
        let detail = format!("expected no blank or unseen character around it, got {got}");
        let shown = answer.json()["errors"].clone();
        assert_eq!((answer.status, shown), (422, json!([{"field": field, "detail": detail}])));
    }
    for seen in ["g\u{a0}1", "g\u{2009}1", "g\u{3000}1", "g1\u{fffe}", "g1\u{e000}"] {
        let answer = caller.send("POST", PATH, None, &of(seen)).await;
        let detail = answer.json()["errors"][0]["detail"].as_str().unwrap_or_default().to_owned();
        let is_told = detail.starts_with("expected no unseen character in it, got ");
        assert!(answer.status == 422 && is_told, "{seen:?}: {}", answer.body);
    }
    assert_eq!(till.purses(&app, "o1").await, (41, 100, 2));
}

/// Rule: requests at once with the same refs credit each ref once.
#[tokio::test(flavor = "multi_thread")]
async fn many_credits_at_once_credit_each_ref_once() {
    let (till, app) = till().await;
    let caller = Caller::admin(&till).await;
    let credits: Vec<_> = (0..300)
        .map(|number| json!({"open_id": format!("o{}", number % 50), "free": 1, "ref": format!("g{number}")}))
        .collect();
    let mut reversed = credits.clone();
    reversed.reverse();
    let bodies = [credits, reversed].map(|credits| json!({"create": true, "credits": credits}));
    let sent = (0..8).map(|number| caller.send("POST", PATH, None, &bodies[number % 2]));
    let answers = futures_util::future::join_all(sent).await;
    let credited: u64 = answers.iter().map(|answer| answer.json()["credited"].as_u64().unwrap()).sum();
    assert_eq!(credited, 300);
    assert_eq!(till.purses(&app, "o1").await, (46, 100, 7));
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries WHERE kind = 'credit'").await, 301);
    till.assert_audit_clean().await;
}

/// Rule: the audit compares each of many credits with the ledger.
#[tokio::test(flavor = "multi_thread")]
async fn the_audit_names_a_credit_that_the_line_of_many_does_not_tell() {
    let (till, _) = till().await;
    let caller = Caller::admin(&till).await;
    let body = json!({"credits": [
        {"open_id": "o1", "free": 1, "ref": "g1"}, {"open_id": "o1", "free": 2, "ref": "g2"},
    ]});
    assert_eq!(caller.send("POST", PATH, None, &body).await.status, 200);
    till.execute(
        "UPDATE operator_log SET credits = json_build_array(credits->0) WHERE action = 'wallet.credits'",
    )
    .await;
    let report = json!(till.audit(None).await);
    let findings = report["findings"].as_array().unwrap();
    let details: Vec<_> = findings.iter().map(|finding| finding["detail"].as_str().unwrap()).collect();
    assert!(details.contains(&"entry 3: g2 has no line in the operator log"), "{details:?}");
    assert_eq!(details.len(), 2, "the hash of the line as well: {details:?}");
}

/// Rule 8.3.11: amounts and a prefix of the refs for all, and a dry run that credits nothing and tells the same.
#[tokio::test(flavor = "multi_thread")]
async fn many_credits_have_amounts_and_refs_for_all_and_a_dry_run() {
    let (till, app) = till().await;
    let caller = Caller::admin(&till).await;
    let mut body = json!({"free": 5, "ref_prefix": "fair", "dry_run": true, "credits": [
        {"open_id": "o1"}, {"open_id": "o9"}, {"open_id": "o1"}, {"open_id": "o1", "free": 7, "ref": "own"},
    ]});
    let would = caller.send("POST", PATH, None, &body).await;
    let expected = json!({"credited": 2, "replayed": 1, "refused": 1, "lines": [
        line("fair-o1", "credited", None), line("fair-o9", "unknown_player", None),
        line("fair-o1", "replayed", None), line("own", "credited", None),
    ]});
    assert_answer(&would, 200, &expected);
    assert_eq!(till.purses(&app, "o1").await, (40, 100, 1));
    body["dry_run"] = false.into();
    let made = caller.send("POST", PATH, None, &body).await.json();
    assert_eq!((&made["credited"], &made["replayed"], &made["refused"]), (&json!(2), &json!(1), &json!(1)));
    assert_eq!(till.purses(&app, "o1").await, (52, 100, 3));
    let refused = caller.send("POST", PATH, None, &json!({"free": 5, "credits": [{"open_id": "o1"}]})).await;
    assert_eq!(refused.json()["errors"], json!([{"field": "credits[0].ref", "detail": "is missing"}]));
}
