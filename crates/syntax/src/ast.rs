//! The syntax tree of P4_16 1.2.5: output of the parser and input of `sema`.
//!
//! There is one type for each production of the grammar with a meaning. Every node that a
//! diagnostic may refer to has a [`Span`]. Names are not resolved: a [`TypeRef::Name`] may be a
//! typedef, a type variable or undeclared.

use std::sync::Arc;

use crate::source::Span;

/// An identifier as written, with its source position. Two names are equal if their texts are.
#[derive(Clone, Debug)]
pub struct Name {
    /// The identifier's text.
    pub text: Arc<str>,
    /// Source position.
    pub span: Span,
}

impl Name {
    /// Returns the identifier's text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// A whole program after preprocessing, in source order.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The top-level declarations.
    pub decls: Vec<Decl>,
}

/// A path: `name` or `.name` (looked up at the top level only).
#[derive(Clone, Debug)]
pub struct Path {
    /// True if the name has a leading dot.
    pub absolute: bool,
    /// The name.
    pub name: Name,
}

impl Path {
    /// Returns the span of the name.
    pub fn span(&self) -> Span {
        self.name.span
    }
}

/// `@name`, `@name(tokens)`, `@name[structured]` or `@pragma name tokens`.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// The annotation's name.
    pub name: Name,
    /// Its body.
    pub body: AnnotationBody,
    /// From the `@` to the end.
    pub span: Span,
}

/// Unstructured annotations with a body of expressions, or of keys and expressions. These
/// annotations of core, BMv2's compiler and P4Runtime are read by compilers.
pub const VALUED_ANNOTATIONS: [&str; 12] = [
    "brief",
    "controller_header",
    "description",
    "field_list",
    "id",
    "max_group_size",
    "max_member_weight",
    "mirror",
    "pkginfo",
    "platform_property",
    "priority",
    "selector_size_semantics",
];

/// Body of an annotation.
#[derive(Clone, Debug)]
pub enum AnnotationBody {
    /// Nothing: `@name`.
    None,
    /// Unstructured tokens: `@name(...)`, or the rest of a `@pragma` line.
    Tokens(Vec<AnnotationToken>),
    /// `@name(e1, e2)` or `@name(k1 = e1)` of an annotation with values ([`VALUED_ANNOTATIONS`]),
    /// and its tokens.
    Values(Vec<AnnotationToken>, Vec<(Option<Name>, Expr)>),
    /// `@name[e1, e2]`.
    Expressions(Vec<Expr>),
    /// `@name[k1 = e1, k2 = e2]`.
    KeyValues(Vec<(Name, Expr)>),
}

/// One token of an unstructured annotation.
#[derive(Clone, Debug)]
pub struct AnnotationToken {
    /// Kind of the token.
    pub kind: AnnotationTokenKind,
    /// Its text as written. For a string literal: the contents with escapes resolved.
    pub text: Arc<str>,
    /// Source position.
    pub span: Span,
}

/// Kinds of annotation tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnotationTokenKind {
    /// A string literal.
    String,
    /// An integer literal.
    Integer,
    /// An identifier or keyword.
    Word,
    /// Any other token.
    Punctuation,
}

/// A declaration anywhere: top level, in a parser, control, extern instance or block.
#[derive(Clone, Debug)]
pub enum Decl {
    /// `const T name = init;`
    Const(ConstDecl),
    /// `extern name<..> { .. }`
    Extern(ExternDecl),
    /// `extern T name<..>(..);`
    ExternFunction(FunctionProto),
    /// `action name(..) { .. }`
    Action(ActionDecl),
    /// `parser name<..>(..)(..) { .. }`
    Parser(ParserDecl),
    /// `parser name<..>(..);`
    ParserType(BlockTypeDecl),
    /// `control name<..>(..)(..) { .. }`
    Control(ControlDecl),
    /// `control name<..>(..);`
    ControlType(BlockTypeDecl),
    /// `package name<..>(..);`
    Package(BlockTypeDecl),
    /// `header`, `header_union` or `struct`.
    Record(RecordDecl),
    /// `enum`, serializable or not.
    Enum(EnumDecl),
    /// `typedef T name;` or `type T name;`
    Typedef(TypedefDecl),
    /// `error { .. }`
    Error(IdentifierListDecl),
    /// `match_kind { .. }`
    MatchKind(IdentifierListDecl),
    /// A function with a body.
    Function(FunctionDecl),
    /// `T(args) name;`, optionally with an initializer block.
    Instance(InstanceDecl),
    /// `T name;` or `T name = init;`
    Variable(VariableDecl),
    /// `table name { .. }`
    Table(TableDecl),
    /// `value_set<T>(size) name;`
    ValueSet(ValueSetDecl),
    /// `extern "C" { .. }`
    Foreign(ForeignDecl),
}

/// `extern "C" { .. }`: text in another language, outside P4's grammar.
#[derive(Clone, Debug)]
pub struct ForeignDecl {
    /// The text between the braces.
    pub text: Arc<str>,
    /// Its position.
    pub span: Span,
}

/// `const T name = init;`
#[derive(Clone, Debug)]
pub struct ConstDecl {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// Its type.
    pub ty: TypeRef,
    /// Its name.
    pub name: Name,
    /// Its value.
    pub init: Expr,
    /// The whole declaration.
    pub span: Span,
}

/// `T name;` or `T name = init;`
#[derive(Clone, Debug)]
pub struct VariableDecl {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// Its type.
    pub ty: TypeRef,
    /// Its name.
    pub name: Name,
    /// Its initial value.
    pub init: Option<Expr>,
    /// The whole declaration.
    pub span: Span,
}

/// An extern object type.
#[derive(Clone, Debug)]
pub struct ExternDecl {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// Its name.
    pub name: Name,
    /// `<T, U>`.
    pub type_params: Vec<Name>,
    /// Constructors (the method named as the extern) and methods, in order.
    pub methods: Vec<MethodProto>,
    /// The whole declaration.
    pub span: Span,
}

/// A constructor or method of an extern.
#[derive(Clone, Debug)]
pub struct MethodProto {
    /// The prototype; a constructor has `ret: None`.
    pub proto: FunctionProto,
    /// True if it is abstract: the instance must define it.
    pub is_abstract: bool,
}

/// A function prototype.
#[derive(Clone, Debug)]
pub struct FunctionProto {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// The return type (`TypeRef::Void` for `void`); `None` for a constructor.
    pub ret: Option<TypeRef>,
    /// Its name.
    pub name: Name,
    /// `<T, U>`.
    pub type_params: Vec<Name>,
    /// Its parameters.
    pub params: Vec<Param>,
    /// The whole prototype.
    pub span: Span,
}

/// A function with a body.
#[derive(Clone, Debug)]
pub struct FunctionDecl {
    /// Its prototype.
    pub proto: FunctionProto,
    /// Its body.
    pub body: Block,
}

/// Direction of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// No direction written.
    None,
    /// `in`
    In,
    /// `out`
    Out,
    /// `inout`
    InOut,
}

/// One parameter.
#[derive(Clone, Debug)]
pub struct Param {
    /// Annotations before it (including `@optional`).
    pub annotations: Vec<Annotation>,
    /// Its direction.
    pub direction: Direction,
    /// Its type.
    pub ty: TypeRef,
    /// Its name.
    pub name: Name,
    /// Its default value.
    pub default: Option<Expr>,
    /// The whole parameter.
    pub span: Span,
}

/// An action.
#[derive(Clone, Debug)]
pub struct ActionDecl {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// Its name.
    pub name: Name,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Its body.
    pub body: Block,
    /// The whole declaration.
    pub span: Span,
}

/// A parser type, control type or package declaration: a name and parameters without a body.
#[derive(Clone, Debug)]
pub struct BlockTypeDecl {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// Its name.
    pub name: Name,
    /// `<T, U>`.
    pub type_params: Vec<Name>,
    /// Its parameters (for a package: constructor parameters).
    pub params: Vec<Param>,
    /// The whole declaration.
    pub span: Span,
}

/// A parser with states.
#[derive(Clone, Debug)]
pub struct ParserDecl {
    /// Its type: name, type parameters (forbidden here, but parsed) and parameters.
    pub signature: BlockTypeDecl,
    /// Constructor parameters.
    pub ctor_params: Vec<Param>,
    /// Constants, variables, instances and value sets, in order.
    pub locals: Vec<Decl>,
    /// Its states, in order.
    pub states: Vec<State>,
    /// The whole declaration.
    pub span: Span,
}

/// A parser state.
#[derive(Clone, Debug)]
pub struct State {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// Its name.
    pub name: Name,
    /// Its statements.
    pub body: Vec<Stmt>,
    /// Its transition. A missing transition means `reject` (P4_16, section 13.4).
    pub transition: Transition,
    /// The whole state.
    pub span: Span,
}

/// Transition at the end of a state.
#[derive(Clone, Debug)]
pub enum Transition {
    /// Nothing written.
    Implicit,
    /// `transition name;`
    Direct(Name),
    /// `transition select(..) { .. }`
    Select(Select),
}

/// A select expression.
#[derive(Clone, Debug)]
pub struct Select {
    /// The selected expressions.
    pub args: Vec<Expr>,
    /// Its cases, in order.
    pub cases: Vec<SelectCase>,
    /// The whole expression.
    pub span: Span,
}

/// `keyset: state;`
#[derive(Clone, Debug)]
pub struct SelectCase {
    /// The keyset: one element, or several in parentheses.
    pub keyset: Keyset,
    /// The next state.
    pub state: Name,
    /// The whole case.
    pub span: Span,
}

/// A keyset expression: of a select case, a table entry or a parser value.
#[derive(Clone, Debug)]
pub struct Keyset {
    /// The elements. One element without parentheses covers the whole select expression (it may be
    /// a tuple-typed value set).
    pub elements: Vec<KeysetElement>,
    /// True if parentheses were written around the elements.
    pub parenthesised: bool,
    /// The whole keyset.
    pub span: Span,
}

/// One element of a keyset.
#[derive(Clone, Debug)]
pub enum KeysetElement {
    /// `default`
    Default(Span),
    /// `_`
    DontCare(Span),
    /// An expression: also `a &&& b` ([`BinaryOp::Mask`]) and `a .. b` ([`BinaryOp::Range`]).
    Expr(Expr),
}

/// A control with a body.
#[derive(Clone, Debug)]
pub struct ControlDecl {
    /// Its type: name, type parameters (forbidden here, but parsed) and parameters.
    pub signature: BlockTypeDecl,
    /// Constructor parameters.
    pub ctor_params: Vec<Param>,
    /// Constants, actions, tables, instances and variables, in order.
    pub locals: Vec<Decl>,
    /// The `apply` block.
    pub body: Block,
    /// The whole declaration.
    pub span: Span,
}

/// Kind of a [`RecordDecl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// `header`
    Header,
    /// `header_union`
    HeaderUnion,
    /// `struct`
    Struct,
}

/// A header, header union or struct type.
#[derive(Clone, Debug)]
pub struct RecordDecl {
    /// Header, header union or struct.
    pub kind: RecordKind,
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// Its name.
    pub name: Name,
    /// `<T, U>`.
    pub type_params: Vec<Name>,
    /// Its fields, in order.
    pub fields: Vec<RecordField>,
    /// The whole declaration.
    pub span: Span,
}

/// A field of a record.
#[derive(Clone, Debug)]
pub struct RecordField {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// Its type.
    pub ty: TypeRef,
    /// Its name.
    pub name: Name,
}

/// `enum name { .. }` or `enum T name { a = 1, .. }`
#[derive(Clone, Debug)]
pub struct EnumDecl {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// The underlying type of a serializable enum.
    pub underlying: Option<TypeRef>,
    /// Its name.
    pub name: Name,
    /// Its members. Those of a serializable enum have values.
    pub members: Vec<(Name, Option<Expr>)>,
    /// The whole declaration.
    pub span: Span,
}

/// `typedef T name;` (an alias) or `type T name;` (a new type).
#[derive(Clone, Debug)]
pub struct TypedefDecl {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// True if it is `type`.
    pub is_new: bool,
    /// The type that it names.
    pub target: TypedefTarget,
    /// The name declared.
    pub name: Name,
    /// The whole declaration.
    pub span: Span,
}

/// The type that a typedef names.
#[derive(Clone, Debug)]
pub enum TypedefTarget {
    /// A type.
    Type(TypeRef),
    /// A record or enum declared in place.
    Derived(Box<Decl>),
}

/// `error { a, b }` or `match_kind { a, b }`
#[derive(Clone, Debug)]
pub struct IdentifierListDecl {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// The identifiers.
    pub names: Vec<Name>,
    /// The whole declaration.
    pub span: Span,
}

/// `T(args) name;`, optionally with `= { methods and instances }`.
#[derive(Clone, Debug)]
pub struct InstanceDecl {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// The extern, parser, control or package type.
    pub ty: TypeRef,
    /// Constructor arguments.
    pub args: Vec<Arg>,
    /// Its name.
    pub name: Name,
    /// `[n]` after the name: an array of instances. Empty for a single instance.
    pub sizes: Vec<Expr>,
    /// The initializer block: functions (abstract methods' bodies) and instances.
    pub init: Option<Vec<Decl>>,
    /// The whole declaration.
    pub span: Span,
}

/// `value_set<T>(size) name;`
#[derive(Clone, Debug)]
pub struct ValueSetDecl {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// The element type.
    pub ty: TypeRef,
    /// The capacity.
    pub size: Expr,
    /// Its name.
    pub name: Name,
    /// The whole declaration.
    pub span: Span,
}

/// A table.
#[derive(Clone, Debug)]
pub struct TableDecl {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// Its name.
    pub name: Name,
    /// Its properties, in order.
    pub properties: Vec<TableProperty>,
    /// The whole declaration.
    pub span: Span,
}

/// One property of a table.
#[derive(Clone, Debug)]
pub struct TableProperty {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// True if `const` precedes it.
    pub is_const: bool,
    /// The property's name (`key`, `actions`, `entries`, `default_action`, `size`, or another).
    pub name: Name,
    /// Its kind.
    pub value: TablePropertyValue,
    /// The whole property.
    pub span: Span,
}

/// Value of a table property.
#[derive(Clone, Debug)]
pub enum TablePropertyValue {
    /// `key = { .. }`
    Key(Vec<KeyElement>),
    /// `actions = { .. }`
    Actions(Vec<ActionRef>),
    /// `entries = { .. }`
    Entries(Vec<Entry>),
    /// Another property: `name = expression;` (`default_action`, `size`, `implementation`, ...).
    Expr(Expr),
    /// Another property, with an instance declared in place.
    Instance(InstanceDecl),
}

/// `expression: match_kind @annotations;`
#[derive(Clone, Debug)]
pub struct KeyElement {
    /// The key expression.
    pub expr: Expr,
    /// The match kind.
    pub match_kind: Name,
    /// Annotations after it.
    pub annotations: Vec<Annotation>,
    /// The whole element.
    pub span: Span,
}

/// An action in a table's list: `name` or `name(args)`.
#[derive(Clone, Debug)]
pub struct ActionRef {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// The action.
    pub path: Path,
    /// Arguments, if parentheses were written.
    pub args: Option<Vec<Arg>>,
    /// The whole reference.
    pub span: Span,
}

/// `const priority = n: keyset: action(args);`
#[derive(Clone, Debug)]
pub struct Entry {
    /// Annotations after it.
    pub annotations: Vec<Annotation>,
    /// True if `const` precedes it.
    pub is_const: bool,
    /// Its priority.
    pub priority: Option<Expr>,
    /// Its key.
    pub keyset: Keyset,
    /// Its action.
    pub action: ActionRef,
    /// The whole entry.
    pub span: Span,
}

/// A type as written.
#[derive(Clone, Debug)]
pub enum TypeRef {
    /// `bool`
    Bool(Span),
    /// `error`
    Error(Span),
    /// `match_kind`
    MatchKind(Span),
    /// `string`
    String(Span),
    /// `void`
    Void(Span),
    /// `int`: of arbitrary precision.
    Integer(Span),
    /// `_`: inferred (type argument).
    DontCare(Span),
    /// `bit` (one bit), `bit<w>`; the width is an expression.
    Bit(Option<Box<Expr>>, Span),
    /// `int<w>`
    Int(Box<Expr>, Span),
    /// `varbit<w>`
    Varbit(Box<Expr>, Span),
    /// A name.
    Name(Path),
    /// `name<T, U>`
    Specialized(Path, Vec<TypeRef>, Span),
    /// `T[n]`: a header stack or array.
    Array(Box<TypeRef>, Box<Expr>, Span),
    /// `tuple<T, U>`
    Tuple(Vec<TypeRef>, Span),
    /// `list<T>`
    List(Box<TypeRef>, Span),
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// Its kind.
    pub kind: StmtKind,
    /// The whole statement.
    pub span: Span,
}

/// `{ .. }`
#[derive(Clone, Debug)]
pub struct Block {
    /// Annotations before it (`@atomic`, `@unroll`, ...).
    pub annotations: Vec<Annotation>,
    /// Its statements and declarations.
    pub stmts: Vec<Stmt>,
    /// The whole block, braces included.
    pub span: Span,
}

/// Kind of a statement.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// `;`
    Empty,
    /// A variable or constant declaration. An instance is also parsed here; only parser and control
    /// bodies allow it.
    Decl(Box<Decl>),
    /// `lvalue = e;`
    Assign(Expr, Expr),
    /// `lvalue op= e;`
    CompoundAssign(Expr, BinaryOp, Expr),
    /// A call as a statement: always an [`ExprKind::Call`]. This includes a direct application
    /// `T.apply(..)`: its callee is a member `apply` of an [`ExprKind::Name`] or
    /// [`ExprKind::TypeName`].
    Call(Expr),
    /// `if (c) s else s`
    If(Expr, Box<Stmt>, Option<Box<Stmt>>),
    /// `{ .. }`
    Block(Block),
    /// `return e;`
    Return(Option<Expr>),
    /// `exit;`
    Exit,
    /// `break;`
    Break,
    /// `continue;`
    Continue,
    /// `switch (e) { .. }`
    Switch(Expr, Vec<SwitchCase>),
    /// `for (init; cond; update) body`
    For(Box<ForStmt>),
    /// `for (T x in collection) body`
    ForIn(Box<ForInStmt>),
}

/// `label: { .. }`, or a label that falls through.
#[derive(Clone, Debug)]
pub struct SwitchCase {
    /// The label; `None` for `default`.
    pub label: Option<Expr>,
    /// Source position of the label.
    pub label_span: Span,
    /// The block; `None` falls through to the next case.
    pub body: Option<Block>,
}

/// `for (init; cond; update) body`
#[derive(Clone, Debug)]
pub struct ForStmt {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// Declarations, assignments and calls.
    pub init: Vec<Stmt>,
    /// The condition.
    pub cond: Expr,
    /// Assignments and calls.
    pub update: Vec<Stmt>,
    /// The body.
    pub body: Stmt,
}

/// `for (T x in collection) body`
#[derive(Clone, Debug)]
pub struct ForInStmt {
    /// Annotations before it.
    pub annotations: Vec<Annotation>,
    /// The type of the loop variable; `None` if an existing variable is named.
    pub var_ty: Option<TypeRef>,
    /// The loop variable (or l-value path).
    pub var: Expr,
    /// The collection: a range (`a .. b`), a stack, a list.
    pub collection: Expr,
    /// The body.
    pub body: Stmt,
}

/// An argument of a call or constructor.
#[derive(Clone, Debug)]
pub struct Arg {
    /// `name =` before the value.
    pub name: Option<Name>,
    /// The value; `None` for `_`.
    pub value: Option<Expr>,
    /// The whole argument.
    pub span: Span,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Its kind.
    pub kind: ExprKind,
    /// The whole expression.
    pub span: Span,
}

/// An integer literal: `8w0xFF`, `4s7`, `123`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntLiteral {
    /// The digits without prefix and underscores, in `radix`.
    pub digits: Arc<str>,
    /// The base: 2, 8, 10 or 16.
    pub radix: u32,
    /// The width and signedness (true if signed), if written.
    pub width: Option<(u32, bool)>,
}

/// Kind of an expression.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// An integer.
    Int(IntLiteral),
    /// `true`, `false`
    Bool(bool),
    /// A string, escapes resolved.
    String(Arc<str>),
    /// A name or `.name`: a variable, constant, action, table, function, instance, or a type
    /// (`Enum.member`, `T.apply()`).
    Name(Path),
    /// `this`
    This,
    /// A type in an expression: `error` or `match_kind` before a dot, a specialized type before
    /// `.apply`, or the callee of a constructor call.
    TypeName(Box<TypeRef>),
    /// `e.name`
    Member(Box<Expr>, Name),
    /// `e[i]`
    Index(Box<Expr>, Box<Expr>),
    /// `e[hi:lo]`
    Slice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `e[lo +: width]`
    PlusSlice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `-e`, `+e`, `~e`, `!e`
    Unary(UnaryOp, Box<Expr>),
    /// `a op b`
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `c ? a : b`
    Ternary(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `(T) e`
    Cast(Box<TypeRef>, Box<Expr>),
    /// `f(args)`, `f<T>(args)`, `T(args)`: a call or a constructor.
    Call {
        /// The callee.
        callee: Box<Expr>,
        /// `<T, U>`
        type_args: Vec<TypeRef>,
        /// The arguments.
        args: Vec<Arg>,
    },
    /// `{ a, b }`, `{ a, ... }`
    List {
        /// The elements.
        elements: Vec<Expr>,
        /// True if it ends with `...` (the remaining elements have default values).
        rest_default: bool,
    },
    /// `{ a = x, b = y }`, `{ a = x, ... }`
    Record {
        /// The fields.
        fields: Vec<(Name, Expr)>,
        /// True if it ends with `...`.
        rest_default: bool,
    },
    /// `{#}`
    InvalidHeader,
    /// `...` as a value: the default value of its type.
    Default,
    /// `_` in an expression (keysets inside expressions).
    DontCare,
    /// Placeholder for an expression with a reported syntax error.
    Error,
}

/// Unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-`
    Neg,
    /// `+`
    Plus,
    /// `~`
    Complement,
    /// `!`
    Not,
}

/// Binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Mod,
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `|+|`
    AddSat,
    /// `|-|`
    SubSat,
    /// `<<`
    Shl,
    /// `>>`
    Shr,
    /// `<=`
    Le,
    /// `>=`
    Ge,
    /// `<`
    Lt,
    /// `>`
    Gt,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `&`
    And,
    /// `^`
    Xor,
    /// `|`
    Or,
    /// `++`
    Concat,
    /// `&&`
    LogicalAnd,
    /// `||`
    LogicalOr,
    /// `&&&`
    Mask,
    /// `..`
    Range,
}
