//! Policies: the programs that packets pass, their order and conditions. Also the text form.
//!
//! ```text
//! policy    = line
//! line      = item { "->" item }
//! item      = step | "[" arm { "|" arm } "]"
//! step      = NAME [ "=" SOURCE ] | SOURCE
//! arm       = ( condition | "else" ) ":" [ line ]
//! condition = and { "||" and }
//! and       = not { "&&" not }
//! not       = "!" not | "(" condition ")" | operand [ compare operand ]
//! compare   = "==" | "!=" | "<" | "<=" | ">" | ">="
//! operand   = term { "&" term }
//! term      = NUMBER | FIELD [ "[" NUMBER ":" NUMBER "]" ] | HEADER ".isValid()"
//! ```
//!
//! A `NAME` is an identifier. A `SOURCE` locates the step's program: a file, or a known program by
//! name. It ends before a space, an arrow, a bar, a bracket or an equals sign. Between double
//! quotes it may contain those too. A step without a name is named after its source, without
//! directories and extension. `//` begins a comment, as in P4, and so does `#` at the beginning of
//! a line.

use std::fmt;

use super::scan::{Scanner, shown};

/// A position in a policy's text: 1-based line and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column, in characters.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A sequence of steps and branches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The elements in order; never empty.
    pub line: Vec<Item>,
}

/// An element of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A step that runs a program.
    Step(StepName),
    /// A choice.
    Branch(Branch),
}

/// Name and source of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepName {
    /// The step's name, which prefixes the names of all its tables.
    pub name: String,
    /// Source of its program.
    pub source: String,
    /// Source position.
    pub at: Position,
}

/// A choice: the first arm with a true condition is taken. Without `else`, a packet for which no
/// condition holds continues after the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The arms with their conditions.
    pub arms: Vec<Arm>,
    /// The last arm, which has no condition.
    pub otherwise: Vec<Item>,
    /// Source position of its start.
    pub at: Position,
}

/// An arm of a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    /// Condition of the arm.
    pub condition: Condition,
    /// Elements of the arm; may be empty.
    pub line: Vec<Item>,
}

/// A condition over standard metadata and the fields of the step before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// `a || b`
    Any(Vec<Condition>),
    /// `a && b`
    All(Vec<Condition>),
    /// `!a`
    Not(Box<Condition>),
    /// `a == b`
    Compare(Operand, Comparison, Operand),
    /// A field of type `bool`, or `hdr.ipv4.isValid()`.
    Holds(Operand),
}

impl Condition {
    /// Returns the fields that the condition reads, as they are written.
    pub(super) fn fields(&self) -> Vec<&str> {
        match self {
            Condition::Any(all) | Condition::All(all) => {
                all.iter().flat_map(Condition::fields).collect()
            }
            Condition::Not(inner) => inner.fields(),
            Condition::Compare(left, _, right) => [left.fields(), right.fields()].concat(),
            Condition::Holds(operand) => operand.fields(),
        }
    }
}

/// A number as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Decimal, or with prefix `0x`, `0o` or `0b`; `_` may separate digits.
    pub text: String,
    /// Source position.
    pub at: Position,
}

/// A comparison of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// An operand of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A number, of the width of the other operand.
    Number(Number),
    /// A field, or some of its bits.
    Field {
        /// Its name in P4, or a suffix of it that no other field has.
        name: String,
        /// The highest and lowest bit of a slice; the whole field if `None`.
        bits: Option<(u32, u32)>,
        /// Source position.
        at: Position,
    },
    /// Validity of a header.
    IsValid {
        /// The header's name in P4, or a suffix of it.
        header: String,
        /// Source position.
        at: Position,
    },
    /// `a & b`
    And(Box<Operand>, Box<Operand>),
}

impl Operand {
    fn fields(&self) -> Vec<&str> {
        match self {
            Operand::Field { name, .. } => vec![name],
            Operand::And(left, right) => [left.fields(), right.fields()].concat(),
            Operand::Number(_) | Operand::IsValid { .. } => Vec::new(),
        }
    }
}

/// Syntax error in a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// Source position.
    pub at: Position,
    /// The error and how to fix it.
    pub message: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

impl std::error::Error for PolicyError {}

/// Maximum bit index of a field in a condition, plus one. No comparison needs more.
const MAX_BITS: u32 = 2048;

/// Maximum number of operands joined by `&`. Each is nested in the next one.
const MAX_TERMS: u32 = 64;

/// Maximum number of steps of a policy.
const MAX_STEPS: usize = 256;

/// Maximum number of arms, fields and numbers in all choices of a policy.
const MAX_OPERANDS: usize = 4096;

/// Maximum length of a policy's text in bytes.
const MAX_POLICY_BYTES: usize = 1 << 20;

/// Maximum nesting depth of branches.
const MAX_DEPTH: u32 = 32;

impl Policy {
    /// Parses a policy.
    ///
    /// # Errors
    /// The first syntax error or exceeded limit.
    pub fn read(text: &str) -> Result<Policy, PolicyError> {
        let mut reader = Reader {
            scan: Scanner::new(text),
            depth: 0,
            steps: 0,
            operands: 0,
        };
        if text.len() > MAX_POLICY_BYTES {
            let message = format!("a policy has at most {MAX_POLICY_BYTES} bytes");
            return Err(reader.scan.error(message));
        }
        if reader.scan.is_at_end() {
            return Err(reader
                .scan
                .error("the policy is empty: name at least one step, as in `l3_sw.p4 -> fw.p4`"));
        }
        let line = reader.line()?;
        match reader.scan.is_at_end() {
            true => Ok(Policy { line }),
            false => Err(reader.scan.unexpected("`->` or the end of the policy")),
        }
    }

    /// Returns all steps in textual order.
    pub fn steps(&self) -> Vec<&StepName> {
        let mut steps = Vec::new();
        gather(&self.line, &mut steps);
        steps
    }
}

fn gather<'p>(line: &'p [Item], steps: &mut Vec<&'p StepName>) {
    for item in line {
        match item {
            Item::Step(step) => steps.push(step),
            Item::Branch(branch) => {
                branch.arms.iter().for_each(|arm| gather(&arm.line, steps));
                gather(&branch.otherwise, steps);
            }
        }
    }
}

type Read<T> = Result<T, PolicyError>;

struct Reader<'t> {
    scan: Scanner<'t>,
    depth: u32,
    steps: usize,
    operands: usize,
}

impl Reader<'_> {
    fn line(&mut self) -> Read<Vec<Item>> {
        let mut items = vec![self.item()?];
        while self.scan.eat("->") {
            items.push(self.item()?);
        }
        Ok(items)
    }

    fn item(&mut self) -> Read<Item> {
        let at = self.scan.position();
        match self.scan.eat("[") {
            true => Ok(Item::Branch(self.nested(|reader| reader.branch(at))?)),
            false => Ok(Item::Step(self.step(at)?)),
        }
    }

    /// Parses a construct that may be nested, and checks the depth.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth == MAX_DEPTH {
            return Err(self
                .scan
                .error(format!("more than {MAX_DEPTH} levels of nesting")));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn step(&mut self, at: Position) -> Read<StepName> {
        let Some(first) = self.scan.source() else {
            return Err(self.scan.unexpected("the name of a step or `[`"));
        };
        self.steps += 1;
        if self.steps > MAX_STEPS {
            let message = format!("a policy has at most {MAX_STEPS} steps");
            return Err(PolicyError { at, message });
        }
        let (name, source) = match self.scan.eat("=") {
            false => (called(first), first.to_owned()),
            true => match self.scan.source() {
                Some(source) => (first.to_owned(), source.to_owned()),
                None => return Err(self.scan.unexpected("the step's program")),
            },
        };
        if !is_identifier(&name) {
            let message = format!(
                "`{}` is no name for a step: letters, digits and `_`, as in `fw = {}`",
                shown(&name),
                shown(&source)
            );
            return Err(PolicyError { at, message });
        }
        Ok(StepName { name, source, at })
    }

    fn branch(&mut self, at: Position) -> Read<Branch> {
        let mut branch = Branch {
            arms: Vec::new(),
            otherwise: Vec::new(),
            at,
        };
        loop {
            if self.scan.eat_word("else") {
                branch.otherwise = self.arm()?;
                if self.scan.eat("]") {
                    return Ok(branch);
                }
                return Err(self.scan.unexpected("`]`: `else` is the last arm"));
            }
            self.count_operand()?;
            let condition = self.condition()?;
            let line = self.arm()?;
            branch.arms.push(Arm { condition, line });
            if self.scan.eat("]") {
                return Ok(branch);
            }
            if !self.scan.eat("|") {
                return Err(self.scan.unexpected("`->`, `|` or `]`"));
            }
        }
    }

    fn count_operand(&mut self) -> Read<()> {
        self.operands += 1;
        match self.operands > MAX_OPERANDS {
            false => Ok(()),
            true => {
                let what = "arms, fields and numbers in choices";
                let message = format!("a policy has at most {MAX_OPERANDS} {what}");
                Err(self.scan.error(message))
            }
        }
    }

    fn arm(&mut self) -> Read<Vec<Item>> {
        if !self.scan.eat(":") {
            return Err(self.scan.unexpected("`:` behind the condition of an arm"));
        }
        match self.scan.looks_at("|") || self.scan.looks_at("]") {
            true => Ok(Vec::new()),
            false => self.line(),
        }
    }

    fn condition(&mut self) -> Read<Condition> {
        let mut any = vec![self.all()?];
        while self.scan.eat("||") {
            any.push(self.all()?);
        }
        Ok(match any.len() {
            1 => any.remove(0),
            _ => Condition::Any(any),
        })
    }

    fn all(&mut self) -> Read<Condition> {
        let mut all = vec![self.not()?];
        while self.scan.eat("&&") {
            all.push(self.not()?);
        }
        Ok(match all.len() {
            1 => all.remove(0),
            _ => Condition::All(all),
        })
    }

    fn not(&mut self) -> Read<Condition> {
        if self.scan.eat("!") {
            let inner = self.nested(Self::not)?;
            return Ok(Condition::Not(Box::new(inner)));
        }
        if self.scan.eat("(") {
            let inner = self.nested(Self::condition)?;
            return match self.scan.eat(")") {
                true => Ok(inner),
                false => Err(self.scan.unexpected("`)`")),
            };
        }
        let left = self.operand()?;
        match self.comparison() {
            Some(comparison) => Ok(Condition::Compare(left, comparison, self.operand()?)),
            None => Ok(Condition::Holds(left)),
        }
    }

    fn comparison(&mut self) -> Option<Comparison> {
        let all = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let found = all.into_iter().find(|(text, _)| self.scan.eat(text));
        found.map(|(_, comparison)| comparison)
    }

    fn operand(&mut self) -> Read<Operand> {
        let mut operand = self.term()?;
        for terms in 1.. {
            if self.scan.looks_at("&&") || !self.scan.eat("&") {
                break;
            }
            if terms == MAX_TERMS {
                let message = format!("at most {MAX_TERMS} parts are joined by `&`");
                return Err(self.scan.error(message));
            }
            operand = Operand::And(Box::new(operand), Box::new(self.term()?));
        }
        Ok(operand)
    }

    fn term(&mut self) -> Read<Operand> {
        self.count_operand()?;
        let at = self.scan.position();
        if let Some(text) = self.scan.number() {
            let text = text.to_owned();
            return Ok(Operand::Number(Number { text, at }));
        }
        let Some(name) = self.scan.path().map(str::to_owned) else {
            return Err(self.scan.unexpected("a field, a number or `else`"));
        };
        if self.scan.eat("(") {
            let header = name.strip_suffix(".isValid");
            return match header.filter(|_| self.scan.eat(")")) {
                Some(header) => Ok(Operand::IsValid {
                    header: header.to_owned(),
                    at,
                }),
                None => Err(self
                    .scan
                    .error("the only method here is `isValid()` of a header")),
            };
        }
        let bits = match self.scan.eat("[") {
            true => Some(self.bits()?),
            false => None,
        };
        Ok(Operand::Field { name, bits, at })
    }

    fn bits(&mut self) -> Read<(u32, u32)> {
        let at = self.scan.position();
        let mut bit = |behind: &str| -> Read<u32> {
            let number = self.scan.number().and_then(|text| text.parse().ok());
            match number.filter(|_| self.scan.eat(behind)) {
                Some(number) => Ok(number),
                None => Err(self.scan.unexpected("bits as in `[7:0]`")),
            }
        };
        let (high, low) = (bit(":")?, bit("]")?);
        let message = match high >= low {
            true if high < MAX_BITS => return Ok((high, low)),
            true => format!(
                "fields have at most {MAX_BITS} bits, so the highest is {}",
                MAX_BITS - 1
            ),
            false => format!("the higher bit comes first: `[{low}:{high}]`"),
        };
        Err(PolicyError { at, message })
    }
}

/// Returns the name of a step for which the policy gives only a source.
pub(super) fn called(source: &str) -> String {
    let file = source.rsplit('/').next().unwrap_or(source);
    let stem = file.split_once('.').map_or(file, |(stem, _)| stem);
    stem.to_owned()
}

/// Returns true if text is an identifier of P4.
pub(crate) fn is_identifier(text: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(is_first) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
