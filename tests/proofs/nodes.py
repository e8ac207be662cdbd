"""PostgreSQLs of a proof: one, or a coordinator and workers with Citus. Everything runs on loopback."""

import contextlib
import os
import pwd
import signal
import subprocess
import sys

from till import free_port, skip, wait_until

IS_ROOT = os.geteuid() == 0
# PostgreSQL does not run as root.
AS_USER = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if IS_ROOT else []


def needs_a_user():
    """Skips the proof when nobody here may run PostgreSQL."""
    if IS_ROOT and not any(user.pw_name == "postgres" for user in pwd.getpwall()):
        skip("needs a user postgres, because PostgreSQL does not run as root")


class Node:
    """A PostgreSQL of the cluster."""

    def __init__(self, cluster, name):
        self.cluster, self.name, self.port = cluster, name, free_port()
        self.data = cluster.folder / name
        self.data.mkdir()
        if IS_ROOT:
            user = pwd.getpwnam("postgres")
            os.chown(self.data, user.pw_uid, user.pw_gid)
        subprocess.run([*AS_USER, cluster.bin / "initdb", "-D", self.data, "-U", "minitill", "--auth=trust", "-E", "UTF8",
                        "--locale=C", "--no-sync"], check=True, stdout=subprocess.DEVNULL, cwd="/")
        self.options = {
            "port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": 200,
            "shared_buffers": "64MB", "wal_level": "logical", "max_prepared_transactions": 400,
        } | cluster.settings
        if cluster.is_distributed:
            # The default of a minute keeps the rows of a transaction locked for that long after a crash.
            self.options |= {"shared_preload_libraries": "citus", "citus.node_conninfo": "sslmode=disable",
                             "citus.recover_2pc_interval": "2s"}
            # A PostgreSQL that asks who may decode its log must let Citus, which moves rows that way.
            if cluster.has_setting("output_plugin_libraries", self.data):
                self.options["output_plugin_libraries"] = "pgoutput,citus"
        self.start()

    def start(self):
        options = [word for name, value in self.options.items() for word in ("-c", f"{name}={value}")]
        with open(self.cluster.folder / f"{self.name}.log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([*AS_USER, self.cluster.bin / "postgres", "-D", self.data, *options], stdout=log,
                                            stderr=log, stdin=subprocess.DEVNULL, cwd="/", start_new_session=True)
        wait_until(self.answers, f"{self.name} answers")

    def answers(self):
        import psycopg

        with contextlib.suppress(psycopg.OperationalError):
            return self.sql("SELECT 1", "postgres") == [(1,)]
        if self.process.poll() is not None:
            sys.exit(f"failed: {self.name} ended")
        return False

    def session(self, database="minitill"):
        import psycopg

        return psycopg.connect(host="127.0.0.1", port=self.port, user="minitill", dbname=database, autocommit=True,
                               connect_timeout=5)

    def sql(self, statement, database="minitill"):
        with self.session(database) as session:
            cursor = session.execute(statement)
            return cursor.fetchall() if cursor.description else None

    def kill(self):
        # All of its processes: in a session of its own each is its child.
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], stdout=subprocess.PIPE, text=True).stdout
        for process in [self.process.pid, *map(int, listed.split())]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()


class Cluster:
    """The nodes together, with these settings: one PostgreSQL, or a coordinator and so many workers."""

    def __init__(self, folder, ends, programs, workers, settings=None):
        self.folder, self.bin, self.is_distributed, self.settings = folder, programs, workers > 0, settings or {}
        self.coordinator, self.workers = self.add(ends, "coordinator"), []
        if self.is_distributed:
            self.workers = [self.add(ends, f"worker{n + 1}") for n in range(workers)]
            self.coordinator.sql(f"SELECT citus_set_coordinator_host('127.0.0.1', {self.coordinator.port})")
            for worker in self.workers:
                self.coordinator.sql(f"SELECT citus_add_node('127.0.0.1', {worker.port})")

    def add(self, ends, name):
        node = Node(self, name)
        ends.callback(node.kill)
        node.sql("CREATE DATABASE minitill", "postgres")
        if self.is_distributed:
            node.sql("CREATE EXTENSION citus")
        return node

    def has_setting(self, name, data):
        asked = subprocess.run([*AS_USER, self.bin / "postgres", "-D", data, "-C", name], capture_output=True, cwd="/")
        return asked.returncode == 0

    def url(self):
        return f"postgres://minitill@127.0.0.1:{self.coordinator.port}/minitill?sslmode=disable"

    def shards(self):
        """Of each app: its shard of the wallets, and the worker that has it."""
        rows = self.coordinator.sql(
            "SELECT a.app_id, p.shardid, n.nodeport FROM apps a JOIN pg_dist_placement p"
            " ON p.shardid = get_shard_id_for_distribution_column('wallets', a.app_no) JOIN pg_dist_node n USING (groupid)")
        workers = {worker.port: worker for worker in self.workers}
        return {app: (shard, workers[port]) for app, shard, port in rows}

    def move(self, shard, source, target=None):
        target = target or next(worker for worker in self.workers if worker is not source)
        self.coordinator.sql(f"SELECT citus_move_shard_placement({shard}, '127.0.0.1', {source.port}, '127.0.0.1', {target.port})")

    def has_no_open_transactions(self):
        return all(node.sql("SELECT count(*) FROM pg_prepared_xacts") == [(0,)] for node in [self.coordinator, *self.workers])
