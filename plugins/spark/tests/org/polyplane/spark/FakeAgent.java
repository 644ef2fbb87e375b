package org.polyplane.spark;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Process of {@code tests/agent.py}: an agent of all hosts, with faults. */
final class FakeAgent implements AutoCloseable {
  private final Path path;
  private final Process process;

  /** Lines that the agent has printed. */
  private final List<String> lines = Collections.synchronizedList(new ArrayList<>());

  FakeAgent(String... faults) throws IOException {
    path = Files.createTempDirectory("polyplane").resolve("engines");
    String tests = System.getProperty("polyplane.tests", "tests");
    List<String> command = new ArrayList<>(List.of("python3", tests + "/agent.py", address()));
    command.addAll(List.of(faults));
    var builder = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
    process = builder.start();
    var reader = new BufferedReader(new InputStreamReader(process.getInputStream()));
    if (!"ready".equals(reader.readLine())) {
      throw new IOException("the agent did not start");
    }
    Thread thread = new Thread(() -> reader.lines().forEach(lines::add));
    thread.setDaemon(true);
    thread.start();
  }

  String address() {
    return "unix:" + path;
  }

  /** Returns the lines of a kind of frames that have come. */
  List<String> frames(String kind) {
    synchronized (lines) {
      return lines.stream().filter(line -> line.startsWith(kind + " ")).toList();
    }
  }

  boolean isAlive() {
    return process.isAlive();
  }

  @Override
  public void close() {
    process.destroyForcibly();
    try {
      process.waitFor();
      Files.deleteIfExists(path);
      Files.deleteIfExists(path.getParent());
    } catch (IOException | InterruptedException error) {
      throw new IllegalStateException(error);
    }
  }
}
