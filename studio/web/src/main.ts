// The page: texts on one side, packets and what happened to them on the other.

import { StreamLanguage } from "@codemirror/language";
import { type Checked, type Diagnostic, type Example, type PacketResult, type Ran, api } from "./api";
import { byId, element } from "./dom";
import { Editor, type Problem, replacement } from "./editor";
import { p4 } from "./p4";
import { PacketList } from "./packets";
import { fromFragment, toFragment } from "./share";
import { toStf } from "./stf";
import { results } from "./trace";

/** Number of bytes of a capture that are read; the server takes no more. */
const MAX_CAPTURE = 4_000_000;

/** Time without a key before the program is checked, in milliseconds. */
const PAUSE = 150;

const plain = StreamLanguage.define({
  token(stream) {
    if (stream.match("#")) {
      stream.skipToEnd();
      return "comment";
    }
    stream.next();
    return null;
  },
  languageData: { commentTokens: { line: "#" } },
});

const program = new Editor(byId("program"), "Program", p4, () => checkSoon());
const entries = new Editor(byId("entries"), "Entries", plain, () => forget());
const packets = new PacketList(byId("packets"), () => forget());
let examples: Example[] = [];
let ran: PacketResult[] = [];
let timer = 0;
/** Number of edits so far: an answer to texts or packets before an edit is left out. */
let edits = 0;

function say(text: string): void {
  byId("status").textContent = text;
}

function failed(error: unknown): void {
  say(error instanceof Error ? error.message : String(error));
}

/** Removes the results, which belong to texts and packets before an edit. */
function forget(): void {
  edits += 1;
  ran = [];
  byId("trace").replaceChildren();
  // Their places are those of the entries before.
  byId("entry-problems").replaceChildren();
}

function checkSoon(): void {
  forget();
  byId("problems").replaceChildren();
  checkAfterPause();
}

async function check(): Promise<void> {
  const number = edits;
  const checked = await api.check(program.text);
  if (number !== edits) {
    // An edit of entries or packets begins no check of its own.
    checkAfterPause();
    return;
  }
  showProgram(checked.diagnostics);
  if (checked.program) packets.offered = checked.program.headers;
  say(summary(checked));
}

function checkAfterPause(): void {
  clearTimeout(timer);
  timer = setTimeout(() => check().catch(failed), PAUSE);
}

function summary(checked: Checked): string {
  const errors = checked.diagnostics.filter((it) => it.severity === "error").length;
  const time = `${(checked.microseconds / 1000).toFixed(1)} ms`;
  if (errors > 0) return `${errors} ${errors === 1 ? "error" : "errors"} (${time})`;
  const tables = checked.program?.tables.length ?? 0;
  return `${checked.program?.arch}, ${tables} ${tables === 1 ? "table" : "tables"}, compiled in ${time}`;
}

function showProgram(diagnostics: Diagnostic[]): void {
  const problems = diagnostics
    .filter((it) => it.file === "program.p4")
    .map(
      (it): Problem => ({
        line: it.line,
        column: it.column,
        endLine: it.end_line,
        endColumn: it.end_column,
        severity: it.severity,
        message: it.message,
        hint: it.hint,
      }),
    );
  program.show(problems);
  byId("problems").replaceChildren(...problems.map((it) => problemLine(program, "Program", it)));
}

function problemLine(editor: Editor, name: string, problem: Problem): HTMLElement {
  const place = element("button", { type: "button", className: "place" }, `${name}, line ${problem.line}`);
  place.addEventListener("click", () => editor.reveal(problem, true));
  const line = element(
    "p",
    { className: problem.severity },
    place,
    ` ${problem.severity}: ${problem.message}${problem.hint ? ` — ${problem.hint}` : ""} `,
  );
  const proposed = replacement(problem.hint);
  if (proposed) {
    const fix = element("button", { type: "button" }, `Change to ${proposed}`);
    fix.addEventListener("click", () => editor.replace(problem, proposed));
    line.append(fix);
  }
  return line;
}

async function run(): Promise<void> {
  say("running");
  const number = edits;
  const answer = await api.run({ program: program.text, entries: entries.text }, packets.all);
  if (number === edits) show(answer);
  else say("texts or packets changed meanwhile: send again");
}

function show(answer: Ran): void {
  ran = answer.packets;
  showProgram(answer.diagnostics);
  const faults = answer.entry_errors.map(
    (it): Problem => ({
      line: it.line,
      column: it.column,
      endLine: it.line,
      endColumn: it.column + it.length,
      severity: "error",
      message: it.message,
      hint: it.hint,
    }),
  );
  entries.show(faults);
  byId("entry-problems").replaceChildren(...faults.map((it) => problemLine(entries, "Entries", it)));
  const reveal = (source: { file: string; line: number; column: number }) => {
    if (source.file !== "program.p4") return;
    program.reveal({ ...source, endLine: source.line, endColumn: source.column }, true);
  };
  byId("trace").replaceChildren(...results(answer.packets, reveal));
  if (answer.refusal) say(answer.refusal);
  else if (answer.packets.length > 0) say(`${answer.packets.length} packets ran`);
  else say("nothing ran: see the problems");
}

function load(texts: { program: string; entries: string; packets?: Example["packets"] }): void {
  program.text = texts.program;
  entries.text = texts.entries;
  entries.show([]);
  packets.all = structuredClone(texts.packets ?? [{ port: 0, bytes: "" }]);
  forget();
}

/** Saves a text as a file. */
function save(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  const link = element("a", { href: url, download: name });
  link.click();
  // A browser may read it some time later.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

async function exportFiles(): Promise<void> {
  if (ran.length === 0) await run();
  if (ran.length === 0) return;
  const hasEntries = entries.text.trim() !== "";
  save("program.p4", program.text);
  if (hasEntries) save("program.entries", entries.text);
  save("program.stf", toStf(packets.all, ran, hasEntries ? "program.entries" : null));
}

async function share(): Promise<void> {
  const fragment = await toFragment({ program: program.text, entries: entries.text, packets: packets.all });
  history.replaceState(null, "", fragment);
  await navigator.clipboard.writeText(location.href).catch(() => {});
  say("The link is in the address bar. It holds program, entries and packets.");
}

async function openCapture(file: Blob): Promise<void> {
  const capture = await api.capture(file.slice(0, MAX_CAPTURE));
  packets.all = capture.packets;
  forget();
  const first = capture.has_more || file.size > MAX_CAPTURE ? "the first " : "";
  say(`${first}${packets.all.length} packets of the capture; choose their ports`);
}

function connect(): void {
  const choice = byId<HTMLSelectElement>("example");
  choice.replaceChildren(...examples.map((it) => element("option", { textContent: it.name })));
  choice.addEventListener("change", () => {
    const chosen = examples[choice.selectedIndex];
    if (chosen) load(chosen);
  });
  byId("run").addEventListener("click", () => run().catch(failed));
  byId("add").addEventListener("click", () => {
    try {
      packets.add({ port: 0, bytes: "" });
    } catch (error) {
      failed(error);
    }
  });
  byId("share").addEventListener("click", () => share().catch(failed));
  byId("export").addEventListener("click", () => exportFiles().catch(failed));
  const input = byId<HTMLInputElement>("capture");
  input.addEventListener("change", () => {
    const file = input.files?.[0];
    if (file) openCapture(file).catch(failed);
    // The same file can be opened again.
    input.value = "";
  });
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    const file = event.dataTransfer?.files[0];
    if (file) openCapture(file).catch(failed);
  });
}

async function begin(): Promise<void> {
  examples = await api.examples();
  connect();
  const shared = await fromFragment(location.hash);
  const start = shared ?? (await api.start());
  const first = examples[0];
  if (start) load(start);
  else if (first) load(first);
  if (!shared && location.hash.startsWith("#s=")) say("The link is damaged or too long: it is not used.");
}

begin().catch(failed);
