"""A complete client of Minitill: the wallet, orders, uploads, notifications and a tiny game (Python 3.8 or newer).

Try it: python3 client.py pay OPEN_ID AMOUNT BIZ_NO. README.md beside it has all commands and settings.
"""
import base64
import hashlib
import hmac
import http.client
import http.server
import json
import os
import pathlib
import queue
import re
import sys
import threading
import time
from typing import NamedTuple, Optional
from urllib.parse import urlencode, urlsplit

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "sign"))
from sign import signed_body

SUCCESS, NO_TOKEN, RATE_LIMITED, NO_ANSWER, INSUFFICIENT = 1, 100200102, 10000305, 10000500, 10000601
# The number was used before: for other content, or more than 48 hours ago.
NUMBER_USED = (10000602, 10000603)
# A query has closed the number. It has no effect and never will, however many tries are on their way.
CLOSED = 10000608
USED = "unknown: this number was used before; query it"
UNKNOWN = "unknown: repeat with the same number"
OPEN = "/openapi/mp/developer/"
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
WAIT_MAX_SECONDS = 8
# A token is renewed so long before its end.
RENEW_SECONDS = 60
# The clocks of both sides may differ so much, and a notification may take so long.
APART_MAX_SECONDS = 300
# How much the game does at once, and when it tries again what could not be settled.
WORKERS, AGAIN_SECONDS = 32, 30


class Refused(Exception):
    """Minitill refused the call, and no try of it can have had an effect."""

    def __init__(self, code, msg):
        super().__init__(msg)
        self.code, self.msg = code, msg


class Unknown(Refused):
    """A try can have had an effect. Repeat with the same number; never take another one."""


class NotGenuine(Exception):
    """A notification that Minitill did not send, or not now. Answer it with 401, and do nothing more."""


class Answer(NamedTuple):
    code: int
    msg: str
    body: dict
    replayed: bool = False
    retry_after: int = 0
    # How many tries there were, and whether one of them ended without an answer.
    tries: int = 1
    unsure: bool = False


class Client:
    def __init__(self, base, app_id, app_secret, pay_key, timeout=5.0, total=60.0):
        """timeout: seconds for one try. total: seconds after which no other try begins."""
        self.base, self.app_id, self.app_secret, self.pay_key = urlsplit(base), app_id, app_secret, pay_key
        self.timeout, self.total = timeout, total
        self._token, self._renew_at, self._lock = None, 0.0, threading.Lock()

    def pay(self, order, sent_before=False):
        """Exchanges coins for an order: the fields of docs/api.md but app_id, ts, access_token and sign.

        The code of the answer is SUCCESS or INSUFFICIENT. sent_before: this order may have been sent
        before, such as before a restart. Raises Refused or Unknown.
        """
        return self._wallet("pay", order, sent_before)

    def present(self, present, sent_before=False):
        """Gives gifted coins. Fields, sent_before and errors are as in pay."""
        return self._wallet("present", present, sent_before)

    def cancel(self, cancel, sent_before=False):
        """Gives back an exchange, or a part of it. Fields, sent_before and errors are as in pay."""
        return self._wallet("cancel", cancel, sent_before)

    def topup(self, order, sent_before=False):
        """Orders a product of the prices, before the player pays money for it. Fields, sent_before and errors are as in pay."""
        return self._wallet("topup", order, sent_before)

    def balance(self, player):
        """Shows both purses. Fields and errors are as in pay."""
        return self._wallet("balance", player, changes=False)

    def query(self, open_id, biz_no, close=False):
        """Tells what became of a number. close: an unknown one is closed for ever. Raises Refused or Unknown."""
        fields = {"open_id": open_id, "biz_no": biz_no, "close": "1" if close else "0"}
        return self._wallet("query", fields, changes=close)

    def give_up(self, open_id, biz_no):
        """Gives up a number that got no answer. With any status but "closed" it had its effect before."""
        return self.query(open_id, biz_no, close=True)

    def report(self, order):
        """Reports an order. Raises Refused or Unknown."""
        body = json.dumps(order).encode()
        return self._call(lambda token: (self._open(OPEN + "order/v1/report", token), JSON, body))

    def upload(self, picture):
        """Uploads the bytes of a PNG or JPEG and gives the imgId. Raises Refused or Unknown."""
        mark = os.urandom(16).hex()
        head = f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="cover.png"\r\n\r\n'
        body, kind = head.encode() + picture + f"\r\n--{mark}--\r\n".encode(), f"multipart/form-data; boundary={mark}"
        answer = self._call(lambda token: (self._open(OPEN + "file/img/uploadWithFile", token), kind, body))
        return answer.body["data"]["imgId"]

    def upload_by_url(self, url):
        """Lets Minitill fetch a picture and gives the imgId. Raises Refused or Unknown."""
        body = urlencode({"url": url}).encode()
        answer = self._call(lambda token: (self._open(OPEN + "file/img/uploadWithUrl", token), FORM, body))
        return answer.body["data"]["imgId"]

    def note_shipment(self, biz_no):
        """Tells the sandbox that a game under test has shipped. Raises Refused or Unknown."""
        body = json.dumps({"biz_no": biz_no}).encode()
        return self._call(lambda token: (self._open("/sandbox/v1/shipments", token), JSON, body))

    def _wallet(self, call, fields, sent_before=False, changes=True):
        def request(token):
            own = {"app_id": self.app_id, "access_token": token, "ts": str(int(time.time() * 1000))}
            return f"/api/kpay/minigame/{call}", FORM, signed_body({**fields, **own}, self.pay_key).encode()

        return self._call(request, sent_before, changes)

    def _open(self, path, token):
        return f"{path}?" + urlencode({"app_id": self.app_id, "access_token": token})

    def _call(self, request, unsure=False, changes=True):
        """Repeats a call until an answer decides. Each try makes its request anew, with a fresh token and ts.

        changes: a try can have an effect, so a refusal does not tell what became of the tries before it.
        """
        until, wait, renewed, tries = time.monotonic() + self.total, 1, False, 0
        while True:
            token, answer = self._access_token()
            if token:
                tries += 1
                answer = self._send(*request(token))
            if answer.code in (SUCCESS, INSUFFICIENT):
                return answer._replace(tries=tries, unsure=unsure)
            if answer.code == NO_TOKEN and token and not renewed:
                self._forget(token)
                renewed = True
                continue
            unsure = unsure or (answer.code == NO_ANSWER and token is not None)
            if answer.code in NUMBER_USED:
                raise Unknown(answer.code, USED)
            if answer.code not in (NO_ANSWER, RATE_LIMITED):
                raise (Unknown if unsure and changes and answer.code != CLOSED else Refused)(answer.code, answer.msg)
            pause = answer.retry_after or wait
            if time.monotonic() + pause > until:
                if unsure:
                    raise Unknown(answer.code, UNKNOWN)
                raise Refused(answer.code, answer.msg)
            time.sleep(pause)
            wait = min(2 * wait, WAIT_MAX_SECONDS)

    def _access_token(self):
        """The token that is kept, or a new one; or None and the answer that explains why there is none."""
        with self._lock:
            if self._token and time.monotonic() < self._renew_at:
                return self._token, None
            fields = {"app_id": self.app_id, "app_secret": self.app_secret, "grant_type": "client_credentials"}
            answer = self._send("/oauth2/access_token", FORM, urlencode(fields).encode())
            if answer.code != SUCCESS:
                return None, answer
            self._token = answer.body["access_token"]
            self._renew_at = time.monotonic() + answer.body["expires_in"] - RENEW_SECONDS
            return self._token, None

    def _forget(self, token):
        with self._lock:
            # Another thread may have renewed it already.
            if self._token == token:
                self._token = None

    def _send(self, path, kind, body):
        """One request. What is no answer of Minitill gets the code NO_ANSWER, as its own system error has."""
        secure = self.base.scheme == "https"
        connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection, retry_after = connect(self.base.netloc, timeout=self.timeout), 0
        try:
            connection.request("POST", self.base.path.rstrip("/") + path, body, {"Content-Type": kind})
            response = connection.getresponse()
            after = response.getheader("Retry-After", "")
            retry_after = int(after) if after.isdecimal() else 0
            read = json.loads(response.read())
            code = read["code"] if "code" in read else read["result"]
            if response.status >= 500 or not isinstance(code, int):
                raise ValueError(f"HTTP status {response.status}")
            replayed = response.getheader("Idempotent-Replayed") == "true"
            return Answer(code, read.get("msg", read.get("error_msg", "")), read, replayed, retry_after)
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
            return Answer(NO_ANSWER, f"no answer: {error}", {}, False, retry_after)
        finally:
            connection.close()


def verify_notification(secrets, webhook_id, webhook_timestamp, webhook_signature, body, now=None):
    """Gives the event of a notification in the standard format, with its id. Raises NotGenuine.

    secrets: the receiver's whsec_..., or several with a space between. Then the values of the three headers,
    None for one that is missing. body: the bytes as they came; JSON that was parsed and written again does not
    verify. now: Unix seconds, for tests. Store the event by its id before you answer: it can come twice.
    """
    keys = [_key(secret) for secret in secrets.split(" ")]
    if not re.fullmatch("[0-9]{1,12}", webhook_timestamp or ""):
        raise NotGenuine("webhook-timestamp: expected Unix seconds")
    if abs((time.time() if now is None else now) - int(webhook_timestamp)) > APART_MAX_SECONDS:
        raise NotGenuine("webhook-timestamp: expected a time within 5 minutes of now")
    signed = f"{webhook_id}.{webhook_timestamp}.".encode() + body
    # The version v1 stands in what is compared, so signatures of other versions never fit.
    expected = [b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256")) for key in keys]
    given = (webhook_signature or "").encode().split(b" ")
    if not any(hmac.compare_digest(one, other) for one in expected for other in given):
        raise NotGenuine("webhook-signature: no signature fits")
    return {**json.loads(body), "id": webhook_id}


def _key(secret):
    """The key in a secret. A setting that is missing must not become an empty key: anybody could sign with it."""
    key = base64.b64decode(secret[6:], validate=True) if secret.startswith("whsec_") else b""
    if not key:
        raise ValueError("expected a secret of a receiver: whsec_ and base64")
    return key


def verify_platform_notification(app_secrets, kwaisign, body):
    """Gives the event of a notification in the platform's format, with its id. Raises NotGenuine.

    app_secrets: the app secret, or several with a space between; while it changes, the new one and the former
    one. kwaisign: the header, or None. body: the bytes as they came. This format holds no time of the try, so
    only the id tells a repeat: keep the ids. Take the event by answering 200 with platform_answer(event).
    """
    if "" in app_secrets.split(" "):
        raise ValueError("expected an app secret")
    expected = [hashlib.md5(body + secret.encode()).hexdigest() for secret in app_secrets.split(" ")]
    given = (kwaisign or "").encode()
    if not any(hmac.compare_digest(one.encode(), given) for one in expected):
        raise NotGenuine("kwaisign: expected the MD5 of body and app secret")
    event = json.loads(body)
    return {**event, "id": event["message_id"]}


def platform_answer(event):
    """The body of the answer that takes an event of the platform's format. Minitill sends it again after any other."""
    return json.dumps({"result": 1, "message_id": event["id"]})


class Game:
    """A tiny game: it buys an item for each credit, and ships what was paid.

    A real game keeps in its database what this one keeps in memory: an event before it is answered, and a number
    in the transaction that gives the item to the player.
    """

    def __init__(self, client):
        self.client, self.seen, self.shipped = client, set(), set()
        self.lock, self.queue = threading.Lock(), queue.Queue()
        for _ in range(WORKERS):
            threading.Thread(target=self._work, daemon=True).start()

    def take(self, event):
        """Takes an event once. The work comes later, so that the answer need not wait for it."""
        known = event.get("type") in ("wallet.credited", "exchange.succeeded")
        if known and not event.get("is_mock") and self._is_new(self.seen, event["id"]):
            self.queue.put(event)

    def _is_new(self, known, name):
        with self.lock:
            is_new = name not in known
            known.add(name)
        return is_new

    def _work(self):
        while True:
            event = self.queue.get()
            try:
                if event["type"] == "wallet.credited":
                    self._buy(event)
                else:
                    self._ship(event["data"]["biz_no"])
            except Exception as error:
                # Nobody knows yet what became of it. To do all of it again is safe: its number is the same.
                print(f"{event['id']}: {error!r}", file=sys.stderr, flush=True)
                threading.Timer(AGAIN_SECONDS, self.queue.put, [event]).start()

    def _buy(self, event):
        """The number comes from the event, so an event that comes again after a restart buys nothing more."""
        open_id, biz_no = event["data"]["open_id"], event["id"].replace("_", "")
        try:
            is_paid = self.client.pay(order_of(open_id, "1", biz_no), sent_before=True).code == SUCCESS
        except Refused:
            is_paid = False
        # Without success a try can still be on its way. To give the number up tells, and makes sure.
        if is_paid or self.client.give_up(open_id, biz_no).body["data"]["status"] == "paid":
            self._ship(biz_no)

    def _ship(self, biz_no):
        # The number is kept first: to ship twice is worse than to tell of it late.
        if self._is_new(self.shipped, biz_no):
            print(json.dumps({"outcome": "shipped", "biz_no": biz_no}), flush=True)
            self.client.note_shipment(biz_no)


def play(client, secrets, port):
    """Serves a game at this port of 127.0.0.1, or at a free one for 0, until the program ends."""
    game, _ = Game(client), [_key(secret) for secret in secrets.split(" ")]

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            headers = [self.headers.get(f"webhook-{name}") for name in ("id", "timestamp", "signature")]
            try:
                game.take(verify_notification(secrets, *headers, body))
                self.send_response(204)
            except NotGenuine:
                self.send_response(401)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    print(json.dumps({"outcome": "playing", "port": server.server_address[1]}), flush=True)
    server.serve_forever()


def player_of(open_id):
    return {"open_id": open_id, "zone_id": "zone1_role1", "os": "android", "user_ip": "203.0.113.7"}


def order_of(open_id, amount, biz_no):
    return {
        **player_of(open_id), "amount": amount, "biz_no": biz_no,
        "product_name": "Double-up card", "product_desc": "For one match",
        "product_info": '[{"product_id":1001,"product_num":1,"product_type":0}]',
    }


def jobs(client, command, *words):
    """What a command asks for, one function for each line that it prints; see README.md."""
    player = player_of(words[0])
    if command in ("pay", "pay-again"):
        for number in words[2:]:
            yield lambda: paid(client.pay(order_of(*words[:2], number), command == "pay-again"))
    elif command == "present":
        for number in words[2:]:
            yield lambda: done(client.present({**player, "amount": words[1], "biz_no": number}))
    elif command == "cancel":
        for number in words[3:]:
            cancel = {**player, "amount": words[1], "pay_biz_no": words[2], "biz_no": number}
            yield lambda: done(client.cancel(cancel))
    elif command == "topup":
        for number in words[2:]:
            yield lambda: done(client.topup({**player, "product_id": words[1], "biz_no": number}))
    elif command == "balance":
        yield lambda: done(client.balance(player))
    elif command in ("query", "give-up"):
        ask = client.query if command == "query" else client.give_up
        for number in words[1:]:
            yield lambda: done(ask(words[0], number))
    elif command == "report":
        names = ("open_id", "out_biz_order_no", "order_create_time", "order_status", "order_path", "product_cover_img_id")
        order = dict(zip(names, words), out_order_no=words[1])
        yield lambda: client.report(order) and {"outcome": "done"}
    elif command == "upload":
        yield lambda: {"outcome": "done", "imgId": client.upload(pathlib.Path(words[0]).read_bytes())}
    elif command == "upload-url":
        yield lambda: {"outcome": "done", "imgId": client.upload_by_url(words[0])}
    elif command == "verify":
        body, secrets = sys.stdin.buffer.read(), os.environ.get("RECEIVER_SECRET", "")
        yield lambda: {**verify_notification(secrets, *words[:3], body, *map(int, words[3:])), "outcome": "done"}
    elif command == "verify-platform":
        body = sys.stdin.buffer.read()
        yield lambda: taken(verify_platform_notification(client.app_secret or "", words[0], body))
    elif command == "play":
        yield lambda: play(client, os.environ.get("RECEIVER_SECRET", ""), int(words[0]))
    else:
        sys.exit(f"{command}: no such command")


def paid(answer):
    if answer.code == INSUFFICIENT:
        # Not final: an earlier try can still be on its way.
        return {"outcome": "insufficient", "final": not answer.unsure, "tries": answer.tries}
    left = {name: answer.body["data"][name] for name in ("freeBalance", "chargeBalance")}
    return {"outcome": "paid", "replayed": answer.replayed, "tries": answer.tries, **left}


def done(answer):
    return {"outcome": "done", "replayed": answer.replayed, "tries": answer.tries, **answer.body["data"]}


def taken(event):
    return {**event, "outcome": "done", "answer": json.loads(platform_answer(event))}


def unset(setting, command=""):
    """The settings that a command needs and that nobody has set. What verifies a notification needs no app."""
    needed = () if command.startswith("verify") else ("APP_ID", "APP_SECRET")
    if needed and command not in ("report", "upload", "upload-url"):
        needed += ("PAY_KEY",)
    return [name for name in needed if not setting(name)]


def main(setting=os.environ.get):
    if missing := unset(setting, *sys.argv[1:2]):
        sys.exit(f"not set: {', '.join(missing)}; README.md has all settings")
    client = Client(
        setting("MINITILL_BASE", "http://127.0.0.1:8080"), setting("APP_ID"), setting("APP_SECRET"), setting("PAY_KEY"),
        int(setting("MINITILL_TIMEOUT_MS", "5000")) / 1000, int(setting("MINITILL_TOTAL_MS", "60000")) / 1000)
    succeeded = True
    for job in jobs(client, *sys.argv[1:]):
        try:
            line = job()
        except Refused as error:
            outcome = "unknown" if isinstance(error, Unknown) else "refused"
            line = {"outcome": outcome, "code": error.code, "msg": error.msg}
        except NotGenuine as error:
            line = {"outcome": "not_genuine", "msg": str(error)}
        print(json.dumps(line), flush=True)
        succeeded = succeeded and line["outcome"] in ("paid", "done")
    sys.exit(0 if succeeded else 1)


if __name__ == "__main__":
    main()
