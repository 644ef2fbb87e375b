"""Reductions that go the engine's own way, counted and named."""

from __future__ import annotations

import collections

from ..client import AggregateError

FALLBACKS = ("always", "auto", "never")


class Counts(collections.Counter):
    """Numbers of reductions by the network (`network`), and of others by their reason."""

    def report(self) -> str:
        """Returns a line: `network: 400; fallback, sum of float64: 2`."""
        own = [(f"fallback, {reason}", count)
               for reason, count in sorted(self.items()) if reason != "network"]
        lines = [("network", self["network"]), *own]
        return "; ".join(f"{name}: {count}" for name, count in lines)


def check(fallback: str) -> str:
    """Returns a valid value of the option `fallback`."""
    if fallback not in FALLBACKS:
        raise AggregateError(f"fallback {fallback!r} is none of {', '.join(FALLBACKS)}")
    return fallback


def refuse(what: str) -> AggregateError:
    """Returns the error of `fallback = never`."""
    return AggregateError(f"the network does not do: {what}; fallback is never, so neither does "
                          "PyTorch (auto lets it)")
