"""The real program with its private PostgreSQL on free loopback ports, for proofs written in Python."""

import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
SKIPPED = 77


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def is_short():
    return os.environ.get("MINITILL_PROOFS") == "short"


class Till:
    """A server that ends with the block: `with Till(program, folder) as till:`."""

    def __init__(self, program, folder, **settings):
        program = program.resolve()
        if not program.exists():
            sys.exit(f"{program} is not there: run `cargo build` first, or name the program")
        folder.chmod(0o755)
        self.program, self.data, self.log = program, folder / "data", folder / "log"
        self.public, self.operator = (f"127.0.0.1:{free_port()}" for _ in range(2))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MINITILL_")}
        kept.pop("DATABASE_URL", None)
        self.environment = kept | {
            "MINITILL_DATABASE__DATA_DIR": str(self.data),
            "MINITILL_PUBLIC__LISTEN": self.public,
            "MINITILL_OPS__LISTEN": self.operator,
            "MINITILL_SECRETS__MASTER_KEY": secrets.token_hex(32),
        } | {f"MINITILL_{name}": value for name, value in settings.items()}

    def __enter__(self):
        with self.log.open("w") as log:
            self.server = subprocess.Popen([self.program, "serve"], env=self.environment, stderr=log)
        until = time.monotonic() + 60
        while time.monotonic() < until and self.server.poll() is None:
            try:
                urllib.request.urlopen(f"http://{self.operator}/readyz", timeout=2).close()
                return self
            except OSError:
                time.sleep(0.1)
        self.__exit__(RuntimeError)
        sys.exit("the server did not become ready")

    def __exit__(self, error, *_):
        if error is not None:
            print(self.log.read_text()[-4000:], file=sys.stderr)
        if self.server.poll() is None:
            self.server.send_signal(signal.SIGTERM)
            self.server.wait(30)

    def run(self, *words, stdin=None):
        """A command, to its end; the JSON object that it prints."""
        command = [self.program, *words, "--json"]
        done = subprocess.run(command, env=self.environment, capture_output=True, input=stdin, text=True, timeout=600)
        if done.returncode != 0:
            sys.exit(f"minitill {' '.join(words)}: {done.stderr}{done.stdout}")
        return json.loads(done.stdout)

    def sql(self, statements):
        """Plain SQL on the private PostgreSQL."""
        named = self.data / "socket"
        folder = named.read_text().strip() if named.exists() else self.data / "run"
        psql = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/psql"))
        command = [psql[-1] if psql else "psql", "-h", folder, "-U", "minitill", "-qAt", "-v", "ON_ERROR_STOP=1", "postgres"]
        done = subprocess.run(command, input=statements, capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            sys.exit(f"psql: {done.stderr}")
        return done.stdout.strip()
