#!/usr/bin/env python3
"""Counts words by the network and by Spark, and compares.

usage: words.py unix:ENGINES [MASTER]
"""

import pathlib
import random
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT.parent / "python"))

from polyplane_aggregate import spark as polyplane  # noqa: E402 (the path is set above)
from pyspark.sql import SparkSession  # noqa: E402

MAPS = 8
WORDS = 150_000
VOCABULARY = 40_000


def words(part, count=WORDS, vocabulary=VOCABULARY):
    """Words of a map task, each with 1: some are far more frequent than others."""
    chance = random.Random(part)
    return [(f"word{int(vocabulary * chance.random() ** 3)}", 1) for _ in range(count)]


def frame(session, **options):
    """Returns a DataFrame with the words of all map tasks, in memory."""
    numbers = session.sparkContext.parallelize(range(MAPS), MAPS)
    parts = numbers.flatMap(lambda part: words(part, **options))
    df = session.createDataFrame(parts, "word string, count bigint").cache()
    df.count()
    return df


def main():
    engine = sys.argv[1]
    master = sys.argv[2] if len(sys.argv) > 2 else "local[2]"
    session = (
        SparkSession.builder.master(master).appName("words")
        .config("spark.jars", str(ROOT / "build" / "polyplane-spark.jar"))
        .config("spark.shuffle.manager", "org.polyplane.spark.PolyplaneShuffleManager")
        .config("spark.polyplane.engine", engine)
        .getOrCreate())
    df = frame(session)
    start = time.monotonic()
    ours = dict(map(tuple, polyplane.reduce(df, "word", "count", "add", 4).collect()))
    middle = time.monotonic()
    own = dict(map(tuple, df.groupBy("word").sum("count").collect()))
    end = time.monotonic()
    print(f"{len(ours)} words, {sum(ours.values())} in all; network {middle - start:.1f} s, "
          f"Spark {end - middle:.1f} s")
    print(polyplane.report(session))
    print("equal" if ours == own else "NOT EQUAL")
    session.stop()
    sys.exit(ours != own)


if __name__ == "__main__":
    main()
