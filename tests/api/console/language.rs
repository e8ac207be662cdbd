//! The console in two languages and in a time zone (contract 14).

use std::collections::BTreeSet;

use domain::console_user::Role;
use domain::ids::WebUrl;
use domain::operation::receiver::{NewReceiver, ReceiverCommand, ReceiverReport};
use domain::receiver::ReceiverFormat;
use minitill::http::language::catalogue;
use minitill::operator::console::routes;

use super::accessible::faults;
use super::reading::{content, text};
use crate::game::Game;
use crate::support::console::{Browser, ORIGIN};
use crate::support::{Answer, Request, TestApp, TestTill, form, operator};

/// Addresses that find something, nothing, or cannot be used.
const ADDRESSES: [&str; 29] = [
    "/console/none/such",
    "/console/exchanges?number=nothing",
    "/console/exchanges?kind=cancel&app_id=a1",
    "/console/exchanges?app_id=a1&rows=7&zone=a_b&from=2026-10-02&to=2026-10-01&period=soon",
    "/console/exchanges?app_id=a1&kind=exchange",
    "/console/reports?app_id=a1&from=2026-01-01",
    "/console/reports?app_id=a1&period=last_month",
    "/console/reports/statement?app_id=a1&month=2026-03",
    "/console/reports/statement?app_id=a1&day=2999-01-01",
    "/console/reports/statement?app_id=a1&month=x",
    "/console/reports/reconcile?app_id=a1&month=2026-03&day=soon",
    "/console/search?q=nothing",
    "/console/search?q=o1",
    "/console/orders?status=7&from=soon&open_id=%2A",
    "/console/orders?status=1",
    "/console/orders/center?app_id=a1&open_id=o1",
    "/console/players?app_id=a1",
    "/console/players?open_id=nobody&app_id=a1",
    "/console/images?app_id=a1",
    "/console/images?state=gone",
    "/console/log?app_id=a1",
    "/console/apps/a1?done=change",
    "/console/apps/a1/players/o1?kind=debit",
    "/console/apps/a1/players/o1?kind=gift",
    "/console/account?done=password",
    "/console/apps/a1/request?ref=w-1",
    "/console/apps/a1/request?ref=c-1",
    "/console/apps/a1/request?ref=f-1",
    "/console/apps/a1/request?ref=e-1",
];

/// What the pages of a till show: an app with a player, a ledger, an order, an image and a receiver.
struct Scene {
    till: TestTill,
    img_id: String,
    receiver_id: String,
}

impl Scene {
    async fn new(zone: &str) -> Self {
        let zone = zone.parse().unwrap();
        let till = TestTill::start_with(|config| {
            config.console.time_zone = zone;
            config.console.second_person_above = 1000;
        })
        .await;
        let app = till.app("a1").await;
        till.player(&app, "o1", 100, 1500).await;
        assert_eq!(Game::new(&app, "o1", "B1", 1550).send(&till).await.code(), 1);
        let short = Game::new(&app, "o1", "B2", 9999);
        assert_eq!(short.send(&till).await.code(), 10_000_601);
        till.store.write_refusals().await.unwrap();
        let img_id = till.image(&app).await.to_string();
        till.execute(&format!(
            "INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
                    order_path, product_cover_img_id, event_count)
             VALUES ('a1', 'order_1', 'payment_1', 'o1', 1700000000000, 14, 'pages/a', '{img_id}', 1);
             INSERT INTO order_payments (app_id, out_order_no, out_biz_order_no) VALUES ('a1', 'payment_1', 'order_1');
             INSERT INTO order_events (app_id, out_biz_order_no, seq, order_status, report)
             SELECT app_id, out_biz_order_no, 1, order_status, to_jsonb(orders) FROM orders;
             INSERT INTO console_requests (app_id, ref, kind, open_id, free, charge, create_wallet, of_biz_no, amount,
                    reason, asked_by, asked_at, state, ended_by, ended_at)
             VALUES ('a1', 'w-1', 'credit', 'o1', 2000, 0, false, NULL, NULL, '-', 'ann', now(), 'waiting', NULL, NULL),
                 ('a1', 'c-1', 'debit', 'o1', 0, 2000, false, NULL, NULL, '-', 'ann', now(), 'confirmed', 'bob', now()),
                 ('a1', 'f-1', 'cancel', 'o1', 0, 0, false, 'B1', 2000, '-', 'ann', now(), 'refused', 'bob', now()),
                 ('a1', 'e-1', 'credit', 'o1', 2000, 0, false, NULL, NULL, '-', 'ann', now() - interval '8 days',
                     'waiting', NULL, NULL)"
        ))
        .await;
        let receiver_id = receiver(&till, &app).await;
        Self { till, img_id, receiver_id }
    }

    fn path(&self, path: &str) -> String {
        let parts = path.split('/').map(|part| match part {
            "{app_id}" => "a1",
            "{open_id}" => "o1",
            "{biz_no}" => "B1",
            "{out_biz_order_no}" => "order_1",
            "{img_id}" => &self.img_id,
            "{receiver_id}" => &self.receiver_id,
            "{name}" => "alice",
            part => part,
        });
        parts.collect::<Vec<_>>().join("/")
    }
}

async fn receiver(till: &TestTill, app: &TestApp) -> String {
    let (url, format) = (WebUrl::parse("https://game.example/1").unwrap(), ReceiverFormat::Standard);
    let command = ReceiverCommand::Add(NewReceiver { url, events: Vec::new(), format });
    match till.store.change_receivers(&operator(), &app.id, command, None).await.unwrap() {
        ReceiverReport::Added(added) => added.receiver.receiver_id.to_string(),
        other => panic!("no receiver is added: {other:?}"),
    }
}

fn spoken(language: &str) -> String {
    if language == "zh" { "zh-CN,zh;q=0.9,en;q=0.8".to_owned() } else { "en".to_owned() }
}

async fn get(browser: &Browser<'_>, language: &str, path: &str) -> Answer {
    browser.send(Request::get(path).header("accept-language", &spoken(language))).await
}

async fn post(browser: &Browser<'_>, language: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
    let csrf = browser.csrf_token().await;
    let fields: Vec<_> = [("csrf", csrf.as_str())].into_iter().chain(fields.iter().copied()).collect();
    let request = Request::post(path).header("origin", ORIGIN).header("accept-language", &spoken(language));
    browser.send(request.body(form(&fields))).await
}

/// Files of others that tie, differ in each way, or cannot be compared.
const FILES: [&str; 5] = [
    "biz_no\nB1\n",
    "biz_no,charge_change,shop\nB1,-7,x\nB1,-7,x\nB9,1,x\n,5,x\n",
    "order\nB1\n",
    "biz_no,kind,kind\nB1,x,x\n",
    "biz_no,kind\nB1\n",
];

async fn send_file(browser: &Browser<'_>, language: &str, file: &str) -> Answer {
    let csrf = browser.csrf_token().await;
    let parts = [
        ("content-disposition: form-data; name=\"csrf\"", csrf.as_bytes()),
        ("content-disposition: form-data; name=\"app_id\"", b"a1"),
        ("content-disposition: form-data; name=\"file\"; filename=\"a.csv\"", file.as_bytes()),
    ];
    let request = Request::post("/console/reports/reconcile").header("origin", ORIGIN);
    browser.send(request.header("accept-language", &spoken(language)).multipart(&parts)).await
}

/// Every page, and the answers of some forms, each with where it came from.
async fn every_page(scene: &Scene, language: &str) -> Vec<(String, String)> {
    let till = &scene.till;
    let (admin, viewer) = (till.browser(Role::Admin).await, till.browser(Role::Viewer).await);
    let mut pages = Vec::new();
    let mut note = |from: &str, answer: Answer| {
        if answer.header("content-type") == Some("text/html; charset=utf-8") {
            pages.push((from.to_owned(), answer.body));
        }
    };
    for route in routes().filter(|route| route.method == "GET") {
        let path = scene.path(route.path);
        note(&path, get(&admin, language, &path).await);
        note(&path, get(&viewer, language, &path).await);
        let unknown = path.replace("a1", "a9").replace("alice", "bob").replace(&scene.img_id, "x1");
        note(&unknown, get(&admin, language, &unknown).await);
    }
    for path in ADDRESSES {
        note(path, get(&admin, language, path).await);
    }
    let game = Game::new(&till.app(&format!("b{language}")).await, "o2", "B2", 5).body();
    for (path, fields) in [
        ("/console/signature-check", vec![("request", game.as_str()), ("signed", "a=1")]),
        ("/console/signature-check", vec![("request", "a=1&a=1"), ("address", "GET /x")]),
        (
            "/console/apps/a1/players/o1/debit/check",
            vec![("gifted", "7"), ("reference", "r1"), ("reason", "why")],
        ),
        (
            "/console/apps/a1/players/o1/debit/check",
            vec![("charged", "7"), ("reference", "r1"), ("reason", "why")],
        ),
        (
            "/console/apps/a1/players/o9/credit/check",
            vec![("gifted", "7"), ("reference", "r2"), ("reason", "why")],
        ),
        (
            "/console/apps/a1/exchanges/B1/give-back/check",
            vec![("amount", "9"), ("reference", "r3"), ("reason", "why")],
        ),
        (
            "/console/apps/a1/exchanges/B1/give-back/check",
            vec![("amount", "0"), ("reference", "r3"), ("reason", "why")],
        ),
        // It needs a second person, and the next one was asked for.
        (
            "/console/apps/a1/players/o1/credit/check",
            vec![("gifted", "2000"), ("reference", "r4"), ("reason", "why")],
        ),
        (
            "/console/apps/a1/players/o1/credit/check",
            vec![("gifted", "2000"), ("reference", "w-1"), ("reason", "why")],
        ),
        ("/console/apps/a1/closed-periods/check", vec![("month", "2026-03")]),
        ("/console/apps/a1/settings", vec![("category", "none")]),
        ("/console/apps/a1/limits", vec![("exchanges_per_second", "-1")]),
        ("/console/apps/a1/packages", vec![("version", "")]),
        ("/console/reports/reconcile", vec![("app_id", "a1")]),
        ("/console/account/password", vec![("new_password", "short")]),
        ("/console/language", vec![("language", "fr")]),
    ] {
        note(path, post(&admin, language, path, &fields).await);
        note(path, post(&viewer, language, path, &fields).await);
    }
    for file in FILES {
        note(file, send_file(&admin, language, file).await);
    }
    pages
}

/// The texts of a page: those between its tags, and those of its attributes.
fn texts(page: &str) -> Vec<String> {
    let mut texts = Vec::new();
    // The switch is in the other language.
    let (before, rest) = page.split_once("<form class=\"language\"").unwrap_or((page, ""));
    let page = format!("{before}{}", rest.split_once("</form>").map_or("", |(_, rest)| rest));
    for piece in page.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap_or((piece, ""));
        if tag.starts_with("code") || tag.starts_with("pre") {
            continue;
        }
        texts.push(text.to_owned());
        for name in ["title", "aria-label", "data-label", "placeholder", "alt"] {
            if let Some((_, rest)) = tag.split_once(&format!(" {name}=\"")) {
                texts.push(rest.split('"').next().unwrap().to_owned());
            }
        }
    }
    let plain = |text: String| text.replace("&#39;", "'").split_whitespace().collect::<Vec<_>>().join(" ");
    texts.into_iter().map(plain).filter(|text| !text.is_empty()).collect()
}

fn is_chinese(character: char) -> bool {
    matches!(character, '\u{3000}'..='\u{303f}' | '\u{4e00}'..='\u{9fff}' | '\u{ff00}'..='\u{ffef}')
}

/// Two words of English in a row, or an English text of the catalogue.
fn is_english(text: &str, catalogue: &BTreeSet<String>) -> bool {
    let words: Vec<&str> = text.split(' ').collect();
    let is_word = |word: &str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let has_words = words.windows(2).any(|pair| {
        is_word(pair[0]) && is_word(pair[1]) && pair[1].bytes().all(|byte| byte.is_ascii_lowercase())
    });
    has_words || catalogue.contains(text)
}

/// Rules 14.1 and 14.2: a page is in one language, and has what a screen reader needs in it.
#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_in_one_language() {
    // What nobody translates: names of products and commands, and words of the contract.
    const NAMES: [&str; 4] =
        ["OpenID Connect", "minitill console-user", "Standard Webhooks", "Sword & shield"];
    const OF_THE_CONTRACT: [&str; 8] =
        ["admin", "cancel", "credit", "no", "present", "topup", "viewer", "yes"];
    let scene = Scene::new("UTC").await;
    let english = |(key, twin): (String, String)| {
        (key != twin && !OF_THE_CONTRACT.contains(&key.as_str())).then_some(key)
    };
    let catalogue: BTreeSet<String> = catalogue().into_iter().filter_map(english).collect();
    let mut faults_found = Vec::new();
    for (from, page) in every_page(&scene, "zh").await {
        assert!(page.contains("<html lang=\"zh-Hans\">"), "{from}");
        let mine = page.replace("<html lang=\"zh-Hans\">", "<html lang=\"en\">");
        assert_eq!(faults(&mine), Vec::<String>::new(), "{from}");
        let english = texts(&page).into_iter().filter(|text| {
            let text = NAMES.iter().fold(text.replace("&#38;", "&"), |text, name| text.replace(name, ""));
            is_english(&text, &catalogue)
        });
        faults_found.extend(english.map(|text| format!("{from}: {text}")));
    }
    faults_found.sort();
    faults_found.dedup();
    assert!(faults_found.is_empty(), "English on Chinese pages:\n{}", faults_found.join("\n"));
    for (from, page) in every_page(&scene, "en").await {
        assert!(page.contains("<html lang=\"en\">"), "{from}");
        let chinese: Vec<String> =
            texts(&page).into_iter().filter(|text| text.contains(is_chinese)).collect();
        assert_eq!(chinese, Vec::<String>::new(), "{from}");
    }
}

/// Rule 14.2: the language that was chosen in this browser counts before the one that the browser prefers.
#[tokio::test(flavor = "multi_thread")]
async fn a_language_is_chosen_in_the_header() {
    let till = TestTill::start().await;
    let sign_in = async |accept: &str, cookie: &str| {
        let request = Request::get("/console/sign-in?next=%2Fconsole%2Forders%3Fcity%3D%25E5%258C%2597");
        let request = request.header("accept-language", accept).header("cookie", cookie);
        request.send(till.operator_address).await
    };
    let (en, zh) = ("<html lang=\"en\">", "<html lang=\"zh-Hans\">");
    for (accept, cookie, expected) in [
        ("", "", en),
        ("zh-CN", "", zh),
        ("en", "minitill_language=zh", zh),
        ("zh-CN", "minitill_language=en", en),
        ("zh-CN", "minitill_language=fr", zh),
    ] {
        assert!(sign_in(accept, cookie).await.body.contains(expected), "{accept} {cookie}");
    }
    let page = sign_in("en", "").await.body;
    let next = "/console/sign-in?next=%2Fconsole%2Forders%3Fcity%3D%25E5%258C%2597";
    let switch = format!(
        "<form class=\"language\" method=\"post\" action=\"/console/language\">\n\
         <input type=\"hidden\" name=\"next\" value=\"{next}\">\n\
         <button type=\"submit\" name=\"language\" value=\"zh\" lang=\"zh-Hans\">中文</button>\n</form>"
    );
    assert!(page.contains(&switch), "{page}");
    let choose = async |language: &str, next: &str, origin: &str| {
        let request = Request::post("/console/language").header("origin", origin);
        request.body(form(&[("language", language), ("next", next)])).send(till.operator_address).await
    };
    let chosen = choose("zh", "/console/orders?a=b", ORIGIN).await;
    assert_eq!((chosen.status, chosen.header("location")), (303, Some("/console/orders?a=b")));
    let cookie = "minitill_language=zh; Path=/console; HttpOnly; SameSite=Strict; Max-Age=31536000";
    assert_eq!(chosen.header("set-cookie"), Some(cookie));
    let elsewhere = choose("en", "https://evil.example/", ORIGIN).await;
    assert_eq!(elsewhere.header("location"), Some("/console"));
    let unknown = choose("fr", "/console", ORIGIN).await;
    assert!(unknown.status == 400 && unknown.body.contains("Language: expected en or zh, got &#34;fr&#34;."));
    assert_eq!(choose("zh", "/console", "https://evil.example").await.status, 403);
}

/// Rule 14.3: times are shown and read by the clock of the setting, in refusals too, and the zone is named once.
#[tokio::test(flavor = "multi_thread")]
async fn times_are_those_of_the_setting() {
    let scene = Scene::new("Asia/Shanghai").await;
    let viewer = scene.till.browser(Role::Viewer).await;
    let page = viewer.get("/console/apps/a1/orders/order_1").await;
    let shown = "<time datetime=\"2023-11-14T22:13:20Z\" title=\"2023-11-14 22:13:20 UTC\">2023-11-15 06:13:20</time>";
    assert!(page.body.contains(shown), "{}", page.body);
    assert_eq!(text(&page.body).matches("Asia/Shanghai").count(), 1);
    assert!(!content(&page).contains("UTC") && page.body.contains("Time zone: Asia/Shanghai"));
    for (query, is_found) in [
        ("from=2023-11-15&to=2023-11-16", true),
        ("from=2023-11-14&to=2023-11-15", false),
        ("from=2023-11-15T06:13:20&to=2023-11-15T06:13:21", true),
        ("from=2023-11-15T06:13:21", false),
        ("from=2023-11-14T22:13:20Z&to=2023-11-14T22:13:21Z", true),
        ("to=2023-11-15T06:13:20", false),
    ] {
        let page = viewer.get(&format!("/console/orders?{query}")).await;
        assert_eq!(page.body.contains("order_1"), is_found, "{query}");
    }
    let player = "/console/apps/a1/players/o1";
    // So are those in a refusal.
    let admin = scene.till.browser(Role::Admin).await;
    let past = [("reason", "x"), ("until", "2020-01-01T10:00")];
    let refused = content(&admin.post(&format!("{player}/freeze"), &past).await);
    let words = "Thaw automatically at: expected a time after now, which is 20";
    assert!(refused.starts_with(words) && refused.contains(", got 2020-01-01 10:00:00."), "{refused}");
    let early = content(&admin.get("/console/reports/statement.txt?app_id=a1&day=2999-01-01").await);
    let words = "Day: expected a period that has ended: 2999-01-01 has not ended in Asia/Shanghai: it ends at \
                 2999-01-02 00:00:00, got ";
    assert!(early.starts_with(words), "{early}");
    // Numbers by language.
    assert!(get(&viewer, "en", player).await.body.contains("\u{2212}1\u{202f}500"));
    assert!(get(&viewer, "zh", player).await.body.contains("\u{2212}1,500"));
}
