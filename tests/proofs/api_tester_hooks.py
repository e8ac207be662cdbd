"""What `api_tester` adds to the requests that Schemathesis makes up: most get credentials that are
right, and most exchanges a signature, so that they get behind the checks. What is done to a case
depends on the case alone: the same case is always sent the same way."""

import hashlib
import hmac
import json
import os
import random
import time

import schemathesis

APPS = json.loads(os.environ["TILL_APPS"])
CASES = os.environ["TILL_CASES"]
SIGNED = json.loads(os.environ["TILL_SIGNED"])


def text(value):
    return value if isinstance(value, str) else json.dumps(value)


def sign(fields, key):
    present = {name: text(fields[name]) for name in SIGNED if fields.get(name) not in (None, "")}
    string = "&".join(f"{name}={value}" for name, value in sorted(present.items()))
    return hmac.new(key.encode(), string.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def complete_exchange(fields, chance, app):
    """An exchange of a real app: valid but for what the case is about, and signed."""
    usual = {
        "open_id": "player-1",
        "zone_id": "zone1_role1",
        "os": "android",
        "ts": str(int(time.time() * 1000)),
        "user_ip": "203.0.113.7",
        "amount": chance.choice([1, 7, 1000]),
        "biz_no": f"n{chance.randrange(500)}",
        "product_name": "Sword",
        "product_info": '[{"product_id":1,"product_num":1,"product_type":0}]',
        "product_desc": "remark",
    }
    # From all fields as they were made up to none of them.
    share = chance.choice([0, 0.5, 0.9, 1])
    for name, value in usual.items():
        if chance.random() < share:
            fields[name] = value
    fields |= {"app_id": app["app_id"], "access_token": app["access_token"]}
    if chance.random() < 0.9:
        fields["sign"] = sign(fields, app["pay_key"])


@schemathesis.hook
def before_call(context, case, kwargs):
    chance = random.Random(repr((case.operation.label, case.path_parameters, case.query, case.body)))
    if chance.random() < 0.25:
        return
    app = chance.choices(APPS, weights=[6, 3, 3, 1])[0]
    path = case.operation.path
    body = case.body if isinstance(case.body, dict) else None
    if path.endswith("/minigame/pay"):
        if body is not None and all(isinstance(value, (str, int)) for value in body.values()):
            complete_exchange(body, chance, app)
    elif path == "/oauth2/access_token":
        for fields in [body, case.query]:
            if fields and chance.random() < 0.8:
                fields |= {name: app[name] for name in ["app_id", "app_secret"]}
    elif path.endswith("code2session"):
        for fields in [body, case.query]:
            if fields and chance.random() < 0.8:
                fields |= {name: app[name] for name in ["app_id", "app_secret"]}
                fields["js_code"] = chance.choice(["sandbox-alice", "sandbox-bob", fields.get("js_code", "")])
    elif path.startswith("/openapi/"):
        case.query |= {name: app[name] for name in ["app_id", "access_token"]}
        if path.endswith("/report") and body is not None and chance.random() < 0.7:
            body |= {"open_id": "player-1", "order_create_time": 1700000000000, "order_path": "pages/order/detail"}


@schemathesis.hook
def after_call(context, case, response):
    # A byte for each case: the shortest record that several threads can add to at once.
    with open(CASES, "ab") as counted:
        counted.write(b".")
