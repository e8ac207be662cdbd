-- A report that changes the status of an order, by hand: lock the order and look up what the report names, then write
-- order and event. Five round trips.
\set order :first_past_order + random(0, :wallets - 1)
\set status random(1, 6)
BEGIN;
SELECT o.event_count + 1 AS seq, o.open_id AS owner, o.out_order_no AS payment
FROM reference.orders o
LEFT JOIN reference.wallets w ON w.app_id = o.app_id AND w.open_id = o.open_id
LEFT JOIN reference.images i ON i.app_id = o.app_id AND i.img_id = :img_id AND i.blocked_by IS NULL
LEFT JOIN reference.order_payments p ON p.app_id = o.app_id AND p.out_order_no = o.out_order_no
WHERE o.app_id = :app_id AND o.out_biz_order_no = :order FOR UPDATE OF o \gset
UPDATE reference.orders SET order_status = :status, event_count = :seq, updated_at = now()
WHERE app_id = :app_id AND out_biz_order_no = :order;
INSERT INTO reference.order_events (app_id, out_biz_order_no, seq, order_status, report)
VALUES (:app_id, :order, :seq, :status, jsonb_build_object('out_order_no', :payment::text, 'open_id', :owner::text,
    'order_create_time', :ts::bigint, 'order_status', :status::integer, 'goods_kind', NULL,
    'order_path', :order_path::text, 'product_cover_img_id', :img_id::text, 'order_backup_url', NULL,
    'poi_id', NULL, 'product_id', NULL, 'product_catalog_code', NULL, 'product_city', NULL));
COMMIT;
