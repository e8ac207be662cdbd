//! The route table of the admin API: every route once, with what it asks of its caller.

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::call::Call;
use super::problem::Problem;
use super::{apps, exchanges, images, operator_log, orders, tokens, wallets};
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

/// What a route does. Whoever adds one is led by the compiler to the API's document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// All apps.
    ListApps,
    /// A new app.
    CreateApp,
    /// One app.
    GetApp,
    /// What an app is like.
    ChangeApp,
    /// An app's own rate limits.
    SetAppLimits,
    /// Refuses an app.
    SuspendApp,
    /// Lets it go on.
    ResumeApp,
    /// A new pay key.
    RotatePayKey,
    /// A new app secret.
    RotateAppSecret,
    /// The pages that orders may lead to.
    PublishPackage,
    /// Points of interest.
    AddPois,
    /// Payment pre-orders.
    AddPreorders,
    /// A new access token.
    IssueToken,
    /// Ends access tokens.
    RevokeTokens,
    /// Makes players known.
    AddUsers,
    /// The players of an app.
    ListWallets,
    /// A player's purses.
    GetWallet,
    /// Their ledger.
    ListEntries,
    /// Adds to them.
    CreditWallet,
    /// What was sold under a number.
    GetExchange,
    /// An order with its history.
    GetOrder,
    /// Orders of all apps.
    ListOrders,
    /// Uploaded images.
    ListImages,
    /// An uploaded image.
    GetImage,
    /// Blocks its picture.
    BlockImage,
    /// Ends the block.
    UnblockImage,
    /// What operators did.
    ListOperatorLog,
    /// Whether a signature matches, and why not.
    CheckSignature,
}

impl Endpoint {
    /// Its name among the metrics and in the API's document. It never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ListApps => "listApps",
            Self::CreateApp => "createApp",
            Self::GetApp => "getApp",
            Self::ChangeApp => "changeApp",
            Self::SetAppLimits => "setAppLimits",
            Self::SuspendApp => "suspendApp",
            Self::ResumeApp => "resumeApp",
            Self::RotatePayKey => "rotatePayKey",
            Self::RotateAppSecret => "rotateAppSecret",
            Self::PublishPackage => "publishPackage",
            Self::AddPois => "addPois",
            Self::AddPreorders => "addPreorders",
            Self::IssueToken => "issueToken",
            Self::RevokeTokens => "revokeTokens",
            Self::AddUsers => "addUsers",
            Self::ListWallets => "listWallets",
            Self::GetWallet => "getWallet",
            Self::ListEntries => "listEntries",
            Self::CreditWallet => "creditWallet",
            Self::GetExchange => "getExchange",
            Self::GetOrder => "getOrder",
            Self::ListOrders => "listOrders",
            Self::ListImages => "listImages",
            Self::GetImage => "getImage",
            Self::BlockImage => "blockImage",
            Self::UnblockImage => "unblockImage",
            Self::ListOperatorLog => "listOperatorLog",
            Self::CheckSignature => "checkSignature",
        }
    }
}

/// What answers a route.
type Handler = for<'a> fn(&'a AppState, &'a Call) -> BoxFuture<'a, Result<Value, Problem>>;

/// One route of the admin API.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// What it does.
    pub endpoint: Endpoint,
    /// Its method.
    pub method: &'static str,
    /// Its path, with parameters in braces.
    pub path: &'static str,
    /// What it asks of its caller.
    pub access: Access,
    pub(super) handler: Handler,
}

/// A row of the table, written as it reads.
macro_rules! route {
    ($method:literal, $path:literal, $endpoint:ident, $access:ident, $handler:path) => {
        Route {
            endpoint: Endpoint::$endpoint,
            method: $method,
            path: concat!("/admin/v1", $path),
            access: Access::$access,
            handler: |state, call| Box::pin($handler(state, call)),
        }
    };
}

/// Every route of the admin API, those of a path together.
pub static ROUTES: [Route; 28] = [
    route!("GET", "/apps", ListApps, Read, apps::list),
    route!("POST", "/apps", CreateApp, Once, apps::create),
    route!("GET", "/apps/{app_id}", GetApp, Read, apps::get),
    route!("PATCH", "/apps/{app_id}", ChangeApp, Replace, apps::change),
    route!("PUT", "/apps/{app_id}/limits", SetAppLimits, Replace, apps::set_limits),
    route!("PUT", "/apps/{app_id}/suspension", SuspendApp, Replace, apps::suspend),
    route!("DELETE", "/apps/{app_id}/suspension", ResumeApp, Replace, apps::resume),
    route!("POST", "/apps/{app_id}/pay-keys", RotatePayKey, Once, apps::rotate_pay_key),
    route!("POST", "/apps/{app_id}/app-secrets", RotateAppSecret, Once, apps::rotate_secret),
    route!("POST", "/apps/{app_id}/packages", PublishPackage, Once, apps::publish),
    route!("POST", "/apps/{app_id}/pois", AddPois, Once, apps::add_pois),
    route!("POST", "/apps/{app_id}/preorders", AddPreorders, Once, apps::add_preorders),
    route!("POST", "/apps/{app_id}/tokens", IssueToken, Once, tokens::issue),
    route!("POST", "/apps/{app_id}/token-revocations", RevokeTokens, Once, tokens::revoke),
    route!("POST", "/apps/{app_id}/users", AddUsers, Once, wallets::add_users),
    route!("GET", "/apps/{app_id}/wallets", ListWallets, Read, wallets::list),
    route!("GET", "/apps/{app_id}/wallets/{open_id}", GetWallet, Read, wallets::get),
    route!("GET", "/apps/{app_id}/wallets/{open_id}/entries", ListEntries, Read, wallets::entries),
    route!("POST", "/apps/{app_id}/wallets/{open_id}/credits", CreditWallet, Once, wallets::credit),
    route!("GET", "/apps/{app_id}/exchanges/{biz_no}", GetExchange, Read, exchanges::get),
    route!("GET", "/apps/{app_id}/orders/{out_biz_order_no}", GetOrder, Read, orders::get),
    route!("GET", "/orders", ListOrders, Read, orders::list),
    route!("GET", "/images", ListImages, Read, images::list),
    route!("GET", "/images/{img_id}", GetImage, Read, images::get),
    route!("PUT", "/images/{img_id}/block", BlockImage, Replace, images::block),
    route!("DELETE", "/images/{img_id}/block", UnblockImage, Replace, images::unblock),
    route!("GET", "/operator-log", ListOperatorLog, Read, operator_log::list),
    route!("POST", "/signature-checks", CheckSignature, Check, exchanges::check_signature),
];
