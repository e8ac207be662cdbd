"""What the proofs written in Python share: the real program with its private PostgreSQL on free loopback
ports, and packages of Python in environments of their own."""

import hashlib
import hmac
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()


def is_short():
    return os.environ.get("MINITILL_PROOFS") == "short"


def skip(why):
    """Ends the proof, which cannot run here."""
    print(f"skipped: {why}")
    sys.exit(77)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_until(holds, what, seconds=60):
    """Gives the seconds that it took."""
    started = time.monotonic()
    while not holds():
        if time.monotonic() - started > seconds:
            sys.exit(f"{what} within {seconds} s: no")
        time.sleep(0.02)
    return time.monotonic() - started


def postgres_programs(*needed):
    """The folder of PostgreSQL's programs: PG_BIN, or that of the newest version."""
    folders = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    found = folders[-1] if folders else pathlib.Path(shutil.which("initdb") or "/nowhere/initdb").parent
    found = pathlib.Path(os.environ.get("PG_BIN") or found)
    for program in needed:
        if not (found / program).exists():
            skip(f"needs PostgreSQL's {program}")
    return found


def programs_of(name, *packages):
    """The programs of these packages, which are put into target/NAME with pip if they are not there yet."""
    folder = TARGET / name
    complete, wanted = folder / "complete", " ".join(packages)
    try:
        if not complete.exists() or complete.read_text() != wanted:
            venv.create(folder, with_pip=True)
            pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", *packages]
            subprocess.run(pip, check=True, timeout=600)
            complete.write_text(wanted)
    except (OSError, subprocess.SubprocessError) as error:
        skip(f"{wanted} cannot be installed here ({error})")
    return folder / "bin"


def go_on_with(name, *packages):
    """Begins this proof anew in the environment target/NAME, which has these packages, unless it runs there."""
    if pathlib.Path(sys.prefix).resolve() != (TARGET / name).resolve():
        python = programs_of(name, *packages) / "python"
        os.execv(python, [python, *sys.argv])


def exchange_form(app, token, player, number):
    """The fields of an exchange of one coin, without a signature."""
    return {
        "access_token": token, "open_id": player, "app_id": app, "zone_id": "z_r", "os": "ios",
        "ts": str(int(time.time() * 1000)), "user_ip": "203.0.113.7", "amount": "1", "biz_no": number, "product_name": "a",
        "product_info": '[{"product_id":1,"product_num":1,"product_type":0}]', "product_desc": "b",
    }


def string_to_sign(fields):
    """The text that the signature of a wallet call covers (contract 3.2)."""
    return "&".join(f"{name}={fields[name]}" for name in sorted(fields) if name != "access_token")


def signed(fields, pay_key):
    """The fields of a wallet call with their signature."""
    return fields | {"sign": hmac.new(pay_key.encode(), string_to_sign(fields).encode(), hashlib.sha256).hexdigest()}


class Till:
    """A server that ends with the block: `with Till(program, folder) as till:`."""

    def __init__(self, program, folder, data=None, **settings):
        program = program.resolve()
        if not program.exists():
            sys.exit(f"{program} is not there: run `cargo build` first, or name the program")
        folder.chmod(0o755)
        self.program, self.data, self.log = program, data or folder / "data", folder / "log"
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
        try:
            self.start()
        except SystemExit:
            self.__exit__(SystemExit)
            raise
        return self

    def __exit__(self, error, *_):
        if error is not None:
            print(self.log.read_text()[-4000:], file=sys.stderr)
        if self.server.poll() is None:
            self.server.send_signal(signal.SIGTERM)
            self.server.wait(30)

    def start(self):
        with self.log.open("a") as log:
            self.server = subprocess.Popen([self.program, "serve"], env=self.environment, stderr=log)
        wait_until(self.is_ready, "the server is ready", 120)

    def is_ready(self):
        if self.server.poll() is not None:
            sys.exit("the server ended")
        try:
            urllib.request.urlopen(f"http://{self.operator}/readyz", timeout=2).close()
            return True
        except OSError:
            return False

    def kill(self):
        self.server.kill()
        self.server.wait()

    def run(self, *words, stdin=None):
        """A command, to its end; the JSON object that it prints."""
        command = [self.program, *words, "--json"]
        done = subprocess.run(command, env=self.environment, capture_output=True, input=stdin, text=True, timeout=600)
        if done.returncode != 0:
            sys.exit(f"minitill {' '.join(words)}: {done.stderr}{done.stdout}")
        return json.loads(done.stdout)

    def measured(self, *words):
        """A command, to its end: the last line that it prints, its seconds and the peak of its memory in MB."""
        started = time.monotonic()
        running = subprocess.Popen([self.program, *words], env=self.environment, stdout=subprocess.PIPE)
        last = subprocess.run(["tail", "-n", "1"], stdin=running.stdout, capture_output=True, text=True, check=True).stdout
        _, status, used = os.wait4(running.pid, 0)
        if status != 0:
            sys.exit(f"minitill {' '.join(map(str, words))} ended with {status} and {last!r}")
        return last, time.monotonic() - started, used.ru_maxrss / 1024

    def psql(self):
        """The command that speaks to the private PostgreSQL."""
        named = self.data / "socket"
        folder = named.read_text().strip() if named.exists() else self.data / "run"
        return [postgres_programs("psql") / "psql", "-h", folder, "-U", "minitill", "-qAt", "-v", "ON_ERROR_STOP=1", "postgres"]

    def sql(self, statements):
        """Plain SQL on the private PostgreSQL."""
        done = subprocess.run(self.psql(), input=statements, capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            sys.exit(f"psql: {done.stderr}")
        return done.stdout.strip()
