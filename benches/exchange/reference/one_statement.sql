-- All of it in one statement and one round trip: what an expert writes by hand.
\set n :n + 1
\set biz_no :first_order + :n * 100 + :client_id
\set open_id :first_open_id + random(0, :wallets - 1)
WITH wallet AS (
    SELECT free_balance, charge_balance, entry_count + 1 AS seq,
           least(charge_balance, :amount::bigint) AS from_charge
    FROM reference.wallets WHERE app_id = :app_id AND open_id = :open_id FOR UPDATE
), recorded AS (
    INSERT INTO reference.exchanges (app_id, biz_no, open_id, seq, amount, pay_priority, zone_id, os, ts, user_ip,
        product_name, product_info, product_desc, extension, kind, reference, free_change, charge_change,
        free_balance, charge_balance)
    SELECT :app_id::text, :biz_no::text, :open_id::text, seq, :amount::bigint, 0::smallint, :zone_id::text,
        :os::text, :ts::bigint, :user_ip::text, :product_name::text, :product_info::text, :product_desc::text,
        :extension::text, 'exchange', :biz_no::text, from_charge - :amount::bigint, -from_charge,
        free_balance + from_charge - :amount::bigint, charge_balance - from_charge
    FROM wallet WHERE free_balance + charge_balance >= :amount::bigint
    ON CONFLICT DO NOTHING
    RETURNING seq, free_balance, charge_balance
)
UPDATE reference.wallets AS paying
SET free_balance = recorded.free_balance, charge_balance = recorded.charge_balance, entry_count = recorded.seq
FROM recorded WHERE paying.app_id = :app_id AND paying.open_id = :open_id
RETURNING paying.free_balance, paying.charge_balance;
