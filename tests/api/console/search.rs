//! The search of the header, and filters that cannot be used.

use domain::console_user::Role;
use domain::rights::{Apps, Rights};

use crate::game::Game;
use crate::support::TestTill;

/// Rule: a number or id with a single hit leads there at once, whatever it is the number of.
#[tokio::test(flavor = "multi_thread")]
async fn one_box_finds_whatever_an_operator_holds() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "player-1", 0, 10).await;
    assert_eq!(Game::new(&app, "player-1", "B1", 5).send(&till).await.code(), 1);
    let img_id = till.image(&app).await;
    let contents = till.store.image(&img_id).await.unwrap().unwrap().contents;
    till.execute(
        "INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
                order_path, product_cover_img_id, event_count) VALUES
                ('a1', 'order_0001', 'paid_0001', 'player-1', 1700000000000, 1, 'p', 'x', 1);
         INSERT INTO order_payments (app_id, out_order_no, out_biz_order_no) VALUES ('a1', 'paid_0001', 'order_0001')",
    )
    .await;
    let viewer = till.browser(Role::Viewer).await;
    for (text, place) in [
        ("a1".to_owned(), "/console/apps/a1".to_owned()),
        ("player-1".to_owned(), "/console/apps/a1/players/player-1".to_owned()),
        ("play".to_owned(), "/console/apps/a1/players/player-1".to_owned()),
        ("B1".to_owned(), "/console/apps/a1/exchanges/B1".to_owned()),
        ("start-player-1".to_owned(), "/console/apps/a1/players/player-1?number=start-player-1".to_owned()),
        ("order_0001".to_owned(), "/console/apps/a1/orders/order_0001".to_owned()),
        ("paid_0001".to_owned(), "/console/apps/a1/orders/order_0001".to_owned()),
        (img_id.to_string(), format!("/console/images/{img_id}")),
        (contents.to_string(), format!("/console/images/{img_id}")),
    ] {
        let found = viewer.get(&format!("/console/search?q={text}")).await;
        assert_eq!((found.status, found.header("location")), (303, Some(place.as_str())), "{text}");
    }
    for none in ["b1", "nobody", "%3Cb%3E", "sha%20256"] {
        let page = viewer.get(&format!("/console/search?q={none}")).await;
        assert!(page.status == 200 && page.body.contains("Nothing has this number or id."), "{none}");
        assert!(page.body.contains("(<code>X-Request-Id</code>): search for that in the server log"));
        assert!(!page.body.contains("<b>"));
    }
    let empty = viewer.get("/console/search?q=").await;
    assert!(empty.status == 200 && !empty.body.contains("Nothing has this number or id."));
    let long = viewer.get(&format!("/console/search?q={}", "x".repeat(227))).await;
    assert!(long.status == 400 && long.body.contains("Expected at most 226 bytes, got "), "{}", long.body);
}

/// Rule: several hits are links in groups by kind.
#[tokio::test(flavor = "multi_thread")]
async fn several_hits_are_grouped_by_kind() {
    let till = TestTill::start().await;
    for name in ["a1", "b1"] {
        let app = till.app(name).await;
        till.player(&app, "same", 0, 10).await;
    }
    let app = till.app("c1").await;
    till.player(&app, "o1", 0, 10).await;
    assert_eq!(Game::new(&app, "o1", "same", 5).send(&till).await.code(), 1);
    let page = till.browser(Role::Viewer).await.get("/console/search?q=same").await;
    assert_eq!(page.status, 200);
    let (_, found) = page.body.split_once("<h2>Players</h2>").unwrap();
    let (players, ledger) = found.split_once("<h2>Exchanges and credits</h2>").unwrap();
    for (group, link) in [
        (players, "/console/apps/a1/players/same"),
        (players, "/console/apps/b1/players/same"),
        (ledger, "/console/apps/c1/exchanges/same"),
    ] {
        assert!(group.contains(&format!("href=\"{link}\"")), "{link}: {group}");
    }
    assert!(!page.body.contains("<h2>Orders</h2>"));
}

/// Rules 8.6.35 and 8.6.37: what a user's own app refused is found, however many other apps refused the same.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_other_apps_hide_none_of_an_own_app() {
    let till = TestTill::start().await;
    // Before the own app are as many others as the page has hits of a kind.
    for number in 0..=20 {
        let app = till.app(&format!("a{number:02}")).await;
        assert_ne!(Game::new(&app, "ghost", "B1", 5).send(&till).await.code(), 1);
    }
    till.store.write_refusals().await.unwrap();
    let of_own = Rights { role: Role::Viewer, apps: Apps::parse("a20").unwrap() };
    let viewer = till.browser_of(of_own).await;
    for (text, place) in
        [("B1", "/console/apps/a20/exchanges/B1"), ("ghost", "/console/apps/a20/players/ghost")]
    {
        let found = viewer.get(&format!("/console/search?q={text}")).await;
        assert_eq!((found.status, found.header("location")), (303, Some(place)), "{text}: {}", found.body);
    }
}

/// Rule: the box for exchanges says what else has the number, and nothing of a free `biz_no` then.
#[tokio::test(flavor = "multi_thread")]
async fn a_player_in_the_box_for_exchanges_is_told_to_be_a_player() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 10).await;
    let page = till.browser(Role::Viewer).await.get("/console/exchanges?number=o1").await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("<h2>Players</h2>"), "{}", page.body);
    assert!(page.body.contains("href=\"/console/apps/a1/players/o1\""));
    assert!(!page.body.contains("A number that was only refused"));
}

/// Rule: a filter that cannot be used keeps the page with what was typed, and marks its field.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_cannot_be_used_marks_its_field() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 10).await;
    let viewer = till.browser(Role::Viewer).await;
    for (path, field, typed, words) in [
        ("/console/players?app_id=a1", "open_id", "a b", "Expected 1 to 64 of 0-9A-Za-z_-, got "),
        ("/console/players?open_id=o1", "app_id", "a b", "Expected 1 to 64 of 0-9A-Za-z_-, got "),
        ("/console/apps/a1/players/o1?kind=credit", "from", "yesterday", "Expected "),
        ("/console/apps/a1/players/o1?x=1", "to", "soon", "Expected "),
        (
            "/console/apps/a1/players/o1?x=1",
            "kind",
            "gift",
            "Expected exchange, present, cancel, credit, debit, topup, refund, settlement, refusal, order or change, got ",
        ),
        ("/console/exchanges?number=B1", "app_id", "a b", "Expected "),
        ("/console/orders?city=x", "number", "a b", "Expected "),
        ("/console/orders?city=x", "status", "7", "Expected "),
        ("/console/orders?city=x", "from", "soon", "Expected "),
        ("/console/orders/center?app_id=a1", "open_id", "a b", "Expected "),
        ("/console/images?app_id=a1", "picture", "x", "Expected "),
        ("/console/images?app_id=a1", "state", "odd", "Expected "),
        ("/console/log?app_id=a1", "from", "soon", "Expected "),
    ] {
        let page = viewer.get(&format!("{path}&{field}={}", typed.replace(' ', "%20"))).await;
        let named = format!("{path} {field}");
        assert_eq!(page.status, 400, "{named}");
        let (_, input) = page.body.split_once(&format!("name=\"{field}\"")).expect(&named);
        let (input, rest) = input.split_once('>').unwrap();
        let mark = format!("aria-invalid=\"true\" aria-describedby=\"{field}_wrong\"");
        assert!(input.contains(&mark), "{named}: {input}");
        let (_, error) =
            rest.split_once(&format!("<span class=\"wrong\" id=\"{field}_wrong\">")).expect(&named);
        assert!(error.starts_with(words), "{named}: {}", &error[..80]);
        assert_eq!(page.body.matches("aria-invalid").count(), 1, "{named}");
        assert!(page.body.contains("Nothing was searched."), "{named}");
        assert!(!page.body.contains("No player matches.") && !page.body.contains("No order matches."));
    }
    let typed = viewer.get("/console/orders?number=order_7&from=soon").await;
    assert!(typed.body.contains("name=\"number\" value=\"order_7\""), "what was typed stays");
}
