// Traces: what became of each packet, and its way through the program step by step.

import type { Bytes, Named, PacketResult, Reading, Source, Step, Trace } from "./api";
import { element } from "./dom";

type Reveal = (source: Source) => void;

/** Returns the results of all packets, the first one open. */
export function results(all: PacketResult[], reveal: Reveal): HTMLElement[] {
  return all.map((result, index) => {
    const name = `Packet ${index + 1}: `;
    if ("fault" in result) {
      return element("p", { className: "fault" }, name, element("span", { className: "mono" }, result.fault));
    }
    const { trace } = result;
    const body = element("div", { className: "walk" });
    const details = element(
      "details",
      { open: index === 0 },
      element("summary", {}, name, element("strong", { textContent: outcome(trace) })),
      body,
    );
    const fill = () => {
      if (details.open && !body.hasChildNodes()) body.append(steps(trace, reveal), bytesOf(trace));
    };
    details.addEventListener("toggle", fill);
    fill();
    return details;
  });
}

/** Returns what became of a packet, in one line. */
export function outcome(trace: Trace): string {
  const ports = trace.outputs.map((it) => it.port).filter((it) => it !== undefined);
  const sent = ports.length > 0 ? `sent at port ${ports.join(", ")}` : "";
  const at = trace.events.findLastIndex((step) => step.event === "dropped");
  const dropped = trace.events[at];
  if (!dropped) return sent || "neither sent nor dropped";
  const lookup = trace.events.slice(0, at).findLast((step) => step.event === "lookup");
  const by = lookup ? ` after table ${lookup.table} (${lookup.hit ? "hit" : "miss"})` : "";
  const why = `dropped${by}: ${dropped.text}`;
  return sent ? `${sent}; a copy was ${why}` : why;
}

function steps(trace: Trace, reveal: Reveal): HTMLElement {
  const list = element("ol", { className: "steps" });
  list.setAttribute("aria-label", "Steps");
  for (const step of trace.events) {
    const [kind, ...rest] = describe(step);
    const item = element("li", { className: `step ${step.event}` });
    const line = element("span", { className: "kind", textContent: `${kind} ` });
    if (step.source) {
      const { source } = step;
      const button = element("button", { type: "button", className: "place" }, `line ${source.line}`);
      button.setAttribute("aria-label", `Show line ${source.line} of the program`);
      button.addEventListener("click", () => reveal(source));
      item.append(line, ...rest, " ", button);
    } else {
      item.append(line, ...rest);
    }
    list.append(item);
  }
  return list;
}

const named = (values: unknown) =>
  (values as Named[]).map((it) => `${it.name} = ${it.text}`).join(", ");
const strong = (text: unknown) => element("strong", { textContent: String(text) });

/** Returns the kind of a step and its details. */
function describe(step: Step): [string, ...(Node | string)[]] {
  switch (step.event) {
    case "received":
      return ["received", `${step.length} bytes at port ${step.port}`];
    case "given":
      return ["given", named(step.fields)];
    case "block":
      return [String(step.role), strong(step.name)];
    case "state":
      return ["state", strong(step.state)];
    case "extracted":
      return ["extracts", strong(step.header), `: ${named(step.fields)}`];
    case "select":
      return ["select", `${named(step.keys)} → ${step.target}`];
    case "rejected":
      return ["rejected", String(step.error)];
    case "accepted":
      return ["accepted", `after ${Number(step.consumed_bits) / 8} bytes`];
    case "condition":
      return ["if", `${step.condition}: `, strong(step.holds ? "yes" : "no")];
    case "lookup": {
      const entry = step.entry as { text: string | null } | null;
      const hit = step.hit ? `hit ${entry?.text ?? ""}` : "miss";
      return ["table", strong(step.table), ` ${named(step.keys)}: `, strong(hit)];
    }
    case "action":
      return ["action", strong(step.action), ` ${named(step.params)}`];
    case "written": {
      const [before, after] = [step.old as Reading, step.new as Reading];
      return ["writes", strong(step.field), `: ${before.text} → ${after.text}`];
    }
    case "call":
      return ["calls", strong(step.function), ` ${named(step.arguments)} ${named(step.results)}`];
    case "emitted":
      return ["emits", strong(step.header)];
    case "not_emitted":
      return ["skips", `${step.header} (not valid)`];
    case "sent":
      return ["sent", strong(`port ${step.port}, ${step.length} bytes`)];
    case "dropped":
      return ["dropped", strong(step.text)];
    case "queued":
      return ["queued", `for port ${step.port}, depth ${step.depth}`];
    case "stage":
      return ["stage", `${step.stage}`];
    default:
      return [step.event.replace(/_/g, " "), String(step.text ?? "")];
  }
}

/** Returns the bytes that came in and went out, with the changed ones marked. */
function bytesOf(trace: Trace): HTMLElement {
  const place = element("div", { className: "bytes" });
  place.append(element("h3", { textContent: "Bytes" }), dump("in", trace.packet, null));
  for (const output of trace.outputs) place.append(dump("out", output, trace.packet));
  return place;
}

function dump(way: string, packet: Bytes, before: Bytes | null): HTMLElement {
  const line = element("p", { className: "dump mono" });
  line.append(`${way}${packet.port === undefined ? "" : ` (port ${packet.port})`}: `);
  for (let at = 0; at < packet.bytes.length; at += 2) {
    const byte = packet.bytes.slice(at, at + 2);
    const same = before === null || before.bytes.slice(at, at + 2) === byte;
    line.append(same ? byte : element("mark", { textContent: byte }), " ");
  }
  return line;
}
