package org.polyplane.spark;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.nio.ByteBuffer;
import org.polyplane.spark.AgentException.Reason;

/**
 * Encoding of keys as bytes: a type (1 byte) and the key.
 *
 * <p>Two keys have the same bytes if and only if they are equal: strings without unpaired
 * surrogates are UTF-8, and the others, which UTF-8 has not, are of a type of their own.
 */
final class Keys {
  private static final byte STRING = 's';
  private static final byte UTF_16_STRING = 'u';
  private static final byte BYTES = 'b';
  private static final byte INTEGER = 'i';
  private static final byte LONG = 'l';

  private Keys() {}

  static byte[] encode(Object key) throws AgentException {
    if (key instanceof String text) {
      if (hasUnpaired(text)) {
        ByteBuffer into = ByteBuffer.allocate(1 + Character.BYTES * text.length());
        into.put(UTF_16_STRING);
        for (int at = 0; at < text.length(); at++) {
          into.putChar(text.charAt(at));
        }
        return into.array();
      }
      return typed(STRING, text.getBytes(UTF_8));
    }
    if (key instanceof Bytes it) {
      return typed(BYTES, it.bytes());
    }
    if (key instanceof Integer it) {
      return ByteBuffer.allocate(1 + Integer.BYTES).put(INTEGER).putInt(it).array();
    }
    if (key instanceof Long it) {
      return ByteBuffer.allocate(1 + Long.BYTES).put(LONG).putLong(it).array();
    }
    String type = key == null ? "null" : "of " + key.getClass().getName();
    throw new AgentException(
        Reason.PAIRS, "a key is " + type + ": String, byte[], Integer and Long are possible");
  }

  /** Returns the key of bytes that {@link #isEncoded} accepts. */
  static Object decode(byte[] from, int at, int length) {
    int start = at + 1;
    int rest = length - 1;
    switch (from[at]) {
      case STRING:
        return new String(from, start, rest, UTF_8);
      case UTF_16_STRING:
        char[] text = new char[rest / Character.BYTES];
        ByteBuffer.wrap(from, start, rest).asCharBuffer().get(text);
        return new String(text);
      case INTEGER:
        return ByteBuffer.wrap(from).getInt(start);
      case LONG:
        return ByteBuffer.wrap(from).getLong(start);
      default:
        byte[] bytes = new byte[rest];
        System.arraycopy(from, start, bytes, 0, rest);
        return new Bytes(bytes);
    }
  }

  /** Whether bytes have a type and a length that this type has. */
  static boolean isEncoded(byte[] from, int at, int length) {
    if (length < 1) {
      return false;
    }
    int rest = length - 1;
    switch (from[at]) {
      case STRING:
      case BYTES:
        return true;
      case UTF_16_STRING:
        return rest % Character.BYTES == 0;
      case INTEGER:
        return rest == Integer.BYTES;
      case LONG:
        return rest == Long.BYTES;
      default:
        return false;
    }
  }

  private static byte[] typed(byte type, byte[] bytes) {
    return ByteBuffer.allocate(1 + bytes.length).put(type).put(bytes).array();
  }

  private static boolean hasUnpaired(String text) {
    for (int at = 0; at < text.length(); at++) {
      char unit = text.charAt(at);
      if (Character.isHighSurrogate(unit)
          && at + 1 < text.length()
          && Character.isLowSurrogate(text.charAt(at + 1))) {
        at++;
      } else if (Character.isSurrogate(unit)) {
        return true;
      }
    }
    return false;
  }
}
