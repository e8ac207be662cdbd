"""Signs an exchange for Minitill and prints the form body to send.

Try it: python3 sign.py PAY_KEY 'open_id=player-1&app_id=mygame&product_name=Double-up+card'
"""
import hashlib
import hmac
import sys
from urllib.parse import parse_qsl, urlencode

# The signed fields, in ASCII order of their names. access_token is not among them.
SIGNED = ("amount app_id biz_no extension open_id os pay_priority product_desc "
          "product_info product_name ts user_ip zone_id").split()


def signed_body(fields, pay_key):
    """Signs the values as they are, leaving out empty ones; only the body is encoded."""
    text = "&".join(f"{name}={fields[name]}" for name in SIGNED if fields.get(name, "") != "")
    sign = hmac.new(pay_key.encode(), text.encode(), hashlib.sha256).hexdigest()
    return urlencode({**fields, "sign": sign})


if __name__ == "__main__":
    key, form = sys.argv[1:]
    print(signed_body(dict(parse_qsl(form, keep_blank_values=True)), key))
