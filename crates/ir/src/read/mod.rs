//! Reads a program from IR text: the output of `Display` of [`Program`], with `//` comments and any
//! white space.
//!
//! Names must be declared before they are used, except those of actions, states and stages. The
//! reader does not check the verifier's rules.

mod code;
mod decl;
mod scan;

use std::collections::HashMap;
use std::fmt;

use bits::{Id, Value};
use support::work::checkpoint;

use crate::program::*;
use crate::types::*;
use crate::words::Word;
use scan::Scanner;

/// Syntax error in IR text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// 1-based line.
    pub line: u32,
    /// 1-based column, in characters.
    pub column: u32,
    /// The error.
    pub message: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ReadError {}

/// Reads a program. It is not verified yet.
pub fn read(text: &str) -> Result<Program, ReadError> {
    let mut reader = Reader::new(text);
    match reader.program() {
        Ok(()) => Ok(reader.out),
        Err(failure) => Err(reader.scan.locate(failure)),
    }
}

/// Byte offset and message of an error.
#[derive(Debug)]
struct Failure {
    at: usize,
    message: String,
}

type Read<T> = Result<T, Failure>;

/// Names of the items of one kind.
#[derive(Default)]
struct Names {
    /// Number of each name; `None` if several items have it.
    numbers: HashMap<String, Option<u32>>,
    len: u32,
}

impl Names {
    fn declare(&mut self, name: &str) {
        let number = self.len;
        self.numbers
            .entry(name.to_owned())
            .and_modify(|known| *known = None)
            .or_insert(Some(number));
        self.len += 1;
    }

    fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Names {
        let mut all = Names::default();
        names.into_iter().for_each(|n| all.declare(n));
        all
    }
}

/// Returns the position of each name; that of the first one if several are equal.
fn numbers(names: &[String]) -> HashMap<String, u64> {
    let mut numbers = HashMap::new();
    for (name, number) in names.iter().zip(0..) {
        checkpoint();
        numbers.entry(name.clone()).or_insert(number);
    }
    numbers
}

/// A kind of item that text refers to.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Enum,
    HeaderType,
    Field,
    Header,
    Stack,
    Parser,
    Control,
    Action,
    Table,
    ValueSet,
    Extern,
    /// Steps of the chain.
    Step,
    /// States of the current parser or stages of the current control.
    Local,
    /// Parameters of the current action.
    Param,
}

const KINDS: usize = Kind::Param as usize + 1;

impl Kind {
    fn noun(self) -> &'static str {
        match self {
            Kind::Enum => "enum",
            Kind::HeaderType => "header type",
            Kind::Field => "field",
            Kind::Header => "header",
            Kind::Stack => "stack",
            Kind::Parser => "parser",
            Kind::Control => "control",
            Kind::Action => "action",
            Kind::Table => "table",
            Kind::ValueSet => "value set",
            Kind::Extern => "extern",
            Kind::Step => "step",
            Kind::Local => "state or stage",
            Kind::Param => "parameter",
        }
    }
}

struct Reader<'t> {
    scan: Scanner<'t>,
    names: [Names; KINDS],
    /// Numbers of the errors, and of the members of each enum.
    errors: HashMap<String, u64>,
    members: Vec<HashMap<String, u64>>,
    /// Offsets of the bodies of actions, which are read after all declarations.
    bodies: Vec<usize>,
    out: Program,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        Reader {
            scan: Scanner::new(text),
            names: Default::default(),
            errors: HashMap::new(),
            members: Vec::new(),
            bodies: Vec::new(),
            out: Program::empty("", Arch::V1model),
        }
    }

    fn program(&mut self) -> Read<()> {
        self.scan.keyword("program")?;
        self.out.name = self.scan.name()?;
        self.out.arch = self.word("an architecture")?;
        while !self.scan.at_end() {
            checkpoint();
            self.item()?;
        }
        for (index, at) in std::mem::take(&mut self.bodies).into_iter().enumerate() {
            checkpoint();
            self.scan.go_to(at);
            let id = ActionId::from_index(index);
            let params = self.out.actions[id].params.iter();
            self.names[Kind::Param as usize] = Names::of(params.map(|p| p.name.as_str()));
            let body = self.body()?;
            self.out.actions[id].body = body;
        }
        Ok(())
    }

    fn item(&mut self) -> Read<()> {
        checkpoint();
        let at = self.scan.here();
        match self.scan.ident()? {
            "file" => {
                let file = self.scan.text()?;
                self.out.files.push(file);
            }
            "annotation" => {
                let annotation = self.annotation()?;
                self.out.annotations.push(annotation);
            }
            "errors" => {
                self.out.errors = self.braced_names()?;
                self.errors = numbers(&self.out.errors);
            }
            "enum" => {
                let name = self.declare(Kind::Enum)?;
                let members = self.braced_names()?;
                self.members.push(numbers(&members));
                self.out.enums.push(EnumTy { name, members });
            }
            "constant" => {
                let name = self.scan.name()?;
                self.scan.expect(":")?;
                let ty = self.ty()?;
                self.scan.expect("=")?;
                let value = self.value()?;
                self.out.constants.push(Constant { name, ty, value });
            }
            "type" => self.named_type()?,
            "header_type" => self.header_type()?,
            "field" => self.field()?,
            "header" => self.header_instance()?,
            "stack" => self.stack()?,
            "value_set" => self.value_set()?,
            "extern" => self.extern_instance()?,
            "action" => self.action()?,
            "table" => self.table()?,
            "parser" => self.parser()?,
            "control" => self.control()?,
            "steps" => self.steps()?,
            "next" => self.next_step()?,
            "block" => self.block()?,
            "intrinsic" => {
                let key = self.scan.name()?;
                self.scan.expect("=")?;
                let field = self.id(Kind::Field)?;
                self.out.pipeline.intrinsics.insert(key, field);
            }
            "transfer" => {
                let path = self.word("a path of transfer")?;
                let from = self.fields()?;
                self.scan.expect("->")?;
                let to = self.fields()?;
                self.out
                    .pipeline
                    .transfers
                    .push(Transfer { path, from, to });
            }
            "field_list" => {
                let number = self.scan.number()?;
                let fields = self.fields()?;
                self.out.pipeline.field_lists.insert(number, fields);
            }
            other => {
                let message = format!("'{other}' does not begin a part of a program");
                return Err(Failure { at, message });
            }
        }
        Ok(())
    }

    /// Reads the name of a new item.
    fn declare(&mut self, kind: Kind) -> Read<String> {
        let name = self.scan.name()?;
        self.names[kind as usize].declare(&name);
        Ok(name)
    }

    /// Reads a reference to an item and returns its number.
    fn reference(&mut self, kind: Kind) -> Read<u32> {
        if self.scan.eat("#") {
            return self.scan.number();
        }
        let at = self.scan.here();
        let name = self.scan.name()?;
        let message = match self.names[kind as usize].numbers.get(&name) {
            Some(Some(number)) => return Ok(*number),
            Some(None) => format!(
                "there are several {}s '{name}'; write '#number'",
                kind.noun()
            ),
            None => format!("there is no {} '{name}'", kind.noun()),
        };
        Err(Failure { at, message })
    }

    fn id<I: Id>(&mut self, kind: Kind) -> Read<I> {
        Ok(I::from_index(self.reference(kind)? as usize))
    }

    /// Reads one of the keywords of type `W`.
    fn word<W: Word>(&mut self, what: &str) -> Read<W> {
        let at = self.scan.here();
        let word = self.scan.ident()?;
        W::from_word(word).ok_or_else(|| {
            let all: Vec<&str> = W::WORDS.iter().map(|(_, word)| *word).collect();
            let message = format!("'{word}' is not {what}: {}", all.join(", "));
            Failure { at, message }
        })
    }

    /// Reads `open a, b, c close`.
    fn list<T>(
        &mut self,
        open: &str,
        close: &str,
        mut each: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        self.scan.expect(open)?;
        let mut items = Vec::new();
        while !self.scan.eat(close) {
            checkpoint();
            if !items.is_empty() {
                self.scan.expect(",")?;
            }
            checkpoint();
            items.push(each(self)?);
        }
        Ok(items)
    }

    /// Reads `{`, items without separators, and `}`.
    fn braced(&mut self, mut each: impl FnMut(&mut Self) -> Read<()>) -> Read<()> {
        self.scan.expect("{")?;
        while !self.scan.eat("}") {
            checkpoint();
            each(self)?;
        }
        Ok(())
    }

    fn braced_names(&mut self) -> Read<Vec<String>> {
        self.list("{", "}", |r| r.scan.name())
    }

    fn fields(&mut self) -> Read<Vec<FieldId>> {
        self.list("(", ")", |r| r.id(Kind::Field))
    }

    /// Reads any number of `@name` with their bodies.
    fn annotations(&mut self) -> Read<Vec<Annotation>> {
        let mut all = Vec::new();
        while self.scan.at_annotation() {
            checkpoint();
            all.push(self.annotation()?);
        }
        Ok(all)
    }

    fn annotation(&mut self) -> Read<Annotation> {
        self.scan.expect("@")?;
        let name = self.scan.annotation_name()?;
        let body = if self.scan.eat("(") {
            let text = self.scan.text()?;
            self.scan.expect(")")?;
            AnnotationBody::Text(text)
        } else if self.scan.looking_at("[") {
            AnnotationBody::Expressions(self.list("[", "]", Self::annotation_value)?)
        } else if self.scan.looking_at("{") && self.scan.is_glued() {
            AnnotationBody::KeyValues(self.list("{", "}", |r| {
                let key = r.scan.name()?;
                r.scan.expect("=")?;
                Ok((key, r.annotation_value()?))
            })?)
        } else {
            AnnotationBody::None
        };
        Ok(Annotation { name, body })
    }

    fn annotation_value(&mut self) -> Read<AnnotationValue> {
        if self.scan.looking_at("\"") {
            return Ok(AnnotationValue::String(self.scan.text()?));
        }
        let at = self.scan.here();
        match self.scan.ident()? {
            "true" => Ok(AnnotationValue::Bool(true)),
            "false" => Ok(AnnotationValue::Bool(false)),
            "int" => Ok(AnnotationValue::Int(self.scan.text()?)),
            _ => {
                let message = "a text, 'int \"number\"', true or false is expected".to_owned();
                Err(Failure { at, message })
            }
        }
    }

    /// Reads `@line:column` or `@file:line:column`, if present.
    fn loc(&mut self) -> Read<Option<Loc>> {
        if !self.scan.at_loc() {
            return Ok(None);
        }
        self.scan.expect("@")?;
        let a = self.scan.number()?;
        self.scan.expect(":")?;
        let b = self.scan.number()?;
        // A `:` that no number follows belongs to a stage.
        if self.scan.at_colon_digit() {
            self.scan.expect(":")?;
            let column = self.scan.number()?;
            return Ok(Some(Loc {
                file: a,
                line: b,
                column,
            }));
        }
        Ok(Some(Loc {
            file: 0,
            line: a,
            column: b,
        }))
    }

    fn ty(&mut self) -> Read<ScalarTy> {
        let at = self.scan.here();
        match self.scan.ident()? {
            "bit" => Ok(ScalarTy::Bit(self.angle_number()?)),
            "int" => Ok(ScalarTy::Int(self.angle_number()?)),
            "varbit" => Ok(ScalarTy::Varbit(self.angle_number()?)),
            "bool" => Ok(ScalarTy::Bool),
            "error" => Ok(ScalarTy::Error),
            "enum" => Ok(ScalarTy::Enum(self.id(Kind::Enum)?)),
            other => {
                let message = format!("a scalar type is expected, not '{other}'");
                Err(Failure { at, message })
            }
        }
    }

    fn angle_number(&mut self) -> Read<u32> {
        self.scan.expect("<")?;
        let number = self.scan.number()?;
        self.scan.expect(">")?;
        Ok(number)
    }

    fn data_ty(&mut self) -> Read<DataTy> {
        let start = self.scan.here();
        if self.scan.looking_at("'") {
            return Ok(DataTy::Named(self.scan.name()?));
        }
        match self.scan.ident()? {
            "bit" => Ok(DataTy::Bit(self.angle_number()?)),
            "int" => Ok(DataTy::Int(self.angle_number()?)),
            "varbit" => Ok(DataTy::Varbit(self.angle_number()?)),
            "bool" => Ok(DataTy::Bool),
            "error" => Ok(DataTy::Error),
            "tuple" => self.nested(|r| Ok(DataTy::Tuple(r.list("<", ">", Self::data_ty)?))),
            "stack" => {
                self.scan.expect("<")?;
                let name = self.scan.name()?;
                self.scan.expect(",")?;
                let len = self.scan.number()?;
                self.scan.expect(">")?;
                Ok(DataTy::Stack(name, len))
            }
            _ => {
                self.scan.go_to(start);
                Ok(DataTy::Named(self.scan.name()?))
            }
        }
    }

    /// Reads a value with its width: `8w0x45`.
    fn value(&mut self) -> Read<Value> {
        match self.scan.literal()? {
            (value, false) => Ok(value),
            (_, true) => Err(self.scan.failure("an unsigned value is expected")),
        }
    }

    /// Reads a recursive construct, up to the nesting depth that the verifier accepts.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.scan.enter()?;
        let result = read(self);
        self.scan.leave();
        result
    }
}
