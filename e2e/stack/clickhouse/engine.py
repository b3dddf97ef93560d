"""The ClickHouse engine inside this process, one connection per request.

A connection is a session of the engine's (its database, settings and parameters), costs a tenth of
a millisecond, and ends with the request, so nothing leaks from one client to the next. The number
of requests at work is bounded; one more is refused as a busy server would refuse it.
"""

import contextlib
import os
import re
import threading
from typing import NamedTuple

import errors
import sql

# The package's start-up connects to an engine in memory; the import must come before signals are
# set, since the engine installs handlers of its own.
from chdb import _chdb

# The engine's file, loaded by the import.
LIBRARY = _chdb.__file__

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


class Result(NamedTuple):
    """What a query gave, with the figures of X-ClickHouse-Summary."""

    body: bytes
    read_rows: int
    read_bytes: int
    written_rows: int
    written_bytes: int
    elapsed_seconds: float


def _result(answer, body):
    return Result(
        body,
        answer.storage_rows_read(),
        answer.storage_bytes_read(),
        answer.rows_written(),
        answer.bytes_written(),
        answer.elapsed(),
    )


class Engine:
    """The engine over one data folder. One process at a time may hold a folder."""

    def __init__(self, data_dir, settings_file, max_queries):
        self._target = f"{data_dir}?config-file={settings_file}"
        # Held for as long as the process lives: the engine ends with its last connection.
        self._keeper = _chdb.connect(self._target)
        _chdb.reset_signal_handlers()
        self._slots = threading.BoundedSemaphore(max_queries)
        self.version, self.display_name, self.timezone = self._about()

    def _about(self):
        answer = self._keeper.query("SELECT version(), displayName(), timezone()", "TSV")
        return answer.bytes().decode("utf-8").strip().split("\t")

    def close(self):
        """Ends the engine, once no session is at work any more."""
        self._keeper.close()

    @contextlib.contextmanager
    def session(self, database, settings, parameters, read_only):
        """A fresh session with these settings, read-only ones refusing all changes."""
        if not self._slots.acquire(blocking=False):
            raise errors.refuse(
                errors.TOO_MANY_SIMULTANEOUS_QUERIES, "Too many simultaneous queries: try again."
            )
        try:
            connection = _chdb.connect(self._target)
            try:
                session = Session(connection)
                session.prepare(database, settings, parameters, read_only)
                yield session
            finally:
                connection.close()
        finally:
            self._slots.release()


class Session:
    """One connection at work."""

    def __init__(self, connection):
        self._connection = connection

    def prepare(self, database, settings, parameters, read_only):
        """Sets the session up as the request's URL says."""
        pairs = dict(settings)
        pairs.update({f"param_{name}": value for name, value in parameters.items()})
        # Last, since nothing can be set after it. 2: settings may change, data may not.
        wanted = pairs.pop("readonly", "0")
        if read_only and wanted not in ("1", "2"):
            wanted = "2"
        if wanted != "0":
            pairs["readonly"] = wanted
        for name, value in pairs.items():
            if not _NAME.fullmatch(name):
                raise errors.refuse(errors.BAD_ARGUMENTS, f"'{name}' cannot be a setting's name.")
            self._query(f"SET {name} = {sql.literal(value)}")
        if database:
            quoted = database.replace("\\", "\\\\").replace("`", "\\`")
            self._query(f"USE `{quoted}`")

    def _query(self, text, output_format="TabSeparated"):
        try:
            return self._connection.query(text, output_format)
        except RuntimeError as error:
            raise errors.from_engine(error) from None

    def query(self, text, output_format):
        """Runs a query to its end and returns its whole output."""
        if self._connection.classify_query(text)["statement_count"] > 1:
            raise errors.refuse(
                errors.SYNTAX_ERROR, "Syntax error (Multi-statements are not allowed)."
            )
        answer = self._query(text, output_format)
        return _result(answer, answer.bytes())

    def insert(self, statement, chunks):
        """Runs an INSERT over a stream of data, all of it or nothing.

        The data is gathered in a file in memory first. The engine's own streamed insert (its
        send_insert) answers success, and counts the rows, when a table refuses them as it writes:
        a constraint, too many parts, a full disk. An insert from a file says so.
        """
        with open(os.memfd_create("insert"), "wb", buffering=0) as file:
            for chunk in chunks:
                while chunk:
                    chunk = chunk[file.write(chunk) :]
            head, tail = statement.sql[: statement.head_chars], statement.sql[statement.head_chars :]
            source = f"/proc/self/fd/{file.fileno()}"
            answer = self._query(
                f"{head} FROM INFILE {sql.literal(source)} {tail} FORMAT {statement.format}"
            )
            return _result(answer, b"")
