package org.polyplane.spark;

/** Operator of a reduction of values of type long. */
enum Operator {
  /** Sum; it wraps, as Java's. */
  ADD("add") {
    @Override
    long apply(long left, long right) {
      return left + right;
    }
  },
  /** Maximum. */
  MAX("max") {
    @Override
    long apply(long left, long right) {
      return Math.max(left, right);
    }
  },
  /** Minimum. */
  MIN("min") {
    @Override
    long apply(long left, long right) {
      return Math.min(left, right);
    }
  };

  private final String wire;

  Operator(String wire) {
    this.wire = wire;
  }

  abstract long apply(long left, long right);

  /** Returns the operator with a name of COLLECT. */
  static Operator named(String name) {
    for (Operator operator : values()) {
      if (operator.wire.equals(name)) {
        return operator;
      }
    }
    throw new IllegalArgumentException("operator " + name + ": write add, max or min");
  }

  /** Returns the name in COLLECT. */
  String wire() {
    return wire;
  }
}
