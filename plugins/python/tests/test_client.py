"""Client against the fake agent: results, order, and errors that say what to do."""

import array
import math
import os
import random
import struct
import tempfile
import threading
import time
import unittest

import fake_agent
from fake_agent import FakeAgent, Faults
from polyplane_aggregate import Agent, AggregateError, Group, Operation, client


class WithAgent(unittest.TestCase):
    """Tests with a folder for sockets."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "engines")

    def agent(self, **faults):
        agent = FakeAgent(self.path, Faults(**faults))
        agent.__enter__()
        self.addCleanup(agent.__exit__)
        return agent

    def ranks(self, count, run, seconds=30):
        """Runs a function for each rank's group, at once. Returns results or errors, by rank."""
        outcomes = [None] * count

        def of_rank(rank):
            try:
                with Group(self.path, "g", rank, count, seconds=seconds) as group:
                    outcomes[rank] = run(group)
            except Exception as error:
                outcomes[rank] = error

        threads = [threading.Thread(target=of_rank, args=(rank,)) for rank in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertFalse(any(thread.is_alive() for thread in threads), "a rank hangs")
        return outcomes

    def assert_errors(self, outcomes, *texts):
        for rank, outcome in enumerate(outcomes):
            self.assertIsInstance(outcome, AggregateError, f"rank {rank}")
            for text in texts:
                self.assertIn(text, str(outcome), f"rank {rank}")


class Groups(WithAgent):
    def test_every_rank_gets_the_sum(self):
        agent = self.agent()
        inputs = [array.array("f", [rank + 0.5, -rank, 1e30]) for rank in range(3)]
        results = self.ranks(3, lambda group: (group.reduce(inputs[group.rank]), group.switches,
                                               group.reducer, group.host))
        self.assertEqual(len({result[0] for result in results}), 1)
        self.assertEqual(results[0][1:], (["s1"], "10.0.1.11", "10.0.1.11"))
        self.assertEqual(results[0][0], fake_agent.sum_of_floats([v.tobytes() for v in inputs]))
        self.assertEqual(agent.hellos[0]["protocol"], 1)
        self.assertEqual(agent.received.count(fake_agent.LEAVE), 3)

    def test_random_submissions_come_back_in_their_order(self):
        self.agent()
        for seed in range(5):
            random_ = random.Random(seed)
            sizes = [random_.choice((0, 1, 255, 256, 257, 1000)) for _ in range(8)]
            operations = [random_.choice(list(Operation)) for _ in sizes]
            vectors = [[random_.randbytes(4 * size) if operation else
                        array.array("f", (random_.gauss(0, 9) for _ in range(size))).tobytes()
                        for size, operation in zip(sizes, operations)] for _ in range(2)]

            def run(group):
                futures = [group.submit(bytearray(values), operation)
                           for values, operation in zip(vectors[group.rank], operations)]
                return [bytes(future.result(30)) for future in futures]

            results = self.ranks(2, run)
            expected = [fake_agent.reduce(operation, list(inputs)) if inputs[0] else b""
                        for operation, inputs in zip(operations, zip(*vectors))]
            for result in results:
                self.assertEqual(result, expected, f"seed {seed}")

    def test_a_result_may_take_the_place_of_its_values(self):
        self.agent()

        def run(group):
            values = array.array("i", [group.rank, 7])
            self.assertIs(group.submit(values, Operation.SUM_I32, into=values).result(30), values)
            return list(values)

        self.assertEqual(self.ranks(2, run), [[1, 14]] * 2)

    def test_long_vectors_are_sent_in_pieces(self):
        agent = self.agent()
        before = client.PIECE_VALUES
        self.addCleanup(setattr, client, "PIECE_VALUES", before)
        client.PIECE_VALUES = 3
        values = array.array("i", range(10))
        results = self.ranks(2, lambda group: group.reduce(values, Operation.SUM_I32))
        self.assertEqual(list(array.array("i", results[0])), [2 * value for value in values])
        self.assertEqual(agent.received.count(fake_agent.REDUCE), 8)

    def test_submitting_does_not_wait_for_results(self):
        self.agent(delay=0.5)

        def run(group):
            start = time.monotonic()
            futures = [group.submit(bytes(1 << 20), Operation.MAX_I32) for _ in range(4)]
            submitted = time.monotonic() - start
            for future in futures:
                future.result(30)
            return submitted, time.monotonic() - start

        for submitted, ended in self.ranks(2, run):
            self.assertGreater(ended, 2)
            self.assertLess(submitted, ended / 2)

    def test_the_agents_error_is_raised_by_all_that_is_under_way_and_comes(self):
        self.agent(error=(1, "switch s1 is gone: start it again"))

        def run(group):
            futures = [group.submit(bytes(8)) for _ in range(4)]
            futures[0].result(30)
            errors = [str(future.exception(30)) for future in futures[1:]]
            errors.append(str(group.submit(bytes(8)).exception(30)))
            return set(errors)

        for errors in self.ranks(2, run):
            self.assertEqual(errors, {"group g: switch s1 is gone: start it again"})

    def test_a_rank_that_is_gone_is_named_on_all_others(self):
        self.agent(gone=(2, 1))
        outcomes = self.ranks(3, lambda group: [group.reduce(bytes(8)) for _ in range(3)])
        self.assert_errors(outcomes[:2], "rank 2 has ended its connection")
        self.assert_errors(outcomes[2:], "closed the connection", "polyplane aggregate agent")

    def test_a_rank_with_an_exception_is_named_on_all_others(self):
        self.agent()

        def run(group):
            if group.rank == 1:
                raise KeyError("own")
            return group.reduce(bytes(8))

        outcomes = self.ranks(3, run)
        self.assertIsInstance(outcomes[1], KeyError)
        self.assert_errors(outcomes[::2], "rank 1 has ended its connection")

    def test_a_rank_that_does_not_submit_is_named(self):
        self.agent()

        def run(group):
            if group.rank == 0:
                time.sleep(3)
            return group.reduce(bytes(4))

        outcomes = self.ranks(2, run, seconds=1)
        self.assert_errors(outcomes, "ranks [0] did not submit within 1 s")

    def test_unlike_vectors_are_an_error_on_all_ranks(self):
        self.agent()
        outcomes = self.ranks(2, lambda group: group.reduce(bytes(4 + 4 * group.rank)))
        self.assert_errors(outcomes, "rank 0 operation 0 of 1 values, rank 1 operation 0 of 2")

    def test_a_rank_twice_or_missing_is_refused(self):
        self.agent()
        first = threading.Thread(target=self.ranks, args=(1, lambda group: time.sleep(1)))
        first.start()
        time.sleep(0.3)
        with self.assertRaisesRegex(AggregateError, r"group g: rank 0 of 1 cannot join"):
            Group(self.path, "g", 0, 1)
        first.join()
        with self.assertRaisesRegex(AggregateError, r"ranks \[1\] did not join within 1 s"):
            Group(self.path, "other", 0, 2, seconds=0.2)

    def test_after_leaving_nothing_can_be_submitted(self):
        self.agent()

        def run(group):
            group.reduce(bytes(4))
            group.leave()
            group.leave()
            return str(group.submit(bytes(4)).exception(30))

        self.assertEqual(self.ranks(2, run), [f"group g: rank {rank} has left" for rank in (0, 1)])

    def test_a_group_of_the_same_name_works_after_a_failure(self):
        agent = self.agent(error=(0, "no"))
        self.assert_errors(self.ranks(2, lambda group: group.reduce(bytes(4))), "no")
        agent.faults.error = None
        self.assertEqual(self.ranks(2, lambda group: group.reduce(bytes(4))), [bytes(4)] * 2)

    def test_wrong_answers_are_errors(self):
        self.agent(excess=4)
        self.assert_errors(self.ranks(2, lambda group: group.reduce(bytes(4))),
                           "sent a result of 8 bytes, not 4")

    def test_a_connection_that_ends_is_an_error_with_a_remedy(self):
        self.agent(ended=1)
        outcomes = self.ranks(2, lambda group: [group.reduce(bytes(4)) for _ in range(3)])
        self.assert_errors(outcomes, f"the agent at {self.path} closed the connection",
                           f"`polyplane aggregate agent ... --engines unix:{self.path}`")

    def test_what_is_no_vector_is_refused_at_once(self):
        self.agent()

        def run(group):
            for values, into in ((bytes(5), None), (bytes(8), bytearray(4))):
                with self.assertRaises(AggregateError):
                    group.submit(values, into=into)
            return group.reduce(bytes(4))

        self.assertEqual(self.ranks(1, run), [bytes(4)])


class Hello(WithAgent):
    def test_a_missing_agent_is_an_error_with_its_command(self):
        for path in (self.path, "unix:" + self.path):
            with self.assertRaisesRegex(AggregateError, "no agent at .*polyplane aggregate agent"):
                Agent(path)
        with self.assertRaisesRegex(AggregateError, "too long"):
            Agent("/" + "a" * 200)

    def test_another_protocol_is_refused(self):
        self.agent(protocol=2)
        with self.assertRaisesRegex(AggregateError, r"speaks protocol 2.* install the package"):
            Agent(self.path)

    def test_what_is_no_agent_is_named(self):
        cases = ((b"SSH-2.0-OpenSSH_9.2\r\n", "is .* an agent's"), (b"", "closed the connection"),
                 (b"\0\0\0\5\0[1]", "closed the connection"),
                 (b"\0\0\0\4\0[1]", "no JSON object"), (b"\0\0\0\1\6", "LEAVE, not HELLO"),
                 (b"\0\0\0\3\1no", "^no; is"))
        for hello, text in cases:
            self.hello_of(hello, text)

    def hello_of(self, hello, text):
        faults = Faults(hello=hello)
        with self.subTest(hello), FakeAgent(self.path, faults) as agent:
            # It reads a frame and then ends the connection.
            agent.serve_frames = lambda connection: None
            with self.assertRaisesRegex(AggregateError, text):
                Agent(self.path)

    def test_an_agent_without_an_answer_is_named(self):
        before = client.HELLO_SECONDS
        self.addCleanup(setattr, client, "HELLO_SECONDS", before)
        client.HELLO_SECONDS = 0.2
        agent = self.agent(hello=b"")
        agent.serve_frames = lambda connection: connection.receive()
        with self.assertRaisesRegex(AggregateError, "did not answer in 0.2 s"):
            Agent(self.path)


class Parts(WithAgent):
    def test_stored_parts_are_collected_and_forgotten(self):
        self.agent()
        with Agent(self.path) as agent:
            self.assertEqual(agent.store("app-1/0", {b"a": 1, b"b": -5}), 2)
            self.assertEqual(agent.store("app-1/1", [(b"a", 2), (b"", 7)]), 2)
            mappers = [("10.0.1.11", "app-1/0"), ("10.0.1.12", "app-1/1")]
            result = agent.collect("app-1", mappers)
            self.assertEqual(dict(result.pairs), {b"a": 3, b"b": -5, b"": 7})
            self.assertEqual((result.switches, result.bytes, result.attempts), (["s1"], 1234, 1))
            self.assertEqual(dict(agent.collect("x", mappers, operator="max").pairs)[b"a"], 2)
            agent.forget("app-1/1")
            with self.assertRaisesRegex(AggregateError, "10.0.1.12 has no part app-1/1"):
                agent.collect("app-1", mappers)
            # An error of a collection does not end the connection.
            self.assertEqual(len(agent.collect("y", mappers[:1]).pairs), 2)

    def test_random_parts_give_the_sums_of_a_plain_map(self):
        self.agent()
        for seed in range(20):
            random_ = random.Random(seed)
            parts = [{random_.randbytes(random_.randrange(3)): random_.randrange(-9, 9)
                      for _ in range(random_.randrange(300))} for _ in range(3)]
            sums = {}
            with Agent(self.path) as agent:
                for number, part in enumerate(parts):
                    agent.store(str(number), part)
                    for key, value in part.items():
                        sums[key] = sums.get(key, 0) + value
                result = agent.collect("r", [("h", str(number)) for number in range(3)])
            self.assertEqual(dict(result.pairs), sums, f"seed {seed}")

    def test_missing_pairs_are_an_error(self):
        self.agent(lost_pairs=1)
        with Agent(self.path) as agent:
            agent.store("p", {b"a": 1, b"b": 2})
            with self.assertRaisesRegex(AggregateError, "1 pairs of 2 arrived"):
                agent.collect("r", [("h", "p")])

    def test_values_out_of_range_are_refused(self):
        self.agent()
        with Agent(self.path) as agent:
            with self.assertRaisesRegex(AggregateError, "part p: the value .* is not in 64 bits"):
                agent.store("p", {b"a": 2**63})
            agent.store("p", {b"a": 2**63 - 1})
            agent.store("q", {b"a": 1})
            with self.assertRaisesRegex(AggregateError, "b'a' is not in 64 bits"):
                agent.collect("r", [("h", "p"), ("h", "q")])


class FakeSums(unittest.TestCase):
    """The fake agent's own sums, with which others are compared."""

    def test_a_sum_is_within_the_documented_bound(self):
        for seed in range(20):
            random_ = random.Random(seed)
            ranks = random_.randrange(1, 7)
            vectors = [array.array("f", (random_.gauss(0, 1) * 10**random_.randrange(-3, 3)
                                         for _ in range(300))) for _ in range(ranks)]
            sums = array.array("f", fake_agent.sum_of_floats([v.tobytes() for v in vectors]))
            for start in (0, 256):
                block = [vector[start:start + 256] for vector in vectors]
                largest = max(abs(value) for vector in block for value in vector)
                bound = ranks / 2 * (ranks * largest / 2**29)
                for total, lane in zip(sums[start:start + 256], zip(*block)):
                    exact = math.fsum(lane)
                    self.assertLessEqual(abs(total - exact), bound + abs(exact) * 2**-24)

    def test_nan_and_infinity_are_those_of_a_plain_sum(self):
        inf, nan = math.inf, math.nan
        lanes = ((1.5, 2.5), (inf, 1.0), (inf, -inf), (nan, 1.0), (3e38, 3e38), (-inf, 0.0))
        inputs = [array.array("f", values).tobytes() for values in zip(*lanes)]
        sums = array.array("f", fake_agent.sum_of_floats(inputs))
        expected = ["4.0", "inf", "nan", "nan", "inf", "-inf"]
        self.assertEqual([str(value) for value in sums], expected)

    @unittest.skipIf(fake_agent.numpy is None, "numpy is not installed")
    def test_sums_by_numpy_have_the_same_bits(self):
        for seed in range(100):
            random_ = random.Random(seed)
            count = random_.choice((1, 255, 256, 257, 700))
            special = random_.choice((0, 0, 0.01))

            def value():
                if random_.random() < special:
                    return random_.choice((math.inf, -math.inf, math.nan, 3.4e38))
                return random_.choice((0.0, -0.0, random_.gauss(0, 1), 1e-44, 1e-30))

            inputs = [array.array("f", (value() for _ in range(count))).tobytes()
                      for _ in range(random_.randrange(1, 6))]
            here = fake_agent.sum_of_floats(inputs)
            there = fake_agent.sum_of_floats_by_numpy(inputs)
            self.assertEqual(here, there, f"seed {seed}")

    def test_sums_of_integers_wrap(self):
        inputs = [struct.pack("<2i", 2**31 - 1, -5), struct.pack("<2i", 1, 3)]
        self.assertEqual(struct.unpack("<2i", fake_agent.reduce(1, inputs)), (-(2**31), -2))
        self.assertEqual(struct.unpack("<2i", fake_agent.reduce(2, inputs)), (2**31 - 1, 3))


if __name__ == "__main__":
    unittest.main()
