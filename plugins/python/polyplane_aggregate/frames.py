"""Frames between an engine and the agent of its host, as bytes.

A frame is its length (4 bytes, big-endian, of all that follows), its kind (1 byte) and a body.
Nothing here does I/O, except `read_exactly`, which fills a buffer from a socket.
"""

from __future__ import annotations

import enum
import json
import struct

PROTOCOL = 1

# Bytes that a frame has at most, without its length.
MAX_FRAME = (1 << 30) + 64

# Values that a REDUCE frame has at most.
MAX_VALUES = (MAX_FRAME - 5) // 4

# Bytes that a key has at most.
MAX_KEY = 0xFFFF

_HEAD = struct.Struct(">IB")
_KEY_LENGTH = struct.Struct(">H")
_VALUE = struct.Struct(">q")


class Kind(enum.IntEnum):
    """Kind of a frame."""

    HELLO = 0
    ERROR = 1
    JOIN = 2
    JOINED = 3
    REDUCE = 4
    REDUCED = 5
    LEAVE = 6
    STORE = 7
    STORED = 8
    COLLECT = 9
    PAIRS = 10
    COLLECTED = 11
    FORGET = 12


class Operation(enum.IntEnum):
    """Reduction of vectors. Values have 4 bytes each, little-endian."""

    SUM_F32 = 0
    SUM_I32 = 1
    MAX_I32 = 2


class FrameError(ValueError):
    """Bytes that are no frame, or values that fit in none."""


def head(kind: Kind, length: int) -> bytes:
    """Returns length and kind of a frame with a body of `length` bytes."""
    if length + 1 > MAX_FRAME:
        raise FrameError(f"a body of {length} bytes is too long: at most {MAX_FRAME - 1}")
    return _HEAD.pack(length + 1, kind)


def frame(kind: Kind, body: bytes = b"") -> bytes:
    """Returns a whole frame."""
    return head(kind, len(body)) + body


def json_frame(kind: Kind, members: dict) -> bytes:
    """Returns a frame with a JSON object."""
    return frame(kind, json.dumps(members, ensure_ascii=False).encode())


def reduce_head(operation: Operation, length: int) -> bytes:
    """Returns all of a REDUCE frame that is before its `length` bytes of values."""
    if length % 4:
        raise FrameError(f"{length} bytes are no vector: a value has 4 bytes")
    return head(Kind.REDUCE, 4 + length) + bytes((operation, 0, 0, 0))


def parse_head(data: bytes) -> tuple[Kind, int]:
    """Returns the kind of a frame and the length of its body, from its first 5 bytes."""
    length, kind = _HEAD.unpack(data)
    if not 1 <= length <= MAX_FRAME:
        raise FrameError(f"a frame of {length} bytes: 1 to {MAX_FRAME} are allowed")
    try:
        return Kind(kind), length - 1
    except ValueError:
        raise FrameError(f"a frame of kind {kind}, which protocol {PROTOCOL} has not") from None


def parse_json(kind: Kind, body: bytes) -> dict:
    """Returns the JSON object of a body."""
    try:
        members = json.loads(body)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise FrameError(f"{kind.name}: no JSON: {error}") from None
    if not isinstance(members, dict):
        raise FrameError(f"{kind.name}: no JSON object")
    return members


def encode_name(name: str) -> bytes:
    """Returns the name of a stored part, with its length."""
    data = name.encode()
    if len(data) > 0xFFFF:
        raise FrameError(f"a name of {len(data)} bytes is too long: at most 65535")
    return _KEY_LENGTH.pack(len(data)) + data


def encode_pairs(pairs) -> bytes:
    """Returns pairs of bytes and int in the form of STORE and PAIRS."""
    parts = []
    for key, value in pairs:
        if len(key) > MAX_KEY:
            raise FrameError(f"a key of {len(key)} bytes is too long: at most {MAX_KEY}")
        try:
            parts += (_KEY_LENGTH.pack(len(key)), bytes(key), _VALUE.pack(value))
        except struct.error:
            raise FrameError(f"the value {value!r} of the key {key!r} is not in 64 bits") from None
    return b"".join(parts)


def decode_pairs(body: bytes) -> list[tuple[bytes, int]]:
    """Returns the pairs of a body."""
    pairs = []
    at = 0
    while at < len(body):
        start = at + _KEY_LENGTH.size
        if start > len(body):
            raise FrameError("PAIRS: the last pair is cut off")
        end = start + _KEY_LENGTH.unpack_from(body, at)[0]
        at = end + _VALUE.size
        if at > len(body):
            raise FrameError("PAIRS: the last pair is cut off")
        pairs.append((bytes(body[start:end]), _VALUE.unpack_from(body, end)[0]))
    return pairs


def read_exactly(connection, buffer) -> bool:
    """Fills a buffer from a socket. Returns false if the connection ends before."""
    view = memoryview(buffer)
    while view:
        count = connection.recv_into(view)
        if count == 0:
            return False
        view = view[count:]
    return True
