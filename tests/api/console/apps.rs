//! Apps in the console.

use domain::app::{AppLimits, Scope};
use domain::console_user::Role;
use domain::ids::AppId;
use domain::per_second::PerSecond;
use domain::quota::Quota;
use serde_json::{Value, json};
use store::OperatorLogFilter;

use super::accessible::faults;
use super::reading::{content, rows};
use crate::sales;
use crate::support::console::{ESCAPED, HOSTILE};
use crate::support::{AppKind, Request, TestTill};

/// The value of a hidden field of a page.
fn hidden<'a>(page: &'a str, name: &str) -> &'a str {
    let field = format!("name=\"{name}\" value=\"");
    page.split(&field).nth(1).and_then(|rest| rest.split('"').next()).unwrap()
}

/// What a page shows behind a heading of its list of secrets.
pub(super) fn secret<'a>(page: &'a str, name: &str) -> &'a str {
    let heading = format!("<dt>{name}</dt><dd><code>");
    page.split(&heading).nth(1).and_then(|rest| rest.split('<').next()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_is_made_with_its_keys_shown_once_and_its_name_as_text() {
    let till = TestTill::start().await;
    let admin = till.browser(Role::Admin).await;
    let fields = [
        ("app_id", "a1"),
        ("name", HOSTILE),
        ("category", "general"),
        ("scopes_epay", "yes"),
        ("sandbox", "yes"),
    ];
    let made = admin.post("/console/new-app", &fields).await;
    assert_eq!((made.status, made.header("cache-control")), (200, Some("no-store")));
    let (pay_key, app_secret) = (secret(&made.body, "Pay key"), secret(&made.body, "App secret"));
    assert!(pay_key.len() == 32 && app_secret.len() == 32 && pay_key != app_secret);
    let app = till.store.find_app(&AppId::parse("a1").unwrap()).await.unwrap().unwrap();
    assert_eq!(app.app_secrets[0].expose(), app_secret);
    let settings = &app.settings;
    assert!(settings.sandbox && !settings.preorder_check && settings.scopes == [Scope::Epay]);

    for path in ["/console/apps", "/console/apps/a1", "/console/apps?search=a1", "/console/log"] {
        let page = admin.get(path).await;
        assert_eq!(page.status, 200, "{path}");
        assert!(page.body.contains(ESCAPED) && !page.body.contains("<img src=x"), "{path}");
        assert!(!page.body.contains(pay_key) && !page.body.contains(app_secret), "{path}");
    }
    let again = admin.post("/console/new-app", &fields).await;
    assert!(again.status == 400 && again.body.contains("There is an app a1 already."), "{}", again.body);
    assert!(!again.body.contains(pay_key));
    assert!(admin.get("/console/apps?search=nothing").await.body.contains("No app matches"));
}

/// The page that shows a new key, sent again, neither shows it again nor makes another.
#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_shows_its_key_once_and_is_made_once() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let admin = till.browser(Role::Admin).await;
    for (path, name) in [("rotate-pay-key", "Pay key"), ("rotate-secret", "App secret")] {
        let path = format!("/console/apps/a1/{path}");
        let asked = admin.get(&path).await.body;
        let fields = [("seen", hidden(&asked, "seen")), ("reason", HOSTILE)];
        let made = admin.post(&path, &fields).await;
        assert_eq!((made.status, made.header("cache-control")), (200, Some("no-store")));
        let key = secret(&made.body, name);
        assert!(made.body.contains(&format!("href=\"{path}\">Rotate again</a>")), "{}", made.body);
        let again = admin.post(&path, &fields).await;
        assert!(again.status == 400 && again.body.contains("have changed since this form was shown"));
        assert!(!again.body.contains(key) && !admin.get("/console/apps/a1").await.body.contains(key));
        let line = till.store.operator_log(&OperatorLogFilter::default(), 1).await.unwrap().pop().unwrap();
        assert_eq!((line.note.as_str(), line.operator_kind.as_str()), (HOSTILE, "console"));
    }
    let found = till.store.app_detail(&app.id).await.unwrap().unwrap();
    assert_eq!(found.keys.iter().map(|key| key.generation).collect::<Vec<_>>(), [2, 1, 2, 1]);
    for (path, retired) in [("rotate-pay-key", "Pay key 1"), ("rotate-secret", "App secret 1")] {
        let page = admin.get(&format!("/console/apps/a1/{path}")).await.body;
        let told =
            format!("{retired} is retired within five seconds, and refused from then on. It was never used.");
        assert!(page.contains(&told), "{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_issues_a_login_code_that_is_shown_once_and_logs_its_player_in() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let (admin, viewer) = (till.browser(Role::Admin).await, till.browser(Role::Viewer).await);
    let path = "/console/apps/a1/login-codes";
    for (union_id, answered) in [("u1", json!("u1")), ("", Value::Null)] {
        let made = admin.post(path, &[("open_id", "o1"), ("union_id", union_id)]).await;
        assert_eq!((made.status, made.header("cache-control")), (200, Some("no-store")), "{}", made.body);
        let code = secret(&made.body, "Login code");
        let login = format!("/oauth2/mp/code2session?app_id=a1&app_secret={}&js_code={code}", app.secret);
        let session = till.send(Request::get(&login)).await.json();
        assert_eq!((&session["open_id"], &session["union_id"]), (&json!("o1"), &answered));
        assert!(!admin.get("/console/apps/a1").await.body.contains(code));
        assert!(!admin.get("/console/log").await.body.contains(code));
    }
    let lines = till.store.operator_log(&OperatorLogFilter::default(), 2).await.unwrap();
    for line in &lines {
        let known = (line.action.as_str(), line.subject.as_str(), line.operator_kind.as_str());
        assert_eq!(known, ("login_code.issue", "o1", "console"));
    }
    let refused = admin.post(path, &[("open_id", "o.1")]).await;
    assert!(refused.status == 400 && refused.body.contains("Player (open_id): expected"), "{}", refused.body);
    let nobodys = admin.post("/console/apps/a9/login-codes", &[("open_id", "o1")]).await;
    assert_eq!(nobodys.status, 404);
    assert_eq!(viewer.post(path, &[("open_id", "o1")]).await.status, 403);
    assert!(admin.get("/console/apps/a1").await.body.contains("login-codes"));
    assert!(!viewer.get("/console/apps/a1").await.body.contains("login-codes"));
    assert_eq!(till.number("SELECT count(*) FROM login_codes").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_changes_settings_limits_pages_and_what_is_registered() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let admin = till.browser(Role::Admin).await;
    let send = async |what: &str, fields: &[(&str, &str)]| {
        let path = format!("/console/apps/a1/{what}");
        let answer = admin.post(&path, fields).await;
        assert_eq!(answer.status, 303, "{what}: {}", answer.body);
        let back = admin.get(answer.header("location").unwrap()).await;
        assert!(back.status == 200 && back.body.contains("class=\"notice\""), "{what}");
    };
    let shown = ("shown", "scopes_epay sandbox preorder_check");
    send("settings", &[("name", "Game"), ("category", "local_life"), ("sandbox", "yes"), shown]).await;
    send(
        "limits",
        &[
            ("exchanges_per_second", "5"),
            ("reports_per_second", "0"),
            ("uploads_per_second", ""),
            ("tokens_per_second", "2000"),
            ("image_bytes_max", "107374182400"),
            ("images_max", "1000000"),
        ],
    )
    .await;
    send("packages", &[("version", HOSTILE), ("pages", "pages/a\r\n\r\n /pages/b?x=1 \n")]).await;
    send("pois", &[("poi_ids", "p1\np2")]).await;
    send("preorders", &[("out_order_nos", "order_1\norder_2")]).await;
    send("suspend", &[("reason", "an audit")]).await;

    let detail = till.store.app_detail(&app.id).await.unwrap().unwrap();
    let summary = &detail.summary;
    assert_eq!((summary.settings.name.as_str(), summary.settings.category.as_str()), ("Game", "local_life"));
    assert!(summary.settings.sandbox && summary.settings.scopes.is_empty() && summary.suspended);
    let limits = AppLimits {
        exchanges_per_second: PerSecond::new(5),
        reports_per_second: Some(PerSecond::UNLIMITED),
        tokens_per_second: PerSecond::new(2000),
        image_bytes_max: Quota::parse("107374182400").ok(),
        images_max: Quota::parse("1000000").ok(),
        ..AppLimits::default()
    };
    assert_eq!(summary.limits, limits);
    assert_eq!(summary.pages, ["pages/a", "pages/b"]);
    assert_eq!((detail.pois, detail.preorders), (2, 2));
    let page = admin.get("/console/apps/a1").await.body;
    for fact in ["Suspended", "5 a second", "no limit", "pages/b", "p2", ESCAPED] {
        assert!(page.contains(fact), "{fact}");
    }
    // Numbers for people have their units, and those of the form are as they are typed.
    for fact in [
        "2\u{202f}000 a second<",
        "title=\"107\u{202f}374\u{202f}182\u{202f}400 B\">100 GiB<",
        ">1\u{202f}000\u{202f}000<",
        "value=\"107374182400\"",
        ">Token requests per second</label>",
    ] {
        assert!(page.contains(fact), "{fact}: {page}");
    }
    assert!(!page.contains("<img src=x"));
    send("resume", &[("reason", "it is over")]).await;

    for (what, fields, fault) in [
        ("limits", [("exchanges_per_second", "-1"), ("a", "")], "Exchanges per second: expected"),
        ("packages", [("version", "1"), ("pages", " \n")], "Pages, one per line: expected 1 to 1000 lines"),
        ("pois", [("poi_ids", ""), ("a", "")], "IDs, one per line: expected 1 to 1000 lines"),
        ("preorders", [("out_order_nos", "order_1\n<b>"), ("a", "")], "&#34;&#60;b&#62;&#34;"),
        ("suspend", [("reason", ""), ("a", "")], "Reason: expected"),
    ] {
        let refused = admin.post(&format!("/console/apps/a1/{what}"), &fields).await;
        assert!(refused.status == 400 && refused.body.contains(fault), "{what}: {}", refused.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_is_not_there_is_not_found_and_a_viewer_sees_no_change() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let (admin, viewer) = (till.browser(Role::Admin).await, till.browser(Role::Viewer).await);
    for what in ["", "/suspend", "/resume", "/rotate-pay-key", "/rotate-secret"] {
        let none = admin.get(&format!("/console/apps/a9{what}")).await;
        assert_eq!((none.status, none.body.contains("Back to the form")), (404, false), "{what}");
    }
    let suspended = admin.post("/console/apps/a9/suspend", &[("reason", "r")]).await;
    assert_eq!((suspended.status, suspended.body.contains("Back to the form")), (404, true));
    let page = viewer.get("/console/apps/a1").await;
    assert_eq!(page.status, 200);
    // Reports are for whoever may read them.
    let (exchanges, reports) =
        ("href=\"/console/exchanges?app_id=a1\"", "href=\"/console/reports?app_id=a1\"");
    let of_admin = admin.get("/console/apps/a1").await.body;
    assert!(of_admin.contains(exchanges) && of_admin.contains(reports), "{of_admin}");
    assert!(page.body.contains(exchanges) && !page.body.contains(reports), "{}", page.body);
    for what in ["settings", "suspend", "rotate-pay-key", "packages", "limits"] {
        assert!(!page.body.contains(&format!("/console/apps/a1/{what}")), "{what}");
    }
    assert!(!viewer.get("/console/apps").await.body.contains("/console/new-app"));
    let refused = viewer.post("/console/apps/a1/suspend", &[("reason", "r")]).await;
    assert_eq!(refused.status, 403);
    assert!(!till.store.app_detail(&AppId::parse("a1").unwrap()).await.unwrap().unwrap().summary.suspended);
}

/// Rule 8.6.56: the list tells the coins and the refusals of today, with links, and the last exchange. Behind
/// 1,000 newer entries its hour is known.
#[tokio::test(flavor = "multi_thread")]
async fn the_list_tells_what_each_app_has_done_of_late() {
    let (till, _) = sales::till().await;
    till.execute(
        "INSERT INTO exchange_refusals VALUES
         ('a2', 'R1', 'o1', 10000601, 'exchange', '2027-01-15Z', '2027-01-15Z', 3, 'r1', 60, 'Sword', 5, 7),
         ('a2', 'R2', 'o1', 10000601, 'exchange', '2027-01-14Z', '2027-01-14 23:59:59Z', 9, 'r1', 60, 'Sword', 5, 7);
         UPDATE ledger_entries SET at = '2027-01-15T07:00Z' WHERE reference = 'B1' AND charge_change = -7",
    )
    .await;
    let viewer = till.browser(Role::Viewer).await;
    let listed = async || {
        let page = viewer.get("/console/apps").await;
        assert_eq!((page.status, faults(&page.body)), (200, Vec::new()));
        let mut apps = rows(&page.body).into_iter().map(|cells| cells[3..6].join(" "));
        (apps.next().unwrap(), apps.next().unwrap(), page.body)
    };
    let (quiet, busy, body) = listed().await;
    assert_eq!(quiet, "0 0 2026-10-20 18:20:00");
    assert_eq!(busy, "7 3 2027-01-15 07:00:00");
    let report = "href=\"/console/reports?app_id=a2&amp;period=today\">7</a>";
    let of_finance = till.browser(Role::Finance).await.get("/console/apps").await.body;
    assert!(of_finance.contains(report) && !body.contains("/console/reports?"), "{of_finance}");
    let link =
        body.split("<a href=\"/console/exchanges?kind=refused").nth(1).expect("a count leads to its list");
    let link = link.split('"').next().unwrap().replace("&#38;", "&");
    let refused = content(&viewer.get(&format!("/console/exchanges?kind=refused{link}")).await);
    assert!(refused.contains("R1 exchange insufficient balance") && !refused.contains("R2"), "{refused}");

    till.store.number_events(None).await.unwrap();
    till.store.roll_up_sales().await.unwrap();
    till.execute(
        "INSERT INTO ledger_entries (app_no, wallet_no, reference, kind, at, free_change, charge_change, free_balance,
             charge_balance)
         SELECT w.app_no, w.wallet_no, 'closed-' || n, 'closed', now(), 0, 0, 0, 0
         FROM players w CROSS JOIN generate_series(1, 1000) n WHERE w.app_id = 'a1' AND w.open_id = 'o1'",
    )
    .await;
    let (quiet, ..) = listed().await;
    assert_eq!(quiet, "0 0 2026-10-20 18:00:00");
}

/// Rule 4.4.12: a sandbox app without a package takes any path, and a live one none. The page says which.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_an_app_without_a_package_says_what_becomes_of_order_paths() {
    let till = TestTill::start().await;
    till.app_like("a1", AppKind { publishes: false, ..AppKind::default() }).await;
    till.app_like("a2", AppKind { publishes: false, sandbox: true, ..AppKind::default() }).await;
    let viewer = till.browser(Role::Viewer).await;
    for (app, words) in [("a1", "every order path is refused"), ("a2", "order paths are not checked")] {
        let page = viewer.get(&format!("/console/apps/{app}")).await;
        let told = format!("No version is published, so {words}.");
        assert!(content(&page).contains(&told), "{told}: {}", content(&page));
    }
}
