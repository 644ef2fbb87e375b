package org.polyplane.spark;

import java.util.Iterator;
import java.util.Map;
import java.util.Optional;
import java.util.WeakHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.rdd.ShuffledRDD;
import scala.Option;
import scala.Tuple2;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * Reductions that the network can do: they say what they are, where a closure does not.
 *
 * <p>Keys are String, byte[], Integer or Long. Sums wrap, as in {@code reduceByKey(Long::sum)}.
 * With another shuffle manager than {@link PolyplaneShuffleManager} they give the same results.
 */
public final class Reductions {
  private static final Map<SparkContext, Counts> COUNTS = new WeakHashMap<>();

  private Reductions() {}

  /** Returns the sum of the values of each key. */
  public static <K> JavaPairRDD<K, Long> addLong(JavaPairRDD<K, Long> rdd, int partitions) {
    return reduced(rdd, partitions, Operator.ADD);
  }

  /** Returns the largest value of each key. */
  public static <K> JavaPairRDD<K, Long> maxLong(JavaPairRDD<K, Long> rdd, int partitions) {
    return reduced(rdd, partitions, Operator.MAX);
  }

  /** Returns the smallest value of each key. */
  public static <K> JavaPairRDD<K, Long> minLong(JavaPairRDD<K, Long> rdd, int partitions) {
    return reduced(rdd, partitions, Operator.MIN);
  }

  /**
   * Returns what the network did and what fell back, with numbers of tasks and first reasons.
   *
   * <p>Attempts that were successful are counted, those of tasks that run again too.
   */
  public static String report(JavaSparkContext context) {
    return counts(context.sc()).report();
  }

  static Counts counts(SparkContext context) {
    synchronized (COUNTS) {
      return COUNTS.computeIfAbsent(
          context,
          key -> {
            Counts counts = new Counts();
            counts.register(key, Option.apply("polyplane"), false);
            return counts;
          });
    }
  }

  static <K> JavaPairRDD<K, Long> reduced(
      JavaPairRDD<K, Long> rdd, int partitions, Operator operator) {
    KeyPartitioner partitioner = new KeyPartitioner(partitions);
    JavaPairRDD<Object, Long> pairs = rdd.mapPartitionsToPair(Reductions::wrapped, true);
    if (Optional.of(partitioner).equals(optional(rdd))) {
      // All values of a key are in one partition already.
      return unwrapped(pairs.reduceByKey(partitioner, operator::apply));
    }
    ClassTag<Object> key = ClassTag$.MODULE$.apply(Object.class);
    ClassTag<Long> value = ClassTag$.MODULE$.apply(Object.class);
    var shuffled = new ShuffledRDD<>(pairs.rdd(), partitioner, key, value, value);
    Reduction reduction = new Reduction(operator, counts(rdd.context()));
    shuffled.setAggregator(reduction).setMapSideCombine(true);
    return unwrapped(JavaPairRDD.fromRDD(shuffled, key, value));
  }

  private static Optional<Object> optional(JavaPairRDD<?, ?> rdd) {
    return Optional.ofNullable(rdd.partitioner().orNull());
  }

  private static <K> Iterator<Tuple2<Object, Long>> wrapped(Iterator<Tuple2<K, Long>> pairs) {
    return new Mapped<>(pairs) {
      @Override
      Tuple2<Object, Long> map(Tuple2<K, Long> pair) {
        Object key = pair._1();
        return new Tuple2<>(key instanceof byte[] bytes ? new Bytes(bytes) : key, pair._2());
      }
    };
  }

  private static <K> JavaPairRDD<K, Long> unwrapped(JavaPairRDD<Object, Long> rdd) {
    return rdd.mapPartitionsToPair(Reductions::unwrapped, true);
  }

  private static <K> Iterator<Tuple2<K, Long>> unwrapped(Iterator<Tuple2<Object, Long>> pairs) {
    return new Mapped<>(pairs) {
      @Override
      @SuppressWarnings("unchecked") // A key comes out as it went in.
      Tuple2<K, Long> map(Tuple2<Object, Long> pair) {
        Object key = pair._1();
        return new Tuple2<>((K) (key instanceof Bytes it ? it.bytes() : key), pair._2());
      }
    };
  }

  /** Iterator over the elements of another one, each mapped. */
  private abstract static class Mapped<A, B> implements Iterator<B> {
    private final Iterator<A> from;

    Mapped(Iterator<A> from) {
      this.from = from;
    }

    abstract B map(A element);

    @Override
    public boolean hasNext() {
      return from.hasNext();
    }

    @Override
    public B next() {
      return map(from.next());
    }
  }
}
