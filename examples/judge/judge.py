"""A judge of pictures for Minitill: a small web server that checks who asks, and answers.

Try it: python3 judge.py 8090 'the key that stands in image_judge.secret'
"""
import hashlib
import hmac
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, SECRET = int(sys.argv[1]), sys.argv[2].encode()
BYTES_MAX = 10_485_760
SECONDS_APART_MAX = 300


def decide(app_id, content_type, picture):
    """Here stands what you know of pictures; this one has nothing against small ones."""
    if len(picture) > 1_000_000:
        return {"verdict": "block", "reason": "larger than a megabyte"}
    return {"verdict": "allow"}


def is_from_minitill(headers, picture):
    """Whoever signed this knows the key, signed this very picture for this app, and did so just now."""
    app_id, ts = headers.get("X-Minitill-App-Id", ""), headers.get("X-Minitill-Ts", "")
    text = f"app_id={app_id}&content_sha256={hashlib.sha256(picture).hexdigest()}&ts={ts}"
    sign = hmac.new(SECRET, text.encode(), hashlib.sha256).hexdigest()
    is_signed = hmac.compare_digest(sign.encode(), headers.get("X-Minitill-Sign", "").encode())
    return is_signed and abs(time.time() - int(ts) / 1000) < SECONDS_APART_MAX


class Judge(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        picture = self.rfile.read(min(length, BYTES_MAX))
        if not is_from_minitill(self.headers, picture):
            self.send_error(403)
            return
        answer = json.dumps(decide(self.headers["X-Minitill-App-Id"], self.headers["Content-Type"], picture))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer.encode())


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", PORT), Judge).serve_forever()
