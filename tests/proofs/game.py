"""Instances of Minitill on a database, and games whose callers repeat a number until they know what became of it."""

import collections
import contextlib
import hashlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

from till import exchange_form, free_port, signed, wait_until

MASTER_KEY = "11111111111111111111111111111111111111111111111111111111111111ff"
CALLERS, PLAYERS, COINS = 16, 50, 1_000_000_000


def clean_environment():
    """Of this process, without what would lead a program to another database or proxy."""
    foreign = ("MINITILL_", "PATRONI_", "ETCD_", "PG", "DATABASE_URL")
    return {name: value for name, value in os.environ.items()
            if not name.startswith(foreign) and "proxy" not in name.lower()}


class Server:
    """An instance of Minitill on the database of this URL. It ends with the stack `ends`."""

    def __init__(self, ends, folder, name, program, url, environment=None):
        self.program, self.name, self.log = program, name, folder / f"{name}.log"
        self.public, self.operator = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.environment = (environment or clean_environment()) | {
            "DATABASE_URL": url, "MINITILL_SECRETS__MASTER_KEY": MASTER_KEY,
            "MINITILL_DATABASE__DATA_DIR": "/nonexistent", "MINITILL_PUBLIC__LISTEN": self.public,
            "MINITILL_OPS__LISTEN": self.operator, "MINITILL_DATABASE__CONNECTIONS": "4",
        }
        ends.callback(self.end)
        self.start()

    def start(self):
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([self.program, "serve"], env=self.environment, cwd="/", stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, start_new_session=True)
        wait_until(self.is_ready, f"{self.name} is ready")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.kill()

    def is_ready(self):
        if self.process.poll() is not None:
            sys.exit(f"failed: an instance ended: {self.log.read_text()[-1000:]}")
        with contextlib.suppress(OSError, http.client.HTTPException):
            return urllib.request.urlopen(f"http://{self.operator}/readyz", timeout=2).status == 200
        return False

    def run(self, *arguments):
        done = subprocess.run([self.program, *arguments, "--json"], env=self.environment, capture_output=True, text=True, cwd="/",
                              timeout=300)
        if done.returncode:
            sys.exit(f"failed: minitill {' '.join(arguments)}: {done.stderr}{done.stdout}")
        return json.loads(done.stdout)


class Games:
    """Apps with players and money, what was asked for, and what was told.

    The callers of an app mix the kinds: of five numbers three are exchanges, one is a present, and one gives the
    exchange before it back."""

    def __init__(self, server, names, players=PLAYERS):
        self.names, self.keys, self.secrets, self.tokens = names, {}, {}, {}
        for name in names:
            scopes = [word for scope in ("epay", "present", "cancel") for word in ("--scope", scope)]
            made = server.run("app", "create", name, *scopes)
            self.keys[name], self.secrets[name] = made["pay_key"], made["app_secret"]
            self.tokens[name] = server.run("token", "issue", name)["access_token"]
            with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
                file.write("open_id,free,charge,ref\n")
                file.writelines(f"p{player},0,{COINS},start{player}\n" for player in range(players))
                file.flush()
                server.run("wallet", "import", name, file.name, "--create")
        # (app, number): the kind, the answer and its moment.
        self.asked, self.told = set(), {}
        self.answers, self.latest, self.lock = collections.Counter(), collections.Counter(), threading.Lock()

    def form(self, app, kind, number, player):
        """The fields of a request, without a signature."""
        fields = exchange_form(app, self.tokens[app], player, number)
        if kind != "pay":
            del fields["product_name"], fields["product_info"]
        if kind == "cancel":
            fields["pay_biz_no"] = self.before(number)
        return fields

    def ask(self, address, app, kind, number):
        """Asks once; gives the answer's body, or why there is none."""
        # The players of a caller are its own, so a cancel names the player of the exchange before it.
        caller = number.split("n")[0]
        player = f"p{int(hashlib.sha256(caller.encode()).hexdigest(), 16) % PLAYERS}"
        fields = signed(self.form(app, kind, number, player), self.keys[app])
        connection = http.client.HTTPConnection(address, timeout=10)
        try:
            connection.request("POST", f"/api/kpay/minigame/{kind}", urllib.parse.urlencode(fields),
                               {"Content-Type": "application/x-www-form-urlencoded"})
            response = connection.getresponse()
            body = response.read().decode()
            return body if response.status == 200 and '"code":1,' in body else f"{response.status} {body[:120]}"
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__
        finally:
            connection.close()

    @staticmethod
    def before(number):
        caller, count = number.rsplit("n", 1)
        return f"{caller}n{int(count) - 1}"

    @contextlib.contextmanager
    def load(self, name, servers, callers=CALLERS):
        """So many callers. At the end each of them finds out about its last number, two minutes at most."""
        ends, gives_up = threading.Event(), threading.Event()

        def call(caller):
            turn, app = caller, self.names[caller % len(self.names)]
            for count in range(1 << 30):
                if ends.is_set():
                    return
                number, kind = f"{name}c{caller}n{count}", ("pay", "pay", "present", "pay", "cancel")[count % 5]
                with self.lock:
                    self.asked.add((app, number))
                while not gives_up.is_set():
                    turn += 1
                    answer = self.ask(servers[turn % len(servers)].public, app, kind, number)
                    if answer.startswith("{"):
                        with self.lock:
                            self.latest[app] = time.monotonic()
                            self.told[app, number] = (kind, answer, self.latest[app])
                        break
                    with self.lock:
                        self.answers[answer] += 1
                    time.sleep(0.05)

        threads = [threading.Thread(target=call, args=(caller,), daemon=True) for caller in range(callers)]
        for thread in threads:
            thread.start()
        try:
            yield
        except BaseException:
            gives_up.set()
            raise
        finally:
            ends.set()
            until = time.monotonic() + 120
            for thread in threads:
                thread.join(max(0, until - time.monotonic()))
            gives_up.set()

    def silence(self, since, until, apps=None):
        """The longest time without an answer to one of these apps, in this span."""
        moments = [at for (app, _), (_, _, at) in self.told.items() if since <= at <= until and app in (apps or self.names)]
        moments = sorted([since, *moments, until])
        return max(later - earlier for earlier, later in zip(moments, moments[1:]))

    def check(self, sql, server):
        """All that was acknowledged is in the books, once, as it was told; and the books are right. `sql` gives the rows of a
        statement."""
        rows = sql("SELECT app_id, reference, free_balance, charge_balance FROM ledger WHERE NOT by_operator")
        kept = {(app, number): (free, charge) for app, number, free, charge in rows}
        told = {key: json.loads(answer)["data"] for key, (_, answer, _) in self.told.items()}
        lost = [key for key, data in told.items()
                if kept.get(key) != (int(data["freeBalance"]), int(data["chargeBalance"]))]
        unresolved = [key for key in self.asked if key not in told]
        # A present and a cancel give one coin, an exchange takes one.
        given = sum(-1 if kind == "pay" else 1 for kind, _, _ in self.told.values())
        [(left,)] = sql("SELECT sum(free_balance + charge_balance) FROM wallets")
        wrong = int(left) - len(self.names) * PLAYERS * COINS - given
        if lost or wrong or unresolved or set(kept) != set(told) or len(rows) != len(kept):
            sys.exit(f"failed: {len(told)} acknowledged, {len(rows)} in the books; {len(lost)} lost {lost[:5]}, {wrong} coins too "
                     f"many, {len(unresolved)} unresolved {unresolved[:5]}")
        audit_counts(server, len(kept))


def audit_counts(server, calls):
    """The audit is clean, and the books have so many calls of games."""
    audit = server.run("audit")
    entries = sum(sums["entries"] for kind, sums in audit["all"]["changes"].items() if kind not in ("credit", "debit"))
    if not audit["clean"] or entries != calls:
        sys.exit(f"failed: the audit is not clean, or has not {calls} entries of games: {audit}")
