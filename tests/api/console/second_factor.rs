//! The second factor: codes of an authenticator, recovery codes, and admins who must have one.

use std::net::SocketAddr;
use std::time::Duration;

use domain::console_user::{ConsoleUserName, Role};
use domain::operation::user::{UserCommand, unknown_user};
use store::OperationError;
use store::secrets::Keyring;
use tokio::task::JoinSet;

use super::account::{browser, known_user};
use super::sign_in::PASSWORD;
use crate::support::console::{Browser, ORIGIN};
use crate::support::{MASTER_KEY, NOW, Request, TestTill, form, operator};

/// The code that an authenticator shows so many seconds after the start of the test's clock.
fn code(secret: &str, after: u64) -> String {
    let secret = totp_rs::Secret::try_from_base32(secret).unwrap();
    let now = u64::try_from(NOW / 1000).unwrap() + after;
    totp_rs::Builder::new().with_secret(secret).build().unwrap().generate(now).to_string()
}

/// Sets up a second factor on the pages, and gives its secret and the recovery codes.
async fn set_up(browser: &Browser<'_>) -> (String, Vec<String>) {
    let page = browser.get("/console/account/second-factor").await.body;
    let between = |before: &str| page.split_once(before).unwrap().1.split('"').next().unwrap().to_owned();
    let secret = between("name=\"secret\" value=\"");
    assert_eq!(secret.len(), 32);
    assert!(page.contains(&format!("secret={secret}&#38;issuer=Minitill")), "{page}");
    let path = "/console/account/second-factor";
    let send = async |code: &str, password: &str| {
        browser.post(path, &[("secret", &secret), ("code", code), ("password", password)]).await
    };
    assert_eq!(send(&code(&secret, 90), PASSWORD).await.status, 400, "a code of later");
    assert_eq!(send(&code(&secret, 0), "wrong password").await.status, 403);
    let done = send(&code(&secret, 0), PASSWORD).await;
    assert_eq!(done.status, 200, "{}", done.body);
    let codes = done.body.split("<li><code>").skip(1).map(|rest| rest.split('<').next().unwrap().to_owned());
    let codes: Vec<String> = codes.collect();
    assert_eq!((codes.len(), codes[0].len()), (10, 20));
    assert_eq!(send(&code(&secret, 30), PASSWORD).await.status, 400, "there is one already");
    (secret, codes)
}

fn signing_in(code: &str) -> Request {
    let fields = form(&[("name", "alice"), ("password", PASSWORD), ("code", code)]);
    Request::post("/console/sign-in").header("origin", ORIGIN).body(fields)
}

async fn sent(request: Request, address: SocketAddr) -> u16 {
    request.send(address).await.status
}

/// Rule 8.6.18: with a second factor a sign-in needs a code. A code works once, also when it comes twice at once,
/// and so does a recovery code. The database has the secret encrypted, and hashes of the codes.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_factor_is_set_up_and_each_code_works_once() {
    let till = TestTill::start().await;
    let hash = known_user(&till, "alice", Role::Viewer).await;
    let alice = browser(&till, "alice", &hash).await;
    let (secret, recovery) = set_up(&alice).await;
    let send = async |code: &str| {
        let status = signing_in(code).send(till.operator_address).await.status;
        till.execute("DELETE FROM console_attempts").await;
        status
    };
    assert_eq!(send("").await, 403, "no code");
    assert_eq!(send(&code(&secret, 0)).await, 403, "used at the set-up");
    assert_eq!(send(&code(&secret, 90)).await, 403, "of later");
    till.clock.advance(Duration::from_mins(1));
    let mut at_once = JoinSet::new();
    for _ in 0..4 {
        at_once.spawn(sent(signing_in(&code(&secret, 60)), till.operator_address));
    }
    let mut statuses = at_once.join_all().await;
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 403, 403, 403]);
    assert_eq!(send(&code(&secret, 30)).await, 403, "older than one that was used");
    assert_eq!(send(&recovery[3]).await, 303);
    assert_eq!(send(&recovery[3]).await, 403, "used");
    assert_eq!(send(&recovery[4].to_uppercase()).await, 303);
    let plain = format!(
        "SELECT count(*) FROM console_users WHERE position('{secret}' IN encode(totp_secret, 'escape')) > 0"
    );
    assert_eq!(till.number(&plain).await, 0);
    let hashed =
        format!("SELECT count(*) FROM console_recovery_codes WHERE code_sha256 = sha256('{}')", recovery[0]);
    assert_eq!(
        (till.number(&hashed).await, till.number("SELECT count(*) FROM console_recovery_codes").await),
        (1, 8)
    );
}

/// Rule 8.6.50: wrong codes after a right password are counted by user. After 20 only recovery codes count, until one is right.
#[tokio::test(flavor = "multi_thread")]
async fn after_twenty_wrong_codes_only_recovery_codes_count() {
    let till = TestTill::start().await;
    let hash = known_user(&till, "alice", Role::Viewer).await;
    let alice = browser(&till, "alice", &hash).await;
    let (secret, recovery) = set_up(&alice).await;
    let send = async |code: &str| {
        let answer = signing_in(code).send(till.operator_address).await;
        // The address is another one each time.
        till.execute("DELETE FROM console_attempts").await;
        let told = "After 20 wrong codes only a recovery code counts.";
        assert_eq!(answer.body.contains(told), answer.status == 403, "{}", answer.body);
        answer.status
    };
    let admin = till.browser(Role::Admin).await;
    let is_told = async || {
        let pages = [admin.get("/console/users/alice").await.body, alice.get("/console/account").await.body];
        let told = pages.map(|page| page.contains("20 wrong codes after a right password"));
        assert_eq!(told[0], told[1], "an admin and the user read the same");
        told[0]
    };
    for attempt in 0..19 {
        assert_eq!(send("000000").await, 403, "{attempt}");
    }
    till.clock.advance(Duration::from_mins(1));
    assert_eq!(send(&code(&secret, 60)).await, 303, "a right one begins anew");
    assert_eq!(send("").await, 403, "none is no code");
    let wrong = "UPDATE console_users SET password = password || ' '";
    till.execute(wrong).await;
    assert_eq!(send("000000").await, 403);
    till.execute("UPDATE console_users SET password = rtrim(password)").await;
    assert_eq!(till.number("SELECT wrong_codes::bigint FROM console_users WHERE name = 'alice'").await, 0);
    for attempt in 0..20 {
        assert!(!is_told().await, "{attempt}");
        assert_eq!(send("000000").await, 403, "{attempt}");
    }
    assert!(is_told().await);
    till.clock.advance(Duration::from_mins(1));
    assert_eq!(send(&code(&secret, 120)).await, 403, "a right code of the authenticator");
    assert_eq!(send(&recovery[0]).await, 303);
    assert!(!is_told().await);
    assert_eq!(send(&code(&secret, 120)).await, 303);
}

/// Rule 8.6.18: setting up a second factor ends the user's other sessions, which may be somebody else's.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_factor_ends_the_other_sessions() {
    let till = TestTill::start().await;
    let hash = known_user(&till, "alice", Role::Viewer).await;
    let (other, own) = (browser(&till, "alice", &hash).await, browser(&till, "alice", &hash).await);
    set_up(&own).await;
    assert_eq!(own.get("/console/account").await.status, 200);
    assert_eq!(other.get("/console/account").await.status, 303);
}

/// Rules 8.6.17 and 8.6.15: who has a second factor proves with a code who they are, and changes the password with one.
#[tokio::test(flavor = "multi_thread")]
async fn a_proof_needs_a_code() {
    let till = TestTill::start_with(|config| config.console.reauth_after = Duration::ZERO).await;
    let hash = known_user(&till, "alice", Role::Admin).await;
    let alice = browser(&till, "alice", &hash).await;
    let (secret, recovery) = set_up(&alice).await;
    let make = async |code: &str| {
        let fields = [
            ("app_id", "a1"),
            ("category", "general"),
            ("present_password", PASSWORD),
            ("present_code", code),
        ];
        alice.post("/console/new-app", &fields).await
    };
    till.clock.advance(Duration::from_mins(1));
    for wrong in ["", "000000", &code(&secret, 0)] {
        let asked = make(wrong).await;
        assert_eq!(asked.status, 403, "{wrong}");
        assert!(
            asked.body.contains("name=\"present_code\"") && asked.body.contains("Password or code is wrong")
        );
        assert!(!asked.body.contains("type=\"hidden\" name=\"present_code\""), "{}", asked.body);
    }
    assert_eq!(make(&code(&secret, 60)).await.status, 200);
    let change = async |code: &str| {
        let new = "another horse and battery";
        let fields =
            [("password", PASSWORD), ("code", code), ("new_password", new), ("repeated_password", new)];
        alice.post("/console/account/password", &fields).await.status
    };
    assert_eq!(change("").await, 403);
    assert_eq!(change(&recovery[0]).await, 303);
}

/// Rule 8.6.18: an admin resets the second factor of somebody else, and the user's sessions end. A rotation of the
/// master key encrypts the secret again.
#[tokio::test(flavor = "multi_thread")]
async fn an_admin_resets_a_second_factor() {
    const OTHER_KEY: &str = "22222222222222222222222222222222222222222222222222222222222222ff";
    let till = TestTill::start().await;
    let hash = known_user(&till, "alice", Role::Viewer).await;
    let alice = browser(&till, "alice", &hash).await;
    let (secret, _) = set_up(&alice).await;
    let name = ConsoleUserName::parse("alice").unwrap();
    till.store.unlock(&Keyring::parse(&format!("{OTHER_KEY},{MASTER_KEY}"), "tests").unwrap()).await.unwrap();
    assert_eq!(till.store.rotate_master_key(&operator()).await.unwrap(), 1);
    till.store.unlock(&Keyring::parse(OTHER_KEY, "tests").unwrap()).await.unwrap();
    assert_eq!(till.store.second_factor(&name).await.unwrap().as_deref(), Some(secret.as_str()));
    let admin = till.browser(Role::Admin).await;
    till.execute("UPDATE console_users SET wrong_codes = 20 WHERE name = 'alice'").await;
    let page = admin.get("/console/users/alice").await.body;
    assert!(page.contains("20 wrong codes after a right password"), "{page}");
    assert!(page.contains("action=\"/console/users/alice/second-factor/reset\""), "{page}");
    let reset = admin.post("/console/users/alice/second-factor/reset", &[]).await;
    assert_eq!((reset.status, reset.header("location")), (303, Some("/console/users/alice?done=reset")));
    assert_eq!(alice.get("/console").await.status, 303);
    assert_eq!(till.number("SELECT count(*) FROM console_recovery_codes").await, 0);
    assert_eq!(till.number("SELECT sum(wrong_codes) FROM console_users").await, 0);
    assert_eq!(signing_in("").send(till.operator_address).await.status, 303);
    let lines = "SELECT count(*) FROM operator_log WHERE action LIKE 'console_user.%set_second_factor' AND subject = 'alice'";
    assert_eq!(till.number(lines).await, 2);
    let unknown = ConsoleUserName::parse("nobody").unwrap();
    let reset = till.store.change_console_user(&operator(), &unknown, UserCommand::ResetSecondFactor).await;
    assert_eq!(reset, Err(OperationError::Refused(unknown_user(&unknown))));
}

/// Rule 8.6.19: with the setting, an admin without a second factor can only set it up. A viewer needs none.
#[tokio::test(flavor = "multi_thread")]
async fn admins_must_have_one_where_the_setting_says_so() {
    let till = TestTill::start_with(|config| config.console.totp_required = true).await;
    let hash = known_user(&till, "alice", Role::Admin).await;
    let alice = browser(&till, "alice", &hash).await;
    let page = alice.get("/console/apps").await;
    assert_eq!((page.status, page.header("location")), (303, Some("/console/account/second-factor")));
    let token = alice.get("/console/account").await.body;
    let csrf = token.split_once("name=\"csrf\" value=\"").unwrap().1.split('"').next().unwrap().to_owned();
    let fields = form(&[("csrf", &csrf), ("app_id", "a1")]);
    let change = alice.send(Request::post("/console/new-app").header("origin", ORIGIN).body(fields)).await;
    assert_eq!(change.status, 403);
    assert!(change.body.contains("Second factor first"), "{}", change.body);
    assert_eq!(till.browser(Role::Viewer).await.get("/console/apps").await.status, 200);
    till.execute("UPDATE console_users SET totp_secret = '\\x00' WHERE name = 'alice'").await;
    assert_eq!(alice.get("/console/apps").await.status, 200);
}
