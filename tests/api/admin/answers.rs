//! Answers of each call beyond its documented example: what changed, and the line it left.

use std::time::Duration;

use domain::console_user::Role;
use domain::ids::AppId;
use domain::signature::PayKey;
use serde_json::{Value, json};
use store::secrets::token_hash;

use super::{Caller, assert_answer, assert_problem, log};
use crate::game::Game;
use crate::support::{Request, TestApp, TestTill, form};

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_was_made_sells_and_its_keys_are_replaced() {
    let till = TestTill::start().await;
    let caller = Caller::admin(&till).await;
    let fields = json!({
        "app_id": "a1", "name": "<b>Game</b>", "category": "local_life", "scopes": ["epay"],
        "sandbox": true, "preorder_check": true, "language": "zh",
    });
    let made = caller.post("/apps", "k1", fields).await;
    assert_eq!((made.status, made.header("location")), (201, Some("/admin/v1/apps/a1")));
    let keys = made.json();
    let app = caller.get("/apps/a1").await;
    let created_at = &app.json()["created_at"];
    let key = |kind: &str| json!({"kind": kind, "generation": 1, "valid": true, "created_at": created_at, "last_used_at": null, "uses_last_day": 0});
    let expected = json!({
        "app_id": "a1", "name": "<b>Game</b>", "category": "local_life", "scopes": ["epay"], "sandbox": true,
        "preorder_check": true, "language": "zh", "suspended": false, "package_version": null, "pages": [],
        "limits": {"exchanges_per_second": null, "reads_per_second": null, "reports_per_second": null, "uploads_per_second": null, "tokens_per_second": null, "logins_per_second": null, "image_bytes_per_day": null, "image_bytes_max": null, "images_per_day": null, "images_max": null},
        "created_at": created_at,
        "keys": [key("pay_key"), key("app_secret")],
    });
    assert_answer(&app, 200, &expected);
    assert_answer(
        &caller
            .post(
                "/apps/a1/wallets/o1/credits",
                "k2",
                json!({"free": 40, "charge": 100, "ref": "r1", "note": "a gift", "create": true}),
            )
            .await,
        200,
        &json!({"ref": "r1", "free_balance": 40, "charge_balance": 100, "replayed": false}),
    );
    let token = caller.post("/apps/a1/tokens", "k3", json!({"ttl_seconds": 60})).await.json();
    assert_eq!(token["expires_at"], "2027-01-15T08:01:00Z");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut app = TestApp {
        id: AppId::parse("a1").unwrap(),
        secret: text(&keys["app_secret"]),
        pay_key: text(&keys["pay_key"]),
        token: text(&token["access_token"]),
    };
    assert_eq!(Game::new(&app, "o1", "b1", 60).send(&till).await.code(), 1);
    let rotated = caller.post("/apps/a1/pay-keys", "k4", json!({})).await;
    let secret = caller.post("/apps/a1/app-secrets", "k5", json!({})).await;
    assert_eq!((rotated.status, secret.status), (200, 200));
    // Apps are remembered for two seconds.
    till.clock.advance(Duration::from_secs(3));
    app.pay_key = text(&rotated.json()["pay_key"]);
    assert_eq!(Game::new(&app, "o1", "b2", 60).send(&till).await.code(), 1);
    assert_eq!(till.purses(&app, "o1").await, (20, 0, 3));
    let secret = text(&secret.json()["app_secret"]);
    let asked = [("app_id", "a1"), ("app_secret", secret.as_str()), ("grant_type", "client_credentials")];
    let got = till.send(Request::get(&format!("/oauth2/access_token?{}", form(&asked)))).await;
    assert_eq!(got.code(), 1);
    let lines = log(&till).await;
    let actions: Vec<&str> = lines.iter().map(|line| line.action.as_str()).collect();
    assert_eq!(
        actions,
        ["app.create", "wallet.credit", "token.issue", "app.rotate_pay_key", "app.rotate_secret"]
    );
    assert!(lines.iter().all(|line| line.operator == "backend"));
    assert_eq!(lines[1].note, "a gift");
    till.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suspension_and_limits_are_set_as_often_as_one_likes_and_logged_once() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let caller = Caller::admin(&till).await;
    let nothing = json!({});
    for _ in 0..2 {
        let answer = caller.send("PUT", "/apps/a1/suspension", None, &nothing).await;
        assert_answer(&answer, 200, &json!({"app_id": "a1", "suspended": true}));
        assert_eq!(answer.header("idempotent-replayed"), None);
    }
    assert_eq!(caller.get("/apps/a1").await.json()["suspended"], true);
    for _ in 0..2 {
        let answer = caller.send("DELETE", "/apps/a1/suspension", None, &nothing).await;
        assert_answer(&answer, 200, &json!({"app_id": "a1", "suspended": false}));
    }
    let limits = json!({"exchanges_per_second": 7, "tokens_per_second": 0});
    for _ in 0..2 {
        let answer = caller.send("PUT", "/apps/a1/limits", None, &limits).await;
        let now = json!({"exchanges_per_second": 7, "reads_per_second": null, "reports_per_second": null, "uploads_per_second": null, "tokens_per_second": 0, "logins_per_second": null, "image_bytes_per_day": null, "image_bytes_max": null, "images_per_day": null, "images_max": null});
        assert_answer(&answer, 200, &json!({"app_id": "a1", "limits": now}));
    }
    let actions: Vec<String> = log(&till).await.into_iter().map(|line| line.action).collect();
    assert_eq!(actions, ["app.suspend", "app.resume", "app.limit"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_app_offers_is_published_and_registered() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let caller = Caller::admin(&till).await;
    let published = caller
        .post("/apps/a1/packages", "k1", json!({"version": "2", "pages": ["/pages/b?x=1", "pages/c"]}))
        .await;
    assert_answer(&published, 200, &json!({"app_id": "a1", "version": "2", "pages": ["pages/b", "pages/c"]}));
    let app = caller.get("/apps/a1").await.json();
    assert_eq!((&app["package_version"], &app["pages"]), (&json!("2"), &json!(["pages/b", "pages/c"])));
    let pois = caller.post("/apps/a1/pois", "k2", json!({"poi_ids": ["p1", "p2"]})).await;
    assert_answer(&pois, 200, &json!({"app_id": "a1", "poi_ids": ["p1", "p2"]}));
    let preorders = caller.post("/apps/a1/preorders", "k3", json!({"out_order_nos": ["pay-01"]})).await;
    assert_answer(&preorders, 200, &json!({"app_id": "a1", "out_order_nos": ["pay-01"]}));
    let users = caller.post("/apps/a1/users", "k4", json!({"open_ids": ["o1", "o2"]})).await;
    assert_answer(&users, 200, &json!({"app_id": "a1", "open_ids": ["o1", "o2"]}));
    for (table, count) in [("pois", 2), ("preorders", 1), ("players", 2)] {
        assert_eq!(
            till.number(&format!("SELECT count(*) FROM {table} WHERE app_id = 'a1'")).await,
            count,
            "{table}"
        );
    }
    // Rule 8.3.17.
    let around = |got: &str| format!("expected no blank or unseen character around it, got {got}");
    for (path, body, field, detail) in [
        ("pois", json!({"poi_ids": ["p3", "p1 "]}), "poi_ids[1]", around("\"p1 \"")),
        ("packages", json!({"version": " 2", "pages": ["pages/b"]}), "version", around("\" 2\"")),
        ("packages", json!({"version": "2", "pages": ["pages/c "]}), "pages[0]", around("\"pages/c \"")),
        (
            "packages",
            json!({"version": "2", "pages": ["pages/b,pages/c"]}),
            "pages[0]",
            "expected one path without a comma, got \"pages/b,pages/c\"".to_owned(),
        ),
        (
            "wallets/o1/freezes",
            json!({"reason": " "}),
            "reason",
            "expected a reason that is more than blanks, got \" \"".to_owned(),
        ),
        ("wallets/o1/credits", json!({"free": 1, "ref": "case-1 "}), "ref", around("\"case-1 \"")),
        ("wallets/o1/debits", json!({"free": 1, "ref": " case-1"}), "ref", around("\" case-1\"")),
    ] {
        let refused = caller.post(&format!("/apps/a1/{path}"), "k7", body).await;
        assert_eq!(refused.status, 422, "{path}");
        assert_eq!(refused.json()["errors"], json!([{"field": field, "detail": detail}]), "{path}");
    }
    let none = caller.post("/apps/a1/pois", "k5", json!({"poi_ids": []})).await;
    assert_problem(&none, 422, "invalid-field", "wrong: poi_ids");
    let many: Vec<String> = (0..1001).map(|number| format!("p{number}")).collect();
    let many = caller.post("/apps/a1/pois", "k6", json!({ "poi_ids": many })).await;
    assert_eq!(many.json()["errors"][0]["detail"], "expected a list of 1 to 1000 texts, got a list of 1001");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_revoked_one_or_all_and_stand_in_no_address() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let caller = Caller::admin(&till).await;
    let issued = caller.post("/apps/a1/tokens", "k1", json!({})).await.json();
    let path = "/apps/a1/token-revocations";
    let one = json!({"access_token": issued["access_token"]});
    assert_answer(&caller.post(path, "k2", one.clone()).await, 200, &json!({"app_id": "a1", "revoked": 1}));
    assert_problem(
        &caller.post(path, "k3", one.clone()).await,
        404,
        "not-found",
        "there is no such token of the app a1",
    );
    let both = json!({"access_token": app.token, "all": true});
    for unclear in [json!({}), both, json!({"all": false})] {
        assert_problem(&caller.post(path, "k4", unclear).await, 422, "invalid-field", "wrong: access_token");
    }
    assert_answer(
        &caller.post(path, "k5", json!({"all": true})).await,
        200,
        &json!({"app_id": "a1", "revoked": 1}),
    );
    assert_answer(
        &caller.post(path, "k6", json!({"all": true})).await,
        200,
        &json!({"app_id": "a1", "revoked": 0}),
    );
    let hash = token_hash(&app.token);
    assert_eq!(
        till.number(&format!(
            "SELECT count(*) FROM access_tokens WHERE token_hash = '\\x{}'",
            hex::encode(hash)
        ))
        .await,
        0
    );
    // A wrong token is not repeated to anybody.
    let wrong = caller.post(path, "k7", json!({"access_token": 471_147_114_711_u64})).await;
    assert!(wrong.status == 422 && !wrong.body.contains("471147114711"), "{}", wrong.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_code_is_issued_for_a_player_who_may_be_unknown() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let caller = Caller::admin(&till).await;
    let path = "/apps/a1/login-codes";
    let issued = caller.post(path, "k1", json!({"open_id": "o1", "union_id": "u1"})).await;
    let code = issued.json()["js_code"].as_str().unwrap().to_owned();
    let expires_at = issued.json()["expires_at"].clone();
    assert_answer(&issued, 200, &json!({"app_id": "a1", "js_code": code, "expires_at": expires_at}));
    assert!(code.len() == 64 && code.bytes().all(|byte| byte.is_ascii_hexdigit()), "256 bits: {code}");
    assert_eq!(till.number("SELECT count(*) FROM wallets").await, 0, "the use registers the player");
    let login = format!("/oauth2/mp/code2session?app_id=a1&app_secret={}&js_code={code}", app.secret);
    let session = till.send(Request::get(&login)).await.json();
    assert_eq!((&session["open_id"], &session["union_id"]), (&json!("o1"), &json!("u1")));
    // A repeat has the first answer, whose code is used up.
    let again = caller.post(path, "k1", json!({"open_id": "o1", "union_id": "u1"})).await;
    assert_eq!(again.body, issued.body);
    assert_eq!(till.send(Request::get(&login)).await.code(), 100_200_103);
    let lines = log(&till).await;
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((line.action.as_str(), line.subject.as_str()), ("login_code.issue", "o1"));
    assert_eq!((&line.before, &line.after), (&None, &Some(json!({"union_id": "u1"}))));
    for (wrong, field) in [
        (json!({}), "open_id"),
        (json!({"open_id": ""}), "open_id"),
        (json!({"open_id": "o.1"}), "open_id"),
        (json!({"open_id": "o1", "union_id": "u 1"}), "union_id"),
    ] {
        let wrong = caller.post(path, "k2", wrong).await;
        assert_problem(&wrong, 422, "invalid-field", &format!("wrong: {field}"));
    }
    let unknown = caller.post("/apps/a9/login-codes", "k3", json!({"open_id": "o1"})).await;
    assert_problem(&unknown, 404, "not-found", "there is no app a9");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ref_credits_once_under_any_idempotency_key() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let caller = Caller::admin(&till).await;
    let path = "/apps/a1/wallets/o1/credits";
    let credit = json!({"free": 1, "charge": 2, "ref": "r1"});
    let unknown = caller.post(path, "k0", credit.clone()).await;
    let detail = "there is no player o1 of an app a1; a login makes a player known, and so do POST /apps/a1/users and \
                  a credit with \"create\": true";
    assert_problem(&unknown, 404, "not-found", detail);
    assert_eq!(till.number("SELECT count(*) FROM wallets").await, 0);
    let nothing = caller.post(path, "k0", json!({"free": 0, "ref": "r1", "create": true})).await;
    assert_problem(&nothing, 422, "invalid-field", "wrong: free, charge");
    let detail = "expected 1 or more in one of them, got 0";
    let errors = json!([{"field": "free", "detail": detail}, {"field": "charge", "detail": detail}]);
    assert_eq!(nothing.json()["errors"], errors);
    caller.post("/apps/a1/users", "k1", json!({"open_ids": ["o1"]})).await;
    caller.post(path, "k1b", credit.clone()).await;
    let again = caller.post(path, "k2", credit.clone()).await;
    assert_answer(
        &again,
        200,
        &json!({"ref": "r1", "free_balance": 1, "charge_balance": 2, "replayed": true}),
    );
    assert_eq!(again.header("idempotent-replayed"), None, "another request, which did nothing");
    let other = caller.post(path, "k3", json!({"free": 9, "ref": "r1"})).await;
    assert_problem(&other, 409, "conflict", "the ref r1 was used for another player or with other amounts");
    let much = caller.post(path, "k4", json!({"charge": i64::MAX, "ref": "r2"})).await;
    assert_problem(&much, 409, "conflict", "a balance would be more than 9223372036854775807");
    assert_eq!(till.purses(&app, "o1").await, (1, 2, 1));
    till.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_another_app_is_not_there() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.app("a2").await;
    till.player(&app, "o1", 1, 1).await;
    let caller = Caller::admin(&till).await;
    assert_eq!(caller.get("/apps/a1/wallets/o1").await.status, 200);
    let other = caller.get("/apps/a2/wallets/o1").await;
    assert_problem(
        &other,
        404,
        "not-found",
        "there is no player o1 of an app a2; a login makes a player known, and so do POST /apps/a2/users and a credit with \"create\": true",
    );
    let odd = caller.get("/apps/a%20b/wallets/o1").await;
    assert_problem(
        &odd,
        404,
        "not-found",
        "there is no such app: expected 1 to 64 of 0-9A-Za-z_- in the path",
    );
    let broken = caller.get("/apps/%ff").await;
    assert_problem(&broken, 400, "bad-request", "path: expected UTF-8 behind percent escapes");
}

/// Rule 8.7.2: no list of an app that is not there is empty, for a key of all apps as well. No poll waits for it. What
/// can be no id is a wrong field.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_an_app_that_is_not_there_is_refused() {
    let till = TestTill::start().await;
    let caller = Caller::admin(&till).await;
    till.app("a1").await;
    for list in ["orders", "exchanges", "refusals", "operator-log", "images", "events"] {
        let unknown = caller.get(&format!("/{list}?app_id=a9")).await;
        assert_problem(&unknown, 404, "not-found", "there is no app a9");
        assert_eq!(caller.get(&format!("/{list}?app_id=a1")).await.status, 200, "{list}");
        let wrong = caller.get(&format!("/{list}?app_id=a.9")).await;
        assert_eq!((wrong.status, &wrong.json()["errors"][0]["field"]), (422, &json!("app_id")), "{list}");
    }
    // A held poll would end with 200.
    let poll = caller.get("/events?app_id=a9&wait=30").await;
    assert_problem(&poll, 404, "not-found", "there is no app a9");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_apps_neither_skip_nor_repeat_while_apps_are_made() {
    let till = TestTill::start().await;
    for number in 0..7 {
        till.app(&format!("b{number}")).await;
    }
    let caller = Caller::admin(&till).await;
    let (mut seen, mut path) = (Vec::new(), "/apps?limit=3".to_owned());
    loop {
        let answer = caller.get(&path).await;
        let page = answer.json();
        seen.extend(
            page["items"].as_array().unwrap().iter().map(|app| app["app_id"].as_str().unwrap().to_owned()),
        );
        if seen.len() == 3 {
            till.app("a-before").await;
        }
        let Some(next) = page["next"].as_str() else {
            assert_eq!(answer.header("link"), None);
            break;
        };
        assert_eq!(
            answer.header("link"),
            Some(format!("</admin/v1/apps?limit=3&after={next}>; rel=\"next\"").as_str())
        );
        path = format!("/apps?limit=3&after={next}");
    }
    assert_eq!(seen, ["b0", "b1", "b2", "b3", "b4", "b5", "b6"]);
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=x", "limit"),
        ("after=%20", "after"),
        ("lmit=1", "lmit"),
    ] {
        let answer = caller.get(&format!("/apps?{query}")).await;
        assert_problem(&answer, 422, "invalid-field", &format!("wrong: {field}"));
    }
    assert_eq!(caller.get("/apps?limit=1&limit=2").await.status, 400);
    assert_eq!(caller.get("/apps?limit=200").await.json()["items"].as_array().unwrap().len(), 8);
}

/// Every item of a list, page by page.
async fn all_items(caller: &Caller<'_>, path: &str) -> Vec<Value> {
    let (mut items, mut after) = (Vec::new(), String::new());
    loop {
        let mark = if path.contains('?') { '&' } else { '?' };
        let answer = caller.get(&format!("{path}{mark}limit=2{after}")).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let page = answer.json();
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next"].as_str() else { return items };
        assert_eq!(page["items"].as_array().unwrap().len(), 2, "{path}");
        after = format!("&after={}", crate::support::encoded(next));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_list_is_read_to_its_end_page_by_page_and_holds_each_item_once() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let image = till.image(&app).await;
    for number in 1..=5 {
        till.player(&app, &format!("o{number}"), 1, 100).await;
    }
    for number in 1..=4 {
        assert_eq!(Game::new(&app, "o1", &format!("b{number}"), 5).send(&till).await.code(), 1);
        let report = json!({
            "out_biz_order_no": format!("order-{number}"), "out_order_no": format!("pay-00{number}"), "open_id": "o1",
            "order_create_time": 1_700_000_000_000_i64, "order_status": number, "order_path": crate::support::PAGE,
            "product_cover_img_id": image.as_str(),
        });
        let path = format!("/openapi/mp/developer/order/v1/report?app_id=a1&access_token={}", app.token);
        assert_eq!(till.send(Request::post(&path).body(report.to_string())).await.code(), 1);
    }
    let caller = Caller::new(&till, "dashboard", Role::Viewer).await;
    let told = |items: &[Value], name: &str| -> Vec<String> {
        items.iter().map(|item| item[name].to_string().trim_matches('"').to_owned()).collect()
    };
    let players = all_items(&caller, "/apps/a1/wallets?open_id=o").await;
    assert_eq!(told(&players, "open_id"), ["o1", "o2", "o3", "o4", "o5"]);
    let entries = all_items(&caller, "/apps/a1/wallets/o1/entries").await;
    assert_eq!(told(&entries, "seq"), ["5", "4", "3", "2", "1"]);
    assert_eq!(told(&entries, "biz_no")[0], "b4");
    let bought = all_items(&caller, "/apps/a1/wallets/o1/entries?kind=exchange&reference=b2").await;
    assert_eq!((told(&bought, "seq"), &bought[0]["charge_change"]), (vec!["3".to_owned()], &json!(-5)));
    let orders = all_items(&caller, "/orders?app_id=a1").await;
    assert_eq!(told(&orders, "out_biz_order_no"), ["order-4", "order-3", "order-2", "order-1"]);
    assert_eq!(told(&all_items(&caller, "/orders?status=2&number=pay-002").await, "open_id"), ["o1"]);
    assert_eq!(told(&all_items(&caller, "/images?app_id=a1").await, "img_id"), [image.as_str()]);
    assert_eq!(all_items(&caller, "/images?blocked=true").await.len(), 0);
    let lines = all_items(&caller, "/operator-log?app_id=a1").await;
    assert_eq!(lines.len(), 7, "{lines:?}");
    assert_eq!(
        (told(&lines, "action")[0].as_str(), told(&lines, "action")[6].as_str()),
        ("wallet.credit", "app.create")
    );
    for (path, detail) in [
        ("/apps/a2/wallets", "there is no app a2"),
        (
            "/apps/a1/wallets/o9/entries",
            "there is no player o9 of an app a1; a login makes a player known, and so do POST /apps/a1/users and a credit with \"create\": true",
        ),
        ("/apps/a1/exchanges/b9", "there is no exchange b9 of an app a1"),
        ("/apps/a2/exchanges/b1", "there is no exchange b1 of an app a2"),
        ("/apps/a1/orders/order-9", "there is no order order-9 of an app a1"),
        ("/apps/a2/orders/order-1", "there is no order order-1 of an app a2"),
    ] {
        assert_problem(&caller.get(path).await, 404, "not-found", detail);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_players_address_is_told_to_an_admins_key_alone() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    assert_eq!(Game::new(&app, "o1", "b1", 5).send(&till).await.code(), 1);
    let (viewer, admin) = (Caller::new(&till, "dashboard", Role::Viewer).await, Caller::admin(&till).await);
    let path = "/apps/a1/exchanges/b1";
    let seen = viewer.get(path).await;
    assert_eq!((seen.status, seen.json().get("user_ip")), (200, None));
    assert_eq!(admin.get(path).await.json()["user_ip"], "203.0.113.9");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_app_is_like_is_changed_in_part_and_a_suspension_has_its_reason() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let caller = Caller::admin(&till).await;
    let before = caller.get("/apps/a1").await.json();
    let changed =
        caller.send("PATCH", "/apps/a1", None, &json!({"sandbox": true, "scopes": [], "name": "New"})).await;
    let mut expected = before.clone();
    // What a change answers has no keys.
    expected.as_object_mut().unwrap().remove("keys");
    (expected["sandbox"], expected["scopes"], expected["name"]) = (json!(true), json!([]), json!("New"));
    assert_answer(&changed, 200, &expected);
    assert_answer(&caller.send("PATCH", "/apps/a1", None, &json!({})).await, 200, &expected);
    let scope = caller.send("PATCH", "/apps/a1", None, &json!({"scopes": ["all"]})).await;
    assert_problem(&scope, 422, "invalid-field", "wrong: scopes[0]");
    let both = json!({"scopes": ["epay"], "add_scopes": ["cancel"]});
    let both = caller.send("PATCH", "/apps/a1", None, &both).await;
    assert_problem(&both, 422, "invalid-field", "wrong: add_scopes");
    let steps = json!({"add_scopes": ["cancel", "present"], "remove_scopes": ["epay"]});
    let stepped = caller.send("PATCH", "/apps/a1", None, &steps).await;
    assert_eq!(stepped.json()["scopes"], json!(["present", "cancel"]));
    let reason = json!({"reason": "chargebacks"});
    assert_eq!(caller.send("PUT", "/apps/a1/suspension", None, &reason).await.status, 200);
    let lines = log(&till).await;
    let told: Vec<_> = lines.iter().map(|line| (line.action.as_str(), line.note.as_str())).collect();
    assert_eq!(told, [("app.change", ""), ("app.change", ""), ("app.suspend", "chargebacks")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_is_blocked_and_free_again() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let image = till.image(&app).await;
    let caller = Caller::admin(&till).await;
    let path = format!("/images/{image}");
    let shown = caller.get(&path).await.json();
    assert_eq!(
        (&shown["blocked"], &shown["blocked_by"], &shown["app_id"]),
        (&json!(false), &Value::Null, &json!("a1"))
    );
    let block = format!("{path}/block");
    for reason in ["gore", "worse"] {
        let answer = caller.send("PUT", &block, None, &json!({ "reason": reason })).await;
        let expected =
            json!({"picture": shown["picture"], "reason": reason, "images": 1, "finds_near_copies": true});
        assert_answer(&answer, 200, &expected);
    }
    assert_eq!(till.send(Request::get(&format!("/img/{image}"))).await.status, 404);
    let blocked = caller.get(&path).await.json();
    assert_eq!((&blocked["blocked"], &blocked["blocked_by"]["reason"]), (&json!(true), &json!("worse")));
    assert_answer(
        &caller.send("DELETE", &block, None, &json!({})).await,
        200,
        &json!({"picture": shown["picture"]}),
    );
    assert_eq!(till.send(Request::get(&format!("/img/{image}"))).await.status, 200);
    let free = caller.send("DELETE", &block, None, &json!({})).await;
    assert_problem(&free, 404, "not-found", &format!("there is no block on the image {image}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_check_names_the_mistake_and_never_the_signature() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let caller = Caller::admin(&till).await;
    let game = Game::new(&app, "o1", "b1", 5);
    let check = async |form: &str| {
        let body = json!({"app_id": "a1", "form": form});
        caller.send("POST", "/signature-checks", None, &body).await
    };
    let right = check(&game.body()).await;
    assert_eq!(
        (right.status, &right.json()["matches"], &right.json()["mistake"]),
        (200, &json!(true), &Value::Null)
    );
    let key = PayKey::new(app.secret.clone());
    let string = right.json()["string_to_sign"].as_str().unwrap().to_owned();
    let fields: Vec<(&str, &str)> = game.fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let wrong = check(&format!("{}&sign={}", form(&fields), key.sign(&string))).await.json();
    assert_eq!(wrong["mistake"], "the app secret was used as the key; sign with the pay key");
    let nonsense = check(&format!("{}&sign=00", form(&fields))).await;
    let expected = PayKey::new(app.pay_key.clone()).sign(&string);
    assert_eq!(nonsense.json()["matches"], false);
    for secret in [&expected, &app.pay_key, &app.secret, &app.token] {
        assert!(!nonsense.body.contains(secret.as_str()));
    }
    assert_eq!(log(&till).await.len(), 0);
    assert_eq!(till.number("SELECT count(*) FROM api_requests").await, 0);
}
