//! The operator's console. This file walks the table of its pages, so that a page that is added is held
//! to these rules without a word here.

mod accessible;
mod account;
mod app_calls;
mod apps;
mod exchange_list;
mod exchanges;
mod gifts;
mod health;
mod images;
mod keys;
mod language;
mod log;
mod look;
mod oidc;
mod orders;
mod overview;
mod personal_data;
mod players;
mod reading;
mod receivers;
mod reports;
mod requests;
mod search;
mod second_factor;
mod sign_in;
mod signature_check;
mod topups;
mod users;
mod wallet_changes;

use std::collections::BTreeSet;

use domain::console_user::Role;
use domain::rights::Need;
use minitill::operator::console::{Access, ConsoleRoute, routes};

use crate::support::console::ORIGIN;
use crate::support::{Answer, Request, TestTill, form};

/// A path of the route, of things that may be there or not.
fn path(route: &ConsoleRoute) -> String {
    let parts = route.path.split('/').map(|part| match part {
        "{app_id}" => "a1",
        "{open_id}" => "o1",
        part if part.starts_with('{') => "x1",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

fn posts() -> impl Iterator<Item = &'static ConsoleRoute> {
    routes().filter(|route| route.method == "POST")
}

/// What operators have changed, and which sessions there are.
async fn changes(till: &TestTill) -> (i64, i64) {
    let lines = till.number("SELECT count(*) FROM operator_log").await;
    (lines, till.number("SELECT count(*) FROM console_sessions").await)
}

/// Rule: nobody sees a page without a session, and what they send does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn no_page_is_shown_without_a_session() {
    const FOR_ANYONE: [&str; 8] = [
        "/console/icon.svg",
        "/console/keys.js",
        "/console/language",
        "/console/plots.js",
        "/console/sign-in",
        "/console/sign-in/callback",
        "/console/sign-in/provider",
        "/console/style.css",
    ];
    let till = TestTill::start().await;
    let before = changes(&till).await;
    for route in routes() {
        if route.access == Access::Anyone {
            assert!(FOR_ANYONE.contains(&route.path), "{}", route.path);
            continue;
        }
        let path = path(route);
        for cookie in ["", "minitill_console=", &format!("minitill_console={}", "0".repeat(64))] {
            let request = Request::new(route.method, &path).header("cookie", cookie).header("origin", ORIGIN);
            let answer = request.send(till.operator_address).await;
            if route.method == "GET" {
                assert_eq!(answer.status, 303, "{path}");
                assert!(answer.header("location").unwrap().starts_with("/console/sign-in"), "{path}");
            } else {
                assert_eq!(answer.status, 403, "{path}");
                assert!(answer.body.contains("Sign in first"), "{path}");
            }
        }
    }
    let elsewhere = Request::get("/console/none/such").send(till.operator_address).await;
    assert_eq!(elsewhere.header("location"), Some("/console/sign-in?next=%2Fconsole%2Fnone%2Fsuch"));
    assert_eq!(changes(&till).await, before);
}

/// Rule: wherever an app is asked for, every app is there to choose from.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_asks_for_an_app_offers_every_one() {
    const ASKING: [&str; 8] = [
        "/console/exchanges",
        "/console/images",
        "/console/log",
        "/console/orders",
        "/console/orders/center",
        "/console/players",
        "/console/signature-check",
        "/console/topups",
    ];
    let till = TestTill::start().await;
    till.app("a1").await;
    till.app("b2").await;
    let viewer = till.browser(Role::Viewer).await;
    let mut asking = BTreeSet::new();
    for route in routes().filter(|route| route.method == "GET" && route.access == Access::Needs(Need::Read)) {
        let page = viewer.get(&path(route)).await;
        if page.body.contains(r#"name="app_id""#) {
            let choices =
                r#"<datalist id="apps"><option value="a1"></option><option value="b2"></option></datalist>"#;
            assert!(page.body.contains(choices) && page.body.contains(r#"list="apps""#), "{}", route.path);
            asking.insert(route.path);
        }
    }
    assert_eq!(asking, ASKING.into());
}

/// Rule: a viewer can change nothing. What a viewer may send is listed here, and changes nothing but
/// their own session.
#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_can_change_nothing() {
    const FOR_VIEWERS: [&str; 5] = [
        "/console/sign-out",
        "/console/signature-check",
        "/console/account/password",
        "/console/account/second-factor",
        "/console/account/sessions/end",
    ];
    let till = TestTill::start().await;
    let viewer = till.browser(Role::Viewer).await;
    let before = changes(&till).await;
    for route in posts().filter(|route| route.access != Access::Anyone) {
        if route.access == Access::Needs(Need::Read) {
            assert!(FOR_VIEWERS.contains(&route.path), "{}", route.path);
            continue;
        }
        let answer = viewer.post(&path(route), &[]).await;
        assert_eq!(answer.status, 403, "{}", route.path);
        let title = match route.access.need() {
            Some(Need::Administer | Need::Money) => "Admins only",
            _ => "Not for your role",
        };
        assert!(answer.body.contains(title), "{}: {}", route.path, answer.body);
    }
    for route in routes().filter(|route| route.method == "GET") {
        let answer = viewer.get(&path(route)).await;
        let is_open = matches!(route.access.need(), None | Some(Need::Read));
        let expected: &[u16] = if is_open { &[200, 303, 400, 404] } else { &[403] };
        assert!(expected.contains(&answer.status), "{}: {}", route.path, answer.status);
    }
    assert_eq!(changes(&till).await, before);
}

/// Rule: a form that no page of this console sent does nothing, whoever's browser sends it.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_origin_does_nothing() {
    let till = TestTill::start().await;
    let admin = till.browser(Role::Admin).await;
    let csrf = admin.csrf_token().await;
    let before = changes(&till).await;
    let foreign: [&[(&str, &str)]; 7] = [
        &[],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("origin", "http://till.evil.example")],
        &[("origin", ORIGIN), ("sec-fetch-site", "cross-site")],
        &[("origin", ORIGIN), ("sec-fetch-site", "same-site")],
        &[("origin", ORIGIN), ("sec-fetch-site", "none")],
    ];
    for route in posts() {
        for headers in foreign {
            let fields = form(&[("csrf", &csrf), ("name", "alice"), ("password", "wrong")]);
            let request = Request::post(&path(route)).body(fields);
            let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
            let answer = admin.send(request).await;
            assert_eq!(answer.status, 403, "{} {headers:?}", route.path);
            assert!(answer.body.contains("Not from this console"), "{}", route.path);
        }
    }
    assert_eq!(changes(&till).await, before);
}

/// Rule: a form carries its session's own token, else it does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_without_its_sessions_token_does_nothing() {
    let till = TestTill::start().await;
    let (admin, other) = (till.browser(Role::Admin).await, till.browser(Role::Admin).await);
    let others_token = other.csrf_token().await;
    let before = changes(&till).await;
    for route in posts().filter(|route| route.access != Access::Anyone) {
        for fields in [String::new(), form(&[("csrf", "")]), form(&[("csrf", &others_token)])] {
            let request = Request::post(&path(route)).header("origin", ORIGIN).body(fields);
            let answer = admin.send(request).await;
            assert_eq!(answer.status, 403, "{}", route.path);
            assert!(answer.body.contains("Not from this console"), "{}: {}", route.path, answer.body);
        }
    }
    assert_eq!(changes(&till).await, before);
}

fn assert_secured(answer: &Answer, path: &str) {
    let header = |name: &str| answer.header(name).unwrap_or_else(|| panic!("{path} has no {name}"));
    let policy = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; \
                  form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
    assert_eq!(header("content-security-policy"), policy, "{path}");
    assert_eq!((header("x-content-type-options"), header("referrer-policy")), ("nosniff", "same-origin"));
}

/// A page without the elements of the console's scripts, whose addresses name their version.
fn without_scripts(page: &str) -> String {
    ["keys", "plots"].into_iter().fold(page.to_owned(), |page, name| without_script(&page, name))
}

fn without_script(page: &str, name: &str) -> String {
    let Some((before, rest)) = page.split_once(&format!("<script src=\"/console/{name}.js?")) else {
        return page.to_owned();
    };
    let (version, after) = rest.split_once("\" defer></script>").unwrap();
    assert!(version.len() == 16 && version.bytes().all(|byte| byte.is_ascii_hexdigit()), "{version}");
    format!("{before}{after}")
}

/// Rule: every page forbids scripts of its own, frames and whatever is not ours, and stays out of caches. Nothing in
/// it needs what is forbidden. The scripts are files.
#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_secured_and_has_no_script_and_no_style_of_its_own() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let admin = till.browser(Role::Admin).await;
    for route in routes().filter(|route| route.method == "GET") {
        let path = path(route);
        let answer = admin.get(&path).await;
        assert_secured(&answer, &path);
        if route.access == Access::Anyone && route.path.contains('.') {
            assert_eq!(answer.header("cache-control"), Some("public, max-age=31536000, immutable"));
            continue;
        }
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        if answer.header("content-type") != Some("text/html; charset=utf-8") {
            continue;
        }
        let body = without_scripts(&answer.body);
        for forbidden in
            ["<script", " style=", "<style", " on", "javascript:", "http://", "https://", "src=\"//"]
        {
            let found = body.match_indices(forbidden).any(|(at, _)| {
                // " on" is an attribute only where a word with "=" follows, inside a tag.
                let rest = &body[at + forbidden.len()..];
                forbidden != " on"
                    || rest
                        .find(|c: char| !c.is_ascii_lowercase())
                        .is_some_and(|end| end > 0 && rest[end..].starts_with('='))
            });
            assert!(!found, "{path} has {forbidden}");
        }
    }
    let refused = Request::post("/console/sign-in").send(till.operator_address).await;
    assert_secured(&refused, "a refusal");
    assert_eq!(refused.header("cache-control"), Some("no-store"));
}

/// Rule: the public listener serves none of it.
#[tokio::test(flavor = "multi_thread")]
async fn the_public_listener_has_no_console() {
    let till = TestTill::start().await;
    let admin = till.browser(Role::Admin).await;
    for route in routes() {
        let cookie = format!("minitill_console={}", admin.token);
        let request =
            Request::new(route.method, &path(route)).header("cookie", &cookie).header("origin", ORIGIN);
        let answer = till.send(request).await;
        assert_eq!((answer.status, answer.code()), (404, 10_000_200), "{}", route.path);
    }
}

/// The table is what the router has: each path once for a method, and no other method gets through.
#[tokio::test(flavor = "multi_thread")]
async fn the_table_says_what_each_path_takes() {
    let till = TestTill::start().await;
    let admin = till.browser(Role::Admin).await;
    let table: BTreeSet<(&str, &str)> = routes().map(|route| (route.path, route.method)).collect();
    assert_eq!(table.len(), routes().count());
    for route in routes() {
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            if table.contains(&(route.path, method)) {
                continue;
            }
            let answer = admin.send(Request::new(method, &path(route)).header("origin", ORIGIN)).await;
            assert_eq!(answer.status, 405, "{method} {}", route.path);
        }
    }
    let root = Request::get("/").send(till.operator_address).await;
    assert_eq!((root.status, root.header("location")), (303, Some("/console")));
    let nowhere = admin.get("/console/none/such").await;
    assert_eq!(nowhere.status, 404);
    assert!(nowhere.body.contains("There is no page at this address.") && nowhere.body.contains("Sign out"));
}

/// Rule: what a page looks like has an address of its own for each version, and is asked for once.
#[tokio::test(flavor = "multi_thread")]
async fn the_style_sheet_is_kept_by_browsers() {
    let till = TestTill::start().await;
    let page = Request::get("/console/sign-in").send(till.operator_address).await;
    let (_, rest) = page.body.split_once("href=\"/console/style.css?").unwrap();
    let address = format!("/console/style.css?{}", rest.split('"').next().unwrap());
    let style = Request::get(&address).send(till.operator_address).await;
    assert_eq!((style.status, style.header("content-type")), (200, Some("text/css; charset=utf-8")));
    let tag = style.header("etag").unwrap();
    let again = Request::get(&address).header("if-none-match", tag).send(till.operator_address).await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
}

/// Rule: a database that is away is told as a page, and readiness stays what it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_is_told_on_a_page() {
    let till = TestTill::start().await;
    let admin = till.browser(Role::Admin).await;
    till.store.close().await;
    let answer = admin.get("/console").await;
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("The database or the picture store does not answer."));
}
