package org.polyplane.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/** Runs tests by name, and ends the process with 1 if one fails. */
final class Check {
  /** A test. */
  interface Body {
    void run() throws Exception;
  }

  private final List<String> wanted;
  private final List<String> failed = new ArrayList<>();

  /** Takes words of the names of the tests to run: all without any. */
  Check(String... wanted) {
    this.wanted = List.of(wanted);
  }

  void test(String name, Body body) {
    if (!wanted.isEmpty() && wanted.stream().noneMatch(name::contains)) {
      return;
    }
    long start = System.nanoTime();
    try {
      body.run();
      System.out.printf("ok      %s (%.1f s)%n", name, (System.nanoTime() - start) / 1e9);
    } catch (Exception | AssertionError error) {
      System.out.println("FAILED  " + name);
      error.printStackTrace(System.out);
      failed.add(name);
    }
  }

  void end() {
    System.out.println(failed.isEmpty() ? "all ok" : "failed: " + failed);
    System.exit(failed.isEmpty() ? 0 : 1);
  }

  static void equal(Object expected, Object found) {
    if (!Objects.equals(expected, found)) {
      throw new AssertionError("expected " + expected + ", found " + found);
    }
  }

  static void isTrue(boolean condition, String text) {
    if (!condition) {
      throw new AssertionError(text);
    }
  }
}
