//! Credits and debits in the console: a form, a preview, and the change itself. (`exchanges.rs` has what is
//! given back.)

use domain::app::Scope;
use domain::console_user::Role;

use super::reading::{content, link_called, rows, value_of};
use crate::game::Game;
use crate::support::console::{ESCAPED, HOSTILE};
use crate::support::{AppKind, TestApp, TestTill};

const PLAYER: &str = "/console/apps/a1/players/o1";

/// A player with 100 gifted and 1 500 charged coins, who has spent 550, gifted first: 100 gifted and 450 charged.
pub(super) async fn spender(till: &TestTill) -> TestApp {
    let app = till.app_like("a1", AppKind { scopes: &Scope::ALL, ..AppKind::default() }).await;
    till.player(&app, "o1", 100, 1500).await;
    assert_eq!(Game::new(&app, "o1", "B1", 550).with("pay_priority", 1).send(till).await.code(), 1);
    app
}

/// Nothing is done before the last step, and pressing twice credits once and says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_credit_is_shown_before_it_is_made_and_made_once() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    let admin = till.browser(Role::Admin).await;
    let form = admin.get(&format!("{PLAYER}/credit")).await;
    let reference = value_of(&form, "reference");
    assert!(reference.starts_with("console-") && reference.len() == 24, "{reference}");
    assert_ne!(value_of(&admin.get(&format!("{PLAYER}/credit")).await, "reference"), reference);
    let fields =
        [("gifted", "1000"), ("charged", ""), ("reference", reference.as_str()), ("reason", HOSTILE)];
    let check = admin.post(&format!("{PLAYER}/credit/check"), &fields).await;
    assert_eq!(rows(&check.body), [["Gifted", "0", "+1_000", "1_000"], ["Charged", "1_050", "0", "1_050"]]);
    assert!(check.body.contains("Nothing has changed yet.") && check.body.contains(ESCAPED));
    assert_eq!(till.purses(&app, "o1").await, (0, 1050, 2));
    let kept: Vec<(&str, String)> =
        ["gifted", "charged", "reference"].map(|name| (name, value_of(&check, name))).into();
    assert_eq!(kept, [("gifted", "1000".into()), ("charged", "0".into()), ("reference", reference.clone())]);

    let sent = admin.post(&format!("{PLAYER}/credit"), &fields).await;
    let expected = format!("{PLAYER}?changed={reference}");
    assert_eq!((sent.status, sent.header("location")), (303, Some(expected.as_str())));
    assert_eq!(till.purses(&app, "o1").await, (1000, 1050, 3));
    let done = admin.get(&expected).await;
    let notice =
        format!("Credited 1\u{202f}000 gifted and 0 charged coins with the reference {reference} (entry 3).");
    assert!(done.body.contains(&format!("role=\"status\">{notice}</p>")), "{}", done.body);
    assert!(done.body.contains(ESCAPED) && !done.body.contains("<img"), "the reason stands in the ledger");

    let pressed_again = admin.post(&format!("{PLAYER}/credit"), &fields).await;
    let again = format!("{expected}&again=1");
    assert_eq!((pressed_again.status, pressed_again.header("location")), (303, Some(again.as_str())));
    assert_eq!(till.purses(&app, "o1").await, (1000, 1050, 3));
    let told = admin.get(&again).await.body;
    assert!(told.contains("role=\"status\">Nothing was changed now. Credited 1\u{202f}000 gifted"), "{told}");
    let check = admin.post(&format!("{PLAYER}/credit/check"), &fields).await;
    assert!(check.body.contains("This credit was already made at") && !content(&check).contains("o1 now"));
    assert_eq!(till.number("SELECT count(*) FROM operator_log WHERE action = 'wallet.credit'").await, 2);
    let line =
        "SELECT count(*) FROM operator_log WHERE action = 'wallet.credit' AND operator_kind = 'console'";
    assert_eq!(till.number(line).await, 1);
    till.assert_audit_clean().await;
}

/// The same steps for a debit. Every word of its pages.
#[tokio::test(flavor = "multi_thread")]
async fn a_debit_is_shown_before_it_is_made_and_made_once() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    let admin = till.browser(Role::Admin).await;
    let form = admin.get(&format!("{PLAYER}/debit")).await;
    assert!(value_of(&form, "reference").starts_with("console-"));
    assert_eq!(
        content(&form),
        "App: a1 . Balances now: 0 gifted, 1_050 charged. The next page shows a preview. Nothing changes before you \
         confirm it. Gifted coins to take A whole number up to 0. Empty means 0. Charged coins to take A whole number \
         up to 1_050. Empty means 0. Reason The ledger and the operator log show it. Reference One reference takes \
         effect only once. This one was generated for you. If you type the number of your support case, nobody can \
         settle that case twice. Preview Back to the player The ledger keeps every debit. A credit gives the coins back."
    );
    let fields = [("gifted", ""), ("charged", "50"), ("reference", "case 1"), ("reason", "credited twice")];
    let check = admin.post(&format!("{PLAYER}/debit/check"), &fields).await;
    let kept = "App a1 Player o1 Reference case 1 Reason credited twice";
    let end =
        "Back to the form Back to the player The ledger keeps every debit. A credit gives the coins back.";
    assert_eq!(
        content(&check),
        format!(
            "This is a preview. Nothing has changed yet. Currency Balance now Change Balance after Gifted 0 0 0 \
             Charged 1_050 \u{2212}50 1_000 {kept} Debit o1 now {end} If the balances change before you confirm, the \
             new balances count."
        )
    );
    assert!(check.body.contains("id=\"back\" href=\"/console/apps/a1/players/o1/debit\">"), "{}", check.body);
    assert_eq!(till.purses(&app, "o1").await, (0, 1050, 2));
    let kept_fields = ["gifted", "charged", "reference", "reason"].map(|name| value_of(&check, name));
    assert_eq!(kept_fields, ["0", "50", "case 1", "credited twice"]);

    for (query, told) in [
        ("?changed=case+1", "Debited 0 gifted and 50 charged coins with the reference case 1 (entry 3)."),
        (
            "?changed=case+1&again=1",
            "Nothing was changed now. Debited 0 gifted and 50 charged coins with the reference case 1 before (entry 3).</p>",
        ),
    ] {
        let sent = admin.post(&format!("{PLAYER}/debit"), &fields).await;
        let location = format!("{PLAYER}{query}");
        assert_eq!((sent.status, sent.header("location")), (303, Some(location.as_str())));
        let page = admin.get(&location).await;
        assert!(page.body.contains(&format!("role=\"status\">{told}")), "{}", page.body);
        assert_eq!(till.purses(&app, "o1").await, (0, 1000, 3));
    }
    let check = admin.post(&format!("{PLAYER}/debit/check"), &fields).await;
    let shown = content(&check);
    let (begin, rest) = shown.split_at("This debit was already made at ".len());
    assert_eq!(begin, "This debit was already made at ");
    let (_, rest) = rest.split_once(" (").map(|(at, rest)| (at, format!("({rest}"))).unwrap();
    assert_eq!(
        rest,
        format!(
            "(entry 3). Nothing happens if you send it again. For another debit, go back and type a new reference. \
             {kept} {end}"
        )
    );
    let line = "SELECT count(*) FROM operator_log WHERE action = 'wallet.debit' AND operator_kind = 'console' \
                AND note = 'credited twice'";
    assert_eq!(till.number(line).await, 1);
    till.assert_audit_clean().await;
}

/// Rule 8.3.2: a credit registers a player only with the box, which is there for nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_box_must_be_ticked_to_credit_an_unknown_player() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    let admin = till.browser(Role::Admin).await;
    let search = "/console/players?app_id=a1&open_id=new";
    let link = link_called(&admin.get(search).await, "Credit the unknown player new").unwrap();
    assert_eq!(link, "/console/apps/a1/players/new/credit");
    let viewers = till.browser(Role::Viewer).await.get(search).await;
    assert_eq!(link_called(&viewers, "Credit the unknown player new"), None);
    let tick = r#"name="create" type="checkbox" value="yes" required"#;
    let form = admin.get(&link).await;
    assert!(form.body.contains(tick));
    // An unknown player has no page yet.
    assert_eq!(link_called(&form, "Back to the player").unwrap(), search);
    for form in ["credit", "debit"] {
        assert!(!admin.get(&format!("{PLAYER}/{form}")).await.body.contains(tick));
    }

    let fields = [("gifted", "5"), ("reference", "case-1"), ("reason", "sorry"), ("create", "yes")];
    for page in ["/check", ""] {
        let refused = admin.post(&format!("{link}{page}"), &fields[..3]).await;
        assert_eq!(refused.status, 404);
        let words = "There is no player new of an app a1.";
        assert!(refused.body.contains(words), "{}", refused.body);
        assert!(refused.body.contains("so does a credit that registers the player"), "{}", refused.body);
    }
    assert_eq!(till.number("SELECT count(*) FROM wallets").await, 1);
    let check = admin.post(&format!("{link}/check"), &fields).await;
    assert_eq!((check.status, value_of(&check, "create").as_str()), (200, "yes"));
    assert_eq!(till.number("SELECT count(*) FROM wallets").await, 1);
    assert_eq!(admin.post(&link, &fields).await.status, 303);
    assert_eq!(till.purses(&app, "new").await, (5, 0, 1));
    till.assert_audit_clean().await;
}

/// What a credit and a debit cannot be: nothing is done, and the page says why.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_cannot_be_made_is_refused_in_words() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    till.player(&app, "o2", 7, 0).await;
    let admin = till.browser(Role::Admin).await;
    let good = [("gifted", "5"), ("charged", ""), ("reference", "case-1"), ("reason", "sorry")];
    assert_eq!(admin.post(&format!("{PLAYER}/credit"), &good).await.status, 303);
    let with = |name: &'static str, value: &'static str| {
        good.map(|(known, text)| (known, if known == name { value } else { text }))
    };
    let taken = ">The ref case-1 was used for another player or with other amounts.</p>";
    let refused = async |path: &str, fields: &[(&str, &str)], words: &str| {
        for page in [format!("{path}/check"), path.to_owned()] {
            let answer = admin.post(&page, fields).await;
            assert_eq!(answer.status, 400, "{page} {fields:?}");
            assert!(answer.body.contains(words), "{page} {fields:?}: {}", answer.body);
        }
    };
    for (change, verb) in [("credit", "add"), ("debit", "take")] {
        let path = format!("{PLAYER}/{change}");
        let coins = |purse: &str| {
            format!(
                "{purse} coins to {verb}: expected a whole number of coins from 0 to 9223372036854775807, got "
            )
        };
        let (gifted, charged) = (coins("Gifted"), coins("Charged"));
        let whole = format!("{gifted}&#34;99999999999999999999&#34;.");
        let none = format!(">Type the gifted coins or the charged coins to {verb}. Both are empty or 0.</p>");
        for (fields, words) in [
            (with("gifted", "0"), none.as_str()),
            (with("gifted", ""), &none),
            (with("gifted", "-5"), &gifted),
            (with("gifted", "1.5"), &gifted),
            (with("charged", "1 000"), &charged),
            (with("gifted", "99999999999999999999"), &whole),
            (with("gifted", "6"), taken),
            (with("reference", ""), "Reference: expected 1 to 128 bytes"),
            (with("reason", ""), "Reason: expected a reason of 1 to 500 characters"),
        ] {
            refused(&path, &fields, words).await;
        }
    }
    let too_much = [("gifted", "9223372036854775807"), ("reference", "case-2"), ("reason", "sorry")];
    let full = ">A balance would be more than 9223372036854775807.</p>";
    refused(&format!("{PLAYER}/credit"), &too_much, full).await;
    let others = "/console/apps/a1/players/o2";
    refused(&format!("{others}/credit"), &good, taken).await;
    // A debit is no credit, even of the same amounts.
    refused(&format!("{PLAYER}/debit"), &good, taken).await;
    for (gifted, charged) in [("8", "0"), ("1", "1"), ("9223372036854775807", "9223372036854775807")] {
        let below_zero = [("gifted", gifted), ("charged", charged), ("reference", "case-3"), ("reason", "x")];
        let words = ">The player has 7 gifted and 0 charged coins.</p>";
        refused(&format!("{others}/debit"), &below_zero, words).await;
    }
    assert_eq!(till.purses(&app, "o1").await, (5, 1050, 3));
    assert_eq!(till.purses(&app, "o2").await, (7, 0, 1));
    assert_eq!(till.number("SELECT count(*) FROM operator_log WHERE action = 'wallet.debit'").await, 0);
}

/// A notice cannot be made up by an address: only what the store holds of this player is said.
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_is_not_made_up_by_an_address() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    till.player(&app, "o2", 0, 0).await;
    let viewer = till.browser(Role::Viewer).await;
    for query in ["changed=none", "changed=start-o2", "changed=%3Cb%3E&again=1"] {
        let page = viewer.get(&format!("{PLAYER}?{query}")).await;
        assert!(page.status == 200 && !page.body.contains("role=\"status\""), "{query}");
    }
}
