//! Holds a journal against the tables, with SQL and arithmetic of the proofs' own: nothing of the program is used.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;
use sqlx::{PgConnection, Row as _};

use super::caller::{Asked, Reply, Wish};
use super::figures::Figures;
use super::journal::{Journal, Line};
use super::stage::Wallets;

/// Codes of the contract.
const INSUFFICIENT: u64 = 10_000_601;
const MORE_THAN_LEFT: u64 = 10_000_605;
const CLOSED: u64 = 10_000_608;

/// All that the journal knows of a number: a change, the close of it, or both.
#[derive(Debug, Default)]
struct Story {
    change: Option<Asked>,
    close: Option<Asked>,
    of_change: Told,
    of_close: Told,
}

/// What was told about one of the two.
#[derive(Debug, Default)]
struct Told {
    /// Bodies of the answers that acknowledged it.
    acknowledged: BTreeSet<String>,
    /// Answers that acknowledged it and did not say that they are replays.
    fresh: usize,
    replays: usize,
    /// Codes and bodies of refusals.
    refused: BTreeSet<(u64, String)>,
    /// The code of the last business answer.
    last_code: Option<u64>,
    /// Whether a try without an answer came after that.
    is_open: bool,
}

/// A row of the ledger. A closed number has no position.
#[derive(Debug)]
struct Entry {
    open_id: String,
    seq: Option<i64>,
    kind: String,
    reference: String,
    change: (i64, i64),
    after: (i64, i64),
    priority: Option<i16>,
    of: Option<String>,
    remaining: Option<i64>,
}

/// What follows from the ledger alone.
#[derive(Default)]
struct WorkedOut<'a> {
    /// The exchanges, with what the cancels gave back.
    paid: HashMap<&'a str, Paid<'a>>,
    /// The purses of each wallet after each of its rows.
    purses: HashSet<(&'a str, (i64, i64))>,
}

/// An exchange, as the cancels of it need it.
struct Paid<'a> {
    open_id: &'a str,
    before: (i64, i64),
    amount: i64,
    priority: i16,
    given_back: i64,
}

/// The content of the tables.
struct Books {
    entries: Vec<Entry>,
    wallets: BTreeMap<String, (i64, i64, i64)>,
}

/// Compares the two. There must be one app, with these wallets, and nobody may be at work any more.
pub(crate) async fn check(journal: &Journal, start: Wallets, sql: &mut PgConnection) -> Figures {
    let stories = stories(journal);
    let books = Books::read(sql).await;
    let mut figures = Figures { numbers: stories.len(), ..Figures::default() };
    let mut entries: HashMap<&str, Vec<&Entry>> = HashMap::new();
    for entry in books.entries.iter().filter(|entry| entry.kind != "credit") {
        entries.entry(&entry.reference).or_default().push(entry);
    }
    for (number, story) in &stories {
        let found = entries.get(number.as_str()).map_or(&[][..], Vec::as_slice);
        story.judge(&mut figures, number, found);
    }
    for number in entries.keys().copied() {
        figures.expect(stories.contains_key(number), || {
            format!("{number}: in the books, and nobody asked for it")
        });
    }
    books.check_credits(start, &mut figures);
    let worked_out = books.check_wallets(start, &mut figures);
    for (number, story) in &stories {
        story.judge_refusals(&mut figures, number, &worked_out);
    }
    figures.replays = stories.values().map(|story| story.of_change.replays).sum();
    figures.note(kinds(&stories, &entries));
    figures
}

/// How many numbers of each kind were asked for, and what became of them.
fn kinds(stories: &BTreeMap<String, Story>, entries: &HashMap<&str, Vec<&Entry>>) -> String {
    let mut counts: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let mut raced = [0; 2];
    for (number, story) in stories {
        let is_closed = entries.get(number.as_str()).is_some_and(|found| found[0].kind == "closed");
        let (kind, told) = match &story.change {
            Some(asked) => (asked.wish.kind(), &story.of_change),
            None => ("closed", &story.of_close),
        };
        let count = counts.entry(kind).or_default();
        count[0] += 1;
        count[1] += usize::from(!told.acknowledged.is_empty());
        count[2] += usize::from(told.refused.iter().any(|(code, _)| *code != CLOSED));
        if story.change.is_some() && story.close.is_some() {
            raced[usize::from(is_closed)] += 1;
        }
    }
    let counts = counts.iter().map(|(kind, [asked, made, refused])| {
        format!("{kind}: {asked} asked for, {made} acknowledged, {refused} refused; ")
    });
    let [made, closed] = raced;
    format!("{}raced by a close: {made} not closed, {closed} closed", counts.collect::<String>())
}

fn stories(journal: &Journal) -> BTreeMap<String, Story> {
    let mut stories: BTreeMap<String, Story> = BTreeMap::new();
    for line in journal.read() {
        match line {
            Line::Asking(asked) => {
                let story = stories.entry(asked.number.clone()).or_default();
                let known = if asked.is_close() { &mut story.close } else { &mut story.change };
                let known = known.get_or_insert_with(|| asked.clone());
                assert_eq!(*known, asked, "a number is asked for with one content only");
            }
            Line::Told(number, closes, reply) => {
                let story = stories.get_mut(&number).expect("the intent comes first");
                let told = if closes { &mut story.of_close } else { &mut story.of_change };
                told.add(&reply);
            }
        }
    }
    stories
}

impl Told {
    fn add(&mut self, reply: &Reply) {
        let (Reply::Answer { replayed, body, .. }, Some(code)) = (reply, reply.code()) else {
            self.is_open = true;
            return;
        };
        (self.last_code, self.is_open) = (Some(code), false);
        if code == 1 {
            self.acknowledged.insert(body.clone());
            self.fresh += usize::from(!replayed);
            self.replays += usize::from(*replayed);
        } else {
            self.refused.insert((code, body.clone()));
        }
    }
}

impl Wish {
    /// As the ledger names it.
    fn kind(&self) -> &'static str {
        match self {
            Self::Exchange(_) => "exchange",
            Self::Present => "present",
            Self::Cancel(_) => "cancel",
            Self::Close => "closed",
        }
    }
}

impl Story {
    /// What was told against what is written.
    fn judge(&self, figures: &mut Figures, number: &str, entries: &[&Entry]) {
        if entries.len() > 1 {
            figures.doubled += 1;
            figures.faults.push(format!("{number}: {} changes", entries.len()));
            return;
        }
        let entry = entries.first().copied();
        if let Some(entry) = entry {
            let is_wanted =
                [&self.change, &self.close].into_iter().flatten().any(|asked| entry.is_what(asked));
            figures.expect(is_wanted, || format!("{number}: {self:?} is recorded as {entry:?}"));
        }
        let is_closed = entry.is_some_and(|entry| entry.kind == "closed");
        let (of_change, of_close) = (&self.of_change, &self.of_close);
        let mut is_lost = false;
        for (told, closes) in [(of_change, false), (of_close, true)] {
            for body in &told.acknowledged {
                let is_told = entry.is_some_and(|entry| {
                    if closes { entry.is_shown(body) } else { !is_closed && entry.is_receipt(body) }
                });
                if !is_told {
                    is_lost = true;
                    figures.faults.push(format!("{number}: acknowledged with {body}, but written {entry:?}"));
                }
            }
            let is_acknowledged = !told.acknowledged.is_empty();
            figures.expect(!is_acknowledged || told.last_code == Some(1), || {
                format!("{number}: acknowledged, and refused later: {told:?}")
            });
        }
        figures.lost += usize::from(is_lost);
        let same = &of_change.acknowledged;
        figures.expect(same.len() <= 1, || format!("{number}: answered in different ways: {same:?}"));
        figures.expect(of_change.fresh <= 1, || {
            format!("{number}: {} answers are not replays", of_change.fresh)
        });
        figures.expect(of_close.replays == 0, || format!("{number}: a query is no replay"));
        figures.expect(of_close.refused.is_empty(), || format!("{number}: not closed: {of_close:?}"));
        let is_told_closed = of_change.refused.iter().any(|(code, _)| *code == CLOSED);
        figures.expect(!is_told_closed || is_closed, || {
            format!("{number}: refused as closed, while {entry:?} is written")
        });
        let is_refused = of_change.last_code.is_some_and(|code| code != 1) && !of_change.is_open;
        figures.expect(!is_refused || is_closed || entry.is_none(), || {
            format!("{number}: refused with {:?}, but written {entry:?}", of_change.refused)
        });
        let is_known = |asked: &Option<Asked>, told: &Told| asked.is_none() || told.last_code.is_some();
        if !(is_known(&self.change, of_change) && is_known(&self.close, of_close)) {
            figures.unresolved += 1;
        }
    }

    /// What was refused against what can be true by the ledger.
    fn judge_refusals(&self, figures: &mut Figures, number: &str, worked_out: &WorkedOut<'_>) {
        for (code, body) in &self.of_change.refused {
            let is_explained = match (*code, &self.change) {
                // Its row is known to be one of a closed number.
                (CLOSED, Some(_)) => true,
                (INSUFFICIENT, Some(asked @ Asked { wish: Wish::Exchange(_), .. })) => {
                    worked_out.could_not_pay(asked, body)
                }
                (MORE_THAN_LEFT, Some(Asked { wish: Wish::Cancel(of), amount, .. })) => {
                    worked_out.left_of(of).is_some_and(|left| left < *amount)
                }
                _ => false,
            };
            figures.expect(is_explained, || {
                format!("{number}: {:?} was refused with {body}, and the books do not say why", self.change)
            });
        }
    }
}

impl WorkedOut<'_> {
    /// Whether the refusal tells purses that the wallet had, and that do not cover the amount.
    fn could_not_pay(&self, asked: &Asked, body: &str) -> bool {
        let told = data(body).and_then(|data| pair(&data, ["freeBalance", "chargeBalance"]));
        told.is_some_and(|(free, charge)| {
            let had = self.purses.contains(&(asked.open_id.as_str(), (free, charge)));
            had && split(free, charge, asked.amount, 0).is_none()
        })
    }

    /// The amount that is left to give back of an exchange. It never grows, so it was not less at an earlier time.
    fn left_of(&self, exchange: &str) -> Option<i64> {
        self.paid.get(exchange).map(|paid| paid.amount - paid.given_back)
    }
}

fn data(body: &str) -> Option<Value> {
    let mut body: Value = serde_json::from_str(body).ok()?;
    Some(body.get_mut("data")?.take())
}

fn pair(data: &Value, names: [&str; 2]) -> Option<(i64, i64)> {
    Some((data[names[0]].as_i64()?, data[names[1]].as_i64()?))
}

/// How much an amount takes from the gifted and the charged purse, `None` when they do not cover it.
/// This is the proofs' own reading of the rule, on purpose not the program's.
fn split(free: i64, charge: i64, amount: i64, priority: i16) -> Option<(i64, i64)> {
    if i128::from(free) + i128::from(charge) < i128::from(amount) {
        return None;
    }
    match priority {
        0 if charge >= amount => Some((0, amount)),
        0 => Some((amount - charge, charge)),
        1 if free >= amount => Some((amount, 0)),
        1 => Some((free, amount - free)),
        other => panic!("no proof asks with pay_priority {other}"),
    }
}

impl Books {
    async fn read(sql: &mut PgConnection) -> Self {
        let rows = sqlx::query(
            "SELECT open_id, seq, kind, reference, free_change, charge_change, free_balance, charge_balance, \
             pay_priority, of_biz_no, remaining FROM ledger ORDER BY app_id, open_id, seq",
        );
        let rows = rows.fetch_all(&mut *sql).await.unwrap();
        let entries = rows.iter().map(|row| Entry {
            open_id: row.get(0),
            seq: row.get(1),
            kind: row.get(2),
            reference: row.get(3),
            change: (row.get(4), row.get(5)),
            after: (row.get(6), row.get(7)),
            priority: row.get(8),
            of: row.get(9),
            remaining: row.get(10),
        });
        let entries: Vec<_> = entries.collect();
        let rows = sqlx::query("SELECT open_id, free_balance, charge_balance, entry_count FROM wallets");
        let rows = rows.fetch_all(&mut *sql).await.unwrap();
        let wallets = rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2), row.get(3)))).collect();
        let count: i64 =
            sqlx::query_scalar("SELECT count(*) FROM ledger_entries").fetch_one(sql).await.unwrap();
        assert_eq!(usize::try_from(count).unwrap(), entries.len(), "the view shows every row");
        Self { entries, wallets }
    }

    /// Every wallet was given its start once, and nobody else was given anything.
    fn check_credits(&self, start: Wallets, figures: &mut Figures) {
        let credits = self.entries.iter().filter(|entry| entry.kind == "credit");
        let mut given: Vec<_> =
            credits.map(|entry| (entry.open_id.clone(), entry.reference.clone(), entry.change)).collect();
        let started = (0..start.count).map(|index| {
            let open_id = format!("o{index}");
            let reference = format!("start-{open_id}");
            (open_id, reference, (start.free, start.charge))
        });
        let mut started: Vec<_> = started.collect();
        given.sort();
        started.sort();
        figures.expect(given == started, || format!("credited {given:?}, and not {started:?}"));
    }

    /// Goes through every wallet's ledger, works out each row anew, and adds everything up.
    fn check_wallets(&self, start: Wallets, figures: &mut Figures) -> WorkedOut<'_> {
        let mut purses: BTreeMap<&str, (i64, i64, i64)> = BTreeMap::new();
        let mut worked_out = WorkedOut::default();
        for entry in &self.entries {
            let Some(seq) = entry.seq else {
                let is_nothing = (entry.change, entry.after) == ((0, 0), (0, 0)) && entry.kind == "closed";
                figures.expect(is_nothing, || format!("{entry:?}: a closed number changes nothing"));
                continue;
            };
            let (free, charge, count) = purses.get(entry.open_id.as_str()).copied().unwrap_or_default();
            let expected = entry.expected((free, charge), &mut worked_out.paid);
            figures.expect(expected == Some(entry.change), || {
                format!("{entry:?}: with {free} gifted and {charge} charged before, the change must be {expected:?}")
            });
            let after = (free + entry.change.0, charge + entry.change.1);
            let follows = after == entry.after && after.0 >= 0 && after.1 >= 0 && seq == count + 1;
            figures.expect(follows, || {
                format!("{entry:?}: expected entry {} with {after:?} after it", count + 1)
            });
            purses.insert(&entry.open_id, (after.0, after.1, count + 1));
            worked_out.purses.insert((&entry.open_id, after));
        }
        for (open_id, held) in &self.wallets {
            let of_ledger = purses.get(open_id.as_str()).copied().unwrap_or_default();
            figures.expect(*held == of_ledger, || {
                format!("wallet {open_id} holds {held:?}, its ledger {of_ledger:?}")
            });
        }
        figures.expect(purses.keys().all(|open_id| self.wallets.contains_key(*open_id)), || {
            "a ledger has no wallet".to_owned()
        });
        let held: i128 =
            self.wallets.values().map(|(free, charge, _)| i128::from(*free) + i128::from(*charge)).sum();
        let of_games = self.entries.iter().filter(|entry| entry.kind != "credit");
        let deducted: i128 = of_games.map(|entry| -i128::from(entry.change.0 + entry.change.1)).sum();
        let credited =
            i128::try_from(start.count).unwrap() * (i128::from(start.free) + i128::from(start.charge));
        figures.expect(held == credited - deducted, || {
            format!("{credited} credited less {deducted} deducted is not the {held} that the wallets hold")
        });
        worked_out
    }
}

impl Entry {
    fn amount(&self) -> i64 {
        (self.change.0 + self.change.1).abs()
    }

    /// Whether this is what somebody asked for.
    fn is_what(&self, asked: &Asked) -> bool {
        let (priority, of) = match &asked.wish {
            Wish::Exchange(priority) => (Some(*priority), None),
            Wish::Cancel(of) => (None, Some(of)),
            Wish::Present | Wish::Close => (None, None),
        };
        (self.kind.as_str(), self.priority, self.of.as_ref()) == (asked.wish.kind(), priority, of)
            && (self.open_id.as_str(), self.amount()) == (asked.open_id.as_str(), asked.amount)
    }

    /// Whether the answer to a change tells of this.
    fn is_receipt(&self, body: &str) -> bool {
        let Some(data) = data(body) else { return false };
        let cancels = pair(&data, ["freeRefunded", "chargeRefunded"]);
        data["bizNo"] == *self.reference
            && pair(&data, ["freeBalance", "chargeBalance"]) == Some(self.after)
            && data["payBizNo"].as_str() == self.of.as_deref()
            && data["remaining"].as_i64() == self.remaining
            && cancels == self.of.as_ref().map(|_| self.change)
    }

    /// Whether the answer to a query tells of this.
    fn is_shown(&self, body: &str) -> bool {
        let Some(data) = data(body) else { return false };
        let changes = pair(&data, ["freeChange", "chargeChange"]);
        let (expected, statuses) = match self.kind.as_str() {
            "closed" => (None, &["closed"][..]),
            "exchange" => (Some(self.change), &["paid", "part_cancelled", "cancelled"][..]),
            _ => (Some(self.change), &["done"][..]),
        };
        data["bizNo"] == *self.reference
            && data["kind"] == *self.kind
            && data["status"].as_str().is_some_and(|status| statuses.contains(&status))
            && changes == expected
            && data["amount"].as_i64() == expected.map(|_| self.amount())
            && data["payBizNo"].as_str() == self.of.as_deref()
    }

    /// What it must change, with these purses before it and these exchanges.
    fn expected<'a>(
        &'a self,
        before: (i64, i64),
        paid: &mut HashMap<&'a str, Paid<'a>>,
    ) -> Option<(i64, i64)> {
        let amount = self.amount();
        match self.kind.as_str() {
            "credit" => Some(self.change),
            "present" => Some((amount, 0)),
            "exchange" => {
                let priority = self.priority?;
                let (free, charge) = split(before.0, before.1, amount, priority)?;
                let open_id = &self.open_id;
                paid.insert(&self.reference, Paid { open_id, before, amount, priority, given_back: 0 });
                Some((-free, -charge))
            }
            "cancel" => {
                let exchange = paid.get_mut(self.of.as_deref()?)?;
                // As if the exchange had been for what is left of it.
                let as_if = |amount| split(exchange.before.0, exchange.before.1, amount, exchange.priority);
                let left = exchange.amount - exchange.given_back;
                let (less, more) = (as_if(left)?, as_if(left - amount)?);
                exchange.given_back += amount;
                let is_told = self.remaining == Some(left - amount) && left >= amount;
                let is_own = exchange.open_id == self.open_id;
                (is_told && is_own).then_some((less.0 - more.0, less.1 - more.1))
            }
            _ => None,
        }
    }
}
