"""Replicated tables: what a server's main program does for them and the package's leaves out.

The engine has ReplicatedMergeTree and its client of ZooKeeper, and reads `<zookeeper>`. But the
package never tells it the address at which other replicas would fetch parts, whatever
`<interserver_http_port>` says. A replica can't become active without one: it is tried again and
again, and the table stays read-only. And the package attaches the system tables as on a server
without ZooKeeper, so `zookeeper` and `zookeeper_connection` aren't there.

No setting and no function of the package changes either. So a few instructions of the loaded
library are replaced, in this process's memory, before the engine starts: the function that gives
the address gives this one, and two jumps around those system tables are taken out. Each place is
found by its bytes, which must be in the library just once. Another build is refused, not guessed
at.

Limits: x86-64, and the build of chdb-core that requirements.txt names. Nothing listens at the
address, so each table has one replica: fetches, and clones of a replica, can't be tried. `ON
CLUSTER` needs a thread that only a server starts.
"""

import ctypes
import mmap
import struct

# Nothing listens there: no second replica may be made.
_ADDRESS = ("127.0.0.1", 9009)

# The start of Context::getInterserverIOAddress, up to its first look at the address.
_ADDRESS_CODE = bytes.fromhex("4156 53 4883ec48 4c8b36 490fbe8e67010000")
# In attachSystemTablesServer: has_zookeeper is false, so jump behind the three tables.
_TABLES_SHORT = bytes.fromhex("807c245400 753b e96f030000")
_TABLES_LONG = bytes.fromhex("807c245400 0f8439030000 488b7c2440 4c8b742448 49bf7a6f6f6b65657065")
_COMPARE_BYTES = 5
_JUMP_ALWAYS = b"\xeb"
_NOTHING = b"\x90" * 6

_READ_WRITE_RUN, _READ_RUN = 7, 5
# A std::string of the library: 23 bytes of text or zeros, then the length.
_SHORT_STRING_BYTES = 23


class UnknownBuild(Exception):
    """The library isn't the build that this file knows."""


def enable(library):
    """Lets the engine of this library make replicated tables. Before the first connection."""
    with open(library, "rb") as file:
        image = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with image:
        edits = [
            (_once(image, _ADDRESS_CODE), _gives(*_ADDRESS)),
            (_once(image, _TABLES_SHORT) + _COMPARE_BYTES, _JUMP_ALWAYS),
            (_once(image, _TABLES_LONG) + _COMPARE_BYTES, _NOTHING),
        ]
    places = [(_address(library, offset), code) for offset, code in edits]
    for address, code in places:
        _write(address, code)


def _once(image, code):
    """The offset of these bytes, which are there once."""
    offset = image.find(code)
    if offset < 0 or image.find(code, offset + 1) >= 0:
        raise UnknownBuild(
            "replicated tables need the chdb-core of requirements.txt on x86-64: "
            f"{code.hex()} is not in its library just once"
        )
    return offset


def _gives(host, port):
    """A function's code that returns this host and port, as the replaced one does.

    The caller's room for the pair is at rdi: the string, then the port.
    """
    text = host.encode()
    string = text.ljust(_SHORT_STRING_BYTES, b"\0") + bytes([len(text)])
    code = b""
    for at in range(0, len(string), 8):
        # mov rax, 8 bytes; mov [rdi + at], rax
        code += b"\x48\xb8" + string[at : at + 8] + b"\x48\x89\x47" + bytes([at])
    # mov word [rdi + 24], port; mov rax, rdi; ret
    return code + b"\x66\xc7\x47\x18" + struct.pack("<H", port) + b"\x48\x89\xf8\xc3"


def _address(library, offset):
    """Where a byte of the library's file is in this process, as code."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            span, rights, start, _, _, *path = line.split()
            begin, end = (int(part, 16) for part in span.split("-"))
            inside = offset - int(start, 16)
            if path == [library] and "x" in rights and 0 <= inside < end - begin:
                return begin + inside
    raise UnknownBuild(f"{library} has no code at {offset:#x} in this process")


def _write(address, code):
    """Replaces code of this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    start = address - address % mmap.PAGESIZE
    room = ctypes.c_void_p(start), ctypes.c_size_t(address + len(code) - start)
    for rights in (_READ_WRITE_RUN, _READ_RUN):
        if libc.mprotect(*room, rights):
            number = ctypes.get_errno()
            raise OSError(number, "the engine's code can't be changed: mprotect")
        if rights == _READ_WRITE_RUN:
            ctypes.memmove(address, code, len(code))
