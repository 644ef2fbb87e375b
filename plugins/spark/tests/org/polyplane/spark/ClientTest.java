package org.polyplane.spark;

import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.polyplane.spark.AgentConnection.Part;
import org.polyplane.spark.AgentException.Reason;

/** Tests of keys, and of the connection to an agent. */
final class ClientTest {
  private ClientTest() {}

  public static void main(String[] args) {
    Check check = new Check(args);
    check.test("keys have the same bytes if and only if they are equal", ClientTest::keys);
    check.test("classes are the smallest ones that hold nearly all pairs", ClientTest::classes);
    check.test("a result is the reduction of the named parts", ClientTest::reductions);
    check.test("forgotten parts are missing, and the connection goes on", ClientTest::forgotten);
    check.test("a sum beyond 64 bits is an error", ClientTest::overflow);
    check.test("a large part and a large result arrive", ClientTest::large);
    check.test("a result over the limit is an error", ClientTest::tooLarge);
    check.test("lost pairs are an error", () -> fails(Reason.ANSWER, "--lost-pairs", "1"));
    check.test("a cut pair is an error", () -> fails(Reason.ANSWER, "--cut-at", "1"));
    check.test("a silent agent is an error", () -> fails(Reason.SILENT, "--silent-at", "1"));
    check.test("an agent that ends is an error", () -> fails(Reason.GONE, "--exit-at", "1"));
    check.test("another protocol is an error", () -> fails(Reason.ANSWER, "--protocol", "2"));
    check.test("a missing agent is an error with a remedy", ClientTest::missing);
    check.test("an interrupted thread does not wait", ClientTest::interrupted);
    check.end();
  }

  private static final Random RANDOM = new Random(46);

  private static AgentConnection connect(FakeAgent agent) throws Exception {
    return new AgentConnection(agent.address(), Duration.ofSeconds(5), () -> {});
  }

  private static AgentConnection.Request request(String operator, String... names) {
    List<Part> parts = Arrays.stream(names).map(name -> new Part("10.0.1.11", name)).toList();
    return new AgentConnection.Request("r", operator, 16, "i64", null, null, parts, 1 << 26);
  }

  private static Map<Object, Long> decoded(AgentConnection.Collected collected) {
    Map<Object, Long> result = new HashMap<>();
    var pairs = new PairIterator(collected.pairs());
    while (pairs.hasNext()) {
      var pair = pairs.next();
      Check.equal(null, result.put(pair._1(), pair._2()));
    }
    return result;
  }

  private static Reason reasonOf(Check.Body body) throws Exception {
    try {
      body.run();
    } catch (AgentException error) {
      return error.reason();
    }
    throw new AssertionError("no error");
  }

  private static void keys() throws Exception {
    List<Object> keys = new ArrayList<>(List.of("", "a", "\u0000", "é", "😀", "?", "\ufffd"));
    keys.addAll(List.of("\ud83d", "\ude00", "\ude00\ud83d", "\ud83d?", "a\ud83d"));
    keys.addAll(List.of(new Bytes(new byte[0]), new Bytes(new byte[] {'a'})));
    keys.add(new Bytes("sa".getBytes(StandardCharsets.UTF_8)));
    keys.addAll(List.of(0, 0L, -1, -1L, Integer.MIN_VALUE, Long.MIN_VALUE, 97, 97L));
    for (int count = 0; count < 500; count++) {
      StringBuilder text = new StringBuilder();
      for (int length = RANDOM.nextInt(4); length >= 0; length--) {
        text.append((char) (0xD7FE + RANDOM.nextInt(0x804)));
      }
      keys.add(text.toString());
    }
    Map<Bytes, Object> known = new HashMap<>();
    for (Object key : keys) {
      byte[] bytes = Keys.encode(key);
      byte[] shifted = new byte[bytes.length + 3];
      System.arraycopy(bytes, 0, shifted, 2, bytes.length);
      Check.isTrue(Keys.isEncoded(shifted, 2, bytes.length), key + " is not accepted");
      Check.equal(key, Keys.decode(shifted, 2, bytes.length));
      Object other = known.put(new Bytes(bytes), key);
      Check.isTrue(other == null || other.equals(key), key + " and " + other);
    }
    for (Object key : new Object[] {null, 1.5, 'c', new byte[1]}) {
      Check.equal(Reason.PAIRS, reasonOf(() -> Keys.encode(key)));
    }
  }

  /** Sizes of pairs: so many keys of so many bytes, with a value. */
  private static PairSizes sizes(int count, int key, long value) {
    PairSizes sizes = new PairSizes();
    for (int pair = 0; pair < count; pair++) {
      sizes.add(key, value);
    }
    return sizes;
  }

  private static void classes() {
    Check.equal(16, new PairSizes().keyClass());
    Check.equal("i64", new PairSizes().valueClass());
    int[][] keys = {{1, 8}, {7, 8}, {8, 16}, {15, 16}, {16, 32}, {31, 32}, {32, 64}, {63, 64}};
    for (int[] key : keys) {
      Check.equal(key[1], sizes(10, key[0], 1).keyClass());
    }
    Check.equal(16, sizes(10, 64, 1).keyClass());
    for (long value : new long[] {0, (1 << 24) - 1, -(1 << 24) + 1}) {
      Check.equal("i32", sizes(10, 1, value).valueClass());
    }
    for (long value : new long[] {1 << 24, -(1 << 24), Long.MAX_VALUE, Long.MIN_VALUE}) {
      Check.equal("i64", sizes(10, 1, value).valueClass());
    }
    // One of 64 may be larger, two may not.
    for (int larger = 1; larger <= 2; larger++) {
      PairSizes sizes = sizes(64 - larger, 7, 1);
      sizes.add(sizes(larger, 20, 1L << 40));
      Check.equal(larger == 1 ? 8 : 32, sizes.keyClass());
      Check.equal(larger == 1 ? "i32" : "i64", sizes.valueClass());
    }
  }

  private static void reductions() throws Exception {
    try (FakeAgent agent = new FakeAgent();
        AgentConnection connection = connect(agent)) {
      Check.equal("10.0.1.11", connection.host());
      for (Operator operator : Operator.values()) {
        Map<Object, Long> expected = new HashMap<>();
        String[] names = {"a/1", "a/2", "a/3"};
        for (String name : names) {
          PairBuffer pairs = new PairBuffer();
          for (int key = RANDOM.nextInt(40); key < 400; key += 1 + RANDOM.nextInt(5)) {
            long value = RANDOM.nextLong() >> 2;
            pairs.put(Keys.encode("k" + key), value);
            expected.merge("k" + key, value, operator::apply);
          }
          connection.store(name, pairs);
        }
        Check.equal(expected, decoded(connection.collect(request(operator.wire(), names))));
      }
    }
  }

  private static void forgotten() throws Exception {
    try (FakeAgent agent = new FakeAgent();
        AgentConnection connection = connect(agent)) {
      PairBuffer pairs = new PairBuffer();
      pairs.put(Keys.encode(7), 8);
      for (String name : new String[] {"app/1/0", "app/10/0"}) {
        connection.store(name, pairs);
      }
      connection.forget("app/1/");
      Check.equal(
          Reason.REFUSED, reasonOf(() -> connection.collect(request("add", "app/1/0"))));
      var collected = connection.collect(request("add", "app/10/0"));
      Check.equal(Map.of(7, 8L), decoded(collected));
    }
  }

  private static void overflow() throws Exception {
    try (FakeAgent agent = new FakeAgent();
        AgentConnection connection = connect(agent)) {
      PairBuffer pairs = new PairBuffer();
      pairs.put(Keys.encode("k"), Long.MAX_VALUE);
      connection.store("a", pairs);
      connection.store("b", pairs);
      Check.equal(
          Reason.REFUSED, reasonOf(() -> connection.collect(request("add", "a", "b"))));
      var collected = connection.collect(request("max", "a", "b"));
      Check.equal(Map.of("k", Long.MAX_VALUE), decoded(collected));
    }
  }

  private static void large() throws Exception {
    try (FakeAgent agent = new FakeAgent();
        AgentConnection connection = connect(agent)) {
      PairBuffer pairs = new PairBuffer();
      for (int key = 0; key < 100_000; key++) {
        pairs.put(Keys.encode("a key of some length " + key), key);
      }
      connection.store("a", pairs);
      var collected = connection.collect(request("add", "a"));
      Check.equal(100_000, decoded(collected).size());
      Check.equal(
          Reason.PAIRS, reasonOf(() -> pairs.put(new byte[PairBuffer.MAX_KEY + 1], 0)));
      connection.store("b", longest());
      Check.equal(1L, connection.collect(request("add", "b")).keys());
    }
  }

  private static PairBuffer longest() throws Exception {
    PairBuffer pairs = new PairBuffer();
    byte[] key = new byte[PairBuffer.MAX_KEY];
    key[0] = 's';
    pairs.put(key, -1);
    return pairs;
  }

  private static void tooLarge() throws Exception {
    try (FakeAgent agent = new FakeAgent();
        AgentConnection connection = connect(agent)) {
      connection.store("a", longest());
      var parts = List.of(new Part("10.0.1.11", "a"));
      var request = new AgentConnection.Request("r", "add", 16, "i64", 10, 2, parts, 1000);
      Check.equal(Reason.PAIRS, reasonOf(() -> connection.collect(request)));
    }
  }

  private static void fails(Reason expected, String... faults) throws Exception {
    try (FakeAgent agent = new FakeAgent(faults)) {
      Reason reason =
          reasonOf(
              () -> {
                Duration patience = Duration.ofSeconds(1);
                try (var connection = new AgentConnection(agent.address(), patience, () -> {})) {
                  PairBuffer pairs = new PairBuffer();
                  pairs.put(Keys.encode("k"), 1);
                  connection.store("a", pairs);
                  connection.collect(request("add", "a"));
                }
              });
      Check.equal(expected, reason);
    }
  }

  private static void missing() throws Exception {
    String address = "unix:/tmp/polyplane-that-is-not-there";
    try {
      new AgentConnection(address, Duration.ofSeconds(1), () -> {}).close();
    } catch (AgentException error) {
      Check.equal(Reason.GONE, error.reason());
      Check.isTrue(error.getMessage().contains("--engines " + address), error.getMessage());
      return;
    }
    throw new AssertionError("no error");
  }

  private static void interrupted() throws Exception {
    try (FakeAgent agent = new FakeAgent("--silent-at", "1");
        AgentConnection connection = connect(agent)) {
      Thread own = Thread.currentThread();
      Thread thread =
          new Thread(
              () -> {
                try {
                  Thread.sleep(300);
                } catch (InterruptedException error) {
                  return;
                }
                own.interrupt();
              });
      thread.start();
      long start = System.nanoTime();
      try {
        connection.collect(request("add", "a"));
        throw new AssertionError("no error");
      } catch (InterruptedIOException error) {
        Check.isTrue(Thread.interrupted(), "the interruption is lost");
        Check.isTrue(System.nanoTime() - start < 2_000_000_000L, "it has waited");
      }
    }
  }
}
