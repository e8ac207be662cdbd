//! One admin is never both persons (contract 8.6.40 and 8.6.44 to 8.6.47). Not by a second account, the account of
//! somebody else, an API key, or many small changes.

use domain::console_user::{ConsoleUserName, PasswordHash, Role};
use domain::operation::user::UserCommand;
use serde_json::json;
use store::secrets::random_token;

use crate::admin::Caller;
use crate::support::console::{Browser, session};
use crate::support::{Answer, TestApp, TestTill, operator};

const CREDIT: &str = "/console/apps/a1/players/o1/credit";
const CONFIRM: &str = "/console/apps/a1/request/confirm";
const CONFIRM_ACCOUNT: &str = "/console/account-requests/confirm";
const REFUSE_ACCOUNT: &str = "/console/account-requests/refuse";
const OWN: &str = "You asked for this change yourself, and another admin must confirm it.";

/// One person moves 500 coins in 24 hours. The player `o1` has none.
async fn till() -> (TestTill, TestApp) {
    let till = TestTill::start_with(|config| config.console.second_person_above = 500).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 0).await;
    (till, app)
}

fn one_person(asked_by: &ConsoleUserName) -> String {
    format!(
        "One of you made or changed the account of the other in the last 30 days, or one person made both, so an admin \
         who is neither must confirm what {asked_by} asked for."
    )
}

async fn name_of(browser: &Browser<'_>) -> ConsoleUserName {
    let page = browser.get("/console/account").await.body;
    let (_, rest) = page.split_once("<a href=\"/console/account\">").unwrap();
    ConsoleUserName::parse(rest.split('<').next().unwrap()).unwrap()
}

/// A browser of a user who is there, however the password is known.
async fn browser_of<'a>(till: &'a TestTill, name: &str) -> Browser<'a> {
    let password = "SELECT password FROM console_users WHERE name = $1";
    let password: String = sqlx::query_scalar(password).bind(name).fetch_one(&till.sql).await.unwrap();
    let (name, token) = (ConsoleUserName::parse(name).unwrap(), random_token());
    let password = PasswordHash::kept(password);
    assert!(till.store.begin_console_session(&name, &password, session(&token)).await.unwrap());
    till.browser_with(token)
}

async fn credit(browser: &Browser<'_>, coins: &str, reference: &str) -> Answer {
    browser.post(CREDIT, &[("charged", coins), ("reference", reference), ("reason", "late")]).await
}

fn leads_to(answer: &Answer) -> (u16, Option<&str>) {
    (answer.status, answer.header("location"))
}

fn waits(answer: &Answer, reference: &str) {
    let request = format!("/console/apps/a1/request?ref={reference}");
    assert_eq!(leads_to(answer), (303, Some(request.as_str())), "{}", answer.body);
}

/// The ref of the newest request of an account.
async fn newest(till: &TestTill, account: &str) -> String {
    let newest = "SELECT ref FROM console_requests WHERE account = $1 ORDER BY asked_at DESC LIMIT 1";
    sqlx::query_scalar(newest).bind(account).fetch_one(&till.sql).await.unwrap()
}

fn refused(answer: &Answer, words: &str) {
    assert!(answer.status == 400 && answer.body.contains(words), "{} {}", answer.status, answer.body);
}

/// Adds an admin by the form of `asker`, whom `second` confirms.
async fn add_admin(till: &TestTill, asker: &Browser<'_>, second: &Browser<'_>, name: &str) {
    let made = asker.post("/console/users", &[("name", name), ("role", "admin")]).await;
    let words = "It is of use once another admin has confirmed the change, on the page Requests.";
    assert!(made.status == 200 && made.body.contains(words), "{}", made.body);
    let reference = newest(till, name).await;
    let confirmed = second.post(CONFIRM_ACCOUNT, &[("ref", &reference)]).await;
    assert_eq!(leads_to(&confirmed), (303, Some("/console/requests?done=confirmed")), "{}", confirmed.body);
}

/// The first way: a second account. It is made when another admin agrees. Then it confirms nothing of its maker, nor
/// the other way round, nor do two accounts of one maker.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_account_is_no_second_person() {
    let (till, app) = till().await;
    let (alice, bob) = (till.browser(Role::Admin).await, till.browser(Role::Admin).await);
    let answer = alice.post("/console/users", &[("name", "mallory"), ("role", "admin")]).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(till.number("SELECT count(*) FROM console_users WHERE name = 'mallory'").await, 0);
    let reference = newest(&till, "mallory").await;
    let again = alice.post("/console/users", &[("name", "mallory"), ("role", "viewer")]).await;
    refused(&again, "Somebody has asked for this change of mallory already, and it waits.");
    let list = alice.get("/console/requests").await;
    assert!(list.body.contains("Requests <span class=\"tag wait\">1</span>"), "{}", list.body);
    assert!(list.body.contains(REFUSE_ACCOUNT) && !list.body.contains(CONFIRM_ACCOUNT), "{}", list.body);
    refused(&alice.post(CONFIRM_ACCOUNT, &[("ref", &reference)]).await, OWN);
    let list = bob.get("/console/requests").await;
    assert!(list.body.contains(REFUSE_ACCOUNT) && list.body.contains(CONFIRM_ACCOUNT), "{}", list.body);
    let confirmed = bob.post(CONFIRM_ACCOUNT, &[("ref", &reference)]).await;
    assert_eq!(leads_to(&confirmed), (303, Some("/console/requests?done=confirmed")), "{}", confirmed.body);
    let secrets = "SELECT count(*) FROM console_requests WHERE secret IS NOT NULL";
    assert_eq!(till.number(secrets).await, 0);
    add_admin(&till, &alice, &bob, "eve").await;

    let (mallory, eve) = (browser_of(&till, "mallory").await, browser_of(&till, "eve").await);
    let (asker, second) = (name_of(&alice).await, name_of(&mallory).await);
    waits(&credit(&alice, "501", "r1").await, "r1");
    refused(&mallory.post(CONFIRM, &[("ref", "r1")]).await, &one_person(&asker));
    waits(&credit(&mallory, "501", "r2").await, "r2");
    refused(&alice.post(CONFIRM, &[("ref", "r2")]).await, &one_person(&second));
    refused(&eve.post(CONFIRM, &[("ref", "r2")]).await, &one_person(&second));
    // What an account of hers makes is hers too.
    add_admin(&till, &mallory, &bob, "oscar").await;
    let oscar = browser_of(&till, "oscar").await;
    refused(&oscar.post(CONFIRM, &[("ref", "r1")]).await, &one_person(&asker));
    assert_eq!(till.purses(&app, "o1").await, (0, 0, 1));
    // Who agreed to the account is another person.
    assert_eq!(bob.post(CONFIRM, &[("ref", "r2")]).await.status, 303);
    assert_eq!(till.purses(&app, "o1").await, (0, 501, 2));
    till.assert_audit_clean().await;
    // After 30 days she is a person of her own.
    till.execute(
        "UPDATE operator_log SET at = at - interval '31 days', state = CASE WHEN state ->> 'created_at' IS NULL THEN state
             ELSE jsonb_set(state, '{created_at}', to_jsonb((state ->> 'created_at')::bigint - 31 * 86400000000)) END;
         UPDATE console_users SET created_at = created_at - interval '31 days'",
    )
    .await;
    assert_eq!(mallory.post(CONFIRM, &[("ref", "r1")]).await.status, 303);
    assert_eq!(till.purses(&app, "o1").await, (0, 1002, 3));
}

/// The second way: the account of somebody else. A role and a second factor wait, and whose account was changed confirms
/// nothing of who changed it.
#[tokio::test(flavor = "multi_thread")]
async fn the_account_of_somebody_else_is_no_second_person() {
    let (till, app) = till().await;
    let (alice, bob, carol) =
        (till.browser(Role::Admin).await, till.browser(Role::Admin).await, till.browser(Role::Viewer).await);
    let (asker, name) = (name_of(&alice).await, name_of(&carol).await);
    let role = format!("/console/users/{name}/role");
    let is_admin = format!(
        "SELECT count(*) FROM console_users WHERE name = '{name}' AND role = 'admin' AND apps = '{{}}'"
    );
    let answer = alice.post(&role, &[("role", "admin")]).await;
    assert_eq!(leads_to(&answer), (303, Some("/console/requests?done=asked")), "{}", answer.body);
    assert_eq!(till.number(&is_admin).await, 0);
    // A refusal ends it, and it is asked for anew.
    let reference = newest(&till, name.as_str()).await;
    let refusal = bob.post(REFUSE_ACCOUNT, &[("ref", &reference)]).await;
    assert_eq!(leads_to(&refusal), (303, Some("/console/requests?done=refused")), "{}", refusal.body);
    let late = bob.post(CONFIRM_ACCOUNT, &[("ref", &reference)]).await;
    assert_eq!(leads_to(&late), (303, Some("/console/requests?done=")), "{}", late.body);
    assert_eq!(till.number(&is_admin).await, 0);
    assert_eq!(alice.post(&role, &[("role", "admin")]).await.status, 303);
    let reference = newest(&till, name.as_str()).await;
    assert_eq!(bob.post(CONFIRM_ACCOUNT, &[("ref", &reference)]).await.status, 303);
    assert_eq!(till.number(&is_admin).await, 1);
    let carol = browser_of(&till, name.as_str()).await;
    waits(&credit(&alice, "501", "r1").await, "r1");
    refused(&carol.post(CONFIRM, &[("ref", "r1")]).await, &one_person(&asker));

    // Of another admin.
    let dan = till.browser(Role::Admin).await;
    let name = name_of(&dan).await;
    till.execute(&format!("UPDATE console_users SET totp_secret = '\\x00' WHERE name = '{name}'")).await;
    let has_factor =
        format!("SELECT count(*) FROM console_users WHERE name = '{name}' AND totp_secret IS NOT NULL");
    let answer = alice.post(&format!("/console/users/{name}/second-factor/reset"), &[]).await;
    assert_eq!(leads_to(&answer), (303, Some("/console/requests?done=asked")), "{}", answer.body);
    assert_eq!(till.number(&has_factor).await, 1);
    let reference = newest(&till, name.as_str()).await;
    assert_eq!(bob.post(CONFIRM_ACCOUNT, &[("ref", &reference)]).await.status, 303);
    assert_eq!(till.number(&has_factor).await, 0);
    let dan = browser_of(&till, name.as_str()).await;
    refused(&dan.post(CONFIRM, &[("ref", "r1")]).await, &one_person(&asker));
    assert_eq!(till.purses(&app, "o1").await, (0, 0, 1));
    // He is a second person for others.
    waits(&credit(&bob, "501", "r2").await, "r2");
    assert_eq!(dan.post(CONFIRM, &[("ref", "r2")]).await.status, 303);
    assert_eq!(till.purses(&app, "o1").await, (0, 501, 2));
    till.assert_audit_clean().await;
}

/// The third way: an API key, and many small changes. A key of an admin waits, and every face and key of a person counts.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_moves_is_counted_on_every_face() {
    let (till, app) = till().await;
    let (alice, bob) = (till.browser(Role::Admin).await, till.browser(Role::Admin).await);
    let made = alice.post("/console/api-keys", &[("name", "till-key"), ("role", "admin")]).await;
    assert_eq!(made.status, 200, "{}", made.body);
    let (_, rest) = made.body.split_once("mtk_").expect("a key");
    let key = Caller::with(&till, format!("mtk_{}", rest.split('<').next().unwrap()));
    let path = "/apps/a1/wallets/o1/credits";
    let coins = |charge: i64, reference: &str| json!({ "charge": charge, "ref": reference });
    assert_eq!(key.post(path, "i0", coins(1, "k0")).await.status, 401);
    let reference = newest(&till, "till-key").await;
    assert_eq!(bob.post(CONFIRM_ACCOUNT, &[("ref", &reference)]).await.status, 303);

    let done = credit(&alice, "200", "c1").await;
    assert_eq!(leads_to(&done), (303, Some("/console/apps/a1/players/o1?changed=c1")), "{}", done.body);
    assert_eq!(key.post(path, "i1", coins(200, "k1")).await.status, 200);
    let above = key.post(path, "i2", coins(101, "k2")).await;
    let detail = "more than 500 coins in 24 hours need a second person; ask for this change in the console";
    assert_eq!((above.status, above.json()["detail"].as_str()), (403, Some(detail)), "{}", above.body);
    let batch = |charge: i64| json!({ "credits": [{ "open_id": "o1", "charge": charge, "ref": "k3" }] });
    let above = key.send("POST", "/apps/a1/credits:batch", None, &batch(101)).await;
    assert_eq!((above.status, above.json()["detail"].as_str()), (403, Some(detail)), "{}", above.body);
    waits(&credit(&alice, "101", "c2").await, "c2");
    assert_eq!(till.purses(&app, "o1").await, (0, 400, 3));
    // What was done is replayed, and up to the limit is still one person's.
    assert!(key.post(path, "i3", coins(200, "k1")).await.body.contains("\"replayed\":true"));
    assert_eq!(key.send("POST", "/apps/a1/credits:batch", None, &batch(100)).await.status, 200);
    let debit = key.post("/apps/a1/wallets/o1/debits", "i4", coins(1, "d1")).await;
    assert_eq!((debit.status, debit.json()["detail"].as_str()), (403, Some(detail)), "{}", debit.body);
    // A confirmed change is of two, and counts for neither.
    assert_eq!(bob.post(CONFIRM, &[("ref", "c2")]).await.status, 303);
    let done = credit(&bob, "500", "c3").await;
    assert_eq!(leads_to(&done), (303, Some("/console/apps/a1/players/o1?changed=c3")), "{}", done.body);
    // A key of the command line is somebody of its own, and the command line has no limit.
    let own = Caller::admin(&till).await;
    assert_eq!(own.post(path, "i5", coins(500, "k5")).await.status, 200);
    assert_eq!(own.post(path, "i6", coins(1, "k6")).await.status, 403);
    till.player(&app, "o2", 0, 5000).await;
    till.assert_audit_clean().await;
    // A day later.
    till.execute("UPDATE operator_log SET at = at - interval '25 hours'").await;
    assert_eq!(key.post(path, "i7", coins(500, "k7")).await.status, 200);
}

/// Nobody confirms a request whose maker may no longer ask. Such a maker has another role or other apps, is removed, or
/// is another user of the same name.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_ends_with_the_right_to_ask() {
    let (till, app) = till().await;
    let (alice, bob) = (till.browser(Role::Admin).await, till.browser(Role::Admin).await);
    let name = name_of(&alice).await;
    waits(&credit(&alice, "501", "r1").await, "r1");
    assert_eq!(alice.post("/console/users", &[("name", "zoe"), ("role", "admin")]).await.status, 200);
    let account = newest(&till, "zoe").await;
    let words = format!("Nobody can confirm this, because {name} may no longer ask for it.");
    let change = async |command| till.store.change_console_user(&operator(), &name, command).await.unwrap();
    let password = || PasswordHash::kept("none fits".to_owned());
    for command in [UserCommand::Rights(Role::Support.into()), UserCommand::Remove] {
        change(command).await;
        refused(&bob.post(CONFIRM, &[("ref", "r1")]).await, &words);
        refused(&bob.post(CONFIRM_ACCOUNT, &[("ref", &account)]).await, &words);
    }
    change(UserCommand::Add(Role::Admin.into(), password())).await;
    refused(&bob.post(CONFIRM, &[("ref", "r1")]).await, &words);
    assert_eq!(till.purses(&app, "o1").await, (0, 0, 1));
    assert_eq!(till.number("SELECT count(*) FROM console_users WHERE name = 'zoe'").await, 0);
    till.assert_audit_clean().await;
}

/// Nobody confirms a request that somebody has changed in the database.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_confirmed_as_it_was_asked_for() {
    let (till, app) = till().await;
    let (alice, bob) = (till.browser(Role::Admin).await, till.browser(Role::Admin).await);
    let name = name_of(&bob).await;
    till.player(&app, "o2", 0, 0).await;
    waits(&credit(&alice, "501", "r1").await, "r1");
    assert_eq!(alice.post("/console/users", &[("name", "zoe"), ("role", "viewer")]).await.status, 200);
    let account = newest(&till, "zoe").await;
    let changes = [
        ("charge = 9000", "r1"),
        ("open_id = 'o2'", "r1"),
        ("create_wallet = true", "r1"),
        ("asked_at = asked_at + interval '1 second'", "r1"),
        ("asked_by = 'somebody'", "r1"),
        ("secret = 'mine'", account.as_str()),
        ("role = 'admin'", account.as_str()),
        ("account = 'zoe2'", account.as_str()),
    ];
    for (change, reference) in changes {
        let of = format!("WHERE ref = '{reference}'");
        till.execute(&format!(
            "DROP TABLE IF EXISTS kept; CREATE TABLE kept AS TABLE console_requests; UPDATE console_requests SET {change} {of}"
        ))
        .await;
        let path = if reference == "r1" { CONFIRM } else { CONFIRM_ACCOUNT };
        let words = format!(
            "The request {reference} is not what the operator log says, so somebody has changed the database; run minitill \
             audit."
        );
        refused(&bob.post(path, &[("ref", reference)]).await, &words);
        till.execute("TRUNCATE console_requests; INSERT INTO console_requests TABLE kept").await;
    }
    // The row of whoever asked, or confirms, is none that the log tells of.
    let asker = name_of(&alice).await;
    for user in [&asker, &name] {
        till.execute(&format!("UPDATE console_users SET apps = '{{a1,a2}}' WHERE name = '{user}'")).await;
        let words = format!(
            "The user {user} is not what the operator log says, so somebody has changed the database; run minitill audit."
        );
        refused(&bob.post(CONFIRM, &[("ref", "r1")]).await, &words);
        till.execute(&format!("UPDATE console_users SET apps = '{{}}' WHERE name = '{user}'")).await;
    }
    // A request that nobody asked for.
    till.execute(
        "INSERT INTO console_requests (app_id, ref, kind, open_id, free, charge, create_wallet, reason, asked_by)
         SELECT app_id, 'r2', kind, open_id, free, charge, create_wallet, reason, asked_by FROM console_requests
         WHERE ref = 'r1'",
    )
    .await;
    let words = "The request r2 is not what the operator log says";
    refused(&bob.post(CONFIRM, &[("ref", "r2")]).await, words);
    assert_eq!(till.purses(&app, "o1").await, (0, 0, 1));
    assert_eq!(bob.post(CONFIRM, &[("ref", "r1")]).await.status, 303);
    assert_eq!(till.purses(&app, "o1").await, (0, 501, 2));
    let confirmer = "SELECT count(*) FROM console_requests WHERE ref = 'r1' AND ended_by = ";
    assert_eq!(till.number(&format!("{confirmer}'{name}'")).await, 1);
}

/// A till with one admin does not lock itself out: the command line makes the second one, who confirms.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_makes_the_second_admin() {
    let (till, app) = till().await;
    let alice = till.browser(Role::Admin).await;
    waits(&credit(&alice, "501", "r1").await, "r1");
    assert_eq!(alice.post("/console/users", &[("name", "bob"), ("role", "admin")]).await.status, 200);
    let name = ConsoleUserName::parse("bob").unwrap();
    let command = UserCommand::Add(Role::Admin.into(), PasswordHash::kept("none fits".to_owned()));
    till.store.change_console_user(&operator(), &name, command).await.unwrap();
    let bob = browser_of(&till, "bob").await;
    assert_eq!(bob.post(CONFIRM, &[("ref", "r1")]).await.status, 303);
    assert_eq!(till.purses(&app, "o1").await, (0, 501, 2));
    // The user is there now.
    let reference = newest(&till, "bob").await;
    refused(&bob.post(CONFIRM_ACCOUNT, &[("ref", &reference)]).await, "There is already a user bob.");
    till.assert_audit_clean().await;
}
