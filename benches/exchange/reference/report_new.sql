-- The first report of an order by hand: look up what it names, then write order, payment and event. Six round trips.
\set n :n + 1
\set order_no :first_order + :n * 100 + :client_id
\set open_id :first_open_id + random(0, :wallets - 1)
BEGIN;
SELECT w.open_id, i.img_id, p.out_biz_order_no, o.event_count
FROM (VALUES (1)) AS always (there)
LEFT JOIN reference.wallets w ON w.app_id = :app_id AND w.open_id = :open_id
LEFT JOIN reference.images i ON i.app_id = :app_id AND i.img_id = :img_id AND i.blocked_by IS NULL
LEFT JOIN reference.order_payments p ON p.app_id = :app_id AND p.out_order_no = :order_no
LEFT JOIN reference.orders o ON o.app_id = :app_id AND o.out_biz_order_no = :order_no;
INSERT INTO reference.orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
    order_path, product_cover_img_id, event_count)
VALUES (:app_id, :order_no, :order_no, :open_id, :ts, 1, :order_path, :img_id, 1);
INSERT INTO reference.order_payments (app_id, out_order_no, out_biz_order_no)
VALUES (:app_id, :order_no, :order_no);
INSERT INTO reference.order_events (app_id, out_biz_order_no, seq, order_status, report)
VALUES (:app_id, :order_no, 1, 1, jsonb_build_object('out_order_no', :order_no::text, 'open_id', :open_id::text,
    'order_create_time', :ts::bigint, 'order_status', 1, 'goods_kind', NULL, 'order_path', :order_path::text,
    'product_cover_img_id', :img_id::text, 'order_backup_url', NULL, 'poi_id', NULL, 'product_id', NULL,
    'product_catalog_code', NULL, 'product_city', NULL));
COMMIT;
