//! One's own account: the password, the sessions, and the password asked again.

use std::time::Duration;

use domain::console_user::{ConsoleUserName, NewPassword, PasswordHash, Role};
use domain::operation::user::UserCommand;
use store::ConsoleSession;
use store::secrets::{hash_password, random_token, token_hash};

use super::sign_in::{PASSWORD, sign_in, user};
use crate::support::console::{Browser, session};
use crate::support::{TestTill, operator};

/// A browser of a user whose password is known.
pub(super) async fn browser<'a>(till: &'a TestTill, name: &str, hash: &PasswordHash) -> Browser<'a> {
    let (name, token) = (ConsoleUserName::parse(name).unwrap(), random_token());
    assert!(till.store.begin_console_session(&name, hash, session(&token)).await.unwrap());
    till.browser_with(token)
}

/// Adds a user with [`PASSWORD`] and gives its hash.
pub(super) async fn known_user(till: &TestTill, name: &str, role: Role) -> PasswordHash {
    let name = ConsoleUserName::parse(name).unwrap();
    let hash = hash_password(&NewPassword::parse(PASSWORD, &name).unwrap()).unwrap();
    till.store
        .change_console_user(&operator(), &name, UserCommand::Add(role.into(), hash.clone()))
        .await
        .unwrap();
    hash
}

/// Rule 8.6.15: a user, and a viewer too, changes their own password with the present one. Their other sessions end.
#[tokio::test(flavor = "multi_thread")]
async fn ones_own_password_is_changed_with_the_present_one() {
    let till = TestTill::start().await;
    let hash = known_user(&till, "alice", Role::Viewer).await;
    let (here, there) = (browser(&till, "alice", &hash).await, browser(&till, "alice", &hash).await);
    let witness = till.browser(Role::Viewer).await;
    let new = "trombone kettle 77";
    for (present, new, repeated, status, told) in [
        (PASSWORD, "short", "short", 400, "expected a password of at least 12 characters"),
        (PASSWORD, "passwordpassword", "passwordpassword", 400, "hard to guess"),
        (PASSWORD, "alice-alice-alice", "alice-alice-alice", 400, "hard to guess"),
        (PASSWORD, new, "trombone kettle 78", 400, "The two new passwords are different."),
        ("wrong password", new, new, 403, "The current password is wrong"),
    ] {
        let fields = [("password", present), ("new_password", new), ("repeated_password", repeated)];
        let answer = here.post("/console/account/password", &fields).await;
        assert_eq!(answer.status, status, "{told}");
        assert!(answer.body.contains(told) && !answer.body.contains(new), "{}", answer.body);
    }
    assert_eq!(there.get("/console").await.status, 200);
    assert_eq!(till.number("SELECT failed_attempts::bigint FROM console_attempts").await, 1, "it counts");
    let fields = [("password", PASSWORD), ("new_password", new), ("repeated_password", new)];
    let done = here.post("/console/account/password", &fields).await;
    assert_eq!((done.status, done.header("location")), (303, Some("/console/account?done=password")));
    assert_eq!((here.get("/console").await.status, there.get("/console").await.status), (200, 303));
    assert_eq!(witness.get("/console").await.status, 200);
    assert_eq!(sign_in(&till, "alice", PASSWORD).await.status, 403);
    assert_eq!(sign_in(&till, "alice", new).await.status, 303);
    let line =
        "SELECT count(*) FROM operator_log WHERE action = 'console_user.set_password' AND operator = 'alice'";
    assert_eq!(till.number(line).await, 1);
}

/// Rule 8.6.16: a user sees and ends their own sessions, and an admin those of everybody.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_listed_and_ended() {
    let till = TestTill::start().await;
    let none = PasswordHash::kept("none fits".to_owned());
    for name in ["alice", "bob"] {
        let name = ConsoleUserName::parse(name).unwrap();
        till.store
            .change_console_user(&operator(), &name, UserCommand::Add(Role::Viewer.into(), none.clone()))
            .await
            .unwrap();
    }
    let (here, there) = (browser(&till, "alice", &none).await, browser(&till, "alice", &none).await);
    let bob = browser(&till, "bob", &none).await;
    let id = |browser: &Browser<'_>| ConsoleSession::id_of(&token_hash(&browser.token));
    let page = here.get("/console/account").await.body;
    assert!(page.contains(&id(&here)) && page.contains(&id(&there)) && !page.contains(&id(&bob)), "{page}");
    assert!(page.contains("this one") && page.contains("127.0.0.1"), "{page}");
    for unknown in [id(&bob).as_str(), "", "x"] {
        let answer = here.post("/console/account/sessions/end", &[("session", unknown)]).await;
        assert_eq!(answer.status, 404, "{unknown}");
    }
    let done = here.post("/console/account/sessions/end", &[("session", &id(&there))]).await;
    assert_eq!((done.status, done.header("location")), (303, Some("/console/account?done=session")));
    assert_eq!((here.get("/console").await.status, there.get("/console").await.status), (200, 303));
    assert_eq!(bob.get("/console").await.status, 200);
    let admin = till.browser(Role::Admin).await;
    let page = admin.get("/console/users/bob").await.body;
    assert!(page.contains(&id(&bob)) && !page.contains(&id(&here)), "{page}");
    assert_eq!(here.get("/console/users/bob").await.status, 403, "a viewer");
    let wrong = admin.post("/console/users/bob/sessions/end", &[("session", &id(&here))]).await;
    assert_eq!(wrong.status, 404);
    let done = admin.post("/console/users/bob/sessions/end", &[("session", &id(&bob))]).await;
    assert_eq!((done.status, done.header("location")), (303, Some("/console/users/bob?done=session")));
    assert_eq!((here.get("/console").await.status, bob.get("/console").await.status), (200, 303));
    let lines = "SELECT count(*) FROM operator_log WHERE action = 'console_user.end_session'";
    assert_eq!(till.number(lines).await, 2);
}

/// Rule 8.6.11: ten wrong passwords in a row make an address wait. Right ones between them end the row, whatever asks.
#[tokio::test(flavor = "multi_thread")]
async fn right_passwords_make_no_address_wait() {
    let till = TestTill::start_with(|config| config.console.reauth_after = Duration::ZERO).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 0).await;
    let hash = known_user(&till, "alice", Role::Admin).await;
    let alice = browser(&till, "alice", &hash).await;
    let credit = async |turn: &str, password: &str| {
        let reference = format!("r{turn}");
        let fields =
            [("gifted", "1"), ("reference", &*reference), ("reason", "r"), ("present_password", password)];
        alice.post("/console/apps/a1/players/o1/credit", &fields).await.status
    };
    for turn in 1..=11 {
        assert_eq!(credit(&turn.to_string(), PASSWORD).await, 303, "proof {turn}");
    }
    // One wrong one starts a row of its own.
    assert_eq!(credit("x", "wrong password").await, 403);
    assert_eq!(till.number("SELECT failed_attempts::bigint FROM console_attempts").await, 1);
    assert_eq!(credit("y", PASSWORD).await, 303);
    assert_eq!(till.number("SELECT count(*) FROM console_attempts").await, 0);
    assert_eq!(till.purses(&app, "o1").await, (12, 0, 13));
}

/// Rule 8.6.17: keys, money and users ask for the password when it was typed long ago. What was typed is kept.
#[tokio::test(flavor = "multi_thread")]
async fn keys_money_and_users_ask_for_the_password_again() {
    let till = TestTill::start_with(|config| config.console.reauth_after = Duration::from_mins(2)).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 0).await;
    let hash = known_user(&till, "alice", Role::Admin).await;
    user(&till, "bob", Role::Viewer).await;
    let alice = browser(&till, "alice", &hash).await;
    let credit = "/console/apps/a1/players/o1/credit";
    let fields = [("gifted", "7"), ("reference", "r1"), ("reason", "a \"reason\"")];
    let long_ago = "UPDATE console_sessions SET proved_at = now() - interval '2 minutes'";
    till.execute(long_ago).await;
    for path in [
        credit,
        "/console/apps/a1/players/o1/debit",
        "/console/apps/a1/exchanges/x1/give-back",
        "/console/new-app",
        "/console/apps/a1/rotate-pay-key",
        "/console/apps/a1/rotate-secret",
        "/console/apps/a1/login-codes",
        "/console/apps/a1/token-revocations",
        "/console/api-keys",
        "/console/api-keys/revoke",
        "/console/users",
        "/console/users/bob/role",
        "/console/users/bob/remove",
        "/console/users/bob/unlock",
        "/console/users/bob/second-factor/reset",
        "/console/users/bob/sessions/end",
    ] {
        let asked = alice.post(path, &fields).await;
        assert_eq!(asked.status, 403, "{path}");
        let kept = format!("action=\"{path}\"");
        assert!(
            asked.body.contains("Keys, money and users need your password again."),
            "{path}: {}",
            asked.body
        );
        assert!(asked.body.contains(&kept), "{}", asked.body);
        assert!(asked.body.contains(r#"name="reason" value="a &#34;reason&#34;""#), "{}", asked.body);
    }
    assert_eq!(
        alice.post("/console/apps/a1/pois", &[("poi_ids", "p1")]).await.status,
        303,
        "no key, no money"
    );
    let with = |password: &'static str| [&fields[..], &[("present_password", password)]].concat();
    let wrong = alice.post(credit, &with("wrong password")).await;
    assert_eq!(wrong.status, 403);
    assert!(
        wrong.body.contains("The password is wrong") && !wrong.body.contains("wrong password\""),
        "{}",
        wrong.body
    );
    assert_eq!(till.purses(&app, "o1").await, (0, 0, 1), "nothing was credited");
    let done = alice.post(credit, &with(PASSWORD)).await;
    assert_eq!(done.status, 303, "{}", done.body);
    assert_eq!(till.purses(&app, "o1").await, (7, 0, 2));
    // That was a proof: it holds for a while.
    till.execute("UPDATE console_sessions SET proved_at = proved_at - interval '1 minute 50 seconds'").await;
    let again = [("gifted", "7"), ("reference", "r2"), ("reason", "again")];
    assert_eq!(alice.post(credit, &again).await.status, 303);
    assert_eq!(till.purses(&app, "o1").await, (14, 0, 3));
}
