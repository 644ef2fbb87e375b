"""Process group `polyplane`: all-reduce by the network, the rest by gloo."""

from __future__ import annotations

import concurrent.futures
import datetime
import os
import uuid

import torch
import torch.distributed as dist

from . import lanes
from .fallback import Counts, check, refuse
from ..client import AggregateError, Group

NAME = "polyplane"

# Environment variables.
ENGINE = "POLYPLANE_ENGINE"
GROUP = "POLYPLANE_GROUP"
FALLBACK = "POLYPLANE_FALLBACK"
SLOTS = "POLYPLANE_SLOTS"
TIERS = "POLYPLANE_TIERS"

# DDP over a process group in Python hangs in versions before.
LEAST_TORCH = (2, 1)


def register():
    """Makes `polyplane` known to `torch.distributed`."""
    if not dist.is_available() or hasattr(dist.Backend, NAME.upper()):
        return
    if _torch_version() < LEAST_TORCH:
        dist.Backend.register_backend(NAME, _refuse)
    else:
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu", "cuda"])


def _torch_version() -> tuple:
    return tuple(int(part) for part in torch.__version__.split(".")[:2])


def _refuse(*_):
    raise AggregateError(
        f"init_process_group({NAME!r}) needs torch 2.1, and this is {torch.__version__}, where DDP "
        "hangs over process groups in Python: use init_process_group('gloo') and "
        "model.register_comm_hook(state, polyplane_aggregate.torch.hook)")


def _create(options, _):
    """Creates the process group of all ranks, or one of some, which is gloo's alone."""
    # Empty for all ranks.
    is_part = bool(options.global_ranks_in_group)
    arguments = (options.store, options.group_rank, options.group_size, options.timeout)
    return PolyplaneGroup(*arguments, network=None if is_part else _join(*arguments))


def _join(store, rank: int, size: int, timeout) -> Group | None:
    if check(os.environ.get(FALLBACK, "auto")) == "always":
        return None
    path = os.environ.get(ENGINE)
    if not path:
        raise AggregateError(f"{ENGINE} is not set: it names the agent's socket, as in "
                             f"{ENGINE}=unix:/run/polyplane.sock")
    slots, tiers = _number(SLOTS), _number(TIERS)
    return Group(path, _group_name(store, rank), rank, size, slots, tiers,
                 timeout.total_seconds())


def _number(variable: str) -> int | None:
    text = os.environ.get(variable)
    try:
        return None if text is None else int(text)
    except ValueError:
        raise AggregateError(f"{variable}={text} is no number") from None


def _group_name(store, rank: int) -> str:
    """Returns a name that is the same on all ranks, and another after each restart."""
    name = os.environ.get(GROUP)
    if name:
        return name
    name = os.environ.get("TORCHELASTIC_RUN_ID")
    # torchrun's default for jobs without an id.
    if not name or name == "none":
        name = "{}:{}".format(os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", ""))
    if rank == 0:
        store.set("polyplane_start", uuid.uuid4().hex[:8])
    return f"{name}/{store.get('polyplane_start').decode()}"


class Reduction(dist.Work):
    """Reduction that is under way. torch's own work over a future does not raise its error."""

    def __init__(self, finished, reduced):
        super().__init__()
        self._finished = finished
        self._reduced = reduced

    def wait(self, timeout=datetime.timedelta(0)):
        """Waits for the result, and raises the error if there is none. A time-out of 0 is none."""
        seconds = timeout.total_seconds() or None
        _, missing = concurrent.futures.wait([self._reduced], seconds)
        if missing:
            raise AggregateError(f"no result within {seconds:g} s")
        failure = self._reduced.exception()
        if failure is not None:
            raise AggregateError(str(failure))
        self._finished.wait()
        return True

    def is_completed(self):
        return self._finished.done()

    def is_success(self):
        return self._reduced.done() and self._reduced.exception() is None

    def exception(self):
        return self._reduced.exception() if self._reduced.done() else None

    def get_future(self):
        return self._finished

    def result(self):
        return self._finished.value()

    def synchronize(self):
        self.wait()


class PolyplaneGroup(dist.ProcessGroup):
    """Process group that reduces by the network, and has gloo for all else.

    `counts` and `report()` say how many operations went which way.
    """

    def __init__(self, store, rank: int, size: int, timeout, network: Group | None):
        super().__init__(store, rank, size)
        self.counts = Counts()
        self._network = network
        self._fallback = check(os.environ.get(FALLBACK, "auto"))
        self._gloo = self._new_gloo("gloo", store, rank, size, timeout)
        # Reductions that all ranks find out only by their result that gloo must do are repeated
        # in a group of their own: their place among other operations is not known.
        self._repeats = None
        if network is not None and self._fallback == "auto":
            self._repeats = self._new_gloo("repeats", store, rank, size, timeout)
        self._set_default_backend(self.BackendType.GLOO)
        for device in ("cpu", "cuda"):
            self._register_backend(torch.device(device), self.BackendType.GLOO, self._gloo)

    @staticmethod
    def _new_gloo(prefix, store, rank, size, timeout):
        return dist.ProcessGroupGloo(dist.PrefixStore(prefix, store), rank, size, timeout)

    def getBackendName(self):  # the name that C++ asks for
        return NAME

    def report(self) -> str:
        """Returns a line of how many operations went which way."""
        return self.counts.report()

    def allreduce(self, tensors, opts=None):
        """Reduces a tensor over all ranks, asynchronously."""
        opts = dist.AllreduceOptions() if opts is None else opts
        reason = self._reason(tensors, opts.reduceOp)
        if reason is not None:
            return self._by_gloo(tensors, opts, reason)
        self.counts["network"] += 1
        (tensor,) = tensors
        plan = lanes.plan(tensor, opts.reduceOp)
        repeat = None if self._repeats is None else lambda: self._repeat(tensors, opts)
        return Reduction(*lanes.reduce(self._network, tensor, plan, self.size(), tensors, repeat))

    def shutdown(self):
        """Leaves the group of the network."""
        if self._network is not None:
            self._network.leave()

    def _reason(self, tensors, op) -> str | None:
        """Returns why gloo reduces, the same on all ranks."""
        if self._network is None:
            return "fallback is always" if self._fallback == "always" else "group of some ranks"
        if len(tensors) != 1:
            return f"{len(tensors)} tensors at once"
        plan = lanes.plan(tensors[0], op)
        return plan if isinstance(plan, str) else None

    def _by_gloo(self, tensors, opts, reason):
        if self._fallback == "never":
            raise refuse(reason)
        self.counts[reason] += 1
        return self._gloo.allreduce(tensors, opts)

    def _repeat(self, tensors, opts):
        """Has gloo reduce what the network could not, before the next result is looked at."""
        self.counts["NaN in a minimum or maximum"] += 1
        self._repeats.allreduce(tensors, opts).wait()


def _counted(name: str):
    """Returns a method that hands an operation to gloo, and counts it."""

    def method(self, *arguments, **options):
        self.counts[name] += 1
        return getattr(self._gloo, name)(*arguments, **options)

    method.__name__ = name
    return method


# Operations of gloo under their names in all versions of torch. Those not here, torch itself
# hands to gloo.
for _name in ("allgather", "alltoall", "barrier", "broadcast", "gather", "recv", "reduce",
              "reduce_scatter", "scatter", "send"):
    setattr(PolyplaneGroup, _name, _counted(_name))
