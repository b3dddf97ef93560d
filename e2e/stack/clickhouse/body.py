"""A request's body as a stream of chunks, whichever way HTTP frames it, and multipart forms.

A body is read at most once and never whole unless asked for; what was not read can be thrown away,
so that a client still sending gets its answer instead of a reset connection.
"""

import re
from email.message import Message

import errors

_READ_BYTES = 1 << 20
_LINE_LIMIT_BYTES = 4096
# What is thrown away at most after an early answer; beyond it the connection is closed.
_DRAIN_LIMIT_BYTES = 64 << 20


class Body:
    """The body of one request."""

    def __init__(self, headers, stream, limit_bytes):
        self._stream = stream
        self._left = limit_bytes
        self.finished = True
        self._chunked = False
        self._length = 0
        if headers.get("Transfer-Encoding", "").lower() == "chunked":
            self._chunked = True
            self.finished = False
        elif "Content-Length" in headers:
            text = headers["Content-Length"].strip()
            if not re.fullmatch(r"[0-9]{1,18}", text):
                raise errors.refuse(errors.BAD_ARGUMENTS, "Content-Length is not a number.")
            self._length = int(text)
            self.finished = self._length == 0
        self.present = not self.finished

    def chunks(self):
        """Yields what the client sends, as it comes."""
        for chunk in self._chunks_of_transfer() if self._chunked else self._chunks_of_length():
            self._left -= len(chunk)
            if self._left < 0:
                raise errors.refuse(
                    errors.TOO_MANY_BYTES, "The body is larger than this server takes."
                )
            yield chunk
        self.finished = True

    def _read(self, size):
        data = self._stream.read(size)
        if len(data) < size:
            raise ConnectionAbortedError("the client went away in the middle of the body")
        return data

    def _chunks_of_length(self):
        while self._length:
            # Taken off first: a read that fails leaves a connection nobody reads again.
            size = min(self._length, _READ_BYTES)
            self._length -= size
            yield self._read(size)

    def _chunks_of_transfer(self):
        while True:
            size = self._chunk_size()
            while size:
                part = min(size, _READ_BYTES)
                size -= part
                yield self._read(part)
                if size == 0:
                    self._line()
                    size = self._chunk_size()
            while self._line():
                pass
            return

    def _chunk_size(self):
        text = self._line().partition(b";")[0].strip()
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,15}", text):
            raise ConnectionAbortedError("a chunk's size is not a number")
        return int(text, 16)

    def _line(self):
        line = self._stream.readline(_LINE_LIMIT_BYTES)
        if not line.endswith(b"\n"):
            raise ConnectionAbortedError("the client went away between two chunks")
        return line.strip()

    def drain(self):
        """Throws the rest away; False when there is too much, or it does not come."""
        if self.finished:
            return True
        self._left = _DRAIN_LIMIT_BYTES
        try:
            for _ in self.chunks():
                pass
        except (errors.QueryError, OSError):
            return False
        return True


def read_all(chunks, limit_bytes):
    """The whole of a stream that is expected to be small."""
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > limit_bytes:
            raise errors.refuse(
                errors.QUERY_IS_TOO_LARGE, f"The query is larger than {limit_bytes} bytes."
            )
    return bytes(data)


def form_boundary(headers):
    """The boundary of a multipart form, or None for any other body."""
    message = Message()
    message["Content-Type"] = headers.get("Content-Type", "text/plain")
    if message.get_content_type() != "multipart/form-data":
        return None
    boundary = message.get_boundary()
    if not boundary:
        raise errors.refuse(errors.BAD_ARGUMENTS, "The multipart form says no boundary.")
    return boundary.encode("latin-1")


def parse_form(data, boundary):
    """The fields of a multipart form. Files (external tables) are not offered here."""
    fields = {}
    delimiter = b"\r\n--" + boundary
    parts = (b"\r\n" + data).split(delimiter)
    if len(parts) < 2 or not parts[-1].startswith(b"--"):
        raise errors.refuse(errors.BAD_ARGUMENTS, "The multipart form is cut off.")
    for part in parts[1:-1]:
        head, _, value = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        message = Message()
        for line in head.decode("utf-8", "replace").split("\r\n"):
            name, _, text = line.partition(":")
            message[name.strip()] = text.strip()
        name = message.get_param("name", header="Content-Disposition")
        if message.get_param("filename", header="Content-Disposition") is not None:
            raise errors.refuse(errors.NOT_IMPLEMENTED, "External tables are not offered here.")
        if not isinstance(name, str):
            raise errors.refuse(errors.BAD_ARGUMENTS, "A field of the multipart form has no name.")
        fields[name] = value.decode("utf-8", "surrogateescape")
    return fields
