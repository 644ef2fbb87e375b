package org.polyplane.spark;

import java.nio.ByteBuffer;
import java.util.Arrays;

/** Pairs in the form of STORE: key length (2 bytes, big-endian), key, value (8 bytes). */
final class PairBuffer {
  /** Bytes that a key has at most. */
  static final int MAX_KEY = 0xFFFF;

  /** Bytes of a pair beside its key. */
  static final int OVERHEAD = Short.BYTES + Long.BYTES;

  /** Bytes of a buffer at most: the frame has the name too. */
  static final int MAX_BYTES = (1 << 30) - 0x10000;

  private byte[] bytes = new byte[256];
  private int length;
  private int pairs;

  void put(byte[] key, long value) throws AgentException {
    if (key.length > MAX_KEY) {
      String text = "a key of " + key.length + " bytes is too long: at most " + MAX_KEY;
      throw new AgentException(AgentException.Reason.PAIRS, text);
    }
    int end = length + OVERHEAD + key.length;
    if (end > MAX_BYTES) {
      String text = "pairs of more than " + MAX_BYTES + " bytes: use more partitions";
      throw new AgentException(AgentException.Reason.PAIRS, text);
    }
    if (end > bytes.length) {
      int room = (int) Math.min(Math.max(2L * bytes.length, end), MAX_BYTES);
      bytes = Arrays.copyOf(bytes, room);
    }
    ByteBuffer into = ByteBuffer.wrap(bytes, length, end - length);
    into.putShort((short) key.length).put(key).putLong(value);
    length = end;
    pairs++;
  }

  int pairs() {
    return pairs;
  }

  int length() {
    return length;
  }

  /** Returns the pairs as bytes, to be read. */
  ByteBuffer view() {
    return ByteBuffer.wrap(bytes, 0, length);
  }
}
