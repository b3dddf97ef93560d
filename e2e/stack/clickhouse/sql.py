"""Just enough of SQL's surface to tell a query from the data that follows it.

The engine parses the SQL; this only finds, outside strings, names and comments, where an INSERT's
data begin, which format is asked for, and the two clauses that reach the server's own files.
It works on bytes, and stops at the data, which may be binary.
"""

import re
from typing import NamedTuple, Optional

import errors

# One token at a time: white space and comments, quoted things, words, any other byte.
_TOKEN = re.compile(
    rb"(?P<blank>\s+|--[^\n]*|#[ !][^\n]*|/\*.*?\*/)"
    rb"|(?P<quoted>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`\\]|\\.|``)*`"
    rb"|(?P<tag>\$\w*\$).*?(?P=tag))"
    rb"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    rb"|(?P<other>.)",
    re.DOTALL,
)
# Functions and engines that reach out of the database, into files, this program, other hosts. The
# server fences them in with folders and grants that the engine in a process does not have.
_OUTSIDE = frozenset(
    (b"FILE", b"FILECLUSTER", b"PYTHON", b"EXECUTABLE", b"EXECUTABLEPOOL", b"URL", b"URLCLUSTER")
)
# After these, or a dot, a word is a name whatever it spells.
_BEFORE_NAME = (b"INTO", b"TABLE", b"FUNCTION", b".")
# What stands between the format's name and the data, and belongs to neither.
_BEFORE_DATA = re.compile(rb"[ \t\r]*;?[ \t\r]*\n?")


class Statement(NamedTuple):
    """A query cut in two: what the engine parses, and the data it is to insert."""

    sql: str
    format: Optional[str]
    takes_data: bool
    data: bytes
    # How much of an insert stands before its SETTINGS, where a data source can be named.
    head_chars: int = 0


def _tokens(text):
    """Yields (kind, text with words in upper case, start, end, depth), without blanks."""
    depth = 0
    position = 0
    before, previous = b"", b""
    while position < len(text):
        match = _TOKEN.match(text, position)
        position = match.end()
        if match.lastgroup == "blank":
            continue
        kind = "quoted" if match.lastgroup == "tag" else match.lastgroup
        value = match.group().upper() if kind == "word" else match.group()
        is_call = value == b"(" and (before not in _BEFORE_NAME or before == b"FUNCTION")
        if is_call and previous.strip(b'`"').upper() in _OUTSIDE:
            raise errors.refuse(
                errors.ACCESS_DENIED,
                f"Not enough privileges: {_decode(previous)} reaches out of the database.",
            )
        before, previous = previous, value
        if value in (b"(", b"["):
            depth += 1
        elif value in (b")", b"]"):
            depth -= 1
        yield kind, value, match.start(), position, depth


def split(text):
    """Cuts `text` (bytes) into the statement and its data."""
    tokens = _tokens(text)
    first = next(tokens, None)
    if first is None:
        raise errors.refuse(errors.SYNTAX_ERROR, "Syntax error: the query is empty.")
    if first[0] == "word" and first[1] == b"INSERT":
        return _split_insert(text, tokens)
    return _other(text, tokens)


def _split_insert(text, tokens):
    previous = b"INSERT"
    head = None
    for kind, value, start, end, depth in tokens:
        is_name = previous in _BEFORE_NAME
        before, previous = previous, value
        if kind != "word" or is_name:
            continue
        if depth == 1 and before == b"(" and value in (b"SELECT", b"WITH"):
            return _other(text, tokens)
        if depth:
            continue
        if value in (b"SELECT", b"WITH", b"WATCH"):
            return _other(text, tokens)
        if value == b"INFILE":
            raise errors.refuse(
                errors.INCORRECT_QUERY,
                "Query has infile and was sent directly to the server: send the data as the body.",
            )
        if value == b"SETTINGS":
            head = len(_decode(text[:start]))
        if value == b"VALUES":
            sql = _decode(text[:start])
            return Statement(sql, "Values", True, text[end:], len(sql) if head is None else head)
        if value == b"FORMAT":
            return _insert_format(text, start, tokens, head)
    # No data clause yet: VALUES or FORMAT may be missing, the engine says so.
    return _whole(text)


def _insert_format(text, start, tokens, head):
    name = next(tokens, None)
    if name is None or name[0] != "word":
        return _whole(text)
    end = name[3]
    data_format = _decode(text[end - len(name[1]) : end])
    data = _BEFORE_DATA.match(text, end).end()
    sql = _decode(text[:start])
    return Statement(sql, data_format, True, text[data:], len(sql) if head is None else head)


def _other(text, tokens):
    output_format = None
    previous = b""
    expect_format = False
    for kind, value, start, end, depth in tokens:
        if expect_format and kind == "word":
            output_format = _decode(text[start:end])
        expect_format = kind == "word" and value == b"FORMAT" and depth == 0 and previous != b"."
        if value == b"OUTFILE" and previous == b"INTO" and kind == "word":
            raise errors.refuse(
                errors.INTO_OUTFILE_NOT_ALLOWED, "INTO OUTFILE is not allowed over HTTP."
            )
        previous = value
    return Statement(_decode(text), output_format, False, b"")


def _whole(text):
    return Statement(_decode(text), None, False, b"")


def _decode(text):
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise errors.refuse(
            errors.SYNTAX_ERROR, f"Syntax error: the query is not UTF-8 at byte {error.start}."
        ) from None


def literal(value):
    """A string literal that the engine reads back as `value`."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
