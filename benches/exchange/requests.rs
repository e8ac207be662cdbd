//! The requests of a game server, built and signed before the clock starts.

use std::collections::VecDeque;
use std::fmt::Write as _;

use domain::clock::{Clock, SystemClock};
use domain::signature::PayKey;
use domain::wallet::WalletCall;
use domain::wallet::canonical_string;

/// The app that all exchanges belong to.
pub(crate) const APP_ID: &str = "benchmark";
/// The amount that each exchange deducts.
pub(crate) const AMOUNT: u32 = 7;
/// The amount that each present adds.
pub(crate) const PRESENT_AMOUNT: u32 = 2;
/// The amount that each credit of an import adds.
pub(crate) const CREDIT_AMOUNT: u32 = 1;
/// The amount that each cancel gives back.
pub(crate) const CANCEL_AMOUNT: u32 = 3;
/// The product of top-ups, its price in minor units, and what a payment of it adds.
pub(crate) const PRODUCT_ID: &str = "gems60";
pub(crate) const PRICE: u32 = 600;
pub(crate) const TOPUP_COINS: [u32; 2] = [60, 6];
/// The page of the app's package, and the path of it that orders name.
pub(crate) const PAGE: &str = "pages/order/detail";
pub(crate) const ORDER_PATH: &str = "pages/order/detail?from=notice";
/// The cover image of all orders.
pub(crate) const IMG_ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef";
/// The first wallet's open id; all are numbers of this length, so that pgbench can make them too.
pub(crate) const FIRST_OPEN_ID: u64 = 1_000_000_000_000_000;
/// Order numbers of a run begin here, for the same reason; lower ones belong to exchanges that were
/// there before.
pub(crate) const FIRST_ORDER: u64 = 2_000_000_000_000_000_000;

/// What every exchange says, ours and the reference's.
pub(crate) const CONSTANT_FIELDS: [(&str, &str); 7] = [
    ("zone_id", "zone7_role1234567"),
    ("os", "android"),
    ("user_ip", "203.0.113.9"),
    ("product_name", "Pack of 60 gems"),
    (
        "product_info",
        r#"[{"product_id":10001,"product_num":60,"product_type":0},{"product_id":20002,"product_num":1,"product_type":2}]"#,
    ),
    ("product_desc", "60 gems and a chest"),
    ("extension", r#"{"server":"s7"}"#),
];

/// The status of a new order, and how many statuses an order goes through in turn.
const FIRST_STATUS: u8 = 1;
const STATUSES: u8 = 6;

/// A request is shorter than this.
const REQUEST_BYTES: usize = 1024;

/// The wallets that pay.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Spread {
    All,
    /// So many, evenly spaced among all.
    Hot(u32),
}

/// In which order the order numbers come.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Numbers {
    Ascending,
    /// As far apart as the digests that some games use.
    Random,
}

/// A call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asked {
    Exchange,
    Present,
    /// Of an exchange of an earlier row, each once.
    Cancel,
    Balance,
    /// About an exchange of an earlier row.
    Query,
    /// An order of a top-up.
    Order,
    /// A payment of an order of an earlier row, told by the admin API.
    Payment,
    /// The first report of an order.
    ReportNew,
    /// A report that changes the status of an order of an earlier row.
    ReportChanged,
}

/// The calls that a row sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calls {
    Only(Asked),
    /// 70 exchanges, 10 presents, 10 cancels and 10 balances of each hundred.
    Mix,
}

/// An exchange that was made, or an order that was reported: open id and order number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paid {
    open_id: u64,
    order: u64,
}

/// A game server with its keys.
pub(crate) struct Game {
    token: String,
    pay_key: PayKey,
    api_key: String,
    wallets: u32,
    clock: SystemClock,
    /// Orders so far: no number is used twice in a run.
    orders: u64,
    random: Random,
    /// Exchanges that can be cancelled.
    paid: Vec<Paid>,
    /// Orders of top-ups that can be paid.
    ordered: Vec<Paid>,
    /// Orders that were reported, each with its status.
    reported: VecDeque<(Paid, u8)>,
}

/// Requests one behind the other in one piece of memory.
pub(crate) struct Requests {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// What each asks, and what it has paid once it is answered.
    asked: Vec<(Asked, Option<Paid>)>,
}

impl Game {
    pub(crate) fn new(token: String, pay_key: String, api_key: String, wallets: u32) -> Self {
        let (pay_key, clock) = (PayKey::new(pay_key), SystemClock::new());
        Self {
            token,
            pay_key,
            api_key,
            wallets,
            clock,
            orders: 0,
            random: Random(1),
            paid: Vec::new(),
            ordered: Vec::new(),
            reported: VecDeque::new(),
        }
    }

    /// Builds and signs so many exchanges.
    pub(crate) fn prepare(&mut self, count: u32, spread: Spread, numbers: Numbers) -> Requests {
        self.prepare_calls(count, spread, numbers, Calls::Only(Asked::Exchange))
    }

    /// Builds and signs so many calls. There are fewer where no exchange is left to cancel or to ask for.
    pub(crate) fn prepare_calls(
        &mut self,
        count: u32,
        spread: Spread,
        numbers: Numbers,
        calls: Calls,
    ) -> Requests {
        let ts = self.clock.unix_millis().to_string();
        let count = usize::try_from(count).unwrap_or_default();
        let mut requests = Requests {
            bytes: Vec::with_capacity(count * REQUEST_BYTES),
            ends: Vec::with_capacity(count),
            asked: Vec::with_capacity(count),
        };
        for place in 0..count {
            let asked = match (calls, place % 10) {
                (Calls::Only(asked), _) => asked,
                (Calls::Mix, 0) => Asked::Present,
                (Calls::Mix, 3) => Asked::Cancel,
                (Calls::Mix, 6) => Asked::Balance,
                (Calls::Mix, _) => Asked::Exchange,
            };
            if asked == Asked::Payment {
                let Some(order) = self.ordered.pop() else { break };
                requests.add(asked, &self.payment(order), None);
                continue;
            }
            let Some(call) = asked.call() else {
                let Some((order, status)) = self.order(asked, spread, numbers) else { break };
                let made = (asked == Asked::ReportNew).then_some(order);
                requests.add(asked, &self.report(order, status, &ts), made);
                continue;
            };
            let paid = match asked {
                Asked::Cancel => self.paid.pop(),
                Asked::Query => self.paid.get(place % self.paid.len().max(1)).copied(),
                _ => None,
            };
            if paid.is_none() && matches!(asked, Asked::Cancel | Asked::Query) {
                break;
            }
            let open_id = paid.map_or_else(|| self.open_id(spread), |paid| paid.open_id);
            let biz_no = match (asked, paid) {
                (Asked::Query, Some(paid)) => paid.order.to_string(),
                _ => self.next_order(numbers),
            };
            let order = (asked, numbers, biz_no.parse());
            let will_pay = match order {
                (Asked::Exchange | Asked::Order, Numbers::Ascending, Ok(order)) => {
                    Some(Paid { open_id, order })
                }
                _ => None,
            };
            let request = self.call(call, &open_id.to_string(), &biz_no, paid, &ts);
            requests.add(asked, &request, will_pay);
        }
        requests
    }

    /// A file with so many credits: a gift for each player, and again from the first.
    pub(crate) fn credits(&mut self, count: u32) -> String {
        let mut file = "open_id,free,charge,ref\n".to_owned();
        for place in 0..count {
            let open_id = FIRST_OPEN_ID + u64::from(place % self.wallets);
            let order = self.next_order(Numbers::Ascending);
            let _ = writeln!(file, "{open_id},{CREDIT_AMOUNT},0,{order}");
        }
        file
    }

    /// Takes down exchanges that were made and orders that were reported. They can be cancelled and changed from now on.
    pub(crate) fn remember(&mut self, made: Vec<(Asked, Paid)>) {
        for (asked, paid) in made {
            match asked {
                Asked::ReportNew => self.reported.push_back((paid, FIRST_STATUS)),
                Asked::Order => self.ordered.push(paid),
                _ => self.paid.push(paid),
            }
        }
    }

    /// The order that a report is about, and its status after the report.
    fn order(&mut self, asked: Asked, spread: Spread, numbers: Numbers) -> Option<(Paid, u8)> {
        if asked == Asked::ReportNew {
            let (open_id, order) = (self.open_id(spread), self.next_order(numbers).parse().ok()?);
            return Some((Paid { open_id, order }, FIRST_STATUS));
        }
        // Each takes its turn, so that a report always changes the status.
        let (order, status) = self.reported.pop_front()?;
        let status = status % STATUSES + 1;
        self.reported.push_back((order, status));
        Some((order, status))
    }

    fn report(&self, Paid { open_id, order }: Paid, status: u8, ts: &str) -> Vec<u8> {
        let body = format!(
            r#"{{"out_biz_order_no":"{order}","out_order_no":"{order}","open_id":"{open_id}","order_create_time":{ts},"order_status":{status},"order_path":"{ORDER_PATH}","product_cover_img_id":"{IMG_ID}"}}"#
        );
        let target =
            format!("/openapi/mp/developer/order/v1/report?app_id={APP_ID}&access_token={}", self.token);
        post(&target, "application/json", &body)
    }

    fn payment(&self, Paid { order, .. }: Paid) -> Vec<u8> {
        let body = format!(
            r#"{{"provider":"wechat","provider_order_id":"4200001{order}","currency":"CNY","amount":{PRICE},"paid_at":"2026-01-01T08:00:00Z","biz_no":"{order}"}}"#
        );
        let head = format!("application/json\r\nAuthorization: Bearer {}", self.api_key);
        post(&format!("/admin/v1/apps/{APP_ID}/topups"), &head, &body)
    }

    fn open_id(&mut self, spread: Spread) -> u64 {
        let hot = match spread {
            Spread::All => self.wallets,
            Spread::Hot(hot) => hot.min(self.wallets),
        };
        let wallet = self.random.below(hot) * (self.wallets / hot);
        FIRST_OPEN_ID + u64::from(wallet)
    }

    fn next_order(&mut self, numbers: Numbers) -> String {
        self.orders += 1;
        match numbers {
            Numbers::Ascending => (FIRST_ORDER + self.orders).to_string(),
            Numbers::Random => format!("rnd{:016x}", scramble(self.orders)),
        }
    }

    fn call(&self, call: WalletCall, open_id: &str, biz_no: &str, paid: Option<Paid>, ts: &str) -> Vec<u8> {
        let amount = match call {
            WalletCall::Present => PRESENT_AMOUNT,
            WalletCall::Cancel => CANCEL_AMOUNT,
            WalletCall::Exchange | WalletCall::Balance | WalletCall::Query | WalletCall::Topup => AMOUNT,
        };
        let (amount, pay_biz_no) =
            (amount.to_string(), paid.map(|paid| paid.order.to_string()).unwrap_or_default());
        let varying = [
            ("app_id", APP_ID),
            ("open_id", open_id),
            ("biz_no", biz_no),
            ("pay_biz_no", &pay_biz_no),
            ("ts", ts),
            ("amount", &amount),
            ("product_id", PRODUCT_ID),
        ];
        let signed = varying.into_iter().chain(CONSTANT_FIELDS).filter(|(name, _)| call.signs(name));
        let sign = self.pay_key.sign(&canonical_string(signed.clone()));
        let form = form_urlencoded::Serializer::new(String::with_capacity(REQUEST_BYTES))
            .append_pair("access_token", &self.token)
            .extend_pairs(signed)
            .append_pair("sign", &sign)
            .finish();
        let path = format!("/api/kpay/minigame/{}", call.segment());
        post(&path, "application/x-www-form-urlencoded", &form)
    }
}

fn post(target: &str, content_type: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {content_type}\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

impl Asked {
    /// The call of the wallet; `None` for a payment and for a report of an order.
    fn call(self) -> Option<WalletCall> {
        match self {
            Self::Exchange => Some(WalletCall::Exchange),
            Self::Present => Some(WalletCall::Present),
            Self::Cancel => Some(WalletCall::Cancel),
            Self::Balance => Some(WalletCall::Balance),
            Self::Query => Some(WalletCall::Query),
            Self::Order => Some(WalletCall::Topup),
            Self::Payment | Self::ReportNew | Self::ReportChanged => None,
        }
    }
}

impl Requests {
    fn add(&mut self, asked: Asked, request: &[u8], will_pay: Option<Paid>) {
        self.asked.push((asked, will_pay));
        self.bytes.extend_from_slice(request);
        self.ends.push(self.bytes.len());
    }

    /// What a request asks, and what it has paid once it is answered.
    pub(crate) fn asked(&self, index: usize) -> Option<(Asked, Option<Paid>)> {
        self.asked.get(index).copied()
    }

    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of one request; `None` behind the last.
    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        let start = if index == 0 { 0 } else { *self.ends.get(index - 1)? };
        self.bytes.get(start..*self.ends.get(index)?)
    }
}

/// Random enough to spread load, and the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.0 += 1;
        u32::try_from(scramble(self.0) % u64::from(limit)).unwrap_or_default()
    }
}

/// Sends neighbours far apart, and no two numbers to the same place (the finish of `SplitMix64`).
fn scramble(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
