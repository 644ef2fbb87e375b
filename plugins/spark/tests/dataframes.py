#!/usr/bin/env python3
"""Tests of `polyplane_aggregate.spark`: results are those of Spark's own aggregations."""

import os
import pathlib
import random
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT.parent / "python"), str(ROOT.parent / "python" / "tests")]

import fake_agent  # noqa: E402 (the path is set above)
from polyplane_aggregate import spark as polyplane  # noqa: E402
from pyspark.sql import SparkSession, functions  # noqa: E402


class DataFrames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        path = os.path.join(folder.name, "engines")
        cls.agent = cls.enterClassContext(fake_agent.FakeAgent(path))
        cls.spark = (
            SparkSession.builder.master("local-cluster[2,1,1024]")
            .config("spark.ui.enabled", "false")
            .config("spark.jars", str(ROOT / "build" / "polyplane-spark.jar"))
            .config("spark.shuffle.manager", "org.polyplane.spark.PolyplaneShuffleManager")
            .config("spark.polyplane.engine", f"unix:{path}")
            .getOrCreate())
        cls.addClassCleanup(cls.spark.stop)

    def collects(self):
        return self.agent.received.count(fake_agent.COLLECT)

    def fallbacks(self):
        return [it for it in polyplane.report(self.spark).split("; ") if it.startswith("fallback")]

    def check(self, df, key="k"):
        for operator, own in (("add", functions.sum), ("max", functions.max),
                              ("min", functions.min)):
            expected = df.where("v is not null").groupBy(key).agg(own("v").alias("v"))
            found = polyplane.reduce(df, key, "v", operator, 3)
            self.assertEqual(found.columns, [key, "v"])
            self.assertEqual(dict(found.dtypes)[key], dict(df.dtypes)[key])
            # Python's strings cannot have all that SQL's have.
            as_bytes = [f"cast({key} as binary)" if dict(df.dtypes)[key] == "string" else key, "v"]
            self.assertEqual(sorted(map(tuple, found.selectExpr(*as_bytes).collect()), key=repr),
                             sorted(map(tuple, expected.selectExpr(*as_bytes).collect()), key=repr))

    def test_results_are_sparks_for_all_types_of_keys(self):
        before, fallbacks = self.collects(), self.fallbacks()
        chance = random.Random(46)
        rows = [(f"word{int(2000 * chance.random() ** 3)}", chance.randrange(-10**9, 10**9))
                for _ in range(30_000)]
        df = self.spark.createDataFrame(rows, "k string, v bigint").repartition(4)
        for text in ("k", "cast(k as binary) k", "length(k) k", "hash(k) k", "xxhash64(k) k",
                     "cast(k as binary) || x'ff' k"):
            with self.subTest(text):
                self.check(df.selectExpr(text, "v"))
        self.check(df.selectExpr("k", "cast(v as int) v"))
        self.assertGreaterEqual(self.collects() - before, 7 * 3)
        self.assertEqual(self.fallbacks(), fallbacks)

    def test_strings_that_are_no_utf_8_and_nulls_are_keys(self):
        df = self.spark.sql(
            "select string(unhex(k)) k, v from values ('ff', 1L), ('fe', 2L), ('efbfbd', 3L), "
            "('ff', 4L), (null, 5L), (null, 6L), ('aa', null) as t(k, v)")
        self.check(df)

    def test_an_rdd_goes_by_a_data_frame(self):
        rdd = self.spark.sparkContext.parallelize([("a", 1), ("b", 2), ("a", 3)], 2)
        df = self.spark.createDataFrame(rdd, "k string, v bigint")
        found = polyplane.reduce(df, "k", "v").rdd.map(tuple).collect()
        self.assertEqual(dict(found), dict(rdd.reduceByKey(lambda a, b: a + b).collect()))

    def test_wrong_arguments_are_named(self):
        df = self.spark.range(3).selectExpr("id k", "id * 1.5 v", "id w")
        for arguments, text in (((df, "k", "v"), "column v"), ((df, "v", "w"), "column v"),
                                ((df, "k", "w", "mul"), "operator mul")):
            with self.assertRaisesRegex(Exception, text):
                polyplane.reduce(*arguments)

    def test_a_session_without_the_plugin_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "spark.jars"):
            polyplane._plugin(self.spark, "NotThere")


if __name__ == "__main__":
    unittest.main()
