"""An OpenID Connect provider on loopback, for browsers: whoever presses its button is signed in as its one user."""

import base64
import hashlib
import html
import http.server
import json
import secrets
import threading
import time
import urllib.parse

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

CLIENT_ID, CLIENT_SECRET = "till", secrets.token_hex(16)


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Provider:
    """`with Provider("carol", ["till-admins"]) as provider:`. Its host is `localhost`, another site than 127.0.0.1."""

    def __init__(self, user, groups):
        self.user, self.groups = user, groups
        self.key = rsa.generate_private_key(65537, 2048)
        self.codes = {}
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.issuer = f"http://localhost:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def settings(self, console):
        """The settings of a till whose console has this address."""
        return {
            "MINITILL_OIDC__ISSUER": self.issuer, "MINITILL_OIDC__CLIENT_ID": CLIENT_ID,
            "MINITILL_OIDC__CLIENT_SECRET": CLIENT_SECRET, "MINITILL_OIDC__ADMIN_GROUP": "till-admins",
            "MINITILL_OIDC__REDIRECT_URL": f"{console}/console/sign-in/callback",
        }

    def described(self):
        return {
            "issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token", "jwks_uri": f"{self.issuer}/keys",
            "response_types_supported": ["code"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"], "scopes_supported": ["openid", "profile"],
        }

    def keys(self):
        numbers = self.key.public_key().public_numbers()
        number = lambda value: encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))
        return {"keys": [{"kty": "RSA", "use": "sig", "kid": "1", "n": number(numbers.n), "e": number(numbers.e)}]}

    def token(self, nonce):
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": CLIENT_ID, "sub": "1", "iat": now, "exp": now + 60, "auth_time": now,
            "nonce": nonce, "preferred_username": self.user, "groups": self.groups,
        }
        parts = [encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "1"}, claims)]
        signature = self.key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
        return ".".join([*parts, encoded(signature)])

    def exchanged(self, fields):
        """The token of a code, once, for the one who began."""
        challenge, nonce = self.codes.pop(fields.get("code"), ("", ""))
        if challenge != encoded(hashlib.sha256(fields.get("code_verifier", "").encode()).digest()):
            return None
        return {"access_token": "a", "token_type": "Bearer", "id_token": self.token(nonce)}

    def handler(provider):
        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self, status, body, kind="application/json", **headers):
                body = body.encode()
                self.send_response(status)
                for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                path, _, query = self.path.partition("?")
                known = {"/.well-known/openid-configuration": provider.described, "/keys": provider.keys}
                if path in known:
                    self.answer(200, json.dumps(known[path]()))
                elif path == "/authorize":
                    form = f'<form method="post" action="/authorize?{html.escape(query)}">'
                    page = f"<!doctype html><title>Provider</title>{form}<button>Continue as {provider.user}</button></form>"
                    self.answer(200, page, "text/html")
                else:
                    self.answer(404, "")

            def do_POST(self):
                path, _, query = self.path.partition("?")
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                if path == "/authorize":
                    asked, code = dict(urllib.parse.parse_qsl(query)), secrets.token_hex(16)
                    provider.codes[code] = (asked["code_challenge"], asked["nonce"])
                    back = urllib.parse.urlencode({"code": code, "state": asked["state"]})
                    self.answer(303, "", location=f"{asked['redirect_uri']}?{back}")
                elif token := provider.exchanged(dict(urllib.parse.parse_qsl(body))):
                    self.answer(200, json.dumps(token))
                else:
                    self.answer(400, json.dumps({"error": "invalid_grant"}))

            def log_message(self, *_):
                pass

        return Handler
