//! The signature check: it names the mistake, and shows neither a key nor a signature.

use domain::console_user::Role;
use domain::signature::{Mistake, PayKey};

use crate::game::Game;
use crate::support::{AppKind, TestApp, TestTill};

const PAGE: &str = "/console/signature-check";

/// The page about a request that a viewer pasted.
async fn examine(till: &TestTill, request: &str) -> String {
    let viewer = till.browser(Role::Viewer).await;
    let answer = viewer.post(PAGE, &[("request", request)]).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

/// A live app and a sandbox one, each with a player.
async fn apps(till: &TestTill) -> [TestApp; 2] {
    let sandbox = till.app_like("sandbox", AppKind { sandbox: true, ..AppKind::default() }).await;
    let apps = [till.app("live").await, sandbox];
    for app in &apps {
        till.player(app, "o1", 0, 10).await;
    }
    apps
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_signature_is_told_with_the_key_that_made_it() {
    let till = TestTill::start().await;
    let [app, _] = apps(&till).await;
    let game = Game::new(&app, "o1", "B1", 5);
    let page = examine(&till, &game.body()).await;
    for fact in
        ["made with the current pay key", "The token is valid.", "All fields are valid.", "That is enough."]
    {
        assert!(page.contains(fact), "{fact} in {page}");
    }
    assert_eq!(till.purses(&app, "o1").await, (0, 10, 1), "nothing is deducted");
    till.rotate_pay_key(&app).await;
    // The app is remembered for two seconds.
    till.clock.advance(std::time::Duration::from_secs(3));
    assert!(examine(&till, &game.body()).await.contains("made with the previous pay key"));
    till.rotate_pay_key(&app).await;
    till.clock.advance(std::time::Duration::from_secs(3));
    assert!(examine(&till, &game.body()).await.contains(&*Mistake::RetiredPayKey.english()));
}

/// Rule: one implementation names the mistake, for live apps too; fields may come a line each.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_signature_is_told_with_its_mistake() {
    let till = TestTill::start().await;
    for app in apps(&till).await {
        let game = Game::new(&app, "o1", "B1", 5);
        let secret = game.clone().keyed(&app.secret);
        assert!(examine(&till, &secret.body()).await.contains(&*Mistake::AppSecretAsKey.english()));
        let unsorted = "open_id=o1&app_id=".to_owned() + app.id.as_str();
        let sign = PayKey::new(app.pay_key.clone()).sign(&format!("{unsorted}&amount=5"));
        let lines = format!("open_id=o1\r\napp_id={}\r\namount=5\r\nsign={sign}\r\n", app.id);
        assert!(examine(&till, &lines).await.contains(&*Mistake::NotSorted.english()));
        let other = PayKey::new(till.app_like("other", AppKind::default()).await.pay_key);
        let by_other = game.clone().with("sign", other.sign(&game.string_to_sign()));
        assert!(examine(&till, &by_other.body()).await.contains(&*Mistake::AnotherAppsKey.english()));
        till.execute("DELETE FROM pay_keys WHERE app_id = 'other'").await;
        till.execute("DELETE FROM apps WHERE app_id = 'other'").await;
        let page = examine(&till, &game.clone().with("sign", "0".repeat(64)).body()).await;
        assert!(page.contains("no known mistake explains it") && page.contains("String to sign"));
        assert!(
            examine(&till, &game.without("sign").with("sign", "").body())
                .await
                .contains("refused with 100200114")
        );
    }
}

/// Rule: the page compares what the game server signed, and names the first byte that differs.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_signed_is_compared_byte_for_byte() {
    let till = TestTill::start().await;
    let [app, _] = apps(&till).await;
    let game = Game::new(&app, "o1", "B1", 5);
    let viewer = till.browser(Role::Viewer).await;
    let right = game.string_to_sign();
    for (signed, fact) in [
        (right.clone(), "Your string is the same, byte for byte.".to_owned()),
        (format!("{right}\r\n"), "Your string is the same, byte for byte.".to_owned()),
        (right.replace("amount=5", "amount=6"), "Your string differs from byte 8 on.".to_owned()),
        (format!("{right}&"), format!("Your string differs from byte {} on.", right.len() + 1)),
    ] {
        let answer = viewer.post(PAGE, &[("request", &*game.body()), ("signed", &signed)]).await;
        assert!(answer.body.contains(&fact), "{fact} in {}", answer.body);
    }
}

/// Rule: whatever is pasted, no page holds the signature that would match, nor a key, nor what came
/// as a secret.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_no_signature_and_no_key() {
    let till = TestTill::start().await;
    for app in apps(&till).await {
        let game = Game::new(&app, "o1", "B1", 5);
        let right = PayKey::new(app.pay_key.clone()).sign(&game.string_to_sign());
        let nearly = format!("{}{}", &right[..63], if right.ends_with('0') { '1' } else { '0' });
        for sign in ["", "x", &nearly, &right, &right.to_uppercase()] {
            for request in [game.clone().with("sign", sign).body(), game.string_to_sign().replace('&', "\n")]
            {
                let page = examine(&till, &request).await.to_lowercase();
                for secret in [&right, &nearly, &app.pay_key, &app.secret, &app.token] {
                    assert!(!page.contains(&secret.to_lowercase()), "{sign}: {secret} in {page}");
                }
            }
        }
    }
}

/// The other obstacles of an exchange, and hostile text as text.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_goes_on_to_fields_biz_no_and_balances() {
    let till = TestTill::start().await;
    let [app, _] = apps(&till).await;
    let game = Game::new(&app, "o1", "B1", 5);
    for (request, fact) in [
        (game.clone().with("amount", "0").body(), "amount: expected an integer from 1 to"),
        (game.clone().with("open_id", "o9").body(), "has no such player"),
        (game.clone().with("amount", "11").body(), "not enough. The request is refused with 10000601"),
        (game.clone().with("ts", "1700000000").body(), "refused with 10000604"),
        (game.clone().with("access_token", "t").body(), "The app has no such token."),
        (game.clone().with("app_id", "none").body(), "There is no such app"),
        ("a=1&a=2".to_owned(), "a: expected once, given twice"),
        (String::new(), "app_id"),
    ] {
        let page = examine(&till, &request).await;
        assert!(page.contains(fact), "{fact} in {page}");
    }
    let hostile = examine(&till, "app_id=live&product_name=%3Cscript%3E&%3Cb%3E=%3Ci%3E").await;
    for raw in ["<script>", "<b>", "<i>"] {
        assert!(!hostile.contains(raw), "{raw} in {hostile}");
    }
    assert!(hostile.contains("product_name=&#60;script&#62;"));
    assert_eq!(game.send(&till).await.code(), 1);
    assert!(examine(&till, &game.body()).await.contains("It was used at "));
    let viewer = till.browser(Role::Viewer).await;
    let other = [("request", &*game.body()), ("app_id", "sandbox"), ("address", "GET /x")];
    let page = viewer.post(PAGE, &other).await.body;
    assert!(page.contains("The request names another app."), "{page}");
    assert!(
        page.contains(
            "This is not the address of a call of the wallet, POST /api/&#60;payment_segment&#62;/minigame/pay"
        ),
        "{page}"
    );
}
