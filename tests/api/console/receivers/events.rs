//! Events of a receiver in the console: what became of one, those that failed, and what is sent again.

use domain::console_user::Role;
use domain::event::EventType;
use domain::ids::WebUrl;
use domain::operation::receiver::{NewReceiver, ReceiverCommand, ReceiverReport};
use domain::receiver::{ReceiverFormat, ReceiverId};

use super::super::accessible::faults;
use super::super::reading::{content, link_called, rows};
use super::{LIST, NO_EVENT, URL, add, event_id, path};
use crate::support::{TestTill, operator};

/// Adds failed events with the numbers 1001 to `1000 + count`, one an hour, to every receiver.
async fn fail(till: &TestTill, count: u32) {
    till.execute(&format!(
        "INSERT INTO deliveries (app_id, receiver_id, event_no, event_id, event_at, type, state, tries, last_at, status, error)
         SELECT app_id, receiver_id, 1000 + i, 'evt_' || lpad(i::text, 36, '0'),
             '2026-11-21T00:00Z'::timestamptz + make_interval(hours => i), 'wallet.credited', 'failed', 11,
             '2026-11-22T09:08:07Z', CASE WHEN i % 2 = 1 THEN 503 END,
             CASE WHEN i % 2 = 1 THEN 'expected 2xx, got 503' ELSE 'name_not_found' END
         FROM receivers, generate_series(1, {count}) AS i"
    ))
    .await;
}

/// Rule 12.4.7: an event is found by its id, in every state, and sent again.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_found_and_sent_again_whatever_became_of_it() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 1, 2).await;
    let earlier = event_id(&till).await;
    let receiver = add(&till, &app, URL).await;
    till.player(&app, "o2", 1, 2).await;
    let event = event_id(&till).await;
    till.execute(
        "UPDATE events SET at = '2026-11-21T08:00Z' WHERE last_no = (SELECT max(last_no) FROM events)",
    )
    .await;
    let admin = till.browser(Role::Admin).await;
    let page = path(&receiver);
    let find = async |id: &str| {
        let shown = admin.get(&format!("{page}?event_id={id}")).await;
        assert_eq!(faults(&shown.body), Vec::<String>::new());
        let shown_text = content(&shown);
        let (_, rest) = shown_text.split_once(" Find an event Event id ").unwrap();
        let rest = rest.split_once(" Failed events ").unwrap().0;
        let (told, more) = rest.split_once(" Body {&#34;type&#34;:&#34;wallet.credited&#34;,").unwrap();
        assert!(more.contains("&#34;app_id&#34;:&#34;a1&#34;,&#34;data&#34;:{"), "{more}");
        let (_, more) =
            more.split_once(" Newest tries None of the newest 20 tries was of this event.").unwrap();
        (shown.status, format!("{told}{more}"))
    };
    let found = |outcome: &str| {
        let known = "Type wallet.credited Time of the change 2026-11-21 08:00:00 At this receiver";
        (200, format!("Find Event {event} {known} {outcome} Send this event again"))
    };
    let resend = async |id: &str| {
        let sent = admin.post(&format!("{page}/resend"), &[("event_id", id)]).await;
        let location = format!("{page}?done=resend&resent=1");
        assert_eq!((sent.status, sent.header("location")), (303, Some(location.as_str())), "{}", sent.body);
        admin.get(&location).await.body
    };
    let id = event.as_text();
    assert_eq!(find(&id).await, found("Waiting It was not tried yet."));
    // As the sending leaves it once it was taken.
    till.execute(
        "UPDATE receivers SET through_no = (SELECT max(last_no) FROM events), created_at = '2026-11-20'",
    )
    .await;
    assert_eq!(find(&id).await, found("Taken"));
    assert!(resend(&id).await.contains("role=\"status\">1 event is sent again.</p>"));
    till.execute("UPDATE deliveries SET next_at = '2026-11-21T09:00Z'").await;
    let waiting = "Waiting The next try is at 2026-11-21 09:00:00 . Tries before: 0.";
    assert_eq!(find(&id).await, found(waiting));
    till.execute("UPDATE deliveries SET state = 'failed', next_at = NULL, tries = 11").await;
    assert_eq!(find(&id).await, found("Failed The receiver did not take it. Tries: 11."));
    till.store
        .change_receivers(&operator(), &app.id, ReceiverCommand::Pause(receiver.receiver_id.clone()), None)
        .await
        .unwrap();
    let told = "role=\"status\">1 event is sent again as soon as the receiver is resumed.</p>";
    assert!(resend(&id).await.contains(told));
    assert_eq!(find(&id).await, found("Waiting It is sent when the receiver is resumed."));
    till.execute("UPDATE deliveries SET state = 'taken', next_at = NULL").await;
    assert_eq!(find(&id).await, found("Taken"));

    till.execute("UPDATE receivers SET created_at = '2100-01-01'; DELETE FROM deliveries").await;
    let (_, told) = find(&earlier.as_text()).await;
    assert!(
        told.ends_with("Not sent It happened before the receiver was added. Send this event again"),
        "{told}"
    );
    resend(&earlier.as_text()).await;
    assert_eq!(till.number("SELECT count(*) FROM deliveries WHERE state = 'waiting'").await, 1);
}

/// Rule 8.6.57: the page has how often a receiver is told and how fast it answers, and of an event its newest answers.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_tells_the_pace_and_the_answers_of_an_event() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let receiver = add(&till, &app, URL).await;
    till.player(&app, "o1", 1, 2).await;
    let event = event_id(&till).await;
    let admin = till.browser(Role::Admin).await;
    let shown = async |tries: &str| {
        till.execute(&format!(
            "UPDATE receivers SET tries = (SELECT jsonb_agg(tried) FROM ({tries}) t (tried))"
        ))
        .await;
        let page = admin.get(&format!("{}?event_id={event}", path(&receiver))).await;
        assert_eq!(faults(&page.body), Vec::<String>::new());
        content(&page)
    };
    let tried = |at: &str, elapsed: &str| {
        format!(
            "SELECT jsonb_build_object('event_id', '{event}', 'at', to_char({at} AT TIME ZONE 'UTC', \
             'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), 'status', 204, 'error', NULL, 'body', 'thanks', 'elapsed_ms', {elapsed})"
        )
    };
    // The last one was not measured.
    let few = [
        tried("'2027-01-15T07:01Z'::timestamptz", "7"),
        tried("'2027-01-15T07:01Z'::timestamptz", "1234"),
        tried("'2026-11-21T08:00Z'::timestamptz", "NULL"),
    ];
    let page = shown(&few.join(" UNION ALL ")).await;
    let told = " Pace 2 tries in the last hour Answer time 1_234 ms, the slowest 1_234 ms Last success ";
    assert!(page.contains(told), "{page}");
    let answer = " 2026-11-21 08:00:00 Taken status 204 6 bytes thanks Send this event again";
    assert!(page.contains(answer), "{page}");
    // A try has the type of its event.
    assert!(page.contains(&format!(" Answer {event} wallet.credited 2027-01-15 07:01:00 Taken")), "{page}");
    let many = format!("{} FROM generate_series(1, 20)", tried("'2027-01-15T07:59:30Z'::timestamptz", "5"));
    let page = shown(&tried("'2027-01-15T07:59:30Z'::timestamptz", "5")).await;
    assert!(page.contains(" Pace 1 try in the last hour Answer time 5 ms"), "{page}");
    let page = shown(&many).await;
    assert!(page.contains(" Pace 40 tries a minute Answer time 5 ms, the slowest 5 ms "), "{page}");
}

/// Rule: an event that is not there is told, and an id that is none is marked.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_not_there_is_told() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let page = path(&add(&till, &app, URL).await);
    let admin = till.browser(Role::Admin).await;
    let none = "It was a test event, or it is older than the setting notify.keep.";
    let wrong = "Expected the id of an event: evt_ and 36 hexadecimal digits, got &#34;evt_1&#34;. Find";
    for (id, status, told) in [
        (NO_EVENT, 200, format!("Event id Find The app has no event {NO_EVENT} . {none}")),
        ("evt_1", 400, format!("Nothing was searched. Correct the field that is marked. Event id {wrong}")),
    ] {
        let shown = admin.get(&format!("{page}?event_id={id}")).await;
        assert_eq!(shown.status, status, "{id}");
        assert!(content(&shown).contains(&format!("{told} Failed events ")), "{}", content(&shown));
        assert_eq!(faults(&shown.body), Vec::<String>::new());
    }
    let unknown = admin.post(&format!("{page}/resend"), &[("event_id", NO_EVENT)]).await;
    let words = format!("There is no event {NO_EVENT} for this receiver; events are kept for notify.keep.");
    assert!(unknown.status == 404 && content(&unknown).starts_with(&words), "{}", unknown.body);
    let malformed = admin.post(&format!("{page}/resend"), &[("event_id", "x")]).await;
    let words = "Event id: expected the id of an event: evt_ and 36 hexadecimal digits, got &#34;x&#34;.";
    assert!(malformed.status == 400 && malformed.body.contains(words), "{}", malformed.body);
}

/// Rule 12.4.7: an event of a type that the receiver is not told of is not sent to it.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_another_type_is_not_sent_again() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let new = NewReceiver {
        url: WebUrl::parse(URL).unwrap(),
        events: vec![EventType::ImageBlocked, EventType::OrderChanged],
        format: ReceiverFormat::Platform,
    };
    let added =
        till.store.change_receivers(&operator(), &app.id, ReceiverCommand::Add(new), None).await.unwrap();
    let ReceiverReport::Added(added) = added else { panic!("no receiver") };
    till.player(&app, "o1", 1, 2).await;
    let event = event_id(&till).await;
    let admin = till.browser(Role::Admin).await;
    let page = path(&added.receiver);
    let shown = content(&admin.get(&format!("{page}?event_id={event}")).await);
    let told = "At this receiver Not sent The receiver is not told of events of this type. Body {";
    assert!(shown.contains(told), "{shown}");
    let format = "Format platform The app secret signs. Events image.blocked , order.changed";
    assert!(shown.contains(format), "{shown}");
    let refused = admin.post(&format!("{page}/resend"), &[("event_id", &event.as_text())]).await;
    assert_eq!(refused.status, 404);
    assert_eq!(till.number("SELECT count(*) FROM deliveries").await, 0);
}

/// Rules 12.4.6 and 12.4.7: failed events stand in pages. One of them is sent again, or all of a time span.
#[tokio::test(flavor = "multi_thread")]
async fn failed_events_are_sent_again_one_by_one_or_all_of_a_time_span() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let receiver = add(&till, &app, URL).await;
    fail(&till, 45).await;
    let admin = till.browser(Role::Admin).await;
    let page = path(&receiver);
    let first = admin.get(&page).await;
    assert!(content(&first).contains("Failed events 45 Taken events 0"), "{}", content(&first));
    let shown = rows(&first.body);
    assert_eq!(shown.len(), 20);
    let id = |i: u32| format!("evt_{i:036}");
    let row = |i: u32, failure: &str| {
        [&id(i), "wallet.credited", "11", "2026-11-22 09:08:07", failure, "Send again"]
            .map(str::to_owned)
            .to_vec()
    };
    assert_eq!(shown[0], row(1, "expected 2xx, got 503"));
    assert_eq!(shown[1], row(2, "no answer: name not found"));
    assert!(first.body.contains(&format!("aria-label=\"Send again {}\"", id(1))));
    assert_eq!(faults(&first.body), Vec::<String>::new());
    assert_eq!(link_called(&first, "Oldest failed events"), None);
    let second = admin.get(&format!("{page}?after=1020")).await;
    assert!(
        first
            .body
            .contains(&format!("href=\"{page}?after=1020#failed\" rel=\"next\">Newer failed events</a>"))
    );
    assert_eq!(rows(&second.body)[0][0], id(21));
    assert_eq!(link_called(&second, "Oldest failed events"), Some(format!("{page}#failed")));
    let third = admin.get(&format!("{page}?after=1040")).await;
    assert_eq!(rows(&third.body).len(), 5);
    assert!(!third.body.contains("Newer failed events"));
    let none = content(&admin.get(&format!("{page}?after=1045")).await);
    assert!(none.contains("Failed events There are no more failed events. Oldest failed events"), "{none}");

    let all = async |fields: &[(&str, &str)], resent: &str, words: &str| {
        let sent = admin.post(&format!("{page}/resend-failed"), fields).await;
        let location = format!("{page}?done=resend&resent={resent}");
        assert_eq!((sent.status, sent.header("location")), (303, Some(location.as_str())), "{}", sent.body);
        let back = admin.get(&location).await.body;
        assert!(back.contains(&format!("role=\"status\">{words}</p>")), "{back}");
        till.number("SELECT count(*) FROM deliveries WHERE state = 'failed'").await
    };
    // From is in, before is out.
    let span = [("from", "2026-11-21T03:00"), ("to", "2026-11-21T06:00")];
    assert_eq!(all(&span, "3", "3 events are sent again.").await, 42);
    let nothing = "No failed event lies in this time span, so nothing is sent again.";
    assert_eq!(all(&span, "0", nothing).await, 42);
    assert_eq!(all(&[("from", "2026-11-22T21:00"), ("to", "")], "1", "1 event is sent again.").await, 41);
    assert_eq!(all(&[("from", ""), ("to", "")], "41", "41 events are sent again.").await, 0);
    let refused = admin.post(&format!("{page}/resend-failed"), &[("from", "soon")]).await;
    let words =
        "Changes from: expected a date and time such as 2026-11-21 or 2026-11-21T08:00, got &#34;soon&#34;.";
    assert!(refused.status == 400 && refused.body.contains(words), "{}", refused.body);
    let empty = content(&admin.get(&page).await);
    assert!(empty.contains("Failed events No event has failed. Newest tries"), "{empty}");
}

/// Rule 8.6.2: a viewer sees everything and changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_sees_receivers_and_changes_nothing() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let receiver = add(&till, &app, URL).await;
    till.player(&app, "o1", 1, 2).await;
    let event = event_id(&till).await;
    fail(&till, 21).await;
    let viewer = till.browser(Role::Viewer).await;
    let page = path(&receiver);
    for address in [LIST.to_owned(), format!("{page}?event_id={event}"), format!("{page}?tested={event}")] {
        let shown = viewer.get(&address).await;
        assert_eq!(shown.status, 200, "{address}");
        let forms: Vec<_> = shown.body.match_indices("<form ").map(|(at, _)| &shown.body[at..]).collect();
        let posts = forms.iter().filter(|form| form.split('>').next().unwrap().contains("method=\"post\""));
        assert_eq!(posts.count(), 2, "the sign-out and the language alone: {address}");
        assert!(!shown.body.contains("name=\"seen\""), "{address}");
        assert_eq!(faults(&shown.body), Vec::<String>::new());
    }
    let seen = till.store.receivers_mark(&app.id).await.unwrap();
    let id = event.as_text();
    let fields = [("seen", seen.as_str()), ("url", URL), ("format", "standard"), ("event_id", &id)];
    for what in ["", "/pause", "/resume", "/test", "/resend", "/resend-failed", "/rotate-secret", "/remove"] {
        let address = if what.is_empty() { LIST.to_owned() } else { format!("{page}{what}") };
        let refused = viewer.post(&address, &fields).await;
        assert!(
            refused.status == 403 && refused.body.contains("Not for your role"),
            "{address}: {}",
            refused.body
        );
    }
    assert_eq!(till.store.receivers(&app.id).await.unwrap(), [receiver]);
    assert_eq!(till.store.receivers_mark(&app.id).await.unwrap(), seen);
    assert_eq!(till.number("SELECT count(*) FROM deliveries WHERE state = 'failed'").await, 21);
}

/// What is not there is not found, whoever asks.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_not_there_is_not_found() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let other = till.app("a2").await;
    let receiver = add(&till, &app, URL).await;
    let admin = till.browser(Role::Admin).await;
    for (app, id) in [
        ("a1", ReceiverId::new([7; 8]).as_str()),
        ("a1", "x1"),
        // That of another app.
        (other.id.as_str(), receiver.receiver_id.as_str()),
    ] {
        let page = format!("/console/apps/{app}/receivers/{id}");
        let words = format!("There is no receiver {id} of an app {app}.");
        let fields = [("event_id", NO_EVENT), ("seen", "")];
        let mut answers = vec![admin.get(&page).await];
        for what in ["pause", "resume", "test", "resend", "resend-failed", "rotate-secret", "remove"] {
            answers.push(admin.post(&format!("{page}/{what}"), &fields).await);
        }
        for answer in answers {
            assert!(answer.status == 404 && answer.body.contains(&words), "{page}: {}", answer.body);
        }
    }
    for answer in [
        admin.get("/console/apps/a9/receivers").await,
        admin.post("/console/apps/a9/receivers", &[("url", URL), ("format", "standard")]).await,
        admin.post(&format!("/console/apps/a9/receivers/{}/pause", receiver.receiver_id), &[]).await,
    ] {
        assert!(answer.status == 404 && answer.body.contains("There is no app a9."), "{}", answer.body);
    }
}
