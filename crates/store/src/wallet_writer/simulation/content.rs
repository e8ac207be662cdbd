//! The requests that the clients send.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use domain::app::App;
use domain::caller::{Caller, Signed, TokenState};
use domain::fields::Fields;
use domain::ids::{AppId, AppNo};
use domain::ledger::{ReferenceKind, micros};
use domain::signature::PayKey;
use domain::wallet::string_to_sign;
use domain::wallet::{Balances, DeveloperTexts, PayPriority, Reading, WalletCall, WalletForm, WalletRequest};

use super::link::moment;
use super::protocol::Recorded;
use super::rows::{
    ITEMS, NUMBERS, REMARK, RequestContent, RequestKind, WALLETS, app_no, app_text, item_of, number_text,
    offer_of, order_item, order_remark, wallet_no,
};
use crate::wallet_writer::rows::Record;

const NOW: i64 = 1_800_000_000_000;
/// A `ts` that is too old.
const STALE: i64 = NOW - 49 * 3_600_000;
const KEY: &str = "simulation";
const ZONE: &str = "s1_r1";

/// Number and content of a request, and whether its `ts` is fresh.
type RequestKey = (usize, RequestContent, bool);

/// A cache of signed requests, because signing is slow and the same ones come often.
static SIGNED: LazyLock<Mutex<HashMap<RequestKey, Signed<WalletRequest>>>> = LazyLock::new(Mutex::default);

/// The request of a client, signed as a game server signs it.
pub(super) fn signed_request(
    number: usize,
    content: RequestContent,
    is_fresh: bool,
) -> Signed<WalletRequest> {
    let asked = (number % NUMBERS, content, is_fresh);
    let mut signed = SIGNED.lock().unwrap();
    signed.entry(asked).or_insert_with(|| sign(asked)).clone()
}

fn sign((number, content, is_fresh): RequestKey) -> Signed<WalletRequest> {
    let app_id = app_text(content.wallet / WALLETS);
    let ts = if is_fresh { NOW } else { STALE };
    let call = match content.kind {
        RequestKind::Exchange => WalletCall::Exchange,
        RequestKind::Present => WalletCall::Present,
        RequestKind::Cancel => WalletCall::Cancel,
        RequestKind::Close | RequestKind::Query => WalletCall::Query,
        RequestKind::Balance => WalletCall::Balance,
        RequestKind::Order => WalletCall::Topup,
    };
    let form = format!(
        "app_id={app_id}&open_id=o{}&zone_id={ZONE}&os=ios&ts={ts}&user_ip=192.0.2.1&amount={}&pay_priority={}\
         &biz_no=n{number}&pay_biz_no={}&close={}&product_name=v{}&product_desc={REMARK}&product_info={ITEMS}\
         &product_id=p{}",
        content.wallet % WALLETS,
        content.amount,
        u8::from(content.gifted_first),
        content.of.map(number_text).unwrap_or_default(),
        u8::from(content.kind == RequestKind::Close),
        content.variant,
        content.variant
    );
    let key = PayKey::new(KEY.to_owned());
    let mut form = WalletForm { call, fields: Fields::from_urlencoded(form.as_bytes()).unwrap() };
    let sign = key.sign(&string_to_sign(&form));
    form.fields.add_text("sign".to_owned(), sign).unwrap();
    let app = App {
        no: AppNo(app_no(content.wallet / WALLETS)),
        live_pay_keys: vec![key.into()],
        ..App::new(AppId::parse(&app_id).unwrap())
    };
    let caller = Caller::new(Arc::new(app), TokenState::Valid).unwrap();
    let offer = Some(offer_of(content.variant));
    let reading = Reading { offer, ..Reading::new(PayPriority::ChargedFirst, NOW) };
    caller.verify(form).unwrap().request(&reading).unwrap()
}

/// A row as the program reads it.
pub(super) fn record(recorded: Recorded) -> Record<'static> {
    let Recorded { row, balances, remaining, is_expired } = recorded;
    let content = row.content;
    let bought = content.kind == RequestKind::Exchange;
    let text = |text: &str, has: bool| has.then(|| Cow::Owned(text.to_owned()));
    let kind = match content.kind {
        RequestKind::Exchange => ReferenceKind::Exchange,
        RequestKind::Present => ReferenceKind::Present,
        RequestKind::Cancel => ReferenceKind::Cancel,
        RequestKind::Order => ReferenceKind::TopupOrder,
        RequestKind::Close | RequestKind::Query | RequestKind::Balance => ReferenceKind::Closed,
    };
    let has_sender = kind != ReferenceKind::Closed;
    let ordered = kind == ReferenceKind::TopupOrder;
    let item_id = match kind {
        ReferenceKind::Exchange => Some(item_of(content.variant)),
        ReferenceKind::TopupOrder => Some(order_item(content.variant)),
        _ => None,
    };
    let remark = if ordered { order_remark(content.variant) } else { REMARK.to_owned() };
    Record {
        wallet_no: wallet_no(content.wallet),
        kind,
        free_change: row.free_change,
        charge_change: row.charge_change,
        balances: Balances::new(balances.0, balances.1).unwrap(),
        remaining,
        of: content.of.map(|of| Cow::Owned(number_text(of))),
        pay_priority: bought.then(|| PayPriority::from_code(content.gifted_first.into()).unwrap()),
        item_id,
        zone_id: text(ZONE, has_sender),
        texts: DeveloperTexts::NAMES.map(|_| text("", has_sender)),
        remark: text(&remark, has_sender && !bought),
        at: micros(moment(row.created_at)),
        is_expired,
    }
}
