//! Reads declarations: types, storage, externs, actions' heads, tables, blocks.

use bits::Id;
use support::work::checkpoint;

use super::{Failure, Kind, Names, Read, Reader};
use crate::print::{implied_fields, natural_data_ty};
use crate::program::*;
use crate::types::*;

impl Reader<'_> {
    /// Reads `type` or `type as data_type`.
    fn ty_as(&mut self) -> Read<(ScalarTy, DataTy)> {
        let at = self.scan.here();
        let ty = self.ty()?;
        if self.scan.eat_word("as") {
            return Ok((ty, self.data_ty()?));
        }
        let natural = natural_data_ty(&self.out, ty).ok_or_else(|| Failure {
            at,
            message: "there is no such enum".to_owned(),
        })?;
        Ok((ty, natural))
    }

    pub(super) fn named_type(&mut self) -> Read<()> {
        let at = self.scan.here();
        let kind = self.scan.ident()?;
        let name = self.scan.name()?;
        let annotations = self.annotations()?;
        let kind = match kind {
            "struct" => NamedTypeKind::Struct(self.data_fields()?),
            "header" => NamedTypeKind::Header(self.data_fields()?),
            "header_union" => NamedTypeKind::HeaderUnion(self.list("{", "}", |r| {
                let name = r.scan.name()?;
                r.scan.expect(":")?;
                Ok((name, r.scan.name()?))
            })?),
            "enum" => NamedTypeKind::Enum(self.braced_names()?),
            "serializable_enum" => self.serializable_enum()?,
            "new" => self.new_type()?,
            other => {
                let message = format!("'{other}' is not a kind of type");
                return Err(Failure { at, message });
            }
        };
        self.out.named_types.push(NamedType {
            name,
            kind,
            annotations,
        });
        Ok(())
    }

    fn data_fields(&mut self) -> Read<Vec<(String, DataTy)>> {
        self.list("{", "}", |r| {
            let name = r.scan.name()?;
            r.scan.expect(":")?;
            Ok((name, r.data_ty()?))
        })
    }

    fn serializable_enum(&mut self) -> Read<NamedTypeKind> {
        let (width, signed) = match self.ty()? {
            ScalarTy::Bit(width) => (width, false),
            ScalarTy::Int(width) => (width, true),
            _ => return Err(self.scan.failure("bit<..> or int<..> is expected")),
        };
        let members = self.list("{", "}", |r| {
            let name = r.scan.name()?;
            r.scan.expect("=")?;
            Ok((name, r.value()?))
        })?;
        Ok(NamedTypeKind::SerializableEnum {
            width,
            signed,
            members,
        })
    }

    fn new_type(&mut self) -> Read<NamedTypeKind> {
        let underlying = self.data_ty()?;
        let translation = if self.scan.eat_word("translation") {
            let uri = self.scan.text()?;
            let controller = if self.scan.eat_word("string") {
                ControllerTy::String
            } else {
                self.scan.keyword("bits")?;
                ControllerTy::Bits(self.scan.number()?)
            };
            Some(Translation { uri, controller })
        } else {
            None
        };
        self.scan.expect(";")?;
        Ok(NamedTypeKind::NewType {
            underlying,
            translation,
        })
    }

    pub(super) fn header_type(&mut self) -> Read<()> {
        let name = self.declare(Kind::HeaderType)?;
        let annotations = self.annotations()?;
        let mut fields = Vec::new();
        self.braced(|r| {
            let name = r.scan.name()?;
            r.scan.expect(":")?;
            let (ty, data_ty) = r.ty_as()?;
            let annotations = r.annotations()?;
            fields.push(HeaderField {
                name,
                ty,
                data_ty,
                annotations,
            });
            r.scan.expect(";")
        })?;
        self.out.header_types.push(HeaderType {
            name,
            fields,
            annotations,
        });
        Ok(())
    }

    pub(super) fn field(&mut self) -> Read<()> {
        let name = self.declare(Kind::Field)?;
        self.scan.expect(":")?;
        let ty = self.ty()?;
        self.out.fields.push(Field { name, ty });
        Ok(())
    }

    /// Reads a header declared after its fields (`at`), or one that implies them.
    pub(super) fn header_instance(&mut self) -> Read<()> {
        let name = self.declare(Kind::Header)?;
        self.scan.expect(":")?;
        let at = self.scan.here();
        let ty: HeaderTypeId = self.id(Kind::HeaderType)?;
        if self.scan.eat_word("at") {
            let valid = self.id(Kind::Field)?;
            self.out.headers.push(Header { name, ty, valid });
            return Ok(());
        }
        let valid = self.out.fields.next_id();
        let header = Header { name, ty, valid };
        let header_type = self.out.header_types.get(ty).ok_or_else(|| Failure {
            at,
            message: "there is no such header type".to_owned(),
        })?;
        for field in implied_fields(&header, header_type) {
            checkpoint();
            self.names[Kind::Field as usize].declare(&field.name);
            self.out.fields.push(field);
        }
        self.out.headers.push(header);
        Ok(())
    }

    pub(super) fn stack(&mut self) -> Read<()> {
        let name = self.declare(Kind::Stack)?;
        self.scan.expect(":")?;
        let len = self.scan.number()?;
        self.scan.keyword("from")?;
        let first = self.id(Kind::Header)?;
        self.scan.keyword("next")?;
        let next_index = self.id(Kind::Field)?;
        self.out.stacks.push(Stack {
            name,
            first,
            len,
            next_index,
        });
        Ok(())
    }

    pub(super) fn value_set(&mut self) -> Read<()> {
        let name = self.declare(Kind::ValueSet)?;
        let size = self.size()?;
        self.scan.keyword("as")?;
        let data_ty = self.data_ty()?;
        let annotations = self.annotations()?;
        let mut fields = Vec::new();
        self.braced(|r| {
            let name = r.scan.name()?;
            r.scan.expect(":")?;
            let ty = r.ty()?;
            let match_kind = r.word("a match kind")?;
            let annotations = r.annotations()?;
            fields.push(ValueSetField {
                name,
                ty,
                match_kind,
                annotations,
            });
            r.scan.expect(";")
        })?;
        self.out.value_sets.push(ValueSet {
            name,
            fields,
            size,
            data_ty,
            annotations,
        });
        Ok(())
    }

    fn size(&mut self) -> Read<u32> {
        self.scan.keyword("size")?;
        self.scan.number()
    }

    fn width(&mut self) -> Read<u32> {
        self.scan.keyword("width")?;
        self.scan.number()
    }

    fn index_ty(&mut self) -> Read<Option<DataTy>> {
        if self.scan.eat_word("index") {
            Ok(Some(self.data_ty()?))
        } else {
            Ok(None)
        }
    }

    pub(super) fn extern_instance(&mut self) -> Read<()> {
        let name = self.declare(Kind::Extern)?;
        self.scan.expect(":")?;
        let kind = self.extern_kind()?;
        let annotations = self.annotations()?;
        let loc = self.loc()?;
        self.out.externs.push(Extern {
            name,
            kind,
            annotations,
            loc,
        });
        Ok(())
    }

    fn extern_kind(&mut self) -> Read<ExternKind> {
        let at = self.scan.here();
        let unit = "packets, bytes or both";
        let hash = "a hash algorithm";
        Ok(match self.scan.ident()? {
            "counter" => ExternKind::Counter {
                unit: self.word(unit)?,
                size: self.size()?,
                index_ty: self.index_ty()?,
            },
            "direct_counter" => ExternKind::DirectCounter {
                unit: self.word(unit)?,
            },
            "meter" => ExternKind::Meter {
                unit: self.word(unit)?,
                size: self.size()?,
                index_ty: self.index_ty()?,
            },
            "direct_meter" => ExternKind::DirectMeter {
                unit: self.word(unit)?,
            },
            "register" => self.register()?,
            "action_profile" => ExternKind::ActionProfile { size: self.size()? },
            "action_selector" => ExternKind::ActionSelector {
                size: self.size()?,
                width: self.width()?,
                algorithm: self.word(hash)?,
            },
            "hash" => ExternKind::Hash {
                width: self.width()?,
                algorithm: self.word(hash)?,
            },
            "checksum" => ExternKind::Checksum {
                width: self.width()?,
                algorithm: self.word(hash)?,
            },
            "internet_checksum" => ExternKind::InternetChecksum,
            "random" => {
                let min = self.value()?;
                self.scan.expect("..")?;
                let max = self.value()?;
                ExternKind::Random { min, max }
            }
            "digest" => {
                let fields = self.list("(", ")", Self::ty)?;
                self.scan.keyword("as")?;
                let data_ty = self.data_ty()?;
                ExternKind::Digest { fields, data_ty }
            }
            "hash_table" => ExternKind::TableKind {
                size: self.size()?,
                is_array: false,
            },
            "array_table" => ExternKind::TableKind {
                size: self.size()?,
                is_array: true,
            },
            "handler" => {
                self.scan.keyword("request")?;
                let request = self.record()?;
                self.scan.keyword("response")?;
                let response = self.record()?;
                ExternKind::Handler { request, response }
            }
            other => {
                let message = format!("'{other}' is not a kind of extern");
                return Err(Failure { at, message });
            }
        })
    }

    fn record(&mut self) -> Read<HandlerRecord> {
        self.nested(|r| {
            let name = r.scan.name()?;
            let fields = r.list("{", "}", |r| {
                let name = r.scan.name()?;
                r.scan.expect(":")?;
                let ty = if r.scan.eat_word("float") {
                    HandlerFieldTy::Float(r.ty()?)
                } else if r.scan.eat_word("record") {
                    HandlerFieldTy::Record(r.record()?)
                } else {
                    HandlerFieldTy::Scalar(r.ty()?)
                };
                let annotations = r.annotations()?;
                Ok(HandlerField {
                    name,
                    ty,
                    annotations,
                })
            })?;
            Ok(HandlerRecord { name, fields })
        })
    }

    fn register(&mut self) -> Read<ExternKind> {
        let cell = self.list("(", ")", Self::ty)?;
        let size = self.size()?;
        self.scan.keyword("initial")?;
        let initial = self.list("(", ")", Self::value)?;
        self.scan.keyword("as")?;
        let data_ty = self.data_ty()?;
        let index_ty = self.index_ty()?;
        Ok(ExternKind::Register {
            cell,
            size,
            initial,
            data_ty,
            index_ty,
        })
    }

    /// Reads an action up to its body, which may refer to later actions.
    pub(super) fn action(&mut self) -> Read<()> {
        let name = self.declare(Kind::Action)?;
        let control_plane_name = if self.scan.eat_word("as") {
            self.scan.name()?
        } else {
            name.clone()
        };
        let params = self.list("(", ")", |r| {
            let name = r.scan.name()?;
            r.scan.expect(":")?;
            let (ty, data_ty) = r.ty_as()?;
            let annotations = r.annotations()?;
            Ok(ActionParam {
                name,
                ty,
                data_ty,
                annotations,
            })
        })?;
        let annotations = self.annotations()?;
        let loc = self.loc()?;
        self.bodies.push(self.scan.here());
        self.scan.skip_item()?;
        self.out.actions.push(Action {
            name,
            control_plane_name,
            params,
            body: Vec::new(),
            annotations,
            loc,
        });
        Ok(())
    }

    pub(super) fn table(&mut self) -> Read<()> {
        let name = self.declare(Kind::Table)?;
        let annotations = self.annotations()?;
        let loc = self.loc()?;
        let mut table = Table {
            name,
            keys: Vec::new(),
            actions: Vec::new(),
            default: ActionCall {
                action: usize::MAX,
                args: Vec::new(),
            },
            default_is_const: false,
            entries: Vec::new(),
            entries_are_const: false,
            largest_priority_wins: false,
            size: 0,
            size_is_declared: false,
            implementation: None,
            direct_counter: None,
            direct_meter: None,
            idle_timeout: false,
            add_on_miss: false,
            mirror: None,
            annotations,
            loc,
        };
        self.braced(|r| {
            r.table_item(&mut table)?;
            r.scan.expect(";")
        })?;
        self.out.tables.push(table);
        Ok(())
    }

    fn table_item(&mut self, table: &mut Table) -> Read<()> {
        let at = self.scan.here();
        match self.scan.ident()? {
            "key" => {
                let key = self.key()?;
                table.keys.push(key);
            }
            "action" => {
                let action = self.id(Kind::Action)?;
                let scope = self.word("a scope of an action")?;
                let annotations = self.annotations()?;
                table.actions.push(TableAction {
                    action,
                    scope,
                    annotations,
                });
            }
            "default" => {
                table.default_is_const = self.scan.eat_word("const");
                table.default = self.action_call(table)?;
            }
            "entry" => {
                let entry = self.entry(table)?;
                table.entries.push(entry);
            }
            "size" => {
                table.size = self.scan.number()?;
                table.size_is_declared = self.scan.eat_word("declared");
            }
            "implementation" => table.implementation = Some(self.id(Kind::Extern)?),
            "direct_counter" => table.direct_counter = Some(self.id(Kind::Extern)?),
            "direct_meter" => table.direct_meter = Some(self.id(Kind::Extern)?),
            "const_entries" => table.entries_are_const = true,
            "largest_priority_wins" => table.largest_priority_wins = true,
            "idle_timeout" => table.idle_timeout = true,
            "add_on_miss" => table.add_on_miss = true,
            "mirror" => table.mirror = Some(self.scan.number()?),
            other => {
                let message = format!("'{other}' is not a part of a table");
                return Err(Failure { at, message });
            }
        }
        Ok(())
    }

    fn key(&mut self) -> Read<Key> {
        let name = self.scan.name()?;
        self.scan.expect(":")?;
        let match_kind = self.word("a match kind")?;
        self.scan.keyword("as")?;
        let data_ty = self.data_ty()?;
        self.scan.expect("=")?;
        let expr = self.expr()?;
        let annotations = self.annotations()?;
        Ok(Key {
            name,
            expr,
            match_kind,
            data_ty,
            annotations,
        })
    }

    fn action_call(&mut self, table: &Table) -> Read<ActionCall> {
        let actions = table.actions.iter();
        self.names[Kind::Local as usize] = Names::of(actions.map(|a| {
            let action = self.out.actions.get(a.action);
            action.map_or("", |a| a.name.as_str())
        }));
        let action = self.reference(Kind::Local)? as usize;
        let args = self.list("(", ")", Self::value)?;
        Ok(ActionCall { action, args })
    }

    fn entry(&mut self, table: &Table) -> Read<Entry> {
        let matches = self.list("(", ")", |r| {
            if r.scan.eat("_") {
                return Ok(KeyMatch::Any);
            }
            let value = r.value()?;
            if r.scan.eat("/") {
                return Ok(KeyMatch::Lpm(value, r.scan.number()?));
            }
            if r.scan.eat("&&&") {
                return Ok(KeyMatch::Ternary(value, r.value()?));
            }
            if r.scan.eat("..") {
                return Ok(KeyMatch::Range(value, r.value()?));
            }
            Ok(KeyMatch::Exact(value))
        })?;
        self.scan.expect("->")?;
        let action = self.action_call(table)?;
        let priority = if self.scan.eat_word("priority") {
            let negative = self.scan.eat("-");
            let size: i64 = self.scan.number()?;
            let priority = i32::try_from(if negative { -size } else { size });
            Some(priority.map_err(|_| self.scan.failure("the priority is too large"))?)
        } else {
            None
        };
        let is_const = self.scan.eat_word("const");
        Ok(Entry {
            keys: matches,
            action,
            priority,
            is_const,
        })
    }

    /// Reads the names of a chain's steps. A `next` declaration gives each step's successor.
    pub(super) fn steps(&mut self) -> Read<()> {
        for name in self.braced_names()? {
            checkpoint();
            self.names[Kind::Step as usize].declare(&name);
            let next = StepNext::End;
            self.out.pipeline.steps.push(Step { name, next });
        }
        Ok(())
    }

    pub(super) fn next_step(&mut self) -> Read<()> {
        let at = self.scan.here();
        let step: StepId = self.id(Kind::Step)?;
        self.scan.expect("->")?;
        let next = self.step_next()?;
        match self.out.pipeline.steps.get_mut(step) {
            Some(step) => step.next = next,
            None => {
                let message = format!("there is no step {step}");
                return Err(Failure { at, message });
            }
        }
        Ok(())
    }

    fn step_next(&mut self) -> Read<StepNext> {
        if self.scan.eat_word("end") {
            return Ok(StepNext::End);
        }
        if !self.scan.eat("(") {
            return Ok(StepNext::Step(self.id(Kind::Step)?));
        }
        let mut arms = Vec::new();
        while !self.scan.eat_word("else") {
            checkpoint();
            self.scan.keyword("if")?;
            let field = self.id(Kind::Field)?;
            arms.push((field, self.id(Kind::Step)?));
            self.scan.expect(",")?;
        }
        let otherwise = self.id(Kind::Step)?;
        self.scan.expect(")")?;
        Ok(StepNext::Branch { arms, otherwise })
    }

    pub(super) fn block(&mut self) -> Read<()> {
        let role = self.word("a role of a block")?;
        let step = match self.scan.eat_word("of") {
            true => self.id(Kind::Step)?,
            false => StepId::new(0),
        };
        self.scan.expect("=")?;
        let code = if self.scan.eat_word("parser") {
            BlockCode::Parser(ParserId::from_index(self.reference(Kind::Parser)? as usize))
        } else {
            self.scan.keyword("control")?;
            BlockCode::Control(self.id(Kind::Control)?)
        };
        self.out.pipeline.blocks.push(Block { step, role, code });
        Ok(())
    }
}
