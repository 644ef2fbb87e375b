#!/usr/bin/env python3
"""Counts words on a standalone cluster by the network and by Spark: bytes and times of both.

    sudo plugins/python/bench/site.py --ranks 5 -- python3 plugins/spark/bench/cluster.py

Rank 0 runs Spark's master and the driver, each other rank a worker with one executor. The driver
prints a line of JSON: for each way its seconds and the bytes that the executors' links carried to
them and from them, by kind. With `--kills N` it repeats the reduction until N executors were
killed, all at random moments, and compares every result with Spark's own.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pyspark
from pyspark import cloudpickle
from pyspark.sql import SparkSession

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT.parent / "python"), str(ROOT / "examples")]

import words  # noqa: E402 (the path is set above)
from polyplane_aggregate import spark as polyplane  # noqa: E402

# Executors have no such module.
cloudpickle.register_pickle_by_value(words)

HOME = pathlib.Path(pyspark.__file__).parent
RANK = int(os.environ["RANK"])
RANKS = int(os.environ["WORLD_SIZE"])
DRIVER = os.environ["MASTER_ADDR"]
# Path of the agent's socket, the same in all namespaces: each binds its own there.
ENGINE = "/tmp/polyplane-cluster-engine.sock"
MASTER = f"spark://{DRIVER}:7077"

# Seconds that workers get to note their bytes.
PATIENCE = 60

PARTITIONS = 4

# The first ports of the block managers of executors, which send shuffle files, and of the driver.
BLOCKS = 7100
DRIVER_BLOCKS = 7200
# Spark takes one of the next ports if one is in use.
BLOCK_PORTS = range(BLOCKS, BLOCKS + 17)
# UDP ports of reductions.
REDUCTION_PORTS = range(9570, 9580)
KINDS = ("reduction", "blocks", "other")


def own_address() -> str:
    """Returns the address of this host."""
    head, last = DRIVER.rsplit(".", 1)
    return f"{head}.{int(last) + RANK}"


def bind_engine():
    """Puts the agent's socket to the common path of this mount namespace."""
    pathlib.Path(ENGINE).touch()
    own = os.environ["POLYPLANE_ENGINE"].removeprefix("unix:")
    subprocess.run(["mount", "--bind", own, ENGINE], check=True)


def start(*words):
    """Starts a daemon of Spark."""
    environment = dict(os.environ, SPARK_LOCAL_IP=own_address(), PYSPARK_PYTHON=sys.executable,
                       PYTHONPATH=str(ROOT.parent / "python"))
    return subprocess.Popen([str(HOME / "bin" / "spark-class"), *words], env=environment,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class LinkCounter:
    """Bytes that this host's link has carried in each direction, by kind."""

    # Options of Linux that the module `socket` has no names for.
    ALL_PROTOCOLS, RECEIVE_BUFFER_FORCE, OUTGOING = 3, 33, 4
    UDP, TCP = 17, 6

    def __init__(self):
        """Begins to count."""
        self.sent = dict.fromkeys(KINDS, 0)
        self.received = dict.fromkeys(KINDS, 0)
        packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(self.ALL_PROTOCOLS))
        packets.bind(("eth0", self.ALL_PROTOCOLS))
        packets.setsockopt(socket.SOL_SOCKET, self.RECEIVE_BUFFER_FORCE, 64 << 20)
        threading.Thread(target=self.count, args=(packets,), daemon=True).start()

    def count(self, packets):
        """Counts each frame."""
        head = bytearray(64)
        while True:
            # With this flag the length is that of the frame, not of what was read.
            length, _, _, source = packets.recvmsg_into([head], 0, socket.MSG_TRUNC)
            column = self.sent if source[2] == self.OUTGOING else self.received
            column[self.kind(head)] += length

    def kind(self, head) -> str:
        """Returns the kind of a frame: Ethernet, and IPv4 without options."""
        ports = [int.from_bytes(head[at:at + 2], "big") for at in (34, 36)]
        if head[23] == self.UDP and ports[1] in REDUCTION_PORTS:
            return "reduction"
        if head[23] == self.TCP and any(port in BLOCK_PORTS for port in ports):
            return "blocks"
        return "other"


class Phases:
    """Files in a common folder, by which all ranks note their bytes at the same points."""

    def __init__(self, folder: pathlib.Path):
        """Uses a folder that all ranks know."""
        self.folder = folder
        self.link = LinkCounter()

    def note(self, number: int):
        """Notes the bytes of this rank."""
        new = self.folder / f"{number}-{RANK}.new"
        new.write_text(json.dumps([self.link.sent, self.link.received]))
        new.rename(self.folder / f"{number}-{RANK}")

    def border(self, number: int):
        """Has all workers note their bytes. Returns the sums of both directions, by kind."""
        (self.folder / f"{number}").touch()
        files = [self.folder / f"{number}-{rank}" for rank in range(1, RANKS)]
        until = time.monotonic() + PATIENCE
        while not all(file.exists() for file in files):
            if time.monotonic() > until:
                raise SystemExit(f"a worker has not noted its bytes within {PATIENCE} s")
            time.sleep(0.02)
        columns = zip(*(json.loads(file.read_text()) for file in files))
        return [{kind: sum(of[kind] for of in column) for kind in KINDS} for column in columns]

    def follow(self, worker: subprocess.Popen):
        """Notes the bytes of a worker at each border, until the driver has ended."""
        number = 0
        while not (self.folder / "end").exists():
            if (self.folder / f"{number}").exists():
                self.note(number)
                number += 1
            if worker.poll() is not None:
                raise SystemExit(f"rank {RANK}: the worker has ended")
            time.sleep(0.02)


def session_of(speculates: bool):
    """Connects to the cluster, with one core for each executor."""
    return (
        SparkSession.builder.master(MASTER).appName("cluster")
        .config("spark.driver.host", own_address())
        .config("spark.driver.bindAddress", own_address())
        .config("spark.blockManager.port", BLOCKS)
        .config("spark.driver.blockManager.port", DRIVER_BLOCKS)
        .config("spark.executor.memory", "1g")
        .config("spark.executor.cores", 1)
        .config("spark.sql.shuffle.partitions", PARTITIONS)
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.speculation", speculates)
        .config("spark.deploy.maxExecutorRetries", -1)
        .config("spark.task.maxFailures", 100)
        .config("spark.stage.maxConsecutiveAttempts", 100)
        .config("spark.jars", str(ROOT / "build" / "polyplane-spark.jar"))
        .config("spark.shuffle.manager", "org.polyplane.spark.PolyplaneShuffleManager")
        .config("spark.polyplane.engine", f"unix:{ENGINE}")
        .getOrCreate())


def executors():
    """Returns the processes of this cluster's executors."""
    pattern = f"CoarseGrainedExecutorBackend.*@{DRIVER}:"
    found = subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def kill_at_random(options, count, done, killed):
    """Kills at most so many executors, one after the other, until `done` is set."""
    begin = time.monotonic()
    while len(killed) < count and not done.wait(random.uniform(0, 2 * options.interval)):
        known = executors()
        if known:
            try:
                os.kill(random.choice(known), signal.SIGKILL)
            except ProcessLookupError:
                continue  # It has just ended.
            killed.append(round(time.monotonic() - begin, 2))


def drive(options, phases) -> bool:
    """Runs the reductions. Returns true if all results are equal."""
    random.seed(options.seed)
    # A speculative task reads the words from another executor, which would be in the bytes.
    session = session_of(speculates=options.kills > 0)
    df = words.frame(session, count=options.words, vocabulary=options.vocabulary)

    def by_network():
        reduced = polyplane.reduce(df, "word", "count", "add", PARTITIONS)
        return sorted(map(tuple, reduced.collect()))

    def by_spark():
        return sorted(map(tuple, df.groupBy("word").sum("count").collect()))

    ways = {"network": by_network, "spark": by_spark}
    # The first run of each loads classes.
    expected = by_spark()
    is_equal = by_network() == expected
    line = {"words": words.MAPS * options.words, "keys": len(expected), "ways": {}}
    number = 0
    for _ in range(options.times):
        for name, way in ways.items():
            before = phases.border(number)
            begin = time.monotonic()
            is_equal &= way() == expected
            seconds = time.monotonic() - begin
            after = phases.border(number + 1)
            number += 2
            sent, received = ({kind: now[kind] - then[kind] for kind in KINDS}
                              for now, then in zip(after, before))
            line["ways"].setdefault(name, []).append(
                {"seconds": round(seconds, 2), "sent": sent, "received": received})
    line["runs"] = runs = []
    while (left := options.kills - sum(len(run["killed"]) for run in runs)) > 0:
        done, killed = threading.Event(), []
        killer = threading.Thread(target=kill_at_random, args=(options, left, done, killed))
        begin = time.monotonic()
        killer.start()
        is_exact = by_network() == expected
        seconds = time.monotonic() - begin
        done.set()
        killer.join()
        is_equal &= is_exact
        runs.append({"seconds": round(seconds, 2), "killed": killed, "exact": is_exact})
        print(json.dumps(runs[-1]), polyplane.report(session), file=sys.stderr, flush=True)
    line.update(equal=is_equal, report=polyplane.report(session))
    print(json.dumps(line), flush=True)
    session.stop()
    return is_equal


def main():
    """Runs what this rank has to run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--times", type=int, default=3, help="measured reductions of each way")
    parser.add_argument("--kills", type=int, default=0, help="executors to kill afterwards")
    parser.add_argument("--interval", type=float, default=10,
                        help="seconds between two kills, on average")
    parser.add_argument("--seed", type=int, default=46, help="of the moments of kills")
    parser.add_argument("--words", type=int, default=words.WORDS, help="words of a map task")
    parser.add_argument("--vocabulary", type=int, default=words.VOCABULARY,
                        help="the most distinct words")
    options = parser.parse_args()
    # The site ends its ranks so, and Spark's daemons end with them.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    bind_engine()
    # The site's folder is that of the sockets.
    site = pathlib.Path(os.environ["POLYPLANE_ENGINE"].removeprefix("unix:")).parent
    folder = site / "phases"
    folder.mkdir(exist_ok=True)
    phases = Phases(folder)
    os.chdir(tempfile.mkdtemp(dir=site))
    if RANK > 0:
        time.sleep(5)
        worker = start("org.apache.spark.deploy.worker.Worker", "--host", own_address(),
                       "--cores", "1", "--memory", "1g", "--work-dir", os.getcwd(), MASTER)
        try:
            phases.follow(worker)
        finally:
            worker.terminate()
        return
    master = start("org.apache.spark.deploy.master.Master", "--host", DRIVER, "--port", "7077")
    try:
        time.sleep(15)
        is_equal = drive(options, phases)
    finally:
        (folder / "end").touch()
        master.terminate()
    sys.exit(not is_equal)


if __name__ == "__main__":
    main()
