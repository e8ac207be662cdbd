-- The transaction of the textbooks: lock the wallet, write the record, pay, commit. Five round trips.
\set n :n + 1
\set biz_no :first_order + :n * 100 + :client_id
\set open_id :first_open_id + random(0, :wallets - 1)
BEGIN;
SELECT free_balance AS free, charge_balance AS charge, entry_count AS entries
FROM reference.wallets WHERE app_id = :app_id AND open_id = :open_id FOR UPDATE \gset
\set seq :entries + 1
\set charge_change -least(:charge, :amount)
\set free_change -:amount - :charge_change
\set free :free + :free_change
\set charge :charge + :charge_change
INSERT INTO reference.exchanges (app_id, biz_no, open_id, seq, amount, pay_priority, zone_id, os, ts, user_ip,
    product_name, product_info, product_desc, extension, kind, reference, free_change, charge_change,
    free_balance, charge_balance)
VALUES (:app_id, :biz_no, :open_id, :seq, :amount, 0, :zone_id, :os, :ts, :user_ip,
    :product_name, :product_info, :product_desc, :extension, 'exchange', :biz_no, :free_change, :charge_change,
    :free, :charge);
UPDATE reference.wallets SET free_balance = :free, charge_balance = :charge, entry_count = :seq
WHERE app_id = :app_id AND open_id = :open_id;
COMMIT;
