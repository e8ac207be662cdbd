import hashlib, hmac
from urllib.parse import urlencode

SIGNED = {"open_id", "app_id", "zone_id", "os", "ts", "user_ip", "amount", "pay_priority", "biz_no",
          "product_name", "product_info", "product_desc", "extension"}

def signed_body(pay_key, fields):
    """The form body of an exchange: `fields` as they are, with `sign`."""
    present = sorted((name, value) for name, value in fields.items() if name in SIGNED and value != "")
    string = "&".join(f"{name}={value}" for name, value in present)
    sign = hmac.new(pay_key.encode(), string.encode(), hashlib.sha256).hexdigest()
    return urlencode({**fields, "sign": sign})
