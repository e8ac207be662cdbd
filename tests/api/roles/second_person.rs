//! Large changes of the console that wait for a second person: who sees, confirms and refuses one (contract 8.6.40).

use domain::console_user::{ConsoleUserName, PasswordHash, Role};
use domain::rights::{Apps, Rights};
use store::secrets::random_token;

use crate::game::Game;
use crate::support::console::{Browser, session};
use crate::support::{Answer, TestApp, TestTill};

const EXCHANGE: &str = "/console/apps/a1/exchanges/B1/give-back";
const CREDIT: &str = "/console/apps/a1/players/o1/credit";
const CONFIRM: &str = "/console/apps/a1/request/confirm";
const REFUSE: &str = "/console/apps/a1/request/refuse";
const OWN: &str = "You asked for this change yourself, and another admin must confirm it.";

/// Changes of more than 500 coins need a second person, and support gives back 1,000. The player `o1` has spent 3,000 of
/// 5,000 coins with `B1`.
async fn till() -> (TestTill, TestApp) {
    let till = TestTill::start_with(|config| {
        config.console.second_person_above = 500;
        config.console.support_give_back_max = 1000;
    })
    .await;
    let app = till.app("a1").await;
    till.app("a2").await;
    till.player(&app, "o1", 0, 5000).await;
    assert_eq!(Game::new(&app, "o1", "B1", 3000).send(&till).await.code(), 1);
    (till, app)
}

fn of_app(role: Role, apps: &str) -> Rights {
    Rights { role, apps: Apps::parse(apps).unwrap() }
}

async fn give_back(browser: &Browser<'_>, amount: &str, reference: &str) -> Answer {
    browser.post(EXCHANGE, &[("amount", amount), ("reference", reference), ("reason", "late")]).await
}

async fn ask_credit(browser: &Browser<'_>, reference: &str) {
    let fields = [("charged", "501"), ("reference", reference), ("reason", "late")];
    let asked = browser.post(CREDIT, &fields).await;
    let request = format!("/console/apps/a1/request?ref={reference}");
    assert_eq!((asked.status, asked.header("location")), (303, Some(request.as_str())), "{}", asked.body);
}

async fn name_of(browser: &Browser<'_>) -> ConsoleUserName {
    let page = browser.get("/console/account").await.body;
    let (_, rest) = page.split_once("<a href=\"/console/account\">").unwrap();
    ConsoleUserName::parse(rest.split('<').next().unwrap()).unwrap()
}

/// Nobody confirms what they asked for: not in another session, and not after their rights have changed.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_confirms_their_own_request_in_any_session() {
    let (till, app) = till().await;
    let alice = till.browser(Role::Admin).await;
    ask_credit(&alice, "r1").await;
    let (name, token) = (name_of(&alice).await, random_token());
    let password = PasswordHash::kept("none fits".to_owned());
    assert!(till.store.begin_console_session(&name, &password, session(&token)).await.unwrap());
    let elsewhere = till.browser_with(token);
    for browser in [&alice, &elsewhere] {
        let page = browser.get("/console/apps/a1/request?ref=r1").await.body;
        assert!(!page.contains("Confirm the change") && page.contains("Withdraw the request"), "{page}");
        let refused = browser.post(CONFIRM, &[("ref", "r1")]).await;
        assert!(refused.status == 400 && refused.body.contains(OWN), "{}", refused.body);
    }
    assert_eq!(till.purses(&app, "o1").await, (0, 2000, 2));
    // The database does not take it either.
    let forged = "UPDATE console_requests SET state = 'confirmed', ended_by = asked_by, ended_at = now()";
    let error = sqlx::query(forged).execute(&till.sql).await.unwrap_err();
    assert!(error.to_string().contains("console_requests_second_person"), "{error}");
    // Who asked withdraws it.
    assert_eq!(elsewhere.post(REFUSE, &[("ref", "r1")]).await.status, 303);
    let bob = till.browser(Role::Admin).await;
    assert_eq!(bob.post(CONFIRM, &[("ref", "r1")]).await.status, 303);
    assert_eq!(till.purses(&app, "o1").await, (0, 2000, 2));
}

/// Only an admin of the app confirms or refuses what somebody else asked for. Others see neither buttons nor, without the
/// app, the request.
#[tokio::test(flavor = "multi_thread")]
async fn only_an_admin_of_the_app_confirms() {
    let (till, app) = till().await;
    ask_credit(&till.browser(Role::Admin).await, "r1").await;
    for role in [Role::Viewer, Role::Support, Role::Finance, Role::Developer] {
        let browser = till.browser(role).await;
        let page = browser.get("/console/apps/a1/request?ref=r1").await;
        assert!(page.status == 200 && !page.body.contains("/request/"), "{role}: {}", page.body);
        for path in [CONFIRM, REFUSE] {
            let refused = browser.post(path, &[("ref", "r1")]).await;
            let words = "Your role does not allow this.";
            assert!(refused.status == 403 && refused.body.contains(words), "{role} {path}: {}", refused.body);
        }
    }
    let foreign = till.browser_of(of_app(Role::Admin, "a2")).await;
    let list = foreign.get("/console/requests").await;
    assert!(
        list.status == 200 && !list.body.contains("r1") && !list.body.contains("tag wait"),
        "{}",
        list.body
    );
    let pages = [
        foreign.get("/console/apps/a1/request?ref=r1").await,
        foreign.post(CONFIRM, &[("ref", "r1")]).await,
        foreign.post(REFUSE, &[("ref", "r1")]).await,
        // Another app in the path does not reach it.
        foreign.post("/console/apps/a2/request/confirm", &[("ref", "r1"), ("app_id", "a1")]).await,
    ];
    for page in pages {
        assert!(page.status == 404 && page.body.contains("There is no app a1."), "{}", page.body);
    }
    let none = foreign.post("/console/apps/a2/request/confirm", &[("ref", "r1")]).await;
    assert!(
        none.status == 404 && none.body.contains("There is no request r1 of an app a2."),
        "{}",
        none.body
    );
    assert_eq!(till.purses(&app, "o1").await, (0, 2000, 2));
    let own = till.browser_of(of_app(Role::Admin, "a1")).await;
    assert!(own.get("/console/requests").await.body.contains("Requests <span class=\"tag wait\">1</span>"));
    assert_eq!(own.post(CONFIRM, &[("ref", "r1")]).await.status, 303);
    assert_eq!(till.purses(&app, "o1").await, (0, 2501, 3));
}

/// A confirmation is for who proved a short while ago who they are.
#[tokio::test(flavor = "multi_thread")]
async fn a_confirmation_needs_a_proof() {
    let (till, app) = till().await;
    ask_credit(&till.browser(Role::Admin).await, "r1").await;
    let bob = till.browser(Role::Admin).await;
    till.execute("UPDATE console_sessions SET proved_at = now() - interval '1 hour'").await;
    let asked = bob.post(CONFIRM, &[("ref", "r1")]).await;
    assert!(asked.status == 403 && asked.body.contains("Your password, please"), "{}", asked.body);
    assert!(asked.body.contains("name=\"ref\" value=\"r1\""), "{}", asked.body);
    assert_eq!(till.purses(&app, "o1").await, (0, 2000, 2));
}

/// Support asks for a large cancel within its limit, an admin confirms, and what others gave back meanwhile counts.
#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_support_holds_when_it_asks_and_when_an_admin_confirms() {
    let (till, app) = till().await;
    let (support, other) = (till.browser(Role::Support).await, till.browser(Role::Support).await);
    let above = "The role support gives back at most 1000 coins of an exchange.";
    let refused = give_back(&support, "1001", "r1").await;
    assert!(refused.status == 400 && refused.body.contains(above), "{}", refused.body);
    assert_eq!(till.number("SELECT count(*) FROM console_requests").await, 0);
    for reference in ["r1", "r2", "r3"] {
        assert_eq!(give_back(&support, "600", reference).await.status, 303);
    }
    assert_eq!(till.purses(&app, "o1").await, (0, 2000, 2));
    // Another one of support neither confirms nor refuses. Who asked withdraws.
    for path in [CONFIRM, REFUSE] {
        assert_eq!(other.post(path, &[("ref", "r1")]).await.status, 403);
    }
    let page = support.get("/console/apps/a1/request?ref=r3").await.body;
    assert!(page.contains("Withdraw the request") && !page.contains("Confirm the change"), "{page}");
    assert_eq!(support.post(CONFIRM, &[("ref", "r3")]).await.status, 403);
    assert_eq!(support.post(REFUSE, &[("ref", "r3")]).await.status, 303);
    let admin = till.browser(Role::Admin).await;
    assert_eq!(admin.post(CONFIRM, &[("ref", "r1")]).await.status, 303);
    assert_eq!(till.purses(&app, "o1").await, (0, 2600, 3));
    // Together they would be 1,200 coins.
    let refused = admin.post(CONFIRM, &[("ref", "r2")]).await;
    let words = "The role support gives back at most 1000 coins of an exchange; 600 were given back already, and \
                 only an admin gives back more.";
    assert!(refused.status == 400 && refused.body.contains(words), "{}", refused.body);
    assert_eq!(till.purses(&app, "o1").await, (0, 2600, 3));
    let waits = "SELECT count(*) FROM console_requests WHERE ref = 'r2' AND state = 'waiting'";
    assert_eq!(till.number(waits).await, 1);
    // What an admin asks for has no such limit.
    assert_eq!(give_back(&admin, "1500", "r4").await.status, 303);
    assert_eq!(till.browser(Role::Admin).await.post(CONFIRM, &[("ref", "r4")]).await.status, 303);
    assert_eq!(till.purses(&app, "o1").await, (0, 4100, 4));
    till.assert_audit_clean().await;
}

/// Rule 8.6.40: a key with a limit of its own moves so much alone, whatever its maker has moved, and its maker
/// likewise. Two people make such a key, and one that reports payments (8.6.44).
#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_a_limit_of_its_own_is_somebody_of_its_own() {
    use domain::ids::ApiKeyName;
    use domain::operation::key::{ApiKeyCommand, NewApiKey};
    use serde_json::json;

    use crate::admin::Caller;
    use crate::support::operator;

    let (till, app) = till().await;
    let name = ApiKeyName::parse("top-up").unwrap();
    let new = NewApiKey { name, rights: Role::Admin.into(), alone_max: Some(2000) };
    let made = till.store.change_api_keys(&operator(), ApiKeyCommand::Create(new)).await.unwrap();
    let large = Caller::with(&till, made.api_key.unwrap().expose().to_owned());
    let small = Caller::new(&till, "small", Role::Admin).await;
    let credit = async |caller: &Caller<'_>, coins: i64, reference: &str| {
        let body = json!({"charge": coins, "ref": reference});
        caller.post("/apps/a1/wallets/o1/credits", reference, body).await.status
    };
    assert_eq!(credit(&small, 501, "s1").await, 403);
    assert_eq!((credit(&large, 1500, "l1").await, credit(&large, 501, "l2").await), (200, 403));
    assert_eq!(credit(&large, 500, "l3").await, 200);
    let list = json!({"credits": [{"open_id": "o1", "free": 1, "ref": "l4"}]});
    assert_eq!(large.send("POST", "/apps/a1/credits:batch", None, &list).await.status, 403);
    assert_eq!(credit(&small, 500, "s2").await, 200);
    assert_eq!(till.purses(&app, "o1").await, (0, 4500, 5));

    // An admin alone makes none, of any role, and another admin confirms it with its limit.
    let (alice, bob) = (till.browser(Role::Admin).await, till.browser(Role::Admin).await);
    let fields = [("name", "back-office"), ("role", "support"), ("second_person_above", "9000")];
    let asked = alice.post("/console/api-keys", &fields).await;
    assert!(asked.status == 200 && asked.body.contains("once another admin has confirmed"), "{}", asked.body);
    let limit = "SELECT coalesce((SELECT second_person_above FROM api_keys WHERE name = 'back-office'), 0)";
    assert_eq!(till.number(limit).await, 0);
    let reference: String =
        sqlx::query_scalar("SELECT ref FROM console_requests WHERE account = 'back-office'")
            .fetch_one(&till.sql)
            .await
            .unwrap();
    let confirmed = bob.post("/console/account-requests/confirm", &[("ref", &reference)]).await;
    assert_eq!(confirmed.status, 303, "{}", confirmed.body);
    assert_eq!(till.number(limit).await, 9000);
    let of_payments = [("name", "payer"), ("role", "payments")];
    let asked = alice.post("/console/api-keys", &of_payments).await;
    assert!(asked.status == 200 && asked.body.contains("once another admin has confirmed"), "{}", asked.body);
    assert_eq!(till.number("SELECT count(*) FROM api_keys WHERE name = 'payer'").await, 0);
    let of_support = [("name", "plain"), ("role", "support")];
    assert_eq!(alice.post("/console/api-keys", &of_support).await.status, 200);
    assert_eq!(till.number("SELECT count(*) FROM api_keys WHERE name = 'plain'").await, 1);
    till.assert_audit_clean().await;
}
