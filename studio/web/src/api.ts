// The endpoints of the server, and the JSON that they take and give.

export interface Packet {
  port: number;
  bytes: string;
}

export interface Texts {
  program: string;
  entries: string;
}

export interface Example extends Texts {
  name: string;
  packets: Packet[];
}

export interface Diagnostic {
  file: string;
  line: number;
  column: number;
  end_line: number;
  end_column: number;
  severity: "error" | "warning";
  code: string;
  message: string;
  hint: string | null;
  notes: string[];
}

export interface FieldView {
  name: string;
  width: number;
  is_varbit: boolean;
}

export interface HeaderView {
  name: string;
  fields: FieldView[];
}

export interface ProgramView {
  arch: string;
  headers: HeaderView[];
  tables: { name: string; keys: { name: string; match: string }[]; actions: string[]; size: number }[];
}

export interface Checked {
  diagnostics: Diagnostic[];
  program: ProgramView | null;
  microseconds: number;
}

export interface EntryFault {
  line: number;
  column: number;
  length: number;
  message: string;
  hint: string | null;
}

export interface Source {
  file: string;
  line: number;
  column: number;
  text?: string;
}

export interface Reading {
  value: string;
  width: number;
  text: string;
}

export type Named = Reading & { name: string };

/** Step of a trace. `event` says which of the other keys there are. */
export interface Step {
  event: string;
  source?: Source | null;
  [key: string]: unknown;
}

export interface Bytes {
  port?: number;
  length: number;
  bytes: string;
}

export interface Trace {
  packet: Bytes;
  events: Step[];
  outputs: Bytes[];
}

export interface Capture {
  packets: Packet[];
  has_more: boolean;
}

export type PacketResult = { trace: Trace } | { fault: string };

export interface Ran {
  diagnostics: Diagnostic[];
  entry_errors: EntryFault[];
  refusal: string | null;
  packets: PacketResult[];
}

async function answer<T>(request: Promise<Response>): Promise<T> {
  let response: Response;
  try {
    response = await request;
  } catch {
    throw new Error("The server does not answer: is `polyplane studio` still running?");
  }
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as T;
}

function post<T>(path: string, body: unknown): Promise<T> {
  const headers = { "Content-Type": "application/json" };
  return answer<T>(fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

export const api = {
  examples: () => answer<Example[]>(fetch("/api/examples")),
  start: () => answer<Texts | null>(fetch("/api/start")),
  check: (program: string) => post<Checked>("/api/check", { program }),
  run: (texts: Texts, packets: Packet[]) => post<Ran>("/api/run", { ...texts, packets }),
  capture: (file: Blob) =>
    answer<Capture>(
      fetch("/api/capture", {
        method: "POST",
        headers: { "Content-Type": "application/vnd.tcpdump.pcap" },
        body: file,
      }),
    ),
};
