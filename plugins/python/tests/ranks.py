"""Ranks of a PyTorch job as forked processes, with a fake agent in a process of its own."""

import datetime
import hashlib
import multiprocessing
import os
import tempfile
import traceback
import unittest

from fake_agent import FakeAgent, Faults

try:
    import torch
    import torch.distributed as dist
except ImportError:
    torch = dist = None
else:
    # One thread: the processes are forked.
    torch.set_num_threads(1)

# Debian's version has few operations of bfloat16, and the hook alone.
is_current = torch is not None and int(torch.__version__.split(".")[0]) >= 2

needs_torch = unittest.skipIf(torch is None, "torch is not installed")

# Seconds that all ranks of a test have.
SECONDS = 180


def serve(path, faults, started):
    with FakeAgent(path, faults):
        started.set()
        multiprocessing.Event().wait()


def run_rank(run, rank, size, path, pipe, arguments):
    try:
        outcome = run(rank, size, path, *arguments)
    except Exception as error:
        if os.environ.get("TRACEBACKS"):
            traceback.print_exc()
        outcome = f"{type(error).__name__}: {error}"
    pipe.send(outcome)
    pipe.close()
    # Not `exit`: an unclean end of one rank must not wait for others.
    os._exit(0)


def outcome_of(pipe):
    try:
        return pipe.recv() if pipe.poll(SECONDS) else "hangs"
    except EOFError:
        return "ended"


def run_ranks(size, run, *arguments, faults=None, agent=True):
    """Runs a function in a process for each rank. Returns results, or texts of errors, by rank."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "engines")
        processes = []
        if agent:
            started = context.Event()
            processes.append(context.Process(target=serve, args=(path, faults or Faults(), started),
                                             daemon=True))
            processes[0].start()
            started.wait(SECONDS)
        pipes = []
        for rank in range(size):
            receive, send = context.Pipe(duplex=False)
            pipes.append(receive)
            processes.append(context.Process(target=run_rank,
                                             args=(run, rank, size, path, send, arguments)))
            processes[-1].start()
            send.close()
        try:
            return [outcome_of(pipe) for pipe in pipes]
        finally:
            for process in processes:
                process.kill()
                process.join()


def initialize(backend, rank, size, path, seconds=60):
    """Creates the process group of all ranks, which meet at a file beside the socket."""
    dist.init_process_group(backend, init_method=f"file://{path}.{backend}", rank=rank,
                            world_size=size, timeout=datetime.timedelta(seconds=seconds))


def digest(model):
    """A hash of the bits of all parameters."""
    data = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    return hashlib.sha256(data).hexdigest()


def train(rank, register=None, steps=20):
    """Trains a small model on made data. Returns the losses, the same on all ranks, and a hash."""
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(20, 40), torch.nn.Tanh(), torch.nn.Linear(40, 1))
    # Small buckets, so that each step has several.
    dist._DEFAULT_FIRST_BUCKET_BYTES = 1000
    model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.001)
    if register is not None:
        register(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(steps):
        inputs = torch.randn(16, 20, generator=data)
        loss = (model(inputs) - inputs[:, :3].sum(dim=1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, digest(model)
