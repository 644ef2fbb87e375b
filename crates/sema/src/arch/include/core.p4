// The core library of P4_16 (appendix "P4 core library" of the specification): what every architecture can use.

#ifndef _CORE_P4_
#define _CORE_P4_

/// Errors that the language itself can raise; programs and architectures add their own.
error {
    /// Parsing went well.
    NoError,
    /// An extraction, a lookahead or an advance went past the end of the packet.
    PacketTooShort,
    /// No case of a select expression matched.
    NoMatch,
    /// A header stack was used beyond its size, or `last` of an empty one.
    StackOutOfBounds,
    /// A varbit field was asked to hold more bits than it can.
    HeaderTooShort,
    /// The parser took longer than the target allows.
    ParserTimeout,
    /// An argument that the target cannot honour, a length that is no multiple of 8 bits for example.
    ParserInvalidArgument
}

/// The packet as a parser reads it: bits behind a cursor.
extern packet_in {
    /// Fills the header `hdr` from the bits at the cursor, makes it valid and moves the cursor past it.
    /// Raises PacketTooShort, or StackOutOfBounds when `hdr` is the `next` of a full stack.
    void extract<T>(out T hdr);
    /// Fills a header that holds one varbit field, which gets `variableFieldSizeInBits` bits.
    /// Raises PacketTooShort, StackOutOfBounds or HeaderTooShort.
    void extract<T>(out T variableSizeHeader,
                    in bit<32> variableFieldSizeInBits);
    /// The bits at the cursor as a value of type T; the cursor stays.
    T lookahead<T>();
    /// Moves the cursor forward.
    void advance(in bit<32> sizeInBits);
    /// Length of the packet in bytes.
    bit<32> length();
}

/// The packet as a deparser writes it.
extern packet_out {
    /// Appends `hdr` when it is valid. A stack, a union or a struct appends its valid headers in order.
    void emit<T>(in T hdr);
}

/// In a parser: when `check` is false, sets the parser error to `toSignal` and goes to `reject`.
extern void verify(in bool check, in error toSignal);

/// The action that does nothing.
@noWarn("unused")
action NoAction() {}

match_kind {
    /// All bits are equal.
    exact,
    /// The bits under a mask are equal.
    ternary,
    /// The longest matching prefix wins.
    lpm
}

/// Stops the compilation with `message` when `check` is false. The value allows its use in a constant.
extern bool static_assert(bool check, string message);

/// The same with a message of the compiler's.
extern bool static_assert(bool check);

#endif // _CORE_P4_
