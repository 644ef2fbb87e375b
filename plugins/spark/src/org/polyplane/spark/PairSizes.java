package org.polyplane.spark;

/**
 * Sizes of pairs, from which the classes of a reduction follow.
 *
 * <p>A class changes bytes and never a result: the agent sends pairs that do not fit beside the
 * switches, and a sum that overflows in a switch goes on to the reducer.
 */
final class PairSizes {
  /** Classes of keys. A key has a byte less than its class. */
  private static final int[] KEYS = {8, 16, 32, 64};

  /** Class of keys, if nothing is known. */
  private static final int ANY_KEYS = 16;

  /** Values of smaller magnitude have 4 bytes: their sums over many map tasks fit too. */
  private static final long SMALL = 1 << 24;

  /** One pair of this number may be larger than the classes. */
  private static final long RARE = 64;

  /** Number of keys by the smallest class that holds them. The last ones no class holds. */
  private final long[] keys = new long[KEYS.length + 1];

  private long pairs;
  private long largeValues;

  synchronized void add(int key, long value) {
    int index = 0;
    while (index < KEYS.length && key >= KEYS[index]) {
      index++;
    }
    keys[index]++;
    pairs++;
    if (value <= -SMALL || value >= SMALL) {
      largeValues++;
    }
  }

  synchronized void add(PairSizes others) {
    for (int index = 0; index < keys.length; index++) {
      keys[index] += others.keys[index];
    }
    pairs += others.pairs;
    largeValues += others.largeValues;
  }

  /** Returns the smallest class of keys that holds nearly all of them. */
  synchronized int keyClass() {
    long larger = pairs;
    for (int index = 0; pairs > 0 && index < KEYS.length; index++) {
      larger -= keys[index];
      if (larger <= pairs / RARE) {
        return KEYS[index];
      }
    }
    // Few of them fit into any class, or none are known.
    return ANY_KEYS;
  }

  /** Returns the class of values. */
  synchronized String valueClass() {
    return pairs > 0 && largeValues <= pairs / RARE ? "i32" : "i64";
  }
}
