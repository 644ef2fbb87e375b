//! Tokens of P4_16 and of the preprocessor, and the table of their texts.

use std::collections::HashMap;
use std::sync::Arc;

use crate::source::Span;

/// An interned text: equal texts have equal symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Symbol(pub(crate) u32);

/// All texts of a compilation. The first symbols are [`KEYWORDS`], then [`PUNCTUATION`], then the
/// empty text.
#[derive(Debug)]
pub(crate) struct Interner {
    symbols: HashMap<Arc<str>, Symbol>,
    texts: Vec<Arc<str>>,
}

impl Interner {
    pub(crate) fn new() -> Interner {
        let mut interner = Interner {
            symbols: HashMap::new(),
            texts: Vec::new(),
        };
        for (text, _) in KEYWORDS.iter().chain(PUNCTUATION) {
            interner.intern(text);
        }
        interner.intern("");
        interner
    }

    pub(crate) fn intern(&mut self, text: &str) -> Symbol {
        if let Some(&symbol) = self.symbols.get(text) {
            return symbol;
        }
        let symbol = Symbol(self.texts.len() as u32);
        let text: Arc<str> = text.into();
        self.texts.push(text.clone());
        self.symbols.insert(text, symbol);
        symbol
    }

    pub(crate) fn text(&self, symbol: Symbol) -> &Arc<str> {
        &self.texts[symbol.0 as usize]
    }

    /// The empty text.
    pub(crate) const EMPTY: Symbol = Symbol((KEYWORDS.len() + PUNCTUATION.len()) as u32);

    /// Returns the kind, symbol and length of the longest punctuation at the start of `text`.
    pub(crate) fn punctuation(text: &str) -> Option<(TokenKind, Symbol, usize)> {
        let first = *text.as_bytes().first()?;
        let from = usize::from(*FIRST_PUNCTUATION.get(usize::from(first))?);
        let candidates = PUNCTUATION
            .get(from..)?
            .iter()
            .take_while(|(p, _)| p.as_bytes()[0] == first);
        let (index, &(found, kind)) = candidates
            .enumerate()
            .find(|(_, (p, _))| text.starts_with(p))?;
        Some((
            kind,
            Symbol((KEYWORDS.len() + from + index) as u32),
            found.len(),
        ))
    }

    /// Returns the kind of a word: a keyword's, or `Identifier`.
    pub(crate) fn word_kind(symbol: Symbol) -> TokenKind {
        KEYWORDS
            .get(symbol.0 as usize)
            .map_or(TokenKind::Identifier, |&(_, kind)| kind)
    }
}

/// A token of sixteen bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) flags: u8,
    /// The text: for a string literal the contents between the quotes, for any other token as
    /// written.
    pub(crate) symbol: Symbol,
    pub(crate) span: Span,
}

/// Token classes, which the parser tests before the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A name or keyword.
    Word,
    /// An integer literal.
    Integer,
    /// A string literal.
    String,
    /// Punctuation, and characters that begin no token.
    Punctuation,
    /// The end of the program.
    End,
}

/// Flag: first token on its line, where a directive is allowed. Line ends inside comments do not
/// count.
pub(crate) const LINE_START: u8 = 1;
/// Flag: a line ended before the token, possibly inside a comment. `@pragma` ends there.
pub(crate) const AFTER_NEWLINE: u8 = 2;
/// Flag: white space or a comment precedes the token.
pub(crate) const AFTER_SPACE: u8 = 4;
/// Flag: a macro's own name inside its expansion, which is not expanded again.
pub(crate) const NO_EXPAND: u8 = 8;

impl Token {
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns true if it is an identifier or keyword.
    pub(crate) fn is_word(&self) -> bool {
        self.class() == Class::Word
    }

    /// Returns the class of the token.
    pub(crate) fn class(&self) -> Class {
        match self.kind {
            TokenKind::End => Class::End,
            TokenKind::Integer => Class::Integer,
            TokenKind::String => Class::String,
            TokenKind::Identifier => Class::Word,
            kind if kind >= TokenKind::Abstract => Class::Word,
            _ => Class::Punctuation,
        }
    }
}

macro_rules! tokens {
    ($($punct:ident $text:literal,)* ; $($keyword:ident $word:literal,)*) => {
        /// Kind of a token.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum TokenKind {
            /// The end of the program, of a directive, or of a macro's argument.
            End,
            /// A run of characters that begin no token.
            Unknown,
            /// A name.
            Identifier,
            /// An integer literal.
            Integer,
            /// A string literal.
            String,
            /// Text in another language: the braces of `extern "C" { .. }` and all between.
            Foreign,
            $(#[doc = $text] $punct,)*
            $(#[doc = $word] $keyword,)*
        }

        /// Keywords by their symbols.
        pub(crate) const KEYWORDS: &[(&str, TokenKind)] = &[$(($word, TokenKind::$keyword),)*];

        /// Punctuation, grouped by first byte, longest first in a group.
        pub(crate) const PUNCTUATION: &[(&str, TokenKind)] = &[$(($text, TokenKind::$punct),)*];
    };
}

tokens! {
    InvalidHeader "{#}", LeftBrace "{",
    AddSatAssign "|+|=", SubSatAssign "|-|=", AddSat "|+|", SubSat "|-|", LogicalOr "||", OrAssign "|=", Or "|",
    ShlAssign "<<=", Shl "<<", Le "<=", Lt "<",
    ShrAssign ">>=", Shr ">>", Ge ">=", Gt ">",
    Mask "&&&", LogicalAnd "&&", AndAssign "&=", And "&",
    Dots "...", Range "..", Dot ".",
    HashHash "##", Hash "#",
    Eq "==", Assign "=",
    Ne "!=", Not "!",
    Concat "++", AddAssign "+=", Plus "+",
    SubAssign "-=", Minus "-",
    MulAssign "*=", Star "*",
    DivAssign "/=", Slash "/",
    ModAssign "%=", Percent "%",
    XorAssign "^=", Xor "^",
    Tilde "~",
    LeftParen "(",
    RightParen ")",
    LeftBracket "[",
    RightBracket "]",
    RightBrace "}",
    Colon ":",
    Comma ",",
    Question "?",
    Semicolon ";",
    At "@",
    ;
    Abstract "abstract", Action "action", Actions "actions", Apply "apply", Bit "bit", Bool "bool", Break "break", Const "const",
    Continue "continue", Control "control", Default "default", Else "else", Entries "entries", Enum "enum", Error "error",
    Exit "exit", Extern "extern", False "false", For "for", Header "header", HeaderUnion "header_union", If "if", In "in",
    Inout "inout", Int "int", Key "key", List "list", MatchKind "match_kind", Out "out", Package "package", Parser "parser",
    Priority "priority", Return "return", Select "select", State "state", StringType "string", Struct "struct", Switch "switch",
    Table "table", This "this", Transition "transition", True "true", Tuple "tuple", Type "type", Typedef "typedef",
    ValueSet "value_set", Varbit "varbit", Void "void", Underscore "_",
}

/// Index in [`PUNCTUATION`] of the group of each first byte; 255 if there is none.
const FIRST_PUNCTUATION: [u8; 128] = {
    let mut first = [255; 128];
    let mut i = PUNCTUATION.len();
    while i > 0 {
        i -= 1;
        first[PUNCTUATION[i].0.as_bytes()[0] as usize] = i as u8;
    }
    first
};
