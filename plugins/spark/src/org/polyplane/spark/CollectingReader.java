package org.polyplane.spark;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.channels.ClosedByInterruptException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.InterruptibleIterator;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import org.apache.spark.shuffle.ShuffleReader;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.storage.ShuffleBlockId;
import org.polyplane.spark.AgentConnection.Collected;
import org.polyplane.spark.AgentConnection.Part;
import org.polyplane.spark.AgentException.Reason;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Product2;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Reader of a partition: the network's result where it is complete, else the ordinary files.
 *
 * <p>No pair is given on before the agent has said that the result is complete.
 */
final class CollectingReader implements ShuffleReader<Object, Long> {
  private static final Logger LOG = LoggerFactory.getLogger(CollectingReader.class);

  /** Part of which the agent is known by the host of the executor. */
  private record Located(String host, String name) {}

  private final Supplier<ShuffleReader<Object, Long>> files;
  private final Reduction reduction;
  private final Parts parts;
  private final int shuffleId;
  private final int partition;
  private final Settings settings;
  private final TaskContext context;
  private final ShuffleReadMetricsReporter metrics;

  CollectingReader(
      Supplier<ShuffleReader<Object, Long>> files,
      Reduction reduction,
      Parts parts,
      int shuffleId,
      int partition,
      Settings settings,
      TaskContext context,
      ShuffleReadMetricsReporter metrics) {
    this.files = files;
    this.reduction = reduction;
    this.parts = parts;
    this.shuffleId = shuffleId;
    this.partition = partition;
    this.settings = settings;
    this.context = context;
    this.metrics = metrics;
  }

  @Override
  public scala.collection.Iterator<Product2<Object, Long>> read() {
    // A map output that is not there is an error here, as in the ordinary way.
    List<Located> located = located();
    if (located.isEmpty()) {
      return files.get().read();
    }
    try {
      Collected collected = collect(located);
      metrics.incRemoteBytesRead(collected.bytes());
      reduction.counts().add("network", "");
      var pairs = CollectionConverters.asScala(counted(collected));
      return new InterruptibleIterator<>(context, pairs);
    } catch (InterruptedIOException | ClosedByInterruptException error) {
      throw Parts.interrupted(context, error);
    } catch (AgentException error) {
      return fallBack(error);
    } catch (IOException error) {
      return fallBack(new AgentException(Reason.GONE, error.toString()));
    }
  }

  /** Returns the parts of the attempts that the map output tracker names. */
  private List<Located> located() {
    List<Located> located = new ArrayList<>();
    var tracker = SparkEnv.get().mapOutputTracker();
    var hosts =
        tracker.getMapSizesByExecutorId(
            shuffleId, 0, Integer.MAX_VALUE, partition, partition + 1);
    while (hosts.hasNext()) {
      var blocks = hosts.next();
      BlockManagerId from = blocks._1();
      for (var block : CollectionConverters.asJava(blocks._2())) {
        long mapId = ((ShuffleBlockId) block._1()).mapId();
        located.add(new Located(from.host(), parts.name(shuffleId, mapId, partition)));
      }
    }
    return located;
  }

  private Collected collect(List<Located> located) throws IOException {
    // Two attempts of this task may be under way at once.
    String name = "spark/" + parts.name(shuffleId, context.taskAttemptId(), partition);
    try (AgentConnection agent = parts.connect(context)) {
      String own = SparkEnv.get().blockManager().blockManagerId().host();
      List<Part> named = new ArrayList<>();
      for (Located part : located) {
        boolean isOwn = part.host.equals(own) && !agent.host().isEmpty();
        named.add(new Part(isOwn ? agent.host() : address(part.host), part.name));
      }
      PairSizes sizes = parts.sizes(shuffleId);
      return agent.collect(
          new AgentConnection.Request(
              name,
              reduction.operator().wire(),
              settings.keys() != null ? settings.keys() : sizes.keyClass(),
              settings.values() != null ? settings.values() : sizes.valueClass(),
              settings.slots(),
              settings.tiers(),
              named,
              settings.taskMemory()));
    }
  }

  private static String address(String host) throws AgentException {
    try {
      for (InetAddress address : InetAddress.getAllByName(host)) {
        if (address instanceof Inet4Address) {
          return address.getHostAddress();
        }
      }
    } catch (UnknownHostException error) {
      // The text below says it.
    }
    throw new AgentException(Reason.HOST, "the host " + host + " has no IPv4 address");
  }

  private Iterator<Product2<Object, Long>> counted(Collected collected) {
    PairIterator pairs = new PairIterator(collected.pairs());
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return pairs.hasNext();
      }

      @Override
      public Tuple2<Object, Long> next() {
        metrics.incRecordsRead(1);
        return pairs.next();
      }
    };
  }

  private scala.collection.Iterator<Product2<Object, Long>> fallBack(AgentException error) {
    String who = "partition " + partition + " of shuffle " + shuffleId;
    if (settings.fallback() == Settings.Fallback.NEVER) {
      throw new IllegalStateException(
          who + ": " + error.getMessage() + " (spark.polyplane.fallback=never)", error);
    }
    reduction.counts().add("fallback, " + error.reason(), error.getMessage());
    LOG.warn("{} is read from the files: {}", who, error.getMessage());
    return files.get().read();
  }
}
