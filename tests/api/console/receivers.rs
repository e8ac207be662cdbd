//! Receivers of notifications in the console.

mod events;

use domain::console_user::Role;
use domain::event::EventId;
use domain::ids::WebUrl;
use domain::operation::receiver::{NewReceiver, ReceiverCommand, ReceiverReport};
use domain::receiver::{Receiver, ReceiverFormat, ReceiverId, ReceiverState};
use minitill::operator::console::{Access, routes};
use store::OperatorLogFilter;

use super::accessible::faults;
use super::apps::secret;
use super::reading::{content, link_called, rows, value_of};
use crate::support::console::{Browser, ESCAPED, HOSTILE};
use crate::support::receiver::{Receiver as TestReceiver, Reply};
use crate::support::{Answer, TestApp, TestTill, operator};

const LIST: &str = "/console/apps/a1/receivers";
const URL: &str = "https://game.example/notify";
/// An event that is not there.
const NO_EVENT: &str = "evt_0123456789abcdef0123456789abcdef0001";

async fn add(till: &TestTill, app: &TestApp, url: &str) -> Receiver {
    let (url, format) = (WebUrl::parse(url).unwrap(), ReceiverFormat::Standard);
    let command = ReceiverCommand::Add(NewReceiver { url, events: Vec::new(), format });
    match till.store.change_receivers(&operator(), &app.id, command, None).await.unwrap() {
        ReceiverReport::Added(added) => added.receiver,
        other => panic!("no receiver is added: {other:?}"),
    }
}

fn path(receiver: &Receiver) -> String {
    format!("{LIST}/{}", receiver.receiver_id)
}

/// The id of the newest event.
async fn event_id(till: &TestTill) -> EventId {
    till.store.number_events(None).await.unwrap();
    let sql = "SELECT encode(row_id, 'hex') FROM events ORDER BY last_no DESC LIMIT 1";
    let row: String = sqlx::query_scalar(sql).fetch_one(&till.sql).await.unwrap();
    EventId::parse(&format!("evt_{row}0000")).unwrap()
}

/// Adds a receiver by the form.
async fn send_new(admin: &Browser<'_>, fields: &[(&str, &str)]) -> Answer {
    let seen = value_of(&admin.get(LIST).await, "seen");
    let fields: Vec<_> = [("seen", seen.as_str())].into_iter().chain(fields.iter().copied()).collect();
    admin.post(LIST, &fields).await
}

/// Rules 12.2.1 and 12.2.12: an admin adds a receiver, whose secret is shown once. The form that is sent again adds no
/// second one.
#[tokio::test(flavor = "multi_thread")]
async fn an_admin_adds_receivers_and_each_secret_is_shown_once() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let admin = till.browser(Role::Admin).await;
    let own = link_called(&admin.get("/console/apps/a1").await, "Receivers");
    assert_eq!(own.as_deref(), Some(LIST));
    let empty = admin.get(LIST).await;
    assert_eq!(
        content(&empty),
        "App: a1 A receiver is a webhook endpoint. Minitill sends it the events of this app. An app has at most 5. The app has \
         no receivers. New receiver Add a receiver URL An absolute http or https URL without a user. You cannot \
         change it later. Format standard platform standard: Standard Webhooks 1.0.0. platform: as the platform \
         sends its own notifications. Events exchange.succeeded present.succeeded cancel.succeeded wallet.credited \
         wallet.debited wallet.frozen wallet.thawed topup.paid topup.unmatched topup.refunded topup.refund_refused wallet.debt_changed order.changed image.blocked If you select none, Minitill sends all events. Add the receiver The next page shows its secret once."
    );
    let seen = value_of(&empty, "seen");
    let fields = [
        ("seen", seen.as_str()),
        ("url", "https://game.example/notify?a=<b>"),
        ("format", "standard"),
        ("events_exchange.succeeded", "yes"),
        ("events_image.blocked", "yes"),
    ];
    let made = admin.post(LIST, &fields).await;
    assert_eq!((made.status, made.header("cache-control")), (200, Some("no-store")), "{}", made.body);
    let shown = secret(&made.body, "Secret");
    assert!(shown.starts_with("whsec_") && shown.len() == 50, "{shown}");
    let [receiver] = &till.store.receivers(&app.id).await.unwrap()[..] else { panic!("not one receiver") };
    let kept = till.store.receiver_to_test(&app.id, &receiver.receiver_id).await.unwrap().unwrap();
    assert_eq!(kept.secrets[0].expose(), shown);
    assert_eq!(
        (
            receiver.url.as_str(),
            receiver.format,
            receiver.events.iter().map(|event| event.as_str()).collect()
        ),
        (fields[1].1, ReceiverFormat::Standard, vec!["exchange.succeeded", "image.blocked"])
    );
    let told = content(&made);
    let next = "Give it to the receiver now. It verifies every notification with it, as Standard Webhooks says. The \
                receiver gets what happens from now on. Its page sends a test event. Continue";
    assert!(told.ends_with(next) && told.contains(receiver.receiver_id.as_str()), "{told}");
    assert_eq!(link_called(&made, "Continue"), Some(path(receiver)));

    let again = admin.post(LIST, &fields).await;
    let stale = "The receivers of the app a1 or their secrets have changed since this form was shown.";
    assert!(again.status == 400 && again.body.contains(stale), "{}", again.body);
    for page in [LIST, &path(receiver), "/console/log"] {
        let page = admin.get(page).await.body;
        assert!(page.contains("notify?a=&#60;b&#62;") && !page.contains(shown), "{page}");
    }
    let line = till.store.operator_log(&OperatorLogFilter::default(), 1).await.unwrap().pop().unwrap();
    let known = (line.action.as_str(), line.subject.as_str(), line.operator_kind.as_str());
    assert_eq!(known, ("receiver.add", receiver.receiver_id.as_str(), "console"));

    assert_eq!(send_new(&admin, &[("url", URL), ("format", "platform")]).await.status, 303);
    for _ in 0..3 {
        assert_eq!(send_new(&admin, &[("url", URL), ("format", "standard")]).await.status, 200);
    }
    let full = admin.get(LIST).await;
    assert!(
        content(&full).ends_with("The app has 5 receivers. Remove one before you add another."),
        "{full:?}"
    );
    assert!(!full.body.contains("name=\"seen\""));
    let mark = till.store.receivers_mark(&app.id).await.unwrap();
    let sixth = admin.post(LIST, &[("seen", &mark), ("url", URL), ("format", "standard")]).await;
    assert!(sixth.status == 400 && sixth.body.contains("The app has 5 receivers, and may have no more."));
    assert_eq!(till.number("SELECT count(*) FROM receivers").await, 5);
}

/// Rule 12.2.12: a receiver of the platform format has no secret, so there is nothing to show once.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_of_the_platform_format_has_no_secret() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let admin = till.browser(Role::Admin).await;
    let platform = send_new(&admin, &[("url", URL), ("format", "platform")]).await;
    let path = platform.header("location").unwrap();
    assert!(platform.status == 303 && path.ends_with("?done=add"), "{} {path}", platform.status);
    let page = admin.get(path).await.body;
    assert!(page.contains("there is no other secret") && !page.contains("rotate-secret"), "{page}");
    let rotate = format!("{}/rotate-secret", path.split('?').next().unwrap());
    let seen = value_of(&admin.get(LIST).await, "seen");
    let refused = admin.post(&rotate, &[("seen", &seen)]).await;
    let words = "A receiver of the platform format has no secret of its own: the app secret signs.";
    assert!(refused.status == 400 && refused.body.contains(words), "{} {}", refused.status, refused.body);
}

/// Rule 8.6.17: whoever makes a key, or a receiver and its end, proves who they are. Other changes need no proof.
#[test]
fn new_secrets_and_the_end_of_a_receiver_need_a_proof() {
    let of_receivers = routes().filter(|route| route.path.starts_with("/console/apps/{app_id}/receivers"));
    let proven =
        of_receivers.filter(|route| matches!(route.access, Access::Proven(_))).map(|route| route.path);
    let receiver = "/console/apps/{app_id}/receivers/{receiver_id}";
    let expected = ["/console/apps/{app_id}/receivers".to_owned(), format!("{receiver}/rotate-secret")];
    assert_eq!(proven.collect::<Vec<_>>(), [&expected[..], &[format!("{receiver}/remove")]].concat());
}

/// Rule 12.2.8: what cannot be used is named, and nothing is added.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_cannot_be_is_refused_by_its_field() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let admin = till.browser(Role::Admin).await;
    let expected = "URL: expected an absolute http or https URL with a host, at most 2048 bytes, without a user, on a \
                    port of notify.ports (80, 443)";
    for url in
        ["", "game.example", "ftp://game.example/", "https://a@game.example/", "https://game.example:22/"]
    {
        let refused = send_new(&admin, &[("url", url), ("format", "standard")]).await;
        let got = if url.is_empty() { String::new() } else { format!(", got &#34;{url}&#34;") };
        let what_next =
            "Nothing was changed. Go back and correct the input. Back to the form Go to the overview";
        let told = content(&refused).replace(" .", ".");
        assert_eq!((refused.status, told), (400, format!("{expected}{got}. {what_next}")), "{url}");
    }
    let refused = send_new(&admin, &[("url", URL), ("format", "soap")]).await;
    let expected = "Format: expected standard or platform, got &#34;soap&#34;.";
    assert!(refused.status == 400 && refused.body.contains(expected), "{}", refused.body);
    assert_eq!(till.number("SELECT count(*) FROM receivers").await, 0);
}

/// Rule 12.2.13: a new secret is shown once and made once, however often its form is sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_secret_is_made_once() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let receiver = add(&till, &app, URL).await;
    let admin = till.browser(Role::Admin).await;
    let secrets = async || {
        let kept = till.store.receiver_to_test(&app.id, &receiver.receiver_id).await.unwrap().unwrap();
        kept.secrets.iter().map(|secret| secret.expose().to_owned()).collect::<Vec<_>>()
    };
    let before = secrets().await;
    let seen = value_of(&admin.get(&path(&receiver)).await, "seen");
    let rotate = format!("{}/rotate-secret", path(&receiver));
    let made = admin.post(&rotate, &[("seen", &seen)]).await;
    assert_eq!((made.status, made.header("cache-control")), (200, Some("no-store")), "{}", made.body);
    let shown = secret(&made.body, "Secret");
    assert_eq!(secrets().await, [shown, &before[0]]);
    let next = "Give it to the receiver now. The secret before it signs too for 24 hours. An older one no longer \
                signs. Continue";
    assert!(content(&made).ends_with(next), "{}", content(&made));
    for fields in [&[("seen", seen.as_str())][..], &[]] {
        let again = admin.post(&rotate, fields).await;
        assert!(again.status == 400 && again.body.contains("have changed since this form was shown"));
    }
    assert_eq!(secrets().await, [shown, &before[0]]);
    assert!(!admin.get(&path(&receiver)).await.body.contains(shown));
}

/// Two forms that come at once make one secret.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_sent_twice_at_once_is_carried_out_once() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let admin = till.browser(Role::Admin).await;
    let seen = value_of(&admin.get(LIST).await, "seen");
    let fields = [("seen", seen.as_str()), ("url", URL), ("format", "standard")];
    let sent = futures_util::future::join_all((0..4).map(|_| admin.post(LIST, &fields))).await;
    let mut statuses: Vec<_> = sent.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400, 400, 400]);
    assert_eq!(till.number("SELECT count(*) FROM receivers").await, 1);
}

/// Rule 12.2.7: every state in words, on both pages.
#[tokio::test(flavor = "multi_thread")]
async fn each_state_is_told_in_words() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let receiver = add(&till, &app, URL).await;
    let (id, page) = (&receiver.receiver_id, path(&receiver));
    till.execute("UPDATE receivers SET created_at = '2026-11-01T07:00Z'").await;
    let viewer = till.browser(Role::Viewer).await;
    let row = |state: &str, success: &str, failure: &str| {
        [&format!("{id} {URL}"), state, "all", success, failure].map(str::to_owned).to_vec()
    };
    let failed =
        "last_failed_at = '2026-11-21T08:00:01Z', last_status = 500, last_error = 'expected 2xx, got 500'";
    let cases = [
        ("taken = 0".to_owned(), "Active", "none", "none", "none"),
        (
            "taken = 1234, last_taken_at = '2026-11-20T08:00Z'".to_owned(),
            "Active",
            "2026-11-20 08:00:00",
            "none",
            "none",
        ),
        (
            format!("failing_since = '2026-11-21T07:59Z', {failed}"),
            "Failing since 2026-11-21 07:59:00",
            "2026-11-20 08:00:00",
            "2026-11-21 08:00:01 expected 2xx, got 500",
            "2026-11-21 08:00:01 , expected 2xx, got 500",
        ),
        (
            "paused_at = '2026-11-21T08:00:02Z', paused_by = 'receiver', last_status = NULL, last_error = 'connect_failed'"
                .to_owned(),
            "Paused by the receiver, which answered 410, 2026-11-21 08:00:02",
            "2026-11-20 08:00:00",
            "2026-11-21 08:00:01 no answer: connect failed",
            "2026-11-21 08:00:01 , no answer: connect failed",
        ),
        (
            "paused_by = 'operator'".to_owned(),
            "Paused by an operator, 2026-11-21 08:00:02",
            "2026-11-20 08:00:00",
            "2026-11-21 08:00:01 no answer: connect failed",
            "2026-11-21 08:00:01 , no answer: connect failed",
        ),
    ];
    for (change, state, success, in_list, on_page) in cases {
        till.execute(&format!("UPDATE receivers SET {change}")).await;
        assert_eq!(rows(&viewer.get(LIST).await.body), [row(state, success, in_list)]);
        let shown = viewer.get(&page).await;
        let taken = if success == "none" { "0" } else { "1_234" };
        let details = format!(
            "App: a1 All receivers of the app Operator log Details State {state} URL {URL} Format standard Events all \
             Waiting events 0 Failed events 0 Taken events {taken} Pace 0 tries in the last hour \
             Answer time none Last success {success} Last failure {on_page} Created \
             2026-11-01 07:00:00 Find an event Event id Find Failed events No event has failed. Newest tries \
             Nothing was sent to this receiver yet."
        );
        assert_eq!(content(&shown), details);
        assert_eq!(faults(&shown.body), Vec::<String>::new());
    }
}

/// Rules 12.2.10 and 12.2.11: an admin pauses and resumes a receiver, sees what waits, and removes it.
#[tokio::test(flavor = "multi_thread")]
async fn an_admin_pauses_resumes_and_removes_a_receiver() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let receiver = add(&till, &app, URL).await;
    let admin = till.browser(Role::Admin).await;
    let page = path(&receiver);
    let state = async || till.store.receivers(&app.id).await.unwrap()[0].state;
    let done = async |what: &str, words: &str| {
        let sent = admin.post(&format!("{page}/{what}"), &[]).await;
        let location = format!("{page}?done={what}");
        assert_eq!((sent.status, sent.header("location")), (303, Some(location.as_str())), "{}", sent.body);
        let back = admin.get(&location).await;
        assert!(back.body.contains(&format!("role=\"status\">{words}</p>")), "{}", back.body);
        assert_eq!(faults(&back.body), Vec::<String>::new());
        back
    };
    let paused = done("pause", "The receiver is paused. What happens from now on waits for it.").await;
    assert_eq!(state().await, ReceiverState::Paused);
    assert!(
        paused.body.contains(&format!("{page}/resume")) && !paused.body.contains(&format!("{page}/pause"))
    );
    till.player(&app, "o1", 1, 2).await;
    till.player(&app, "o2", 1, 2).await;
    till.store.number_events(None).await.unwrap();
    till.execute(
        "UPDATE events SET at = '2026-11-21T08:00Z' WHERE last_no = (SELECT min(last_no) FROM events)",
    )
    .await;
    let shown = content(&admin.get(&page).await);
    assert!(
        shown.contains("Waiting events 2, the oldest from 2026-11-21 08:00:00 Failed events 0"),
        "{shown}"
    );
    done("resume", "The receiver is active again. What has waited for it is sent now.").await;
    assert_eq!(state().await, ReceiverState::Active);
    let removed = admin.post(&format!("{page}/remove"), &[]).await;
    let location = format!("{LIST}?done=remove");
    assert_eq!((removed.status, removed.header("location")), (303, Some(location.as_str())));
    let list = admin.get(&location).await.body;
    assert!(
        list.contains("role=\"status\">The receiver is removed. Nothing more is sent to it.</p>"),
        "{list}"
    );
    assert_eq!(till.number("SELECT count(*) FROM receivers").await, 0);
    for action in ["receiver.pause", "receiver.resume", "receiver.remove"] {
        let lines = format!(
            "SELECT count(*) FROM operator_log WHERE action = '{action}' AND operator_kind = 'console'"
        );
        assert_eq!(till.number(&lines).await, 1, "{action}");
    }
    for answer in [admin.get(&page).await, admin.post(&format!("{page}/pause"), &[]).await] {
        let words = format!("There is no receiver {} of an app a1.", receiver.receiver_id);
        assert!(answer.status == 404 && answer.body.contains(&words), "{}", answer.body);
    }
}

/// Rule 12.4.12: the test event is marked, and the page tells how it ended. The answer of a receiver is text.
#[tokio::test(flavor = "multi_thread")]
async fn a_test_tells_how_it_ended() {
    let server = TestReceiver::taking().await;
    let port = server.address.port();
    let till = TestTill::start_with(|config| {
        config.notify.ports = vec![port, 1];
        config.notify.allow_networks = vec!["127.0.0.0/8".parse().unwrap()];
    })
    .await;
    let app = till.app("a1").await;
    let receiver = add(&till, &app, &server.url("/notify")).await;
    let nobody = add(&till, &app, "http://127.0.0.1:1/notify").await;
    let admin = till.browser(Role::Admin).await;
    let test = async |receiver: &Receiver| {
        let sent = admin.post(&format!("{}/test", path(receiver)), &[]).await;
        assert_eq!(sent.status, 303, "{}", sent.body);
        let shown = admin.get(sent.header("location").unwrap()).await;
        assert_eq!(faults(&shown.body), Vec::<String>::new());
        let newest =
            till.store.receiver(&app.id, &receiver.receiver_id).await.unwrap().unwrap().tries.remove(0);
        (shown, newest)
    };
    let (taken, tried) = test(&receiver).await;
    let told = format!("The receiver took the test event {} (status 204).", tried.event_id);
    assert!(content(&taken).contains(&told), "{}", content(&taken));
    let body = server.received()[0].json();
    assert_eq!((&body["is_mock"], &body["type"]), (&true.into(), &"exchange.succeeded".into()));

    server.answers(|_, _| Reply::status(500).body(HOSTILE));
    let (refused, tried) = test(&receiver).await;
    let reason = "expected 2xx, got 500";
    let told = format!("The receiver did not take the test event {} ({reason}).", tried.event_id);
    assert!(content(&refused).contains(&told), "{}", content(&refused));
    assert!(refused.body.contains(ESCAPED) && !refused.body.contains("<img src=x"));
    let [newest, _] = &rows(&refused.body)[..] else { panic!("not two tries: {}", refused.body) };
    let answer = format!("{} bytes {ESCAPED}", HOSTILE.len());
    assert_eq!(newest[0], tried.event_id);
    assert_eq!((newest[2].as_str(), &newest[4]), ("Not taken expected 2xx, got 500", &answer));
    assert_eq!(newest[3], format!("{} ms", tried.elapsed_ms.unwrap()));
    assert!(
        content(&refused).contains(" Pace 2 tries in the last hour Answer time "),
        "{}",
        content(&refused)
    );

    let (away, tried) = test(&nobody).await;
    let told =
        format!("The receiver did not take the test event {} (no answer: connect failed).", tried.event_id);
    assert!(content(&away).contains(&told), "{}", content(&away));
    // Nothing but a test of this receiver is told.
    assert!(
        !content(&admin.get(&format!("{}?tested=evt_0", path(&nobody))).await).contains("the test event")
    );
    let missing = format!("{LIST}/{}/test", ReceiverId::new([7; 8]));
    assert_eq!(admin.post(&missing, &[]).await.status, 404);
    assert_eq!(till.number("SELECT count(*) FROM operator_log WHERE operator_kind = 'console'").await, 0);
}
