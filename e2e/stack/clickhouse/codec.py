"""Bodies in and out: HTTP content encodings, and ClickHouse's own compressed frames.

Everything is a stream of byte chunks with a cap on what comes out, so that a small body cannot
become a large one. A frame is a 16-byte CityHash128 (version 1.0.2, low half first) over what
follows: a method byte, two little-endian sizes (compressed with these nine bytes, then plain), and
the data.
"""

import gzip
import re
import struct
import zlib

import lz4.block
import lz4.frame
import zstandard
from clickhouse_cityhash.cityhash import CityHash128

import errors

_LZ4, _ZSTD, _NONE = 0x82, 0x90, 0x02
_HEAD = struct.Struct("<QQBII")
_CHECKED_HEAD = struct.Struct("<BII")
_HASH_BYTES = _HEAD.size - _CHECKED_HEAD.size
# A quarter of the server's own cap on one frame: a frame is held whole, twice.
_FRAME_LIMIT_BYTES = 1 << 28
# Plain bytes per frame we write: the server's default buffer.
_FRAME_BYTES = 1 << 20
# Plain bytes taken from a decoder at a time.
_STEP_BYTES = 1 << 20

ENCODINGS = ("zstd", "lz4", "gzip")


class _Cap:
    """Counts what came out of a decoder and stops it at the limit."""

    def __init__(self, limit_bytes):
        self.left = limit_bytes
        self.limit_bytes = limit_bytes

    def check(self, size):
        """Refuses when `size` more bytes are too many."""
        if size > self.left:
            raise errors.refuse(
                errors.TOO_MANY_BYTES,
                f"The body is larger than {self.limit_bytes} bytes once decompressed.",
            )

    def take(self, chunk):
        """Lets `chunk` through, or refuses."""
        self.check(len(chunk))
        self.left -= len(chunk)
        return chunk


def decode_content(encoding, chunks, limit_bytes):
    """Undoes a Content-Encoding."""
    encoding = encoding.strip().lower()
    decoders = {"gzip": _inflate, "deflate": _inflate, "zstd": _unzstd, "lz4": _unlz4}
    if encoding in ("", "identity"):
        return chunks
    if encoding not in decoders:
        raise errors.refuse(
            errors.NOT_IMPLEMENTED,
            f"Unknown Content-Encoding '{encoding}': use gzip, deflate, zstd or lz4.",
        )
    return _guard(decoders[encoding](chunks, _Cap(limit_bytes)), encoding)


def _guard(chunks, encoding):
    try:
        yield from chunks
    except (zlib.error, zstandard.ZstdError, RuntimeError) as error:
        raise errors.refuse(
            errors.CANNOT_DECOMPRESS, f"The body is not valid {encoding}: {error}."
        ) from None


def _cut_off(encoding):
    return errors.refuse(errors.UNEXPECTED_END_OF_FILE, f"The {encoding} body is cut off.")


def _inflate(chunks, cap):
    # 32 + 15: gzip or zlib, told by the header. A gzip body may have several members.
    decoder = zlib.decompressobj(47)
    started = False
    for chunk in chunks:
        while chunk:
            if decoder.eof:
                decoder = zlib.decompressobj(47)
            started = True
            plain = decoder.decompress(chunk, _STEP_BYTES)
            if plain:
                yield cap.take(plain)
            chunk = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
    if started and not decoder.eof:
        raise _cut_off("gzip")


def _unzstd(chunks, cap):
    # A window of 2^27 is zstd's own bound for streams (--long needs more and is refused).
    make = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj
    decoder = make()
    started = False
    for chunk in chunks:
        # Its steps have no bound of their own: four bytes may stand for a block of 128 KiB, so
        # 1 KiB in makes 32 MiB at the very most.
        for piece in _pieces(chunk, 1 << 10):
            while piece:
                if decoder.eof:
                    decoder = make()
                started = True
                plain = decoder.decompress(piece)
                if plain:
                    yield cap.take(plain)
                piece = decoder.unused_data if decoder.eof else b""
    if started and not decoder.eof:
        raise _cut_off("zstd")


def _unlz4(chunks, cap):
    decoder = lz4.frame.LZ4FrameDecompressor()
    started = False
    for chunk in chunks:
        while chunk:
            if decoder.eof:
                decoder = lz4.frame.LZ4FrameDecompressor()
            started = True
            plain = decoder.decompress(chunk, _STEP_BYTES)
            while plain:
                yield cap.take(plain)
                done = decoder.eof or decoder.needs_input
                plain = b"" if done else decoder.decompress(b"", _STEP_BYTES)
            chunk = (decoder.unused_data or b"") if decoder.eof else b""
    if started and not decoder.eof:
        raise _cut_off("lz4")


def _pieces(chunk, size):
    for start in range(0, len(chunk), size):
        yield chunk[start : start + size]


def decode_frames(chunks, limit_bytes):
    """Undoes `decompress=1`: yields the plain bytes of each frame, checksums verified."""
    cap = _Cap(limit_bytes)
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        start = 0
        while True:
            size = _frame_size(buffer, start, cap)
            if size is None or len(buffer) - start < size:
                break
            yield cap.take(_decode_frame(buffer, start, size))
            start += size
        del buffer[:start]
    if buffer:
        raise errors.refuse(
            errors.UNEXPECTED_END_OF_FILE,
            f"The last compressed frame is cut off ({len(buffer)} B).",
        )


def _frame_size(buffer, start, cap):
    """The whole frame's size, once its head is here; refuses sizes that cannot be."""
    if len(buffer) - start < _HEAD.size:
        return None
    _, _, _, compressed, plain = _HEAD.unpack_from(buffer, start)
    if compressed < _CHECKED_HEAD.size or max(compressed, plain) > _FRAME_LIMIT_BYTES:
        raise errors.refuse(
            errors.TOO_LARGE_SIZE_COMPRESSED,
            f"A frame says {compressed} B compressed, {plain} B plain. Most likely corrupted data.",
        )
    cap.check(plain)
    return _HASH_BYTES + compressed


def _decode_frame(buffer, start, size):
    low, high, method, _, plain_size = _HEAD.unpack_from(buffer, start)
    # Bytes of its own: the hash never lets go of a view it was given.
    with memoryview(buffer) as view:
        body = bytes(view[start + _HASH_BYTES : start + size])
    if _hash(body) != (low, high):
        raise errors.refuse(
            errors.CHECKSUM_DOESNT_MATCH, "Checksum doesn't match: corrupted data in a frame."
        )
    data = memoryview(body)[_CHECKED_HEAD.size :]
    try:
        if method == _LZ4:
            plain = lz4.block.decompress(data, uncompressed_size=plain_size)
        elif method == _ZSTD:
            plain = zstandard.ZstdDecompressor().decompress(data, max_output_size=plain_size)
        elif method == _NONE:
            plain = bytes(data)
        else:
            raise errors.refuse(
                errors.UNKNOWN_COMPRESSION_METHOD, f"Unknown compression method: 0x{method:02x}."
            )
    except (lz4.block.LZ4BlockError, zstandard.ZstdError) as error:
        raise errors.refuse(
            errors.CANNOT_DECOMPRESS, f"Cannot decompress a frame: {error}."
        ) from None
    if len(plain) != plain_size:
        raise errors.refuse(
            errors.CANNOT_DECOMPRESS, f"A frame of {plain_size} B plain has {len(plain)} B."
        )
    return plain


def _hash(body):
    """The low and the high half of CityHash128; the package gives low half first, as one number."""
    number = CityHash128(body)
    return number >> 64, number & ((1 << 64) - 1)


def encode_frames(plain):
    """Does `compress=1`: LZ4 frames of up to 1 MiB plain."""
    view = memoryview(plain)
    for start in range(0, len(view), _FRAME_BYTES):
        piece = view[start : start + _FRAME_BYTES]
        data = lz4.block.compress(piece, store_size=False)
        body = _CHECKED_HEAD.pack(_LZ4, _CHECKED_HEAD.size + len(data), len(piece)) + data
        low, high = _hash(body)
        yield struct.pack("<QQ", low, high) + body


def choose_encoding(accepted):
    """The encoding for an answer, out of an Accept-Encoding header; None for none."""
    offered = set()
    for item in accepted.lower().split(","):
        name, _, quality = item.partition(";")
        if not re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", quality):
            offered.add(name.strip())
    return next((name for name in ENCODINGS if name in offered), None)


def encode_content(encoding, plain):
    """Compresses an answer, fast rather than small."""
    if encoding == "gzip":
        return gzip.compress(plain, compresslevel=3)
    if encoding == "zstd":
        return zstandard.ZstdCompressor(level=1).compress(plain)
    return lz4.frame.compress(plain)
