//! Exchanges as the clients of the simulation send them.

use std::sync::Arc;
use std::time::Duration;

use super::rows::{Content, NUMBERS, WALLETS, app_text};
use crate::auth::{Authenticated, Caller};
use crate::domain::exchange::{Amount, BusinessContent, Exchange, PayPriority, Reading, TsWindow};
use crate::domain::fields::Fields;
use crate::domain::ids::{AppId, BizNo, OpenId, ProductText};
use crate::store::App;
use crate::store::exchange::batch::RecordedContent;

const NOW: i64 = 1_800_000_000_000;
const ZONE: &str = "s1_r1";
const ITEMS: &str = r#"[{"product_id":1,"product_num":1,"product_type":0}]"#;
const REMARK: &str = "d";

/// Makes exchanges of all contents out of one that was parsed.
pub(super) struct Sender {
    template: Exchange,
    callers: Vec<Caller>,
}

impl Sender {
    pub(super) fn new(apps: usize) -> Self {
        let body = format!(
            "open_id=o0&zone_id={ZONE}&os=ios&ts={NOW}&user_ip=192.0.2.1&amount=1&biz_no=n0&product_name=v0\
             &product_desc={REMARK}&product_info={ITEMS}"
        );
        let window = TsWindow { ahead_max: Duration::from_mins(5), behind_max: Duration::from_hours(48) };
        let reading =
            Reading { pay_priority_default: PayPriority::ChargedFirst, ts_window: window, now_millis: NOW };
        let template = Exchange::parse(&Fields::from_urlencoded(body.as_bytes()).unwrap(), &reading).unwrap();
        let app = |app| Caller::for_tests(Arc::new(App::for_tests(AppId::parse(&app_text(app)).unwrap())));
        Self { template, callers: (0..apps).map(app).collect() }
    }

    pub(super) fn exchange(
        &self,
        number: usize,
        content: Content,
        is_fresh: bool,
    ) -> Authenticated<Exchange> {
        let parsed = BusinessContent {
            open_id: OpenId::parse(&open_id(content)).unwrap(),
            amount: Amount::parse(&content.amount.to_string()).unwrap(),
            pay_priority: if content.gifted_first {
                PayPriority::GiftedFirst
            } else {
                PayPriority::ChargedFirst
            },
            product_name: ProductText::parse(&format!("v{}", content.variant)).unwrap(),
            ..self.template.content.clone()
        };
        let biz_no = BizNo::parse(&format!("n{}", number % NUMBERS)).unwrap();
        let exchange = Exchange { biz_no, content: parsed, is_fresh, ..self.template.clone() };
        self.callers[content.wallet / WALLETS].clone().vouch(exchange)
    }
}

fn open_id(content: Content) -> String {
    format!("o{}", content.wallet % WALLETS)
}

/// The content as a record holds it.
pub(super) fn recorded_content(content: Content) -> RecordedContent {
    RecordedContent {
        open_id: open_id(content),
        zone_id: ZONE.to_owned(),
        amount: content.amount,
        pay_priority: i16::from(content.gifted_first),
        product_name: format!("v{}", content.variant),
        product_info: ITEMS.to_owned(),
        product_desc: REMARK.to_owned(),
        extension: String::new(),
    }
}
