//! The queries of an export, with the columns of their files. Each row is an object of JSON, as text.

use std::borrow::Cow;

use domain::wallet::DeveloperTexts;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use sqlx::{AssertSqlSafe, PgConnection};

use super::{ExportedPlayer, ExportedRows};

impl ExportedRows {
    /// The description of its files, for people.
    pub(super) fn about(self) -> Cow<'static, str> {
        let about = match self {
            Self::Wallet => "The balances now, and when the app first knew the player.",
            Self::LedgerEntries => {
                let names = [&["ts", "user_ip"], &DeveloperTexts::NAMES[..]].concat();
                let (last, others) = names.split_last().unwrap_or((&"", &[]));
                return Cow::Owned(format!(
                    "Each change of a balance, oldest first. Of an archived entry, {} and {last} are in the\n    \
                     file of its archive alone. A row of the kind closed is no change: a query has closed its number. Nor is one of the\n    \
                     kind topup_order: it is an order of a top-up.",
                    others.join(", ")
                ));
            }
            Self::Refusals => "How often a code has refused a number, in the last 30 days.",
            Self::Replays => "How often the answer to an exchange was sent again, in the last 30 days.",
            Self::Shipments => "How often the game of a sandbox app said that it shipped, in the last week.",
            Self::Orders => "The orders, as they were reported last.",
            Self::OrderEvents => "Each report that made or changed an order.",
            Self::OrderPayments => "The payment numbers of the orders.",
            Self::LoginCodes => "Login codes that were not used. The codes themselves are not stored.",
            Self::TopupPayments => {
                "Payments for top-ups, as their providers told of them, and what was credited."
            }
            Self::TopupRefunds => {
                "Refunds of payments: what was taken, what became debt, and what is still owed of it."
            }
            Self::Events => {
                "Events that servers were told of. Each is about a ledger entry (entry_seq), a report of an order\n    \
                 (out_biz_order_no and order_seq) or a payment that fitted nothing (payment)."
            }
            Self::ChangeRequests => "Large changes for which an operator asked a second person.",
            Self::GiftLines => "Lines of lists of credits, as an operator gave them.",
            Self::OperatorLog => {
                "What operators did about the player. Other players of the same line are left out."
            }
        };
        Cow::Borrowed(about)
    }

    /// The columns of its file of CSV, with commas between them.
    pub(super) fn columns(self) -> Cow<'static, str> {
        let columns = match self {
            Self::Wallet => "app_id,open_id,free_balance,charge_balance,entries,known_since",
            Self::LedgerEntries => {
                return Cow::Owned(format!(
                    "seq,at,kind,biz_no,ref,of_biz_no,free_change,charge_change,free_balance,charge_balance,\
                     remaining,pay_priority,zone_id,ts,os,user_ip,{},remark,product_name,product_desc,\
                     product_info,is_archived",
                    DeveloperTexts::NAMES.join(",")
                ));
            }
            Self::Refusals => {
                "biz_no,kind,code,first_at,last_at,count,request_id,amount,product_name,free_balance,charge_balance"
            }
            Self::Replays => "biz_no,replays,first_at,last_at",
            Self::Shipments => "biz_no,shipments,first_at",
            Self::Orders => {
                "out_biz_order_no,out_order_no,order_create_time,order_status,goods_kind,order_path,\
                 product_cover_img_id,order_backup_url,poi_id,product_id,product_catalog_code,product_city,\
                 event_count,created_at,updated_at"
            }
            Self::OrderEvents => "out_biz_order_no,seq,at,order_status,report",
            Self::OrderPayments => "out_order_no,out_biz_order_no,first_seen_at",
            Self::LoginCodes => "union_id,expires_at",
            Self::TopupPayments => {
                "provider,provider_order_id,currency,amount,fee,paid_at,biz_no,open_id,product_id,os,note,state,reason,\
                 paid_biz_no,paid_product_id,entry_seq,charge,bonus,free_balance,charge_balance,created_at,credited_at"
            }
            Self::TopupRefunds => {
                "provider,provider_order_id,refund_id,amount,state,reason,entry_seq,free_taken,charge_taken,free_debt,charge_debt,\
                 free_owed,charge_owed,free_balance,charge_balance,created_at,refunded_at"
            }
            Self::Events => "no,id,type,at,entry_seq,out_biz_order_no,order_seq,payment",
            Self::ChangeRequests => {
                "ref,kind,free,charge,create_wallet,of_biz_no,amount,reason,asked_by,asked_at,state,ended_by,\
                 ended_at,give_back_max"
            }
            Self::GiftLines => "gift,line,free,charge,ref,outcome,reason,made_at",
            Self::OperatorLog => "seq,at,operator_kind,operator,action,subject,before,after,note,credits",
        };
        Cow::Borrowed(columns)
    }
}

/// Streams the texts of a query whose two parameters name the player.
macro_rules! texts {
    ($connection:expr, $sql:literal, $($parameter:expr),+) => {
        sqlx::query_scalar!(r#"SELECT row_to_json(t)::text AS "row!" FROM ("# + $sql + r#") t"#, $($parameter),+)
            .fetch($connection)
            .boxed()
    };
}

/// Streams the rows of a kind, in their order. Events have their own file.
#[expect(clippy::too_many_lines, reason = "one query for each kind")]
pub(super) fn of<'c>(
    part: ExportedRows,
    connection: &'c mut PgConnection,
    subject: &'c ExportedPlayer,
) -> BoxStream<'c, Result<String, sqlx::Error>> {
    let (app_id, open_id) = (subject.app_id.as_str(), subject.open_id.as_str());
    let (providers, payment_ids) = &subject.payments;
    match part {
        ExportedRows::Wallet => texts!(
            connection,
            "SELECT $3::text AS app_id, open_id, free_balance, charge_balance, entry_count AS entries,
                 created_at AS known_since
             FROM wallets WHERE app_no = $1 AND wallet_no = $2",
            subject.app_no,
            subject.wallet_no,
            app_id
        ),
        ExportedRows::LedgerEntries => ledger_entries(connection, subject),
        ExportedRows::Refusals => texts!(
            connection,
            "SELECT biz_no, kind, code, first_at, last_at, count, request_id, amount, product_name, free_balance,
                 charge_balance
             FROM exchange_refusals
             WHERE app_id = $1 AND open_id = $2 ORDER BY last_at, biz_no, code",
            app_id,
            open_id
        ),
        ExportedRows::Replays => texts!(
            connection,
            "SELECT r.biz_no, r.replays, r.first_at, r.last_at FROM exchange_replays r
             JOIN numbers n ON n.app_no = $2 AND n.reference = r.biz_no AND n.wallet_no = $3
             WHERE r.app_id = $1 ORDER BY r.first_at, r.biz_no",
            app_id,
            subject.app_no,
            subject.wallet_no
        ),
        ExportedRows::Shipments => texts!(
            connection,
            "SELECT s.biz_no, s.shipments, s.first_at FROM sandbox_shipments s
             JOIN numbers n ON n.app_no = $2 AND n.reference = s.biz_no AND n.wallet_no = $3
             WHERE s.app_id = $1 ORDER BY s.first_at, s.biz_no",
            app_id,
            subject.app_no,
            subject.wallet_no
        ),
        ExportedRows::Orders => texts!(
            connection,
            "SELECT out_biz_order_no, out_order_no, order_create_time, order_status, goods_kind, order_path,
                 product_cover_img_id, order_backup_url, poi_id, product_id, product_catalog_code, product_city,
                 event_count, created_at, updated_at
             FROM orders WHERE app_id = $1 AND open_id = $2 ORDER BY order_create_time, out_biz_order_no",
            app_id,
            open_id
        ),
        ExportedRows::OrderEvents => texts!(
            connection,
            "SELECT e.out_biz_order_no, e.seq, e.at, e.order_status, e.report
             FROM orders o JOIN order_events e ON e.app_id = o.app_id AND e.out_biz_order_no = o.out_biz_order_no
             WHERE o.app_id = $1 AND o.open_id = $2
             ORDER BY o.order_create_time, e.out_biz_order_no, e.seq",
            app_id,
            open_id
        ),
        ExportedRows::OrderPayments => texts!(
            connection,
            "SELECT p.out_order_no, p.out_biz_order_no, p.first_seen_at
             FROM order_payments p JOIN orders o ON o.app_id = p.app_id AND o.out_biz_order_no = p.out_biz_order_no
             WHERE p.app_id = $1 AND o.open_id = $2 ORDER BY p.first_seen_at, p.out_order_no",
            app_id,
            open_id
        ),
        ExportedRows::LoginCodes => texts!(
            connection,
            "SELECT union_id, expires_at FROM login_codes WHERE app_id = $1 AND open_id = $2 ORDER BY expires_at",
            app_id,
            open_id
        ),
        ExportedRows::TopupPayments => texts!(
            connection,
            "SELECT provider, provider_order_id, currency, amount, fee, paid_at, biz_no, open_id, product_id, os, note, state,
                 reason, paid_biz_no, paid_product_id, seq AS entry_seq, charge, bonus, free_balance, charge_balance, created_at,
                 credited_at
             FROM topup_payments
             WHERE app_no = $1 AND (provider, provider_order_id) IN (SELECT unnest($2::text[]), unnest($3::text[]))
             ORDER BY created_at, provider, provider_order_id",
            subject.app_no,
            providers,
            payment_ids
        ),
        ExportedRows::TopupRefunds => texts!(
            connection,
            "SELECT r.provider, r.provider_order_id, r.refund_id, r.amount, r.state, r.reason, r.seq AS entry_seq, r.free_taken,
                 r.charge_taken, r.free_debt, r.charge_debt, r.free_owed, r.charge_owed, r.free_balance, r.charge_balance,
                 r.created_at, r.refunded_at
             FROM topup_refunds r
             WHERE r.app_no = $1 AND (r.provider, r.provider_order_id) IN (SELECT unnest($2::text[]), unnest($3::text[]))
             ORDER BY r.created_at, r.provider, r.provider_order_id, r.refund_id",
            subject.app_no,
            providers,
            payment_ids
        ),
        ExportedRows::Events => futures_util::stream::empty().boxed(),
        ExportedRows::ChangeRequests => texts!(
            connection,
            "SELECT ref, kind, free, charge, create_wallet, of_biz_no, amount, reason, asked_by, asked_at, state,
                 ended_by, ended_at, give_back_max
             FROM console_requests WHERE app_id = $1 AND open_id = $2 ORDER BY asked_at, ref",
            app_id,
            open_id
        ),
        ExportedRows::GiftLines => texts!(
            connection,
            "SELECT l.gift, l.line, l.free, l.charge, l.ref, l.outcome, g.reason, g.made_at
             FROM gift_lines l JOIN gifts g ON g.app_id = l.app_id AND g.gift = l.gift
             WHERE l.app_id = $1 AND l.open_id = $2 ORDER BY g.made_at, l.gift, l.line",
            app_id,
            open_id
        ),
        // Of a line about many players only what concerns this one.
        ExportedRows::OperatorLog => texts!(
            connection,
            "SELECT seq, at, operator_kind, operator, action, subject, before,
                 CASE WHEN jsonb_typeof(after -> 'open_ids') = 'array'
                     THEN jsonb_set(after, '{open_ids}', jsonb_build_array($2::text)) ELSE after END AS after,
                 note, (SELECT json_agg(c) FROM json_array_elements(credits) c WHERE c ->> 0 = $2) AS credits
             FROM operator_log
             WHERE app_id = $1
                 AND (seq IN (SELECT seq FROM player_lines WHERE app_id = $1 AND subject = $2)
                     OR action = 'user.add' AND after -> 'open_ids' ? $2
                     OR jsonb_path_exists(credits::jsonb, '$[*][0] ? (@ == $s)', jsonb_build_object('s', $2::text)))
             ORDER BY seq",
            app_id,
            open_id
        ),
    }
}

/// Streams the ledger entries. The balances of an archived entry are sums: archives take entries from the first on.
#[expect(clippy::disallowed_methods, reason = "the columns are those of the texts of the developer")]
fn ledger_entries<'c>(
    connection: &'c mut PgConnection,
    subject: &ExportedPlayer,
) -> BoxStream<'c, Result<String, sqlx::Error>> {
    let kept = DeveloperTexts::NAMES.join(", ");
    let shown = DeveloperTexts::NAMES.map(|name| format!("e.{name}")).join(", ");
    let absent = DeveloperTexts::NAMES.map(|_| "NULL").join(", ");
    let sql = format!(
        "SELECT row_to_json(t)::text FROM (
             SELECT e.seq, e.at, e.kind, CASE WHEN e.reference !~ '^[!$%&]' THEN e.reference END AS biz_no,
                 CASE WHEN e.reference ~ '^[!$%&]' THEN substr(e.reference, 2) END AS ref, e.of_biz_no, e.free_change,
                 e.charge_change, e.free_balance, e.charge_balance, e.remaining, e.pay_priority, e.zone_id, e.ts, e.os,
                 e.user_ip, {shown}, e.remark, i.product_name, i.product_desc, i.product_info, e.is_archived
             FROM (
                 SELECT seq, at, kind, reference, of_biz_no, free_change, charge_change, free_balance, charge_balance,
                     remaining, pay_priority, item_id, zone_id, ts, os, user_ip, {kept}, remark, false AS is_archived
                 FROM ledger_entries WHERE app_no = $1 AND wallet_no = $2
                 UNION ALL
                 SELECT seq, at, kind, reference, of_biz_no, free_change, charge_change,
                     CASE WHEN seq IS NULL THEN 0 ELSE sum(free_change) OVER earlier END::bigint,
                     CASE WHEN seq IS NULL THEN 0 ELSE sum(charge_change) OVER earlier END::bigint,
                     remaining, pay_priority, item_id, zone_id, NULL, os, NULL, {absent}, remark, true
                 FROM archived_entries WHERE app_no = $1 AND wallet_no = $2
                 WINDOW earlier AS (ORDER BY seq NULLS LAST)
             ) e
             LEFT JOIN items i ON i.app_no = $1 AND i.item_id = e.item_id
             ORDER BY e.seq NULLS LAST, e.at, e.reference
         ) t"
    );
    sqlx::query_scalar(AssertSqlSafe(sql))
        .bind(subject.app_no)
        .bind(subject.wallet_no)
        .fetch(connection)
        .boxed()
}
