package org.polyplane.spark;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.channels.ClosedByInterruptException;
import java.util.Iterator;
import org.apache.spark.Partitioner;
import org.apache.spark.TaskContext;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.shuffle.ShuffleWriter;
import org.polyplane.spark.AgentException.Reason;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.Product2;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Writer of a map task: the ordinary shuffle file, and the same pairs at the agent of this host.
 *
 * <p>A part without pairs is not stored, as a block without bytes is not read.
 */
final class StoringWriter extends ShuffleWriter<Object, Long> {
  private static final Logger LOG = LoggerFactory.getLogger(StoringWriter.class);

  private final ShuffleWriter<Object, Long> file;
  private final Reduction reduction;
  private final Partitioner partitioner;
  private final Parts parts;
  private final long mapId;
  private final int shuffleId;
  private final Settings settings;
  private final TaskContext context;

  /** Pairs for the agent, by partition. Null as soon as they cannot be stored. */
  private PairBuffer[] buffers;

  private final PairSizes sizes = new PairSizes();
  private long bytes;
  private boolean hasStored;

  StoringWriter(
      ShuffleWriter<Object, Long> file,
      Reduction reduction,
      Partitioner partitioner,
      Parts parts,
      int shuffleId,
      long mapId,
      Settings settings,
      TaskContext context) {
    this.file = file;
    this.reduction = reduction;
    this.partitioner = partitioner;
    this.parts = parts;
    this.shuffleId = shuffleId;
    this.mapId = mapId;
    this.settings = settings;
    this.context = context;
    this.buffers = new PairBuffer[partitioner.numPartitions()];
  }

  @Override
  public void write(scala.collection.Iterator<Product2<Object, Long>> records)
      throws IOException {
    // Both ways have the combined pairs. The file's way finds nothing more to combine.
    var combined = CollectionConverters.asJava(reduction.combineValuesByKey(records, context));
    file.write(CollectionConverters.asScala(copied(combined)));
  }

  /** Returns the pairs, and puts each into its buffer as it passes. */
  private Iterator<Product2<Object, Long>> copied(Iterator<Tuple2<Object, Long>> pairs) {
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return pairs.hasNext();
      }

      @Override
      public Product2<Object, Long> next() {
        Tuple2<Object, Long> pair = pairs.next();
        if (buffers != null) {
          put(pair);
        }
        return pair;
      }
    };
  }

  private void put(Tuple2<Object, Long> pair) {
    try {
      if (pair._2() == null) {
        throw new AgentException(Reason.PAIRS, "a value is null");
      }
      byte[] key = Keys.encode(pair._1());
      bytes += key.length + PairBuffer.OVERHEAD;
      if (bytes > settings.taskMemory()) {
        throw new AgentException(
            Reason.PAIRS,
            "a map task has pairs of more than " + settings.taskMemory()
                + " bytes: use more map tasks, or raise spark.polyplane.taskMemory");
      }
      int partition = partitioner.getPartition(pair._1());
      if (buffers[partition] == null) {
        buffers[partition] = new PairBuffer();
      }
      buffers[partition].put(key, pair._2());
      sizes.add(key.length, pair._2());
    } catch (AgentException error) {
      failed(error);
    }
  }

  @Override
  public Option<MapStatus> stop(boolean success) {
    if (success && buffers != null) {
      store();
    } else if (!success && hasStored) {
      parts.forget(shuffleId, mapId);
    }
    return file.stop(success);
  }

  private void store() {
    try (AgentConnection agent = parts.connect(context)) {
      for (int partition = 0; partition < buffers.length; partition++) {
        if (buffers[partition] != null) {
          hasStored = true;
          parts.willHave(shuffleId, mapId);
          agent.store(parts.name(shuffleId, mapId, partition), buffers[partition]);
          buffers[partition] = null;
        }
      }
      parts.sizes(shuffleId).add(sizes);
      reduction.counts().add("map tasks stored", "");
    } catch (InterruptedIOException | ClosedByInterruptException error) {
      throw Parts.interrupted(context, error);
    } catch (AgentException error) {
      failed(error);
    } catch (IOException error) {
      failed(new AgentException(Reason.GONE, error.toString()));
    }
    buffers = null;
  }

  /** Goes on without the agent: the readers will miss this part and read the file. */
  private void failed(AgentException error) {
    buffers = null;
    String who = "map task " + mapId + " of shuffle " + shuffleId;
    if (settings.fallback() == Settings.Fallback.NEVER) {
      throw new IllegalStateException(
          who + ": " + error.getMessage() + " (spark.polyplane.fallback=never)", error);
    }
    reduction.counts().add("map tasks not stored, " + error.reason(), error.getMessage());
    LOG.warn("{} is not stored, its readers fall back: {}", who, error.getMessage());
  }

  @Override
  public long[] getPartitionLengths() {
    return file.getPartitionLengths();
  }
}
