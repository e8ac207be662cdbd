-- Sums of exchanges by the platform of the player.

ALTER TABLE archived_entries ADD COLUMN os text;
COMMENT ON COLUMN archived_entries.os IS 'Platform, as sent. Null for an operator''s entry, and for what was archived before there was this column.';

CREATE OR REPLACE VIEW numbers AS
SELECT app_no, reference, wallet_no, seq, kind, free_change, charge_change, free_balance, charge_balance, remaining,
    of_biz_no, pay_priority, item_id, zone_id, extension, remark, at, false AS is_archived, os
FROM ledger_entries
UNION ALL
SELECT app_no, reference, wallet_no, seq, kind, free_change, charge_change, coalesce(free_balance, 0),
    coalesce(charge_balance, 0), remaining, of_biz_no, pay_priority, item_id, zone_id, NULL, remark, at, true, os
FROM archived_entries;

CREATE OR REPLACE VIEW sales AS
SELECT app_no, at, item_id, zone_id, 1 AS count, -free_change AS free_taken, -charge_change AS charge_taken,
    0::bigint AS free_given_back, 0::bigint AS charge_given_back, coalesce(os, '') AS os
FROM ledger_entries WHERE kind = 'exchange'
UNION ALL
SELECT app_no, at, item_id, zone_id, 1, -free_change, -charge_change, 0, 0, coalesce(os, '')
FROM archived_entries WHERE kind = 'exchange'
UNION ALL
SELECT c.app_no, c.at, coalesce(x.item_id, a.item_id), coalesce(x.zone_id, a.zone_id), 0, 0, 0, c.free_change,
    c.charge_change, coalesce(x.os, a.os, '')
FROM ledger_entries c
LEFT JOIN ledger_entries x ON x.app_no = c.app_no AND x.reference = c.of_biz_no
LEFT JOIN archived_entries a ON a.app_no = c.app_no AND a.reference = c.of_biz_no
WHERE c.kind = 'cancel'
UNION ALL
SELECT c.app_no, c.at, coalesce(x.item_id, a.item_id), coalesce(x.zone_id, a.zone_id), 0, 0, 0, c.free_change,
    c.charge_change, coalesce(x.os, a.os, '')
FROM archived_entries c
LEFT JOIN ledger_entries x ON x.app_no = c.app_no AND x.reference = c.of_biz_no
LEFT JOIN archived_entries a ON a.app_no = c.app_no AND a.reference = c.of_biz_no
WHERE c.kind = 'cancel';
COMMENT ON VIEW sales IS 'What exchanges took and what cancels gave back, each under the item, the zone and the platform of its exchange (contract 13.2).';

CREATE OR REPLACE VIEW sold_entries AS
SELECT e.app_no, e.wallet_no, e.seq, e.at, coalesce(e.item_id, x.item_id, a.item_id) AS item_id,
    CASE WHEN e.kind = 'exchange' THEN e.zone_id ELSE coalesce(x.zone_id, a.zone_id) END AS zone_id,
    CASE WHEN e.kind = 'exchange' THEN 1 ELSE 0 END AS count,
    CASE WHEN e.kind = 'exchange' THEN -e.free_change ELSE 0 END AS free_taken,
    CASE WHEN e.kind = 'exchange' THEN -e.charge_change ELSE 0 END AS charge_taken,
    CASE WHEN e.kind = 'cancel' THEN e.free_change ELSE 0 END AS free_given_back,
    CASE WHEN e.kind = 'cancel' THEN e.charge_change ELSE 0 END AS charge_given_back,
    coalesce(CASE WHEN e.kind = 'exchange' THEN e.os ELSE coalesce(x.os, a.os) END, '') AS os
FROM ledger_entries e
LEFT JOIN ledger_entries x ON x.app_no = e.app_no AND x.reference = e.of_biz_no
LEFT JOIN archived_entries a ON a.app_no = e.app_no AND a.reference = e.of_biz_no
WHERE e.kind IN ('exchange', 'cancel');

ALTER TABLE sales_hours ADD COLUMN os text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE sales_hours
    DROP CONSTRAINT sales_hours_pkey,
    ADD CONSTRAINT sales_hours_pkey PRIMARY KEY (app_no, cut, hour, product_name, zone, os),
    DROP CONSTRAINT sales_hours_cut_known,
    ADD CONSTRAINT sales_hours_cut_known CHECK (cut IN (1, 2, 3, 4, 7));
COMMENT ON COLUMN sales_hours.cut IS '1: by zone. 2: by product. 3: by both. 4: by platform. 7: by all three. Each report reads the smallest of them that has its groups.';
COMMENT ON COLUMN sales_hours.os IS 'The platform of the player, as the game sent it. Empty in sums of all platforms, and where it is not known.';

ALTER TABLE sales_head ADD COLUMN os_since timestamptz NOT NULL DEFAULT to_timestamp(0);
UPDATE sales_head SET os_since = date_trunc('hour', now(), 'UTC') + interval '1 hour'
WHERE EXISTS (SELECT FROM ledger_entries) OR EXISTS (SELECT FROM archived_entries);
COMMENT ON COLUMN sales_head.os_since IS 'The first hour whose sums are known by platform, too. Reports by platform read the hours before it from the ledger.';
