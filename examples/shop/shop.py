#!/usr/bin/env python3
"""The server of a tiny game with a shop, against `minitill sandbox serve` (Python 3.8 or newer).

    minitill sandbox serve
    python3 shop.py

Then open http://127.0.0.1:9000. The browser talks to this server alone, which holds the keys and calls the till, as in
every game.
"""
import http.server
import json
import os
import pathlib
import sys
import threading
import time
import urllib.request
from urllib.parse import urlencode

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "client"))
from client import SUCCESS, Client, Refused, Unknown

TILL = os.environ.get("MINITILL_BASE", "http://127.0.0.1:8080")
# What the sandbox server's seed has: `minitill sandbox seed`.
APP_ID, SECRET, PAY_KEY, TOKEN, PLAYER = "mygame", "mygame-secret", "mygame-pay-key", "mygame-token", "player-1"
COVER = "0123456789abcdef0123456789abcdef0123456789abcdef"
ITEMS = {
    "card": {"name": "Double-up card", "price": 20, "id": 1001},
    "skin": {"name": "Dragon skin", "price": 60, "id": 1002},
    "castle": {"name": "Castle", "price": 1000, "id": 1003},
}
# Of the order center.
PAID, REFUNDED = 2, 6


class Shop:
    """What a real game keeps in its database: each order stands here before it is sent to the till."""

    def __init__(self):
        self.client = Client(TILL, APP_ID, SECRET, PAY_KEY, timeout=3.0, total=30.0)
        self.orders, self.lock = [], threading.Lock()

    def buy(self, item):
        bought = ITEMS[item]
        with self.lock:
            number = f"shop{int(time.time() * 1000)}x{len(self.orders)}"
            order = {"number": number, "item": bought["name"], "price": bought["price"], "status": "sending", "said": ""}
            self.orders.insert(0, order)
        try:
            answer = self.client.pay(self.fields(
                number, amount=str(bought["price"]), product_name=bought["name"], product_desc="From the shop",
                product_info=json.dumps([{"product_id": bought["id"], "product_num": 1, "product_type": 0}])))
            if answer.code == SUCCESS:
                replayed = ", the first answer again" if answer.replayed else ""
                order.update(status="paid", said=f"tries: {answer.tries}{replayed}")
                self.report(order, PAID)
            else:
                order.update(status="refused", said=f"{answer.code} {answer.msg}")
        except Refused as error:
            # Only the till knows what became of a number without an answer. To give it up tells, and makes sure.
            status = self.client.give_up(PLAYER, number).body["data"]["status"] if isinstance(error, Unknown) else "refused"
            order.update(status=status, said=f"{error.code} {error.msg}")

    def give_back(self, number):
        order = next(order for order in self.orders if order["number"] == number)
        back = self.fields(f"{number}back", amount=str(order["price"]), pay_biz_no=number, product_desc="Given back")
        try:
            self.client.cancel(back)
            order.update(status="given back", said="")
            self.report(order, REFUNDED)
        except Refused as error:
            order["said"] = f"{error.code} {error.msg}"

    def report(self, order, status):
        """Tells the order center, where the player finds the order."""
        self.client.report({
            "out_biz_order_no": order["number"], "out_order_no": order["number"], "open_id": PLAYER,
            "order_create_time": int(time.time() * 1000), "order_status": status,
            "order_path": f"pages/order/detail?id={order['number']}", "product_cover_img_id": COVER})
        order["reported"] = status

    def break_network(self):
        """The till carries out the next two exchanges, and their answers are lost."""
        return sandbox("faults", {"target": "exchange", "fault": "lost", "times": 2})

    def state(self):
        purses = self.client.balance(self.fields(None)).body["data"]
        numbers = [order["number"] for order in self.orders]
        calls = [
            {"at": call["at"][11:19], "endpoint": call["endpoint"], "code": call["code"], "lost": call["fault"],
             "number": call["fields"].get("biz_no") or call["fields"].get("out_biz_order_no", "")}
            for call in sandbox("requests")["requests"]
        ]
        calls = [call for call in calls if call["number"].removesuffix("back") in numbers]
        cover = f"{TILL}/img/{COVER}?w=120"
        return {"items": ITEMS, "purses": purses, "orders": self.orders, "calls": calls[:12], "cover": cover}

    @staticmethod
    def fields(number, **others):
        """The fields of a call; the client adds app_id, ts, access_token and sign."""
        fields = {"open_id": PLAYER, "zone_id": "zone1_role1", "os": "web", "user_ip": "203.0.113.7", **others}
        return {**fields, "biz_no": number} if number else fields


def sandbox(call, body=None):
    """A call of the sandbox, such as a fault to come."""
    url = f"{TILL}/sandbox/v1/{call}?" + urlencode({"app_id": APP_ID, "access_token": TOKEN})
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=10) as answer:
        return json.load(answer)


class Handler(http.server.BaseHTTPRequestHandler):
    shop = Shop()

    def do_GET(self):
        if self.path == "/":
            self.answer(200, "text/html; charset=utf-8", (HERE / "index.html").read_bytes())
        elif self.path == "/state":
            self.answer(200, "application/json", json.dumps(self.shop.state()).encode())
        else:
            self.answer(404, "text/plain", b"no such page")

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))) or b"{}")
        actions = {
            "/buy": lambda: self.shop.buy(asked["item"]),
            "/give-back": lambda: self.shop.give_back(asked["number"]),
            "/break": self.shop.break_network,
        }
        # Only a page of this server sends JSON here: others would have to ask first.
        is_json = self.headers.get("content-type", "") == "application/json"
        if self.path not in actions or not is_json:
            return self.answer(404, "text/plain", b"no such action")
        actions[self.path]()
        return self.answer(200, "application/json", b"{}")

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    port = int(os.environ.get("PORT", "9000"))
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        sys.exit(f"the shop cannot use port {port}: {error.strerror}. Name another one: PORT=9001 python3 examples/shop/shop.py")
    print(f"the shop: http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
