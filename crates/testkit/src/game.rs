//! A game server for tests: its requests are valid and signed.

use std::collections::BTreeMap;

use domain::signature::PayKey;
use domain::wallet::{DeveloperTexts, WalletCall, canonical_string};

use super::{Answer, NOW, Request, TestApp, TestTill, form, until};

/// What a live app is told of a wrong signature.
pub const BAD_SIGNATURE: &str = "sign: the signature does not match; expected the HMAC-SHA256 with the pay key, in \
    hexadecimal, of the signed fields as name=value, in the order of their names, joined with &";
/// What a sandbox app is told of it beside the diagnosis.
pub const DIAGNOSED: &str =
    "sign: the signature does not match; data.string_to_sign is what the server signed with the pay key";

/// Path of the exchange.
pub const PATH: &str = "/api/kpay/minigame/pay";
/// Items that are accepted.
pub const ITEMS: &str = r#"[{"product_id":1,"product_num":2,"product_type":0}]"#;

/// The fields of a call, changed as a test wants, then signed.
#[derive(Debug, Clone)]
pub struct Game {
    pub fields: BTreeMap<&'static str, String>,
    key: String,
    call: WalletCall,
}

impl Game {
    /// An exchange.
    pub fn new(app: &TestApp, open_id: &str, biz_no: &str, amount: i64) -> Self {
        let fields = [
            ("access_token", app.token.as_str()),
            ("open_id", open_id),
            ("app_id", app.id.as_str()),
            ("zone_id", "z1_r1"),
            ("os", "android"),
            ("ts", &NOW.to_string()),
            ("user_ip", "203.0.113.9"),
            ("amount", &amount.to_string()),
            ("biz_no", biz_no),
            ("product_name", "Sword & shield = 100%"),
            ("product_info", ITEMS),
            ("product_desc", "remark"),
        ];
        let fields = fields.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        Self { fields, key: app.pay_key.clone(), call: WalletCall::Exchange }
    }

    /// A present of gifted currency.
    pub fn present(app: &TestApp, open_id: &str, biz_no: &str, amount: i64) -> Self {
        Self::new(app, open_id, biz_no, amount).into_call(WalletCall::Present)
    }

    /// A cancel of an exchange.
    pub fn cancel(app: &TestApp, open_id: &str, biz_no: &str, pay_biz_no: &str, amount: i64) -> Self {
        let cancel = Self::new(app, open_id, biz_no, amount).with("pay_biz_no", pay_biz_no);
        cancel.into_call(WalletCall::Cancel)
    }

    /// A look at both purses.
    pub fn balance(app: &TestApp, open_id: &str) -> Self {
        Self::new(app, open_id, "", 0).into_call(WalletCall::Balance)
    }

    /// A question about a number.
    pub fn query(app: &TestApp, open_id: &str, biz_no: &str) -> Self {
        Self::new(app, open_id, biz_no, 0).into_call(WalletCall::Query)
    }

    /// An order of a top-up.
    pub fn topup(app: &TestApp, open_id: &str, biz_no: &str, product_id: &str) -> Self {
        let topup = Self::new(app, open_id, biz_no, 0).with("product_id", product_id);
        topup.into_call(WalletCall::Topup)
    }

    /// Another call, with those of the fields that it signs.
    fn into_call(mut self, call: WalletCall) -> Self {
        self.fields.retain(|name, _| *name == "access_token" || call.signs(name));
        Self { call, ..self }
    }

    /// Sets a field.
    pub fn with(mut self, name: &'static str, value: impl std::fmt::Display) -> Self {
        self.fields.insert(name, value.to_string());
        self
    }

    /// Sets every text of the developer that the call has.
    pub fn with_texts(mut self, text: &str) -> Self {
        let names = DeveloperTexts::NAMES.into_iter().filter(|name| self.call.signs(name));
        self.fields.extend(names.map(|name| (name, text.to_owned())));
        self
    }

    /// Leaves a field out.
    pub fn without(mut self, name: &'static str) -> Self {
        self.fields.remove(name);
        self
    }

    /// Signs with another key.
    pub fn keyed(mut self, key: &str) -> Self {
        key.clone_into(&mut self.key);
        self
    }

    /// The string that is signed.
    pub fn string_to_sign(&self) -> String {
        let signed = self.fields.iter().filter(|(name, _)| self.call.signs(name));
        canonical_string(signed.map(|(name, value)| (*name, value.as_str())))
    }

    /// The form body, signed unless the test set `sign` itself.
    pub fn body(&self) -> String {
        let sign = self
            .fields
            .get("sign")
            .cloned()
            .unwrap_or_else(|| PayKey::new(self.key.clone()).sign(&self.string_to_sign()));
        let mut pairs: Vec<(&str, &str)> = self
            .fields
            .iter()
            .filter(|(name, _)| **name != "sign")
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        pairs.push(("sign", &sign));
        form(&pairs)
    }

    /// Path of the call.
    pub fn path(&self) -> String {
        format!("/api/kpay/minigame/{}", self.call.segment())
    }

    pub fn request(&self) -> Request {
        Request::post(&self.path())
            .header("content-type", "application/x-www-form-urlencoded")
            .body(self.body())
    }

    pub async fn send(&self, till: &TestTill) -> Answer {
        till.send(self.request()).await
    }

    /// Sends it again as long as it is answered 503: by a server with short limits, on a machine that may be slow.
    pub async fn send_until_served(&self, till: &TestTill) -> Answer {
        let mut answer = self.send(till).await;
        until("the call is served", async || {
            if answer.status == 503 {
                answer = self.send(till).await;
            }
            answer.status != 503
        })
        .await;
        answer
    }
}
