#!/usr/bin/env python3
"""Trains a network of ResNet-20's shape on made data, with DistributedDataParallel.

Prints the loss of each step, averaged over the ranks, and whether all ranks have the same weights.
Started by torchrun, or with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set. With `--hook` or
`--backend polyplane`, POLYPLANE_ENGINE names the agent's socket.
"""

import argparse
import hashlib
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, channels, out, stride):
        super().__init__()
        self.first = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(out)
        self.second = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(out)
        self.stride = stride
        self.more = out - channels

    def forward(self, x):
        y = functional.relu(self.first_norm(self.first(x)))
        y = self.second_norm(self.second(y))
        x = x[:, :, ::self.stride, ::self.stride]
        return functional.relu(y + functional.pad(x, (0, 0, 0, 0, 0, self.more)))


def resnet20():
    layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    channels = 16
    for out in (16, 32, 64):
        for number in range(3):
            layers.append(Block(channels, out, 2 if number == 0 and out != 16 else 1))
            channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def digest(model):
    data = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    return hashlib.sha256(data).digest()


def batch_of(step, rank, count):
    """Made images: noise, with a class that shows in the brightness of two of its channels."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    classes = torch.randint(0, 10, (count,), generator=generator)
    images = torch.randn(count, 3, 32, 32, generator=generator)
    images[:, 0] += (classes / 5 - 1)[:, None, None]
    images[:, 1] += (classes % 3 - 1)[:, None, None]
    return images, classes


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=("gloo", "polyplane"), default="gloo")
    parser.add_argument("--hook", action="store_true", help="gradients by the network")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8, help="images of a rank and step")
    # Of larger rates, two runs with gloo that round differently have other losses soon.
    parser.add_argument("--rate", type=float, default=0.001, help="learning rate")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if options.hook or options.backend == "polyplane":
        import polyplane_aggregate.torch as network
    dist.init_process_group(options.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    model = nn.parallel.DistributedDataParallel(resnet20())
    state = None
    if options.hook:
        group = os.environ.get("POLYPLANE_GROUP", "resnet_shape")
        state = network.State(os.environ["POLYPLANE_ENGINE"], group, rank, size)
        model.register_comm_hook(state, network.hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.rate)
    start = time.monotonic()
    for step in range(options.steps):
        images, classes = batch_of(step, rank, options.batch)
        loss = functional.cross_entropy(model(images), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # By gloo in 64 bits, whatever the gradients go by.
        mean = loss.detach().double()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step} loss {mean.item() / size:.6f}", flush=True)
    seconds = time.monotonic() - start
    own = digest(model)
    digests = [torch.zeros(len(own), dtype=torch.uint8) for _ in range(size)]
    dist.all_gather(digests, torch.tensor(list(own), dtype=torch.uint8))
    others = [number for number, other in enumerate(digests) if bytes(other.tolist()) != own]
    if rank == 0:
        print(f"{options.steps} steps in {seconds:.1f} s")
        if not others:
            print(f"same weights on {size} ranks: {own.hex()[:16]}")
        report = state or (dist.group.WORLD if options.backend == "polyplane" else None)
        if report is not None:
            print(report.report())
    if state is not None:
        state.leave()
    dist.destroy_process_group()
    if others:
        raise SystemExit(f"rank {rank}: other weights than on ranks {others}")


if __name__ == "__main__":
    main()
