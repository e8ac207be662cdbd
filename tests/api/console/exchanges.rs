//! Pages of exchanges: found by their number, and what happened to the player's coins.

use domain::console_user::Role;

use crate::game::Game;
use crate::support::TestTill;

const EXCHANGE: &str = "/console/apps/a1/exchanges/B1";

/// The page's text with every space one blank, without its tags.
fn text(body: &str) -> String {
    let mut text = String::new();
    let mut is_inside = true;
    for character in body.chars() {
        match character {
            '<' => is_inside = false,
            '>' => {
                is_inside = true;
                text.push(' ');
            }
            '\u{202f}' if is_inside => text.push('_'),
            _ if is_inside => text.push(character),
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Who, how much, for what, from which purse, before and after; then what a retry gets.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_tells_what_happened_to_the_players_coins() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 100, 1500).await;
    let items = r#"[{"product_id":7,"product_num":2000,"product_type":1,"product_start_time":1800000000000,"product_period":1800086400000}]"#;
    let game = Game::new(&app, "o1", "B1", 1550)
        .with("product_info", items)
        .with("product_desc", "<b>remark</b>")
        .with("extension", "<i>x</i>");
    assert_eq!(game.send(&till).await.code(), 1);
    let admin = till.browser(Role::Admin).await;
    let page = admin.get(EXCHANGE).await;
    let shown = text(&page.body);
    for fact in [
        "1_550 coins were deducted from the player o1 of the app a1 for “Sword &#38; shield = 100%” at 20",
        "Gifted 100 \u{2212}50 50 Charged 1_500 \u{2212}1_500 0",
        "Ledger entry 2",
        "Same content replay: the same answer again, nothing is deducted",
        "Other content refused with 10000602",
        "Replays so far none in the last 30 days",
        "{&#34;bizNo&#34;:&#34;B1&#34;,&#34;freeBalance&#34;:50,&#34;chargeBalance&#34;:0}",
        "Description &#60;b&#62;remark&#60;/b&#62; Extension &#60;i&#62;x&#60;/i&#62;",
        "7 2_000 time-limited 2027-01-15 08:00:00 to 2027-01-16 08:00:00",
        "zone_id z1_r1 os android ts 1800000000000 : 2027-01-15 08:00:00 UTC user_ip 203.0.113.9 amount 1550",
        "pay_priority 0, charged first",
    ] {
        assert!(shown.contains(fact), "{fact} in {shown}");
    }
    assert!(page.body.contains("href=\"/console/apps/a1/players/o1?number=B1\""));
    for raw in ["<b>", "<i>"] {
        assert!(!page.body.contains(raw), "{raw}");
    }
    assert_eq!(game.send(&till).await.code(), 1);
    assert_eq!(game.send(&till).await.code(), 1);
    let mut shown = String::new();
    for _ in 0..200 {
        till.store.write_replays().await.unwrap();
        shown = text(&admin.get(EXCHANGE).await.body);
        if shown.contains("Replays so far 2 times, first at ") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(shown.contains("Replays so far 2 times, first at "), "{shown}");
    till.execute("UPDATE ledger_entries SET at = at - interval '48 hours' WHERE kind = 'exchange'").await;
    let shown = text(&admin.get(EXCHANGE).await.body);
    for fact in ["Same content refused with 10000603", "Other content refused with 10000603"] {
        assert!(shown.contains(fact), "{fact} in {shown}");
    }
}

/// Rule: `user_ip` is personal; a viewer does not see it, and sees everything else.
#[tokio::test(flavor = "multi_thread")]
async fn a_players_address_is_for_admins() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 10).await;
    assert_eq!(Game::new(&app, "o1", "B1", 5).send(&till).await.code(), 1);
    let page = till.browser(Role::Viewer).await.get(EXCHANGE).await;
    assert!(page.status == 200 && !page.body.contains("203.0.113.9"));
    assert!(text(&page.body).contains("user_ip only admins see this personal data"), "{}", page.body);
    assert!(till.browser(Role::Admin).await.get(EXCHANGE).await.body.contains("203.0.113.9"));
}

/// A number of one app leads there at once; one of several lists them; one that is free says what that means.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_leads_to_what_it_took_or_gave() {
    let till = TestTill::start().await;
    let (a, b) = (till.app("a1").await, till.app("b1").await);
    for app in [&a, &b] {
        till.player(app, "o1", 0, 10).await;
        assert_eq!(Game::new(app, "o1", "Both", 5).send(&till).await.code(), 1);
    }
    assert_eq!(Game::new(&a, "o1", "B1", 5).send(&till).await.code(), 1);
    let viewer = till.browser(Role::Viewer).await;
    let to = async |query: &str| {
        let answer = viewer.get(&format!("/console/exchanges?{query}")).await;
        (answer.status, answer.header("location").map(str::to_owned))
    };
    let found = |path: &str| (303, Some(path.to_owned()));
    assert_eq!(to("number=B1").await, found(EXCHANGE));
    assert_eq!(to("number=B1&app_id=a1").await, found(EXCHANGE));
    assert_eq!(to("number=Both&app_id=b1").await, found("/console/apps/b1/exchanges/Both"));
    assert_eq!(to("number=start-o1&app_id=b1").await, found("/console/apps/b1/players/o1?number=start-o1"));
    assert_eq!(to("").await, (200, None));
    let both = viewer.get("/console/exchanges?number=Both").await;
    for link in ["/console/apps/a1/exchanges/Both", "/console/apps/b1/exchanges/Both"] {
        assert!(both.body.contains(&format!("href=\"{link}\"")), "{}", both.body);
    }
    for free in ["number=B1&app_id=b1", "number=b1", "number=%3Cb%3E&app_id=a1"] {
        let page = viewer.get(&format!("/console/exchanges?{free}")).await;
        assert!(page.status == 200 && page.body.contains("No exchange and no credit"), "{free}");
        assert!(!page.body.contains("<b>"));
    }
    for none in ["b1/exchanges/B1", "none/exchanges/B1", "a1/exchanges/B2", "a1/exchanges/%3Cb%3E"] {
        let page = viewer.get(&format!("/console/apps/{none}")).await;
        assert_eq!(page.status, 404, "{none}");
        assert!(page.body.contains("A refused exchange stores nothing") && !page.body.contains("<b>"));
    }
}
