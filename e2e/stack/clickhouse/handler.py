"""One HTTP connection of ClickHouse's interface: reads requests, has them done, answers.

The answer is complete before its first byte goes out (as with `wait_end_of_query=1`), so an error
always comes with its status and code, never in the middle of rows.
"""

import itertools
import json
import socket
import sys
import time
import traceback
import uuid
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qsl, urlsplit

import body as bodies
import codec
import errors
import sql
import versioned
from engine import Result

_DEFAULT_FORMAT = "TabSeparated"
_CONTENT_TYPES = {
    "TabSeparated": "text/tab-separated-values; charset=UTF-8",
    "TSV": "text/tab-separated-values; charset=UTF-8",
    "TabSeparatedWithNames": "text/tab-separated-values; charset=UTF-8; header=present",
    "CSV": "text/csv; charset=UTF-8; header=absent",
    "CSVWithNames": "text/csv; charset=UTF-8; header=present",
    "JSON": "application/json; charset=UTF-8",
    "JSONCompact": "application/json; charset=UTF-8",
    "JSONEachRow": "application/x-ndjson; charset=UTF-8",
    "Native": "application/octet-stream",
    "RowBinary": "application/octet-stream",
    "RowBinaryWithNames": "application/octet-stream",
    "RowBinaryWithNamesAndTypes": "application/octet-stream",
}
# Parameters of the request itself; all others are settings of the query.
_NOT_SETTINGS = frozenset(
    "query user password quota_key database query_id compress decompress default_format "
    "buffer_size wait_end_of_query session_id session_timeout session_check stacktrace role "
    "client_protocol_version".split()
)
# The engine's own limit on a query's text (max_query_size), and room for a long form.
_QUERY_HEAD_BYTES = 256 << 10
_QUERY_LIMIT_BYTES = 16 << 20
_MOST_PARAMETERS = 1000


class Answer:
    """What goes back."""

    def __init__(self, body, output_format=None, result=None):
        self.body = body
        self.output_format = output_format
        self.result = result


class Cut(Exception):
    """A test asked for the connection to break here."""


class Handler(BaseHTTPRequestHandler):
    """Serves one connection; `server` holds the engine, users, limits and faults."""

    protocol_version = "HTTP/1.1"
    server_version = "ClickHouse"
    sys_version = ""
    disable_nagle_algorithm = True

    def setup(self):
        self.timeout = self.server.limits["socket_timeout_seconds"]
        super().setup()

    # The base class calls these by name.
    def do_GET(self):  # noqa: N802
        """Serves a query that may change nothing, or a probe."""
        self._serve()

    def do_POST(self):  # noqa: N802
        """Serves a query."""
        self._serve()

    def log_message(self, format, *args):  # noqa: A002
        """The base class logs each request; the caller knows what it asked."""

    def _serve(self):
        with self.server.at_work() as open_for_more:
            if not open_for_more:
                self.close_connection = True
            url = urlsplit(self.path)
            self._query_id = str(uuid.uuid4())
            self._accepted = self.headers.get("Accept-Encoding", "")
            try:
                body = bodies.Body(self.headers, self.rfile, self.server.limits["body_bytes"])
            except errors.QueryError as error:
                self.close_connection = True
                self._answer_error(error)
                return
            try:
                self._route(url, body)
            except errors.QueryError as error:
                if not body.drain():
                    self.close_connection = True
                self._answer_error(error)
            except Cut:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
            except OSError as error:
                # The client is gone, or does not send what it promised: nobody reads an answer.
                self.close_connection = True
                print(f"{self.client_address[0]}: {error}", file=sys.stderr, flush=True)
            except Exception as error:  # pylint: disable=broad-exception-caught
                # A fault of the front's own: the log gets all of it, the client a code to retry on.
                traceback.print_exc()
                self.close_connection = True
                self._answer_error(errors.from_engine(error))

    def _route(self, url, body):
        if url.path in ("/ping", "/replicas_status") or (
            url.path == "/" and self.command == "GET" and not url.query
        ):
            body.drain()
            self._send(200, {"Content-Type": "text/html; charset=UTF-8"}, b"Ok.\n")
        elif url.path == "/":
            self._query(url, body)
        elif url.path == "/test/faults" and self.server.faults is not None:
            self._faults(body)
        else:
            body.drain()
            self._send(404, {}, f"There is no handle {url.path}\n".encode())

    def _query(self, url, body):
        params = _parameters(url.query)
        user = self.server.users.authenticate(self.headers, params)
        limits = self.server.limits
        chunks = codec.decode_content(
            self.headers.get("Content-Encoding", ""), body.chunks(), limits["plain_bytes"]
        )
        boundary = bodies.form_boundary(self.headers) if body.present else None
        if boundary is not None:
            params.update(bodies.parse_form(bodies.read_all(chunks, _QUERY_LIMIT_BYTES), boundary))
            chunks = iter(())
        elif params.get("decompress", "0") == "1":
            chunks = codec.decode_frames(chunks, limits["plain_bytes"])
        if "session_id" in params:
            raise errors.refuse(
                errors.NOT_IMPLEMENTED, "Sessions over several requests are not offered."
            )
        if self.command == "POST" and not body.present and "query" not in params:
            raise errors.refuse(
                errors.HTTP_LENGTH_REQUIRED, "The request has neither a query nor a body."
            )
        self._query_id = params.get("query_id") or self._query_id
        statement, data = _statement(params.get("query"), chunks)
        if not body.finished and not statement.takes_data:
            body.drain()
        answer = self._run(user, params, statement, data)
        # An INSERT may end before its body does (a format that knows its length).
        if not body.drain():
            self.close_connection = True
        self._answer(params, answer)

    def _run(self, user, params, statement, data):
        fault = self.server.faults.take(statement.sql) if self.server.faults is not None else None
        if fault is not None:
            time.sleep(fault.delay_seconds)
            if fault.kind == "cut_before":
                raise Cut
            if fault.kind == "error":
                text = f"Code: {fault.code}. DB::Exception: A test asked for this. (TEST_FAULT)"
                raise errors.QueryError(fault.code, text)
        settings = dict(self.server.default_settings)
        settings.update(
            (name, value)
            for name, value in params.items()
            if name not in _NOT_SETTINGS and not name.startswith("param_")
        )
        parameters = {n[len("param_"):]: v for n, v in params.items() if n.startswith("param_")}
        database = params.get("database") or self.headers.get("X-ClickHouse-Database", "")
        read_only = user.read_only or self.command != "POST"
        output_format = statement.format
        if output_format is None or statement.takes_data:
            output_format = params.get("default_format") or self.headers.get(
                "X-ClickHouse-Format", _DEFAULT_FORMAT
            )
        asks = output_format == "Native" and not statement.takes_data
        is_versioned = asks and "client_protocol_version" in params
        if is_versioned and statement.sql.strip() == versioned.HELLO:
            hello = versioned.hello(self.server.engine)
            return Answer(hello, output_format, Result(hello, 1, 0, 0, 0, 0.0))
        if is_versioned:
            settings.update(versioned.SETTINGS)
        with self.server.engine.session(database, settings, parameters, read_only) as session:
            if statement.takes_data:
                result = session.insert(statement, data)
            else:
                result = session.query(statement.sql, output_format)
        if fault is not None and fault.kind == "cut_after":
            raise Cut
        body = versioned.with_block_information(result.body) if is_versioned else result.body
        return Answer(body, output_format, result)

    def _faults(self, body):
        """GET counts the faults that wait, POST adds one, POST of nothing forgets all."""
        if not self.client_address[0].startswith("127.") and self.client_address[0] != "::1":
            raise errors.refuse(errors.AUTHENTICATION_FAILED, "Faults are for loopback only.")
        text = bodies.read_all(body.chunks(), _QUERY_HEAD_BYTES)
        try:
            if self.command == "POST" and text:
                self.server.faults.add(text)
            elif self.command == "POST":
                self.server.faults.clear()
        except ValueError as error:
            raise errors.refuse(errors.BAD_ARGUMENTS, f"Not a fault: {error}.") from None
        self._send(200, {}, f"{self.server.faults.waiting()}\n".encode())

    def _answer(self, params, answer):
        result = answer.result
        figures = {
            "read_rows": result.read_rows,
            "read_bytes": result.read_bytes,
            "written_rows": result.written_rows,
            "written_bytes": result.written_bytes,
            "total_rows_to_read": 0,
            "result_rows": result.written_rows,
            "result_bytes": result.written_bytes or len(answer.body),
            "elapsed_ns": int(result.elapsed_seconds * 1e9),
        }
        headers = {
            "Content-Type": _CONTENT_TYPES.get(answer.output_format, "text/plain; charset=UTF-8"),
            "X-ClickHouse-Format": answer.output_format,
            "X-ClickHouse-Summary": json.dumps(
                {name: str(value) for name, value in figures.items()}, separators=(",", ":")
            ),
        }
        body = answer.body
        if params.get("compress", "0") == "1":
            body = b"".join(codec.encode_frames(body))
        elif body and params.get("enable_http_compression", "1") == "1":
            encoding = codec.choose_encoding(self._accepted)
            if encoding:
                headers["Content-Encoding"] = encoding
                body = codec.encode_content(encoding, body)
        self._send(200, headers, body)

    def _answer_error(self, error):
        text = error.text
        version = f"(version {self.server.engine.version})"
        if version not in text:
            text = f"{text} {version}"
        headers = {
            "Content-Type": "text/plain; charset=UTF-8",
            "X-ClickHouse-Exception-Code": str(error.code),
        }
        self._send(error.status, headers, f"{text}\n".encode("utf-8", "replace"))

    def _send(self, status, headers, body):
        engine = self.server.engine
        self.send_response(status)
        if self.close_connection:
            self.send_header("Connection", "close")
        else:
            self.send_header("Connection", "keep-alive")
            self.send_header("Keep-Alive", f"timeout={self.timeout}")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-ClickHouse-Server-Display-Name", engine.display_name)
        self.send_header("X-ClickHouse-Query-Id", _header_text(self._query_id))
        self.send_header("X-ClickHouse-Timezone", engine.timezone)
        for name, value in headers.items():
            self.send_header(name, _header_text(value))
        self.end_headers()
        self.wfile.write(body)


def _parameters(query):
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise errors.refuse(
            errors.BAD_ARGUMENTS, f"The URL has more than {_MOST_PARAMETERS} parameters."
        ) from None
    return dict(pairs)


def _statement(query, chunks):
    """The statement, and the stream of its data: what follows it in the URL, then the body."""
    if query is not None:
        statement = sql.split(query.encode("utf-8", "surrogateescape"))
        if not statement.takes_data:
            rest = bodies.read_all(chunks, _QUERY_LIMIT_BYTES)
            if rest.strip():
                statement = sql.split(f"{query}\n".encode("utf-8", "surrogateescape") + rest)
            else:
                return statement, iter(())
    else:
        head = bytearray()
        for chunk in chunks:
            head += chunk
            if len(head) >= _QUERY_HEAD_BYTES:
                break
        statement = sql.split(bytes(head))
        if not statement.takes_data and len(head) >= _QUERY_HEAD_BYTES:
            head += bodies.read_all(chunks, _QUERY_LIMIT_BYTES)
            statement = sql.split(bytes(head))
    return statement, itertools.chain((statement.data,), chunks)


def _header_text(value):
    """A header's value without what would end it."""
    return "".join(c for c in str(value) if c.isprintable() and ord(c) < 256)
