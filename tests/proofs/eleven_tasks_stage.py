"""The till of the proof `eleven_tasks`: apps with players, exchanges, refusals, orders, pictures, the entries of last
month and the minutes of last night."""

import datetime
import json
import math
import random
import struct
import time
import urllib.parse
import urllib.request
import zlib
from zoneinfo import ZoneInfo

from browser import exchange, post
from till import wait_until

# Not UTC: the days, months and nights of the console begin eight hours before it.
ZONE = "Asia/Shanghai"
INSUFFICIENT = 10000601
# Minutes of 3 o'clock last night in which the database was away.
BAD_MINUTES = range(10, 15)
SIDE = 128


def today():
    """The day of the zone."""
    return datetime.datetime.now(ZoneInfo(ZONE)).date()


def last_month():
    """The first day of the last month, and that of this one."""
    this = today().replace(day=1)
    return (this - datetime.timedelta(days=1)).replace(day=1), this


def last_night():
    """The newest 3 o'clock whose hour is over."""
    now = datetime.datetime.now(ZoneInfo(ZONE))
    three = now.replace(hour=3, minute=0, second=0, microsecond=0)
    return three if now.hour >= 4 else three - datetime.timedelta(days=1)


def picture(seed, brightness=1.0):
    """A PNG of soft waves: with the same seed and another brightness it is a near copy."""
    lucky = random.Random(seed)
    waves = [(lucky.uniform(0.5, 5), lucky.uniform(0.5, 5), lucky.uniform(0, 6), lucky.uniform(10, 30)) for _ in range(9)]
    rows = bytearray()
    for y in range(SIDE):
        rows.append(0)
        for x in range(SIDE):
            light = sum(high * math.cos(math.pi * (across * x + down * y) / SIDE + turn) for across, down, turn, high in waves)
            rows += bytes([max(0, min(255, int((128 + light) * brightness)))] * 3)
    part = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    heading = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", heading) + part(b"IDAT", zlib.compress(bytes(rows))) + part(b"IEND", b"")


class App:
    """An app as its game server knows it."""

    def __init__(self, till, app_id):
        self.till, self.id = till, app_id
        self.pay_key = till.run("app", "create", app_id, "--scope", "epay")["pay_key"]
        till.run("app", "publish", app_id, "--version", "1.0", "--path", "pages/order/detail")
        self.token = till.run("token", "issue", app_id)["access_token"]
        self.query = urllib.parse.urlencode({"app_id": app_id, "access_token": self.token})

    def exchange(self, open_id, biz_no, amount, product="Sword", key=None, code=1):
        """Gives the code of the answer, which must be this one unless it is None."""
        fields = {"app_id": self.id, "open_id": open_id, "product_name": product, "product_desc": product}
        answer = exchange(self.till, key or self.pay_key, self.token, biz_no, amount, **fields)
        assert code in (answer["code"], None), answer
        return answer["code"]

    def upload(self, content, succeeds=True):
        part = b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.png"\r\n\r\n' + content + b"\r\n--b--\r\n"
        path = f"/openapi/mp/developer/file/img/uploadWithFile?{self.query}"
        return post(self.till.public, path, part, "multipart/form-data; boundary=b", succeeds)

    def report(self, number, open_id, img_id, *statuses):
        """An order in these statuses, one after the other, each with a page of its own."""
        order = {
            "out_biz_order_no": number, "out_order_no": number, "open_id": open_id, "product_cover_img_id": img_id,
            "order_create_time": int(time.time() * 1000) - 60_000, "order_backup_url": "https://example.com/",
        }
        for seq, status in enumerate(statuses):
            body = json.dumps(order | {"order_status": status, "order_path": f"pages/order/detail?seen={seq}"}).encode()
            post(self.till.public, f"/openapi/mp/developer/order/v1/report?{self.query}", body, "application/json")


class Stage:
    """An app with everything that its operator is asked for. The app `other` has the same picture."""

    def __init__(self, till, app_id, other):
        self.till, self.other = till, other
        self.app = App(till, app_id)
        name = lambda what: f"{app_id}-{what}"
        self.player, self.buyer = name("lena"), name("mika")
        self.ref = name("case-4711")
        self.paid, self.poor, self.wrong = (f"{app_id}{what}" for what in ["paid1", "poor1", "wrong1"])
        self.pictures()
        self.a_player()
        self.orders()
        self.a_month()

    def sql(self, statements):
        return self.till.sql(statements)

    def rows(self, query):
        """The rows of a query, as texts."""
        answer = self.sql(f"COPY ({query}) TO STDOUT WITH (FORMAT text, DELIMITER '|')")
        return [tuple(line.split("|")) for line in answer.splitlines()]

    def pictures(self):
        content, near = picture(self.app.id), picture(self.app.id, 0.9)
        made = [self.app.upload(content), self.other.upload(content), self.app.upload(near)]
        self.content = content
        self.img_id, *_ = self.images = [answer["data"]["imgId"] for answer in made]
        self.innocent = self.app.upload(picture(f"{self.app.id}, another"))["data"]["imgId"]
        hashed = f"SELECT count(*) FROM images WHERE perceptual_hash IS NULL AND app_id IN ('{self.app.id}', '{self.other.id}')"
        wait_until(lambda: self.sql(hashed) == "0", "pictures have a perceptual hash")

    def a_player(self):
        """A player with two credits, a login code, two exchanges, and a number that was refused twice."""
        credit = lambda ref, coins, note, operator: self.till.run(
            "wallet", "credit", self.app.id, self.player, *coins, "--ref", ref, "--note", note, "--operator", operator, "--create")
        credit(f"{self.app.id}-welcome", ["--free", "50"], "a gift for new players", "bob")
        credit(self.ref, ["--charge", "400"], "paid twice on 3 May", "carol")
        self.till.run("login-code", "issue", self.app.id, self.player, "--operator", "dora")
        self.app.exchange(self.player, self.paid, 120)
        self.app.exchange(self.player, self.wrong, 40, "Shield")
        for _ in range(2):
            self.app.exchange(self.player, self.poor, 9_999, code=INSUFFICIENT)
        told = f"SELECT coalesce(sum(count), 0) FROM exchange_refusals WHERE biz_no = '{self.poor}'"
        wait_until(lambda: self.sql(told) == "2", "refusals are noted")

    def orders(self):
        """Two orders that are stuck, one of them with a newer report of the same status, and three that are not."""
        for what, statuses, days in [
            ("old", [2], [5]), ("with-news", [12, 12], [3, 0]), ("fresh", [2], [0]), ("done", [2, 15], [6, 4]),
            ("paid", [1, 2], [3, 0]),
        ]:
            self.app.report(f"{self.app.id}-{what}", self.player, self.img_id, *statuses)
            of = f"app_id = '{self.app.id}' AND out_biz_order_no = '{self.app.id}-{what}'"
            for seq, age in enumerate(days, 1):
                self.sql(f"UPDATE order_events SET at = at - interval '{age} days' WHERE {of} AND seq = {seq}")
            self.sql(f"""UPDATE orders SET created_at = created_at - interval '{days[0]} days',
                updated_at = updated_at - interval '{days[-1]} days',
                order_create_time = order_create_time - {days[0]} * 86400000::bigint WHERE {of}""")
        self.stuck = [f"{self.app.id}-old", f"{self.app.id}-with-news"]
        self.order = f"{self.app.id}-fresh"

    def a_month(self):
        """A wallet whose entries stand at the edges of the last month: before it, in it, and after it."""
        app, buyer, number = self.app, self.buyer, lambda index: f"{self.app.id}m{index}"
        (first, after), day = last_month(), lambda date, count: date + datetime.timedelta(days=count)
        times = {}

        def at(reference, date, clock):
            times[reference] = f"{date} {clock}"

        credit = lambda ref, *coins: self.till.run("wallet", "credit", app.id, buyer, "--ref", ref, *coins, "--create")
        credit(number(1), "--free", "30", "--charge", "2000")
        at("!" + number(1), day(first, -5), "12:00")
        app.exchange(buyer, number(2), 7)
        at(number(2), day(first, -1), "23:59:59.999999")
        credit(number(3), "--charge", "500")
        at("!" + number(3), first, "00:00")
        app.exchange(buyer, number(4), 120)
        at(number(4), first, "00:00")
        app.exchange(buyer, number(5), 35, "Shield")
        at(number(5), day(first, 2), "23:59:59.999999")
        app.exchange(buyer, number(6), 60)
        at(number(6), day(first, 3), "00:00")
        self.till.run("wallet", "cancel", app.id, number(6), "--amount", "15", "--ref", number(7))
        at("!" + number(7), day(after, -1), "23:59:59.999999")
        app.exchange(buyer, number(8), 11)
        at(number(8), after, "00:00")
        moved = "".join(f"UPDATE ledger_entries SET at = timestamp '{moment}' AT TIME ZONE '{ZONE}' WHERE reference = '{reference}';"
                        for reference, moment in times.items())
        # Sums of hours that were rolled up are of other hours now: they are made again.
        self.sql(f"BEGIN; UPDATE sales_head SET through_no = 0; DELETE FROM sales_hours; {moved} {CHAIN} COMMIT;")
        check = lambda: self.till.run("report", "check", app.id)
        wait_until(lambda: check()["ties"] and check()["not_rolled_up"] == 0, "sums of hours tie to the ledger")

    def a_night(self):
        """The minutes of the hours around 3 o'clock last night, as those of this server."""
        minute = "date_trunc('minute', at)"
        wait_until(lambda: self.sql("SELECT count(*) FROM health_minutes") != "0", "the server tells of a minute", 130)
        bad = "', '".join((last_night() + datetime.timedelta(minutes=each)).isoformat() for each in BAD_MINUTES)
        self.sql(f"""INSERT INTO health_minutes (at, instance, problems, seen)
            SELECT told.at, instance, CASE WHEN is_bad THEN ARRAY['database_away'] ELSE '{{}}' END,
                seen || jsonb_build_object('at', to_char(told.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'database_up', NOT is_bad)
            FROM (SELECT instance, seen FROM health_minutes ORDER BY {minute} LIMIT 1) AS pattern,
                generate_series('{last_night().isoformat()}'::timestamptz - interval '1 hour',
                    least('{last_night().isoformat()}'::timestamptz + interval '2 hours', date_trunc('minute', now())) - interval '1 minute',
                    '1 minute') AS told (at),
                LATERAL (SELECT told.at IN ('{bad}') AS is_bad) AS judged
            ON CONFLICT DO NOTHING""")


# The hashes of all entries and wallets anew, as ledger.rs in the crate `domain` describes them.
CHAIN = """
CREATE FUNCTION pg_temp.part(bytes bytea) RETURNS bytea LANGUAGE sql AS
    $$ SELECT CASE WHEN bytes IS NULL THEN int4send(-1) ELSE int4send(octet_length(bytes)) || bytes END $$;
CREATE FUNCTION pg_temp.part(words text) RETURNS bytea LANGUAGE sql AS $$ SELECT pg_temp.part(convert_to(words, 'UTF8')) $$;
DO $$
DECLARE e record; hash bytea;
BEGIN
    FOR e IN SELECT * FROM ledger_entries WHERE seq IS NOT NULL ORDER BY app_no, wallet_no, seq FOR UPDATE LOOP
        IF e.seq = 1 THEN hash := decode(repeat('00', 32), 'hex'); END IF;
        hash := sha256(hash || pg_temp.part(int4send(e.app_no)) || pg_temp.part(int8send(e.wallet_no)) || pg_temp.part(int8send(e.seq))
            || pg_temp.part(e.kind) || pg_temp.part(e.reference) || pg_temp.part(e.of_biz_no) || pg_temp.part(int8send(e.remaining))
            || pg_temp.part(e.item_id) || pg_temp.part(int2send(e.pay_priority)) || pg_temp.part(int8send(e.free_change))
            || pg_temp.part(int8send(e.charge_change)) || pg_temp.part(int8send(e.free_balance))
            || pg_temp.part(int8send(e.charge_balance)) || pg_temp.part(timestamptz_send(e.at)));
        UPDATE ledger_entries SET chain_hash = hash WHERE app_no = e.app_no AND reference = e.reference;
        UPDATE wallets SET chain_hash = hash WHERE app_no = e.app_no AND wallet_no = e.wallet_no;
    END LOOP;
END $$;
DROP FUNCTION pg_temp.part(bytea), pg_temp.part(text);
"""
