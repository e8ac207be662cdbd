//! Pages of exchanges: found by their number, what happened to the player's coins, and giving them back.

use domain::console_user::Role;
use domain::wallet::DeveloperTexts;

use super::reading::{content, link_called, rows, text, value_of};
use super::wallet_changes::spender;
use crate::game::Game;
use crate::support::{TestTill, until};

const EXCHANGE: &str = "/console/apps/a1/exchanges/B1";

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
        .with_texts("<i>x</i>");
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
        "Description &#60;b&#62;remark&#60;/b&#62;",
        "7 2_000 time-limited 2027-01-15 08:00:00 to 2027-01-16 08:00:00",
        "zone_id z1_r1 os android ts 1800000000000 : 2027-01-15 08:00:00 user_ip 203.0.113.9 amount 1550",
        "pay_priority 0, charged first",
    ] {
        assert!(shown.contains(fact), "{fact} in {shown}");
    }
    for name in DeveloperTexts::NAMES {
        assert!(shown.contains(&format!("{name} &#60;i&#62;x&#60;/i&#62;")), "{name} in {shown}");
    }
    assert!(page.body.contains("href=\"/console/apps/a1/players/o1?number=B1\""));
    for raw in ["<b>", "<i>"] {
        assert!(!page.body.contains(raw), "{raw}");
    }
    assert_eq!(game.send(&till).await.code(), 1);
    assert_eq!(game.send(&till).await.code(), 1);
    until("the replays are shown", async || {
        till.store.write_replays().await.unwrap();
        text(&admin.get(EXCHANGE).await.body).contains("Replays so far 2 times, first at ")
    })
    .await;
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
        assert!(page.body.contains("no refusal of it in the last 30 days.") && !page.body.contains("<b>"));
    }
}

/// Rule 10.4.5 and 10.7.3: what was taken last comes back first. Nothing is done before the last step, and pressing
/// twice gives back once and says so. Every word of the pages.
#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_is_given_back_in_parts_each_shown_before_it_is_made() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    let admin = till.browser(Role::Admin).await;
    let path = format!("{EXCHANGE}/give-back");
    assert_eq!(link_called(&admin.get(EXCHANGE).await, "Give this exchange back"), Some(path.clone()));
    let form = admin.get(&path).await;
    assert_eq!(value_of(&form, "amount"), "550");
    assert!(value_of(&form, "reference").starts_with("console-"));
    let remedy = "The ledger keeps every cancel. A debit takes the coins back.";
    assert_eq!(
        content(&form),
        format!(
            "App: a1 . Player: o1 . Balances now: 0 gifted, 1_050 charged. The next page shows a preview. Nothing \
             changes before you confirm it. The exchange took 550 coins, and 550 can still be given back. What was \
             taken last is given back first. Coins to give back A whole number from 1 to 550. Reason The ledger and \
             the operator log show it. Reference One reference takes effect only once. This one was generated for \
             you. If you type the number of your support case, nobody can settle that case twice. Preview Back to \
             the exchange {remedy}"
        )
    );
    let fields = [("amount", "500"), ("reference", "case #1"), ("reason", "nothing arrived")];
    let check = admin.post(&format!("{path}/check"), &fields).await;
    let kept = "Reference case #1 Reason nothing arrived";
    let end = format!(
        "Back to the form Back to the exchange {remedy} If the balances change before you confirm, the new balances \
         count."
    );
    assert_eq!(
        content(&check),
        format!(
            "This is a preview. Nothing has changed yet. Currency Balance now Change Balance after Gifted 0 +50 50 \
             Charged 1_050 +450 1_500 App a1 Player o1 Exchange B1 Left to give back 550 now, 50 afterwards {kept} \
             Give back B1 now {end}"
        )
    );
    assert_eq!(
        ["amount", "reference", "reason"].map(|name| value_of(&check, name)),
        fields.map(|field| field.1)
    );
    assert_eq!(till.purses(&app, "o1").await, (0, 1050, 2));

    for (query, told) in [
        (
            "?changed=case+%231",
            "Gave back 50 gifted and 450 charged coins with the reference case #1 (entry 3).</p>",
        ),
        (
            "?changed=case+%231&again=1",
            "Nothing was changed now. Gave back 50 gifted and 450 charged coins with ",
        ),
    ] {
        let sent = admin.post(&path, &fields).await;
        let location = format!("{EXCHANGE}{query}");
        assert_eq!((sent.status, sent.header("location")), (303, Some(location.as_str())));
        let page = admin.get(&location).await;
        assert!(page.body.contains(&format!("role=\"status\">{told}")), "{}", page.body);
        assert!(text(&page.body).contains("50 of 550 coins can still be given back."), "{}", page.body);
        let entry = "/console/apps/a1/players/o1?number=case%20%231";
        assert_eq!(link_called(&page, "case #1").as_deref(), Some(entry));
        let ledger = admin.get(entry).await;
        assert_eq!(link_called(&ledger, "B1").as_deref(), Some(EXCHANGE));
        assert_eq!(till.purses(&app, "o1").await, (50, 1500, 3));
    }
    let shown = content(&admin.post(&format!("{path}/check"), &fields).await);
    assert!(shown.starts_with("This cancel was already made at ") && !shown.contains("B1 now"), "{shown}");
    let line = "SELECT count(*) FROM operator_log WHERE action = 'wallet.cancel' AND operator_kind = 'console' \
                AND note = 'nothing arrived'";
    assert_eq!(till.number(line).await, 1);
    till.assert_audit_clean().await;
}

/// The form offers what is left. Then there is nothing to offer.
#[tokio::test(flavor = "multi_thread")]
async fn after_the_rest_nothing_is_left_to_give_back() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    let admin = till.browser(Role::Admin).await;
    let path = format!("{EXCHANGE}/give-back");
    let part = [("amount", "500"), ("reference", "case 1"), ("reason", "nothing arrived")];
    assert_eq!(admin.post(&path, &part).await.status, 303);
    let rest = value_of(&admin.get(&path).await, "amount");
    let fields = [("amount", rest.as_str()), ("reference", "case 2"), ("reason", "nothing arrived")];
    let check = admin.post(&format!("{path}/check"), &fields).await;
    assert_eq!(rows(&check.body), [["Gifted", "50", "+50", "100"], ["Charged", "1_500", "0", "1_500"]]);
    assert_eq!(admin.post(&path, &fields).await.status, 303);
    assert_eq!(till.purses(&app, "o1").await, (100, 1500, 4));
    assert_eq!(link_called(&admin.get(EXCHANGE).await, "Give this exchange back"), None);
    let again = [("amount", "1"), ("reference", "case 3"), ("reason", "x")];
    for nothing_left in [
        admin.get(&path).await,
        admin.post(&format!("{path}/check"), &again).await,
        admin.post(&path, &again).await,
    ] {
        assert_eq!(nothing_left.status, 400);
        let words = ">0 is left to give back.</p>";
        assert!(nothing_left.body.contains(words), "{}", nothing_left.body);
    }
    till.assert_audit_clean().await;
}

/// What cannot be given back: nothing is done, and the page says why.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_given_back_is_refused_in_words() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    assert_eq!(Game::new(&app, "o1", "B2", 30).send(&till).await.code(), 1);
    let admin = till.browser(Role::Admin).await;
    let path = format!("{EXCHANGE}/give-back");
    let good = [("amount", "20"), ("reference", "case-1"), ("reason", "sorry")];
    assert_eq!(admin.post(&path, &good).await.status, 303);
    let others = path.replace("B1", "B2");
    let with = |name: &'static str, value: &'static str| {
        good.map(|(known, text)| (known, if known == name { value } else { text }))
    };
    let taken = |reference: &str| {
        format!(">The ref {reference} was used for another player or with other amounts.</p>")
    };
    let whole = "Coins to give back: expected a whole number of coins from 1 to 1000000000000, and at most 530 of this \
                 exchange"
        .to_owned();
    let too_much =
        with("amount", "531").map(|(name, value)| (name, if value == "case-1" { "case-2" } else { value }));
    for (path, fields, words) in [
        (&path, too_much, ">530 is left to give back.</p>".to_owned()),
        (&path, with("amount", "0"), whole.clone()),
        (&path, with("amount", "-1"), whole.clone()),
        (&path, with("amount", ""), whole),
        (&path, with("amount", "21"), taken("case-1")),
        (&path, with("reference", "start-o1"), taken("start-o1")),
        (&others, good, taken("case-1")),
        (&path, with("reference", ""), "Reference: expected 1 to 128 bytes".to_owned()),
        (&path, with("reason", ""), "Reason: expected a reason of 1 to 500 characters".to_owned()),
    ] {
        for page in [format!("{path}/check"), path.clone()] {
            let answer = admin.post(&page, &fields).await;
            assert_eq!(answer.status, 400, "{page} {fields:?}");
            assert!(answer.body.contains(&words), "{page} {fields:?}: {}", answer.body);
        }
    }
    // A cancel is no credit, even of the same amounts.
    let credit = [("gifted", "0"), ("charged", "20"), ("reference", "case-1"), ("reason", "sorry")];
    let refused = admin.post("/console/apps/a1/players/o1/credit/check", &credit).await;
    assert!(refused.status == 400 && refused.body.contains(&taken("case-1")), "{}", refused.body);
    assert_eq!(till.purses(&app, "o1").await, (0, 1040, 4));
}

/// Rule: no admin, no exchange: no way to the form, and nothing is given back.
#[tokio::test(flavor = "multi_thread")]
async fn only_an_admin_gives_back_and_only_an_exchange() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    till.app("b1").await;
    assert_eq!(Game::present(&app, "o1", "P1", 5).send(&till).await.code(), 1);
    let fields = [("amount", "5"), ("reference", "r"), ("reason", "x")];
    let viewer = till.browser(Role::Viewer).await;
    assert_eq!(link_called(&viewer.get(EXCHANGE).await, "Give this exchange back"), None);
    let player = viewer.get("/console/apps/a1/players/o1").await;
    assert_eq!(link_called(&player, "B1").as_deref(), Some(EXCHANGE));
    let lines = "/console/apps/a1/players/o1?number=P1";
    assert_eq!(link_called(&player, "P1").as_deref(), Some(lines), "a present has no page of its own");
    assert!(rows(&player.body)[0].contains(&"P1".to_owned()), "{}", player.body);
    let path = format!("{EXCHANGE}/give-back");
    for refused in [
        viewer.get(&path).await,
        viewer.post(&format!("{path}/check"), &fields).await,
        viewer.post(&path, &fields).await,
    ] {
        assert!(refused.status == 403 && refused.body.contains("Not for your role"), "{}", refused.body);
    }
    let admin = till.browser(Role::Admin).await;
    for none in ["a1/exchanges/B2", "a1/exchanges/P1", "b1/exchanges/B1", "none/exchanges/B1"] {
        let path = format!("/console/apps/{none}/give-back");
        for refused in [
            admin.get(&path).await,
            admin.post(&format!("{path}/check"), &fields).await,
            admin.post(&path, &fields).await,
        ] {
            assert_eq!(refused.status, 404, "{path}");
            assert!(refused.body.contains("has no exchange with the biz_no"), "{}", refused.body);
        }
    }
    assert_eq!(till.purses(&app, "o1").await, (5, 1050, 3));
    // A notice is not made up by an address.
    for query in ["changed=none", "changed=start-o1"] {
        let page = admin.get(&format!("{EXCHANGE}?{query}")).await;
        assert!(page.status == 200 && !page.body.contains("role=\"status\""), "{query}");
    }
}
