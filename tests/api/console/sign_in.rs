//! Signing in, waits after wrong passwords, and how sessions end.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use domain::console_user::{ConsoleUserName, NewPassword, PasswordHash, Role};
use domain::operation::user::UserCommand;
use store::secrets::hash_password;
use tokio::task::JoinSet;

use crate::support::console::{ORIGIN, session};
use crate::support::{Answer, Request, TestTill, form, operator, until};

pub(super) const PASSWORD: &str = "correct horse battery";

pub(super) async fn user(till: &TestTill, name: &str, role: Role) -> ConsoleUserName {
    let name = ConsoleUserName::parse(name).unwrap();
    let password = hash_password(&NewPassword::parse(PASSWORD, &name).unwrap()).unwrap();
    till.store
        .change_console_user(&operator(), &name, UserCommand::Add(role.into(), password))
        .await
        .unwrap();
    name
}

/// The form of a sign-in.
fn signing_in(name: &str, password: &str) -> Request {
    let fields = form(&[("name", name), ("password", password), ("next", "/console/log?app_id=a1")]);
    Request::post("/console/sign-in").header("origin", ORIGIN).body(fields)
}

pub(super) async fn sign_in(till: &TestTill, name: &str, password: &str) -> Answer {
    signing_in(name, password).send(till.operator_address).await
}

/// The same behind a proxy, which names this client.
async fn sign_in_from(till: &TestTill, client: &str, name: &str, password: &str) -> Answer {
    signing_in(name, password).header("x-forwarded-for", client).send(till.operator_address).await
}

/// A server behind a proxy.
async fn behind_a_proxy() -> TestTill {
    TestTill::start_with(|config| config.ops.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()]).await
}

/// The cookie as a browser sends it back.
fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

async fn overview(till: &TestTill, cookie: &str) -> Answer {
    Request::get("/console").header("cookie", cookie).send(till.operator_address).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_signs_in_comes_back_to_where_they_were_going_and_signs_out() {
    let till = TestTill::start().await;
    user(&till, "alice", Role::Admin).await;
    let page = Request::get("/console/sign-in?next=%2Fconsole%2Flog").send(till.operator_address).await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains(r#"name="next" value="/console/log""#), "{}", page.body);
    // Phones begin names with a capital.
    let answer = sign_in(&till, "Alice", PASSWORD).await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("/console/log?app_id=a1")));
    let set = answer.header("set-cookie").unwrap();
    let (token, attributes) = set.strip_prefix("minitill_console=").unwrap().split_once("; ").unwrap();
    assert_eq!((token.len(), attributes), (64, "Path=/console; HttpOnly; SameSite=Strict"));
    let cookie = cookie(&answer);
    let page = overview(&till, &cookie).await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("alice</a> <span class=\"tag\">admin</span>"), "{}", page.body);
    let (_, rest) = page.body.split_once("name=\"csrf\" value=\"").unwrap();
    let fields = form(&[("csrf", rest.split('"').next().unwrap())]);
    let request = Request::post("/console/sign-out").header("cookie", &cookie).header("origin", ORIGIN);
    let out = request.body(fields).send(till.operator_address).await;
    assert_eq!((out.status, out.header("location")), (303, Some("/console/sign-in")));
    assert!(out.header("set-cookie").unwrap().ends_with("; Max-Age=0"));
    assert_eq!(overview(&till, &cookie).await.status, 303);
    assert_eq!(till.number("SELECT count(*) FROM console_sessions").await, 0);
}

/// Rule: a browser that came by https, to us or to a proxy, never sends the cookie in the clear.
#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_of_https_is_secure() {
    let till = TestTill::start().await;
    user(&till, "alice", Role::Viewer).await;
    let fields = form(&[("name", "alice"), ("password", PASSWORD), ("next", "https://evil.example/")]);
    let request = Request::post("/console/sign-in").header("origin", "https://localhost").body(fields);
    let answer = request.send(till.operator_address).await;
    let set = answer.header("set-cookie").unwrap();
    assert!(
        set.starts_with("__Secure-minitill_console=") && set.ends_with("; SameSite=Strict; Secure"),
        "{set}"
    );
    assert_eq!(answer.header("location"), Some("/console"));
}

/// Rule: what is answered does not tell an unknown name from a wrong password or an address that waits. None is answered
/// before the time that each failure takes.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_name_is_answered_as_a_wrong_password() {
    let till = TestTill::start().await;
    user(&till, "alice", Role::Admin).await;
    user(&till, "carol", Role::Admin).await;
    till.execute(
        "INSERT INTO console_attempts VALUES ('carol', '127.0.0.1', 10, now() + interval '1 minute')",
    )
    .await;
    let mut bodies = Vec::new();
    for name in ["alice", "nobby", "carol"] {
        let started = Instant::now();
        let answer = sign_in(&till, name, "wrong password").await;
        assert!(started.elapsed() >= Duration::from_millis(300), "{name}: {:?}", started.elapsed());
        assert_eq!((answer.status, answer.header("set-cookie")), (403, None));
        bodies.push(answer.body.replace(name, "NAME"));
    }
    let first = &bodies[0];
    assert!(first.contains("The name, the password or the code is wrong, or your address has to wait"));
    assert!(first.contains("minitill console-user unlock"));
    assert!(bodies.iter().all(|body| body == first), "{bodies:?}");
}

/// Rule: after ten wrong passwords in a row an address waits for 15 minutes, with that name alone. Nobody else
/// waits.
#[tokio::test(flavor = "multi_thread")]
async fn ten_wrong_passwords_make_an_address_wait() {
    let till = behind_a_proxy().await;
    let alice = user(&till, "alice", Role::Admin).await;
    user(&till, "bob", Role::Viewer).await;
    let waiting = "SELECT count(*) FROM console_attempts WHERE locked_until > now()";
    let wrong = async |client: &str| {
        let (name, store) = (alice.clone(), till.store.clone());
        store.attempt_sign_in(&name, client.parse().unwrap()).await.unwrap().is_some()
    };
    for _ in 0..8 {
        assert!(wrong("203.0.113.1").await);
    }
    assert_eq!(sign_in_from(&till, "203.0.113.1", "alice", "wrong password").await.status, 403);
    // Nine in a row and then the right one: the row begins anew.
    assert_eq!(sign_in_from(&till, "203.0.113.1", "alice", PASSWORD).await.status, 303);
    for _ in 0..10 {
        assert_eq!(till.number(waiting).await, 0);
        assert!(wrong("2001:db8::").await);
    }
    assert_eq!(till.number(waiting).await, 1);
    let theirs = "2001:db8::7";
    assert_eq!(sign_in_from(&till, theirs, "alice", PASSWORD).await.status, 403, "of the same network");
    assert_eq!(sign_in_from(&till, theirs, "bob", PASSWORD).await.status, 303, "another name");
    assert_eq!(sign_in_from(&till, "203.0.113.1", "alice", PASSWORD).await.status, 303, "another address");
    let soon = "SELECT count(*) FROM console_attempts WHERE locked_until BETWEEN now() + interval '14 minutes' AND now() + interval '15 minutes'";
    assert_eq!(till.number(soon).await, 1, "an attempt during the wait makes it no longer");
    till.execute("UPDATE console_attempts SET locked_until = now() - interval '1 second'").await;
    assert!(wrong("2001:db8::").await);
    assert_eq!(sign_in_from(&till, theirs, "alice", PASSWORD).await.status, 303);
    till.execute(
        "INSERT INTO console_attempts VALUES ('alice', '2001:db8::', 10, now() + interval '1 hour')",
    )
    .await;
    till.store.change_console_user(&operator(), &alice, UserCommand::Unlock).await.unwrap();
    assert_eq!(sign_in_from(&till, theirs, "alice", PASSWORD).await.status, 303);
    till.execute("INSERT INTO console_attempts VALUES ('alice', '203.0.113.9', 3, NULL, now() - interval '1 day'), ('bob', '203.0.113.9', 3, NULL, now())").await;
    assert_eq!(till.store.forget_old_console_attempts().await.unwrap(), 1);
}

/// Rule: ten attempts hold for all instances together, however many come at once.
#[tokio::test(flavor = "multi_thread")]
async fn attempts_at_once_get_ten_and_no_more() {
    let till = TestTill::start().await;
    let other = TestTill::start_on(till.database_url.clone(), |_| {}).await;
    let name = ConsoleUserName::parse("alice").unwrap();
    let password = PasswordHash::kept("none fits".to_owned());
    till.store
        .change_console_user(&operator(), &name, UserCommand::Add(Role::Viewer.into(), password))
        .await
        .unwrap();
    let attempts = (0..40).map(|index| {
        let store = if index % 2 == 0 { till.store.clone() } else { other.store.clone() };
        let name = name.clone();
        tokio::spawn(async move { store.attempt_sign_in(&name, Ipv4Addr::LOCALHOST.into()).await.unwrap() })
    });
    let attempts: Vec<_> = attempts.collect();
    let mut judged = Vec::new();
    for attempt in attempts {
        judged.extend(attempt.await.unwrap());
    }
    assert_eq!(judged.len(), 10);
    assert_eq!(judged.iter().filter(|attempt| attempt.is_last).count(), 1);
}

/// Rule: a flood of wrong passwords from one address holds up nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn the_right_password_is_not_held_up_by_a_flood_from_another_address() {
    const CONNECTIONS: usize = 400;
    let till = behind_a_proxy().await;
    user(&till, "alice", Role::Admin).await;
    let address = till.operator_address;
    let (mut flood, answered) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..CONNECTIONS {
        let request = signing_in("alice", "wrong password").header("x-forwarded-for", "198.51.100.7");
        let answered = Arc::clone(&answered);
        flood.spawn(async move {
            loop {
                let answer = request.clone().send(address).await;
                assert!(matches!(answer.status, 403 | 503), "{}", answer.status);
                answered.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    until("the flood is there", async || answered.load(Ordering::SeqCst) > 0).await;
    // Behind all others they would have waited too long for a turn, and would be answered 503.
    for _ in 0..2 {
        assert_eq!(sign_in_from(&till, "203.0.113.1", "alice", PASSWORD).await.status, 303);
    }
    assert_eq!(flood.len(), CONNECTIONS);
    flood.shutdown().await;
}

/// Rule: whoever signs in again leaves no session behind.
#[tokio::test(flavor = "multi_thread")]
async fn signing_in_again_ends_the_session_of_the_cookie() {
    let till = TestTill::start().await;
    user(&till, "alice", Role::Admin).await;
    let browser = till.browser(Role::Viewer).await;
    let witness = till.browser(Role::Viewer).await;
    assert_eq!(browser.send(signing_in("alice", "wrong password")).await.status, 403);
    assert_eq!(browser.get("/console").await.status, 200, "a failed sign-in ends nothing");
    assert_eq!(browser.send(signing_in("alice", PASSWORD)).await.status, 303);
    assert_eq!(browser.get("/console").await.status, 303);
    assert_eq!(witness.get("/console").await.status, 200);
}

/// Rule: a session ends 30 minutes after it was last used and 12 hours after it began.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_end_by_themselves() {
    let till = TestTill::start().await;
    let viewer = till.browser(Role::Viewer).await;
    let age = async |column: &str, by: &str| {
        till.execute(&format!("UPDATE console_sessions SET {column} = now() - interval '{by}'")).await;
        viewer.get("/console").await.status
    };
    assert_eq!(age("used_at", "29 minutes").await, 200);
    // That was a use: it counts from there.
    assert_eq!(
        till.number("SELECT count(*) FROM console_sessions WHERE used_at > now() - interval '1 minute'")
            .await,
        1
    );
    assert_eq!(age("created_at", "11 hours 59 minutes").await, 200);
    assert_eq!(age("created_at", "12 hours 1 second").await, 303);
    assert_eq!(age("created_at", "1 minute").await, 200);
    assert_eq!(age("used_at", "30 minutes 1 second").await, 303);
    assert_eq!(till.store.forget_ended_console_sessions().await.unwrap(), 1);
    assert_eq!(till.number("SELECT count(*) FROM console_sessions").await, 0);
}

/// Rule: whoever gets another password or role, or is removed, has no session any more; the others do.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_user_ends_their_sessions() {
    let till = TestTill::start().await;
    let witness = till.browser(Role::Viewer).await;
    for change in ["password", "role", "removal"] {
        let browser = till.browser(Role::Admin).await;
        assert_eq!(browser.get("/console").await.status, 200);
        let users = till.store.console_users().await.unwrap();
        let admin = users.iter().find(|user| user.role == "admin" && user.sessions == 1).unwrap();
        let name = ConsoleUserName::parse(&admin.name).unwrap();
        let change_of_user = match change {
            "password" => UserCommand::Password(PasswordHash::kept("other".to_owned())),
            "role" => UserCommand::Rights(Role::Viewer.into()),
            _ => UserCommand::Remove,
        };
        till.store.change_console_user(&operator(), &name, change_of_user).await.unwrap();
        assert_eq!(browser.get("/console").await.status, 303, "{change}");
    }
    assert_eq!(witness.get("/console").await.status, 200);
}

/// Rule: a password that was changed while it was being compared begins no session.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_begins_only_with_the_password_of_now() {
    let till = TestTill::start().await;
    let name = ConsoleUserName::parse("alice").unwrap();
    let (old, new) = (PasswordHash::kept("old".to_owned()), PasswordHash::kept("new".to_owned()));
    till.store
        .change_console_user(&operator(), &name, UserCommand::Add(Role::Admin.into(), old.clone()))
        .await
        .unwrap();
    till.store.change_console_user(&operator(), &name, UserCommand::Password(new)).await.unwrap();
    assert!(!till.store.begin_console_session(&name, &old, session("t")).await.unwrap());
    assert_eq!(till.number("SELECT count(*) FROM console_sessions").await, 0);
}

/// Rule: a stranger's form is small, and one that is not is refused unread.
#[tokio::test(flavor = "multi_thread")]
async fn a_strangers_form_is_small() {
    let till = TestTill::start().await;
    let request = Request::post("/console/sign-in").header("origin", ORIGIN).body(vec![b'x'; 9000]);
    let answer = request.send(till.operator_address).await;
    assert_eq!(answer.status, 413);
    assert!(answer.body.contains("expected at most 8192 bytes"), "{}", answer.body);
}
