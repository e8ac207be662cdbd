//! Batches of every kind against the rules carried out one exchange at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::exchange::{Balances, Exchange, PayPriority, PurseChange, Reading, TsWindow};
use domain::exchange::{ExchangeOutcome, Receipt};
use domain::fields::Fields;
use domain::ids::{AppNo, OpenId, WalletNo};
use domain::ledger::{CHAIN_START, ChainHash, EXCHANGE, LedgerEntry};
use proptest::prelude::*;

use super::batch::{Batch, Decisions, IdempotencyRecord, RecordedContent, Verdict, WalletState};

const NOW: i64 = 1_800_000_000_000;
/// Database time of all batches.
const AT: i64 = 852_000_000_000_000;

/// One exchange of a test: few apps, players, numbers and contents, so that they often meet.
#[derive(Debug, Clone, Copy)]
struct TestExchange {
    app: u8,
    player: u8,
    number: u8,
    amount: i64,
    gifted_first: bool,
    fresh: bool,
}

fn asked() -> impl Strategy<Value = TestExchange> {
    (0..2_u8, 0..4_u8, 0..12_u8, 1..40_i64, any::<bool>(), prop::bool::weighted(0.9)).prop_map(
        |(app, player, number, amount, gifted_first, fresh)| {
            // Half the numbers go with a content of their own, so that repeats are common.
            if number % 2 == 0 {
                let own =
                    TestExchange { app, player: number % 4, number, amount: 7, gifted_first: true, fresh };
                return own;
            }
            TestExchange { app, player, number, amount, gifted_first, fresh }
        },
    )
}

impl TestExchange {
    fn app_no(self) -> AppNo {
        AppNo(self.app.into())
    }

    fn exchange(self) -> Exchange {
        let ts = if self.fresh { NOW } else { NOW - 200_000_000 };
        let body = format!(
            "open_id=o{}&zone_id=s1_r1&os=ios&ts={ts}&user_ip=192.0.2.1&amount={}&pay_priority={}&biz_no=b{}\
             &product_name=n&product_desc=d\
             &product_info=[{{\"product_id\":1,\"product_num\":1,\"product_type\":0}}]",
            self.player,
            self.amount,
            u8::from(self.gifted_first),
            self.number
        );
        let window = TsWindow { ahead_max: Duration::from_mins(5), behind_max: Duration::from_hours(48) };
        let reading =
            Reading { pay_priority_default: PayPriority::ChargedFirst, ts_window: window, now_millis: NOW };
        Exchange::parse(&Fields::from_urlencoded(body.as_bytes()).unwrap(), &reading).unwrap()
    }
}

/// `(app, name)`
type Key = (i32, String);

/// The number of a player's wallet, the same in each app.
fn wallet_no(open_id: &OpenId) -> WalletNo {
    WalletNo(open_id.as_str()[1..].parse().unwrap())
}

/// Wallets, records and ledgers, as a database holds them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Books {
    wallets: BTreeMap<Key, (Balances, i64, ChainHash)>,
    records: BTreeMap<Key, IdempotencyRecord>,
    /// By wallet and place in its ledger: the number, what it did, and its hash.
    ledgers: BTreeMap<(Key, i64), (String, PurseChange, ChainHash)>,
}

fn content(exchange: &Exchange) -> RecordedContent {
    let content = &exchange.content;
    RecordedContent {
        open_id: content.open_id.to_string(),
        zone_id: content.zone_id.to_string(),
        amount: content.amount.get(),
        pay_priority: content.pay_priority.code(),
        item_id: exchange.item_id,
        extension: content.extension.clone(),
    }
}

impl Books {
    /// Three of the four players of each app have a wallet.
    fn new(purses: &[(i64, i64)]) -> Self {
        let mut books = Self::default();
        for (index, (free, charge)) in purses.iter().enumerate() {
            let key = (i32::try_from(index / 3).unwrap(), format!("o{}", index % 3));
            books.wallets.insert(key, (Balances::new(*free, *charge).unwrap(), 1, CHAIN_START));
        }
        books
    }

    fn write(&mut self, app_no: AppNo, exchange: &Exchange, seq: i64, change: PurseChange, hash: ChainHash) {
        let app = app_no.0;
        let wallet = (app, exchange.content.open_id.to_string());
        let biz_no = exchange.biz_no.to_string();
        let record = IdempotencyRecord {
            content: content(exchange),
            free_balance: change.after.free(),
            charge_balance: change.after.charge(),
            is_expired: false,
        };
        assert!(self.records.insert((app, biz_no.clone()), record).is_none(), "one deduction a number");
        assert!(self.ledgers.insert((wallet, seq), (biz_no, change, hash)).is_none(), "one entry a place");
    }

    /// The rules of contract 3 for one exchange alone, written down a second time.
    fn one_at_a_time(&mut self, app_no: AppNo, exchange: &Exchange) -> ExchangeOutcome {
        let number = (app_no.0, exchange.biz_no.to_string());
        let biz_no = exchange.biz_no.to_string();
        if let Some(record) = self.records.get(&number) {
            if record.content != content(exchange) {
                return ExchangeOutcome::BizNoConflict;
            }
            let (free_balance, charge_balance) = (record.free_balance, record.charge_balance);
            return ExchangeOutcome::Replayed(Receipt { biz_no, free_balance, charge_balance });
        }
        if !exchange.is_fresh {
            return ExchangeOutcome::TsOutsideWindow;
        }
        let wallet = (app_no.0, exchange.content.open_id.to_string());
        let Some((balances, entries, hash)) = self.wallets.get_mut(&wallet) else {
            return ExchangeOutcome::UnknownWallet;
        };
        let Ok(change) = balances.deduct(exchange.content.amount, exchange.content.pay_priority) else {
            return ExchangeOutcome::InsufficientBalance;
        };
        (*balances, *entries) = (change.after, *entries + 1);
        let seq = *entries;
        let entry = LedgerEntry {
            app_no: app_no.0,
            wallet_no: wallet_no(&exchange.content.open_id).0,
            seq,
            kind: EXCHANGE,
            reference: &biz_no,
            of_biz_no: None,
            remaining: None,
            item_id: Some(exchange.item_id.0),
            pay_priority: Some(exchange.content.pay_priority.code()),
            free_change: change.free_change,
            charge_change: change.charge_change,
            free_balance: change.after.free(),
            charge_balance: change.after.charge(),
            at: AT,
        };
        *hash = entry.chain_hash(hash);
        let hash = *hash;
        self.write(app_no, exchange, seq, change, hash);
        let (free_balance, charge_balance) = (change.after.free(), change.after.charge());
        ExchangeOutcome::Done(Receipt { biz_no, free_balance, charge_balance })
    }

    /// What the statements of a batch read.
    fn read(&self, batch: &Batch<'_>) -> (Vec<WalletState>, Vec<Option<IdempotencyRecord>>) {
        let keys = |app_nos: &[i32], names: &[&str]| -> Vec<Key> {
            app_nos.iter().zip(names).map(|(app_no, name)| (*app_no, name.to_string())).collect()
        };
        let wallet_keys = keys(&batch.wallets.app_nos, &batch.wallets.names);
        let wallets = wallet_keys.iter().map(|key| match self.wallets.get(key) {
            Some((balances, entry_count, chain_hash)) => {
                let (balances, entry_count, chain_hash) = (*balances, *entry_count, *chain_hash);
                let wallet_no = wallet_no(&OpenId::parse(&key.1).unwrap());
                WalletState::Open { wallet_no, balances, entry_count, chain_hash }
            }
            None => WalletState::Unknown,
        });
        let number_keys = keys(&batch.biz_nos.app_nos, &batch.biz_nos.names);
        (wallets.collect(), number_keys.iter().map(|key| self.records.get(key).cloned()).collect())
    }

    /// What the statement of a batch writes, with everything its constraints and guards refuse.
    fn apply(&mut self, batch: &Batch<'_>, decisions: &Decisions) {
        let mut last_number = None;
        for deduction in &decisions.deductions {
            let (app_no, exchange) = batch.exchanges[deduction.exchange];
            let number = (app_no, exchange.biz_no.as_str());
            assert!(last_number.replace(number) < Some(number), "numbers are inserted in ascending order");
            assert_eq!(deduction.wallet_no, wallet_no(&exchange.content.open_id));
            self.write(app_no, exchange, deduction.seq, deduction.change, deduction.chain_hash);
        }
        let mut last_wallet = None;
        for change in &decisions.wallets {
            let key = (batch.wallets.app_nos[change.wallet], batch.wallets.names[change.wallet]);
            assert!(last_wallet.replace(key) < Some(key), "wallets are written in ascending order");
            let wallet = self.wallets.get_mut(&(key.0, key.1.to_owned())).unwrap();
            assert_eq!(change.wallet_no, wallet_no(&OpenId::parse(key.1).unwrap()));
            assert_eq!(wallet.1, change.entry_count_before);
            *wallet = (change.balances, change.entry_count, change.chain_hash);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn batches_answer_and_write_what_one_at_a_time_would(
        purses in prop::collection::vec((0..60_i64, 0..60_i64), 6),
        batches in prop::collection::vec(prop::collection::vec(asked(), 1..24), 1..8),
    ) {
        let mut batched = Books::new(&purses);
        let mut single = batched.clone();
        for asked in batches {
            let asked: Vec<(AppNo, Exchange)> =
                asked.into_iter().map(|asked| (asked.app_no(), asked.exchange())).collect();
            let batch = Batch::new(asked.iter().map(|(app_no, exchange)| (*app_no, exchange)).collect());
            let (wallets, records) = batched.read(&batch);
            let decisions = batch.decide(&wallets, &records, AT);
            batched.apply(&batch, &decisions);
            let expected: Vec<Verdict> = asked
                .iter()
                .map(|(app_no, exchange)| Verdict::Answer(single.one_at_a_time(*app_no, exchange)))
                .collect();
            prop_assert_eq!(decisions.verdicts, expected);
            prop_assert_eq!(&batched, &single);
        }
    }
}

/// A wallet that somebody else holds puts off only what needs it.
#[test]
fn a_held_wallet_sets_aside_what_would_deduct_from_it_and_nothing_else() {
    let exchange = |number, player, fresh| {
        TestExchange { app: 0, player, number, amount: 5, gifted_first: false, fresh }.exchange()
    };
    let app_no = AppNo(0);
    let held = [exchange(1, 0, true), exchange(3, 0, true), exchange(5, 0, false)];
    let free = exchange(7, 1, true);
    let batch = Batch::new(held.iter().chain([&free]).map(|exchange| (app_no, exchange)).collect());
    let balances = Balances::new(0, 9).unwrap();
    let open =
        WalletState::Open { wallet_no: WalletNo(1), balances, entry_count: 1, chain_hash: CHAIN_START };
    let wallets = [WalletState::Held, open];
    let recorded = IdempotencyRecord {
        content: content(&held[1]),
        free_balance: 1,
        charge_balance: 2,
        is_expired: false,
    };
    let decisions = batch.decide(&wallets, &[None, Some(recorded), None, None], AT);
    let receipt = |biz_no: &str, free_balance, charge_balance| Receipt {
        biz_no: biz_no.to_owned(),
        free_balance,
        charge_balance,
    };
    assert_eq!(
        decisions.verdicts,
        [
            Verdict::SetAside,
            Verdict::Answer(ExchangeOutcome::Replayed(receipt("b3", 1, 2))),
            Verdict::Answer(ExchangeOutcome::TsOutsideWindow),
            Verdict::Answer(ExchangeOutcome::Done(receipt("b7", 0, 4))),
        ]
    );
    assert_eq!((decisions.deductions.len(), decisions.wallets.len()), (1, 1));
}

#[test]
fn an_expired_record_wins_over_other_content() {
    let exchange =
        TestExchange { app: 0, player: 0, number: 1, amount: 5, gifted_first: false, fresh: true }.exchange();
    let other = RecordedContent { amount: 6, ..content(&exchange) };
    let record = IdempotencyRecord { content: other, free_balance: 0, charge_balance: 0, is_expired: true };
    let batch = Batch::new(vec![(AppNo(0), &exchange)]);
    let decisions = batch.decide(&[WalletState::Unknown], &[Some(record)], AT);
    assert_eq!(decisions.verdicts, [Verdict::Answer(ExchangeOutcome::BizNoExpired)]);
}
