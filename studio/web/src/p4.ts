// Colours of P4 text in the editor.

import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { tags } from "@lezer/highlight";

const KEYWORDS = new Set(
  `abstract action actions apply const control default else entries enum error exit extern for if in
  inout list header header_union key match_kind out package parser priority return select state
  struct switch table this transition tuple typedef type value_set break continue`.split(/\s+/),
);
const TYPES = new Set("bit bool int string varbit void".split(" "));
const ATOMS = new Set("true false accept reject _ isValid setValid setInvalid".split(" "));

interface State {
  inComment: boolean;
}

export const p4 = StreamLanguage.define<State>({
  name: "p4",
  startState: () => ({ inComment: false }),
  token(stream, state) {
    if (state.inComment) {
      if (stream.skipTo("*/")) {
        stream.match("*/");
        state.inComment = false;
      } else {
        stream.skipToEnd();
      }
      return "comment";
    }
    if (stream.eatSpace()) return null;
    if (stream.match("//")) {
      stream.skipToEnd();
      return "comment";
    }
    if (stream.match("/*")) {
      state.inComment = true;
      return "comment";
    }
    if (stream.sol() && stream.match(/\s*#\s*\w+/)) return "meta";
    if (stream.match(/"(?:[^"\\]|\\.)*"?/)) return "string";
    if (stream.match(/@\w+/)) return "meta";
    if (stream.match(/\d+[ws](?:0x[\da-fA-F_]+|0b[01_]+|\d[\d_]*)|0[xX][\da-fA-F_]+|0[bB][01_]+|\d[\d_]*/)) {
      return "number";
    }
    const word = stream.match(/[A-Za-z_]\w*/) as RegExpMatchArray | null;
    if (word) {
      const name = word[0];
      if (KEYWORDS.has(name)) return "keyword";
      if (TYPES.has(name)) return "typeName";
      if (ATOMS.has(name)) return "atom";
      return "variableName";
    }
    stream.next();
    return null;
  },
  languageData: { commentTokens: { line: "//", block: { open: "/*", close: "*/" } } },
});

/** Colours by the variables of the style sheet, which has them for light and dark. */
export const colours = syntaxHighlighting(
  HighlightStyle.define([
    { tag: tags.comment, color: "var(--quiet)" },
    { tag: tags.keyword, color: "var(--keyword)" },
    { tag: tags.typeName, color: "var(--type)" },
    { tag: tags.atom, color: "var(--type)" },
    { tag: tags.number, color: "var(--number)" },
    { tag: tags.string, color: "var(--number)" },
    { tag: tags.meta, color: "var(--quiet)" },
  ]),
);
