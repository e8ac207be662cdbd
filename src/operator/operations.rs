//! The faces of the till for operators: what each of command line, admin API and console can do and show, and why another one
//! cannot. The types of `domain::operation` say what each operation does.

/// A face, for one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaceEntry {
    /// It has it, by this name.
    Has(&'static str),
    /// It has it not, for this reason.
    Lacks(&'static str),
}

impl FaceEntry {
    /// The name by which the face has it.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Has(name) => Some(name),
            Self::Lacks(_) => None,
        }
    }
}

/// An operation or a view of operators.
#[derive(Debug, Clone, Copy)]
pub struct OperationRow {
    /// Its action in the operator's log (contract 8.5), or what is shown.
    pub action: &'static str,
    /// The command of the command line.
    pub command: FaceEntry,
    /// The `operationId` of the admin API.
    pub admin: FaceEntry,
    /// The form or the page of the console.
    pub console: FaceEntry,
}

/// Declares rows: action, command, `operationId`, and path. In brackets: the reason why a face lacks it.
macro_rules! operations {
    ($(#[$about:meta])* $name:ident: $($action:literal: $command:tt, $admin:tt, $console:tt;)+) => {
        $(#[$about])*
        pub const $name: &[OperationRow] = &[$(OperationRow {
            action: $action,
            command: operations!(@face $command),
            admin: operations!(@face $admin),
            console: operations!(@face $console),
        }),+];
    };
    (@face [$reason:expr]) => { FaceEntry::Lacks($reason) };
    (@face $name:literal) => { FaceEntry::Has($name) };
}

// Why a face lacks what another one has.
const OF_PERSON: &str = "only a person with a session does it, who proves that they are there";
const SHOWN_ONCE: &str = "a person is shown the password, and hands it over";
const GAME_DOES: &str = "programs do it for an app; a person uses the command line once";
const FILES: &str = "it reads or writes files of the machine";
const PROCESS: &str = "it is about the program itself, or about a process";
const TWO_PEOPLE: &str = "two people are asked, who are told apart by their sessions";
const SHELL_NO_LIMIT: &str = "the command line needs no second person";
const AT_ONCE: &str = "it makes the list in one call, with progress and a repeat";
const IN_LIST: &str = "the list has all of it";
const SCREEN: &str = "a way of showing what other rows have";
const TEST_TOOL: &str = "it is a tool of a game's developer";
const PAGE_OF_APP: &str = "the page of the app shows it";
const PAGE_OF_PLAYER: &str = "the page of the player shows it";
const PAGE_OF_PAYMENT: &str = "the page of the payment shows it";
const SERVER_REFUNDS: &str = "the payment server tells of refunds; a person uses the command line";
const PROGRAMS_TELL: &str =
    "programs tell of payments; a person uses the command line for one that is missing";
const FILE_OF_PROVIDER: &str = "whoever fetches the file from the provider runs the command on it";
const SECRET_FROM_PROVIDER: &str = "whoever has the secret of the provider sets it once, without a browser";

operations! {
    /// Every operation.
    OPERATIONS:
    "app.create": "app create", "createApp", "/console/new-app";
    "app.change": "app change", "changeApp", "/console/apps/{app_id}/settings";
    "app.limit": "app limit", "setAppLimits", "/console/apps/{app_id}/limits";
    "app.suspend": "app suspend", "suspendApp", "/console/apps/{app_id}/suspend";
    "app.resume": "app resume", "resumeApp", "/console/apps/{app_id}/resume";
    "app.rotate_pay_key": "app rotate-pay-key", "rotatePayKey", "/console/apps/{app_id}/rotate-pay-key";
    "app.rotate_secret": "app rotate-secret", "rotateAppSecret", "/console/apps/{app_id}/rotate-secret";
    "app.publish": "app publish", "publishPackage", "/console/apps/{app_id}/packages";
    "app.poi.add": "app poi add", "addPois", "/console/apps/{app_id}/pois";
    "app.preorder.add": "app preorder add", "addPreorders", "/console/apps/{app_id}/preorders";
    "token.issue": "token issue", "issueToken", [GAME_DOES];
    "token.revoke": "token revoke", "revokeTokens", "/console/apps/{app_id}/token-revocations";
    "login_code.issue": "login-code issue", "issueLoginCode", "/console/apps/{app_id}/login-codes";
    "user.add": "user add", "addUsers", [GAME_DOES];
    "wallet.credit": "wallet credit", "creditWallet", "/console/apps/{app_id}/players/{open_id}/credit";
    "wallet.credits": "wallet import", "creditWallets", "/console/gifts";
    "gift.start": [AT_ONCE], [AT_ONCE], "/console/apps/{app_id}/gifts/{gift}/start";
    "wallet.debit": "wallet debit", "debitWallet", "/console/apps/{app_id}/players/{open_id}/debit";
    "wallet.cancel": "wallet cancel", "cancelExchange", "/console/apps/{app_id}/exchanges/{biz_no}/give-back";
    "wallet.freeze": "wallet freeze", "freezeWallet", "/console/apps/{app_id}/players/{open_id}/freeze";
    "wallet.thaw": "wallet thaw", "thawWallet", "/console/apps/{app_id}/players/{open_id}/thaw";
    // The form of the change asks, when the change is too large for one person.
    "change_request.ask": [SHELL_NO_LIMIT], [TWO_PEOPLE], "/console/apps/{app_id}/players/{open_id}/credit";
    "change_request.confirm": [SHELL_NO_LIMIT], [TWO_PEOPLE], "/console/apps/{app_id}/request/confirm";
    "change_request.refuse": [SHELL_NO_LIMIT], [TWO_PEOPLE], "/console/apps/{app_id}/request/refuse";
    "player.export": "player export", "exportPlayer", "/console/apps/{app_id}/players/{open_id}/export";
    "player.erase": "player erase", "erasePlayer", "/console/apps/{app_id}/players/{open_id}/erase";
    "receiver.add": "receiver add", "addReceiver", "/console/apps/{app_id}/receivers";
    "receiver.pause": "receiver pause", "pauseReceiver", "/console/apps/{app_id}/receivers/{receiver_id}/pause";
    "receiver.resume": "receiver resume", "resumeReceiver", "/console/apps/{app_id}/receivers/{receiver_id}/resume";
    "receiver.remove": "receiver remove", "removeReceiver", "/console/apps/{app_id}/receivers/{receiver_id}/remove";
    "receiver.rotate_secret": "receiver rotate-secret", "rotateReceiverSecret",
        "/console/apps/{app_id}/receivers/{receiver_id}/rotate-secret";
    "receiver.resend": "receiver resend", "resendEvents", "/console/apps/{app_id}/receivers/{receiver_id}/resend";
    "price.set": "price set", "setPrices", "/console/apps/{app_id}/prices";
    "topup.refund": "topup refund", "refundTopup", [SERVER_REFUNDS];
    "topup_provider.set": "topup provider", "setTopupProvider", [SECRET_FROM_PROVIDER];
    "topup_provider.remove": "topup remove-provider", "removeTopupProvider", [SECRET_FROM_PROVIDER];
    "topup.settle": "topup settle", "settleTopup",
        "/console/apps/{app_id}/topups/{provider}/{provider_order_id}/settlement";
    "period.close": "report close", "closePeriod", "/console/apps/{app_id}/closed-periods";
    "image.block": "image block", "blockImage", "/console/images/{img_id}/block";
    "image.unblock": "image unblock", "unblockImage", "/console/images/{img_id}/unblock";
    "api_key.create": "api-key create", [SHOWN_ONCE], "/console/api-keys";
    "api_key.revoke": "api-key revoke", "revokeApiKey", "/console/api-keys/revoke";
    "console_user.add": "console-user add", [SHOWN_ONCE], "/console/users";
    "console_user.set_password": "console-user set-password", [SHOWN_ONCE], "/console/account/password";
    "console_user.set_role": "console-user set-role", "setConsoleUserRole", "/console/users/{name}/role";
    "console_user.unlock": "console-user unlock", [OF_PERSON], "/console/users/{name}/unlock";
    "console_user.set_second_factor": [OF_PERSON], [OF_PERSON], "/console/account/second-factor";
    "console_user.reset_second_factor": "console-user reset-second-factor", [OF_PERSON],
        "/console/users/{name}/second-factor/reset";
    "console_user.end_session": [OF_PERSON], [OF_PERSON], "/console/users/{name}/sessions/end";
    "console_user.remove": "console-user remove", "removeConsoleUser", "/console/users/{name}/remove";
}

operations! {
    /// What shows something, checks or tries, and the commands that are about files and processes.
    READINGS:
    "the first page": "status", "getHealth", "/console";
    "health over time": [SCREEN], [SCREEN], "/console/health";
    "whether a server lives": "health", [PROCESS], [PROCESS];
    "apps": "app list", "listApps", "/console/apps";
    "an app": "app show", "getApp", "/console/apps/{app_id}";
    "points of interest": "app poi list", [PAGE_OF_APP], [PAGE_OF_APP];
    "pre-orders": "app preorder list", [PAGE_OF_APP], [PAGE_OF_APP];
    "newest calls of a sandbox app": [TEST_TOOL], [TEST_TOOL], "/console/apps/{app_id}/calls";
    "tokens": "token list", "listTokens", "/console/apps/{app_id}/tokens";
    "players": "user list", "listWallets", "/console/players";
    "a player": "user show", "getWallet", "/console/apps/{app_id}/players/{open_id}";
    "what an export and an erasure do": [SCREEN], [SCREEN], "/console/apps/{app_id}/players/{open_id}/personal-data";
    "a wallet": "wallet show", [IN_LIST], [PAGE_OF_PLAYER];
    "a ledger": "wallet statement", "listEntries", "/console/apps/{app_id}/players/{open_id}/ledger.csv";
    "a ledger as a workbook": [SCREEN], [SCREEN], "/console/apps/{app_id}/players/{open_id}/ledger.xlsx";
    "a gift": [AT_ONCE], [AT_ONCE], "/console/apps/{app_id}/gifts/{gift}";
    "what became of a gift": [AT_ONCE], [AT_ONCE], "/console/apps/{app_id}/gifts/{gift}/result.csv";
    "what became of a gift, as a workbook": [AT_ONCE], [AT_ONCE], "/console/apps/{app_id}/gifts/{gift}/result.xlsx";
    "exchanges": "exchange list", "listExchanges", "/console/exchanges";
    "exchanges as a file": [SCREEN], [SCREEN], "/console/exchanges.csv";
    "exchanges as a workbook": [SCREEN], [SCREEN], "/console/exchanges.xlsx";
    "an exchange": "exchange show", "getExchange", "/console/apps/{app_id}/exchanges/{biz_no}";
    "refusals": "refusal list", "listRefusals", [SCREEN];
    "prices": "price list", "getPrices", "/console/apps/{app_id}/prices";
    "a payment that is told of": "topup pay", "takePayment", [PROGRAMS_TELL];
    "a settlement file": "topup expect", [FILE_OF_PROVIDER], [FILE_OF_PROVIDER];
    "payment providers": "topup providers", "listTopupProviders", [SECRET_FROM_PROVIDER];
    "payments": "topup list", "listTopups", "/console/topups";
    "a payment": "topup show", "getTopup",
        "/console/apps/{app_id}/topups/{provider}/{provider_order_id}";
    "what was used of a top-up": "topup consumption", "getConsumption", [PAGE_OF_PAYMENT];
    "orders": "order list", "listOrders", "/console/orders";
    "an order": "order show", "getOrder", "/console/apps/{app_id}/orders/{out_biz_order_no}";
    "the order center of a player": [SCREEN], [SCREEN], "/console/orders/center";
    "images": "image list", "listImages", "/console/images";
    "an image": "image show", "getImage", "/console/images/{img_id}";
    "the picture of an image": [SCREEN], [SCREEN], "/console/images/{img_id}/picture";
    "receivers": "receiver list", "listReceivers", "/console/apps/{app_id}/receivers";
    "a receiver": "receiver show", "getReceiver", "/console/apps/{app_id}/receivers/{receiver_id}";
    "events that a receiver did not take": "receiver failed", "listFailedEvents", [IN_LIST];
    "a test of a receiver": "receiver test", "testReceiver", "/console/apps/{app_id}/receivers/{receiver_id}/test";
    "a receiver on this machine": "receiver listen", [TEST_TOOL], [TEST_TOOL];
    "the feed of events": [PROCESS], "listEvents", [SCREEN];
    "revenue": "report revenue", "getRevenue", "/console/reports";
    "revenue as a file": [SCREEN], [SCREEN], "/console/reports/revenue.csv";
    "revenue as a workbook": [SCREEN], [SCREEN], "/console/reports/revenue.xlsx";
    "refusals by code as a file": [SCREEN], [SCREEN], "/console/reports/refusals.csv";
    "refusals by code as a workbook": [SCREEN], [SCREEN], "/console/reports/refusals.xlsx";
    "income from payments": "report topups", "getTopupReport", "/console/reports/topups";
    "unused coins": "report unused", "getUnusedReport", "/console/reports/unused";
    "income from payments, as a file": [SCREEN], [SCREEN], "/console/reports/topups.csv";
    "income from payments, as a workbook": [SCREEN], [SCREEN], "/console/reports/topups.xlsx";
    "unused coins as a file": [SCREEN], [SCREEN], "/console/reports/unused.csv";
    "unused coins as a workbook": [SCREEN], [SCREEN], "/console/reports/unused.xlsx";
    "a check of revenue": "report check", [PROCESS], [PROCESS];
    "the statement of an app": "report statement", "getStatement", "/console/reports/statement";
    "the statement as a document": [SCREEN], [SCREEN], "/console/reports/statement.txt";
    "the statement as a workbook": [SCREEN], [SCREEN], "/console/reports/statement.xlsx";
    "closed months": "report closed", "listClosedPeriods", [IN_LIST];
    "a bill": "report bill", "getBill", "/console/reports/bill.csv";
    "a bill as a workbook": [SCREEN], [SCREEN], "/console/reports/bill.xlsx";
    "a comparison with other books": "reconcile", "reconcile", "/console/reports/reconcile";
    "a signature": "sign", "checkSignature", "/console/signature-check";
    "the operator's log": "operator-log", "listOperatorLog", "/console/log";
    "the credits of a line": [AT_ONCE], [AT_ONCE], "/console/log/{seq}/credits";
    "requests of a second person": [SHELL_NO_LIMIT], "listChangeRequests", "/console/requests";
    "a request": [SHELL_NO_LIMIT], [IN_LIST], "/console/apps/{app_id}/request";
    "users of the console": "console-user list", "listConsoleUsers", "/console/users";
    "a user": [IN_LIST], [IN_LIST], "/console/users/{name}";
    "API keys": "api-key list", "listApiKeys", "/console/api-keys";
    "the own account": [OF_PERSON], [OF_PERSON], "/console/account";
    "a search of everything": [IN_LIST], [IN_LIST], "/console/search";
    "the audit": "audit", [PROCESS], [PROCESS];
    "pictures to another store": "image move", [FILES], [FILES];
    "a check of pictures": "image verify", [FILES], [FILES];
    "a sweep of pictures": "image sweep", [FILES], [FILES];
    "an archive": "archive", [FILES], [FILES];
    "archives": "archive list", [FILES], [FILES];
    "a check of archives": "archive verify", [FILES], [FILES];
    "an archive that is restored": "archive restore", [FILES], [FILES];
    "the master key": "master-key show", [FILES], [FILES];
    "another master key": "master-key rotate", [FILES], [FILES];
    "a former master key": "master-key forget", [FILES], [FILES];
    "a server": "serve", [PROCESS], [PROCESS];
    "the schema": "migrate", [PROCESS], [PROCESS];
    "a demonstration": "demo", [TEST_TOOL], [TEST_TOOL];
    "a sandbox server": "sandbox serve", [TEST_TOOL], [TEST_TOOL];
    "the seed of a sandbox server": "sandbox seed", [TEST_TOOL], [TEST_TOOL];
    "a fault of a sandbox app": "sandbox fault", [TEST_TOOL], [TEST_TOOL];
    "faults of sandbox apps": "sandbox faults", [TEST_TOOL], [TEST_TOOL];
    "an end of faults": "sandbox end-faults", [TEST_TOOL], [TEST_TOOL];
    "a check of a sandbox app": "sandbox check", [TEST_TOOL], [TEST_TOOL];
    "a newer PostgreSQL": "postgres upgrade", [PROCESS], [PROCESS];
    "the documents of the APIs": "openapi", [PROCESS], [PROCESS];
    "completions": "completions", [PROCESS], [PROCESS];
    "manual pages": "man", [PROCESS], [PROCESS];
}
