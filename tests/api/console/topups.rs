//! Pages of top-ups: payments that wait, the settling of one, and the prices of an app (contract 19.1 and 19.3).

use domain::app::Scope;
use domain::console_user::Role;
use domain::rights::{Apps, Rights};
use domain::topup::TOLD_BY_PROVIDER;

use serde_json::{Value, json};

use super::accessible::faults;
use super::reading::{content, link_called, rows, value_of};
use crate::admin::Caller;
use crate::game::Game;
use crate::support::console::{HOSTILE, ORIGIN};
use crate::support::program::Program;
use crate::support::{AppKind, Request, TestApp, TestTill, form};
use crate::topups::{keep_unmatched, order, payment, sell, tell};
use crate::workbook::sheet_lines;

const HEADING: &str = "product_id,currency,amount,charge,bonus,name,active";

async fn till_and_app() -> (TestTill, TestApp) {
    let till = TestTill::start().await;
    let app = till.app_like("a1", AppKind { scopes: &Scope::ALL, ..AppKind::default() }).await;
    till.player(&app, "o1", 40, 100).await;
    sell(&till, &app).await;
    (till, app)
}

/// Rule 19.3.6: what waits comes first, with its reason; whoever may move money settles it once, with a reason.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_waits_is_found_and_settled_once() {
    let (till, app) = till_and_app().await;
    // An id of a provider may have a slash.
    keep_unmatched(&till, &app, "stripe", "pi/1 2").await;
    keep_unmatched(&till, &app, "stripe", "pi_2").await;
    let admin = till.browser(Role::Admin).await;
    let list = admin.get("/console/topups").await;
    assert_eq!((list.status, faults(&list.body)), (200, Vec::new()));
    let shown = &rows(&list.body)[0];
    assert_eq!(
        shown[1..],
        ["pi/1 2 stripe", "a1", "Unmatched No order has this number.", "6.00 CNY", "", "", "nobodys"]
    );
    let path = "/console/apps/a1/topups/stripe/pi%2F1%202";
    assert!(list.body.contains(&format!("href=\"{path}\"")), "{}", list.body);

    let page = admin.get(path).await;
    assert_eq!((page.status, faults(&page.body)), (200, Vec::new()));
    for words in [
        "Money came, and nothing was credited. No order has this number.",
        "Ask the payment server which player and product it is for, and credit them.",
        "gems60: 6.00 CNY, 60 charged, 6 gifted",
        "payments, API key",
    ] {
        assert!(content(&page).contains(words), "{words}: {}", content(&page));
    }
    // A viewer reads it, and has no form.
    let viewer = till.browser(Role::Viewer).await.get(path).await;
    assert_eq!((viewer.status, viewer.body.contains("<form class=\"card\"")), (200, false));

    let settle = format!("{path}/settlement");
    for (fields, expected) in [
        (
            vec![("action", "player"), ("reason", "phone call")],
            "Player (open_id): expected 1 to 64 of 0-9A-Za-z_-.",
        ),
        (
            vec![("action", "player"), ("open_id", "o9"), ("product_id", "gems60"), ("reason", "x")],
            "There is no player o9 of an app a1.",
        ),
        (
            vec![("action", "order"), ("biz_no", "b9"), ("reason", "x")],
            "The app a1 has no order b9 of a top-up.",
        ),
        (vec![("action", "paid_back")], "Reason: expected "),
        (vec![("reason", "x")], "Resolution: expected what becomes of the payment"),
    ] {
        let refused = admin.post(&settle, &fields).await;
        assert!((400..500).contains(&refused.status), "{expected}: {}", refused.status);
        assert!(content(&refused).contains(expected), "{expected}: {}", content(&refused));
        assert!(content(&refused).contains("Back to the form"), "{}", content(&refused));
    }
    assert_eq!(till.purses(&app, "o1").await, (40, 100, 1));
    let fields =
        [("action", "player"), ("open_id", "o1"), ("product_id", "gems60"), ("reason", "phone call")];
    let settled = admin.post(&settle, &fields).await;
    let done = format!("{path}?done=paid");
    assert_eq!((settled.status, settled.header("location")), (303, Some(done.as_str())), "{}", settled.body);
    assert_eq!(till.purses(&app, "o1").await, (46, 160, 2));
    assert!(admin.get(&done).await.body.contains("The payment is credited."));
    let again = admin.post(&settle, &fields).await;
    assert!(content(&again).contains("is paid, and only an unmatched one can be settled"), "{}", again.body);
    assert_eq!(till.purses(&app, "o1").await, (46, 160, 2), "it is settled once");

    let of_player = admin.get("/console/topups?app_id=a1&open_id=o1").await;
    let listed = rows(&of_player.body);
    assert_eq!(
        listed[2][1..],
        ["pi/1 2 stripe", "Credited", "6.00 CNY", "60 + 6", "o1", "nobodys"],
        "{listed:?}"
    );
    let back = [("action", "paid_back"), ("reason", "asked for it")];
    let settled = admin.post("/console/apps/a1/topups/stripe/pi%5F2/settlement", &back).await;
    assert_eq!(settled.status, 303, "{}", settled.body);
    assert!(content(&admin.get("/console/topups").await).contains("No payment waits for an operator."));
    till.assert_audit_clean().await;
}

/// Payments `pi_1` of the order `t1` and `pi_2` of a product for `o1`, each of less money than it costs.
fn payments_of_other_money() -> [Value; 2] {
    let mut of_order = payment("pi_1", "t1");
    of_order["amount"] = json!(599);
    let mut of_player = payment("pi_2", "t1");
    of_player.as_object_mut().unwrap().remove("biz_no");
    for (name, value) in [("open_id", json!("o1")), ("product_id", json!("gems60")), ("amount", json!(599))] {
        of_player[name] = value;
    }
    [of_order, of_player]
}

/// Rule 8.6.54: a payment that names no order is never settled by crediting one.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_of_other_money_says_whom_to_credit() {
    let (till, app) = till_and_app().await;
    order(&till, &app, "t1").await;
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    let [of_order, of_player] = payments_of_other_money();
    let viewer = till.browser(Role::Viewer).await;
    for (told, id, credited) in [(of_order, "pi_1", "order"), (of_player, "pi_2", "player")] {
        assert_eq!(tell(&caller, &told).await.status, 202);
        let page = viewer.get(&format!("/console/apps/a1/topups/stripe/{id}")).await;
        let words = format!("Credit the {credited} if the money is right, or pay it back.");
        assert!(content(&page).contains(&words), "{words}: {}", content(&page));
    }
}

/// Rules 8.6.54 and 13.7.13: nothing is offered that is refused because the player was erased.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_of_an_erased_player_is_offered_to_others_alone() {
    let (till, app) = till_and_app().await;
    till.player(&app, "o2", 0, 100).await;
    order(&till, &app, "t1").await;
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    for told in payments_of_other_money() {
        assert_eq!(tell(&caller, &told).await.status, 202);
    }
    let admin = till.browser(Role::Admin).await;
    let of = |id: &str| format!("/console/apps/a1/topups/stripe/{id}");
    let (first, second) = (admin.get(&of("pi_1")).await, admin.get(&of("pi_2")).await);
    assert_eq!((value_of(&first, "biz_no").as_str(), value_of(&second, "open_id").as_str()), ("t1", "o1"));
    let advice = "The player was erased. Pay the money back, or credit another player.";
    assert!(!content(&first).contains(advice) && !content(&second).contains(advice));

    let erased = Program::on(&till.database_url).json(&["player", "erase", "a1", "o1", "--yes"]);
    let pseudonym = erased["pseudonym"].as_str().unwrap();
    // The order is the erased player's. A payment that names no order may still pay one of somebody else.
    for (id, offers_order) in [("pi_1", false), ("pi_2", true)] {
        let page = admin.get(&of(id)).await;
        assert_eq!((page.status, faults(&page.body)), (200, Vec::new()), "{id}");
        assert!(content(&page).contains(advice), "{id}: {}", content(&page));
        for input in ["type=\"radio\" value=\"order\"", "name=\"biz_no\""] {
            assert_eq!(page.body.contains(input), offers_order, "{id}: {input}");
        }
        assert_eq!(value_of(&page, "open_id"), "", "{id}");
        assert!(!content(&page).contains("if the money is right"), "{id}: {}", content(&page));
    }
    let settle = async |id: &str, fields: &[(&str, &str)]| {
        let fields: Vec<(&str, &str)> = fields.iter().copied().chain([("reason", "r")]).collect();
        admin.post(&format!("{}/settlement", of(id)), &fields).await
    };
    let to = |player| [("action", "player"), ("open_id", player), ("product_id", "gems60")];
    for (id, fields) in [("pi_1", &[("action", "order"), ("biz_no", "t1")][..]), ("pi_2", &to(pseudonym))] {
        let refused = settle(id, fields).await;
        assert!(content(&refused).contains("the player was erased; pay the money back"), "{}", refused.body);
    }
    assert_eq!(settle("pi_1", &to("o2")).await.status, 303);
    assert_eq!(settle("pi_2", &[("action", "paid_back")]).await.status, 303);
    till.assert_audit_clean().await;
}

/// Rule 8.6.54: a settlement is shown before it is made, with what refunds take of it. A preview changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_is_shown_before_it_is_made() {
    let (till, app) = till_and_app().await;
    for id in ["pi_1", "pi_2", "pi_3"] {
        keep_unmatched(&till, &app, "stripe", id).await;
    }
    let admin = till.browser(Role::Admin).await;
    let form = admin.get("/console/apps/a1/topups/stripe/pi%5F1").await;
    assert!(form.body.contains("action=\"/console/apps/a1/topups/stripe/pi%5F1/settlement/check\""));
    let settlement = |id: &str| format!("/console/apps/a1/topups/stripe/{id}/settlement");
    let fields =
        [("action", "player"), ("open_id", "o1"), ("product_id", "gems60"), ("reason", "phone call")];
    assert_eq!(admin.post(&settlement("pi_1"), &fields).await.status, 303);
    // Its coins are spent, and half of it is refunded: 3 gifted and 30 charged coins are owed.
    assert_eq!(Game::new(&app, "o1", "b1", 206).send(&till).await.code(), 1);
    let refund = json!({ "refund_id": "re_1", "amount": 300, "reason": "r", "shortfall": "record" });
    let refunds = "/apps/a1/topups/stripe/pi_1/refunds";
    assert_eq!(Caller::admin(&till).await.send("POST", refunds, None, &refund).await.status, 200);
    let state = async || {
        let lines = till.number("SELECT count(*) FROM operator_log").await;
        let waiting = till.number("SELECT count(*) FROM topup_payments WHERE state = 'unmatched'").await;
        let owed = till.number("SELECT sum(free_owed + charge_owed)::bigint FROM topup_refunds").await;
        (till.purses(&app, "o1").await, lines, waiting, owed)
    };
    let before = state().await;
    assert_eq!((before.2, before.3), (2, 33));

    let check = admin.post(&format!("{}/check", settlement("pi_2")), &fields).await;
    assert_eq!((check.status, faults(&check.body)), (200, Vec::new()), "{}", check.body);
    assert_eq!(rows(&check.body), [["Gifted", "0", "+3", "3"], ["Charged", "0", "+30", "30"]]);
    for words in
        ["Nothing has changed yet.", "6.00 CNY", "60 charged, 6 gifted refunds take some or all of them"]
    {
        assert!(content(&check).contains(words), "{words}: {}", content(&check));
    }
    let back = [("action", "paid_back"), ("reason", "asked for it")];
    let none = admin.post(&format!("{}/check", settlement("pi_3")), &back).await;
    assert_eq!((none.status, faults(&none.body)), (200, Vec::new()), "{}", none.body);
    let words = "The payment will be marked as paid back, and nothing is credited.";
    assert!(content(&none).contains(words), "{}", content(&none));
    assert_eq!(state().await, before, "a preview changes nothing");

    let kept: Vec<(&str, String)> = fields.map(|(name, _)| (name, value_of(&check, name))).into();
    let kept: Vec<(&str, &str)> = kept.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(kept, fields);
    assert_eq!(admin.post(&settlement("pi_2"), &kept).await.status, 303);
    let (free, charge, _) = till.purses(&app, "o1").await;
    assert_eq!((free, charge), (3, 30), "it does what the preview has shown");
    let again = admin.post(&format!("{}/check", settlement("pi_2")), &fields).await;
    assert!(content(&again).contains("is paid, and only an unmatched one can be settled"), "{}", again.body);
    till.assert_audit_clean().await;
}

/// Rule 8.6.54: a preview tells where the price of what is credited is not the money that came.
#[tokio::test(flavor = "multi_thread")]
async fn a_preview_tells_that_the_money_is_not_the_price() {
    let (till, app) = till_and_app().await;
    order(&till, &app, "top1").await;
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    let mut less = payment("pi_3", "top1");
    less["amount"] = 500.into();
    assert_eq!(tell(&caller, &less).await.status, 202);
    keep_unmatched(&till, &app, "stripe", "pi_4").await;
    let admin = till.browser(Role::Admin).await;
    let to_order = [("action", "order"), ("biz_no", "top1"), ("reason", "phone call")];
    let to_player =
        [("action", "player"), ("open_id", "o1"), ("product_id", "gems60"), ("reason", "phone call")];
    let back = [("action", "paid_back"), ("reason", "phone call")];
    let differs = "The price is not the money that came.";
    for (id, fields, told) in [
        ("pi_3", &to_order[..], Some("Order top1 of o1: gems60, 6.00 CNY. Came: 5.00 CNY.")),
        ("pi_3", &to_player, Some("Price of gems60: 6.00 CNY. Came: 5.00 CNY.")),
        ("pi_3", &back, None),
        ("pi_4", &to_player, None),
    ] {
        let path = format!("/console/apps/a1/topups/stripe/{id}/settlement/check");
        let check = admin.post(&path, fields).await;
        assert_eq!((check.status, faults(&check.body)), (200, Vec::new()), "{}", check.body);
        let shown = content(&check);
        match told {
            Some(told) => assert!(shown.contains(&format!("{differs} {told}")), "{told}: {shown}"),
            None => assert!(!shown.contains(differs), "{shown}"),
        }
        // The script goes back to what was typed.
        let form = format!("/console/apps/a1/topups/stripe/{}#settle", id.replace('_', "%5F"));
        assert!(check.body.contains(&format!("id=\"back\" href=\"{form}\"")), "{}", check.body);
    }
}

/// Rule 19.5.12 and 19.6.1: the page of a payment shows its refunds, and what was used of it.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_payment_shows_its_refunds() {
    let (till, app) = till_and_app().await;
    keep_unmatched(&till, &app, "stripe", "pi/1 2").await;
    let (admin, path) = (till.browser(Role::Admin).await, "/console/apps/a1/topups/stripe/pi%2F1%202");
    let fields =
        [("action", "player"), ("open_id", "o1"), ("product_id", "gems60"), ("reason", "phone call")];
    assert_eq!(admin.post(&format!("{path}/settlement"), &fields).await.status, 303);
    let caller = Caller::admin(&till).await;
    let refund = async |refund_id: &str| {
        let reason = if refund_id == "re_2" { TOLD_BY_PROVIDER } else { "half of it" };
        let refund = json!({ "refund_id": refund_id, "amount": 300, "reason": reason });
        let path_of_refunds = "/apps/a1/topups/stripe/pi%2F1%202/refunds";
        let refunded = caller.send("POST", path_of_refunds, None, &refund).await;
        assert_eq!(refunded.status, 200, "{}", refunded.body);
    };
    refund("re_1").await;
    let page = admin.get(path).await;
    assert_eq!(faults(&page.body), Vec::<String>::new());
    for words in ["State Partly refunded", "0 of 60 charged coins; 30 are in the purse; 30 were taken back"] {
        assert!(content(&page).contains(words), "{words}: {}", content(&page));
    }
    let shown = &rows(&page.body)[0];
    assert_eq!(shown[1..], ["re_1", "Refunded", "3.00 CNY", "30 charged, 3 gifted", "none", "half of it"]);
    // Its entry says what was paid for, and leads to the line of its settlement.
    let entry = admin.get(&link_called(&page, "ledger entry 2").expect("a link")).await;
    assert!(content(&entry).contains("topup gems60, 6.00 CNY stripe/pi/1 2 log"), "{}", content(&entry));
    let player = admin.get("/console/apps/a1/players/o1").await;
    assert!(content(&player).contains("refund 3.00 CNY stripe/pi/1 2/re_1 log"), "{}", content(&player));
    // Its number leads to the payment (8.6.8), and so does that of the refund, also where it is searched.
    for number in ["stripe/pi/1 2", "stripe/pi/1 2/re_1"] {
        assert_eq!(link_called(&player, number).as_deref(), Some(path), "{number}");
    }
    let found = admin.get("/console/search?q=re_1").await;
    assert_eq!(found.header("location"), Some(path), "{}", found.body);
    // Rule 8.5.11: the log shows the money of the payment, not as something that went away.
    let log = admin.get("/console/log?action=topup.settle").await;
    assert!(log.body.contains("amount: <ins class=\"id\" title=\"6.00 CNY\">"), "{}", log.body);
    let log = admin.get("/console/log?action=topup.refund").await;
    assert!(content(&log).contains("amount: 3.00 CNY"), "{}", content(&log));
    refund("re_2").await;
    assert!(content(&admin.get(path).await).contains("State Refunded Money"), "all of it went back");
    // Rule 8.5.11: a reason that the till has written is in the language of the page.
    for path in [path, "/console/log?action=topup.refund"] {
        let page = admin.send(Request::get(path).header("accept-language", "zh")).await;
        let shown = content(&page);
        assert!(shown.contains("支付渠道告知") && !shown.contains(TOLD_BY_PROVIDER), "{shown}");
    }
    let list = admin.get("/console/topups?app_id=a1").await;
    assert_eq!(rows(&list.body)[0][2], "Refunded");
}

/// Rule 8.6.8: a payment is found as `PROVIDER/ID`, however long both parts are.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_of_the_longest_names_is_found() {
    let (till, _app) = till_and_app().await;
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    let (provider, id) = ("p".repeat(32), "x".repeat(128));
    let mut paid = payment(&id, "");
    paid.as_object_mut().unwrap().remove("biz_no");
    paid["provider"] = provider.as_str().into();
    (paid["open_id"], paid["product_id"]) = ("ghost".into(), "gems60".into());
    assert_eq!(tell(&caller, &paid).await.status, 202);
    let viewer = till.browser(Role::Viewer).await;
    let found = viewer.get(&format!("/console/search?q={provider}/{id}")).await;
    let place = format!("/console/apps/a1/topups/{provider}/{id}");
    assert_eq!((found.status, found.header("location")), (303, Some(place.as_str())), "{}", found.body);
}

/// Rules 8.6.8, 8.6.35 and 8.6.54: a payment and the order that it names are found by their numbers, lead to their player,
/// and are compared.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_does_not_fit_its_order_is_found_with_it() {
    let (till, app) = till_and_app().await;
    till.app("b1").await;
    for biz_no in ["top1", "top2"] {
        order(&till, &app, biz_no).await;
    }
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    let mut less = payment("pi_3", "top2");
    less["amount"] = 500.into();
    assert_eq!(tell(&caller, &less).await.status, 202);
    let mut ghosts = payment("pi_4", "");
    ghosts.as_object_mut().unwrap().remove("biz_no");
    (ghosts["open_id"], ghosts["product_id"]) = ("ghost".into(), "gems60".into());
    assert_eq!(tell(&caller, &ghosts).await.status, 202);

    let viewer = till.browser(Role::Viewer).await;
    let path = "/console/apps/a1/topups/stripe/pi%5F3";
    let found = async |text: &str| {
        let found = viewer.get(&format!("/console/search?q={text}")).await;
        found.header("location").map(str::to_owned)
    };
    let of_player = "/console/topups?app_id=a1&open_id=o1";
    for (text, place) in [("pi_3", path), ("stripe/pi_3", path), ("top2", path), ("top1", of_player)] {
        assert_eq!(found(text).await.as_deref(), Some(place), "{text}");
    }
    // Nor is it told of as an exchange that nobody signed.
    let none = viewer.get("/console/apps/a1/exchanges/top1").await;
    let words = "no refusal of it in the last 30 days; top1 is an order of a top-up.";
    assert!(none.status == 404 && none.body.contains(words), "{}", none.body);
    let program = Program::on(&till.database_url);
    let none = program.complaint(&["exchange", "show", "a1", "top1"]);
    assert!(
        none.ends_with("leaves no trace but in the server log; top1 is an order of a top-up\n"),
        "{none}"
    );
    let of_other = Rights { role: Role::Viewer, apps: Apps::parse("b1").unwrap() };
    let other = till.browser_of(of_other).await;
    for text in ["pi_3", "stripe/pi_3", "top1", "top2"] {
        let page = other.get(&format!("/console/search?q={text}")).await;
        assert!(page.status == 200 && page.body.contains("Nothing has this number or id."), "{text}");
    }

    let page = content(&viewer.get(path).await);
    for words in [
        "Order top2 of o1: gems60, 6.00 CNY. Came: 5.00 CNY.",
        "Player o1 who made the order",
        "top2 gems60, 6.00 CNY",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let list = viewer.get(of_player).await;
    assert_eq!((list.status, faults(&list.body)), (200, Vec::new()));
    // Among those that wait, and among those of the player.
    assert_eq!(list.body.matches(&format!("href=\"{path}\"")).count(), 2, "{}", list.body);
    for open in ["top1 gems60 6.00 CNY", "top2 gems60 6.00 CNY"] {
        assert!(content(&list).contains(open), "{open}: {}", content(&list));
    }
    // The link of the payment of a player whom the app does not know leads somewhere.
    assert_eq!(viewer.get("/console/apps/a1/players/ghost").await.status, 200);

    assert_eq!(tell(&caller, &payment("pi_5", "top1")).await.status, 200);
    for text in ["pi_5", "stripe/pi_5", "top1"] {
        assert_eq!(found(text).await.as_deref(), Some("/console/apps/a1/topups/stripe/pi%5F5"), "{text}");
    }
    assert!(!content(&viewer.get(of_player).await).contains("top1 gems60"), "it is paid");
    // The log has no line about a payment that fitted at once.
    let player = content(&viewer.get("/console/apps/a1/players/o1").await);
    assert!(player.contains("topup gems60, 6.00 CNY stripe/pi_5 +6"), "{player}");
}

/// Rule 8.6.9: a player or a time without an app is no search, and an app that does not exist has no list.
#[tokio::test(flavor = "multi_thread")]
async fn payments_are_searched_in_an_app_that_exists() {
    let (till, _) = till_and_app().await;
    till.app("b1").await;
    let viewer = till.browser(Role::Viewer).await;
    for query in ["open_id=o1", "from=2026-10-20T12:00"] {
        let page = viewer.get(&format!("/console/topups?{query}")).await;
        assert_eq!((page.status, faults(&page.body)), (400, Vec::new()), "{query}");
        assert!(content(&page).contains("Expected an app, because payments are searched by app"), "{query}");
    }
    let none = viewer.get("/console/topups?app_id=nope").await;
    assert!(none.status == 404 && none.body.contains("no app nope"), "{}", none.body);
}

/// Rule: the first page leads to payments that wait, and a metric counts them.
#[tokio::test(flavor = "multi_thread")]
async fn payments_that_wait_are_on_the_first_page() {
    let (till, app) = till_and_app().await;
    let admin = till.browser(Role::Admin).await;
    assert!(!content(&admin.get("/console").await).contains("Payments that wait"));
    keep_unmatched(&till, &app, "stripe", "pi_1").await;
    assert!(content(&admin.get("/console").await).contains("Payments that wait: 1"));
    let metrics = Request::get("/metrics").send(till.operator_address).await;
    assert!(metrics.body.contains("\nminitill_unmatched_payments 1\n"), "{}", metrics.body);
}

/// Rule 19.1.2 and 19.1.4: the page shows each version, and takes a new list. A wrong one changes nothing, and each of
/// its lines is named.
#[tokio::test(flavor = "multi_thread")]
async fn prices_are_shown_with_their_versions_and_set() {
    let (till, _) = till_and_app().await;
    let developer = till.browser(Role::Developer).await;
    let page = developer.get("/console/apps/a1/prices").await;
    assert_eq!((page.status, faults(&page.body)), (200, Vec::new()));
    assert_eq!(rows(&page.body), [["gems60", "60 gems", "6.00 CNY", "60", "6", "yes"]]);
    let list = format!("{HEADING}\ngems60,CNY,700,60,6,60 gems,true\ncoins,JPY,120,0,12,{HOSTILE},false\n");
    let wrong = format!("{HEADING}\ngems60,cny,600,60,6,60 gems,true\ngems6,CNY,0,6,0,6 gems,true\n");
    let refused = developer.post("/console/apps/a1/prices", &[("list", &wrong)]).await;
    assert_eq!((refused.status, faults(&refused.body)), (400, Vec::new()));
    for words in [
        "line 2: currency: expected a code of ISO 4217 in capitals, such as CNY or USD, got &#34;cny&#34;",
        "line 3: amount: expected an integer from 1 to 1000000000000, got &#34;0&#34;",
    ] {
        assert!(content(&refused).contains(words), "{words}: {}", content(&refused));
    }
    let many = format!("{HEADING}\n{}", "x\n".repeat(300));
    let refused = developer.post("/console/apps/a1/prices", &[("list", &many)]).await;
    let words = content(&refused);
    assert!(words.contains("line 101: ") && !words.contains("line 102: "), "{words}");
    assert!(words.contains("a list without faults; 200 more are not named"), "{words}");
    let csrf = developer.csrf_token().await;
    let chinese =
        Request::post("/console/apps/a1/prices").header("origin", ORIGIN).header("accept-language", "zh");
    let chinese = developer.send(chinese.body(form(&[("csrf", &csrf), ("list", &wrong)]))).await;
    assert!(content(&chinese).contains("第 2 行"), "{}", content(&chinese));

    let set = developer.post("/console/apps/a1/prices", &[("list", &list)]).await;
    assert_eq!(
        (set.status, set.header("location")),
        (303, Some("/console/apps/a1/prices?done=set")),
        "{}",
        set.body
    );
    let page = developer.get("/console/apps/a1/prices").await;
    assert_eq!(faults(&page.body), Vec::<String>::new());
    assert_eq!(rows(&page.body)[0][2..4], ["120 JPY", "0"]);
    assert_eq!(rows(&page.body)[1][2], "7.00 CNY");
    let first = developer.get("/console/apps/a1/prices?version=1").await;
    assert!(content(&first).contains("A newer version counts now."));
    assert_eq!(rows(&first.body)[0][2], "6.00 CNY");
    assert_eq!(developer.get("/console/apps/a1/prices?version=3").await.status, 404);
    // What the form holds can be sent as it is.
    let viewer = till.browser(Role::Viewer).await;
    assert_eq!(viewer.post("/console/apps/a1/prices", &[("list", &list)]).await.status, 403);
    assert!(!viewer.get("/console/apps/a1/prices").await.body.contains("<textarea"));
    till.assert_audit_clean().await;
}

/// Rule 8.6.55: finance sees the money of a month and the unused coins of a moment, on pages and as files.
#[tokio::test(flavor = "multi_thread")]
async fn finance_sees_money_and_unused_coins() {
    let (till, app) = till_and_app().await;
    let finance = till.browser(Role::Finance).await;
    let nothing = finance.get("/console/reports/topups?app_id=a1").await;
    assert!(content(&nothing).contains("No payment was credited, and no refund was carried out."));
    for id in ["pi/1 2", "pi_2"] {
        keep_unmatched(&till, &app, "stripe", id).await;
    }
    let fields = [("action", "player"), ("open_id", "o1"), ("product_id", "gems60"), ("reason", "call")];
    let settle = "/console/apps/a1/topups/stripe/pi%2F1%202/settlement";
    assert_eq!(till.browser(Role::Admin).await.post(settle, &fields).await.status, 303);
    till.execute(
        "UPDATE topup_payments SET credited_at = CASE WHEN credited_at IS NOT NULL THEN timestamptz '2026-10-20T15:50Z' END, created_at = '2026-10-20T15:50Z'",
    )
    .await;
    till.execute("UPDATE ledger_entries SET at = '2026-10-20T15:50Z'").await;

    let of = "app_id=a1&month=2026-10";
    let page = finance.get(&format!("/console/reports/topups?{of}")).await;
    assert_eq!((page.status, faults(&page.body)), (200, Vec::new()));
    for words in [
        "1 payment of 6.00 CNY waits for an operator and is in no row.",
        "Day Payments Money Fees Refunded Charged coins Gifted coins 2026-10-20 1 6.00 CNY 0.00 CNY 0.00 CNY 60 6 \
         Sum CNY 1 6.00 CNY 0.00 CNY 0.00 CNY 60 6",
    ] {
        assert!(content(&page).contains(words), "{words}: {}", content(&page));
    }
    let by = finance.get(&format!("/console/reports/topups?{of}&group=os")).await;
    assert!(content(&by).contains("Gifted coins \u{2013} 1 6.00 CNY"), "{}", content(&by));
    let by = finance.get(&format!("/console/reports/topups?{of}&group=provider")).await;
    assert!(content(&by).contains(" Payment provider Payments Money Fees "), "{}", content(&by));
    let file = "/console/reports/topups.csv?app_id=a1&month=2026-10&group=day";
    assert!(page.body.contains(&file.replace('&', "&#38;")), "{}", page.body);
    let csv = finance.get(file).await;
    let expected = "day,currency,payments,amount,fee,refunded,charge,bonus\n2026-10-20,CNY,1,600,0,0,60,6\n";
    assert_eq!(csv.body, expected);

    let page = finance.get("/console/reports/unused?app_id=a1").await;
    assert_eq!((page.status, faults(&page.body)), (200, Vec::new()));
    let words = "10 CNY 60 6.00 CNY Without a price 100 Sum CNY 60 6.00 CNY Sum 160";
    assert!(content(&page).contains(words), "{}", content(&page));
    let before = finance.get("/console/reports/unused?app_id=a1&at=2026-10-20T12:00").await;
    assert!(content(&before).contains("Without a price 0 Sum 0"), "{}", content(&before));
    let later = finance.get("/console/reports/unused?app_id=a1&at=2999-01-01T00:00").await;
    assert_eq!(later.status, 400);
    let words = " Expected a moment that has been, or none for now.";
    assert!(content(&later).contains(words), "{}", content(&later));
    let csv = finance.get("/console/reports/unused.csv?app_id=a1").await;
    assert_eq!(csv.body, "currency,price,unused,money\nCNY,10,60,600\nwithout_price,,100,\ntotal,,160,\n");
    let book = finance.get("/console/reports/unused.xlsx?app_id=a1").await;
    assert_eq!(sheet_lines(&book.bytes, "Unused coins"), ["CNY\t10\t#60\t#600"]);
    assert_eq!(sheet_lines(&book.bytes, "Sums by currency"), ["CNY\t#60\t#600"]);
    let book = finance.get(&format!("/console/reports/topups.xlsx?{of}&group=product_id")).await;
    assert_eq!(sheet_lines(&book.bytes, "Top-ups"), ["gems60\tCNY\t#1\t#600\t#0\t#0\t#60\t#6"]);
    let refused = finance.get("/console/reports/unused.csv?app_id=a1&at=2999-01-01T00:00").await;
    assert_eq!(refused.status, 400);
    assert_eq!(till.browser(Role::Support).await.get("/console/reports/unused?app_id=a1").await.status, 403);
}

/// Rule 8.6.55: of several apps the pages ask for one. The first would look as if there were no money.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_money_ask_for_the_app() {
    let (till, _) = till_and_app().await;
    let finance = till.browser(Role::Finance).await;
    let income = "/console/reports/topups?month=2026-10";
    let nothing = "No payment was credited, and no refund was carried out.";
    assert!(content(&finance.get(income).await).contains(nothing), "the only app is chosen");
    till.app("a0").await;
    for (page, shown) in [(income, nothing), ("/console/reports/unused", "Without a price 100 Sum 100")] {
        let asks = finance.get(page).await;
        assert_eq!((asks.status, faults(&asks.body)), (200, Vec::new()));
        assert!(content(&asks).ends_with("There are several apps. Choose one: a0 a1"), "{}", content(&asks));
        let chosen = finance.get(&link_called(&asks, "a1").unwrap()).await;
        assert!(content(&chosen).contains(shown), "{}", content(&chosen));
    }
}
