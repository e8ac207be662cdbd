//! Debits and cancels by operators (contract 10.7), on the command line and by the admin API.

use domain::app::Scope;
use serde_json::{Value, json};

use crate::game::Game;
use crate::support::program::Program;
use crate::support::{AppKind, TestApp, TestTill};

/// A player with 40 gifted and 100 charged coins, and an exchange `b1` of 60, gifted first.
async fn till() -> (TestTill, TestApp, Program) {
    let till = TestTill::start().await;
    let app = till.app_like("a1", AppKind { scopes: &Scope::ALL, ..AppKind::default() }).await;
    till.player(&app, "o1", 40, 100).await;
    assert_eq!(Game::new(&app, "o1", "b1", 60).with("pay_priority", 1).send(&till).await.code(), 1);
    let program = Program::on(&till.database_url);
    (till, app, program)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_debit_takes_exactly_what_is_there_once_for_each_ref() {
    let (till, app, program) = till().await;
    let debit = |free: &str, charge: &str, reference: &str| {
        let amounts = ["--free", free, "--charge", charge, "--ref", reference, "--note", "twice"];
        [&["wallet", "debit", "a1", "o1"], &amounts[..]]
            .concat()
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    let words = |words: &[String]| words.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    let run =
        |arguments: Vec<String>| program.json(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let complaint =
        |arguments: Vec<String>| program.complaint(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let first = run(debit("0", "30", "d1"));
    assert_eq!(first, json!({"ref": "d1", "free_balance": 0, "charge_balance": 50, "replayed": false}));
    let again = run(debit("0", "30", "d1"));
    assert_eq!(again, json!({"ref": "d1", "free_balance": 0, "charge_balance": 50, "replayed": true}));
    let age = |sign: char| {
        format!("UPDATE ledger_entries SET at = at {sign} interval '480 hours' WHERE reference = '!d1'")
    };
    till.execute(&age('-')).await;
    assert_eq!(run(debit("0", "30", "d1")), again, "a ref never expires");
    // The chain of hashes covers the time.
    till.execute(&age('+')).await;
    assert_eq!(
        complaint(debit("1", "1", "d2")),
        "minitill: the player has 0 gifted and 50 charged coins\n",
        "{}",
        words(&debit("1", "1", "d2"))
    );
    let used = "minitill: the ref d1 was used for another player or with other amounts\n";
    assert_eq!(complaint(debit("0", "31", "d1")), used);
    assert_eq!(
        complaint(debit("0", "30", "start-o1")),
        used.replace("d1", "start-o1"),
        "a credit has this ref"
    );
    assert_eq!(
        complaint(debit("0", "0", "d2")),
        "minitill: --free and --charge: expected 1 or more in one of them, got 0 and 0\n"
    );
    assert_eq!(till.purses(&app, "o1").await, (0, 50, 3));
    let line = program.json(&["operator-log", "--limit", "1"])["lines"][0].clone();
    assert_eq!(
        (&line["action"], &line["subject"], &line["note"], &line["before"], &line["after"]),
        (
            &json!("wallet.debit"),
            &json!("o1"),
            &json!("twice"),
            &json!({"free_balance": 0, "charge_balance": 80}),
            &json!({"free_balance": 0, "charge_balance": 50, "ref": "d1"})
        )
    );
    till.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_gives_an_exchange_back_by_the_rule_and_the_sum_of_the_game() {
    let (till, app, program) = till().await;
    let give_back = |biz_no: &'static str, amount: &'static str, reference: &'static str| {
        ["wallet", "cancel", "a1", biz_no, "--amount", amount, "--ref", reference]
    };
    let first = program.json(&give_back("b1", "30", "r1"));
    let expected = json!({
        "ref": "r1", "biz_no": "b1", "free_refunded": 10, "charge_refunded": 20, "remaining": 30,
        "free_balance": 10, "charge_balance": 100, "replayed": false,
    });
    assert_eq!(first, expected);
    assert_eq!(program.json(&give_back("b1", "30", "r1"))["replayed"], true);
    let cancel = Game::cancel(&app, "o1", "c1", "b1", 31).send(&till).await;
    cancel.assert_refused(10_000_605, "amount: 30 is left to give back of b1; 31 was asked for");
    assert_eq!(Game::cancel(&app, "o1", "c1", "b1", 20).send(&till).await.code(), 1);
    assert_eq!(program.complaint(&give_back("b1", "11", "r2")), "minitill: 10 is left to give back\n");
    assert_eq!(
        program.complaint(&give_back("b9", "1", "r2")),
        "minitill: there is no exchange b9 of an app a1\n"
    );
    let zero = program.run(&give_back("b1", "0", "r2"));
    let said = String::from_utf8_lossy(&zero.stderr).into_owned();
    assert!(said.contains("expected an integer from 1 to 1000000000000"), "{said}");
    // The ref stands as bizNo in the query of the game, and is no biz_no of its namespace.
    let shown = Game::query(&app, "o1", "b1").send(&till).await.json()["data"].clone();
    let cancels: Vec<(&Value, &Value)> = shown["cancels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cancel| (&cancel["bizNo"], &cancel["amount"]))
        .collect();
    assert_eq!(cancels, [(&json!("r1"), &json!(30)), (&json!("c1"), &json!(20))]);
    assert_eq!(Game::query(&app, "o1", "r1").send(&till).await.code(), 10_000_606);
    assert_eq!(Game::present(&app, "o1", "r1", 1).send(&till).await.code(), 1, "another namespace");
    let exchange = program.json(&["exchange", "show", "a1", "b1"]);
    assert_eq!(
        (&exchange["remaining"], &exchange["cancels"][0]["ref"], &exchange["cancels"][1]["biz_no"]),
        (&json!(10), &json!("r1"), &json!("c1"))
    );
    let after = program.json(&["operator-log", "--limit", "1"])["lines"][0]["after"].clone();
    assert_eq!(
        after,
        json!({"free_balance": 10, "charge_balance": 100, "ref": "r1", "biz_no": "b1", "remaining": 30})
    );
    till.assert_audit_clean().await;
}

/// Eight operators and eight games at once: the parts never exceed the exchange.
#[tokio::test(flavor = "multi_thread")]
async fn operators_and_games_that_give_back_at_once_never_exceed_the_exchange() {
    let (till, app, _) = till().await;
    let mut tries = tokio::task::JoinSet::new();
    for index in 0..8 {
        let (request, address) =
            (Game::cancel(&app, "o1", &format!("c{index}"), "b1", 7).request(), till.address);
        tries.spawn(async move { request.send(address).await.code() == 1 });
        let (store, app_id) = (till.store.clone(), app.id.clone());
        tries.spawn(async move {
            let give_back = domain::operation::wallet::GiveBack {
                biz_no: domain::ids::BizNo::parse("b1").unwrap(),
                amount: domain::wallet::Amount::parse("7").unwrap(),
                reference: domain::ids::CreditRef::parse(&format!("r{index}")).unwrap(),
                note: String::new(),
            };
            let operator = crate::support::operator();
            match store.change_wallet(&operator, &app_id, give_back).await {
                Ok(report) => !report.is_replayed(),
                Err(store::OperationError::Refused(_)) => false,
                Err(store::OperationError::Store(error)) => panic!("{error}"),
            }
        });
    }
    let given = tries.join_all().await.into_iter().filter(|given| *given).count();
    assert_eq!(given, 8, "8 times 7 of 60");
    assert_eq!(till.purses(&app, "o1").await, (40 - 4, 100, 2 + 8));
    till.assert_audit_clean().await;
}
