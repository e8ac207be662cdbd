//! The route table of the admin API: every route once, with what it asks of its caller.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::call::Call;
use super::problem::Problem;
use super::{apps, exchanges, images, operator_log, orders, tokens, wallets};
use crate::openapi::Operation;
use crate::state::AppState;

/// What a route asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Any API key; reads.
    Read,
    /// An admin's key; changes nothing, but is no GET.
    Check,
    /// An admin's key; to repeat it changes nothing more.
    Replace,
    /// An admin's key and an idempotency key: takes effect once.
    Once,
}

/// What answers a route.
type Handler = for<'a> fn(&'a AppState, &'a Call) -> BoxFuture<'a, Result<Value, Problem>>;

/// One route of the admin API: one method of one path.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// Its method.
    pub method: &'static str,
    /// Its path, with parameters in braces.
    pub path: &'static str,
    /// Its name among the metrics and in the API's document. It never changes.
    pub id: &'static str,
    /// Its group in the API's document.
    pub tag: &'static str,
    /// What it asks of its caller.
    pub access: Access,
    pub(super) handler: Handler,
    /// What the API's document says of it.
    pub describe: fn() -> Operation<Problem>,
}

/// A row of the table, written as it reads. The description must be one of what the handler answers.
macro_rules! route {
    ($method:ident $path:literal, $id:literal in $tag:literal, $access:ident, $handler:path, $describe:path) => {
        Route {
            method: stringify!($method),
            path: concat!("/admin/v1", $path),
            id: $id,
            tag: $tag,
            access: Access::$access,
            handler: |state, call| Box::pin(async move { Ok(json!($handler(state, call).await?)) }),
            describe: || $describe().of($handler),
        }
    };
}

/// Every route of the admin API, those of a path together.
#[rustfmt::skip]
pub static ROUTES: [Route; 28] = [
    route!(GET "/apps", "listApps" in "Apps", Read, apps::list, apps::describe_list),
    route!(POST "/apps", "createApp" in "Apps", Once, apps::create, apps::describe_create),
    route!(GET "/apps/{app_id}", "getApp" in "Apps", Read, apps::get, apps::describe_get),
    route!(PATCH "/apps/{app_id}", "changeApp" in "Apps", Replace, apps::change, apps::describe_change),
    route!(PUT "/apps/{app_id}/limits", "setAppLimits" in "Apps", Replace, apps::set_limits, apps::describe_set_limits),
    route!(PUT "/apps/{app_id}/suspension", "suspendApp" in "Apps", Replace, apps::suspend, apps::describe_suspend),
    route!(DELETE "/apps/{app_id}/suspension", "resumeApp" in "Apps", Replace, apps::resume, apps::describe_resume),
    route!(POST "/apps/{app_id}/pay-keys", "rotatePayKey" in "Apps", Once, apps::rotate_pay_key, apps::describe_rotate_pay_key),
    route!(POST "/apps/{app_id}/app-secrets", "rotateAppSecret" in "Apps", Once, apps::rotate_secret, apps::describe_rotate_secret),
    route!(POST "/apps/{app_id}/packages", "publishPackage" in "Apps", Once, apps::publish, apps::describe_publish),
    route!(POST "/apps/{app_id}/pois", "addPois" in "Apps", Once, apps::add_pois, apps::describe_add_pois),
    route!(POST "/apps/{app_id}/preorders", "addPreorders" in "Apps", Once, apps::add_preorders, apps::describe_add_preorders),
    route!(POST "/apps/{app_id}/tokens", "issueToken" in "Apps", Once, tokens::issue, tokens::describe_issue),
    route!(POST "/apps/{app_id}/token-revocations", "revokeTokens" in "Apps", Once, tokens::revoke, tokens::describe_revoke),
    route!(POST "/apps/{app_id}/users", "addUsers" in "Players", Once, wallets::add_users, wallets::describe_add_users),
    route!(GET "/apps/{app_id}/wallets", "listWallets" in "Players", Read, wallets::list, wallets::describe_list),
    route!(GET "/apps/{app_id}/wallets/{open_id}", "getWallet" in "Players", Read, wallets::get, wallets::describe_get),
    route!(GET "/apps/{app_id}/wallets/{open_id}/entries", "listEntries" in "Players", Read, wallets::entries, wallets::describe_entries),
    route!(POST "/apps/{app_id}/wallets/{open_id}/credits", "creditWallet" in "Players", Once, wallets::credit, wallets::describe_credit),
    route!(GET "/apps/{app_id}/exchanges/{biz_no}", "getExchange" in "Exchanges", Read, exchanges::get, exchanges::describe_get),
    route!(GET "/apps/{app_id}/orders/{out_biz_order_no}", "getOrder" in "Orders", Read, orders::get, orders::describe_get),
    route!(GET "/orders", "listOrders" in "Orders", Read, orders::list, orders::describe_list),
    route!(GET "/images", "listImages" in "Images", Read, images::list, images::describe_list),
    route!(GET "/images/{img_id}", "getImage" in "Images", Read, images::get, images::describe_get),
    route!(PUT "/images/{img_id}/block", "blockImage" in "Images", Replace, images::block, images::describe_block),
    route!(DELETE "/images/{img_id}/block", "unblockImage" in "Images", Replace, images::unblock, images::describe_unblock),
    route!(GET "/operator-log", "listOperatorLog" in "Operator log", Read, operator_log::list, operator_log::describe_list),
    route!(POST "/signature-checks", "checkSignature" in "Exchanges", Check, exchanges::check_signature, exchanges::describe_check_signature),
];
