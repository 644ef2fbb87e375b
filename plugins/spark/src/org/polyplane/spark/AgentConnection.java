package org.polyplane.spark;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.polyplane.spark.AgentException.Reason;

/**
 * Connection to the agent of this host for stored parts: STORE, COLLECT and FORGET.
 *
 * <p>A frame is its length (4 bytes, big-endian, of all that follows), its kind (1 byte) and a
 * body. Not for several threads at once.
 */
public final class AgentConnection implements AutoCloseable {
  /** Version of this engine. */
  static final String VERSION = "0.1.0";

  private static final int PROTOCOL = 1;
  private static final int MAX_FRAME = (1 << 30) + 64;
  private static final int HEAD = 5;
  private static final long HELLO_SECONDS = 10;

  /** Time after which the thread looks whether its task is still wanted. */
  private static final long LOOK_MILLIS = 500;

  private static final ObjectMapper JSON = new ObjectMapper();

  /** Kind of a frame. The number is the one of the frame. */
  private enum Kind {
    HELLO,
    ERROR,
    JOIN,
    JOINED,
    REDUCE,
    REDUCED,
    LEAVE,
    STORE,
    STORED,
    COLLECT,
    PAIRS,
    COLLECTED,
    FORGET
  }

  private record Frame(Kind kind, byte[] body) {}

  /** Stored part of a map task, at the agent of a host. */
  public record Part(String host, String name) {}

  /** Reduction that is asked for. Null slots and tiers: those of the agent. */
  public record Request(
      String name,
      String operator,
      int keys,
      String values,
      Integer slots,
      Integer tiers,
      List<Part> parts,
      long mostBytes) {}

  /** Complete result: bodies of PAIRS, the number of pairs, and bytes over the reducer's link. */
  public record Collected(List<byte[]> pairs, long keys, long bytes) {}

  /** Is asked while the agent is silent; throws if nobody waits for the answer any more. */
  public interface Wanted {
    void check();
  }

  private final String path;
  private final Duration patience;
  private final Wanted wanted;
  private final SocketChannel channel;
  private final Selector selector;
  private String host = "";

  /**
   * Connects, and exchanges HELLO.
   *
   * @param address the agent's socket for engines, {@code unix:PATH}
   * @param patience time that the agent has for each answer
   */
  public AgentConnection(String address, Duration patience, Wanted wanted) throws IOException {
    this.path = address.startsWith("unix:") ? address.substring(5) : address;
    this.patience = patience;
    this.wanted = wanted;
    try {
      channel = SocketChannel.open(UnixDomainSocketAddress.of(Path.of(path)));
    } catch (InterruptedIOException | ClosedByInterruptException error) {
      throw error;
    } catch (IOException error) {
      throw new AgentException(
          Reason.GONE, "no agent at " + path + " (" + error.getMessage() + "): " + remedy());
    }
    Selector opened = null;
    try {
      opened = Selector.open();
      selector = opened;
      channel.configureBlocking(false);
      channel.register(selector, 0);
      hello();
    } catch (IOException | RuntimeException error) {
      if (opened != null) {
        opened.close();
      }
      channel.close();
      throw error;
    }
  }

  /** Returns the address of the agent's host. */
  public String host() {
    return host;
  }

  /** Stores pairs under a name, in place of what is stored there. */
  void store(String name, PairBuffer pairs) throws IOException {
    byte[] nameBytes = name.getBytes(UTF_8);
    if (nameBytes.length > PairBuffer.MAX_KEY) {
      throw new AgentException(Reason.PAIRS, "the name of a part is too long: " + name);
    }
    int length = 1 + Short.BYTES + nameBytes.length + pairs.length();
    ByteBuffer head = ByteBuffer.allocate(HEAD + Short.BYTES + nameBytes.length);
    head.putInt(length).put((byte) Kind.STORE.ordinal());
    head.putShort((short) nameBytes.length).put(nameBytes).flip();
    send(head, pairs.view());
    long stored = json(answer(Kind.STORED, patience)).path("pairs").asLong(-1);
    if (stored != pairs.pairs()) {
      throw new AgentException(
          Reason.ANSWER, at() + " has stored " + stored + " pairs of " + pairs.pairs());
    }
  }

  /** Returns the reduction of stored parts, once it is complete. */
  public Collected collect(Request request) throws IOException {
    ObjectNode body = JSON.createObjectNode();
    body.put("name", request.name).put("operator", request.operator);
    body.put("keys", request.keys).put("values", request.values);
    if (request.slots != null) {
      body.put("slots", request.slots);
    }
    if (request.tiers != null) {
      body.put("tiers", request.tiers);
    }
    var mappers = body.putArray("mappers");
    for (Part part : request.parts) {
      mappers.addObject().put("host", part.host).put("part", part.name);
    }
    send(Kind.COLLECT, JSON.writeValueAsBytes(body));
    List<byte[]> pairs = new ArrayList<>();
    long count = 0;
    long bytes = 0;
    while (true) {
      Frame frame = receive(patience);
      if (frame.kind != Kind.PAIRS) {
        JsonNode end = json(expected(frame, Kind.COLLECTED));
        if (end.path("keys").asLong(-1) != count) {
          String text = count + " pairs of " + end.path("keys") + " came from " + at();
          throw new AgentException(Reason.ANSWER, request.name + ": " + text);
        }
        return new Collected(pairs, count, end.path("bytes").asLong(0));
      }
      bytes += frame.body.length;
      if (bytes > request.mostBytes) {
        String text = ": a result of more than " + request.mostBytes + " bytes";
        throw new AgentException(
            Reason.PAIRS, request.name + text + ": use more partitions, or raise the limit");
      }
      count += checkedPairs(frame.body);
      pairs.add(frame.body);
    }
  }

  /** Drops all stored parts of which the name begins with a prefix. There is no answer. */
  public void forget(String prefix) throws IOException {
    send(Kind.FORGET, prefix.getBytes(UTF_8));
  }

  @Override
  public void close() {
    try {
      selector.close();
      channel.close();
    } catch (IOException error) {
      // It is closed for us, and nothing was left to send.
    }
  }

  private void hello() throws IOException {
    ObjectNode own = JSON.createObjectNode();
    own.put("protocol", PROTOCOL).put("engine", "spark " + VERSION);
    send(Kind.HELLO, JSON.writeValueAsBytes(own));
    Duration most = Duration.ofSeconds(HELLO_SECONDS);
    Duration first = patience.compareTo(most) < 0 ? patience : most;
    JsonNode hello = json(answer(Kind.HELLO, first));
    int protocol = hello.path("protocol").asInt(-1);
    if (protocol != PROTOCOL) {
      String version = hello.path("polyplane").asText("?");
      throw new AgentException(
          Reason.ANSWER,
          at() + " (polyplane " + version + ") speaks protocol " + protocol + ", this plugin "
              + PROTOCOL + ": use the plugin of the agent's version");
    }
    host = hello.path("host").asText("");
  }

  /** Returns the number of pairs of a body. */
  private long checkedPairs(byte[] body) throws AgentException {
    long count = 0;
    int at = 0;
    while (at < body.length) {
      int left = body.length - at - PairBuffer.OVERHEAD;
      int key = left < 0 ? 0 : Short.toUnsignedInt(ByteBuffer.wrap(body).getShort(at));
      if (left < key || !Keys.isEncoded(body, at + Short.BYTES, key)) {
        throw new AgentException(Reason.ANSWER, at() + " sent a pair that is cut or has no type");
      }
      at += PairBuffer.OVERHEAD + key;
      count++;
    }
    return count;
  }

  private void send(Kind kind, byte[] body) throws IOException {
    ByteBuffer head = ByteBuffer.allocate(HEAD);
    head.putInt(body.length + 1).put((byte) kind.ordinal()).flip();
    send(head, ByteBuffer.wrap(body));
  }

  private void send(ByteBuffer... buffers) throws IOException {
    long deadline = System.nanoTime() + patience.toNanos();
    ByteBuffer last = buffers[buffers.length - 1];
    try {
      while (buffers[0].hasRemaining() || last.hasRemaining()) {
        if (channel.write(buffers) == 0) {
          await(SelectionKey.OP_WRITE, deadline, patience);
        }
      }
    } catch (InterruptedIOException | ClosedByInterruptException error) {
      throw error;
    } catch (AgentException error) {
      throw error;
    } catch (IOException error) {
      // The reason may be in an ERROR that was not read yet.
      receive(patience);
      throw closed();
    }
  }

  private Frame answer(Kind kind, Duration patience) throws IOException {
    return expected(receive(patience), kind);
  }

  private Frame expected(Frame frame, Kind kind) throws AgentException {
    if (frame.kind == kind) {
      return frame;
    }
    throw new AgentException(Reason.ANSWER, at() + " sent " + frame.kind + ", not " + kind);
  }

  /** Returns the next frame. An ERROR is thrown. */
  private Frame receive(Duration patience) throws IOException {
    long deadline = System.nanoTime() + patience.toNanos();
    ByteBuffer head = ByteBuffer.allocate(HEAD);
    fill(head, deadline, patience);
    int length = head.getInt(0);
    int kind = head.get(HEAD - 1);
    if (length < 1 || length > MAX_FRAME || kind < 0 || kind >= Kind.values().length) {
      throw new AgentException(
          Reason.ANSWER, at() + " sent no frame; is it an agent's `--engines`?");
    }
    ByteBuffer body = ByteBuffer.allocate(length - 1);
    fill(body, deadline, patience);
    Frame frame = new Frame(Kind.values()[kind], body.array());
    if (frame.kind == Kind.ERROR) {
      throw new AgentException(Reason.REFUSED, new String(frame.body, UTF_8));
    }
    return frame;
  }

  private void fill(ByteBuffer buffer, long deadline, Duration patience) throws IOException {
    try {
      while (buffer.hasRemaining()) {
        int count = channel.read(buffer);
        if (count < 0) {
          throw closed();
        }
        if (count == 0) {
          await(SelectionKey.OP_READ, deadline, patience);
        }
      }
    } catch (InterruptedIOException | ClosedByInterruptException error) {
      throw error;
    } catch (AgentException error) {
      throw error;
    } catch (IOException error) {
      throw closed();
    }
  }

  private void await(int operation, long deadline, Duration patience) throws IOException {
    channel.keyFor(selector).interestOps(operation);
    selector.select(LOOK_MILLIS);
    selector.selectedKeys().clear();
    if (Thread.currentThread().isInterrupted()) {
      throw new InterruptedIOException("interrupted while the agent at " + path + " worked");
    }
    wanted.check();
    if (System.nanoTime() > deadline) {
      throw new AgentException(
          Reason.SILENT, at() + " did not answer in " + patience.toMillis() / 1e3 + " s");
    }
  }

  private JsonNode json(Frame frame) throws AgentException {
    try {
      JsonNode node = JSON.readTree(frame.body);
      if (node.isObject()) {
        return node;
      }
    } catch (IOException error) {
      // The text below says it.
    }
    throw new AgentException(Reason.ANSWER, at() + " sent " + frame.kind + " without JSON");
  }

  private String at() {
    return "the agent at " + path;
  }

  private String remedy() {
    return "start it with `polyplane aggregate agent ... --engines unix:" + path
        + "` on this host";
  }

  private AgentException closed() {
    return new AgentException(
        Reason.GONE, at() + " closed the connection: see its log; if it has ended, " + remedy());
  }
}
