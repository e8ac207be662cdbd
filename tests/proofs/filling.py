"""Fills the ledger of an app with many entries by SQL, as exchanges would: balances and the chain of hashes are right."""

# The bytes of an entry that its hash covers are those of `LedgerEntry::chain_hash`.
ROUND = """
INSERT INTO ledger_entries (app_no, wallet_no, seq, kind, reference, free_change, charge_change, free_balance, charge_balance,
    at, chain_hash, pay_priority, item_id, ts, zone_id, os, user_ip, extension)
SELECT app_no, wallet_no, seq, kind, reference, change, 0, balance, 0, at, sha256(before
    || int4send(4) || int4send(app_no) || int4send(8) || int8send(wallet_no) || int4send(8) || int8send(seq)
    || int4send(octet_length(kind)) || convert_to(kind, 'UTF8')
    || int4send(octet_length(reference)) || convert_to(reference, 'UTF8')
    || int4send(-1) || int4send(-1) || coalesce(int4send(16) || item_id, int4send(-1))
    || coalesce(int4send(2) || int2send(pay_priority), int4send(-1))
    || int4send(8) || int8send(change) || int4send(8) || int8send(0) || int4send(8) || int8send(balance)
    || int4send(8) || int8send(0) || int4send(8) || timestamptz_send(at)),
    pay_priority, item_id, 1767225600000, zone_id, os, '203.0.113.9', ''
FROM (SELECT w.app_no, w.wallet_no, {seq}::bigint AS seq, '{kind}' AS kind, 'order' || ({seq}::bigint * 1000000 + w.wallet_no) AS reference,
        {change}::bigint AS change, w.free_balance + {change} AS balance, w.chain_hash AS before,
        timestamptz '{at}' + w.wallet_no * interval '{step}' AS at, {item} AS item_id, {priority}::smallint AS pay_priority,
        {zone} AS zone_id, {os} AS os
    FROM wallets w WHERE w.app_no = {app_no} AND w.wallet_no <= {players} ORDER BY w.wallet_no) e;
UPDATE wallets w SET entry_count = e.seq, free_balance = e.free_balance, chain_hash = e.chain_hash
FROM ledger_entries e WHERE e.app_no = w.app_no AND e.wallet_no = w.wallet_no AND e.seq = {seq} AND w.app_no = {app_no}
    AND w.wallet_no <= {players};
VACUUM wallets;
"""

# What the server's task adds to the sums, ten seconds after it happened.
SUMS = """
SET statement_timeout = 0;
INSERT INTO sales_hours (app_no, cut, hour, product_name, zone, os, count, free_taken, charge_taken, free_given_back, charge_given_back)
SELECT s.app_no, 7 - grouping(s.os, i.product_name, s.zone), s.hour, coalesce(i.product_name, ''), coalesce(s.zone, ''),
    coalesce(s.os, ''), sum(count), sum(free_taken), sum(charge_taken), sum(free_given_back), sum(charge_given_back)
FROM (SELECT *, date_bin('1 hour', at, to_timestamp(0)) AS hour, split_part(zone_id, '_', 1) AS zone FROM sales) s
JOIN items i USING (app_no, item_id)
GROUP BY GROUPING SETS ((s.app_no, s.hour, i.product_name), (s.app_no, s.hour, s.zone),
    (s.app_no, s.hour, i.product_name, s.zone), (s.app_no, s.hour, s.os), (s.app_no, s.hour, i.product_name, s.zone, s.os));
VACUUM (ANALYZE) sales_hours;
"""


def fill(till, app_no, players, rounds, item, step, zone="'1_1'", os="'android'"):
    """Makes players 1 to `players`. The first round gives each a present, each later round takes one coin for `item`.
    `rounds` has the moments at which they begin. `step` lies between two players. `item`, `zone` and `os` are SQL over
    the wallet `w`."""
    till.sql(f"INSERT INTO wallets (app_no, wallet_no, open_id) SELECT {app_no}, n, 'old' || n FROM generate_series(1, {players}) AS n")
    for seq, at in enumerate(rounds, 1):
        what = ({"kind": "present", "change": 1_000, "item": "NULL::bytea", "priority": "NULL"} if seq == 1
                else {"kind": "exchange", "change": -1, "item": item.format(seq=seq), "priority": "1"})
        till.sql(ROUND.format(seq=seq, at=at.isoformat(), step=step, zone=zone, os=os, app_no=app_no, players=players, **what))
    till.sql("VACUUM (ANALYZE)")
