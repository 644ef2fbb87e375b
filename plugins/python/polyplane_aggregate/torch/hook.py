"""Communication hook of DistributedDataParallel: gradients are summed by the network."""

import typing

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from . import lanes
from .fallback import Counts, check, refuse
from ..client import AggregateError, Group


class State:
    """State of `hook`: a rank of a group, and counts of what the network has done.

    `fallback` is `always` (nothing goes by the network), `auto` (what the network cannot do goes
    PyTorch's own way), or `never` (that is an error). A failure of the network is always an error
    on all ranks: a rank alone cannot take another way.
    """

    def __init__(self, path: str, group: str, rank: int, size: int, fallback: str = "auto",
                 slots: typing.Optional[int] = None, tiers: typing.Optional[int] = None,
                 seconds: float = 300, process_group=None):
        """Joins the group; returns as soon as all ranks have."""
        self.fallback = check(fallback)
        self.size = size
        self.process_group = process_group
        self.counts = Counts()
        self.group = None
        if dist.is_initialized() and dist.get_world_size(process_group) != size:
            raise AggregateError(f"size is {size}, but the process group has "
                                 f"{dist.get_world_size(process_group)} ranks")
        if self.fallback != "always":
            self.group = Group(path, group, rank, size, slots, tiers, seconds)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.leave()
        elif self.group is not None:
            self.group.close()

    def leave(self):
        """Leaves the group, after all that is under way."""
        if self.group is not None:
            self.group.leave()

    def report(self) -> str:
        """Returns a line of how many buckets went which way."""
        return self.counts.report()


# DDP compares the annotations with types: this file has none as text.
def hook(state: State, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages a bucket's gradients over all ranks. For `model.register_comm_hook(state, hook)`."""
    gradients = bucket.buffer()
    if state.group is None:
        plan = "fallback is always"
    else:
        plan = lanes.plan(gradients, lanes.AVERAGE)
    if not isinstance(plan, str):
        state.counts["network"] += 1
        return lanes.reduce(state.group, gradients, plan, state.size, gradients)[0]
    if state.fallback == "never":
        raise refuse(f"bucket {bucket.index()}: {plan}")
    state.counts[plan] += 1
    return default_hooks.allreduce_hook(state.process_group, bucket)
