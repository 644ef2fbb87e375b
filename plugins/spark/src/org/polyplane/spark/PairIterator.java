package org.polyplane.spark;

import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import scala.Tuple2;

/** Iterator over the pairs of a complete result, which the connection has checked. */
final class PairIterator implements Iterator<Tuple2<Object, Long>> {
  private final Iterator<byte[]> bodies;
  private byte[] body = {};
  private int at;

  PairIterator(List<byte[]> bodies) {
    this.bodies = bodies.iterator();
  }

  @Override
  public boolean hasNext() {
    while (at == body.length && bodies.hasNext()) {
      body = bodies.next();
      at = 0;
    }
    return at < body.length;
  }

  @Override
  public Tuple2<Object, Long> next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    ByteBuffer buffer = ByteBuffer.wrap(body);
    int length = Short.toUnsignedInt(buffer.getShort(at));
    int key = at + Short.BYTES;
    at = key + length + Long.BYTES;
    return new Tuple2<>(Keys.decode(body, key, length), buffer.getLong(key + length));
  }
}
