//! The commands of receivers (contract 12.2.2 to 12.2.8), by the real program.

use domain::event::RetryDelays;
use serde_json::{Value, json};

use super::{Scene, all_events};
use crate::support::program::Program;
use crate::support::receiver::{Receiver, Reply};

const RECEIVER: [&str; 15] = [
    "app_id",
    "created_at",
    "events",
    "failing_since",
    "format",
    "last_error",
    "last_failed_at",
    "last_status",
    "last_taken_at",
    "paused_at",
    "paused_by",
    "receiver_id",
    "state",
    "taken",
    "url",
];

fn members(value: &Value) -> Vec<&str> {
    let mut members: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    members.sort_unstable();
    members
}

/// The members of a receiver, and more.
fn with(more: &[&'static str]) -> Vec<&'static str> {
    let mut members = [&RECEIVER, more].concat();
    members.sort_unstable();
    members
}

/// Rules 12.2.2 and 12.2.3: what each command prints.
#[tokio::test(flavor = "multi_thread")]
async fn each_command_prints_what_it_does() {
    let receiver = Receiver::answering(|_, before| match before {
        0 => Reply::status(500).body("no"),
        _ => Reply::taken(),
    })
    .await;
    let scene = Scene::with(&[&receiver], |config| {
        config.notify.retry_delays = RetryDelays::new(vec![]);
    })
    .await;
    let program = Program::on(&scene.till.database_url)
        .with("MINITILL_NOTIFY__ALLOW_NETWORKS", "127.0.0.1/32")
        .with("MINITILL_NOTIFY__PORTS", &receiver.address.port().to_string());
    let url = receiver.url("/notify");
    let types = ["--event", "exchange.succeeded", "--event", "image.blocked"];
    let added = program.json(&[&["receiver", "add", "a1", &url][..], &types].concat());
    assert_eq!(members(&added), with(&["secret"]));
    let types = json!(["exchange.succeeded", "image.blocked"]);
    assert_eq!((&added["url"], &added["app_id"], &added["events"]), (&json!(url), &json!("a1"), &types));
    assert_eq!((&added["format"], &added["state"]), (&json!("standard"), &json!("active")));
    let id = added["receiver_id"].as_str().unwrap();
    let run = |command: &[&str]| {
        let [word, more @ ..] = command else { panic!("a command has a word") };
        program.json(&[&["receiver", word, "a1", id][..], more].concat())
    };
    let listed = program.json(&["receiver", "list", "a1"]);
    assert_eq!(members(&listed), ["receivers"]);
    let mut shown = added.clone();
    shown.as_object_mut().unwrap().remove("secret");
    assert_eq!(listed["receivers"], json!([shown]));

    scene.pay("b1").await;
    let event_id = all_events(&scene.till).await[1].id.as_text();
    super::until("it has failed", async || run(&["show"])["failed"] == 1).await;
    let shown = run(&["show"]);
    assert_eq!(members(&shown), with(&["failed", "oldest_waiting_at", "tries", "waiting"]));
    assert_eq!((&shown["state"], &shown["waiting"]), (&json!("failing"), &json!(0)));
    let tried = &shown["tries"][0];
    assert_eq!(members(tried), ["at", "body", "elapsed_ms", "error", "event_id", "status"]);
    assert_eq!((&tried["status"], &tried["body"]), (&json!(500), &json!("no")));
    let failed = run(&["failed"]);
    assert_eq!(members(&failed), ["failed"]);
    let mut one = failed["failed"][0].clone();
    assert!(one["last_at"].take().is_string());
    let expected = json!({
        "event_id": event_id, "type": "exchange.succeeded", "tries": 1, "last_at": null, "status": 500,
        "error": "expected 2xx, got 500",
    });
    assert_eq!(one, expected);
    assert_eq!(run(&["failed", "--until", "2020-01-01"]), json!({ "failed": [] }));
    assert_eq!(run(&["resend", "--since", "2020-01-01", "--until", "2020-01-02"]), json!({ "resent": 0 }));
    assert_eq!(run(&["resend", "--since", "2020-01-01"]), json!({ "resent": 1 }));
    receiver.until_received(2).await;
    assert_eq!(run(&["resend", &event_id]), json!({ "resent": 1 }));
    let came = receiver.until_received(3).await;
    assert!(came.iter().all(|notification| notification.id() == event_id));

    let tested = run(&["test"]);
    assert_eq!(members(&tested), ["body", "error", "event_id", "status", "taken"]);
    assert_eq!((&tested["taken"], &tested["status"]), (&json!(true), &json!(204)));
    assert_eq!(receiver.received().last().unwrap().id(), tested["event_id"].as_str().unwrap());
    let paused = run(&["pause"]);
    assert_eq!(members(&paused), RECEIVER);
    assert_eq!((&paused["state"], &paused["paused_by"]), (&json!("paused"), &json!("operator")));
    assert_eq!(run(&["resume"])["state"], "active");
    let rotated = run(&["rotate-secret"]);
    assert_eq!(members(&rotated), ["app_id", "receiver_id", "secret"]);
    assert_ne!(rotated["secret"], added["secret"]);
    assert_eq!(run(&["remove"])["removed"], true);
}

/// Rules 12.2.2 and 12.2.3: a receiver of the platform's format and of all types, until it is removed.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_of_the_platforms_format() {
    let scene = Scene::new(&[]).await;
    let program = Program::on(&scene.till.database_url);
    let added = program.json(&["receiver", "add", "a1", "http://203.0.113.1/", "--format", "platform"]);
    assert_eq!((&added["format"], &added["events"]), (&json!("platform"), &json!([])));
    let removed = program.json(&["receiver", "remove", "a1", added["receiver_id"].as_str().unwrap()]);
    let expected = json!({ "app_id": "a1", "receiver_id": added["receiver_id"], "removed": true });
    assert_eq!(removed, expected);
    assert_eq!(program.json(&["receiver", "list", "a1"]), json!({ "receivers": [] }));
}

/// Rules 12.2.1 and 12.2.8: what is refused names the field or the receiver.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_says_why() {
    let scene = Scene::new(&[]).await;
    scene.till.app("a2").await;
    let program = Program::on(&scene.till.database_url);
    let url = "http://203.0.113.1/";
    for wrong in ["http://203.0.113.1:8080/", "ftp://203.0.113.1/", "https://u:p@a.example/", "/notify"] {
        let complaint = program.complaint(&["receiver", "add", "a1", wrong]);
        assert!(complaint.contains("url: expected an absolute http or https URL"), "{wrong}: {complaint}");
        assert!(complaint.contains("on a port of notify.ports (80, 443)"), "{wrong}: {complaint}");
    }
    let unknown = program.complaint(&["receiver", "add", "a9", url]);
    assert!(unknown.contains("a9"), "{unknown}");
    let mut id = String::new();
    for _ in 0..5 {
        let added = program.json(&["receiver", "add", "a1", url]);
        added["receiver_id"].as_str().unwrap().clone_into(&mut id);
    }
    let sixth = program.complaint(&["receiver", "add", "a1", url]);
    assert!(sixth.contains("5 receivers"), "{sixth}");
    for command in ["show", "pause", "resume", "remove", "rotate-secret", "test", "failed"] {
        let complaint = program.complaint(&["receiver", command, "a2", &id]);
        assert!(
            complaint.contains(&format!("there is no receiver {id} of an app a2")),
            "{command}: {complaint}"
        );
    }
    let event_id = all_events(&scene.till).await[0].id.as_text().replace("0000", "0001");
    let complaint = program.complaint(&["receiver", "resend", "a1", &id, &event_id]);
    assert!(complaint.contains(&format!("there is no event {event_id}")), "{complaint}");
    let count = "SELECT count(*) FROM receivers WHERE app_id = 'a1' AND paused_at IS NULL";
    assert_eq!(scene.till.number(count).await, 5);
}

/// Rule 8.1.8: a list is of a day or of a month, which begin in its time zone.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_of_a_day_or_of_a_month() {
    let scene = Scene::new(&[]).await;
    let program = Program::on(&scene.till.database_url);
    let added = program.json(&["receiver", "add", "a1", "http://203.0.113.1/"]);
    let id = added["receiver_id"].as_str().unwrap();
    scene
        .till
        .execute(&format!(
            "INSERT INTO deliveries (app_id, receiver_id, event_no, event_id, event_at, type, state, tries, last_at, error)
             VALUES ('a1', '{id}', 1, 'evt_{:036}', '2026-10-31T16:00Z', 'wallet.credited', 'failed', 11, now(), 'late')",
            1
        ))
        .await;
    for (period, count) in [
        (&["--month", "2026-11"][..], 0),
        (&["--month", "2026-11", "--time-zone", "Asia/Shanghai"], 1),
        (&["--day", "2026-11-01", "--time-zone", "Asia/Shanghai"], 1),
        (&["--day", "2026-10-31", "--time-zone", "Asia/Shanghai"], 0),
    ] {
        let listed = program.json(&[&["receiver", "failed", "a1", id][..], period].concat());
        assert_eq!(listed["failed"].as_array().unwrap().len(), count, "{period:?}");
    }
    let resent = program.json(&["receiver", "resend", "a1", id, "--month", "2026-11"]);
    assert_eq!(resent, json!({ "resent": 0 }));
}
