"""What the proofs of the console share: the browser, the sign-in by keyboard, and an exchange as a game server sends it."""

import json
import pathlib
import time
import urllib.request

from till import skip

PACKAGES = ["playwright==1.65.2", "axe-playwright-python==0.1.8", "cryptography==50.0.2"]
CHROMIUMS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
CHROMIUM_OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]
PASSWORD = "correct horse battery"
# HTML in whatever players and developers write: it must show as text.
MARKUP = "<img src=x onerror=alert(1)>"
ITEMS = '[{"product_id":1,"product_num":1,"product_type":0}]'
PLAYER = "player-1"


def chromium():
    """The program of the browser."""
    found = next((path for path in CHROMIUMS if pathlib.Path(path).exists()), None)
    return found or skip("no Chromium on this machine (Debian: apt-get install chromium)")


def post(address, path, body, content_type, succeeds=True):
    """Sends a body and gives the answer, which must be a success unless it may be a refusal (`succeeds` is None)."""
    request = urllib.request.Request(f"http://{address}{path}", body, {"content-type": content_type})
    answer = json.load(urllib.request.urlopen(request, timeout=30))
    assert not succeeds or 1 in (answer.get("result"), answer.get("code")), answer
    return answer


def exchange(till, pay_key, token, biz_no, amount, **changed):
    """As a game server does it, with these fields changed. Gives the answer, which may be a refusal."""
    fields = {
        "app_id": "game", "open_id": PLAYER, "access_token": token, "biz_no": biz_no, "zone_id": "1_2", "os": "android",
        "ts": str(int(time.time() * 1000)), "user_ip": "203.0.113.9", "amount": str(amount), "product_name": MARKUP,
        "product_info": ITEMS, "product_desc": MARKUP,
    } | changed
    signed = till.run("sign", "--key", pay_key, *(f"{name}={value}" for name, value in fields.items()))
    form = "application/x-www-form-urlencoded"
    return post(till.public, "/api/kpay/minigame/pay", signed["body"].encode(), form, succeeds=None)


def sign_in(page, base, name):
    """With the keyboard alone."""
    page.goto(f"{base}/console")
    for text in [name, PASSWORD]:
        while page.evaluate("document.activeElement.tagName") != "INPUT" or page.evaluate("document.activeElement.value"):
            page.keyboard.press("Tab")
        page.keyboard.type(text)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{base}/console")
