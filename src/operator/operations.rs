//! Table of the operations of operators: where each face has each of them. The types of `domain::operation` say what each does.

/// An operation.
#[derive(Debug, Clone, Copy)]
pub struct OperationRow {
    /// Its action in the operator's log (contract 8.5).
    pub action: &'static str,
    /// The command of the command line. `None`: what only a user of the console can do.
    pub command: Option<&'static str>,
    /// The `operationId` of the admin API. `None`: what contract 8.7.5 leaves to the others.
    pub admin: Option<&'static str>,
    /// The form of the console.
    pub console: Option<&'static str>,
}

/// Declares the rows: action, command, `operationId`, and form. A dash: not in this face.
macro_rules! operations {
    ($($action:literal: $command:tt, $admin:tt, $console:tt;)+) => {
        /// Every operation.
        pub const OPERATIONS: &[OperationRow] = &[$(OperationRow {
            action: $action,
            command: operations!(@face $command),
            admin: operations!(@face $admin),
            console: operations!(@face $console),
        }),+];
    };
    (@face -) => { None };
    (@face $face:literal) => { Some($face) };
}

operations! {
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
    "token.issue": "token issue", "issueToken", -;
    "token.revoke": "token revoke", "revokeTokens", "/console/apps/{app_id}/token-revocations";
    "login_code.issue": "login-code issue", "issueLoginCode", "/console/apps/{app_id}/login-codes";
    "user.add": "user add", "addUsers", -;
    "wallet.credit": "wallet credit", "creditWallet", "/console/apps/{app_id}/players/{open_id}/credit";
    "wallet.credits": "wallet import", "creditWallets", -;
    "wallet.debit": "wallet debit", "debitWallet", "/console/apps/{app_id}/players/{open_id}/debit";
    "wallet.cancel": "wallet cancel", "cancelExchange", "/console/apps/{app_id}/exchanges/{biz_no}/give-back";
    "wallet.freeze": "wallet freeze", "freezeWallet", "/console/apps/{app_id}/players/{open_id}/freeze";
    "wallet.thaw": "wallet thaw", "thawWallet", "/console/apps/{app_id}/players/{open_id}/thaw";
    // The form of the change asks, when the change is too large for one person.
    "change_request.ask": -, -, "/console/apps/{app_id}/players/{open_id}/credit";
    "change_request.confirm": -, -, "/console/apps/{app_id}/request/confirm";
    "change_request.refuse": -, -, "/console/apps/{app_id}/request/refuse";
    "player.export": "player export", -, -;
    "player.erase": "player erase", -, -;
    "receiver.add": "receiver add", "addReceiver", "/console/apps/{app_id}/receivers";
    "receiver.pause": "receiver pause", "pauseReceiver", "/console/apps/{app_id}/receivers/{receiver_id}/pause";
    "receiver.resume": "receiver resume", "resumeReceiver", "/console/apps/{app_id}/receivers/{receiver_id}/resume";
    "receiver.remove": "receiver remove", "removeReceiver", "/console/apps/{app_id}/receivers/{receiver_id}/remove";
    "receiver.rotate_secret": "receiver rotate-secret", "rotateReceiverSecret",
        "/console/apps/{app_id}/receivers/{receiver_id}/rotate-secret";
    "receiver.resend": "receiver resend", "resendEvents", "/console/apps/{app_id}/receivers/{receiver_id}/resend";
    "period.close": "report close", "closePeriod", "/console/apps/{app_id}/closed-periods";
    "image.block": "image block", "blockImage", "/console/images/{img_id}/block";
    "image.unblock": "image unblock", "unblockImage", "/console/images/{img_id}/unblock";
    "api_key.create": "api-key create", -, "/console/api-keys";
    "api_key.revoke": "api-key revoke", -, "/console/api-keys/revoke";
    "console_user.add": "console-user add", -, "/console/users";
    "console_user.set_password": "console-user set-password", -, "/console/account/password";
    "console_user.set_role": "console-user set-role", -, "/console/users/{name}/role";
    "console_user.unlock": "console-user unlock", -, "/console/users/{name}/unlock";
    "console_user.set_second_factor": -, -, "/console/account/second-factor";
    "console_user.reset_second_factor": "console-user reset-second-factor", -,
        "/console/users/{name}/second-factor/reset";
    "console_user.end_session": -, -, "/console/users/{name}/sessions/end";
    "console_user.remove": "console-user remove", -, "/console/users/{name}/remove";
}
