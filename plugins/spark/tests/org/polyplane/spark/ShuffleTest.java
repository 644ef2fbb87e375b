package org.polyplane.spark;

import java.io.Serializable;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkException;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaSparkContext;
import scala.Tuple2;

/** Tests of reductions in Spark, with an agent of all hosts that reduces by itself. */
final class ShuffleTest {
  private static final String CLUSTER = "local-cluster[2,1,1024]";
  private static final String LOCAL = "local[2]";
  private static final int MAPS = 8;
  private static final int REDUCES = 3;

  private ShuffleTest() {}

  public static void main(String[] args) {
    Check check = new Check(args);
    check.test("cluster: results of all operators and keys are Spark's", ShuffleTest::equal);
    check.test("cluster: a failed map task is counted once", ShuffleTest::failedMapTask);
    check.test("cluster: a speculated map task is counted once", ShuffleTest::speculated);
    check.test("cluster: results are exact if executors are killed", ShuffleTest::killed);
    check.test("what the network cannot have falls back", ShuffleTest::unusual);
    check.test("an agent that is killed is a fallback", () -> fallsBack("gone", "--exit-at", "2"));
    check.test("a silent agent is a fallback", () -> fallsBack("silent", "--silent-at", "1"));
    check.test("lost pairs are a fallback", () -> fallsBack("complete", "--lost-pairs", "1"));
    check.test("a cut frame is a fallback", () -> fallsBack("complete", "--cut-at", "1"));
    check.test("no agent is a fallback", ShuffleTest::noAgent);
    check.test("never: a failure of the agent is the job's, by name", ShuffleTest::never);
    check.test("always: nothing goes to the agent", ShuffleTest::always);
    check.test("settings that are wrong are named", ShuffleTest::settings);
    check.end();
  }

  private static JavaSparkContext context(String master, String engine, String... properties) {
    SparkConf conf = new SparkConf().setMaster(master).setAppName("ShuffleTest");
    conf.set("spark.ui.enabled", "false");
    conf.set("spark.shuffle.manager", PolyplaneShuffleManager.class.getName());
    conf.set("spark.polyplane.engine", engine);
    conf.set("spark.jars", System.getProperty("polyplane.jars"));
    for (String property : properties) {
      String[] parts = property.split("=", 2);
      conf.set(parts[0], parts[1]);
    }
    return new JavaSparkContext(conf);
  }

  /** Returns pairs of a map task: of words that are the more frequent the shorter they are. */
  private static List<Tuple2<String, Long>> pairs(int map, int count, int words) {
    Random random = new Random(46 + map);
    List<Tuple2<String, Long>> pairs = new ArrayList<>(count);
    for (int number = 0; number < count; number++) {
      int word = (int) (words * Math.pow(random.nextDouble(), 3));
      pairs.add(new Tuple2<>("word" + word, random.nextLong() >> 40));
    }
    return pairs;
  }

  /** Something that a map task does after its last pair. */
  private interface AtEnd extends Serializable {
    void run(TaskContext task) throws Exception;
  }

  private static JavaPairRDD<String, Long> words(JavaSparkContext context, AtEnd atEnd) {
    List<Integer> maps = new ArrayList<>();
    for (int map = 0; map < MAPS; map++) {
      maps.add(map);
    }
    return context
        .parallelize(maps, MAPS)
        .mapPartitionsToPair(
            numbers -> {
              var pairs = pairs(numbers.next(), 20_000, 4000).iterator();
              return new Ending<Tuple2<String, Long>>(pairs, atEnd);
            });
  }

  /** Iterator that does something at its end. */
  private record Ending<T>(Iterator<T> from, AtEnd atEnd) implements Iterator<T> {
    @Override
    public boolean hasNext() {
      if (from.hasNext()) {
        return true;
      }
      try {
        atEnd.run(TaskContext.get());
      } catch (RuntimeException error) {
        throw error;
      } catch (Exception error) {
        throw new IllegalStateException(error);
      }
      return false;
    }

    @Override
    public T next() {
      return from.next();
    }
  }

  private static Map<String, Long> expected(Operator operator) {
    Map<String, Long> expected = new HashMap<>();
    for (int map = 0; map < MAPS; map++) {
      for (Tuple2<String, Long> pair : pairs(map, 20_000, 4000)) {
        expected.merge(pair._1(), pair._2(), operator::apply);
      }
    }
    return expected;
  }

  private static <K> Map<Object, Long> collected(JavaPairRDD<K, Long> rdd) {
    Map<Object, Long> result = new HashMap<>();
    for (Tuple2<K, Long> pair : rdd.collect()) {
      Object key = pair._1() instanceof byte[] bytes ? new Bytes(bytes) : pair._1();
      Check.equal(null, result.put(key, pair._2()));
    }
    return result;
  }

  private static long count(JavaSparkContext context, String what) {
    var counts = Reductions.counts(context.sc()).value();
    return counts.entrySet().stream()
        .filter(entry -> entry.getKey().contains(what))
        .mapToLong(entry -> entry.getValue().number())
        .sum();
  }

  private static void isTrue(boolean condition, JavaSparkContext context) {
    Check.isTrue(condition, Reductions.report(context));
  }

  private static void equal() throws Exception {
    try (FakeAgent agent = new FakeAgent()) {
      try (JavaSparkContext context =
          context(CLUSTER, agent.address(), "spark.polyplane.fallback=never",
              "spark.polyplane.memory=500", "spark.polyplane.tiers=2")) {
        JavaPairRDD<String, Long> words = words(context, task -> {});
        // Spark's own, which is a closure to the shuffle manager.
        Check.equal(expected(Operator.ADD), collected(words.reduceByKey(Long::sum, REDUCES)));
        Check.equal(List.of(), agent.frames("COLLECT"));

        Check.equal(expected(Operator.ADD), collected(Reductions.addLong(words, REDUCES)));
        Check.equal(expected(Operator.MAX), collected(Reductions.maxLong(words, REDUCES)));
        Check.equal(expected(Operator.MIN), collected(Reductions.minLong(words, REDUCES)));
        Check.equal(3 * REDUCES, agent.frames("COLLECT").size());
        Check.equal(3 * MAPS * REDUCES, agent.frames("STORE").size());
        String collect = agent.frames("COLLECT").get(0);
        Check.isTrue(collect.contains("\"slots\": 500, \"tiers\": 2"), collect);
        Check.equal(3L * REDUCES, count(context, "network"));

        keys(context, words);
        chained(context, words);
        System.out.println("        " + Reductions.report(context));
        isTrue(count(context, "fallback") == 0, context);
      }
      List<String> forgotten = agent.frames("FORGET");
      String last = forgotten.get(forgotten.size() - 1);
      Check.isTrue(last.endsWith(" 0"), "parts are left: " + last);
    }
  }

  /** Keys of the other types, and more partitions than keys. */
  private static void keys(JavaSparkContext context, JavaPairRDD<String, Long> words) {
    var integers = words.mapToPair(it -> new Tuple2<>(it._1().hashCode() % 1000, it._2()));
    Check.equal(
        collected(integers.reduceByKey(Long::sum)), collected(Reductions.addLong(integers, 2)));
    var longs = words.mapToPair(it -> new Tuple2<>((long) it._1().hashCode() << 20, it._2()));
    Check.equal(
        collected(longs.reduceByKey(Long::sum)), collected(Reductions.addLong(longs, 2)));
    var bytes = words.mapToPair(it -> new Tuple2<>(it._1().getBytes(), it._2()));
    Map<Object, Long> ofBytes = new HashMap<>();
    expected(Operator.ADD).forEach((word, sum) -> ofBytes.put(new Bytes(word.getBytes()), sum));
    Check.equal(ofBytes, collected(Reductions.addLong(bytes, 5)));
    var few = words.filter(it -> it._1().length() == 5);
    Check.equal(
        collected(few.reduceByKey(Long::min)), collected(Reductions.minLong(few, 40)));
    var none = words.filter(it -> it._1().isEmpty());
    Check.equal(Map.of(), collected(Reductions.addLong(none, 2)));
  }

  /** A reduction of a reduction, without a shuffle and with one, and a join. */
  private static void chained(JavaSparkContext context, JavaPairRDD<String, Long> words) {
    var sums = Reductions.addLong(words, REDUCES);
    Check.equal(expected(Operator.ADD), collected(Reductions.maxLong(sums, REDUCES)));
    var byLength = sums.mapToPair(it -> new Tuple2<>(it._1().length(), it._2()));
    Check.equal(
        collected(byLength.reduceByKey(Long::max)), collected(Reductions.maxLong(byLength, 2)));
    var joined = sums.join(Reductions.minLong(words, REDUCES)).mapValues(Tuple2::_2);
    Check.equal(expected(Operator.MIN), collected(joined));
  }

  private static void failedMapTask() throws Exception {
    try (FakeAgent agent = new FakeAgent();
        JavaSparkContext context = context(CLUSTER, agent.address())) {
      var words =
          words(
              context,
              task -> {
                if (task.attemptNumber() == 0 && task.partitionId() % 3 == 0) {
                  throw new IllegalStateException("the first attempt fails");
                }
              });
      Check.equal(expected(Operator.ADD), collected(Reductions.addLong(words, REDUCES)));
      isTrue(count(context, "network") == REDUCES, context);
      // A later stage fails after the parts of its map tasks are stored.
      var late =
          Reductions.addLong(words(context, task -> {}), REDUCES)
              .mapPartitionsToPair(
                  pairs -> {
                    if (TaskContext.get().attemptNumber() == 0) {
                      throw new IllegalStateException("the first attempt fails");
                    }
                    return pairs;
                  });
      Check.equal(expected(Operator.ADD), collected(late));
      isTrue(count(context, "fallback") == 0, context);
    }
  }

  private static void speculated() throws Exception {
    try (FakeAgent agent = new FakeAgent();
        Standalone standalone = new Standalone();
        JavaSparkContext context =
            context(
                standalone.master(),
                agent.address(),
                "spark.driver.host=127.0.0.1",
                "spark.speculation=true",
                "spark.speculation.interval=100ms",
                "spark.speculation.multiplier=1.1",
                "spark.speculation.quantile=0.5",
                "spark.speculation.efficiency.enabled=false",
                "spark.speculation.minTaskRuntime=100ms")) {
      Path marks = Files.createTempDirectory("polyplane");
      String prefix = marks.resolve("attempt").toString();
      var words =
          words(
              context,
              task -> {
                if (task.partitionId() == MAPS - 1) {
                  Files.createFile(Path.of(prefix + task.taskAttemptId()));
                  if (task.attemptNumber() == 0) {
                    Thread.sleep(20_000);
                  }
                }
              });
      Check.equal(expected(Operator.ADD), collected(Reductions.addLong(words, REDUCES)));
      isTrue(count(context, "network") == REDUCES, context);
      isTrue(count(context, "fallback") == 0, context);
      Check.isTrue(marks.toFile().list().length >= 2, "nothing was speculated");
    }
  }

  /** Ends this executor, unless this is done already: a file is the mark. */
  private static void killOnce(String mark) throws Exception {
    try {
      Files.createFile(Path.of(mark));
    } catch (FileAlreadyExistsException error) {
      return;
    }
    Runtime.getRuntime().halt(1);
  }

  private static void killed() throws Exception {
    int kills = Integer.getInteger("polyplane.kills", 6);
    Random random = new Random(46);
    Path marks = Files.createTempDirectory("polyplane");
    try (FakeAgent agent = new FakeAgent();
        JavaSparkContext context =
            context(
                CLUSTER,
                agent.address(),
                "spark.speculation=true",
                "spark.executor.maxNumFailures=1000",
                "spark.deploy.maxExecutorRetries=-1",
                "spark.stage.maxConsecutiveAttempts=20")) {
      for (int kill = 0; kill < kills; kill++) {
        String mark = marks.resolve("kill" + kill).toString();
        int map = random.nextInt(2 * MAPS);
        int reduce = random.nextInt(REDUCES);
        int after = random.nextInt(1000);
        var words =
            words(
                context,
                task -> {
                  if (task.partitionId() == map) {
                    killOnce(mark);
                  }
                });
        var sums =
            Reductions.addLong(words, REDUCES)
                .mapPartitionsToPair(
                    pairs -> {
                      if (TaskContext.getPartitionId() == reduce) {
                        for (int number = 0; number < after && pairs.hasNext(); number++) {
                          pairs.next();
                        }
                        killOnce(mark);
                        throw new IllegalStateException("again, with all pairs");
                      }
                      return pairs;
                    });
        // The task that has taken some pairs fails; the sums themselves are checked.
        try {
          sums.count();
        } catch (Exception error) {
          Check.isTrue(String.valueOf(error).contains("again, with all pairs"), error.toString());
        }
        Check.isTrue(Files.exists(Path.of(mark)), "no executor was killed");
        Check.equal(expected(Operator.ADD), collected(Reductions.addLong(words, REDUCES)));
      }
      System.out.println("        " + kills + " kills; " + Reductions.report(context));
    }
  }

  private static void unusual() throws Exception {
    try (FakeAgent agent = new FakeAgent();
        JavaSparkContext context = context(LOCAL, agent.address())) {
      var beyond =
          context.parallelizePairs(
              List.of(new Tuple2<>("a", Long.MAX_VALUE), new Tuple2<>("a", 5L)), 2);
      Check.equal(Map.of("a", Long.MAX_VALUE + 5), collected(Reductions.addLong(beyond, 1)));
      isTrue(count(context, "fallback, the agent has answered") == 1, context);

      var longKeys =
          context.parallelizePairs(
              List.of(new Tuple2<>("b".repeat(70_000), 1L), new Tuple2<>("c", 2L)), 2);
      var twice = longKeys.union(longKeys);
      Check.equal(collected(twice.reduceByKey(Long::sum)), collected(Reductions.addLong(twice, 1)));
      isTrue(count(context, "not stored, pairs that") == 2, context);

      List<Tuple2<Object, Long>> mixed = new ArrayList<>();
      for (Object key : Arrays.asList(1, 1L, "1", null, 1.0, "\ud83d", "?", '1')) {
        mixed.add(new Tuple2<>(key, 1L));
      }
      var ofTypes = context.parallelizePairs(mixed, 3).union(context.parallelizePairs(mixed, 2));
      Check.equal(
          collected(ofTypes.reduceByKey(Long::sum)), collected(Reductions.addLong(ofTypes, 2)));
      System.out.println("        " + Reductions.report(context));
    }
    try (FakeAgent agent = new FakeAgent();
        JavaSparkContext context =
            context(LOCAL, agent.address(), "spark.polyplane.taskMemory=10k")) {
      var words = words(context, task -> {});
      Check.equal(expected(Operator.ADD), collected(Reductions.addLong(words, REDUCES)));
      isTrue(count(context, "not stored, pairs that") == MAPS, context);
      isTrue(count(context, "fallback, the agent has answered") == REDUCES, context);
    }
  }

  private static void fallsBack(String reason, String... faults) throws Exception {
    try (FakeAgent agent = new FakeAgent(faults);
        JavaSparkContext context =
            context(LOCAL, agent.address(), "spark.polyplane.timeout=2s")) {
      var words = words(context, task -> {});
      Check.equal(expected(Operator.ADD), collected(Reductions.addLong(words, REDUCES)));
      isTrue(count(context, "fallback") >= 1, context);
      isTrue(count(context, reason) >= 1, context);
      isTrue(count(context, "fallback") + count(context, "network") == REDUCES, context);
      System.out.println("        " + Reductions.report(context));
    }
  }

  private static void noAgent() throws Exception {
    String engine = "unix:/tmp/polyplane-that-is-not-there";
    try (JavaSparkContext context = context(LOCAL, engine)) {
      var words = words(context, task -> {});
      Check.equal(expected(Operator.MAX), collected(Reductions.maxLong(words, REDUCES)));
      isTrue(count(context, "not stored, the agent is gone") == MAPS, context);
      isTrue(count(context, "fallback, the agent is gone") == REDUCES, context);
    }
  }

  private static void never() throws Exception {
    String engine = "unix:/tmp/polyplane-that-is-not-there";
    try (JavaSparkContext context =
        context(LOCAL, engine, "spark.polyplane.fallback=never")) {
      try {
        Reductions.addLong(words(context, task -> {}), REDUCES).collect();
      } catch (Exception error) {
        Check.isTrue(error instanceof SparkException, error.toString());
        Check.isTrue(error.getMessage().contains("no agent at"), error.getMessage());
        return;
      }
      throw new AssertionError("no error");
    }
  }

  private static void always() throws Exception {
    try (FakeAgent agent = new FakeAgent();
        JavaSparkContext context =
            context(LOCAL, agent.address(), "spark.polyplane.fallback=always")) {
      var words = words(context, task -> {});
      Check.equal(expected(Operator.ADD), collected(Reductions.addLong(words, REDUCES)));
      isTrue(count(context, "fallback, as set") == REDUCES, context);
      Check.equal(List.of(), agent.frames("STORE"));
    }
  }

  private static void settings() {
    for (String wrong : List.of("spark.polyplane.fallback=maybe", "spark.polyplane.engine=/a")) {
      String text = "";
      try {
        context(LOCAL, "unix:/a", wrong).close();
      } catch (Exception error) {
        for (Throwable it = error; it != null; it = it.getCause()) {
          text += it;
        }
      }
      Check.isTrue(text.contains(wrong + ": "), text);
    }
  }
}
