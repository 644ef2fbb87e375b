package org.polyplane.spark;

import java.time.Duration;
import java.util.Locale;
import org.apache.spark.SparkConf;

/** Properties {@code spark.polyplane.*} of an application. */
record Settings(
    String engine,
    Fallback fallback,
    Integer keys,
    String values,
    Integer slots,
    Integer tiers,
    Duration timeout,
    long taskMemory) {

  /** Rule for what the network cannot do, or has failed to do. */
  enum Fallback {
    /** All goes the way of the ordinary shuffle. */
    ALWAYS,
    /** What fails goes the way of the ordinary shuffle. */
    AUTO,
    /** What fails is an error of the task. */
    NEVER
  }

  static Settings of(SparkConf conf) {
    Fallback fallback = fallback(conf.get("spark.polyplane.fallback", "auto"));
    String engine = conf.get("spark.polyplane.engine", "");
    if (fallback != Fallback.ALWAYS && !engine.startsWith("unix:")) {
      throw new IllegalArgumentException(
          "spark.polyplane.engine=" + engine + ": give the agent's socket for engines, unix:PATH");
    }
    return new Settings(
        engine,
        fallback,
        optional(conf, "spark.polyplane.keys"),
        conf.get("spark.polyplane.values", null),
        optional(conf, "spark.polyplane.memory"),
        optional(conf, "spark.polyplane.tiers"),
        Duration.ofMillis(conf.getTimeAsMs("spark.polyplane.timeout", "120s")),
        conf.getSizeAsBytes("spark.polyplane.taskMemory", "256m"));
  }

  private static Fallback fallback(String text) {
    try {
      return Fallback.valueOf(text.toUpperCase(Locale.ROOT));
    } catch (IllegalArgumentException error) {
      throw new IllegalArgumentException(
          "spark.polyplane.fallback=" + text + ": write always, auto or never");
    }
  }

  private static Integer optional(SparkConf conf, String name) {
    return conf.contains(name) ? (Integer) conf.getInt(name, 0) : null;
  }
}
