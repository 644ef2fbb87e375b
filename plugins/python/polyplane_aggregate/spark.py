"""Reductions of DataFrames by the network, with the plug-in `plugins/spark` in the session.

The session has `spark.jars` and `spark.shuffle.manager` of the plug-in. Nothing here needs an
agent in this process: executors speak to those of their hosts.
"""

from __future__ import annotations


def reduce(df, key: str, value: str, operator: str = "add", partitions: int | None = None):
    """Returns a DataFrame with a row for each key, and the reduction of its values as a bigint.

    `operator` is add, max or min. Values that are null are left out. Sums wrap at 64 bits.
    Keys are of string, binary, int or bigint. Default of `partitions`: Spark's parallelism.
    """
    from pyspark.sql import DataFrame

    session = df.sparkSession
    if partitions is None:
        partitions = session.sparkContext.defaultParallelism
    frames = _plugin(session, "DataFrames")
    return DataFrame(frames.reduce(df._jdf, key, value, operator, partitions), session)


def report(session) -> str:
    """Returns what the network did and what fell back, with numbers of tasks."""
    return _plugin(session, "Reductions").report(session.sparkContext._jsc)


def _plugin(session, name: str):
    """Returns a class of the plug-in."""
    from py4j.java_gateway import JavaClass

    found = getattr(session._jvm.org.polyplane.spark, name)
    if not isinstance(found, JavaClass):
        raise RuntimeError(
            "the session has no plug-in: start it with spark.jars=.../polyplane-spark.jar "
            "and spark.shuffle.manager=org.polyplane.spark.PolyplaneShuffleManager")
    return found
