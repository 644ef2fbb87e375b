//! The stable diagnostic codes of this crate, by area.

/// A name that is not declared.
pub(crate) const UNKNOWN_NAME: &str = "E0201";
/// A name declared twice in a scope.
pub(crate) const DUPLICATE: &str = "E0202";
/// A name that denotes another kind of item than expected.
pub(crate) const WRONG_KIND: &str = "E0203";
/// A declaration that hides a parameter.
pub(crate) const SHADOWS_PARAM: &str = "E0204";
/// A declaration that uses itself.
pub(crate) const RECURSION: &str = "E0205";

/// Two incompatible types.
pub(crate) const MISMATCH: &str = "E0301";
/// A type that is not allowed in its context.
pub(crate) const BAD_TYPE: &str = "E0302";
/// A wrong number of type arguments.
pub(crate) const TYPE_ARGS: &str = "E0303";
/// A type that cannot be inferred.
pub(crate) const NOT_INFERRED: &str = "E0304";
/// An invalid width or size.
pub(crate) const BAD_SIZE: &str = "E0305";
/// A cast that does not exist.
pub(crate) const BAD_CAST: &str = "E0306";

/// An operator that is not defined for its operands.
pub(crate) const BAD_OPERAND: &str = "E0401";
/// A field, member or method that does not exist.
pub(crate) const NO_MEMBER: &str = "E0402";
/// The target of an assignment is not an l-value.
pub(crate) const NOT_LVALUE: &str = "E0403";
/// A value that must be known at compile time but is not.
pub(crate) const NOT_CONSTANT: &str = "E0404";
/// A compile-time computation without a result.
pub(crate) const CONST_EVAL: &str = "E0405";
/// An index or slice out of range.
pub(crate) const OUT_OF_RANGE: &str = "E0406";
/// A structure-valued or tuple expression that does not fit its type.
pub(crate) const BAD_AGGREGATE: &str = "E0407";
/// A construct outside the context that allows it.
pub(crate) const WRONG_PLACE: &str = "E0408";

/// A call with arguments that do not match the parameters.
pub(crate) const BAD_ARGS: &str = "E0501";
/// A call that matches several declarations.
pub(crate) const AMBIGUOUS: &str = "E0502";
/// A call of an item that cannot be called, or not here.
pub(crate) const BAD_CALL: &str = "E0503";
/// A parameter with a wrong direction, type or default.
pub(crate) const BAD_PARAM: &str = "E0504";
/// A result of a type that cannot be returned.
pub(crate) const BAD_RETURN: &str = "E0505";

/// A function that does not return a value on all paths.
pub(crate) const NO_RETURN: &str = "E0510";
/// A parser that never reaches `accept` or `reject`.
pub(crate) const NEVER_ENDS: &str = "E0511";

/// The expansion of code or instances exceeds the limit.
pub(crate) const EXPANSION: &str = "E0514";

/// An invalid declaration.
pub(crate) const BAD_DECL: &str = "E0601";
/// An invalid instantiation.
pub(crate) const BAD_INSTANCE: &str = "E0602";
/// An abstract method that is missing or does not match.
pub(crate) const ABSTRACT_METHOD: &str = "E0603";
/// An invalid annotation.
pub(crate) const BAD_ANNOTATION: &str = "E0604";
/// A static assertion that failed.
pub(crate) const ASSERTION: &str = "E0605";

/// Two control-plane objects with the same name.
pub(crate) const CONTROL_PLANE_NAME: &str = "E0606";

/// An invalid table property.
pub(crate) const BAD_PROPERTY: &str = "E0701";
/// An invalid key.
pub(crate) const BAD_KEY: &str = "E0702";
/// An invalid action reference.
pub(crate) const BAD_ACTION: &str = "E0703";
/// An invalid entry.
pub(crate) const BAD_ENTRY: &str = "E0704";

/// An invalid parser state.
pub(crate) const BAD_STATE: &str = "E0801";
/// An invalid select expression.
pub(crate) const BAD_SELECT: &str = "E0802";

/// An invalid statement.
pub(crate) const BAD_STATEMENT: &str = "E0901";
/// An invalid switch label.
pub(crate) const BAD_LABEL: &str = "E0903";

/// A construct that the architecture does not allow.
pub(crate) const ARCHITECTURE: &str = "E1001";

/// A literal that does not fit its type.
pub(crate) const W_OVERFLOW: &str = "W0301";
/// Use of something deprecated.
pub(crate) const W_DEPRECATED: &str = "W0302";
/// Entries with unexpected priorities.
pub(crate) const W_PRIORITY: &str = "W0701";
/// An entry that an earlier one covers.
pub(crate) const W_COVERED: &str = "W0702";
/// A select case that is never reached.
pub(crate) const W_CASE: &str = "W0801";
/// A statement that is never reached.
pub(crate) const W_UNREACHABLE: &str = "W0512";
/// A value that is read before it is written.
pub(crate) const W_UNWRITTEN: &str = "W0513";
/// An annotation that P4Runtime rejects.
pub(crate) const W_ANNOTATION: &str = "W0604";
/// Two actions with the same control-plane name.
pub(crate) const W_CONTROL_PLANE_NAME: &str = "W0606";
/// A register that is read and then written outside `@atomic`.
pub(crate) const W_NOT_ATOMIC: &str = "W1003";
/// A construct that the architecture does not specify.
pub(crate) const W_ARCHITECTURE: &str = "W1001";
