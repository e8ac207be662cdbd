//! Look-ups of players, their ledgers, exchanges and credits: the store's reads that
//! console and admin API show.

use std::time::Duration;

use domain::ids::{AppId, BizNo, CreditRef, OpenId};
use domain::operation::app::AppCommand;
use domain::operation::wallet::Credit;
use domain::product_info::Item;
use domain::wallet::{DeveloperTexts, Repeat};
use futures_util::TryStreamExt as _;
use serde_json::json;
use store::{EntryKind, LedgerFilter, LedgerPage, PlayerCursor, PlayerFilter, WalletTotals};
use time::OffsetDateTime;

use crate::game::Game;
use crate::support::{NOW, TestApp, TestTill, operator};

fn open_id(text: &str) -> OpenId {
    OpenId::parse(text).unwrap()
}

async fn players(till: &TestTill, app: Option<&TestApp>, beginning: &str) -> Vec<(String, String)> {
    let filter = PlayerFilter {
        app_id: app.map(|app| app.id.clone()),
        open_id: OpenId::parse(beginning).ok(),
        ..PlayerFilter::default()
    };
    let page = till.store.find_players(&filter, None, 100).await.unwrap();
    assert_eq!(page.next, None);
    page.items.into_iter().map(|wallet| (wallet.app_id, wallet.open_id)).collect()
}

async fn ledger(till: &TestTill, app: &TestApp, filter: &LedgerFilter) -> Vec<(i64, String, String)> {
    let page = till.store.ledger(&app.id, &open_id("o1"), filter, None, 100).await.unwrap();
    assert_eq!(page.next, None);
    let rows = page.items.into_iter();
    rows.map(|row| (row.line.seq, row.line.number().to_owned(), row.text)).collect()
}

async fn credit(till: &TestTill, app: &TestApp, reference: &str, note: &str) {
    let credit = Credit {
        open_id: open_id("o1"),
        free: 10,
        charge: 0,
        reference: CreditRef::parse(reference).unwrap(),
        note: note.to_owned(),
        create: true,
    };
    till.store.change_wallet(&operator(), &app.id, credit).await.unwrap();
}

/// The whole open id comes first, then those that begin with it, by their bytes, over all apps or
/// one. An id that only looks alike does not come.
#[tokio::test(flavor = "multi_thread")]
async fn players_are_found_by_their_open_id_and_by_its_beginning() {
    let till = TestTill::start().await;
    let (a, b) = (till.app("a").await, till.app("b").await);
    for name in ["ab", "abc", "ab-1", "ab_1", "AB", "aB", "b", "ac"] {
        till.player(&a, name, 1, 2).await;
    }
    till.player(&b, "ab", 3, 4).await;
    till.player(&b, "abc", 3, 4).await;
    let of = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(app, player)| ((*app).to_owned(), (*player).to_owned())).collect()
    };
    let all = [("a", "ab"), ("b", "ab"), ("a", "ab-1"), ("a", "ab_1"), ("a", "abc"), ("b", "abc")];
    assert_eq!(players(&till, None, "ab").await, of(&all));
    assert_eq!(players(&till, Some(&b), "ab").await, of(&[("b", "ab"), ("b", "abc")]));
    assert_eq!(players(&till, Some(&b), "abcd").await, of(&[]));
    assert_eq!(players(&till, Some(&b), "").await, of(&[("b", "ab"), ("b", "abc")]));
    let wallet = &till
        .store
        .find_players(
            &PlayerFilter {
                app_id: Some(b.id.clone()),
                open_id: Some(open_id("ab")),
                ..PlayerFilter::default()
            },
            None,
            1,
        )
        .await
        .unwrap();
    assert_eq!(
        json!(wallet),
        json!({
            "items": [{"app_id": "b", "open_id": "ab", "free_balance": 3, "charge_balance": 4, "entries": 1, "frozen": false, "frozen_until": null}],
            "next": "ab.b",
        })
    );
}

/// Pages end where the next begins, though players come meanwhile, on either side of the page's end.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_players_neither_skip_nor_repeat_while_players_are_added() {
    let till = TestTill::start().await;
    let (a, b) = (till.app("a").await, till.app("b").await);
    for place in 0..20 {
        till.player(&a, &format!("o{place:02}"), 0, 0).await;
        till.player(&b, &format!("o{place:02}"), 0, 0).await;
    }
    let filter = PlayerFilter { open_id: Some(open_id("o")), ..PlayerFilter::default() };
    let (mut seen, mut after): (Vec<String>, Option<PlayerCursor>) = (Vec::new(), None);
    for turn in 0.. {
        assert!(turn < 40, "the pages end");
        let page = till.store.find_players(&filter, after.as_ref(), 3).await.unwrap();
        seen.extend(page.items.iter().map(|wallet| format!("{}.{}", wallet.open_id, wallet.app_id)));
        // One before everything that was shown, one behind it.
        till.player(&a, &format!("o0-{turn}"), 0, 0).await;
        till.player(&a, &format!("o9-{turn}"), 0, 0).await;
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    let (new, old): (Vec<_>, Vec<_>) = seen.iter().cloned().partition(|name| name[2..].starts_with('-'));
    assert!(new.iter().all(|name| name.starts_with("o9-")) && new.len() > 3, "{new:?}");
    let expected: Vec<_> =
        (0..20).flat_map(|place| [format!("o{place:02}.a"), format!("o{place:02}.b")]).collect();
    assert_eq!(old, expected);
    let mut once = seen.clone();
    once.dedup();
    assert_eq!(once, seen);
}

/// Newest first, each entry with what it was for, and every filter.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_is_filtered_by_kind_time_and_number() {
    let till = TestTill::start().await;
    let app = till.app("a").await;
    till.player(&app, "o1", 100, 500).await;
    till.player(&app, "o2", 1000, 0).await;
    Game::new(&app, "o1", "B1", 50).with("product_name", "Shield").send(&till).await.assert_body(
        r#"{"code":1,"msg":"SUCCESS","data":{"bizNo":"B1","freeBalance":100,"chargeBalance":450}}"#,
    );
    // A ref may look like the number of an exchange.
    credit(&till, &app, "B1", "for <b>patience</b>").await;
    assert_eq!(Game::new(&app, "o2", "B2", 50).send(&till).await.code(), 1);
    let row = |seq: i64, number: &str, text: &str| (seq, number.to_owned(), text.to_owned());
    let all = [row(3, "B1", "for <b>patience</b>"), row(2, "B1", "Shield"), row(1, "start-o1", "")];
    assert_eq!(ledger(&till, &app, &LedgerFilter::default()).await, all);
    let of_kind = |kind| LedgerFilter { kind: Some(kind), ..LedgerFilter::default() };
    assert_eq!(ledger(&till, &app, &of_kind(EntryKind::Exchange)).await, all[1..2]);
    let of_number =
        |number: &str| LedgerFilter { reference: Some(number.to_owned()), ..LedgerFilter::default() };
    assert_eq!(ledger(&till, &app, &of_number("B1")).await, all[..2]);
    let both = LedgerFilter { kind: Some(EntryKind::Credit), ..of_number("B1") };
    assert_eq!(ledger(&till, &app, &both).await, all[..1]);
    assert_eq!(ledger(&till, &app, &of_number("B2")).await, [], "that is another player's");
    assert_eq!(ledger(&till, &app, &of_number("B")).await, []);
    till.execute("UPDATE ledger_entries SET at = '2026-01-01T00:00:00Z' WHERE seq = 1").await;
    let new_year = OffsetDateTime::from_unix_timestamp(1_767_225_600).unwrap();
    let until = |moment| LedgerFilter { until: Some(moment), ..LedgerFilter::default() };
    assert_eq!(ledger(&till, &app, &until(new_year)).await, []);
    assert_eq!(ledger(&till, &app, &until(new_year + Duration::from_micros(1))).await, all[2..]);
    let since = LedgerFilter { since: Some(new_year + Duration::from_micros(1)), ..LedgerFilter::default() };
    assert_eq!(ledger(&till, &app, &since).await, all[..2]);
    let since = LedgerFilter { since: Some(new_year), ..LedgerFilter::default() };
    assert_eq!(ledger(&till, &app, &since).await, all);
}

/// The same for pages of a ledger: what is added lies before the first page.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_ledger_neither_skip_nor_repeat_while_entries_are_added() {
    let till = TestTill::start().await;
    let app = till.app("a").await;
    for place in 0..10 {
        credit(&till, &app, &format!("r{place}"), "").await;
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page: LedgerPage =
            till.store.ledger(&app.id, &open_id("o1"), &LedgerFilter::default(), after, 3).await.unwrap();
        seen.extend(page.items.iter().map(|row| row.line.seq));
        credit(&till, &app, &format!("later-{}", seen.len()), "").await;
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    assert_eq!(seen, (1..=10).rev().collect::<Vec<i64>>());
}

/// A page looks through 100,000 entries and no more: then it says where to go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_finds_nothing_in_a_huge_wallet_stops_and_goes_on() {
    let till = TestTill::start().await;
    let app = till.app("a").await;
    credit(&till, &app, "first", "").await;
    till.execute(
        "INSERT INTO ledger_entries (app_no, wallet_no, seq, kind, reference, free_change, charge_change,
             free_balance, charge_balance, chain_hash, at)
         SELECT app_no, wallet_no, g, 'exchange', 'n' || g, 0, 0, 10, 0, sha256(''), now()
         FROM players, generate_series(2, 150000) g;
         UPDATE wallets SET entry_count = 150000",
    )
    .await;
    let credits = LedgerFilter { kind: Some(EntryKind::Credit), ..LedgerFilter::default() };
    let page = till.store.ledger(&app.id, &open_id("o1"), &credits, None, 50).await.unwrap();
    assert_eq!(page, LedgerPage { items: Vec::new(), next: Some(50_001) });
    let page = till.store.ledger(&app.id, &open_id("o1"), &credits, page.next, 50).await.unwrap();
    assert_eq!((page.items.len(), page.items[0].line.seq, page.next), (1, 1, None));
    let wallet = till.store.wallet(&app.id, &open_id("o1")).await.unwrap().unwrap();
    assert_eq!(till.store.wallet_totals(&wallet).await.unwrap(), None, "too many to add up");
    let lines: Vec<_> =
        till.store.statement(&app.id, &open_id("o1"), LedgerFilter::default()).try_collect().await.unwrap();
    let seqs: Vec<i64> = lines.iter().map(|line| line.line.seq).collect();
    assert_eq!(seqs, (1..=150_000).collect::<Vec<i64>>(), "a statement is whole, piece by piece");
}

#[tokio::test(flavor = "multi_thread")]
async fn totals_are_what_the_entries_add_up_to() {
    let till = TestTill::start().await;
    let app = till.app("a").await;
    till.player(&app, "o1", 100, 500).await;
    credit(&till, &app, "r", "").await;
    for (number, amount) in [("B1", 450), ("B2", 100)] {
        assert_eq!(Game::new(&app, "o1", number, amount).send(&till).await.code(), 1);
    }
    let wallet = till.store.wallet(&app.id, &open_id("o1")).await.unwrap().unwrap();
    let totals = till.store.wallet_totals(&wallet).await.unwrap().unwrap();
    let text = |number: i64| number.to_string();
    let expected = WalletTotals {
        free_in: text(110),
        charge_in: text(500),
        free_out: text(50),
        charge_out: text(500),
        first_at: totals.first_at,
        last_at: totals.last_at,
    };
    assert_eq!(totals, expected);
    assert!(totals.first_at.unwrap() < totals.last_at.unwrap());
    till.command(&app, AppCommand::AddUsers(vec![open_id("new")])).await;
    let empty = till.store.wallet(&app.id, &open_id("new")).await.unwrap().unwrap();
    let totals = till.store.wallet_totals(&empty).await.unwrap().unwrap();
    assert_eq!((totals.free_in.as_str(), totals.first_at), ("0", None));
}

/// Everything that is recorded, the items read, and the player's address only where it is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_is_shown_as_it_came() {
    let till = TestTill::start().await;
    let app = till.app("a").await;
    till.player(&app, "o1", 100, 500).await;
    let game = Game::new(&app, "o1", "B1", 550).with_texts("x=1").with("pay_priority", 0);
    assert_eq!(game.send(&till).await.code(), 1);
    let number = BizNo::parse("B1").unwrap();
    let record = till.store.exchange(&app.id, &number, true).await.unwrap().unwrap();
    let mut shown = json!(record);
    for moment in ["created_at", "replayed_until"] {
        assert!(shown.as_object_mut().unwrap().remove(moment).is_some_and(|text| text.is_string()));
    }
    for name in DeveloperTexts::NAMES {
        assert_eq!(shown.as_object_mut().unwrap().remove(name), Some(json!("x=1")), "{name}");
        let in_ledger = format!("SELECT count(*) FROM ledger WHERE reference = 'B1' AND {name} = 'x=1'");
        assert_eq!(till.number(&in_ledger).await, 1, "{name}");
    }
    assert_eq!(
        shown,
        json!({
            "remaining": 550, "cancels": [],
            "app_id": "a", "biz_no": "B1", "open_id": "o1", "zone_id": "z1_r1", "os": "android", "ts": NOW,
            "user_ip": "203.0.113.9", "amount": 550, "pay_priority": 0,
            "product_name": "Sword & shield = 100%", "product_info": crate::game::ITEMS,
            "items": [{"product_id": 1, "product_num": 2, "product_type": 0, "product_start_time": null,
                       "product_period": null}],
            "product_desc": "remark", "seq": 2, "free_change": -50,
            "charge_change": -500, "free_balance": 50, "charge_balance": 0,
            "same_content": "replayed", "other_content": "conflict", "replays": null, "refusals": [],
        })
    );
    let item = Item {
        product_id: 1,
        product_num: 2,
        product_type: 0,
        product_start_time: None,
        product_period: None,
    };
    assert_eq!(record.items, [item]);
    assert_eq!(record.replayed_until - record.created_at, Duration::from_hours(48));
    let without = till.store.exchange(&app.id, &number, false).await.unwrap().unwrap();
    assert_eq!(without.user_ip, None);
    assert!(!json!(without).to_string().contains("203.0.113.9"));
    let b = till.app("b").await;
    assert_eq!(till.store.exchange(&b.id, &number, true).await.unwrap(), None, "another app's number");
}

/// What the page says of a retry is what a retry gets, right before 48 hours are over and right after.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_retry_would_be_answered_is_what_it_is_answered() {
    let till = TestTill::start().await;
    let app = till.app("a").await;
    till.player(&app, "o1", 0, 500).await;
    let game = Game::new(&app, "o1", "B1", 5);
    assert_eq!(game.send(&till).await.code(), 1);
    let number = BizNo::parse("B1").unwrap();
    for (age, same, other, codes) in [
        ("47 hours 59 minutes", Repeat::Replayed, Repeat::Conflict, (1, 10_000_602)),
        ("48 hours", Repeat::Expired, Repeat::Expired, (10_000_603, 10_000_603)),
    ] {
        till.execute(&format!("UPDATE ledger_entries SET at = clock_timestamp() - interval '{age}'")).await;
        let record = till.store.exchange(&app.id, &number, false).await.unwrap().unwrap();
        assert_eq!((record.same_content, record.other_content), (same, other), "{age}");
        let asked = game.send(&till).await.code();
        let other = game.clone().with("amount", 6).send(&till).await.code();
        assert_eq!((asked, other), codes, "{age}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_is_found_in_every_app_and_of_either_kind() {
    let till = TestTill::start().await;
    let (a, b) = (till.app("a").await, till.app("b").await);
    till.player(&a, "o1", 0, 500).await;
    till.player(&b, "o1", 0, 500).await;
    assert_eq!(Game::new(&a, "o1", "N1", 5).send(&till).await.code(), 1);
    assert_eq!(Game::new(&b, "o1", "N1", 7).send(&till).await.code(), 1);
    credit(&till, &b, "N1", "a gift").await;
    let found = async |app: Option<&AppId>, number: &str, limit| {
        let found = till.store.find_reference(app, number, limit).await.unwrap().into_iter();
        found
            .map(|found| {
                (found.app_id, found.kind, found.seq, found.free_change, found.charge_change, found.text)
            })
            .collect::<Vec<_>>()
    };
    let row = |app: &str, kind: &str, seq, free, charge, text: &str| {
        (app.to_owned(), kind.to_owned(), seq, free, charge, text.to_owned())
    };
    let sword = "Sword & shield = 100%";
    let all = [
        row("a", "exchange", 2, 0, -5, sword),
        row("b", "exchange", 2, 0, -7, sword),
        row("b", "credit", 3, 10, 0, "a gift"),
    ];
    assert_eq!(found(None, "N1", 10).await, all);
    assert_eq!(found(Some(&b.id), "N1", 10).await, all[1..]);
    assert_eq!(found(None, "N1", 1).await, all[..1]);
    assert_eq!(found(None, "N", 10).await, []);
    let reference = CreditRef::parse("N1").unwrap();
    assert_eq!(till.store.change_by_ref(&a.id, &reference).await.unwrap(), None);
    let change = till.store.change_by_ref(&b.id, &reference).await.unwrap().unwrap();
    assert_eq!((change.open_id.as_str(), change.line.seq, change.of_biz_no.as_deref()), ("o1", 3, None));
    assert_eq!((change.line.free_change, change.line.free_balance), (10, 10));
}

/// Replays are counted beside the exchange, in one write for all of them, and forgotten in time. A
/// first success, a conflict and an expired number are none.
#[tokio::test(flavor = "multi_thread")]
async fn replays_are_counted_and_nothing_else_is() {
    let till = TestTill::start().await;
    let app = till.app("a").await;
    till.player(&app, "o1", 0, 500).await;
    let (first, second) = (Game::new(&app, "o1", "B1", 5), Game::new(&app, "o1", "B2", 5));
    for game in [&first, &second, &first, &first] {
        assert_eq!(game.send(&till).await.code(), 1);
    }
    assert_eq!(first.clone().with("amount", 6).send(&till).await.code(), 10_000_602);
    assert_eq!(till.number("SELECT count(*) FROM exchange_replays").await, 0, "nothing is written at once");
    // Counting comes after the answer, by a moment.
    let written = async |count: i64| {
        crate::support::until("the replays are counted", async || {
            till.store.write_replays().await.unwrap();
            till.number("SELECT coalesce(sum(replays), 0)::bigint FROM exchange_replays").await == count
        })
        .await;
    };
    written(2).await;
    assert_eq!(second.send(&till).await.code(), 1);
    assert_eq!(first.send(&till).await.code(), 1);
    written(4).await;
    let replays = async |number: &str| {
        let record = till.store.exchange(&app.id, &BizNo::parse(number).unwrap(), false).await.unwrap();
        record.unwrap().replays
    };
    let count = replays("B1").await.unwrap();
    assert_eq!(count.replays, 3);
    assert!(count.first_at < count.last_at);
    assert_eq!(replays("B2").await.unwrap().replays, 1);
    till.execute("UPDATE exchange_replays SET last_at = now() - interval '31 days' WHERE biz_no = 'B1'")
        .await;
    assert_eq!(till.store.forget_old_replays().await.unwrap(), 1);
    assert_eq!(replays("B1").await, None);
    assert_eq!(replays("B2").await.unwrap().replays, 1);
    assert_eq!(till.purses(&app, "o1").await, (0, 490, 3), "counting changes no money");
}
