#!/usr/bin/env python3
"""Tries a client of Minitill in any language against a sandbox server, behind a proxy that breaks answers.

    python3 conformance.py [--program minitill] [--case NAME]... -- COMMAND [WORD]...

COMMAND starts the client. It takes the words and settings of ../client/README.md and prints its lines. Python 3.9, the
program `minitill` and PostgreSQL's programs are needed, and nothing else. Each case has a line, and the exit code is 0 when
the client passes all of them. A minute is usual, because clients wait between tries.
"""

import argparse
import base64
import hashlib
import hmac
import http.client
import http.server
import json
import os
import pathlib
import socketserver
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
import zlib

# What the proxy does with a try. These let it through to the server first.
COMMITTED = ["cut", "half", "garbage", "error", "system error"]
NOT_SENT = ["closed", "busy", "limited"]
# What may differ between the tries of a number.
CHANGES = {"ts", "sign", "access_token"}
# No double of IEEE 754 holds it.
LARGE = 2**53 + 1
APP = {"APP_ID": "conform", "APP_SECRET": "conform-secret", "PAY_KEY": "conform-pay-key"}
SEED = f"""
[[apps]]
app_id = "conform"
app_secret = "conform-secret"
pay_key = "conform-pay-key"
access_token = "conform-token"
package = "1"
pages = ["pages/order"]

[[apps.prices]]
product_id = "gems60"
currency = "CNY"
amount = 600
charge = 60
bonus = 6
name = "60 gems"

[[apps.players]]
open_id = "p"
free = 100
charge = 100

[[apps.players]]
open_id = "poor"

[[apps.players]]
open_id = "rich"
free = {LARGE}
charge = {LARGE}
"""
# The public test vector of Standard Webhooks.
SECRET, MESSAGE_ID, SENT_AT = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330
MESSAGE, SIGNATURE = b'{"test": 2432232314}', "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


class Seen:
    """A request that the proxy saw."""

    def __init__(self, path, body):
        self.path, _, query = path.partition("?")
        self.began = self.ended = time.monotonic()
        self.fields = dict(urllib.parse.parse_qsl(query))
        call = self.path.rpartition("/")[2]
        if "/minigame/" in self.path:
            self.fields |= dict(urllib.parse.parse_qsl(body.decode()))
        # A query has the number of another call.
        self.key = self.fields.get("biz_no", call) if call != "query" else call


class Proxy(socketserver.ThreadingTCPServer):
    """Does with each request what the plan of its number, or of its call, says."""

    daemon_threads, allow_reuse_address = True, True

    def __init__(self, server):
        super().__init__(("127.0.0.1", 0), Connection)
        self.server, self.seen, self.plans = server, [], {}
        self.before = lambda: None
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def tries(self, key):
        return [seen for seen in self.seen if seen.key == key]


class Connection(socketserver.StreamRequestHandler):
    timeout = 60

    def handle(self):
        while line := self.rfile.readline():
            head = http.client.parse_headers(self.rfile)
            method, path, _ = line.decode().split(" ")
            seen = Seen(path, body := self.rfile.read(int(head.get("content-length", 0))))
            self.server.seen.append(seen)
            plan = self.server.plans.get(seen.key, [])
            goes_on = self.do(plan.pop(0) if plan else "pass", method, path, body, head.get("content-type", ""))
            seen.ended = time.monotonic()
            if not goes_on:
                break

    def do(self, action, method, path, body, kind):
        """Gives whether the connection goes on."""
        if action == "closed":
            return False
        if action in ("busy", "limited"):
            code, status = (10000500, "503 Busy") if action == "busy" else (10000305, "200 OK")
            return self.answer(status, b'{"code":%d,"msg":"wait"}' % code, "Retry-After: 2\r\n")
        if action == "revoke":
            self.server.before()
        server = http.client.HTTPConnection(self.server.server, timeout=30)
        server.request(method, path, body, {"Content-Type": kind})
        answer = server.getresponse()
        text = answer.read()
        server.close()
        if action == "cut":
            return False
        if action == "silent":
            # Until the client is tired of it.
            return not self.rfile.read(1)
        if action == "garbage":
            return self.answer("200 OK", b"<html>an error page</html>")
        if action == "error":
            # Whatever stands in its body.
            return self.answer("502 Bad Gateway", b'{"code":10000423,"msg":"no player"}')
        if action == "system error":
            return self.answer("200 OK", b'{"code":10000500,"msg":"system error"}')
        if action == "short":
            text = text.replace(b'"expires_in":172800', b'"expires_in":60')
        replayed = answer.getheader("Idempotent-Replayed")
        header = f"Idempotent-Replayed: {replayed}\r\n" if replayed else ""
        return self.answer(f"{answer.status} OK", text, header, half=action == "half")

    def answer(self, status, text, header="", half=False):
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{header}Content-Length: {len(text)}\r\n\r\n"
        self.wfile.write(head.encode() + (text[: len(text) // 2] if half else text))
        return not half


class Wrong(Exception):
    """What the client should have done, and what it did."""


class Conformance:
    """A client at the proxy of a sandbox server, and what it must do."""

    def __init__(self, command, server, proxy, folder):
        self.command, self.server, self.proxy, self.folder = command, server, proxy, folder

    def run(self, *words, timeout_ms=10_000, total_ms=60_000, body=b"", **settings):
        """The lines that the client prints. Its exit code must tell whether all calls succeeded."""
        own = APP | {
            "MINITILL_BASE": "http://127.0.0.1:%d" % self.proxy.server_address[1], "RECEIVER_SECRET": SECRET,
            "MINITILL_TIMEOUT_MS": str(timeout_ms), "MINITILL_TOTAL_MS": str(total_ms),
        }
        ended = subprocess.run([*self.command, *map(str, words)], env=os.environ | own | settings, input=body,
                               capture_output=True, timeout=180, check=False)
        try:
            lines = [json.loads(line) for line in ended.stdout.splitlines()]
            succeeded = all(line["outcome"] in ("paid", "done") for line in lines)
        except (ValueError, LookupError, TypeError):
            lines = []
        self.holds(lines, f"{words[0]}: a line of JSON with an outcome for each call", (ended.stdout, ended.stderr))
        self.holds(ended.returncode == (0 if succeeded else 1), "the exit code tells whether all succeeded", lines)
        return lines

    def holds(self, is_so, what, *shown):
        if not is_so:
            raise Wrong(f"{what}; got {', '.join(map(repr, shown))}")

    def has(self, line, what, **expected):
        found = {name: line.get(name) for name in expected}
        self.holds(found == expected, f"{what}: expected {expected}", line)

    def tokens(self):
        return len(self.proxy.tries("access_token"))

    def call(self, path, body):
        """A call of a sandbox server."""
        query = "app_id=conform&access_token=conform-token"
        url = f"http://{self.server}/sandbox/v1/{path}?{query}"
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=30) as answer:
            self.holds(json.load(answer)["result"] == 1, f"the sandbox server takes {path}", body)

    def tried(self, number, *waits):
        """Each try has the same content and a fresh ts, and waits at least so many seconds after the one before."""
        tries = self.proxy.tries(number)
        self.holds(len(tries) == len(waits) + 1, f"{number}: expected {len(waits) + 1} tries", len(tries))
        contents = [{name: value for name, value in seen.fields.items() if name not in CHANGES} for seen in tries]
        self.holds(all(content == contents[0] for content in contents), f"{number}: the same content in each try", contents)
        self.holds(len({seen.fields["ts"] for seen in tries}) == len(tries), f"{number}: a fresh ts in each try")
        pauses = [later.began - earlier.ended for earlier, later in zip(tries, tries[1:])]
        fits = all(least - 0.1 <= pause <= least + 3 for pause, least in zip(pauses, waits))
        self.holds(fits, f"{number}: waits of {waits} s", pauses)

    def sign_and_pay(self):
        first, again = self.run("pay", "p", "60", "pay1", "pay1")
        # Charged coins pay first.
        self.has(first, "a payment", outcome="paid", replayed=False, tries=1, freeBalance=100, chargeBalance=40)
        self.has(again, "its repeat", outcome="paid", replayed=True, tries=1, freeBalance=100, chargeBalance=40)
        used, = self.run("pay", "p", "59", "pay1")
        self.has(used, "a number with other content", outcome="unknown", code=10000602)
        line, = self.run("balance", "p")
        self.has(line, "a balance", outcome="done", freeBalance=100, chargeBalance=40, spentTotal=60)
        gift, = self.run("present", "p", "5", "gift1")
        self.has(gift, "a present", outcome="done", bizNo="gift1", freeBalance=105)

    def token_is_kept(self):
        before = self.tokens()
        self.run("pay", "p", "1", *[f"kept{at}" for at in range(5)])
        self.holds(self.tokens() - before == 1, "expected one token for 5 calls", self.tokens() - before)

    def token_is_renewed(self):
        self.proxy.plans["access_token"], before = ["short"] * 3, self.tokens()
        self.run("pay", "p", "1", *[f"short{at}" for at in range(3)])
        self.holds(self.tokens() - before == 3, "expected a new token before its end", self.tokens() - before)
        self.call("faults", {"target": "exchange", "fault": "refuse", "code": 100200102, "times": 1})
        before = self.tokens()
        line, = self.run("pay", "p", "1", "refused1")
        self.has(line, "a token that is refused is renewed at once", outcome="paid", tries=2)
        self.holds(self.tokens() - before == 2, "expected two tokens", self.tokens() - before)

    def unknown_then_repeat(self):
        numbers = {f"lost{at}": action for at, action in enumerate(COMMITTED + ["closed"])}
        self.proxy.plans |= {number: [action] for number, action in numbers.items()}
        for (number, action), line in zip(numbers.items(), self.run("pay", "p", "1", *numbers)):
            self.has(line, f"an answer that is {action}", outcome="paid", tries=2, replayed=action in COMMITTED)
            self.tried(number, 1)
        self.proxy.plans |= {"grow": ["cut", "closed", "cut"], "silent": ["silent"], "over": ["closed"] * 50}
        self.run("pay", "p", "1", "grow")
        self.tried("grow", 1, 2, 4)
        line, = self.run("pay", "p", "1", "silent", timeout_ms=2_000)
        self.has(line, "no answer in time", outcome="paid", replayed=True)
        line, = self.run("pay", "p", "1", "over", total_ms=2_500)
        self.has(line, "no answer at all", outcome="unknown")
        self.proxy.plans["over"] = []
        line, = self.run("give-up", "p", "over")
        self.has(line, "a number that is given up", outcome="done", status="closed")
        line, = self.run("pay-again", "p", "1", "over")
        self.has(line, "a number that was given up", outcome="refused", code=10000608)

    def retry_after(self):
        self.proxy.plans |= {"wait1": ["busy"], "wait2": ["limited"]}
        for line in self.run("pay", "p", "1", "wait1", "wait2"):
            self.has(line, "told to wait", outcome="paid", tries=2)
        self.tried("wait1", 2)
        self.tried("wait2", 2)

    def too_few_coins(self):
        self.proxy.plans["few2"] = ["closed"]
        sure, unsure = self.run("pay", "poor", "1", "few1", "few2")
        self.has(sure, "10000601", outcome="insufficient", final=True, tries=1)
        self.has(unsure, "10000601 behind a try without an answer", outcome="insufficient", final=False, tries=2)
        line, = self.run("pay", "nobody", "1", "few3")
        self.has(line, "a player who is not known", outcome="refused", code=10000423)

    def cancel(self):
        self.run("pay", "p", "10", "bought")
        self.proxy.plans["back1"] = ["half"]
        line, = self.run("cancel", "p", "4", "bought", "back1")
        self.has(line, "a part is given back", outcome="done", replayed=True, tries=2, payBizNo="bought", remaining=6)
        line, = self.run("query", "p", "bought")
        self.has(line, "its query", outcome="done", kind="exchange", status="part_cancelled", remaining=6)
        line, = self.run("cancel", "p", "7", "bought", "back2")
        self.has(line, "more than is left", outcome="refused", code=10000605)

    def topup(self):
        self.proxy.plans["order1"] = ["half"]
        line, = self.run("topup", "p", "gems60", "order1")
        price = {"productId": "gems60", "currency": "CNY", "amount": 600, "charge": 60, "bonus": 6, "status": "created"}
        self.has(line, "an order", outcome="done", replayed=True, tries=2, bizNo="order1", **price)
        line, = self.run("query", "p", "order1")
        self.has(line, "its query", outcome="done", kind="topup", status="created", amount=600)
        line, = self.run("topup", "p", "nothing", "order2")
        self.has(line, "a product that is not for sale", outcome="refused", code=10000610)

    def large_numbers(self):
        line, = self.run("balance", "rich")
        self.has(line, f"{LARGE} coins", freeBalance=LARGE, chargeBalance=LARGE)
        line, = self.run("pay", "rich", "1", "large1")
        self.has(line, "one coin less", outcome="paid", freeBalance=LARGE, chargeBalance=LARGE - 1)

    def upload_and_report(self):
        picture = self.folder / "cover.png"
        picture.write_bytes(png(64))
        outside = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *of: Pictures(*of, directory=self.folder))
        threading.Thread(target=outside.serve_forever, daemon=True).start()
        self.proxy.plans |= {"uploadWithFile": ["cut"], "report": ["half"]}
        by_file, = self.run("upload", picture)
        by_url, = self.run("upload-url", f"http://127.0.0.1:{outside.server_address[1]}/cover.png")
        outside.shutdown()
        self.holds(len(by_file.get("imgId", "")) == 48, "an imgId", by_file)
        self.has(by_url, "the same picture has the same imgId", outcome="done", imgId=by_file["imgId"])
        order = ["p", "order-1001", int(time.time() * 1000), "2"]
        line, = self.run("report", *order, "pages/order?id=1", by_file["imgId"])
        self.has(line, "a report", outcome="done")
        line, = self.run("report", *order, "pages/ordre", by_file["imgId"])
        self.has(line, "a page that is not there", outcome="refused", code=10001007)

    def notifications_of_the_standard_format(self):
        line, = self.run("verify", MESSAGE_ID, SENT_AT, SIGNATURE, SENT_AT, body=MESSAGE)
        self.has(line, "the public vector", outcome="done", id=MESSAGE_ID, test=2432232314)
        now = int(time.time())
        text = f"{MESSAGE_ID}.{now}.".encode() + MESSAGE
        sign = "v1," + base64.b64encode(hmac.digest(base64.b64decode(SECRET[6:]), text, "sha256")).decode()
        line, = self.run("verify", MESSAGE_ID, now, f"v1,AAAA {sign}", body=MESSAGE)
        self.has(line, "two signatures, as of now", outcome="done")
        for what, words, body in [
            ("a changed body", [MESSAGE_ID, SENT_AT, SIGNATURE, SENT_AT], MESSAGE + b"\n"),
            ("another id", ["msg_other", SENT_AT, SIGNATURE, SENT_AT], MESSAGE),
            ("another time", [MESSAGE_ID, SENT_AT + 1, SIGNATURE, SENT_AT], MESSAGE),
            ("a signature of another version", [MESSAGE_ID, SENT_AT, "v2" + SIGNATURE[2:], SENT_AT], MESSAGE),
            ("older than 5 minutes", [MESSAGE_ID, SENT_AT, SIGNATURE, SENT_AT + 301], MESSAGE),
        ]:
            line, = self.run("verify", *words, body=body)
            self.has(line, what, outcome="not_genuine")

    def notifications_of_the_platform_format(self):
        body = b'{"message_id":"evt_1","biz_type":"t","data":{}}'
        sign = hashlib.md5(body + b"conform-secret").hexdigest()
        line, = self.run("verify-platform", sign, body=body)
        self.has(line, "a genuine one", outcome="done", id="evt_1", answer={"result": 1, "message_id": "evt_1"})
        line, = self.run("verify-platform", sign, body=body + b" ")
        self.has(line, "a changed body", outcome="not_genuine")


CASES = [
    Conformance.sign_and_pay, Conformance.token_is_kept, Conformance.token_is_renewed, Conformance.unknown_then_repeat,
    Conformance.retry_after, Conformance.too_few_coins, Conformance.cancel, Conformance.topup,
    Conformance.large_numbers, Conformance.upload_and_report, Conformance.notifications_of_the_standard_format,
    Conformance.notifications_of_the_platform_format,
]


class Pictures(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def png(side):
    """A grey picture."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head, rows = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0), (b"\0" + b"\x80" * side) * side
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def attempt(conformance, case):
    """Whether the client passes the case. Prints its line."""
    name, began = case.__name__.replace("_", " "), time.monotonic()
    try:
        case(conformance)
        print(f"ok      {name} ({time.monotonic() - began:.1f} s)", flush=True)
        return True
    except (Wrong, ValueError, subprocess.TimeoutExpired) as error:
        print(f"FAILED  {name}: {error}", flush=True)
        return False


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n")[2].strip())
    parser.add_argument("--program", default="minitill")
    parser.add_argument("--case", action="append", help="only this one; its name as it is printed")
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    cases = [case for case in CASES if not asked.case or case.__name__.replace("_", " ") in asked.case]
    if not cases:
        sys.exit("no such case")
    foreign = ("MINITILL_", "DATABASE_URL")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    with tempfile.TemporaryDirectory(prefix="minitill-conformance-") as name:
        folder = pathlib.Path(name)
        (folder / "seed.toml").write_text(SEED)
        serve = [asked.program, "sandbox", "serve", "--seed", str(folder / "seed.toml"), "--port", "0", "--json"]
        with open(folder / "log", "w", encoding="utf-8") as log:
            server = subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, stderr=log)
        try:
            line = server.stdout.readline()
            if not line:
                sys.exit((folder / "log").read_text(encoding="utf-8"))
            public = json.loads(line)["public"].removeprefix("http://")
            with Proxy(public) as proxy:
                passed = [attempt(Conformance(asked.command, public, proxy, folder), case) for case in cases]
        finally:
            server.terminate()
            server.wait(30)
    print(f"{sum(passed)} of {len(passed)} passed")
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
