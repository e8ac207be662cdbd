//! Random histories of players with top-ups, beside a model that knows each charged coin (contract 10, 17 and 19). More of them:
//!
//! ```sh
//! MINITILL_HISTORIES=10000 cargo test --release --test api -- topup_histories
//! ```

#[path = "../../crates/domain/tests/histories/coins.rs"]
mod coins;

use std::env;

use domain::app::Scope;
use domain::console_user::Role;
use futures_util::StreamExt as _;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use self::coins::{Coins, PRODUCTS, Step, Told, step};
use crate::admin::Caller;
use crate::game::Game;
use crate::support::program::Program;
use crate::support::{AppKind, TestApp, TestTill};
use crate::topups::{sell_all, tell};

/// Histories of the test.
const HISTORIES: u64 = 40;
/// Histories at the same time.
const AT_ONCE: usize = 8;

/// A player, the calls about them, and what the model has of them.
struct History<'a> {
    till: &'a TestTill,
    app: &'a TestApp,
    admin: &'a Caller<'a>,
    caller: &'a Caller<'a>,
    open_id: String,
    coins: Coins,
    /// The id of each payment, and the order that it pays.
    told: Vec<(String, Option<String>)>,
    calls: usize,
}

impl History<'_> {
    fn number(&mut self, kind: char) -> String {
        self.calls += 1;
        format!("{kind}{}{}", self.open_id, self.calls)
    }

    async fn play(&mut self, step: &Step) {
        match *step {
            Step::Credit(free, charge) => self.move_coins("credits", free, charge).await,
            Step::Debit(free, charge) => self.move_coins("debits", free, charge).await,
            Step::Order(product) => self.order(product).await,
            Step::Direct(product) => self.pay_directly(product).await,
            Step::PayOrder(of) => self.pay_order(of).await,
            Step::Exchange(seed, gifted_first) => self.exchange(seed, gifted_first).await,
            Step::Cancel(of, amount) => self.cancel(of, amount).await,
            Step::Present(amount) => {
                let number = self.number('p');
                let code = self.send(Game::present(self.app, &self.open_id, &number, amount)).await;
                assert_eq!(code, self.coins.present(amount));
            }
            Step::Refund(of, seed, record) => self.refund(of, seed, record).await,
            Step::Freeze | Step::Thaw => self.freeze(matches!(step, Step::Freeze)).await,
        }
    }

    async fn send(&self, game: Game) -> u64 {
        game.send(self.till).await.code()
    }

    async fn move_coins(&mut self, kind: &str, free: i64, charge: i64) {
        if free + charge == 0 {
            return;
        }
        let path = format!("/apps/a1/wallets/{}/{kind}", self.open_id);
        let reference = self.number('r');
        let body = json!({"free": free, "charge": charge, "ref": reference});
        let answer = self.admin.post(&path, &reference, body).await;
        let is_done =
            if kind == "credits" { self.coins.credit(free, charge) } else { self.coins.debit(free, charge) };
        assert_eq!(answer.status < 300, is_done, "{}", answer.body);
    }

    /// Places an order, which money may pay later.
    async fn order(&mut self, product: usize) {
        let (number, id) = (self.number('o'), self.number('i'));
        assert_eq!(self.send(Game::topup(self.app, &self.open_id, &number, PRODUCTS[product].0)).await, 1);
        self.told.push((id, Some(number)));
        self.coins.told.push(Told::new(PRODUCTS[product]));
    }

    async fn pay_directly(&mut self, product: usize) {
        let id = self.number('i');
        self.told.push((id, None));
        self.coins.told.push(Told::new(PRODUCTS[product]));
        self.pay(self.coins.told.len() - 1).await;
    }

    async fn pay_order(&mut self, of: usize) {
        if !self.coins.told.is_empty() {
            self.pay(of % self.coins.told.len()).await;
        }
    }

    /// Tells of a payment, perhaps again.
    async fn pay(&mut self, of: usize) {
        let (told, (id, order)) = (&self.coins.told[of], &self.told[of]);
        let mut body = json!({
            "provider": "stripe", "provider_order_id": id, "currency": "CNY", "amount": told.amount,
            "paid_at": "2026-11-21T08:00:00Z",
        });
        if let Some(number) = order {
            body["biz_no"] = number.as_str().into();
        } else {
            body["open_id"] = self.open_id.as_str().into();
            body["product_id"] = told.product.into();
        }
        let answer = tell(self.caller, &body).await;
        let is_new = self.coins.pay(of);
        assert_eq!((answer.status, &answer.json()["replayed"]), (200, &json!(!is_new)), "{}", answer.body);
    }

    async fn exchange(&mut self, seed: i64, gifted_first: bool) {
        let amount = self.coins.price_of(seed);
        let number = self.number('b');
        let game =
            Game::new(self.app, &self.open_id, &number, amount).with("pay_priority", u8::from(gifted_first));
        assert_eq!(self.send(game).await, self.coins.exchange(number, amount, gifted_first));
    }

    async fn cancel(&mut self, of: usize, amount: i64) {
        if self.coins.bought.is_empty() {
            return;
        }
        let of = of % self.coins.bought.len();
        let (number, bought) = (self.number('c'), self.coins.bought[of].number.clone());
        let code = self.send(Game::cancel(self.app, &self.open_id, &number, &bought, amount)).await;
        assert_eq!(code, self.coins.cancel(of, amount));
    }

    /// Refunds a part of a payment, which may come later.
    async fn refund(&mut self, of: usize, seed: i64, record: bool) {
        if self.coins.told.is_empty() {
            return;
        }
        let of = of % self.coins.told.len();
        let amount = self.coins.part_of(of, seed);
        let path = format!("/apps/a1/topups/stripe/{}/refunds", self.told[of].0);
        let shortfall = if record { "record" } else { "refuse" };
        let body = json!({
            "refund_id": self.number('f'), "amount": amount, "reason": "r", "shortfall": shortfall,
        });
        let answer = self.admin.send("POST", &path, None, &body).await;
        assert_eq!(answer.status, self.coins.refund(of, amount, record), "{body}: {}", answer.body);
    }

    async fn freeze(&mut self, freezes: bool) {
        let path = format!("/apps/a1/wallets/{}/freezes", self.open_id);
        let answer = if freezes {
            self.admin.post(&path, &self.number('k'), json!({"reason": "r"})).await
        } else {
            self.admin.delete(&path).await
        };
        assert!(answer.status < 300, "{}", answer.body);
        self.coins.is_frozen = freezes;
    }

    /// Purses, debt, and the consumption of each top-up are those of the coins.
    async fn compare(&self) {
        let (coins, app) = (&self.coins, self.app);
        let (free, charge, _) = self.till.purses(app, &self.open_id).await;
        assert_eq!((free, charge), (coins.gifted, coins.in_purse()));
        let balance = Game::balance(app, &self.open_id).send(self.till).await.json();
        let debt = match coins.debt() {
            (0, 0) => Value::Null,
            (free, charge) => json!({"free": free, "charge": charge}),
        };
        assert_eq!(balance["data"]["debt"], debt);
        for (of, _) in coins.told.iter().enumerate().filter(|(_, told)| told.is_paid) {
            let path = format!("/apps/a1/topups/stripe/{}", self.told[of].0);
            let shown = self.admin.get(&path).await.json();
            let owed = |field: &str| -> i64 {
                shown["refunds"].as_array().unwrap().iter().filter_map(|refund| refund[field].as_i64()).sum()
            };
            let owed = [owed("free_owed"), owed("charge_owed")];
            assert_eq!(owed, coins.owed_of(of).map(|owed| i64::try_from(owed).unwrap()), "{shown}");
            let path = format!("{path}/consumption");
            let found = self.admin.get(&path).await.json();
            let exchanges = found["exchanges"].as_array().unwrap().iter();
            let exchanges: Vec<_> = exchanges
                .map(|used| (used["biz_no"].as_str().unwrap(), used["coins"].as_i64().unwrap()))
                .collect();
            let (used, unused) = coins.of_payment(of);
            assert_eq!((&found["used"], &found["unused"]), (&json!(used), &json!(unused)), "{found}");
            assert_eq!(exchanges, coins.exchanges_of(of), "{found}");
        }
    }
}

/// Rules 10.4.5, 17.2, 19.3, 19.5 and 19.6: whatever comes in whatever order, a model that moves one coin at a time
/// says the same. That holds for purses, debt, answers and the consumption of each top-up. The unused coins of all
/// players sum to those.
#[tokio::test(flavor = "multi_thread")]
async fn every_history_agrees_with_its_coins() {
    let till = TestTill::start().await;
    let app = till.app_like("a1", AppKind { scopes: &Scope::ALL, ..AppKind::default() }).await;
    sell_all(&till, &app, &PRODUCTS).await;
    let (admin, caller) = (Caller::admin(&till).await, Caller::new(&till, "payments", Role::Payments).await);
    let histories = env::var("MINITILL_HISTORIES").map_or(HISTORIES, |text| text.parse().unwrap());
    let played = futures_util::stream::iter(0..histories).map(async |seed| {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let steps = prop::collection::vec(step(), 20..60).new_tree(&mut runner).unwrap().current();
        let open_id = format!("h{seed}x");
        till.player(&app, &open_id, 1, 0).await;
        let mut coins = Coins::default();
        coins.credit(1, 0);
        let mut history = History {
            till: &till,
            app: &app,
            admin: &admin,
            caller: &caller,
            open_id,
            coins,
            told: Vec::new(),
            calls: 0,
        };
        for (at, step) in steps.iter().enumerate() {
            println!("history {seed}, step {at}: {step:?}");
            history.play(step).await;
        }
        history.compare().await;
        history.coins
    });
    let coins: Vec<Coins> = played.buffer_unordered(AT_ONCE).collect().await;

    let found = Program::on(&till.database_url).json(&["report", "unused", "a1"]);
    let unused_of = |product: &str| -> i64 { coins.iter().map(|coins| coins.unused_of(product)).sum() };
    for (product, price) in [("a", "10"), ("b", "7/11"), ("d", "333/13")] {
        let row = found["rows"].as_array().unwrap().iter().find(|row| row["price"] == price);
        assert_eq!(row.map_or(0, |row| row["unused"].as_i64().unwrap()), unused_of(product), "{found}");
    }
    let total: i64 = coins.iter().map(Coins::in_purse).sum();
    assert_eq!(found["total"], total);
    till.assert_audit_clean().await;
}
