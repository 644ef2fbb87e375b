"""Tensors as vectors of 4-byte values, and back.

The network adds f32, and adds and takes the maximum of i32. The other reductions are mapped to
these: f16 and bf16 to f32, small integers to i32, the minimum to the maximum of complements, floats
to integers of the same order.
"""

from __future__ import annotations

import ctypes
import dataclasses
import typing

import torch
import torch.distributed as dist

from ..client import AggregateError, Group
from ..frames import Operation

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int32, torch.int16, torch.int8, torch.uint8)

AVERAGE = dist.ReduceOp.AVG

# Stands for NaN in maxima: above all floats in their order as integers.
_NAN = 0x7FFFFFFF

_MAGNITUDE = 0x7FFFFFFF


class NotANumber(Exception):
    """Some rank's input of a minimum or maximum has NaN. All ranks get this."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """Mapping of one kind of reduction to an operation of the network.

    `encode` gets a tensor and returns lanes of 4 bytes, which may share its memory; `decode` gets
    the reduced lanes and the number of ranks.
    """

    operation: Operation
    encode: typing.Callable
    decode: typing.Callable


def plan(tensor: torch.Tensor, op) -> Plan | str:
    """Returns the plan of a reduction, or why the network cannot do it: the same on all ranks."""
    dtype = str(tensor.dtype).replace("torch.", "")
    # An operation may be an object with a type and other members.
    op = getattr(op, "op", op)
    name = _NAMES.get(op)
    if name is None:
        return f"{op}".replace("RedOpType.", "").lower()
    if tensor.layout != torch.strided:
        return f"{tensor.layout} tensors".replace("torch.", "")
    kinds = [kind for kind, dtypes in _PLANS if tensor.dtype in dtypes]
    if not kinds:
        return f"{name} of {dtype}"
    return kinds[0][name]


def reduce(group: Group, tensor: torch.Tensor, how: Plan, size: int, result,
           not_a_number: typing.Callable | None = None) -> tuple:
    """Reduces a tensor in place, asynchronously.

    Returns a future of torch, which then has `result`, and that of the group, which is complete
    before, and has the failure.

    `not_a_number` takes over where a minimum or maximum meets NaN; it runs on the thread that
    receives results, in the order of the reductions.
    """
    tensor = tensor.detach()
    lanes, ready = _to_host(how.encode(tensor).contiguous().view(-1))
    view = memory(lanes)
    reduced = group.submit(view, how.operation, into=view, ready=ready)
    devices = [] if tensor.device.type == "cpu" else [tensor.device]
    begun = torch.futures.Future(devices=devices)

    def finish(_):
        # Raised here its text gets through DDP, which has no use for `Future.set_exception`.
        failure = reduced.exception()
        if failure is not None:
            raise AggregateError(str(failure))
        try:
            values = how.decode(lanes, size)
        except NotANumber:
            if not_a_number is None:
                raise AggregateError("NaN in a minimum or maximum of floats: the network has no "
                                     "order for it, and fallback is never") from None
            not_a_number()
            return result
        if values.data_ptr() != tensor.data_ptr():
            tensor.copy_(values.view(tensor.shape))
        if devices:
            torch.cuda.current_stream(tensor.device).synchronize()
        return result

    finished = begun.then(finish)
    reduced.add_done_callback(lambda _: begun.set_result(None))
    return finished, reduced


def memory(tensor: torch.Tensor):
    """Returns the memory of a contiguous CPU tensor as a buffer, which must not outlive it."""
    length = tensor.numel() * tensor.element_size()
    buffer = (ctypes.c_ubyte * length).from_address(tensor.data_ptr() if length else 0)
    # Pieces of the buffer keep the tensor alive.
    buffer.tensor = tensor
    return buffer


def _to_host(lanes: torch.Tensor):
    """Returns lanes in the host's memory, and a function that waits until they are there."""
    if lanes.device.type == "cpu":
        return lanes, None
    host = torch.empty(lanes.shape, dtype=lanes.dtype, pin_memory=True)
    host.copy_(lanes, non_blocking=True)
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(lanes.device))

    def ready():
        event.synchronize()
        # The source of the copy is alive until here.
        assert lanes is not None

    return host, ready


def _ordered(tensor: torch.Tensor) -> torch.Tensor:
    """Maps the bits of floats to integers of the same order; its own inverse."""
    bits = tensor.view(torch.int32)
    return bits ^ ((bits >> 31) & _MAGNITUDE)


def _floats_to_maximum(tensor):
    return _ordered(tensor.float().contiguous()).masked_fill_(torch.isnan(tensor), _NAN)


def _floats_to_minimum(tensor):
    return (~_ordered(tensor.float().contiguous())).masked_fill_(torch.isnan(tensor), _NAN)


def _floats_of_maximum(lanes, _):
    if bool((lanes == _NAN).any()):
        raise NotANumber
    return _ordered(lanes).view(torch.float32)


def _floats_of_minimum(lanes, _):
    if bool((lanes == _NAN).any()):
        raise NotANumber
    return _ordered(~lanes).view(torch.float32)


def _same(lanes, _):
    return lanes


def _integer(tensor):
    return tensor.to(torch.int32)


_NAMES = {dist.ReduceOp.SUM: "sum", AVERAGE: "avg", dist.ReduceOp.MIN: "min",
          dist.ReduceOp.MAX: "max"}

_PLANS = (
    ({
        "sum": Plan(Operation.SUM_F32, lambda tensor: tensor.float(), _same),
        "avg": Plan(Operation.SUM_F32, lambda tensor: tensor.float(),
                    lambda lanes, size: lanes.div_(size)),
        "max": Plan(Operation.MAX_I32, _floats_to_maximum, _floats_of_maximum),
        "min": Plan(Operation.MAX_I32, _floats_to_minimum, _floats_of_minimum),
    }, FLOATS),
    ({
        "sum": Plan(Operation.SUM_I32, _integer, _same),
        # Towards zero, as NCCL divides.
        "avg": Plan(Operation.SUM_I32, _integer,
                    lambda lanes, size: lanes.div_(size, rounding_mode="trunc")),
        "max": Plan(Operation.MAX_I32, _integer, _same),
        "min": Plan(Operation.MAX_I32, lambda tensor: ~_integer(tensor), lambda lanes, _: ~lanes),
    }, INTEGERS),
)
