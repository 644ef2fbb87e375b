package org.polyplane.spark;

import java.util.Arrays;
import org.apache.spark.Partitioner;

/** Partitioner by hash, of which arrays of bytes with the same bytes have the same partition. */
final class KeyPartitioner extends Partitioner {
  private static final long serialVersionUID = 1;

  private final int partitions;

  KeyPartitioner(int partitions) {
    if (partitions < 1) {
      throw new IllegalArgumentException(partitions + " partitions: give at least 1");
    }
    this.partitions = partitions;
  }

  @Override
  public int numPartitions() {
    return partitions;
  }

  @Override
  public int getPartition(Object key) {
    int hash = 0;
    if (key instanceof byte[] bytes) {
      hash = Arrays.hashCode(bytes);
    } else if (key != null) {
      hash = key.hashCode();
    }
    return Math.floorMod(hash, partitions);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof KeyPartitioner it && it.partitions == partitions;
  }

  @Override
  public int hashCode() {
    return partitions;
  }
}
