//! The limit of what the role support gives back of an exchange (contract 8.6.38).

use domain::console_user::Role;
use domain::rights::Rights;
use serde_json::json;

use crate::admin::{Caller, assert_problem};
use crate::game::Game;
use crate::support::{TestApp, TestTill};

const EXCHANGE: &str = "/console/apps/a1/exchanges/B1";

async fn spender(max: i64) -> (TestTill, TestApp) {
    let till = TestTill::start_with(|config| config.console.support_give_back_max = max).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 5000).await;
    assert_eq!(Game::new(&app, "o1", "B1", 2000).send(&till).await.code(), 1);
    (till, app)
}

/// Rule 8.6.38 in the console: up to the limit and not above, in the preview and in the change, all cancels together.
#[tokio::test(flavor = "multi_thread")]
async fn support_gives_back_up_to_the_limit_of_an_exchange() {
    let (till, app) = spender(1000).await;
    let support = till.browser(Role::Support).await;
    assert!(support.get(EXCHANGE).await.body.contains("Give this exchange back"));
    let above = "The role support gives back at most 1000 coins of an exchange.";
    let above_rest = "The role support gives back at most 1000 coins of an exchange; 600 were given back already, and \
                      only an admin gives back more.";
    let send = async |path: &str, amount: &str, reference: &str| {
        let fields = [("amount", amount), ("reference", reference), ("reason", "late")];
        support.post(&format!("{EXCHANGE}/give-back{path}"), &fields).await
    };
    // The preview refuses with the words of the change, also where two things stand in its way.
    for path in ["/check", ""] {
        let refused = send(path, "2001", "r1").await;
        let words = ">2000 is left to give back.</p>";
        assert!(refused.status == 400 && refused.body.contains(words), "{path}: {}", refused.body);
    }
    for path in ["/check", ""] {
        let refused = send(path, "1001", "r1").await;
        assert!(refused.status == 400 && refused.body.contains(above), "{path}: {}", refused.body);
    }
    assert_eq!(till.purses(&app, "o1").await, (0, 3000, 2));
    assert_eq!(send("/check", "600", "r1").await.status, 200);
    assert_eq!(send("", "600", "r1").await.status, 303);
    // What was given before counts, whoever gave it; a repeat of the same change is no other one.
    for path in ["/check", ""] {
        let refused = send(path, "401", "r2").await;
        assert!(refused.status == 400 && refused.body.contains(above_rest), "{path}: {}", refused.body);
    }
    assert_eq!(send("", "600", "r1").await.status, 303);
    let form = support.get(&format!("{EXCHANGE}/give-back")).await;
    let hint = "A whole number from 1 to 400. Only an admin gives back more of this exchange.";
    assert!(form.body.contains("name=\"amount\" value=\"400\"") && form.body.contains(hint), "{}", form.body);
    assert_eq!(send("", "400", "r2").await.status, 303);
    assert_eq!(till.purses(&app, "o1").await, (0, 4000, 4));
    let form = support.get(&format!("{EXCHANGE}/give-back")).await;
    let nothing_left = "; 1000 were given back already, and only an admin gives back more.";
    assert!(form.status == 400 && form.body.contains(nothing_left), "{}", form.body);
    // An admin has no limit.
    let admin = till.browser(Role::Admin).await;
    let form = admin.get(&format!("{EXCHANGE}/give-back")).await;
    assert!(form.body.contains("name=\"amount\" value=\"1000\""), "{}", form.body);
    let fields = [("amount", "1000"), ("reference", "r3"), ("reason", "late")];
    assert_eq!(admin.post(&format!("{EXCHANGE}/give-back"), &fields).await.status, 303);
    assert_eq!(till.purses(&app, "o1").await, (0, 5000, 5));
    till.assert_audit_clean().await;
}

/// Rule 8.6.38 in the admin API: of many cancels at the same time those within the limit are made, and no more.
#[tokio::test(flavor = "multi_thread")]
async fn cancels_at_the_same_time_do_not_pass_the_limit() {
    let (till, app) = spender(1000).await;
    let support = Caller::of(&till, "desk", Rights::from(Role::Support)).await;
    let path = "/apps/a1/exchanges/B1/cancels";
    let refused = support.post(path, "k", json!({"amount": 1001, "ref": "r"})).await;
    assert_problem(
        &refused,
        403,
        "forbidden",
        "the role support gives back at most 1000 coins of an exchange",
    );
    let sent = (0..8).map(|number| {
        let support = &support;
        async move {
            let body = json!({"amount": 300, "ref": format!("r{number}")});
            support.post(path, &format!("k{number}"), body).await.status
        }
    });
    let mut statuses = futures_util::future::join_all(sent).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 403, 403, 403, 403, 403]);
    assert_eq!(till.purses(&app, "o1").await, (0, 3900, 5));
    till.assert_audit_clean().await;
}
