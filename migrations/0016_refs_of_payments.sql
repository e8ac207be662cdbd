-- Refs of payments in the bill, refs that begin with a mark of their own, and payments that name a player.

CREATE OR REPLACE VIEW ledger AS
SELECT a.app_id, w.open_id, e.seq, e.kind,
    CASE WHEN e.reference ~ '^[!$%&]' THEN substr(e.reference, 2) ELSE e.reference END AS reference,
    e.reference LIKE '!%' AS by_operator, e.reference AS entry_reference, e.of_biz_no, e.remaining, e.free_change, e.charge_change, e.free_balance,
    e.charge_balance, e.at, e.chain_hash, e.ts, e.pay_priority, e.zone_id, e.os, e.user_ip, e.extension, e.remark,
    i.product_name, i.product_info, i.product_desc, e.app_no, e.wallet_no
FROM ledger_entries e
JOIN apps a ON a.app_no = e.app_no
JOIN wallets w ON w.app_no = e.app_no AND w.wallet_no = e.wallet_no
LEFT JOIN items i ON i.app_no = e.app_no AND i.item_id = e.item_id;

CREATE OR REPLACE VIEW bill_lines AS
SELECT e.app_no, e.wallet_no, e.at, w.open_id, e.seq, e.kind,
    CASE WHEN e.reference !~ '^[!$%&]' THEN e.reference END AS biz_no,
    CASE WHEN e.reference ~ '^[!$%&]' THEN substr(e.reference, 2) END AS ref,
    e.free_change, e.charge_change, e.free_balance, e.charge_balance, e.zone_id, i.product_name
FROM (
    SELECT app_no, wallet_no, at, seq, kind, reference, free_change, charge_change, free_balance, charge_balance,
        zone_id, item_id
    FROM ledger_entries WHERE seq IS NOT NULL
    UNION ALL
    SELECT app_no, wallet_no, at, seq, kind, reference, free_change, charge_change,
        (sum(free_change) OVER earlier)::bigint, (sum(charge_change) OVER earlier)::bigint, zone_id, item_id
    FROM archived_entries WHERE seq IS NOT NULL
    WINDOW earlier AS (PARTITION BY app_no, wallet_no ORDER BY seq)
) e
LEFT JOIN wallets w ON w.app_no = e.app_no AND w.wallet_no = e.wallet_no
LEFT JOIN items i ON i.app_no = e.app_no AND i.item_id = e.item_id;

-- Payments that fitted nothing when they came, by the player whom they name. The others are found by the wallet.
CREATE INDEX topup_payments_named ON topup_payments (app_no, open_id) WHERE reason IS NOT NULL AND open_id IS NOT NULL;

-- What was not taken of an event keeps the event.
CREATE INDEX deliveries_of_event ON deliveries (app_id, event_no) WHERE state <> 'taken';
