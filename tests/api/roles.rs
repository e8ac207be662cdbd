//! Roles by app (contract 8.6.36 to 8.6.39): a walk of role by route by app over both route tables. The tables of
//! this file say what each route is expected to need, apart from the code. A route that is missing here fails.

mod give_back;
mod one_admin;
mod second_person;
mod table;

use std::collections::BTreeSet;

use domain::console_user::Role;
use domain::ids::{OpenId, WebUrl};
use domain::operation::receiver::{NewReceiver, ReceiverCommand, ReceiverReport};
use domain::operation::wallet::{CreditCells, CreditsForAll};
use domain::receiver::ReceiverFormat;
use domain::rights::{Apps, Rights};
use minitill::operator::{admin, console};
use serde_json::{Map, json};
use store::CreditsSource;
use tokio::task::JoinSet;

use self::table::{ADMIN, CONSOLE, Line, lines};
use crate::admin::Caller;
use crate::game::Game;
use crate::support::console::Browser;
use crate::support::{Answer, TestApp, TestTill, operator};

/// The rights of each role, as the contract has them.
const ROLES: [(Role, &str); 6] = [
    (Role::Viewer, "Read"),
    (Role::Support, "Read GiveBack"),
    (Role::Finance, "Read Reports"),
    (Role::Payments, "Read Payments"),
    (Role::Developer, "Read Develop"),
    (Role::Admin, "Read GiveBack Money Reports Payments Develop Administer"),
];

/// What is in every text about the app that the users of this walk do not see.
const MARK: &str = "Hidden";
const OWN: &str = "OwnApp";
const OTHER: &str = "HiddenApp";
/// An app that is not there, as long as the other.
const NONE: &str = "AbsentApp";

fn may(role: Role, need: &str) -> bool {
    let (_, needs) = ROLES.into_iter().find(|(known, _)| *known == role).unwrap();
    needs.split(' ').any(|known| known == need)
}

/// Walks with every role at once: each has a till of its own, and one after the other they take a minute.
async fn for_each_role<F: Future<Output = ()> + Send + 'static>(walk: fn(Role) -> F) {
    let mut walks: JoinSet<()> = ROLES.into_iter().map(|(role, _)| walk(role)).collect();
    while let Some(walked) = walks.join_next().await {
        walked.unwrap();
    }
}

/// An app with one of each thing, each named after a word.
struct Scene {
    app: TestApp,
    word: &'static str,
    img_id: String,
    receiver_id: String,
    gift: String,
    /// The line of the log with its many credits.
    seq: i64,
}

impl Scene {
    async fn new(till: &TestTill, app_id: &str, word: &'static str) -> Self {
        let app = till.app(app_id).await;
        let player = format!("{word}Player");
        till.player(&app, &player, 100, 5000).await;
        let game = Game::new(&app, &player, &format!("{word}Biz1"), 1550);
        let game = game.with("product_name", format!("{word}Sword")).with("zone_id", format!("{word}Z_1"));
        assert_eq!(game.send(till).await.code(), 1);
        let img_id = till.image(&app).await.to_string();
        till.execute(&format!(
            "INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
                    order_path, product_cover_img_id, event_count)
             VALUES ('{app_id}', '{word}_order', '{word}_payment', '{player}', 1700000000000, 2, 'pages/{word}',
                 '{img_id}', 1);
             INSERT INTO order_payments (app_id, out_order_no, out_biz_order_no)
             VALUES ('{app_id}', '{word}_payment', '{word}_order');
             INSERT INTO order_events (app_id, out_biz_order_no, seq, order_status, report)
             SELECT app_id, out_biz_order_no, 1, order_status, to_jsonb(orders) FROM orders WHERE app_id = '{app_id}';
             INSERT INTO console_requests
                    (app_id, ref, kind, open_id, free, charge, create_wallet, reason, asked_by, state, ended_by, ended_at)
             VALUES ('{app_id}', '{word}Waiting', 'credit', '{player}', 5, 0, false, '{word}', '{word}Asker', 'waiting',
                     NULL, NULL),
                 ('{app_id}', '{word}Ended', 'credit', '{player}', 5, 0, false, '{word}', '{word}Asker', 'refused', 'bob',
                     now())"
        ))
        .await;
        let (gift, seq) = many(till, &app, word).await;
        let (url, format) =
            (WebUrl::parse(&format!("https://{word}.example/1")).unwrap(), ReceiverFormat::Standard);
        let command = ReceiverCommand::Add(NewReceiver { url, events: Vec::new(), format });
        let receiver_id =
            match till.store.change_receivers(&operator(), &app.id, command, None).await.unwrap() {
                ReceiverReport::Added(added) => added.receiver.receiver_id.to_string(),
                other => panic!("no receiver is added: {other:?}"),
            };
        crate::topups::keep_unmatched(till, &app, "seen", &format!("{word}Payment")).await;
        Self { app, word, img_id, receiver_id, gift, seq }
    }

    /// The path of a route, of what this app has.
    fn path(&self, path: &str) -> String {
        let word = self.word;
        let parts = path.split('/').map(|part| {
            let (name, rest) = part.split_once('}').map_or((part, ""), |(name, rest)| (name, rest));
            match name {
                "{app_id" => format!("{}{rest}", self.app.id),
                "{open_id" => format!("{word}Player{rest}"),
                "{biz_no" => format!("{word}Biz1{rest}"),
                "{out_biz_order_no" => format!("{word}_order{rest}"),
                "{img_id" => format!("{}{rest}", self.img_id),
                "{receiver_id" => format!("{}{rest}", self.receiver_id),
                "{gift" => format!("{}{rest}", self.gift),
                "{seq" => format!("{}{rest}", self.seq),
                "{provider" => "seen".to_owned(),
                "{provider_order_id" => format!("{word}Payment"),
                "{name" => "alice".to_owned(),
                _ => part.to_owned(),
            }
        });
        parts.collect::<Vec<_>>().join("/")
    }
}

/// A gift that nobody has started, and many credits of one call: the number of their line.
async fn many(till: &TestTill, app: &TestApp, word: &str) -> (String, i64) {
    let for_all = CreditsForAll {
        free: Some(1),
        ref_prefix: Some(format!("{word}Gift")),
        note: word.to_owned(),
        ..CreditsForAll::default()
    };
    let list = format!("{word}Player");
    let gift = till.store.draft_gift(&app.id, &for_all, list.as_bytes()).await.unwrap().unwrap();
    let cells = CreditCells { open_id: OpenId::parse(&list).ok(), ..CreditCells::default() };
    let source = CreditsSource { subject: word.to_owned(), facts: Map::new(), note: word.to_owned() };
    let credits = vec![for_all.credit(cells).unwrap()];
    till.store.credit_many(&operator(), &app.id, source, credits).await.unwrap().remove(0).unwrap();
    let seq =
        format!("SELECT seq FROM operator_log WHERE action = 'wallet.credits' AND app_id = '{}'", app.id);
    (gift.name.to_string(), till.number(&seq).await)
}

async fn scenes(till: &TestTill) -> (Scene, Scene) {
    (Scene::new(till, OWN, "Seen").await, Scene::new(till, OTHER, MARK).await)
}

fn of_own_app(role: Role) -> Rights {
    Rights { role, apps: Apps::parse(OWN).unwrap() }
}

/// What was done in an app: lines of the log, ledger entries, receivers, and whether it works.
async fn traces(till: &TestTill, app_id: &str) -> i64 {
    till.number(&format!(
        "SELECT (SELECT count(*) FROM operator_log WHERE app_id = '{app_id}')
              + (SELECT count(*) FROM ledger_entries JOIN apps USING (app_no) WHERE app_id = '{app_id}')
              + (SELECT count(*) FROM receivers WHERE app_id = '{app_id}')
              + (SELECT count(*) FROM access_tokens WHERE app_id = '{app_id}')
              + (SELECT count(*) FROM console_requests WHERE app_id = '{app_id}' AND state = 'waiting')"
    ))
    .await
}

#[track_caller]
fn assert_hides(answer: &Answer, asked: &str, of: &str) {
    // What was asked stands in the answer as it came.
    let told = answer.body.replace(asked, "");
    assert!(!told.contains(MARK), "{of}: {told}");
}

/// An answer without what differs between two requests.
fn told(answer: &Answer, asked: &[(&str, &str)]) -> (u16, String) {
    let mut body = answer.body.clone();
    for (name, instead) in asked {
        body = body.replace(name, instead);
    }
    if let Some((before, rest)) = body.split_once("\"instance\":\"") {
        body = format!("{before}{}", rest.split_once('"').map_or("", |(_, rest)| rest));
    }
    (answer.status, body)
}

/// Every route of both tables stands in the tables of this file, with the need and the reach that it has.
#[test]
fn every_route_is_judged_here() {
    let named = |lines: &[Line]| -> BTreeSet<String> {
        lines
            .iter()
            .map(|line| format!("{} {} {} {}", line.method, line.path, line.need, line.reach))
            .collect()
    };
    let of_console = console::routes().map(|route| {
        let need = route.access.need().map_or("Anyone".to_owned(), |need| format!("{need:?}"));
        format!("{} {} {need} {:?}", route.method, route.path, route.reach())
    });
    assert_eq!(of_console.collect::<BTreeSet<_>>(), named(&lines(CONSOLE)));
    let of_admin = admin::ROUTES.iter().map(|route| {
        let path = route.path.strip_prefix("/admin/v1").unwrap();
        format!("{} {path} {:?} {:?}", route.method, route.need, route.reach())
    });
    assert_eq!(of_admin.collect::<BTreeSet<_>>(), named(&lines(ADMIN)));
}

/// Sends a request of the console: a page, or a form without fields.
async fn ask(browser: &Browser<'_>, line: &Line, path: &str) -> Answer {
    if line.method == "GET" { browser.get(path).await } else { browser.post(path, &[]).await }
}

fn is_refused_for_role(answer: &Answer) -> bool {
    answer.status == 403
        && (answer.body.contains("Your role does not allow this.")
            || answer.body.contains("which may not make this call"))
}

/// For a user of the own app the other app is answered as one that is not there, and lists have nothing of it.
async fn assert_other_app_is_absent(
    browser: &Browser<'_>,
    line: &Line,
    (path, other): (&str, &Scene),
    of: &str,
) {
    if line.reach == "OneApp" {
        let path = other.path(line.path);
        let answer = ask(browser, line, &path).await;
        assert_eq!(answer.status, 404, "{of}");
        let absent = ask(browser, line, &path.replace(OTHER, NONE)).await;
        assert_eq!(told(&answer, &[(OTHER, NONE)]), told(&absent, &[]), "{of}");
        assert!(answer.body.contains(&format!("There is no app {OTHER}.")), "{of}: {}", answer.body);
    }
    if line.reach == "OwnApps" && line.method == "GET" {
        let wanted = format!("{path}?app_id={OTHER}&open_id=HiddenPlayer&number=HiddenBiz1");
        let answer = browser.get(&wanted).await;
        assert_eq!(answer.status, 404, "{of}: {}", answer.body);
        let absent = browser.get(&wanted.replace(OTHER, NONE)).await;
        assert_eq!(told(&answer, &[(OTHER, NONE)]), told(&absent, &[]), "{of}");
        for asked in ["HiddenPlayer", "Hidden", "HiddenBiz1", "Hidden_order", "Hidden_payment", OTHER] {
            for field in ["q", "open_id", "number", "subject", "search"] {
                let answer = browser.get(&format!("{path}?{field}={asked}")).await;
                assert!([200, 400].contains(&answer.status), "{of} {field}: {}", answer.status);
                assert_hides(&answer, asked, &format!("{of} {field}={asked}"));
            }
        }
    }
}

/// Ways to the other app that no route names: its image, and the check of a signature.
async fn assert_other_ways_are_closed(till: &TestTill, browser: &Browser<'_>, own: &Scene, other: &Scene) {
    let image = format!("/console/images/{}", other.img_id);
    assert_eq!(browser.get(&image).await.status, 404);
    assert_eq!(browser.get(&format!("{image}/picture?w=120")).await.status, 404);
    for asked in ["/console/search?q=", "/console/images?picture="] {
        let answer = browser.get(&format!("{asked}{}", other.img_id)).await;
        assert!(answer.status == 200 && !answer.body.contains(OTHER), "{asked}: {}", answer.body);
    }
    for chosen in [OTHER, ""] {
        let request = Game::new(&other.app, "HiddenPlayer", "HiddenBiz1", 5).body();
        let fields = [("app_id", chosen), ("request", request.as_str())];
        let answer = browser.post("/console/signature-check", &fields).await;
        assert!(answer.status == 404 || answer.body.contains("There is no such app"), "{}", answer.body);
    }
    // No key of another app is tried. Who has all apps is told of it.
    let body = Game::new(&own.app, "SeenPlayer", "SeenBiz9", 5).keyed(&other.app.pay_key).body();
    let fields = [("app_id", OWN), ("request", body.as_str())];
    assert_hides(&browser.post("/console/signature-check", &fields).await, "", "a key of another app");
    let answer = till.browser(Role::Viewer).await.post("/console/signature-check", &fields).await;
    assert!(answer.body.contains(OTHER), "{}", answer.body);
}

/// The walk over the console.
#[tokio::test(flavor = "multi_thread")]
async fn the_console_shows_a_user_what_role_and_apps_allow_and_nothing_else() {
    for_each_role(walk_the_console).await;
}

async fn walk_the_console(role: Role) {
    // What another role changes does not matter.
    let till = TestTill::start().await;
    let (own, other) = scenes(&till).await;
    let before = traces(&till, OTHER).await;
    let browser = till.browser_of(of_own_app(role)).await;
    let whole = till.browser(role).await;
    for line in lines(CONSOLE).iter().filter(|line| line.need != "Anyone") {
        // It ends the session, as it should.
        if line.path == "/console/sign-out" {
            continue;
        }
        let (path, of) = (own.path(line.path), format!("{role} {} {}", line.method, line.path));
        let answer = ask(&browser, line, &path).await;
        assert_hides(&answer, "", &of);
        let is_overview = line.path == "/console";
        match (may(role, line.need), line.reach) {
            (false, _) => {
                assert!(is_refused_for_role(&answer), "{of}: {} {}", answer.status, answer.body);
            }
            (true, "AllApps") if is_overview => {
                assert_eq!((answer.status, answer.header("location")), (303, Some("/console/apps")));
            }
            (true, "AllApps") => {
                assert!(
                    answer.status == 403 && answer.body.contains("All apps only"),
                    "{of}: {}",
                    answer.body
                );
            }
            (true, _) => {
                assert!(
                    [200, 303, 400, 404].contains(&answer.status),
                    "{of}: {} {}",
                    answer.status,
                    answer.body
                );
                // Files of reports need the app in the query, and a request its ref.
                let needs_more = line.path.starts_with("/console/reports/")
                    || ["/picture", "/request"].iter().any(|end| line.path.ends_with(end));
                if line.method == "GET" && !needs_more {
                    assert_eq!(answer.status, 200, "{of}: {}", answer.body);
                }
            }
        }
        // The same role for all apps is not stopped by the apps.
        if line.method == "GET" {
            let answer = ask(&whole, line, &path).await;
            assert_eq!(is_refused_for_role(&answer), !may(role, line.need), "{of}: {}", answer.status);
            assert!(!answer.body.contains("All apps only"), "{of}");
        }
        if !may(role, line.need) {
            continue;
        }
        assert_other_app_is_absent(&browser, line, (&path, &other), &of).await;
    }
    for line in lines(CONSOLE).iter().filter(|line| line.path.contains("/reports")) {
        let answer = browser.get(&format!("{}?app_id={OTHER}&month=2020-01", line.path)).await;
        let expected = if may(role, line.need) { 404 } else { 403 };
        assert_eq!(answer.status, expected, "{role} {}: {}", line.path, answer.body);
    }
    assert_other_ways_are_closed(&till, &browser, &own, &other).await;
    assert_eq!(traces(&till, OTHER).await, before);
}

/// For a key of the own app the other app is answered as one that is not there, in the path and as a field.
async fn assert_other_app_is_none(
    caller: &Caller<'_>,
    line: &Line,
    (path, other): (&str, &Scene),
    once: &str,
) {
    let asked = async |app_id: &str| match (line.reach, line.method) {
        ("OwnApps", "GET") => caller.get(&format!("{path}?app_id={app_id}")).await,
        // Its body is a file.
        ("OwnApps", _) if line.path == "/reports/reconcile" => {
            caller.send(line.method, &format!("{path}?app_id={app_id}"), None, &json!({})).await
        }
        ("OwnApps", _) => {
            caller.send(line.method, path, None, &json!({ "app_id": app_id, "form": "a=b" })).await
        }
        _ => {
            let path = other.path(line.path).replace(OTHER, app_id);
            caller.send(line.method, &path, Some(once), &json!({})).await
        }
    };
    if line.reach != "AllApps" {
        let (answer, absent) = (asked(OTHER).await, asked(NONE).await);
        assert_eq!(answer.status, 404, "{} {}: {}", line.method, line.path, answer.body);
        assert!(answer.body.contains(&format!("no app {OTHER}")), "{}: {}", line.path, answer.body);
        assert_eq!(told(&answer, &[(OTHER, NONE)]), told(&absent, &[]), "{} {}", line.method, line.path);
    }
}

/// The walk over the admin API.
#[tokio::test(flavor = "multi_thread")]
async fn the_admin_api_gives_a_key_what_role_and_apps_allow_and_nothing_else() {
    for_each_role(walk_the_admin_api).await;
}

async fn walk_the_admin_api(role: Role) {
    // What another role changes does not matter.
    let till = TestTill::start().await;
    let (own, other) = scenes(&till).await;
    let before = traces(&till, OTHER).await;
    let caller = Caller::of(&till, role.as_str(), of_own_app(role)).await;
    let whole = Caller::new(&till, &format!("{role}-of-all"), role).await;
    for (number, line) in lines(ADMIN).iter().enumerate() {
        let of = format!("{role} {} {}", line.method, line.path);
        let once = format!("{role}-{number}");
        let send = async |caller: &Caller<'_>, path: &str| {
            caller.send(line.method, path, Some(&once), &json!({})).await
        };
        let path = own.path(line.path);
        let answer = send(&caller, &path).await;
        assert_hides(&answer, "", &of);
        match (may(role, line.need), line.reach) {
            (false, _) => assert!(is_refused_for_role(&answer), "{of}: {}", answer.body),
            (true, "AllApps") => {
                assert_eq!(answer.status, 403, "{of}: {}", answer.body);
                assert!(answer.body.contains("is for some apps"), "{of}: {}", answer.body);
            }
            (true, _) => {
                assert!([200, 404, 409, 415, 422].contains(&answer.status), "{of}: {}", answer.body);
                if line.method == "GET" && line.need == "Read" {
                    // The payment of the scene is unmatched, so none of it can be used.
                    let status = if line.path.ends_with("/consumption") { 409 } else { 200 };
                    assert_eq!(answer.status, status, "{of}: {}", answer.body);
                }
            }
        }
        if line.method == "GET" {
            let answer = send(&whole, &path).await;
            assert_eq!(is_refused_for_role(&answer), !may(role, line.need), "{of}: {}", answer.body);
        }
        if !may(role, line.need) {
            continue;
        }
        assert_other_app_is_none(&caller, line, (&path, &other), &once).await;
    }
    let image = caller.get(&format!("/images/{}", other.img_id)).await;
    assert_eq!(image.status, 404, "{role}");
    assert_eq!(traces(&till, OTHER).await, before);
}

/// Lists of somebody with some apps have what is theirs, so the walk above does not pass because they are empty.
#[tokio::test(flavor = "multi_thread")]
async fn lists_have_all_that_is_of_ones_own_apps() {
    let till = TestTill::start().await;
    let (own, _) = scenes(&till).await;
    let caller = Caller::of(&till, "viewer", of_own_app(Role::Viewer)).await;
    let whole = Caller::new(&till, "of-all", Role::Viewer).await;
    for list in ["/apps", "/exchanges", "/orders", "/images", "/events?wait=5", "/operator-log"] {
        let answer = caller.get(list).await;
        assert!(answer.status == 200 && answer.body.contains(OWN), "{list}: {}", answer.body);
        let whole = whole.get(list).await;
        assert!(whole.body.contains(OWN) && whole.body.contains(OTHER), "{list}: {}", whole.body);
    }
    let browser = till.browser_of(of_own_app(Role::Viewer)).await;
    for (page, what) in [
        ("/console/apps", OWN),
        ("/console/players?open_id=SeenPlayer", "/players/SeenPlayer"),
        ("/console/orders", "Seen_order"),
        ("/console/images", own.img_id.as_str()),
        ("/console/log", OWN),
        ("/console/search?q=Seen", "SeenPlayer"),
        ("/console/requests", "SeenWaiting"),
        ("/console/requests", "SeenEnded"),
        ("/console/requests", "Requests <span class=\"tag wait\">1</span>"),
    ] {
        let answer = browser.get(page).await;
        // A single hit leads to its page.
        let told = answer.header("location").unwrap_or(&answer.body);
        assert!(told.contains(what), "{page}: {} {}", answer.status, answer.body);
    }
    // The navigation leads nowhere that is refused.
    let page = browser.get("/console/apps").await.body;
    for (section, is_there) in [("log", true), ("orders", true), ("users", false), ("api-keys", false)] {
        assert_eq!(page.contains(&format!("href=\"/console/{section}\"")), is_there, "{section}");
    }
}
