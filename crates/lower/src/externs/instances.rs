//! Extern instances: converts constructor arguments to the IR's extern kinds.

use bits::Value;
use ir::{CounterUnit, Expr, ExternKind, HashAlgorithm, ScalarTy};
use sema::arch::MAX_SIZE;
use sema::hir::{self, Ty, TyId};

use crate::annotate;
use crate::cx::Lower;
use crate::instance::NodeId;
use crate::types::value_of;
use crate::value::Rv;

impl Lower<'_> {
    /// Declares an extern instance in the IR. Externs without state there (and unknown ones) are
    /// skipped.
    pub(crate) fn declare_extern(&mut self, node: NodeId, id: hir::ExternId) {
        let Some(kind) = self.extern_kind(node, id) else {
            return;
        };
        let Some(instance) = self.nodes[node].instance else {
            return;
        };
        let decl = &self.hir.instances[instance];
        let is_seen = !matches!(
            kind,
            ExternKind::Hash { .. }
                | ExternKind::Checksum { .. }
                | ExternKind::InternetChecksum
                | ExternKind::Random { .. }
        );
        let path = self.nodes[node].path.clone();
        let made = ir::Extern {
            name: self.thing_name("extern", path, is_seen),
            kind,
            annotations: annotate::annotations(self.sources, &decl.annotations),
            loc: self.loc_of(decl.span),
        };
        self.nodes[node].ir = Some(self.out.externs.push(made));
    }

    /// Limits the width of a selector's hash to 64 bits. A larger width is reported.
    fn selector_width(&mut self, node: NodeId, width: u32) -> u32 {
        if width > 64
            && let Some(instance) = self.nodes[node].instance
        {
            let span = self.hir.instances[instance].span;
            self.unsupported(
                span,
                format!("a selector's hash has at most 64 bits, not {width}"),
            );
        }
        width.min(64)
    }

    /// Rejects a number of cells that is out of range. A number from a constructor parameter is
    /// known only here.
    fn check_size(&mut self, node: NodeId, id: hir::ExternId, args: &[Rv]) {
        let Some(at) = sema::arch::size_argument(self.hir.externs[id].name.as_str()) else {
            return;
        };
        let size = args.get(at).and_then(constant_u32).unwrap_or(0);
        if !(1..=MAX_SIZE).contains(&size)
            && let Some(instance) = self.nodes[node].instance
        {
            let instance = &self.hir.instances[instance];
            let message = format!(
                "the size of `{}` must be between 1 and {MAX_SIZE}: it is {size} where its block \
                 is instantiated",
                instance.name.as_str()
            );
            self.unsupported(instance.span, message);
        }
    }

    fn extern_kind(&mut self, node: NodeId, id: hir::ExternId) -> Option<ExternKind> {
        let args = self.nodes[node].args.clone();
        self.check_size(node, id, &args);
        let types: Vec<TyId> = match self.nodes[node].ty.map(|ty| self.ty(ty).clone()) {
            Some(Ty::Extern(_, types)) => types,
            _ => Vec::new(),
        };
        let number = |index: usize| args.get(index).and_then(constant_u32);
        let size = |index: usize| number(index).unwrap_or(0);
        let unit = |this: &Self, index: usize| {
            args.get(index)
                .map_or(CounterUnit::Packets, |arg| this.unit(arg))
        };
        let algorithm = |this: &Self, index: usize| {
            args.get(index)
                .and_then(|arg| this.algorithm(arg))
                .unwrap_or(HashAlgorithm::TargetDefault)
        };
        let index_ty = |this: &mut Self, index: usize| types.get(index).map(|&ty| this.data_ty(ty));
        let width = |this: &mut Self, index: usize| {
            types
                .get(index)
                .map_or(32, |&ty| u32::try_from(this.bits_of(ty)).unwrap_or(32))
        };
        Some(match self.hir.externs[id].name.as_str() {
            "counter" => ExternKind::Counter {
                unit: unit(self, 1),
                size: size(0),
                index_ty: index_ty(self, 0),
            },
            "Counter" => ExternKind::Counter {
                unit: unit(self, 1),
                size: size(0),
                index_ty: index_ty(self, 1),
            },
            "CounterArray" => ExternKind::Counter {
                unit: CounterUnit::Packets,
                size: size(0),
                index_ty: None,
            },
            "direct_counter" | "DirectCounter" => ExternKind::DirectCounter {
                unit: unit(self, 0),
            },
            "meter" | "Meter" => ExternKind::Meter {
                unit: unit(self, 1),
                size: size(0),
                index_ty: index_ty(self, 0),
            },
            "direct_meter" | "DirectMeter" => ExternKind::DirectMeter {
                unit: unit(self, 0),
            },
            "register" | "Register" => self.register_kind(&types, &args)?,
            "action_profile" | "ActionProfile" => ExternKind::ActionProfile { size: size(0) },
            "action_selector" | "ActionSelector" => ExternKind::ActionSelector {
                size: size(1),
                width: self.selector_width(node, size(2)),
                algorithm: algorithm(self, 0),
            },
            "Hash" => ExternKind::Hash {
                algorithm: algorithm(self, 0),
                width: width(self, 0),
            },
            "Checksum" => ExternKind::Checksum {
                algorithm: algorithm(self, 0),
                width: width(self, 0),
            },
            "InternetChecksum" | "Checksum16" => ExternKind::InternetChecksum,
            "Random" => {
                let ty = *types.first()?;
                let bound =
                    |this: &mut Self, index: usize| this.constant_value(args.get(index), ty);
                ExternKind::Random {
                    min: bound(self, 0),
                    max: bound(self, 1),
                }
            }
            "Digest" => {
                let ty = *types.first()?;
                ExternKind::Digest {
                    fields: self.flat_types(ty),
                    data_ty: self.data_ty(ty),
                }
            }
            "hash_table" => ExternKind::TableKind {
                size: size(0),
                is_array: false,
            },
            "array_table" => ExternKind::TableKind {
                size: size(0),
                is_array: true,
            },
            _ => return None,
        })
    }

    fn register_kind(&mut self, types: &[TyId], args: &[Rv]) -> Option<ExternKind> {
        let ty = *types.first()?;
        let cell = self.flat_types(ty);
        let initial = match args.get(1) {
            Some(value @ (Rv::Int(_) | Rv::Scalar(_) | Rv::List(_) | Rv::Header(_))) => {
                let flat = self.flatten(value, ty, true);
                flat.into_iter()
                    .zip(&cell)
                    .map(|(value, ty)| constant_or_zero(value, *ty))
                    .collect()
            }
            _ => cell.iter().map(|ty| Value::zero(ty.width())).collect(),
        };
        Some(ExternKind::Register {
            cell,
            size: args.first().and_then(constant_u32).unwrap_or(0),
            initial,
            data_ty: self.data_ty(ty),
            index_ty: types.get(1).map(|&ty| self.data_ty(ty)),
        })
    }

    fn unit(&self, value: &Rv) -> CounterUnit {
        match self
            .member_name(value)
            .map(str::to_ascii_lowercase)
            .as_deref()
        {
            Some("bytes") => CounterUnit::Bytes,
            Some("packets_and_bytes") => CounterUnit::Both,
            _ => CounterUnit::Packets,
        }
    }

    fn constant_value(&mut self, value: Option<&Rv>, ty: TyId) -> Value {
        let Some(scalar) = self.scalar(ty) else {
            return Value::zero(32);
        };
        match value {
            Some(Rv::Int(number)) => value_of(number, scalar.width()),
            Some(Rv::Scalar(expr)) => constant_or_zero(expr.clone(), scalar),
            _ => Value::zero(scalar.width()),
        }
    }
}

fn constant_or_zero(expr: Expr, ty: ScalarTy) -> Value {
    match expr {
        Expr::Const(_, value) => value,
        _ => Value::zero(ty.width()),
    }
}

fn constant_u32(value: &Rv) -> Option<u32> {
    match value {
        Rv::Int(number) => u32::try_from(number).ok(),
        Rv::Scalar(Expr::Const(_, value)) => u32::try_from(value.to_u64()?).ok(),
        _ => None,
    }
}
