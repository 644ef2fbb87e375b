#!/usr/bin/env python3
"""Agent of all hosts in one process, for tests: speaks the frames, and reduces in Python.

usage: fake_agent.py unix:PATH

Sums of floats are those of the documentation: fixed point in blocks of 256 values, or plain sums
where a block has NaN or infinity. Its text and its reductions are made without the package, so
that a mistake in the package is not made here too.
"""

import array
import dataclasses
import json
import math
import os
import socket
import struct
import sys
import threading

try:
    import numpy
except ImportError:
    numpy = None

HELLO, ERROR, JOIN, JOINED, REDUCE, REDUCED, LEAVE = range(7)
STORE, STORED, COLLECT, PAIRS, COLLECTED, FORGET = range(7, 13)
LANES = 256
SUM_F32, SUM_I32, MAX_I32 = range(3)


@dataclasses.dataclass
class Faults:
    """What goes wrong. Numbers of submissions begin with 0."""

    # First bytes of the agent, in place of its HELLO.
    hello: bytes = None
    protocol: int = 1
    # Seconds before each result.
    delay: float = 0
    # Number of the submission, and the text of the error that all ranks get.
    error: tuple = None
    # Rank that is gone, and the number of the submission at which it is.
    gone: tuple = None
    # Number of the submission at which all connections end without a word.
    ended: int = None
    # PAIRS frames are cut off, or pairs are left out.
    lost_pairs: int = 0
    # Bytes that each result is too long.
    excess: int = 0


def largest_magnitude(vectors):
    """The largest magnitude, as bits of a float."""
    return max((bits & 0x7FFFFFFF for vector in vectors for bits in vector), default=0)


def to_float(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def step_of(scale, ranks):
    """Exponent of the least step with which no sum of as many ranks overflows 32 bits."""
    scale = to_float(scale)
    if not math.isfinite(scale):
        return None
    most = (2**31 - 1) // ranks
    return next((step for step in range(-149, 129) if round(math.ldexp(scale, -step)) <= most),
                None)


def rounded(value):
    """A float of 64 bits as one of 32."""
    return array.array("f", [value])[0]


def sum_of_block(vectors):
    """Adds blocks of floats, given as bits."""
    step = step_of(largest_magnitude(vectors), len(vectors))
    sums = []
    for lane in zip(*vectors):
        values = [to_float(bits) for bits in lane]
        if step is None:
            total = 0.0
            for value in values:
                total += value
            sums.append(rounded(total if total == total else math.nan))
        else:
            total = sum(round(math.ldexp(value, -step)) for value in values)
            sums.append(rounded(math.ldexp(total, step)))
    return sums


def sum_of_floats(inputs):
    """Adds vectors of floats."""
    vectors = [array.array("I", data) for data in inputs]
    sums = array.array("f")
    for start in range(0, len(vectors[0]), LANES):
        sums.extend(sum_of_block([vector[start:start + LANES] for vector in vectors]))
    return sums.tobytes()


def sum_of_floats_by_numpy(inputs):
    """The same with numpy."""
    floats = numpy.stack([numpy.frombuffer(data, "<f4") for data in inputs])
    count = floats.shape[1]
    floats = numpy.pad(floats, ((0, 0), (0, -count % LANES))).reshape(len(inputs), -1, LANES)
    scales = numpy.abs(floats).view("<u4").max(axis=(0, 2))
    steps = {scale: step_of(scale, len(inputs)) for scale in map(int, numpy.unique(scales))}
    of_block = [steps[scale] for scale in map(int, scales)]
    is_plain = numpy.array([step is None for step in of_block], dtype=bool)
    exponents = numpy.array([step or 0 for step in of_block])[:, None]
    with numpy.errstate(all="ignore"):
        floats = floats.astype("<f8")
        fixed = numpy.rint(numpy.ldexp(floats, -exponents)).sum(axis=0)
        sums = numpy.ldexp(fixed, exponents)
        plain = numpy.zeros_like(sums)
        for vector in floats:
            plain += vector
        plain[numpy.isnan(plain)] = numpy.nan
        sums[is_plain] = plain[is_plain]
        sums = sums.astype("<f4")
    # Sums of integers have no negative zero.
    sums[~is_plain] += 0.0
    return sums.reshape(-1)[:count].tobytes()


def reduce(operation, inputs):
    """Reduces vectors as bytes. Sums of integers wrap."""
    if operation == SUM_F32:
        return (sum_of_floats if numpy is None else sum_of_floats_by_numpy)(inputs)
    if numpy is not None:
        integers = numpy.stack([numpy.frombuffer(data, "<i4") for data in inputs])
        if operation == MAX_I32:
            return integers.max(axis=0).tobytes()
        return integers.sum(axis=0, dtype="<i8").astype("<i4").tobytes()
    vectors = zip(*(array.array("i", data) for data in inputs))
    if operation == MAX_I32:
        return array.array("i", map(max, vectors)).tobytes()
    return array.array("I", (sum(lane) & 0xFFFFFFFF for lane in vectors)).tobytes()


class Connection:
    """Connection of an engine."""

    def __init__(self, link):
        self.link = link
        self.lock = threading.Lock()

    def receive(self):
        """The next kind and body; `None` at the end."""
        head = self.exactly(5)
        if head is None:
            return None
        length, kind = struct.unpack(">IB", head)
        body = self.exactly(length - 1)
        return None if body is None else (kind, body)

    def exactly(self, count):
        data = bytearray(count)
        view = memoryview(data)
        while view:
            try:
                got = self.link.recv_into(view)
            except OSError:
                return None
            if got == 0:
                return None
            view = view[got:]
        return bytes(data)

    def send(self, kind, body=b""):
        with self.lock:
            try:
                self.link.sendall(struct.pack(">IB", len(body) + 1, kind) + body)
            except OSError:
                pass

    def end(self):
        try:
            self.link.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Members:
    """A group: its ranks, and the submissions that are not complete."""

    def __init__(self, size):
        self.size = size
        self.condition = threading.Condition()
        self.of_rank = {}
        self.left = set()
        self.numbers = [0] * size
        self.submissions = {}
        self.timers = {}
        self.failure = None

    def fail(self, text):
        """Ends the group with an error on all ranks. The lock is held."""
        if self.failure is None:
            self.failure = text
            for timer in self.timers.values():
                timer.cancel()
            for rank, member in self.of_rank.items():
                if rank not in self.left:
                    member.send(ERROR, text.encode())
                    member.end()
            self.condition.notify_all()


class FakeAgent:
    """Agent at a socket, with faults. A context manager."""

    def __init__(self, path, faults=None):
        self.path = path
        self.faults = faults or Faults()
        self.lock = threading.Lock()
        self.groups = {}
        self.parts = {}
        self.links = []
        self.threads = []
        # Kinds of the frames that came, and hellos of engines.
        self.received = []
        self.hellos = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(64)

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()
        os.unlink(self.path)
        for link in self.links:
            link.end()
        for thread in self.threads:
            thread.join()

    def accept(self):
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            connection = Connection(link)
            thread = threading.Thread(target=self.serve, args=(connection,), daemon=True)
            self.links.append(connection)
            self.threads.append(thread)
            thread.start()

    def serve(self, connection):
        try:
            if self.faults.hello is not None:
                connection.link.sendall(self.faults.hello)
            else:
                hello = {"protocol": self.faults.protocol, "polyplane": "0.1.0",
                         "host": "10.0.1.11", "later": [1]}
                connection.send(HELLO, json.dumps(hello).encode())
            first = connection.receive()
            if first is None:
                return
            self.hellos.append(json.loads(first[1]))
            self.serve_frames(connection)
        finally:
            connection.end()
            connection.link.close()

    def serve_frames(self, connection):
        while True:
            frame = connection.receive()
            if frame is None:
                return
            kind, body = frame
            self.received.append(kind)
            if kind == JOIN:
                self.serve_group(connection, json.loads(body))
                return
            if kind == STORE:
                length = int.from_bytes(body[:2], "big")
                pairs = dict(self.pairs(body[2 + length:]))
                self.parts[body[2:2 + length].decode()] = pairs
                connection.send(STORED, json.dumps({"pairs": len(pairs)}).encode())
            elif kind == COLLECT:
                self.collect(connection, json.loads(body))
            elif kind == FORGET:
                prefix = body.decode()
                self.parts = {name: pairs for name, pairs in self.parts.items()
                              if not name.startswith(prefix)}

    @staticmethod
    def pairs(body):
        at = 0
        while at < len(body):
            length = int.from_bytes(body[at:at + 2], "big")
            key = body[at + 2:at + 2 + length]
            at += 2 + length + 8
            yield key, int.from_bytes(body[at - 8:at], "big", signed=True)

    def collect(self, connection, request):
        combine = {"add": lambda a, b: a + b, "max": max, "min": min}[request["operator"]]
        result = {}
        for mapper in request["mappers"]:
            part = self.parts.get(mapper["part"])
            if part is None:
                text = f"{request['name']}: {mapper['host']} has no part {mapper['part']}"
                connection.send(ERROR, text.encode())
                return
            for key, value in part.items():
                result[key] = combine(result[key], value) if key in result else value
        for key, value in result.items():
            if not -(2**63) <= value < 2**63:
                connection.send(ERROR, f"the value of {key!r} is not in 64 bits".encode())
                return
        items = list(result.items())
        sent = items[self.faults.lost_pairs:]
        for start in range(0, len(sent), 100):
            body = b""
            for key, value in sent[start:start + 100]:
                body += len(key).to_bytes(2, "big") + key + value.to_bytes(8, "big", signed=True)
            connection.send(PAIRS, body)
        end = {"keys": len(items), "switches": ["s1"], "bytes": 1234, "attempts": 1, "retried": 0}
        connection.send(COLLECTED, json.dumps(end).encode())

    def serve_group(self, connection, join):
        name, rank, size, seconds = (join[key] for key in ("group", "rank", "size", "seconds"))
        with self.lock:
            group = self.groups.get(name)
            if group is None or group.failure or rank in group.left:
                # The others of a group that has ended may still be on their way out.
                group = self.groups[name] = Members(size)
        with group.condition:
            if not 0 <= rank < size or size != group.size or rank in group.of_rank:
                has = f"{sorted(group.of_rank)} of {group.size}"
                text = f"rank {rank} of {size} cannot join {name}: it has {has}"
                connection.send(ERROR, text.encode())
                return
            group.of_rank[rank] = connection
            group.condition.notify_all()
            if not group.condition.wait_for(
                    lambda: len(group.of_rank) == size or group.failure, seconds):
                missing = sorted(set(range(size)) - set(group.of_rank))
                group.fail(f"ranks {missing} did not join within {seconds:g} s")
            if group.failure:
                return
            joined = {"switches": ["s1"], "reducer": "10.0.1.11"}
            connection.send(JOINED, json.dumps(joined).encode())
        try:
            self.serve_rank(connection, group, rank, seconds)
        finally:
            with self.lock:
                if self.groups.get(name) is group and (
                        group.failure or len(group.left) == group.size):
                    del self.groups[name]

    def serve_rank(self, connection, group, rank, seconds):
        while True:
            frame = connection.receive()
            with group.condition:
                if frame is None:
                    if rank not in group.left:
                        group.left.add(rank)
                        group.fail(f"rank {rank} has ended its connection")
                    return
                self.received.append(frame[0])
                if group.failure:
                    return
                if frame[0] == LEAVE:
                    group.left.add(rank)
                    return
                self.submit(group, rank, seconds, frame[1])

    def submit(self, group, rank, seconds, body):
        """Takes a submission; the last one of a number has the result sent. The lock is held."""
        number = group.numbers[rank]
        group.numbers[rank] += 1
        faults = self.faults
        if faults.gone == (rank, number):
            group.left.add(rank)
            group.of_rank[rank].end()
            group.fail(f"rank {rank} has ended its connection")
            return
        submission = group.submissions.setdefault(number, {})
        submission[rank] = (body[0], body[4:])
        if len(submission) < group.size:
            if number not in group.timers:
                group.timers[number] = threading.Timer(seconds, self.late, (group, number, seconds))
                group.timers[number].daemon = True
                group.timers[number].start()
            return
        if number in group.timers:
            group.timers.pop(number).cancel()
        if faults.error is not None and faults.error[0] == number:
            group.fail(faults.error[1])
            return
        if faults.ended == number:
            group.failure = "ended"
            for member in group.of_rank.values():
                member.end()
            return
        kinds = {(operation, len(data)) for operation, data in submission.values()}
        if len(kinds) != 1:
            text = ", ".join(f"rank {rank} operation {operation} of {len(data) // 4} values"
                             for rank, (operation, data) in sorted(submission.items()))
            group.fail(f"ranks submit unlike vectors: {text}")
            return
        if faults.delay:
            threading.Event().wait(faults.delay)
        del group.submissions[number]
        operation = kinds.pop()[0]
        result = reduce(operation, [submission[rank][1] for rank in range(group.size)])
        for member in group.of_rank.values():
            member.send(REDUCED, result + bytes(faults.excess))

    @staticmethod
    def late(group, number, seconds):
        with group.condition:
            if number in group.submissions:
                missing = sorted(set(range(group.size)) - set(group.submissions[number]))
                group.fail(f"ranks {missing} did not submit within {seconds:g} s")


def main():
    path = sys.argv[1][len("unix:"):] if sys.argv[1].startswith("unix:") else sys.argv[1]
    with FakeAgent(path):
        print("engines at", path, flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
