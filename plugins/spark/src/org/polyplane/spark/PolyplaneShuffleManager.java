package org.polyplane.spark;

import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkConf;
import org.apache.spark.TaskContext;
import org.apache.spark.shuffle.BaseShuffleHandle;
import org.apache.spark.shuffle.BlockingShuffleManager;
import org.apache.spark.shuffle.ShuffleBlockResolver;
import org.apache.spark.shuffle.ShuffleHandle;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import org.apache.spark.shuffle.ShuffleReader;
import org.apache.spark.shuffle.ShuffleWriteMetricsReporter;
import org.apache.spark.shuffle.ShuffleWriter;
import org.apache.spark.shuffle.sort.SortShuffleManager;

/**
 * Shuffle manager that has the network do the reductions of {@link Reductions}.
 *
 * <p>It is Spark's sort shuffle. The map tasks of a reduction write their files as always, and
 * store their pairs at the agents of their hosts too; a reader takes the network's result if it is
 * complete, and the files otherwise.
 */
public final class PolyplaneShuffleManager implements BlockingShuffleManager {
  private final SortShuffleManager sort;
  private final Settings settings;
  private final Parts parts;

  /** Whether map ids are those of attempts. With the old protocol they are those of tasks. */
  private final boolean hasAttempts;

  /** Creates the shuffle manager of a driver or of an executor. Spark does. */
  public PolyplaneShuffleManager(SparkConf conf) {
    sort = new SortShuffleManager(conf);
    settings = Settings.of(conf);
    parts = new Parts(settings);
    hasAttempts = !conf.getBoolean("spark.shuffle.useOldFetchProtocol", false);
  }

  @Override
  public <K, V, C> ShuffleHandle registerShuffle(
      int shuffleId, ShuffleDependency<K, V, C> dependency) {
    return sort.registerShuffle(shuffleId, dependency);
  }

  @Override
  @SuppressWarnings("unchecked") // Types of a reduction are those of its aggregator.
  public <K, V> ShuffleWriter<K, V> getWriter(
      ShuffleHandle handle,
      long mapId,
      TaskContext context,
      ShuffleWriteMetricsReporter metrics) {
    ShuffleWriter<K, V> file = sort.getWriter(handle, mapId, context, metrics);
    Reduction reduction = reduction(handle);
    if (reduction == null || !isForNetwork()) {
      return file;
    }
    parts.knows(handle.shuffleId());
    var partitioner = ((BaseShuffleHandle<?, ?, ?>) handle).dependency().partitioner();
    return (ShuffleWriter<K, V>)
        new StoringWriter(
            (ShuffleWriter<Object, Long>) file,
            reduction,
            partitioner,
            parts,
            handle.shuffleId(),
            mapId,
            settings,
            context);
  }

  @Override
  @SuppressWarnings("unchecked") // Types of a reduction are those of its aggregator.
  public <K, C> ShuffleReader<K, C> getReader(
      ShuffleHandle handle,
      int startMapIndex,
      int endMapIndex,
      int startPartition,
      int endPartition,
      TaskContext context,
      ShuffleReadMetricsReporter metrics) {
    Reduction reduction = reduction(handle);
    boolean isWhole = startMapIndex == 0 && endMapIndex == Integer.MAX_VALUE;
    if (reduction != null && isForNetwork() && isWhole && endPartition == startPartition + 1) {
      parts.knows(handle.shuffleId());
      return (ShuffleReader<K, C>)
          new CollectingReader(
              () -> sort.getReader(
                  handle,
                  startMapIndex,
                  endMapIndex,
                  startPartition,
                  endPartition,
                  context,
                  metrics),
              reduction,
              parts,
              handle.shuffleId(),
              startPartition,
              settings,
              context,
              metrics);
    }
    if (reduction != null) {
      String why = isForNetwork() ? "a part of the map outputs" : "as set";
      reduction.counts().add("fallback, " + why, "");
    }
    return sort.getReader(
        handle, startMapIndex, endMapIndex, startPartition, endPartition, context, metrics);
  }

  @Override
  public boolean unregisterShuffle(int shuffleId) {
    parts.forgetShuffle(shuffleId);
    return sort.unregisterShuffle(shuffleId);
  }

  @Override
  public ShuffleBlockResolver shuffleBlockResolver() {
    return sort.shuffleBlockResolver();
  }

  @Override
  public void stop() {
    parts.forgetOwn();
    sort.stop();
  }

  private boolean isForNetwork() {
    return settings.fallback() != Settings.Fallback.ALWAYS && hasAttempts;
  }

  /** Returns the reduction of a shuffle. Null if it is any other shuffle. */
  private static Reduction reduction(ShuffleHandle handle) {
    if (handle instanceof BaseShuffleHandle<?, ?, ?> base
        && base.dependency().mapSideCombine()
        && base.dependency().keyOrdering().isEmpty()
        && base.dependency().aggregator().getOrElse(() -> null) instanceof Reduction it) {
      return it;
    }
    return null;
  }
}
