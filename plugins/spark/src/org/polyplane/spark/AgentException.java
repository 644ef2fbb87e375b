package org.polyplane.spark;

import java.io.IOException;

/** Failure of an agent, of the connection to it, or of a reduction; the text has the remedy. */
public final class AgentException extends IOException {
  private static final long serialVersionUID = 1;

  /** Reason as it is counted: texts that differ in names alone have the same one. */
  public enum Reason {
    /** The agent is not there, or its connection has ended. */
    GONE("the agent is gone"),
    /** The agent did not answer in time. */
    SILENT("the agent is silent"),
    /** The agent has answered with an error. */
    REFUSED("the agent has answered with an error"),
    /** The answer of the agent is no answer of this protocol, or it is not complete. */
    ANSWER("the answer of the agent is not complete"),
    /** The pairs or a result are too large, or have a key that has no encoding. */
    PAIRS("pairs that the network cannot have"),
    /** A host has no address that an agent could have. */
    HOST("a host without an IPv4 address");

    private final String text;

    Reason(String text) {
      this.text = text;
    }

    @Override
    public String toString() {
      return text;
    }
  }

  private final Reason reason;

  AgentException(Reason reason, String message) {
    super(message);
    this.reason = reason;
  }

  /** Returns the reason as it is counted. */
  public Reason reason() {
    return reason;
  }
}
