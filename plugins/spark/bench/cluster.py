#!/usr/bin/env python3
"""Counts words on a standalone cluster by the network and by Spark: bytes and times of both.

    sudo plugins/python/bench/site.py --ranks 5 -- python3 plugins/spark/bench/cluster.py

Rank 0 runs Spark's master and the driver, each other rank a worker with one executor. The driver
prints a line of JSON: for each way its seconds and the bytes that the executors' links carried to
them and from them. With `--kills N` it repeats the reduction until N executors were killed, each at
a random moment, and compares every result.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pyspark
from pyspark.sql import SparkSession

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT.parent / "python"))

from polyplane_aggregate import spark as polyplane  # noqa: E402 (the path is set above)

HOME = pathlib.Path(pyspark.__file__).parent
RANK = int(os.environ["RANK"])
RANKS = int(os.environ["WORLD_SIZE"])
DRIVER = os.environ["MASTER_ADDR"]
# Path of the agent's socket, the same in all namespaces: each binds its own there.
ENGINE = "/tmp/polyplane-cluster-engine.sock"
MASTER = f"spark://{DRIVER}:7077"

# Seconds that workers get to note their bytes.
PATIENCE = 60

MAPS = 8
WORDS = 150_000
VOCABULARY = 40_000
PARTITIONS = 4


def words(part):
    """Words of a map task: some are far more frequent than others."""
    chance = random.Random(part)
    return [(f"word{int(VOCABULARY * chance.random() ** 3)}", 1) for _ in range(WORDS)]


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
                       PYTHONPATH=f"{ROOT.parent / 'python'}:{ROOT / 'bench'}")
    return subprocess.Popen([str(HOME / "bin" / "spark-class"), *words], env=environment,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def interface_bytes():
    """Returns the bytes that this host's link has sent and received."""
    folder = pathlib.Path("/sys/class/net/eth0/statistics")
    return [int((folder / name).read_text()) for name in ("tx_bytes", "rx_bytes")]


class Phases:
    """Files in a common folder, by which all ranks note their bytes at the same points."""

    def __init__(self, folder: pathlib.Path):
        """Uses a folder that all ranks know."""
        self.folder = folder

    def note(self, number: int):
        """Notes the bytes of this rank."""
        new = self.folder / f"{number}-{RANK}.new"
        new.write_text(json.dumps(interface_bytes()))
        new.rename(self.folder / f"{number}-{RANK}")

    def border(self, number: int):
        """Has all workers note their bytes. Returns the sums of what they sent and received."""
        (self.folder / f"{number}").touch()
        files = [self.folder / f"{number}-{rank}" for rank in range(1, RANKS)]
        until = time.monotonic() + PATIENCE
        while not all(file.exists() for file in files):
            if time.monotonic() > until:
                raise SystemExit(f"a worker has not noted its bytes within {PATIENCE} s")
            time.sleep(0.02)
        return [sum(column) for column in zip(*(json.loads(file.read_text()) for file in files))]

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


def session_of(fallback: str):
    """Connects to the cluster, with one core for each executor."""
    return (
        SparkSession.builder.master(MASTER).appName("cluster")
        .config("spark.driver.host", own_address())
        .config("spark.driver.bindAddress", own_address())
        .config("spark.executor.memory", "1g")
        .config("spark.executor.cores", 1)
        .config("spark.sql.shuffle.partitions", PARTITIONS)
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.speculation", "true")
        .config("spark.deploy.maxExecutorRetries", -1)
        .config("spark.task.maxFailures", 100)
        .config("spark.stage.maxConsecutiveAttempts", 100)
        .config("spark.jars", str(ROOT / "build" / "polyplane-spark.jar"))
        .config("spark.shuffle.manager", "org.polyplane.spark.PolyplaneShuffleManager")
        .config("spark.polyplane.engine", f"unix:{ENGINE}")
        .config("spark.polyplane.fallback", fallback)
        .getOrCreate())


def executors():
    """Returns the processes of this cluster's executors."""
    pattern = f"CoarseGrainedExecutorBackend.*@{DRIVER}:"
    found = subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def kill_at_random(chance, done, killed):
    """Kills an executor after some seconds, unless `done` is set before."""
    if done.wait(chance.uniform(0.5, 8)):
        return
    known = executors()
    if known:
        try:
            os.kill(chance.choice(known), signal.SIGKILL)
        except ProcessLookupError:
            return  # It has just ended.
        killed.append(time.monotonic())


def drive(options, phases) -> bool:
    """Runs the reductions. Returns true if all results are equal."""
    session = session_of("auto")
    parts = session.sparkContext.parallelize(range(MAPS), MAPS).flatMap(words)
    df = session.createDataFrame(parts, "word string, count bigint").cache()
    df.count()

    def by_network():
        reduced = polyplane.reduce(df, "word", "count", "add", PARTITIONS)
        return sorted(map(tuple, reduced.collect()))

    def by_spark():
        return sorted(map(tuple, df.groupBy("word").sum("count").collect()))

    ways = {"network": by_network, "spark": by_spark}
    # The first run of each loads classes.
    results = [way() for way in ways.values()]
    line = {"words": MAPS * WORDS, "keys": len(results[0]), "ways": {}}
    number = 0
    for _ in range(options.times):
        for name, way in ways.items():
            before = phases.border(number)
            begin = time.monotonic()
            results.append(way())
            seconds = time.monotonic() - begin
            after = phases.border(number + 1)
            number += 2
            sent, received = (now - then for now, then in zip(after, before))
            line["ways"].setdefault(name, []).append(
                {"seconds": round(seconds, 2), "sent": sent, "received": received})
    is_equal = all(result == results[0] for result in results)
    killed, runs = [], 0
    while len(killed) < options.kills:
        done = threading.Event()
        chance = random.Random(options.seed + runs)
        killer = threading.Thread(target=kill_at_random, args=(chance, done, killed))
        killer.start()
        is_equal &= by_network() == results[0]
        done.set()
        killer.join()
        runs += 1
    line.update(kills=len(killed), runs=runs, equal=is_equal, report=polyplane.report(session))
    print(json.dumps(line), flush=True)
    session.stop()
    return is_equal


def main():
    """Runs what this rank has to run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--times", type=int, default=3, help="measured reductions of each way")
    parser.add_argument("--kills", type=int, default=0, help="executors to kill afterwards")
    parser.add_argument("--seed", type=int, default=46, help="of the moments of kills")
    options = parser.parse_args()
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
