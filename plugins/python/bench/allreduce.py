#!/usr/bin/env python3
"""Time of an all-reduce, and the bytes on the interfaces of this host while it runs.

One process a rank, each in the network namespace of its worker, with RANK, WORLD_SIZE, MASTER_ADDR
and MASTER_PORT set. `--way gloo` is torch's process group, `--way polyplane` the one of this
package, `--way client` the connection to the agent without torch. The last two take the agent's
socket from POLYPLANE_ENGINE. Each rank prints a line of JSON: median, least and largest time of a
reduction, and for each interface the bytes sent and received for one reduction, all its traffic
included. The first reductions (`--warm`) are left out.
"""

import argparse
import array
import json
import os
import statistics
import time


def interface_bytes():
    """Bytes sent and received by each interface of this network namespace, but loopback."""
    counts = {}
    for name in sorted(os.listdir("/sys/class/net")):
        if name == "lo":
            continue
        counts[name] = []
        for direction in ("tx_bytes", "rx_bytes"):
            with open(f"/sys/class/net/{name}/statistics/{direction}") as file:
                counts[name].append(int(file.read()))
    return counts


def by_client(rank, size, count):
    """A reduction by the client alone. Returns a function that reduces once, one that checks the
    result, and one that ends."""
    from polyplane_aggregate import Group

    group = Group(os.environ["POLYPLANE_ENGINE"], os.environ.get("POLYPLANE_GROUP", "bench"), rank,
                  size)
    values = array.array("f", [rank + 1.0]) * count
    result = array.array("f", bytes(4 * count))
    return (lambda: group.submit(values, into=result).result(),
            lambda: (min(result), max(result)), group.leave)


def by_torch(backend, count):
    """A reduction by torch.distributed."""
    import torch
    import torch.distributed as dist

    if backend == "polyplane":
        import polyplane_aggregate.torch
    dist.init_process_group(backend)
    values = torch.full((count,), dist.get_rank() + 1.0)
    tensor = torch.empty(count)

    def reduce():
        tensor.copy_(values)
        dist.all_reduce(tensor)

    return (reduce, lambda: (tensor.min().item(), tensor.max().item()),
            dist.destroy_process_group)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--way", choices=("gloo", "polyplane", "client"), default="polyplane")
    parser.add_argument("--megabytes", type=float, default=25, help="of a vector, 10^6 bytes each")
    parser.add_argument("--times", type=int, default=11)
    parser.add_argument("--warm", type=int, default=2)
    options = parser.parse_args()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    count = round(options.megabytes * 1e6 / 4)
    if options.way == "client":
        reduce, ends, leave = by_client(rank, size, count)
    else:
        reduce, ends, leave = by_torch(options.way, count)
    for _ in range(options.warm):
        reduce()
    before = interface_bytes()
    times = []
    for _ in range(options.times):
        start = time.perf_counter()
        reduce()
        times.append(time.perf_counter() - start)
    after = interface_bytes()
    # All vectors have one value: within the documented bound of it.
    expected = size * (size + 1) / 2
    if any(abs(end - expected) > 1e-6 * expected * size for end in ends()):
        raise SystemExit(f"rank {rank}: the sums are {ends()}, not {expected}")
    line = {"rank": rank, "ranks": size, "way": options.way, "bytes": 4 * count,
            "times": options.times, "median_s": round(statistics.median(times), 6),
            "least_s": round(min(times), 6), "most_s": round(max(times), 6), "interfaces": {}}
    for name in after:
        sent, received = ((now - then) // options.times
                          for now, then in zip(after[name], before.get(name, (0, 0))))
        line["interfaces"][name] = {"sent": sent, "received": received}
    print(json.dumps(line), flush=True)
    leave()


if __name__ == "__main__":
    main()
