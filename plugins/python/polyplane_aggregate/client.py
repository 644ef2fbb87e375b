"""Connections to the agent of a host: a group of ranks, and stored parts."""

from __future__ import annotations

import collections
import concurrent.futures
import errno
import math
import socket
import threading
import typing

from . import frames
from .frames import Kind, Operation
from .version import VERSION

# Seconds that the agent has for its HELLO.
HELLO_SECONDS = 10.0

# Seconds that the agent has beside the time that it waits for other ranks.
GRACE_SECONDS = 30.0

# Seconds that the agent has to end the connection of a rank that leaves.
LEAVE_SECONDS = 5.0

# Values of one REDUCE frame. Longer vectors are sent as several.
PIECE_VALUES = 1 << 26


class AggregateError(RuntimeError):
    """Failure of a reduction, of the agent, or of the connection to it."""


class Collected(typing.NamedTuple):
    """Result of `Agent.collect`."""

    pairs: list
    switches: list
    bytes: int
    attempts: int
    retried: int


def socket_path(path: str) -> str:
    """Returns the path of a socket, which may be written with `unix:` before it."""
    return path[len("unix:"):] if path.startswith("unix:") else path


class Agent:
    """Connection to the agent of this host. Not for several threads at once."""

    def __init__(self, path: str):
        """Connects to the agent's socket for engines, and exchanges HELLO."""
        self.path = socket_path(path)
        self.host = ""
        self._socket = self._connect()
        try:
            self._hello()
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the connection."""
        self._socket.close()

    def store(self, name: str, pairs) -> int:
        """Stores pairs of bytes and int under a name. Returns their number. Each key comes once."""
        if isinstance(pairs, dict):
            pairs = pairs.items()
        try:
            body = frames.encode_name(name) + frames.encode_pairs(pairs)
            frame = frames.frame(Kind.STORE, body)
        except frames.FrameError as error:
            raise AggregateError(f"part {name}: {error}") from None
        self._send(frame)
        return self._answer(Kind.STORED)["pairs"]

    def collect(self, name: str, mappers, operator: str = "add", keys: int = 16,
                values: str = "i64", slots: int | None = None,
                tiers: int | None = None) -> Collected:
        """Reduces stored parts. `mappers` are pairs of an agent's host and the part's name."""
        request = {
            "name": name, "operator": operator, "keys": keys, "values": values,
            "slots": slots, "tiers": tiers,
            "mappers": [{"host": host, "part": part} for host, part in mappers],
        }
        request = {key: value for key, value in request.items() if value is not None}
        self._send(frames.json_frame(Kind.COLLECT, request))
        pairs = []
        while True:
            kind, body = self._receive()
            if kind == Kind.PAIRS:
                pairs += self._parsed(frames.decode_pairs, body)
                continue
            end = self._members(kind, body, Kind.COLLECTED)
            if end["keys"] != len(pairs):
                raise AggregateError(
                    f"{name}: {len(pairs)} pairs of {end['keys']} arrived from the agent at "
                    f"{self.path}: the result is not complete")
            return Collected(pairs, end.get("switches", []), end.get("bytes", 0),
                             end.get("attempts", 1), end.get("retried", 0))

    def forget(self, prefix: str):
        """Drops all stored parts of which the name begins with a prefix."""
        self._send(frames.frame(Kind.FORGET, prefix.encode()))

    def _connect(self):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(HELLO_SECONDS)
            connection.connect(self.path)
        except OSError as error:
            connection.close()
            if error.errno in (errno.ENOENT, errno.ECONNREFUSED):
                raise AggregateError(
                    f"no agent at {self.path} ({error.strerror}): {self._remedy()}") from None
            raise AggregateError(f"{self.path}: {error}") from None
        return connection

    def _remedy(self) -> str:
        return ("start it with `polyplane aggregate agent ... "
                f"--engines unix:{self.path}` on this host")

    def _hello(self):
        own = {"protocol": frames.PROTOCOL, "engine": f"python {VERSION}"}
        self._send(frames.json_frame(Kind.HELLO, own))
        try:
            kind, body = self._receive()
        except AggregateError as error:
            raise AggregateError(f"{error}; is {self.path} an agent's `--engines`?") from None
        hello = self._members(kind, body, Kind.HELLO)
        protocol = hello.get("protocol")
        if protocol != frames.PROTOCOL:
            raise AggregateError(
                f"the agent at {self.path} (polyplane {hello.get('polyplane')}) speaks protocol "
                f"{protocol}, polyplane-aggregate {VERSION} protocol {frames.PROTOCOL}: "
                "install the package of the agent's version")
        self.host = str(hello.get("host", ""))
        self._socket.settimeout(None)

    def _send(self, frame: bytes):
        try:
            self._socket.sendall(frame)
        except OSError:
            # The reason may be in an ERROR frame that was not read yet.
            self._receive()
            raise self._closed() from None

    def _receive(self):
        """Returns kind and body of the next frame. An ERROR frame is raised."""
        kind, body = self._read()
        if kind == Kind.ERROR:
            raise AggregateError(body.decode(errors="replace"))
        return kind, body

    def _read(self, room=None):
        """Returns kind and body of the next frame. `room(kind, length)` is the buffer to fill."""
        head = bytearray(5)
        try:
            if not frames.read_exactly(self._socket, head):
                raise self._closed()
            kind, length = self._parsed(frames.parse_head, head)
            body = room and room(kind, length)
            if body is None:
                body = bytearray(length)
            if not frames.read_exactly(self._socket, body):
                raise self._closed()
        except socket.timeout:
            raise AggregateError(
                f"the agent at {self.path} did not answer in {self._socket.gettimeout():g} s"
            ) from None
        except OSError:
            raise self._closed() from None
        return kind, body

    def _answer(self, expected: Kind) -> dict:
        return self._members(*self._receive(), expected)

    def _members(self, kind: Kind, body, expected: Kind) -> dict:
        if kind != expected:
            raise AggregateError(f"the agent at {self.path} sent {kind.name}, not {expected.name}")
        return self._parsed(lambda body: frames.parse_json(kind, body), body)

    def _parsed(self, parse, data):
        try:
            return parse(data)
        except frames.FrameError as error:
            raise AggregateError(f"{self.path} sent {error}") from None

    def _closed(self) -> AggregateError:
        return AggregateError(
            f"the agent at {self.path} closed the connection: see its log; if it has ended, "
            + self._remedy())


class _Piece(typing.NamedTuple):
    """Part of a vector that is one REDUCE frame. The last one completes the future."""

    operation: Operation
    values: memoryview
    into: memoryview
    ready: typing.Optional[typing.Callable]
    future: typing.Optional[concurrent.futures.Future]
    result: object


class Group(Agent):
    """Membership of a rank in a group: vectors are reduced over all ranks, in order.

    Submissions may come from several threads. Each rank submits the same lengths and operations
    in the same order. After a failure each call raises it again.
    """

    def __init__(self, path: str, name: str, rank: int, size: int, slots: int | None = None,
                 tiers: int | None = None, seconds: float = 300):
        """Joins; returns as soon as all ranks have."""
        super().__init__(path)
        self.name = name
        self.rank = rank
        self.size = size
        join = {"group": name, "rank": rank, "size": size, "slots": slots, "tiers": tiers,
                "seconds": math.ceil(seconds)}
        join = {key: value for key, value in join.items() if value is not None}
        try:
            self._socket.settimeout(seconds + GRACE_SECONDS)
            self._send(frames.json_frame(Kind.JOIN, join))
            joined = self._answer(Kind.JOINED)
            self._socket.settimeout(None)
        except AggregateError as error:
            self._socket.close()
            raise AggregateError(self._named(error)) from None
        except BaseException:
            self._socket.close()
            raise
        self.switches = joined.get("switches", [])
        self.reducer = joined.get("reducer", "")
        self._condition = threading.Condition()
        self._failure: AggregateError | None = None
        self._is_leaving = False
        self._last: concurrent.futures.Future | None = None
        self._unsent: collections.deque = collections.deque()
        # Pieces that are sent: results come in their order.
        self._pending: collections.deque = collections.deque()
        self._writer = threading.Thread(target=self._write_all, daemon=True)
        self._reader = threading.Thread(target=self._read_all, daemon=True)
        self._writer.start()
        self._reader.start()

    def __exit__(self, kind, *_):
        if kind is None:
            self.leave()
        else:
            self.close()

    def reduce(self, values, operation: Operation = Operation.SUM_F32) -> bytes:
        """Reduces values of 4 bytes each, little-endian, over all ranks."""
        return bytes(self.submit(values, operation).result())

    def submit(self, values, operation: Operation = Operation.SUM_F32, into=None,
               ready=None) -> concurrent.futures.Future:
        """Begins a reduction. The future has `into`, which may be `values`, or a bytearray.

        `values` must not change before the result is there. `ready`, if given, is called on the
        thread that sends, before the values are read.
        """
        future: concurrent.futures.Future = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        view = memoryview(values).cast("B")
        if len(view) % 4:
            raise AggregateError(f"{len(view)} bytes are no vector: a value has 4 bytes")
        result = bytearray(len(view)) if into is None else into
        target = memoryview(result).cast("B")
        if len(target) != len(view):
            raise AggregateError(f"{len(view)} bytes do not fit in {len(target)}")
        pieces = self._pieces(operation, view, target, ready, future, result)
        with self._condition:
            failure = self._failure
            if failure is None and pieces:
                self._last = future
                self._unsent.extend(pieces)
                self._condition.notify()
                return future
        if failure is not None:
            future.set_exception(failure)
        else:
            future.set_result(result)
        return future

    def leave(self):
        """Ends the membership after all that was submitted; no failure for the other ranks."""
        if self._last is not None:
            concurrent.futures.wait([self._last])
        with self._condition:
            self._is_leaving = True
            self._condition.notify()
        self._writer.join()
        # The agent ends the connection when it has taken notice.
        self._shut(socket.SHUT_WR)
        self._reader.join(LEAVE_SECONDS)
        self._end()

    def close(self):
        """Ends the connection at once. For the other ranks this is a failure of this rank."""
        self._end()

    def _end(self):
        self._fail(f"rank {self.rank} has closed its connection")
        self._shut()
        for thread in (self._writer, self._reader):
            if thread is not threading.current_thread():
                thread.join()
        self._socket.close()

    @staticmethod
    def _pieces(operation, view, target, ready, future, result) -> list:
        pieces = []
        for start in range(0, len(view), 4 * PIECE_VALUES):
            end = start + 4 * PIECE_VALUES
            is_last = end >= len(view)
            piece = _Piece(operation, view[start:end], target[start:end],
                           ready if start == 0 else None, future if is_last else None, result)
            pieces.append(piece)
        return pieces

    def _write_all(self):
        while True:
            with self._condition:
                while not (self._unsent or self._failure or self._is_leaving):
                    self._condition.wait()
                if self._failure is not None:
                    return
                if not self._unsent:
                    break
                piece = self._unsent.popleft()
                self._pending.append(piece)
            try:
                if piece.ready is not None:
                    piece.ready()
            except Exception as error:  # whatever the caller's code raises
                self._fail(f"values of rank {self.rank}: {error}")
                self._shut()
                return
            self._try_to_send(frames.reduce_head(piece.operation, len(piece.values)))
            self._try_to_send(piece.values)
        self._try_to_send(frames.frame(Kind.LEAVE))

    def _try_to_send(self, data):
        """Sends. A failure is left to the reading thread, which sees the reason."""
        try:
            self._socket.sendall(data)
        except OSError:
            pass

    def _shut(self, how=socket.SHUT_RDWR):
        """Ends the connection or a direction of it, which wakes who waits for it."""
        try:
            self._socket.shutdown(how)
        except OSError:
            pass

    def _read_all(self):
        try:
            while True:
                kind, body = self._read(self._room)
                if kind == Kind.ERROR:
                    raise AggregateError(body.decode(errors="replace"))
                if kind != Kind.REDUCED:
                    raise AggregateError(f"the agent at {self.path} sent {kind.name}")
                with self._condition:
                    piece = self._pending.popleft() if self._pending else None
                if piece is not None and piece.future is not None:
                    piece.future.set_result(piece.result)
        except AggregateError as error:
            self._fail(str(error))
        except Exception as error:  # a defect must not leave futures open
            self._fail(f"{type(error).__name__}: {error}")
        self._shut()

    def _room(self, kind: Kind, length: int):
        """Returns the buffer for the body of a frame."""
        if kind != Kind.REDUCED:
            return None
        pending = self._pending
        expected = len(pending[0].into) if pending else None
        if expected != length:
            raise AggregateError(
                f"the agent at {self.path} sent a result of {length} bytes, not {expected}")
        return pending[0].into

    def _fail(self, why: str):
        """Fails all that is under way, and all that comes, with the first reason."""
        with self._condition:
            if self._failure is None:
                if self._is_leaving:
                    # The agent ends the connection of a rank that leaves.
                    why = f"rank {self.rank} has left"
                self._failure = AggregateError(self._named(why))
            pieces = [*self._pending, *self._unsent]
            self._pending, self._unsent = collections.deque(), collections.deque()
            self._condition.notify()
        for piece in pieces:
            if piece.future is not None:
                piece.future.set_exception(self._failure)

    def _named(self, text) -> str:
        """Returns a text with the group's name, which those of the master have already."""
        name = f"group {self.name}: "
        return name + str(text).removeprefix(name)
