"""Native answers for clients that name a protocol version, as clickhouse-go does over HTTP.

A server writes blocks at the client's version: block information first, from version 54454 on a byte
per column that says how it is serialized. The engine here writes neither. So the one question such a
client asks first, who the server is, is answered by hand at the client's version, claiming a version
so old that it wants no such byte from then on; all later answers get their block information.
"""

import struct

# The question, and a version from before the byte per column (54454).
HELLO = "SELECT displayName(), version(), revision(), timezone()"
_REVISION = 50_000

# Fields 1 and 2 of block information: not an overflow block, bucket -1; then the end of fields.
_BLOCK_INFORMATION = b"\x01\x00\x02\xff\xff\xff\xff\x00"


def hello(engine):
    """Who the server is, as one Native block at the client's own version."""
    columns = [
        ("displayName()", "String", _text(engine.display_name)),
        ("version()", "String", _text(engine.version)),
        ("revision()", "UInt32", struct.pack("<I", _REVISION)),
        ("timezone()", "String", _text(engine.timezone)),
    ]
    body = bytearray(_BLOCK_INFORMATION)
    # Four columns, one row; a zero after each type: serialized in the ordinary way.
    body += bytes((len(columns), 1))
    for name, kind, value in columns:
        body += _text(name) + _text(kind) + b"\x00" + value
    return bytes(body)


def with_block_information(body):
    """An answer of one Native block, as the settings below make sure of; an empty one stays empty."""
    return _BLOCK_INFORMATION + body if body else body


# Answers to such clients are descriptions of tables: small enough to be one block.
SETTINGS = {"max_block_size": "65536"}


def _text(text):
    data = text.encode("utf-8")
    size = len(data)
    prefix = bytearray()
    while size >= 0x80:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    prefix.append(size)
    return bytes(prefix) + data
