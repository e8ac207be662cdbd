//! The table of what each route is expected to need, and whose data it is about. A new route gets its line here.

/// A line of a table.
pub(super) struct Line {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) need: &'static str,
    pub(super) reach: &'static str,
}

/// Reads a table: a method, a path, a need and a reach in each line. What reads comes first.
pub(super) fn lines(table: &'static str) -> Vec<Line> {
    let lines = table.lines().filter(|line| !line.is_empty()).map(|line| {
        let parts: Vec<&str> = line.split(' ').collect();
        let [method, path, need, reach] = parts[..] else { panic!("no line of a table: {line}") };
        Line { method, path, need, reach }
    });
    let mut lines: Vec<Line> = lines.collect();
    lines.sort_by_key(|line| line.method != "GET");
    lines
}

/// The pages and forms of the console.
pub(super) const CONSOLE: &str = "
GET /console Read AllApps
GET /console/account Read OwnApps
POST /console/account/password Read OwnApps
GET /console/account/second-factor Read OwnApps
POST /console/account/second-factor Read OwnApps
POST /console/account/sessions/end Read OwnApps
POST /console/account-requests/confirm Administer AllApps
POST /console/account-requests/refuse Administer AllApps
GET /console/api-keys Read AllApps
POST /console/api-keys Administer AllApps
POST /console/api-keys/revoke Administer AllApps
GET /console/apps Read OwnApps
GET /console/apps/{app_id} Read OneApp
GET /console/apps/{app_id}/calls Read OneApp
POST /console/apps/{app_id}/calls Develop OneApp
POST /console/apps/{app_id}/closed-periods Reports OneApp
GET /console/apps/{app_id}/exchanges/{biz_no} Read OneApp
GET /console/apps/{app_id}/exchanges/{biz_no}/give-back GiveBack OneApp
POST /console/apps/{app_id}/exchanges/{biz_no}/give-back GiveBack OneApp
POST /console/apps/{app_id}/exchanges/{biz_no}/give-back/check GiveBack OneApp
POST /console/apps/{app_id}/limits Administer OneApp
POST /console/apps/{app_id}/login-codes Develop OneApp
GET /console/apps/{app_id}/gifts/{gift} Money OneApp
GET /console/apps/{app_id}/gifts/{gift}/result.csv Money OneApp
POST /console/apps/{app_id}/gifts/{gift}/start Money OneApp
GET /console/apps/{app_id}/orders/{out_biz_order_no} Read OneApp
POST /console/apps/{app_id}/packages Develop OneApp
GET /console/apps/{app_id}/players/{open_id} Read OneApp
GET /console/apps/{app_id}/prices Read OneApp
POST /console/apps/{app_id}/prices Develop OneApp
GET /console/apps/{app_id}/topups/{provider}/{provider_order_id} Read OneApp
POST /console/apps/{app_id}/topups/{provider}/{provider_order_id}/settlement Money OneApp
GET /console/topups Read OwnApps
GET /console/apps/{app_id}/players/{open_id}/credit Money OneApp
POST /console/apps/{app_id}/players/{open_id}/credit Money OneApp
POST /console/apps/{app_id}/players/{open_id}/credit/check Money OneApp
GET /console/apps/{app_id}/players/{open_id}/debit Money OneApp
POST /console/apps/{app_id}/players/{open_id}/debit Money OneApp
POST /console/apps/{app_id}/players/{open_id}/debit/check Money OneApp
GET /console/apps/{app_id}/players/{open_id}/freeze Administer OneApp
POST /console/apps/{app_id}/players/{open_id}/freeze Administer OneApp
GET /console/apps/{app_id}/players/{open_id}/ledger.csv Read OneApp
GET /console/apps/{app_id}/players/{open_id}/ledger.xlsx Read OneApp
GET /console/apps/{app_id}/players/{open_id}/thaw Administer OneApp
POST /console/apps/{app_id}/players/{open_id}/thaw Administer OneApp
POST /console/apps/{app_id}/pois Develop OneApp
POST /console/apps/{app_id}/preorders Develop OneApp
GET /console/apps/{app_id}/receivers Read OneApp
POST /console/apps/{app_id}/receivers Develop OneApp
GET /console/apps/{app_id}/receivers/{receiver_id} Read OneApp
POST /console/apps/{app_id}/receivers/{receiver_id}/pause Develop OneApp
POST /console/apps/{app_id}/receivers/{receiver_id}/remove Develop OneApp
POST /console/apps/{app_id}/receivers/{receiver_id}/resend Develop OneApp
POST /console/apps/{app_id}/receivers/{receiver_id}/resend-failed Develop OneApp
POST /console/apps/{app_id}/receivers/{receiver_id}/resume Develop OneApp
POST /console/apps/{app_id}/receivers/{receiver_id}/rotate-secret Develop OneApp
POST /console/apps/{app_id}/receivers/{receiver_id}/test Develop OneApp
GET /console/apps/{app_id}/request Read OneApp
POST /console/apps/{app_id}/request/confirm Money OneApp
POST /console/apps/{app_id}/request/refuse GiveBack OneApp
GET /console/apps/{app_id}/resume Administer OneApp
POST /console/apps/{app_id}/resume Administer OneApp
GET /console/apps/{app_id}/rotate-pay-key Develop OneApp
POST /console/apps/{app_id}/rotate-pay-key Develop OneApp
GET /console/apps/{app_id}/rotate-secret Develop OneApp
POST /console/apps/{app_id}/rotate-secret Develop OneApp
POST /console/apps/{app_id}/settings Develop OneApp
GET /console/apps/{app_id}/suspend Administer OneApp
POST /console/apps/{app_id}/suspend Administer OneApp
POST /console/apps/{app_id}/token-revocations Develop OneApp
GET /console/apps/{app_id}/tokens Read OneApp
GET /console/exchanges Read OwnApps
GET /console/exchanges.csv Read OwnApps
GET /console/exchanges.xlsx Read OwnApps
GET /console/gifts Money OwnApps
POST /console/gifts Money OwnApps
GET /console/health Read AllApps
GET /console/icon.svg Anyone AllApps
GET /console/keys.js Anyone AllApps
GET /console/plots.js Anyone AllApps
GET /console/reports Reports OwnApps
GET /console/reports/bill.csv Reports OwnApps
GET /console/reports/bill.xlsx Reports OwnApps
GET /console/reports/reconcile Reports OwnApps
POST /console/reports/reconcile Reports OwnApps
GET /console/reports/refusals.csv Reports OwnApps
GET /console/reports/refusals.xlsx Reports OwnApps
GET /console/reports/revenue.csv Reports OwnApps
GET /console/reports/revenue.xlsx Reports OwnApps
GET /console/reports/statement Reports OwnApps
GET /console/reports/statement.txt Reports OwnApps
GET /console/reports/statement.xlsx Reports OwnApps
GET /console/reports/topups Reports OwnApps
GET /console/reports/topups.csv Reports OwnApps
GET /console/reports/topups.xlsx Reports OwnApps
GET /console/reports/unused Reports OwnApps
GET /console/reports/unused.csv Reports OwnApps
GET /console/reports/unused.xlsx Reports OwnApps
GET /console/images Read OwnApps
GET /console/images/{img_id} Read OwnApps
GET /console/images/{img_id}/block Administer AllApps
POST /console/images/{img_id}/block Administer AllApps
GET /console/images/{img_id}/picture Read OwnApps
GET /console/images/{img_id}/unblock Administer AllApps
POST /console/images/{img_id}/unblock Administer AllApps
POST /console/language Anyone AllApps
GET /console/log Read OwnApps
GET /console/log/{seq}/credits Read OwnApps
GET /console/new-app Administer AllApps
POST /console/new-app Administer AllApps
GET /console/orders Read OwnApps
GET /console/orders/center Read OwnApps
GET /console/players Read OwnApps
GET /console/requests Read OwnApps
GET /console/search Read OwnApps
GET /console/sign-in Anyone AllApps
POST /console/sign-in Anyone AllApps
GET /console/sign-in/callback Anyone AllApps
GET /console/sign-in/provider Anyone AllApps
POST /console/sign-out Read OwnApps
GET /console/signature-check Read OwnApps
POST /console/signature-check Read OwnApps
GET /console/style.css Anyone AllApps
GET /console/users Read AllApps
POST /console/users Administer AllApps
GET /console/users/{name} Administer AllApps
POST /console/users/{name}/remove Administer AllApps
POST /console/users/{name}/role Administer AllApps
POST /console/users/{name}/second-factor/reset Administer AllApps
POST /console/users/{name}/sessions/end Administer AllApps
POST /console/users/{name}/unlock Administer AllApps
";

/// The calls of the admin API, below `/admin/v1`.
pub(super) const ADMIN: &str = "
GET /api-keys Read AllApps
DELETE /api-keys/{key} Administer AllApps
GET /apps Read OwnApps
POST /apps Administer AllApps
GET /apps/{app_id} Read OneApp
PATCH /apps/{app_id} Develop OneApp
POST /apps/{app_id}/app-secrets Develop OneApp
GET /apps/{app_id}/prices Read OneApp
PUT /apps/{app_id}/prices Develop OneApp
GET /apps/{app_id}/topup-providers Read OneApp
PUT /apps/{app_id}/topup-providers/{name} Administer OneApp
DELETE /apps/{app_id}/topup-providers/{name} Administer OneApp
GET /apps/{app_id}/topups Read OneApp
POST /apps/{app_id}/topups Payments OneApp
GET /apps/{app_id}/topups/{provider}/{provider_order_id} Read OneApp
GET /apps/{app_id}/topups/{provider}/{provider_order_id}/consumption Read OneApp
POST /apps/{app_id}/topups/{provider}/{provider_order_id}/refunds Money OneApp
POST /apps/{app_id}/topups/{provider}/{provider_order_id}/settlement Money OneApp
GET /apps/{app_id}/closed-periods Reports OneApp
PUT /apps/{app_id}/closed-periods/{month} Reports OneApp
POST /apps/{app_id}/credits:batch Money OneApp
GET /apps/{app_id}/exchanges/{biz_no} Read OneApp
POST /apps/{app_id}/exchanges/{biz_no}/cancels GiveBack OneApp
PUT /apps/{app_id}/limits Administer OneApp
POST /apps/{app_id}/login-codes Develop OneApp
GET /apps/{app_id}/orders/{out_biz_order_no} Read OneApp
POST /apps/{app_id}/packages Develop OneApp
POST /apps/{app_id}/pay-keys Develop OneApp
DELETE /apps/{app_id}/players/{player} Administer OneApp
POST /apps/{app_id}/pois Develop OneApp
POST /apps/{app_id}/preorders Develop OneApp
GET /apps/{app_id}/receivers Read OneApp
POST /apps/{app_id}/receivers Develop OneApp
DELETE /apps/{app_id}/receivers/{receiver_id} Develop OneApp
GET /apps/{app_id}/receivers/{receiver_id} Read OneApp
GET /apps/{app_id}/receivers/{receiver_id}/failed Read OneApp
DELETE /apps/{app_id}/receivers/{receiver_id}/pause Develop OneApp
PUT /apps/{app_id}/receivers/{receiver_id}/pause Develop OneApp
POST /apps/{app_id}/receivers/{receiver_id}/resends Develop OneApp
POST /apps/{app_id}/receivers/{receiver_id}/secrets Develop OneApp
POST /apps/{app_id}/receivers/{receiver_id}/tests Develop OneApp
DELETE /apps/{app_id}/suspension Administer OneApp
PUT /apps/{app_id}/suspension Administer OneApp
POST /apps/{app_id}/token-revocations Develop OneApp
GET /apps/{app_id}/tokens Read OneApp
POST /apps/{app_id}/tokens Develop OneApp
POST /apps/{app_id}/users Administer OneApp
GET /apps/{app_id}/wallets Read OneApp
GET /apps/{app_id}/wallets/{open_id} Read OneApp
POST /apps/{app_id}/wallets/{open_id}/credits Money OneApp
POST /apps/{app_id}/wallets/{open_id}/debits Money OneApp
GET /apps/{app_id}/wallets/{open_id}/entries Read OneApp
POST /apps/{app_id}/wallets/{open_id}/freezes Administer OneApp
DELETE /apps/{app_id}/wallets/{open_id}/freezes Administer OneApp
GET /change-requests Read OwnApps
GET /console-users Read AllApps
DELETE /console-users/{user} Administer AllApps
PUT /console-users/{user}/role Administer AllApps
GET /events Read OwnApps
GET /exchanges Read OwnApps
GET /health Read AllApps
GET /images Read OwnApps
GET /images/{img_id} Read OwnApps
DELETE /images/{img_id}/block Administer AllApps
PUT /images/{img_id}/block Administer AllApps
GET /operator-log Read OwnApps
GET /orders Read OwnApps
GET /refusals Read OwnApps
GET /reports/bill Reports OwnApps
POST /reports/reconcile Reports OwnApps
GET /reports/revenue Reports OwnApps
GET /reports/statement Reports OwnApps
GET /reports/topups Reports OwnApps
GET /reports/unused Reports OwnApps
POST /signature-checks Develop OwnApps
";
