"""The communication hook of DDP against the fake agent, beside gloo."""

import os
import time
import unittest

from fake_agent import Faults
from ranks import is_current, initialize, needs_torch, run_ranks, torch, train

if torch is not None:
    import polyplane_aggregate.torch as network

RANKS = 3


def train_both(rank, size, path):
    initialize("gloo", rank, size, path)
    with network.State(path, "ddp", rank, size) as state:
        hooked = train(rank, lambda model: model.register_comm_hook(state, network.hook))
        again = train(rank, lambda model: model.register_comm_hook(state, network.hook))
        return train(rank), hooked, again, state.report()


def buckets(rank, size, path, dtype, fallback):
    """One step of a model with parameters of some type: what its gradients are and how."""
    initialize("gloo", rank, size, path)
    model = torch.nn.Linear(3, 2, bias=False).to(dtype)
    model.weight.data.fill_(1)
    model = torch.nn.parallel.DistributedDataParallel(model)
    with network.State(path, "ddp", rank, size, fallback) as state:
        model.register_comm_hook(state, network.hook)
        inputs = torch.full((1, 3), float(rank), dtype=torch.float32).to(dtype)
        model(inputs).sum().backward()
        gradient = model.module.weight.grad
        return gradient.float().tolist(), str(gradient.dtype), dict(state.counts)


def fail(rank, size, path, steps=4):
    """Trains until the group fails. Returns the error, and the time it took."""
    initialize("gloo", rank, size, path)
    start = time.monotonic()
    state = network.State(path, "ddp", rank, size, seconds=5)
    try:
        train(rank, lambda model: model.register_comm_hook(state, network.hook), steps)
    except RuntimeError as error:
        return str(error), time.monotonic() - start
    finally:
        state.group.close()
    return "no error", 0


def die(rank, size, path):
    """Rank 1 ends in the second step, without a word."""
    if rank != 1:
        return fail(rank, size, path)
    initialize("gloo", rank, size, path)
    state = network.State(path, "ddp", rank, size, seconds=5)
    train(rank, lambda model: model.register_comm_hook(state, network.hook), 2)
    os._exit(9)


def start(rank, size, path, *options):
    network.State(path, "ddp", rank, size, *options)


@needs_torch
class Hook(unittest.TestCase):
    def test_losses_are_gloos_and_weights_the_same_bits_on_all_ranks(self):
        outcomes = run_ranks(RANKS, train_both)
        for rank, (own, hooked, again, report) in enumerate(outcomes):
            for step, (a, b) in enumerate(zip(own[0], hooked[0])):
                self.assertLessEqual(abs(a - b), 0.01 * abs(a), f"rank {rank}, step {step}")
            self.assertLess(hooked[0][-1], hooked[0][0])
            self.assertEqual(hooked, again, "two runs differ")
            self.assertRegex(report, r"^network: \d\d+$")
        self.assertEqual(len({hooked[1] for _, hooked, _, _ in outcomes}), 1)

    def test_floats_are_averaged_by_the_network_and_the_rest_by_gloo(self):
        cases = (("float32", "auto", "network"), ("bfloat16", "auto", "network"),
                 ("float64", "auto", "avg of float64"), ("float32", "always", "fallback is always"))
        for dtype, fallback, counted in cases:
            if dtype == "bfloat16" and not is_current:
                # gloo cannot send the parameters when the model is made.
                continue
            with self.subTest(dtype=dtype, fallback=fallback):
                outcomes = run_ranks(RANKS, buckets, getattr(torch, dtype), fallback,
                                     agent=fallback != "always")
                expected = ([[1.0] * 3] * 2, f"torch.{dtype}", {counted: 1})
                self.assertEqual(outcomes, [expected] * RANKS)

    def test_without_fallback_what_the_network_cannot_do_is_an_error(self):
        for outcome in run_ranks(RANKS, buckets, torch.float64, "never"):
            self.assertIn("the network does not do: bucket 0: avg of float64", str(outcome))

    def test_an_error_of_the_network_is_raised_on_all_ranks(self):
        for text, _ in run_ranks(RANKS, fail, faults=Faults(error=(2, "switch s1 has restarted"))):
            self.assertIn("group ddp: switch s1 has restarted", text)

    def test_a_rank_that_dies_is_named_on_all_others(self):
        outcomes = run_ranks(RANKS, die, agent=True)
        for text, seconds in outcomes[::2]:
            self.assertIn("rank 1", text)
            self.assertLess(seconds, 60)

    def test_slow_answers_change_nothing(self):
        outcomes = run_ranks(2, train_both, faults=Faults(delay=0.01))
        self.assertEqual(outcomes[0][1][1], outcomes[1][1][1])

    def test_bad_starts_are_errors_that_say_what_to_do(self):
        cases = (((), "polyplane aggregate agent"), (("sometimes",), "always, auto, never"))
        for options, text in cases:
            (outcome,) = run_ranks(1, start, *options, agent=False)
            self.assertIn(text, outcome)

    @unittest.skipUnless(torch is not None and torch.cuda.is_available(), "no GPU is here")
    def test_gradients_of_a_gpu_go_through_the_host(self):
        self.assertEqual(*run_ranks(2, on_gpu))


def on_gpu(rank, size, path):
    initialize("gloo", rank, size, path)
    torch.manual_seed(7)
    model = torch.nn.Linear(300, 300).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model)
    with network.State(path, "ddp", rank, size, "never") as state:
        model.register_comm_hook(state, network.hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(10):
            generator = torch.Generator().manual_seed(10 * step + rank)
            model(torch.randn(8, 300, generator=generator).cuda()).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return [parameter.tolist() for parameter in model.cpu().parameters()]


if __name__ == "__main__":
    unittest.main()
