package org.polyplane.spark;

import java.io.File;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Master of Spark and two workers with a core each, at addresses of their own.
 *
 * <p>A task is not speculated on the host that runs it, and local-cluster has one host.
 */
final class Standalone implements AutoCloseable {
  private final List<Process> processes = new ArrayList<>();
  private final Path work = Files.createTempDirectory("polyplane");
  private final int port;

  Standalone() throws Exception {
    InetAddress host = InetAddress.getByName("127.0.0.1");
    try (ServerSocket free = new ServerSocket(0, 1, host)) {
      port = free.getLocalPort();
    }
    String masterPort = Integer.toString(port);
    start("master.Master", "--host", "127.0.0.1", "--port", masterPort, "--webui-port", "0");
    for (int tries = 0; !isOpen(host); tries++) {
      Check.isTrue(tries < 300, "the master does not start");
      Thread.sleep(100);
    }
    for (String address : List.of("127.0.0.2", "127.0.0.3")) {
      start("worker.Worker", "--host", address, "--webui-port", "0", "-c", "1", "-m", "1g",
          "-d", work.toString(), master());
    }
  }

  String master() {
    return "spark://127.0.0.1:" + port;
  }

  private boolean isOpen(InetAddress host) {
    try (Socket socket = new Socket(host, port)) {
      return socket.isConnected();
    } catch (IOException error) {
      return false;
    }
  }

  private void start(String name, String... arguments) throws IOException {
    String home = System.getenv("SPARK_HOME");
    List<String> command =
        new ArrayList<>(List.of(home + "/bin/spark-class", "org.apache.spark.deploy." + name));
    command.addAll(Arrays.asList(arguments));
    File log = work.resolve("log").toFile();
    var builder = new ProcessBuilder(command).redirectErrorStream(true);
    processes.add(builder.redirectOutput(Redirect.appendTo(log)).start());
  }

  @Override
  public void close() {
    processes.forEach(Process::destroy);
  }
}
