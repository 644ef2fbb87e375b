package org.polyplane.spark;

import java.io.Serializable;
import java.util.Arrays;

/** Array of bytes as a key: arrays alone are compared by identity. */
record Bytes(byte[] bytes) implements Serializable {
  @Override
  public boolean equals(Object other) {
    return other instanceof Bytes it && Arrays.equals(bytes, it.bytes);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(bytes);
  }

  @Override
  public String toString() {
    return Arrays.toString(bytes);
  }
}
