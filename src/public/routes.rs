//! The route table of the public listener, every route once.

use axum::routing::{MethodFilter, MethodRouter, on};
use domain::endpoint::Endpoint;

use super::sandbox::{requests, server};
use super::wallet::{balance, cancel, exchange, present, query, topup};
use super::{callback, image, image_upload, login, order_report, sandbox, token};
use crate::config::Config;
use crate::http::refusal::{Envelope, OwnNames, PROVIDERS, Refusal};
use crate::openapi::Operation;
use crate::state::AppState;

/// How a route knows its caller. A test asks each of these for a case of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Authentication {
    /// Token and signature in the form.
    SignedForm,
    /// Token in the query.
    QueryToken,
    /// Token in the query or the body.
    QueryOrBodyToken,
    /// App secret.
    AppSecret,
    /// Signature of a payment provider over the body.
    SignedBody,
    /// None: whoever knows the path may see what is there.
    Path,
}

/// One route of the public listener: one method of one path.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// Its method.
    pub method: &'static str,
    /// Path, with parameters in braces.
    pub path: &'static str,
    /// Its name in the API's document. It never changes.
    pub id: &'static str,
    /// Its group in the API's document.
    pub tag: &'static str,
    /// How it knows its caller.
    pub authentication: Authentication,
    /// What the metrics count it as.
    pub endpoint: Endpoint,
    /// Names of the answer's fields.
    pub envelope: Envelope,
    /// Whether only a sandbox server has it (contract 18). It stops all other calls while it works.
    pub is_of_sandbox_server: bool,
    /// Its names of fields that others call otherwise.
    pub names: OwnNames,
    /// Makes what answers it.
    pub handler: fn() -> MethodRouter<AppState>,
    /// The text of the API's document about it.
    pub describe: fn(&Config) -> Operation<Refusal>,
}

impl Route {
    /// Whether it shows the log of requests, and so leaves no line there.
    pub(super) fn is_request_log(&self) -> bool {
        self.id == "listRequests"
    }

    const fn of_sandbox_server(self) -> Self {
        Self { is_of_sandbox_server: true, ..self }
    }

    const fn naming(self, names: OwnNames) -> Self {
        Self { names, ..self }
    }
}

/// A row of the table, written as it reads.
macro_rules! route {
    ($method:ident $path:literal, $id:literal in $tag:literal, $authentication:ident, $endpoint:ident, $envelope:ident,
     $handler:path, $describe:path) => {
        Route {
            method: stringify!($method),
            path: $path,
            id: $id,
            tag: $tag,
            authentication: Authentication::$authentication,
            endpoint: Endpoint::$endpoint,
            envelope: Envelope::$envelope,
            is_of_sandbox_server: false,
            names: &[],
            handler: || on(MethodFilter::$method, $handler),
            describe: $describe,
        }
    };
}

/// Every route of the public listener, those of a path together. They are those of contract 1.2.1: sections 3 to 6, 10,
/// 11, 15, 18, 19.2 and 19.4, and nothing else.
#[rustfmt::skip]
pub static ROUTES: [Route; 26] = [
    route!(POST "/api/{payment_segment}/minigame/pay", "exchange" in "Exchange",
        SignedForm, Exchange, Exchange, exchange::exchange, exchange::describe),
    route!(POST "/api/{payment_segment}/minigame/balance", "getBalance" in "Exchange",
        SignedForm, Balance, Exchange, balance::balance, balance::describe),
    route!(POST "/api/{payment_segment}/minigame/present", "present" in "Exchange",
        SignedForm, Present, Exchange, present::present, present::describe),
    route!(POST "/api/{payment_segment}/minigame/cancel", "cancel" in "Exchange",
        SignedForm, Cancel, Exchange, cancel::cancel, cancel::describe),
    route!(POST "/api/{payment_segment}/minigame/query", "queryNumber" in "Exchange",
        SignedForm, Query, Exchange, query::query, query::describe),
    route!(POST "/api/{payment_segment}/minigame/topup", "orderTopup" in "Exchange",
        SignedForm, Topup, Exchange, topup::topup, topup::describe),
    route!(POST "/openapi/mp/developer/order/v1/report", "reportOrder" in "Orders",
        QueryToken, OrderReport, Open, order_report::report, order_report::describe),
    route!(POST "/openapi/mp/tp/order/v1/report", "reportOrderByProvider" in "Orders",
        QueryToken, OrderReport, Open, order_report::report_by_provider, order_report::describe_by_provider)
        .naming(PROVIDERS),
    route!(POST "/openapi/mp/developer/file/img/uploadWithFile", "uploadWithFile" in "Images",
        QueryToken, UploadWithFile, Open, image_upload::upload_with_file, image_upload::describe_with_file),
    route!(POST "/openapi/mp/developer/file/img/uploadWithUrl", "uploadWithUrl" in "Images",
        QueryOrBodyToken, UploadWithUrl, Open, image_upload::upload_with_url, image_upload::describe_with_url),
    route!(GET "/oauth2/access_token", "getAccessToken" in "Tokens",
        AppSecret, AccessToken, Open, token::access_token, token::describe_get),
    route!(POST "/oauth2/access_token", "postAccessToken" in "Tokens",
        AppSecret, AccessToken, Open, token::access_token, token::describe_post),
    route!(GET "/game/minigame/jscode2session", "getGameSession" in "Login",
        AppSecret, Login, Open, login::login, login::describe_get),
    route!(POST "/game/minigame/jscode2session", "postGameSession" in "Login",
        AppSecret, Login, Open, login::login, login::describe_post),
    route!(GET "/oauth2/mp/code2session", "getProgramSession" in "Login",
        AppSecret, Login, Open, login::login, login::describe_get),
    route!(POST "/oauth2/mp/code2session", "postProgramSession" in "Login",
        AppSecret, Login, Open, login::login, login::describe_post),
    route!(POST "/sandbox/v1/faults", "askForFault" in "Sandbox",
        QueryToken, Sandbox, Open, sandbox::faults, sandbox::describe_faults),
    route!(POST "/sandbox/v1/shipments", "tellOfShipment" in "Sandbox",
        QueryToken, Sandbox, Open, sandbox::shipments, sandbox::describe_shipments),
    route!(GET "/sandbox/v1/requests", "listRequests" in "Sandbox",
        QueryToken, Sandbox, Open, requests::requests, requests::describe_requests),
    route!(POST "/sandbox/v1/reset", "reset" in "Sandbox server",
        QueryToken, Sandbox, Open, server::reset, server::describe_reset).of_sandbox_server(),
    route!(POST "/sandbox/v1/wallets", "setWallet" in "Sandbox server",
        QueryToken, Sandbox, Open, server::wallets, server::describe_wallets).of_sandbox_server(),
    route!(POST "/sandbox/v1/topups", "payTopup" in "Sandbox server",
        QueryToken, Sandbox, Open, server::topups, server::describe_topups).of_sandbox_server(),
    route!(POST "/sandbox/v1/clock", "moveClock" in "Sandbox server",
        QueryToken, Sandbox, Open, server::clock, server::describe_clock).of_sandbox_server(),
    route!(POST "/notify/{app_id}/{provider}", "notify" in "Callbacks",
        SignedBody, Callback, Open, callback::callback, callback::describe),
    route!(GET "/img/{img_id}", "getImage" in "Images", Path, Image, Open, image::image, image::describe_get),
    route!(HEAD "/img/{img_id}", "headImage" in "Images", Path, Image, Open, image::image, image::describe_head),
];
