//! The exchanges that the clients send.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use domain::app::App;
use domain::caller::{Caller, Signed, TokenState};
use domain::exchange::{Exchange, PayPriority, Reading, TsWindow};
use domain::fields::Fields;
use domain::ids::{AppId, AppNo};
use domain::signature::{PayKey, exchange_string};

use super::rows::{Content, ITEMS, NUMBERS, REMARK, WALLETS, app_no, app_text, item_of};
use crate::exchange::batch::RecordedContent;

const NOW: i64 = 1_800_000_000_000;
/// A `ts` that is too old.
const STALE: i64 = NOW - 49 * 3_600_000;
const KEY: &str = "simulation";
const ZONE: &str = "s1_r1";

/// Number and content of an exchange, and whether its `ts` is fresh.
type ExchangeKey = (usize, Content, bool);

/// A cache of signed exchanges, because signing is slow and the same ones come often.
static SIGNED: LazyLock<Mutex<HashMap<ExchangeKey, Signed<Exchange>>>> = LazyLock::new(Mutex::default);

/// The exchange of a client, signed as a game server signs it.
pub(super) fn signed_exchange(number: usize, content: Content, is_fresh: bool) -> Signed<Exchange> {
    let asked = (number % NUMBERS, content, is_fresh);
    let mut signed = SIGNED.lock().unwrap();
    signed.entry(asked).or_insert_with(|| sign(asked)).clone()
}

fn sign((number, content, is_fresh): ExchangeKey) -> Signed<Exchange> {
    let app_id = app_text(content.wallet / WALLETS);
    let ts = if is_fresh { NOW } else { STALE };
    let form = format!(
        "app_id={app_id}&open_id={}&zone_id={ZONE}&os=ios&ts={ts}&user_ip=192.0.2.1&amount={}&pay_priority={}\
         &biz_no=n{number}&product_name=v{}&product_desc={REMARK}&product_info={ITEMS}",
        open_id(content),
        content.amount,
        u8::from(content.gifted_first),
        content.variant
    );
    let key = PayKey::new(KEY.to_owned());
    let mut fields = Fields::from_urlencoded(form.as_bytes()).unwrap();
    let sign = key.sign(&exchange_string(&fields));
    fields.add_text("sign".to_owned(), sign).unwrap();
    let app = App {
        no: AppNo(app_no(content.wallet / WALLETS)),
        live_pay_keys: vec![key.into()],
        ..App::new(AppId::parse(&app_id).unwrap())
    };
    let caller = Caller::new(Arc::new(app), TokenState::Valid).unwrap();
    let window = TsWindow { ahead_max: Duration::from_mins(5), behind_max: Duration::from_hours(48) };
    let reading =
        Reading { pay_priority_default: PayPriority::ChargedFirst, ts_window: window, now_millis: NOW };
    caller.verify(fields).unwrap().exchange(&reading).unwrap()
}

fn open_id(content: Content) -> String {
    format!("o{}", content.wallet % WALLETS)
}

/// The content of its idempotency record.
pub(super) fn recorded_content(content: Content) -> RecordedContent {
    RecordedContent {
        open_id: open_id(content),
        zone_id: ZONE.to_owned(),
        amount: content.amount,
        pay_priority: i16::from(content.gifted_first),
        item_id: item_of(content.variant),
        extension: String::new(),
    }
}
