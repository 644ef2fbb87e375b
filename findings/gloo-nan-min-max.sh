#!/usr/bin/env bash
# gloo: MIN and MAX of vectors with NaN depend on the index of a value.
#
# Subject: torch.distributed with the process group "gloo", all_reduce with ReduceOp.MIN and MAX.
# Version: torch 2.15.0 of PyPI, on Linux, two ranks.
# Input: one rank has a vector of NaN, the other a vector of 1.0, both of 64 floats.
# Seen: 32 of the 64 results are NaN and 32 are 1.0, the same on both ranks, for MIN and MAX and
# whichever rank has the NaN. A vector of one value is NaN if rank 0 has the NaN, else 1.0.
# Reason to know: torch.minimum and torch.maximum give NaN if either operand is NaN, so an
# all-reduce that replaces gloo's cannot be equal to both.
#
# Installs torch (about 3 GB with its own libraries) in a temporary folder. Fails if the behaviour
# is another one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 numpy==2.4.6
cat > "$folder/ranks.py" <<'PYTHON'
import os
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as processes

LENGTHS = (1, 64)


def reduce(rank, path, results):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    found = []
    for operation in (dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        for holder in (0, 1):
            for length in LENGTHS:
                value = float("nan") if rank == holder else 1.0
                vector = torch.full((length,), value)
                dist.all_reduce(vector, op=operation)
                found.append(int(vector.isnan().sum()))
    results[rank] = found
    dist.destroy_process_group()


if __name__ == "__main__":
    with processes.Manager() as manager:
        results = manager.dict()
        processes.spawn(reduce, (os.path.join(sys.argv[1], "store"), results), nprocs=2)
        print("torch", torch.__version__.split("+")[0])
        for rank in (0, 1):
            print(f"rank {rank}: NaN results", *results[rank])
PYTHON
seen=$("$folder/venv/bin/python" "$folder/ranks.py" "$folder")
echo "$seen"
# Of lengths 1 and 64, with the NaN at rank 0 and at rank 1; first MIN, then MAX.
expected='torch 2.15.0
rank 0: NaN results 1 32 0 32 1 32 0 32
rank 1: NaN results 1 32 0 32 1 32 0 32'
if [ "$seen" != "$expected" ]; then
    echo "the behaviour is another one" >&2
    exit 1
fi
