"""Signs a call of the wallet for Minitill and prints the form body to send.

Try it: python3 sign.py PAY_KEY 'open_id=player-1&app_id=mygame&product_name=Double-up+card'
"""
import hashlib
import hmac
import sys
from urllib.parse import parse_qsl, urlencode

NOT_SIGNED = ("access_token", "sign")


def signed_body(fields, pay_key):
    """Signs the values as they are, sorted by name, without empty ones; only the body is encoded."""
    signed = sorted(name for name, value in fields.items() if value != "" and name not in NOT_SIGNED)
    text = "&".join(f"{name}={fields[name]}" for name in signed)
    sign = hmac.new(pay_key.encode(), text.encode(), hashlib.sha256).hexdigest()
    return urlencode({**fields, "sign": sign})


if __name__ == "__main__":
    key, form = sys.argv[1:]
    print(signed_body(dict(parse_qsl(form, keep_blank_values=True)), key))
