"""The process group `polyplane` against the fake agent, beside gloo."""

import datetime
import math
import os
import subprocess
import sys
import tempfile
import unittest

from fake_agent import FakeAgent, Faults
from ranks import dist, initialize, is_current, needs_torch, run_ranks, torch, train

if torch is not None:
    import polyplane_aggregate.torch

RANKS = 3
HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(HERE)

needs_current_torch = unittest.skipUnless(is_current, "torch 2 is not installed")


def begin(rank, size, path, **environment):
    """Creates the group of all ranks, and one of gloo alone to compare with."""
    os.environ.update({"POLYPLANE_ENGINE": f"unix:{path}", "POLYPLANE_GROUP": "all", **environment})
    initialize("polyplane", rank, size, path)
    return dist.new_group(backend="gloo")


def made(rank, dtype, shape=(7, 100)):
    generator = torch.Generator().manual_seed(rank)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    # Of all sizes: sums wrap.
    least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    return torch.randint(least, most, shape, generator=generator).to(dtype)


def all_reduce_everything(rank, size, path):
    """Compares reductions with gloo's. Returns differences, and what was counted."""
    gloo = begin(rank, size, path)
    ops = dist.ReduceOp
    floats = (torch.float32, torch.float16, torch.bfloat16)
    integers = (torch.int32, torch.int8, torch.uint8, torch.int64)
    wrong = []
    for dtype in (*floats, *integers, torch.float64):
        for op in (ops.SUM, ops.MIN, ops.MAX):
            own, theirs = made(rank, dtype), made(rank, dtype)
            dist.all_reduce(own, op)
            dist.all_reduce(theirs, op, gloo)
            # gloo rounds sums of short floats after each term.
            tolerance = {torch.float16: 4e-3, torch.bfloat16: 4e-2}.get(dtype, 1e-6)
            exact = op != ops.SUM or not dtype.is_floating_point
            same = torch.equal(own, theirs) if exact else torch.allclose(
                own.float(), theirs.float(), tolerance, tolerance)
            if not same:
                wrong.append(f"{op} of {dtype}")
    # Tensors that are no one piece of memory, work that is under way, averages.
    strided = made(rank, torch.float32).t()[::2]
    expected = strided.contiguous()
    dist.all_reduce(strided, ops.AVG)
    dist.all_reduce(expected, group=gloo)
    if not torch.allclose(strided, expected / size, 1e-6, 1e-6):
        wrong.append("average")
    several = [torch.full((1000,), float(number)) for number in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in several]
    for number, (tensor, work) in enumerate(zip(several, works)):
        work.wait(datetime.timedelta(seconds=60))
        if not torch.equal(tensor, torch.full((1000,), 3.0 * number)):
            wrong.append(f"work {number}")
    average = torch.tensor([7 + rank], dtype=torch.int32)
    dist.all_reduce(average, ops.AVG)
    if average.item() != 8:
        wrong.append("average of integers")
    return wrong, dict(dist.group.WORLD.counts)


def with_nan(rank, size, path, fallback):
    """NaN and infinities: what comes out, and what comes out of gloo."""
    gloo = begin(rank, size, path, POLYPLANE_FALLBACK=fallback)
    nan, inf = math.nan, math.inf
    rows = ([1.0, nan, -1.0, inf, nan], [nan, 2.0, -inf, -inf, nan], [0.5, 0.0, nan, 1.0, nan])
    outcomes = []
    for op in (dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.SUM):
        own, theirs = torch.tensor(rows[rank]), torch.tensor(rows[rank])
        dist.all_reduce(own, op)
        dist.all_reduce(theirs, op, gloo)
        outcomes.append((str(own.tolist()), str(theirs.tolist())))
    no_nan = torch.tensor([float(rank), -float(rank), -inf if rank else inf])
    dist.all_reduce(no_nan, dist.ReduceOp.MIN)
    return outcomes, no_nan.tolist(), dist.group.WORLD.report()


def everything_else(rank, size, path):
    """Operations that gloo does."""
    begin(rank, size, path)
    found = {}
    tensor = torch.tensor([rank])
    dist.broadcast(tensor, 2)
    found["broadcast"] = tensor.item()
    dist.barrier()
    gathered = [torch.zeros(1) for _ in range(size)]
    dist.all_gather(gathered, torch.tensor([float(rank)]))
    found["all_gather"] = torch.cat(gathered).tolist()
    flat = torch.zeros(size)
    dist.all_gather_into_tensor(flat, torch.tensor([float(rank)]))
    found["all_gather_into_tensor"] = flat.tolist()
    tensor = torch.zeros(1)
    dist.reduce_scatter(tensor, [torch.ones(1) for _ in range(size)])
    found["reduce_scatter"] = tensor.item()
    tensor = torch.ones(1)
    dist.reduce(tensor, 0)
    found["reduce"] = rank or tensor.item()
    if rank == 0:
        dist.send(torch.tensor([5.0]), 1)
    elif rank == 1:
        dist.recv(tensor, 0)
    found["recv"] = tensor.item() if rank == 1 else None
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    found["objects"] = objects
    some = dist.new_group([0, 1])
    tensor = torch.ones(1)
    if rank < 2:
        dist.all_reduce(tensor, group=some)
        found["some"] = tensor.item(), some.report()
    tensor = torch.ones(1)
    dist.all_reduce(tensor, dist.ReduceOp.PRODUCT)
    found["product"] = tensor.item()
    found["name"] = dist.get_backend()
    dist.destroy_process_group()
    return found


def train_both(rank, size, path):
    begin(rank, size, path)
    own = train(rank)
    report = dist.group.WORLD.report()
    dist.destroy_process_group()
    initialize("gloo", rank, size, path)
    return own, train(rank), report


def reduce_until_error(rank, size, path, *environment):
    begin(rank, size, path, **dict(environment))
    try:
        for _ in range(4):
            dist.all_reduce(torch.ones(3))
            dist.all_reduce(torch.ones(3, dtype=torch.float64))
    except RuntimeError as error:
        return str(error)
    return "no error"


def train_until_error(rank, size, path):
    begin(rank, size, path)
    try:
        train(rank)
    except RuntimeError as error:
        return str(error)
    return "no error"


def fail_to_start(rank, size, path, *environment):
    begin(rank, size, path, **dict(environment))


@needs_torch
class OldTorch(unittest.TestCase):
    @unittest.skipIf(is_current, "torch is 2 or later")
    def test_an_old_torch_is_referred_to_the_hook(self):
        for outcome in run_ranks(1, fail_to_start):
            self.assertRegex(outcome, "needs torch 2.1, .*register_comm_hook")


@needs_current_torch
class Backend(unittest.TestCase):
    def test_all_reduce_gives_what_gloo_gives(self):
        for wrong, counts in run_ranks(RANKS, all_reduce_everything):
            self.assertEqual(wrong, [])
            self.assertEqual(counts["network"], 18 + 22)
            names = {name for name in counts if " of " in name}
            self.assertEqual(names, {f"{op} of {dtype}" for op in ("sum", "min", "max")
                                     for dtype in ("int64", "float64")})

    def test_nan_and_infinity_are_gloos(self):
        for outcomes, no_nan, report in run_ranks(RANKS, with_nan, "auto"):
            for own, theirs in outcomes:
                self.assertEqual(own, theirs)
            self.assertEqual(no_nan, [0.0, -2.0, -math.inf])
            self.assertIn("NaN in a minimum or maximum: 2", report)

    def test_nan_in_a_maximum_without_fallback_is_an_error(self):
        for outcome in run_ranks(RANKS, with_nan, "never"):
            self.assertIn("NaN in a minimum or maximum of floats", outcome)

    def test_everything_else_is_done_by_gloo(self):
        for rank, found in enumerate(run_ranks(RANKS, everything_else)):
            self.assertEqual(found.pop("some", None), None if rank == 2 else
                             (2.0, "network: 0; fallback, group of some ranks: 1"))
            self.assertEqual(found, {
                "broadcast": 2, "all_gather": [0.0, 1.0, 2.0],
                "all_gather_into_tensor": [0.0, 1.0, 2.0], "reduce_scatter": 3.0,
                "reduce": rank or 3.0, "recv": 5.0 if rank == 1 else None,
                "objects": [{"rank": 0}, {"rank": 1}, {"rank": 2}], "product": 1.0,
                "name": "polyplane"})

    def test_losses_are_gloos_and_weights_the_same_bits_on_all_ranks(self):
        outcomes = run_ranks(RANKS, train_both)
        for rank, (own, gloos, report) in enumerate(outcomes):
            for step, (a, b) in enumerate(zip(own[0], gloos[0])):
                self.assertLessEqual(abs(a - b), 0.01 * abs(b), f"rank {rank}, step {step}")
            self.assertRegex(report, r"^network: \d\d+; fallback, ")
        self.assertEqual(len({own[1] for own, _, _ in outcomes}), 1)

    def test_an_error_of_the_network_is_raised_on_all_ranks(self):
        faults = Faults(error=(2, "rank 2 at 10.0.1.13 is gone"))
        for run in (reduce_until_error, train_until_error):
            for outcome in run_ranks(RANKS, run, faults=faults):
                self.assertIn("group all: rank 2 at 10.0.1.13 is gone", outcome)

    def test_without_fallback_what_the_network_cannot_do_is_an_error(self):
        never = ("POLYPLANE_FALLBACK", "never")
        for outcome in run_ranks(RANKS, reduce_until_error, never):
            self.assertIn("the network does not do: sum of float64", outcome)

    def test_with_fallback_always_no_agent_is_needed(self):
        always = ("POLYPLANE_FALLBACK", "always")
        outcomes = run_ranks(2, reduce_until_error, always, agent=False)
        self.assertEqual(outcomes, ["no error"] * 2)

    def test_bad_starts_are_errors_that_say_what_to_do(self):
        cases = ((("POLYPLANE_ENGINE", ""), "POLYPLANE_ENGINE is not set"),
                 (("POLYPLANE_ENGINE", "/no/where"), "polyplane aggregate agent"),
                 (("POLYPLANE_SLOTS", "many"), "POLYPLANE_SLOTS=many is no number"),
                 (("POLYPLANE_FALLBACK", "maybe"), "always, auto, never"))
        for variable, text in cases:
            (outcome,) = run_ranks(1, fail_to_start, variable, agent=False)
            self.assertIn(text, outcome)

    def test_torchrun_starts_it_as_any_backend(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "engines")
            environment = dict(os.environ, POLYPLANE_ENGINE=f"unix:{path}", PYTHONPATH=PACKAGE,
                               OMP_NUM_THREADS="1")
            script = os.path.join(PACKAGE, "examples", "resnet_shape.py")
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
                       "--nproc-per-node", "2", script, "--backend", "polyplane", "--steps", "2",
                       "--batch", "2"]
            with FakeAgent(path) as agent:
                done = subprocess.run(command, env=environment, capture_output=True, text=True,
                                      timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("same weights on 2 ranks", done.stdout)
            self.assertEqual(len(agent.groups), 0)

    @unittest.skipUnless(is_current and torch.cuda.is_available(), "no GPU is here")
    def test_tensors_of_a_gpu_go_through_the_host(self):
        for outcome in run_ranks(2, on_gpu):
            self.assertEqual(outcome, ([[3.0] * 5, [2.0] * 5, [1.5] * 5], "network: 3"))


def on_gpu(rank, size, path):
    begin(rank, size, path)
    ops = dist.ReduceOp
    tensors = [torch.full((5,), rank + 1.0, device="cuda") for _ in range(3)]
    for tensor, op in zip(tensors, (ops.SUM, ops.MAX, ops.AVG)):
        dist.all_reduce(tensor, op)
    return [tensor.tolist() for tensor in tensors], dist.group.WORLD.report()


if __name__ == "__main__":
    unittest.main()
