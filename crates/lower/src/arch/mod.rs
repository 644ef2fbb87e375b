//! Bindings of the architectures: the blocks among the package arguments, the storage that block
//! parameters share, and the values passed along with a packet.
//!
//! # Names of intrinsics
//!
//! [`ir::Pipeline::intrinsics`] maps `STORAGE.FIELD` (or `STORAGE` alone for a scalar) to the
//! field. `FIELD` is the field's name in the architecture's include file. The map lacks a field
//! that the program's version of the file does not have. It also lacks the storage of a block that
//! the package leaves out.
//!
//! | architecture | storage | type in the include file |
//! | --- | --- | --- |
//! | v1model | `standard_metadata` | `standard_metadata_t` |
//! | PSA | `ingress_parser_input` | `psa_ingress_parser_input_metadata_t` |
//! | | `ingress_input` | `psa_ingress_input_metadata_t` |
//! | | `ingress_output` | `psa_ingress_output_metadata_t` (ingress to its deparser) |
//! | | `egress_parser_input` | `psa_egress_parser_input_metadata_t` |
//! | | `egress_input` | `psa_egress_input_metadata_t` |
//! | | `egress_output` | `psa_egress_output_metadata_t` |
//! | | `egress_deparser_input` | `psa_egress_deparser_input_metadata_t` |
//! | PNA | `parser_input` | `pna_main_parser_input_metadata_t` |
//! | | `pre_input`, `pre_output` | `pna_pre_input_metadata_t`, `pna_pre_output_metadata_t` |
//! | | `main_input`, `main_output` | `pna_main_input_metadata_t`, `pna_main_output_metadata_t` |
//! | eBPF | `accept` | `bool` |
//! | uBPF | `standard_metadata` | `standard_metadata` (newer version of the model only) |
//! | XDP | `input`, `output` | `xdp_input`, `xdp_output` |
//!
//! In v1model, scalar fields of user metadata with the annotations `@drop_session` and
//! `@drop_reason` are the intrinsics [`ir::DROP_SESSION`] and [`ir::DROP_REASON`].
//!
//! # Shared storage
//!
//! In v1model, headers, user metadata and standard metadata are one storage each for all blocks:
//! each block reads what the block before it wrote. PSA has separate headers and user metadata for
//! ingress and egress. Metadata that deparsers pass on (`clone_i2e_meta`, `resubmit_meta`,
//! `normal_meta`, `clone_e2e_meta`, `recirculate_meta`) has storage at both ends, connected by
//! [`ir::Transfer`]s. All storage is zero when a packet enters a pipeline: headers are invalid,
//! also in `out` parameters of blocks.
//!
//! A package that the user declares (a parser, one or two controls, a deparser) binds parameters in
//! order, without the packet: headers, then user metadata, then others. A parameter with different
//! types in two blocks is not shared.
//!
//! # Dropping and counting
//!
//! v1model's `mark_to_drop(standard_metadata)` is plain code: it sets `egress_spec` to all ones and
//! `mcast_grp` to zero. v1model's direct counters have no operation: the table counts each hit
//! itself, as in BMv2. `clone3`, `resubmit` and `recirculate` with data get field lists with
//! numbers from 256 on.

mod filters;
mod pna;
mod psa;
mod v1model;

use ir::{Arch, Block, BlockRole, StepId, Transfer, TransferPath};
use sema::hir::{self, InstanceId, Ty, TyId};
use support::work::checkpoint;
use syntax::diag::Diagnostic;
use syntax::source::Span;

use crate::cx::{Bound, Lower};
use crate::instance::NodeId;
use crate::storage::{Place, SlotKind};
use crate::value::Rv;

/// Name of the packet parameter.
const PACKET: &str = "packet";

/// Binding of a package.
pub(crate) struct Binding {
    pub(crate) arch: Arch,
    /// The package's name.
    package: &'static str,
    /// Number of package arguments.
    arguments: usize,
    blocks: &'static [BlockSpec],
    transfers: &'static [(TransferPath, &'static str, &'static str)],
    /// Storage with fields that are intrinsics.
    intrinsics: &'static [&'static str],
}

/// A block.
struct BlockSpec {
    role: BlockRole,
    /// Positions in the arguments of nested packages.
    path: &'static [usize],
    /// The storage of each parameter.
    params: &'static [&'static str],
}

/// Kind of a block parameter.
enum Param {
    /// `packet_in` or `packet_out`.
    Packet,
    /// Storage that blocks share.
    Storage(&'static str),
    /// Separate storage: the architecture provides no value.
    Own,
}

const BINDINGS: &[&Binding] = &[
    &v1model::BINDING,
    &psa::BINDING,
    &pna::BINDING,
    &pna::BINDING_WITHOUT_PRE,
    &filters::EBPF,
    &filters::UBPF,
    &filters::XDP,
];

/// Returns the package instance `main` and its binding.
pub(crate) fn find(
    program: &hir::Program,
) -> Result<(InstanceId, &'static Binding), Vec<Diagnostic>> {
    let Some(main) = program.main else {
        let message = "the program has no `main`: there is nothing to run";
        return Err(vec![Diagnostic::error("E1102", Span::NONE, message).hint(
            "instantiate the architecture's package with the name `main`",
        )]);
    };
    let instance = &program.instances[main];
    let package = match program.types.get(instance.ty) {
        Ty::BlockType(id, _) => program.block_types[*id].name.as_str(),
        _ => "",
    };
    let named = |binding: &&&Binding| binding.package == package;
    let fits = |binding: &&&Binding| binding.arguments == instance.args.len();
    let found = BINDINGS
        .iter()
        .filter(named)
        .find(fits)
        .or_else(|| BINDINGS.iter().find(named));
    match found.or_else(|| own(program, instance)) {
        Some(binding) => Ok((main, binding)),
        None => {
            let known: Vec<&str> = BINDINGS.iter().map(|binding| binding.package).collect();
            let message = format!("package `{package}` belongs to no architecture that can run");
            let mut diagnostic = Diagnostic::error("E1103", instance.span, message)
                .suggest(package, known.iter().copied());
            diagnostic = diagnostic.note("programs for V1Switch, PSA_Switch, PNA_NIC, ebpfFilter, ubpf and xdp can run; so can a package of your own that is made of a parser, one or two controls and a deparser; others can be checked");
            Err(vec![diagnostic])
        }
    }
}

/// Returns the binding of a package that no architecture file declares, by the kinds of its
/// arguments. Its packets leave by the port of their ingress.
fn own(program: &hir::Program, instance: &hir::Instance) -> Option<&'static &'static Binding> {
    let ty = |arg: &hir::Arg| match arg {
        hir::Arg::Expr(expr) => Some(program.types.get(expr.ty)),
        hir::Arg::Omitted => None,
    };
    let (parser, controls) = instance.args.split_first()?;
    let is_line = matches!(ty(parser), Some(Ty::Parser(_)))
        && controls
            .iter()
            .all(|arg| matches!(ty(arg), Some(Ty::Control(_))));
    let shapes: &'static [&'static Binding] = &[&filters::OWN_THREE, &filters::OWN_FOUR];
    let fits = |binding: &&&Binding| is_line && binding.arguments == instance.args.len();
    shapes.iter().find(fits)
}

impl Lower<'_> {
    /// Lowers all blocks.
    pub(crate) fn run(&mut self) {
        let main = self.node_of(self.main);
        for &global in &self.hir.globals {
            checkpoint();
            self.node_of(global);
        }
        let blocks: Vec<(&'static BlockSpec, NodeId)> = self
            .binding
            .blocks
            .iter()
            .filter_map(|spec| Some((spec, self.block_node(main, spec.path)?)))
            .collect();
        if blocks
            .iter()
            .any(|&(spec, node)| !self.is_kind(spec.role, node))
        {
            return self.wrong_package();
        }
        for &(_, node) in &blocks {
            checkpoint();
            self.count_applications(node);
        }
        self.name_storage(&blocks);
        for (spec, node) in blocks {
            checkpoint();
            self.lower_block(spec, node);
        }
        for (path, from, to) in self.binding.transfers {
            checkpoint();
            self.transfer(*path, from, to);
        }
        for storage in self.binding.intrinsics {
            checkpoint();
            self.intrinsics(storage);
        }
        self.handler_constants();
        if self.binding.arch == Arch::V1model {
            self.annotated_field_lists();
            self.drop_reports();
            self.egress_length();
        }
    }

    fn block_node(&self, main: NodeId, path: &[usize]) -> Option<NodeId> {
        path.iter().try_fold(main, |node, &index| {
            match self.nodes[node].args.get(index) {
                Some(Rv::Instance(node)) => Some(*node),
                _ => None,
            }
        })
    }

    /// Returns true if a block is a parser or control, as its role requires.
    fn is_kind(&self, role: BlockRole, node: NodeId) -> bool {
        let is_parser = matches!(role, BlockRole::Parser | BlockRole::EgressParser);
        match self.nodes[node].ty.map(|ty| self.ty(ty)) {
            Some(Ty::Parser(_)) => is_parser,
            Some(Ty::Control(_)) => !is_parser,
            _ => false,
        }
    }

    /// Reports a user's package with the name of an architecture's package.
    fn wrong_package(&mut self) {
        let span = self.hir.instances[self.main].span;
        let message = format!(
            "package `{}` is not declared here as its architecture declares it",
            self.binding.package
        );
        self.error("E1103", span, message);
    }

    fn block_params(&mut self, node: NodeId) -> Vec<hir::VarId> {
        let hir = self.hir;
        let params = match self.nodes[node].ty.map(|ty| self.ty(ty).clone()) {
            Some(Ty::Parser(id)) => &hir.parsers[id].params,
            Some(Ty::Control(id)) => &hir.controls[id].params,
            _ => return Vec::new(),
        };
        params.iter().map(|param| param.var).collect()
    }

    /// Returns the kind of each parameter of a block. A user's package may have the packet at any
    /// position, and more parameters than are bound.
    fn bound_params(&mut self, spec: &'static BlockSpec, node: NodeId) -> Vec<(hir::VarId, Param)> {
        let mut storage = spec.params.iter().filter(|&&name| name != PACKET);
        let params = self.block_params(node).into_iter();
        params
            .map(|var| match self.ty(self.hir.vars[var].ty) {
                Ty::Extern(..) => (var, Param::Packet),
                _ => (
                    var,
                    storage
                        .next()
                        .map_or(Param::Own, |name| Param::Storage(name)),
                ),
            })
            .collect()
    }

    /// Allocates the storage of all block parameters. Storage has the parameter name of the main
    /// control, if that name is free.
    fn name_storage(&mut self, blocks: &[(&'static BlockSpec, NodeId)]) {
        let mut order: Vec<_> = blocks.iter().collect();
        order.sort_by_key(|(spec, _)| spec.role != BlockRole::Ingress);
        for &&(spec, node) in &order {
            checkpoint();
            for (var, param) in self.bound_params(spec, node) {
                checkpoint();
                let Param::Storage(storage) = param else {
                    continue;
                };
                if self.shared.contains_key(storage) {
                    continue;
                }
                let name = self.hir.vars[var].name.as_str();
                let ty = self.subst(self.hir.vars[var].ty);
                let name = if self.names.contains_key(name) {
                    storage
                } else {
                    name
                };
                let place = self.allocate(name, ty);
                self.names.entry(name.to_owned()).or_insert(1);
                self.shared.insert(storage, place);
            }
        }
    }

    fn lower_block(&mut self, spec: &'static BlockSpec, node: NodeId) {
        for (var, param) in self.bound_params(spec, node) {
            checkpoint();
            let bound = match param {
                Param::Packet => Bound::Value(Rv::Packet),
                Param::Storage(storage) => Bound::Place(self.param_place(var, storage)),
                Param::Own => {
                    let (name, ty) = (self.hir.vars[var].name.as_str(), self.hir.vars[var].ty);
                    let ty = self.subst(ty);
                    Bound::Place(self.allocate(name, ty))
                }
            };
            self.vars.insert(var, bound);
        }
        let code = match self.nodes[node].ty.map(|ty| self.ty(ty).clone()) {
            Some(Ty::Parser(id)) => self.block_parser(node, id),
            Some(Ty::Control(id)) => self.block_control(node, id),
            _ => return,
        };
        self.out.pipeline.blocks.push(Block {
            step: StepId::new(0),
            role: spec.role,
            code,
        });
    }

    /// Returns the shared storage, or separate storage for a parameter of another type.
    fn param_place(&mut self, var: hir::VarId, storage: &str) -> Place {
        let ty = self.subst(self.hir.vars[var].ty);
        match self.shared.get(storage).cloned() {
            Some(place) if self.same_shape(place.ty, ty) => place,
            _ => {
                let name = self.hir.vars[var].name.as_str();
                self.allocate(name, ty)
            }
        }
    }

    fn same_shape(&mut self, a: TyId, b: TyId) -> bool {
        self.peel(a) == self.peel(b)
    }

    fn transfer(&mut self, path: TransferPath, from: &str, to: &str) {
        let (Some(from), Some(to)) = (self.shared.get(from).cloned(), self.shared.get(to).cloned())
        else {
            return;
        };
        let ids = |places: Vec<ir::Place>| {
            places
                .into_iter()
                .map(|place| place.base)
                .collect::<Vec<_>>()
        };
        let (from, to) = (ids(self.flat_places(&from)), ids(self.flat_places(&to)));
        if from.len() == to.len() && !from.is_empty() {
            self.out
                .pipeline
                .transfers
                .push(Transfer { path, from, to });
        }
    }

    fn intrinsics(&mut self, storage: &str) {
        let Some(place) = self.shared.get(storage).cloned() else {
            return;
        };
        if let SlotKind::Scalar(field, _) = place.slot.kind {
            self.out
                .pipeline
                .intrinsics
                .insert(storage.to_owned(), field);
            return;
        }
        let members = self.members(place.ty);
        for (index, (name, _)) in members.iter().enumerate() {
            checkpoint();
            if let Some(member) = self.member(&place, index)
                && let SlotKind::Scalar(field, _) = member.slot.kind
            {
                self.out
                    .pipeline
                    .intrinsics
                    .insert(format!("{storage}.{name}"), field);
            }
        }
    }
}
