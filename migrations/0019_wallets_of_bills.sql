-- A bill names the wallets whose archived entries it needs.

-- The window has `true` among its parts, so that a condition on is_archived and wallet_no is met before the sums are made.
CREATE OR REPLACE VIEW bill_lines AS
SELECT e.app_no, e.wallet_no, e.at, w.open_id, e.seq, e.kind,
    CASE WHEN e.reference !~ '^[!$%&]' THEN e.reference END AS biz_no,
    CASE WHEN e.reference ~ '^[!$%&]' THEN substr(e.reference, 2) END AS ref,
    e.free_change, e.charge_change, e.free_balance, e.charge_balance, e.zone_id, i.product_name, e.is_archived
FROM (
    SELECT app_no, wallet_no, at, seq, kind, reference, free_change, charge_change, free_balance, charge_balance,
        zone_id, item_id, false AS is_archived
    FROM ledger_entries WHERE seq IS NOT NULL
    UNION ALL
    SELECT app_no, wallet_no, at, seq, kind, reference, free_change, charge_change,
        (sum(free_change) OVER earlier)::bigint, (sum(charge_change) OVER earlier)::bigint, zone_id, item_id, true
    FROM archived_entries WHERE seq IS NOT NULL
    WINDOW earlier AS (PARTITION BY app_no, wallet_no, true ORDER BY seq)
) e
LEFT JOIN wallets w ON w.app_no = e.app_no AND w.wallet_no = e.wallet_no
LEFT JOIN items i ON i.app_no = e.app_no AND i.item_id = e.item_id;
