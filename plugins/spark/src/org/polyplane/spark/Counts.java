package org.polyplane.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.util.AccumulatorV2;

/** Accumulator of what tasks have done: how often, and the text of the first time. */
final class Counts extends AccumulatorV2<Counts.Event, Map<String, Counts.Count>> {
  private static final long serialVersionUID = 1;

  /** Something that a task has done, and its details, which may be empty. */
  record Event(String what, String details) {}

  /** Number of events, and the details of the first one. */
  record Count(long number, String details) implements java.io.Serializable {
    private Count plus(Count other) {
      return new Count(number + other.number, details);
    }
  }

  private final TreeMap<String, Count> counts = new TreeMap<>();

  void add(String what, String details) {
    add(new Event(what, details));
  }

  @Override
  public synchronized void add(Event event) {
    counts.merge(event.what, new Count(1, event.details), Count::plus);
  }

  @Override
  public synchronized boolean isZero() {
    return counts.isEmpty();
  }

  @Override
  public synchronized Counts copy() {
    Counts copy = new Counts();
    copy.counts.putAll(counts);
    return copy;
  }

  @Override
  public synchronized void reset() {
    counts.clear();
  }

  @Override
  public void merge(AccumulatorV2<Event, Map<String, Count>> other) {
    Map<String, Count> others = other.value();
    synchronized (this) {
      others.forEach((what, count) -> counts.merge(what, count, Count::plus));
    }
  }

  @Override
  public synchronized Map<String, Count> value() {
    return new TreeMap<>(counts);
  }

  /** Returns a line of text. */
  String report() {
    List<String> parts = new ArrayList<>();
    value()
        .forEach(
            (what, count) -> {
              String details = count.details.isEmpty() ? "" : " (" + count.details + ")";
              parts.add(what + ": " + count.number + details);
            });
    return String.join("; ", parts);
  }
}
