"""Reductions by the network: a client of `polyplane aggregate agent`.

`Group` reduces vectors over ranks, `Agent` stores and collects pairs.
`polyplane_aggregate.torch` has a hook and a process group for PyTorch.
"""

from .client import Agent, AggregateError, Collected, Group
from .frames import Operation
from .version import VERSION as __version__

__all__ = ["Agent", "AggregateError", "Collected", "Group", "Operation", "__version__"]
