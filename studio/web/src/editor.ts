// The editors of the program and its entries.

import { indentWithTab } from "@codemirror/commands";
import { type Diagnostic as Mark, lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView, keymap } from "@codemirror/view";
import { basicSetup } from "codemirror";
import { colours } from "./p4";

/** Position of a mark: lines and columns from 1, columns in characters. */
export interface Place {
  line: number;
  column: number;
  endLine: number;
  endColumn: number;
}

export interface Problem extends Place {
  severity: "error" | "warning";
  message: string;
  hint: string | null;
}

/** Name that a hint proposes in place of the marked one, if it proposes one. */
export function replacement(hint: string | null): string | null {
  return hint?.match(/did you mean [`'"]([^`'"]+)[`'"]/)?.[1] ?? null;
}

export class Editor {
  private readonly view: EditorView;

  constructor(parent: HTMLElement, label: string, language: Extension, changed: () => void) {
    const nonce = document.querySelector<HTMLMetaElement>("meta[name=style-nonce]")?.content ?? "";
    this.view = new EditorView({
      parent,
      state: EditorState.create({
        extensions: [
          basicSetup,
          language,
          colours,
          lintGutter(),
          // Escape and then Tab leaves the editor.
          keymap.of([indentWithTab]),
          EditorView.cspNonce.of(nonce),
          EditorView.contentAttributes.of({ "aria-label": label }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) changed();
          }),
        ],
      }),
    });
    // A scrolling region can be reached by the keyboard, also before its text is.
    this.view.scrollDOM.tabIndex = 0;
  }

  get text(): string {
    return this.view.state.doc.toString();
  }

  set text(text: string) {
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text } });
  }

  /** Marks problems. Those that propose a name have an action that takes it. */
  show(problems: Problem[]): void {
    const marks = problems.map((problem): Mark => {
      const [from, to] = this.range(problem);
      const name = replacement(problem.hint);
      const message = problem.hint ? `${problem.message}\nhint: ${problem.hint}` : problem.message;
      const mark: Mark = { from, to, severity: problem.severity, message };
      if (name) {
        // The editor knows where the marked text is after edits.
        const apply = (view: EditorView, start: number, end: number) =>
          view.dispatch({ changes: { from: start, to: end, insert: name } });
        mark.actions = [{ name: `Change to ${name}`, apply }];
      }
      return mark;
    });
    this.view.dispatch(setDiagnostics(this.view.state, marks));
  }

  /** Replaces the text of a place. */
  replace(place: Place, text: string): void {
    const [from, to] = this.range(place);
    this.view.dispatch({ changes: { from, to, insert: text } });
  }

  /** Selects a place and scrolls to it. */
  reveal(place: Place, focus: boolean): void {
    const [from, to] = this.range(place);
    this.view.dispatch({ selection: { anchor: from, head: to }, scrollIntoView: true });
    if (focus) this.view.focus();
  }

  private range(place: Place): [number, number] {
    const from = this.offset(place.line, place.column);
    return [from, Math.max(from, this.offset(place.endLine, place.endColumn))];
  }

  private offset(line: number, column: number): number {
    const document = this.view.state.doc;
    const at = document.line(Math.min(Math.max(line, 1), document.lines));
    // Columns count characters, positions of the editor UTF-16 units.
    const before = Array.from(at.text).slice(0, column - 1).join("");
    return at.from + before.length;
  }
}
