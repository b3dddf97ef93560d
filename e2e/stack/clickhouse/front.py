"""An HTTP front for the ClickHouse engine: the interface of ClickHouse's port 8123, for tests.

    python3 front.py --config FILE

The engine comes from the chdb-core package and runs in this process. The configuration is one JSON
file (see `load`); it alone holds secrets, as hashes. The port opens when the engine serves; SIGTERM
ends in good order. What is not there: sessions over several requests, external tables, answers
streamed while the query runs; replicated tables only with `zookeeper` (see replicated.py), TLS only
on a second port with `tls`.
Queries that name files or other hosts are refused, but this is no fence against a hostile user: it
is for tests.
"""

import argparse
import contextlib
import fcntl
import json
import os
import signal
import socket
import ssl
import sys
import threading
import time
from http.server import ThreadingHTTPServer
from xml.sax.saxutils import escape

import access
import engine as engines
import faults
import replicated
from handler import Handler

# Requests that run when the end is asked for get this long.
_DRAIN_SECONDS = 10
# Kept free on the disk for merges and inserts under way.
_KEPT_FREE_BYTES = 64 << 20
# The native protocol's port in the engine's settings. It isn't opened.
_SHARD_PORT = 9000
# A session survives an election of a few seconds, and a lost quorum is noticed within a test.
# ZooKeeper bounds it by 20 of its ticks.
_SESSION_MILLISECONDS = 6_000
_OPERATION_MILLISECONDS = 3_000
# How soon a part is in system.part_log.
_PART_LOG_MILLISECONDS = 500
# How soon the listener notices that it is to end.
_POLL_SECONDS = 0.05


def load(path):
    """Reads the configuration; a field that is missing or unknown is an error."""
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    fields = {
        "host", "port", "data_dir", "users", "default_settings", "max_server_memory_bytes",
        "max_queries", "limits", "test_faults", "zookeeper", "tls",
    }
    if set(config) != fields:
        raise ValueError(f"{path}: missing or unknown field: {sorted(set(config) ^ fields)}")
    limits = {"body_bytes", "plain_bytes", "connections", "socket_timeout_seconds"}
    if set(config["limits"]) != limits:
        raise ValueError(f"{path}: limits: {sorted(set(config['limits']) ^ limits)}")
    return config


def write_engine_settings(config, path):
    """The engine's own settings file: memory, and caches and pools sized for a small machine."""
    settings = {
        "max_server_memory_usage": config["max_server_memory_bytes"],
        "display_name": "millrace-stack",
        "mark_cache_size": 64 << 20,
        "uncompressed_cache_size": 0,
        "background_pool_size": 2,
        "background_merges_mutations_concurrency_ratio": 2,
        "background_schedule_pool_size": 8,
        "background_fetches_pool_size": 1,
        "background_move_pool_size": 1,
        "background_common_pool_size": 2,
        # Nothing listens there: the port makes the only shard of the cluster below this engine.
        "tcp_port": _SHARD_PORT,
    }
    lines = [f"  <{name}>{escape(str(value))}</{name}>" for name, value in settings.items()]
    # As a server should have it: it refuses work for want of room while what it does still has some.
    lines.append(
        "  <storage_configuration><disks><default><keep_free_space_bytes>"
        f"{_KEPT_FREE_BYTES}</keep_free_space_bytes></default></disks></storage_configuration>"
    )
    lines.append(
        "  <remote_servers><one_shard><shard><replica><host>127.0.0.1</host>"
        f"<port>{_SHARD_PORT}</port></replica></shard></one_shard></remote_servers>"
    )
    if config["zookeeper"]:
        lines += coordination_settings(config["zookeeper"])
    with open(path, "w", encoding="utf-8") as file:
        file.write("<clickhouse>\n" + "\n".join(lines) + "\n</clickhouse>\n")


def coordination_settings(servers):
    """What replicated tables need: the ensemble, macros, and the record of parts."""
    nodes = ""
    for server in servers:
        host, _, port = server.rpartition(":")
        nodes += f"<node><host>{escape(host.strip('[]'))}</host><port>{escape(port)}</port></node>"
    return [
        f"  <zookeeper>{nodes}"
        f"<session_timeout_ms>{_SESSION_MILLISECONDS}</session_timeout_ms>"
        f"<operation_timeout_ms>{_OPERATION_MILLISECONDS}</operation_timeout_ms></zookeeper>",
        "  <macros><shard>shard-1</shard><replica>replica-1</replica></macros>",
        "  <part_log><database>system</database><table>part_log</table>"
        f"<flush_interval_milliseconds>{_PART_LOG_MILLISECONDS}</flush_interval_milliseconds>"
        "</part_log>",
    ]


class Front(ThreadingHTTPServer):
    """The listener: a thread per connection, as many as the limit says."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, config, engine):
        self.address_family = socket.AF_INET6 if ":" in config["host"] else socket.AF_INET
        self.engine = engine
        self.users = access.Users(config["users"])
        self.limits = config["limits"]
        self.default_settings = config["default_settings"]
        self.faults = faults.Faults() if config["test_faults"] else None
        self.thread = threading.Thread(
            target=self.serve_forever, args=(_POLL_SECONDS,), daemon=True
        )
        self._connections = threading.BoundedSemaphore(self.limits["connections"])
        self._state = threading.Condition()
        self._at_work = 0
        self._ending = False
        super().__init__((config["host"], config["port"]), Handler)

    def server_bind(self):
        """Binds without the base class's look-up of the host's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.server_address[:2]

    def process_request(self, request, client_address):
        """Starts a connection's thread, or turns it away when there are too many."""
        if self._connections.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            with contextlib.suppress(OSError):
                request.sendall(
                    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
                    b"X-ClickHouse-Exception-Code: 762\r\nContent-Length: 0\r\n\r\n"
                )
            self.shutdown_request(request)

    def process_request_thread(self, request, client_address):
        """Serves a connection and frees its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    @contextlib.contextmanager
    def at_work(self):
        """Marks a request as running; gives whether the connection may stay open after it."""
        with self._state:
            self._at_work += 1
            open_for_more = not self._ending
        try:
            yield open_for_more
        finally:
            with self._state:
                self._at_work -= 1
                self._state.notify_all()

    def drain(self, seconds):
        """Waits until no request runs any more, at most `seconds`."""
        deadline = time.monotonic() + seconds
        with self._state:
            self._ending = True
            while self._at_work and time.monotonic() < deadline:
                self._state.wait(deadline - time.monotonic())


class TlsFront(Front):
    """The same over TLS, without faults. Each connection's thread waits for its handshake."""

    def __init__(self, config, engine):
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(config["tls"]["key_store"])
        super().__init__({**config, "port": config["tls"]["port"], "test_faults": False}, engine)

    def get_request(self):
        """Takes a connection, whose handshake is still to come."""
        request, address = super().get_request()
        request = self._context.wrap_socket(
            request, server_side=True, do_handshake_on_connect=False
        )
        return request, address

    def finish_request(self, request, client_address):
        """Serves a connection; one whose handshake fails is closed, as by any server."""
        request.settimeout(self.limits["socket_timeout_seconds"])
        try:
            request.do_handshake()
        except OSError:
            return
        super().finish_request(request, client_address)


def main():
    """Runs until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description="ClickHouse's HTTP interface over chdb-core.")
    parser.add_argument("--config", required=True, help="the JSON configuration file")
    config = load(parser.parse_args().config)
    os.makedirs(config["data_dir"], exist_ok=True)
    lock = open(os.path.join(config["data_dir"], "..", "front.lock"), "w", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(f"{config['data_dir']} is in use by another engine")
    settings_file = os.path.join(config["data_dir"], "..", "engine.xml")
    write_engine_settings(config, settings_file)
    if config["zookeeper"]:
        replicated.enable(engines.LIBRARY)
    engine = engines.Engine(config["data_dir"], settings_file, config["max_queries"])
    fronts = [Front(config, engine)]
    if config["tls"]:
        fronts.append(TlsFront(config, engine))

    ends = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ends.set())
    for front in fronts:
        front.thread.start()
    print(f"ClickHouse {engine.version} serves on {config['host']}:{config['port']}", flush=True)
    ends.wait()
    for front in fronts:
        front.shutdown()
        front.server_close()
    for front in fronts:
        front.drain(_DRAIN_SECONDS)
    engine.close()
    # Idle connections' threads still sit in reads: there is nothing left to wait for.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
