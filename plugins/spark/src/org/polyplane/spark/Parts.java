package org.polyplane.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Names of stored parts, and those that this process has stored.
 *
 * <p>A map id is the number of an attempt of a task, which no other one has. So the parts that the
 * map output tracker names are those of attempts that have succeeded, and parts of others are
 * never read, whatever was lost, repeated or speculated.
 */
final class Parts {
  private static final Logger LOG = LoggerFactory.getLogger(Parts.class);

  /** Time for what nobody waits for. */
  private static final Duration SHORT = Duration.ofSeconds(5);

  private final Settings settings;

  /** Attempts with parts, by shuffle. A shuffle is there as soon as this process knows it. */
  private final Map<Integer, Set<Long>> stored = new ConcurrentHashMap<>();

  /** Sizes of the pairs that this process has stored, by shuffle. */
  private final Map<Integer, PairSizes> sizes = new ConcurrentHashMap<>();

  Parts(Settings settings) {
    this.settings = settings;
  }

  /** Connects to the agent for a task. */
  AgentConnection connect(TaskContext context) throws IOException {
    return new AgentConnection(
        settings.engine(), settings.timeout(), context::killTaskIfInterrupted);
  }

  String name(int shuffleId, long mapId, int partition) {
    return prefix(shuffleId, mapId) + partition;
  }

  void knows(int shuffleId) {
    stored.computeIfAbsent(shuffleId, id -> ConcurrentHashMap.newKeySet());
  }

  void willHave(int shuffleId, long mapId) {
    stored.computeIfAbsent(shuffleId, id -> ConcurrentHashMap.newKeySet()).add(mapId);
  }

  /** Returns the sizes of the pairs that this process has stored: a sample of all. */
  PairSizes sizes(int shuffleId) {
    return sizes.computeIfAbsent(shuffleId, id -> new PairSizes());
  }

  /** Forgets the parts of an attempt that has failed. */
  void forget(int shuffleId, long mapId) {
    Set<Long> attempts = stored.get(shuffleId);
    if (attempts != null && attempts.remove(mapId)) {
      forget(prefix(shuffleId, mapId));
    }
  }

  /** Forgets all parts of a shuffle on this host, those of executors that were lost too. */
  void forgetShuffle(int shuffleId) {
    sizes.remove(shuffleId);
    if (stored.remove(shuffleId) != null) {
      forget(prefix(shuffleId));
    }
  }

  /** Forgets what this process has stored. Other executors of this host may go on. */
  void forgetOwn() {
    if (stored.values().stream().allMatch(Set::isEmpty)) {
      return;
    }
    try (AgentConnection agent = new AgentConnection(settings.engine(), SHORT, () -> {})) {
      for (var entry : stored.entrySet()) {
        for (long mapId : entry.getValue()) {
          agent.forget(prefix(entry.getKey(), mapId));
        }
      }
    } catch (IOException error) {
      LOG.info("parts stay at the agent: {}", error.getMessage());
    }
    stored.clear();
  }

  private void forget(String prefix) {
    try (AgentConnection agent = new AgentConnection(settings.engine(), SHORT, () -> {})) {
      agent.forget(prefix);
    } catch (IOException error) {
      LOG.info("parts {}* stay at the agent: {}", prefix, error.getMessage());
    }
  }

  private static String prefix(int shuffleId) {
    return SparkEnv.get().conf().getAppId() + "/" + shuffleId + "/";
  }

  private static String prefix(int shuffleId, long mapId) {
    return prefix(shuffleId) + mapId + "/";
  }

  /** Returns what a task throws that is interrupted while it waits for the agent. */
  static RuntimeException interrupted(TaskContext context, IOException error) {
    context.killTaskIfInterrupted();
    return new UncheckedIOException(error);
  }
}
