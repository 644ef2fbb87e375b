//! Keywords of IR text for enums: one table for each enum, for the printer and the reader.

use crate::code::{BinOp, UnOp};
use crate::program::{
    ActionScope, Arch, BlockRole, CounterUnit, HashAlgorithm, MatchKind, TransferPath,
};

/// An enum that IR text writes as one word or operator.
pub(crate) trait Word: Copy + PartialEq + 'static {
    /// All variants with their words.
    const WORDS: &'static [(Self, &'static str)];

    /// Returns its word.
    fn word(self) -> &'static str {
        Self::WORDS
            .iter()
            .find(|(choice, _)| *choice == self)
            .map_or("?", |(_, word)| word)
    }

    /// Returns the variant with this word.
    fn from_word(word: &str) -> Option<Self> {
        Self::WORDS
            .iter()
            .find(|(_, known)| *known == word)
            .map(|(choice, _)| *choice)
    }
}

macro_rules! words {
    ($($ty:ident { $($variant:ident = $word:literal),* $(,)? })*) => {
        $(impl Word for $ty {
            const WORDS: &'static [(Self, &'static str)] = &[$(($ty::$variant, $word)),*];
        })*
    };
}

words! {
    Arch { V1model = "v1model", Psa = "psa", Pna = "pna", Ebpf = "ebpf", Ubpf = "ubpf", Xdp = "xdp", Own = "own" }
    MatchKind {
        Exact = "exact", Lpm = "lpm", Ternary = "ternary", Range = "range", Optional = "optional", Selector = "selector",
    }
    CounterUnit { Packets = "packets", Bytes = "bytes", Both = "packets_and_bytes" }
    HashAlgorithm {
        Identity = "identity", Crc32 = "crc32", Crc32Custom = "crc32_custom", Crc16 = "crc16", Crc16Custom = "crc16_custom",
        Csum16 = "csum16", Xor16 = "xor16", Random = "random", TargetDefault = "target_default", Toeplitz = "toeplitz",
    }
    BlockRole {
        Parser = "parser", VerifyChecksum = "verify_checksum", PreControl = "pre_control", Ingress = "ingress",
        IngressDeparser = "ingress_deparser", EgressParser = "egress_parser", Egress = "egress",
        ComputeChecksum = "compute_checksum", Deparser = "deparser", Route = "route",
    }
    TransferPath {
        Normal = "normal", Resubmit = "resubmit", Recirculate = "recirculate", CloneI2E = "clone_i2e", CloneE2E = "clone_e2e",
    }
    ActionScope { TableAndDefault = "table_and_default", TableOnly = "tableonly", DefaultOnly = "defaultonly" }
    UnOp { Neg = "-", Complement = "~", Not = "!" }
    BinOp {
        AddSaturating = "|+|", SubSaturating = "|-|", LogicalAnd = "&&", LogicalOr = "||", Shl = "<<", Shr = ">>", Eq = "==",
        Ne = "!=", Le = "<=", Ge = ">=", Lt = "<", Gt = ">", Add = "+", Sub = "-", Mul = "*", Div = "/", Mod = "%", And = "&",
        Or = "|", Xor = "^",
    }
}

impl BlockRole {
    /// Returns its word in IR text.
    pub fn name(self) -> &'static str {
        self.word()
    }
}

impl HashAlgorithm {
    /// Returns its word in IR text.
    pub fn name(self) -> &'static str {
        self.word()
    }
}

impl MatchKind {
    /// Returns its name in P4.
    pub fn name(self) -> &'static str {
        self.word()
    }
}

/// Words that a bare name may not begin with, because they have another meaning where a name is
/// allowed.
const RESERVED: &[&str] = &[
    "_",
    "accept",
    "advance",
    "atomic",
    "bit",
    "block",
    "bool",
    "by_action",
    "call",
    "clear",
    "continue",
    "else",
    "emit",
    "emit_field",
    "end",
    "enum",
    "error",
    "exit",
    "extract",
    "fail",
    "false",
    "goto",
    "header",
    "hit",
    "if",
    "int",
    "leave",
    "lookahead",
    "loop",
    "out",
    "packet_length",
    "pop_front",
    "push_front",
    "reject",
    "run",
    "select",
    "stack",
    "true",
    "tuple",
    "value_set",
    "varbit",
    "varbit_eq",
    "varbit_len",
    "verify",
];

/// Returns true if a name needs no quotes in IR text: identifiers joined by dots, with decimal
/// indices in brackets.
pub(crate) fn is_bare(name: &str) -> bool {
    let first = name.split(['.', '[']).next().unwrap_or(name);
    !name.is_empty() && !RESERVED.contains(&first) && bare_len(name) == name.len()
}

/// Returns the length in bytes of the bare name at the beginning of the text; 0 if there is none.
pub(crate) fn bare_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let word = |from: usize| {
        from + bytes[from..]
            .iter()
            .take_while(|&&b| b.is_ascii_alphanumeric() || b == b'_' || b == b'$')
            .count()
    };
    let mut end = word(0);
    if end == 0 || bytes[0].is_ascii_digit() {
        return 0;
    }
    loop {
        let more = match bytes.get(end) {
            Some(b'.') => word(end + 1),
            Some(b'[') => {
                let digits = bytes[end + 1..]
                    .iter()
                    .take_while(|b| b.is_ascii_digit())
                    .count();
                match (digits, bytes.get(end + 1 + digits)) {
                    (1.., Some(b']')) => end + digits + 2,
                    _ => end,
                }
            }
            _ => end,
        };
        if more <= end + 1 {
            return end;
        }
        end = more;
    }
}
