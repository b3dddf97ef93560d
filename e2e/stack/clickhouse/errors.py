"""ClickHouse's error codes and the HTTP status each is answered with.

Codes that the front itself raises are named here; all others come from the engine with their text.
The table of statuses follows the server's own (its exceptionCodeToHTTPStatus), by number.
"""

import re

UNEXPECTED_END_OF_FILE = 3
BAD_ARGUMENTS = 36
TOO_LARGE_SIZE_COMPRESSED = 39
CHECKSUM_DOESNT_MATCH = 40
NOT_IMPLEMENTED = 48
SYNTAX_ERROR = 62
INCORRECT_QUERY = 80
UNKNOWN_COMPRESSION_METHOD = 89
READONLY = 164
TOO_MANY_SIMULTANEOUS_QUERIES = 202
SOCKET_TIMEOUT = 209
QUERY_IS_TOO_LARGE = 229
CANNOT_DECOMPRESS = 271
TOO_MANY_BYTES = 307
INTO_OUTFILE_NOT_ALLOWED = 358
HTTP_LENGTH_REQUIRED = 381
ACCESS_DENIED = 497
AUTHENTICATION_FAILED = 516
UNKNOWN_EXCEPTION = 1002

_NAMES = {
    value: name for name, value in list(globals().items()) if name.isupper() and name[0] != "_"
}

_STATUS = {194: 401, 229: 413, 48: 501, 209: 503, 76: 503, 439: 503, 381: 411, 159: 408, 779: 415}
_STATUS.update(dict.fromkeys((192, 193, 516, 512, 497), 403))
_STATUS.update(
    dict.fromkeys(
        (6, 8, 15, 25, 26, 27, 36, 37, 38, 41, 44, 53, 62, 72, 117, 123, 167, 168, 223)
        + (321, 376, 427, 441, 675, 676),
        400,
    )
)
_STATUS.update(dict.fromkeys((46, 47, 50, 56, 60, 63, 73, 78, 81, 115, 152, 336, 511), 404))

_CODE = re.compile(r"Code: (\d+)")


class QueryError(Exception):
    """A refusal with a ClickHouse code; its text is what the client reads."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code
        self.text = text

    @property
    def status(self):
        """The HTTP status that goes with the code."""
        return _STATUS.get(self.code, 500)


def refuse(code, message):
    """An error of the front's own, worded as the server words its errors."""
    return QueryError(code, f"Code: {code}. DB::Exception: {message} ({_NAMES[code]})")


def from_engine(error):
    """What the engine raised, with the code found in its text."""
    text = str(error)
    found = _CODE.match(text)
    if found:
        return QueryError(int(found.group(1)), text)
    code = UNKNOWN_EXCEPTION
    return QueryError(code, f"Code: {code}. DB::Exception: {text} (UNKNOWN_EXCEPTION)")
