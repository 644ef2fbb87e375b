"""Frames as bytes: those documented, random ones, and damaged ones."""

import random
import socket
import struct
import unittest

import fake_agent
from polyplane_aggregate import frames
from polyplane_aggregate.frames import FrameError, Kind, Operation


def random_pairs(random_):
    key = lambda: random_.randbytes(random_.choice((0, 1, 7, 300)))
    value = lambda: random_.choice((0, -1, 2**63 - 1, -(2**63), random_.randrange(2**40)))
    return [(key(), value()) for _ in range(random_.randrange(20))]


class Frames(unittest.TestCase):
    def test_frames_are_the_documented_bytes(self):
        self.assertEqual(frames.frame(Kind.LEAVE).hex(), "0000000106")
        self.assertEqual(frames.frame(Kind.FORGET, b"app-1/").hex(), "000000070c6170702d312f")
        self.assertEqual(frames.reduce_head(Operation.MAX_I32, 8).hex(), "0000000d0402000000")
        self.assertEqual(frames.json_frame(Kind.HELLO, {"protocol": 1}),
                         b'\x00\x00\x00\x10\x00{"protocol": 1}')
        self.assertEqual(frames.encode_name("a/b").hex(), "0003612f62")
        self.assertEqual(frames.encode_pairs([(b"a", -2)]).hex(), "000161fffffffffffffffe")

    def test_random_pairs_come_back_the_same(self):
        for seed in range(300):
            pairs = random_pairs(random.Random(seed))
            data = frames.encode_pairs(pairs)
            with self.subTest(seed=seed):
                self.assertEqual(frames.decode_pairs(data), pairs)
                self.assertEqual(list(fake_agent.FakeAgent.pairs(data)), pairs)

    def test_random_bytes_are_parsed_or_refused(self):
        parsers = (lambda data: frames.parse_head(data[:5].ljust(5, b"\0")), frames.decode_pairs,
                   lambda data: frames.parse_json(Kind.JOINED, data))
        for seed in range(2000):
            random_ = random.Random(seed)
            if seed % 2:
                data = random_.randbytes(random_.randrange(40))
            else:
                data = bytearray(frames.encode_pairs(random_pairs(random_))) or bytearray(1)
                for _ in range(random_.randrange(3)):
                    data[random_.randrange(len(data))] = random_.randrange(256)
                data = bytes(data[:random_.randrange(len(data) + 1)])
            for parse in parsers:
                with self.subTest(seed=seed):
                    try:
                        parse(data)
                    except FrameError:
                        pass

    def test_a_stream_cut_anywhere_gives_the_same_frames(self):
        for seed in range(50):
            random_ = random.Random(seed)
            sent = [(random_.choice(list(Kind)), random_.randbytes(random_.randrange(30)))
                    for _ in range(random_.randrange(1, 8))]
            data = b"".join(frames.frame(kind, body) for kind, body in sent)
            here, there = socket.socketpair()
            with self.subTest(seed=seed), here, there:
                received = []
                at = 0
                while len(received) < len(sent):
                    # Only what is needed is sent before each read.
                    head = bytearray(5)
                    body_length = len(sent[len(received)][1])
                    cut = random_.randrange(5 + body_length + 1)
                    there.sendall(data[at:at + cut])
                    there.sendall(data[at + cut:at + 5 + body_length])
                    at += 5 + body_length
                    self.assertTrue(frames.read_exactly(here, head))
                    kind, length = frames.parse_head(head)
                    body = bytearray(length)
                    self.assertTrue(frames.read_exactly(here, body))
                    received.append((kind, bytes(body)))
                self.assertEqual(received, sent)
                there.close()
                self.assertFalse(frames.read_exactly(here, bytearray(1)))

    def test_what_fits_in_no_frame_is_refused(self):
        refused = (
            lambda: frames.head(Kind.STORE, frames.MAX_FRAME),
            lambda: frames.reduce_head(Operation.SUM_F32, 6),
            lambda: frames.parse_head(struct.pack(">IB", 0, 0)),
            lambda: frames.parse_head(struct.pack(">IB", frames.MAX_FRAME + 1, 0)),
            lambda: frames.parse_head(struct.pack(">IB", 1, 13)),
            lambda: frames.encode_pairs([(b"a" * 65536, 1)]),
            lambda: frames.encode_pairs([(b"a", 2**63)]),
            lambda: frames.encode_pairs([(b"a", 1.5)]),
            lambda: frames.encode_name("a" * 65536),
            lambda: frames.parse_json(Kind.JOINED, b"[]"),
            lambda: frames.parse_json(Kind.JOINED, b"\xff"),
            lambda: frames.parse_json(Kind.JOINED, b"[" * 100000),
        )
        for number, make in enumerate(refused):
            with self.subTest(number), self.assertRaises(FrameError):
                make()


if __name__ == "__main__":
    unittest.main()
