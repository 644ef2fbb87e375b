//! The architectures: detects the architecture of a program and checks its rules.

mod atomic;
mod direct;
mod ids;
pub mod includes;
mod places;
mod pna;
mod remote;
mod restrictions;
mod sizes;
mod tables;
mod v1model;

use num_bigint::BigInt;
use syntax::ast::ConstDecl;
use syntax::diag::Diagnostics;

use crate::hir::{Program, Ty};

pub use includes::builtin_include;
pub use remote::{is_handler, mirror_of};
pub use sizes::{MAX_SIZE, size_argument};

/// A known architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// `V1Switch` of v1model.p4.
    V1Model,
    /// `PSA_Switch` of psa.p4.
    Psa,
    /// `PNA_NIC` of pna.p4.
    Pna,
    /// `ebpfFilter` of ebpf_model.p4.
    Ebpf,
    /// `ubpf` of ubpf_model.p4.
    Ubpf,
    /// `xdp` of xdp_model.p4.
    Xdp,
}

impl Arch {
    /// Returns the architecture's name, as in the name of its include file.
    pub fn name(self) -> &'static str {
        match self {
            Arch::V1Model => "v1model",
            Arch::Psa => "psa",
            Arch::Pna => "pna",
            Arch::Ebpf => "ebpf_model",
            Arch::Ubpf => "ubpf_model",
            Arch::Xdp => "xdp_model",
        }
    }
}

/// Returns the architecture of the package that `main` instantiates.
pub(crate) fn recognise(p: &Program) -> Option<Arch> {
    let main = &p.instances[p.main?];
    let Ty::BlockType(package, _) = p.types.get(main.ty) else {
        return None;
    };
    Some(match p.block_types[*package].name.as_str() {
        "V1Switch" => Arch::V1Model,
        "PSA_Switch" => Arch::Psa,
        "PNA_NIC" => Arch::Pna,
        "ebpfFilter" => Arch::Ebpf,
        "ubpf" => Arch::Ubpf,
        "xdp" => Arch::Xdp,
        _ => return None,
    })
}

/// Checks the rules of an architecture on a program without errors.
pub(crate) fn check(arch: Arch, program: &Program, diagnostics: &mut Diagnostics) {
    tables::check(arch, program, diagnostics);
    restrictions::check(program, diagnostics);
    sizes::check(program, diagnostics);
    ids::check(program, diagnostics);
    direct::check(arch, program, diagnostics);
    atomic::check(program, diagnostics);
    remote::check(arch, program, diagnostics);
    places::check(arch, program, diagnostics);
    match arch {
        Arch::V1Model => v1model::check(program, diagnostics),
        Arch::Pna => pna::check(program, diagnostics),
        _ => {}
    }
}

/// Checks a constant that an include file declares for the compiler.
pub(crate) fn check_constant(decl: &ConstDecl, value: &BigInt, diagnostics: &mut Diagnostics) {
    if decl.name.as_str() == "__v1model_version" {
        v1model::check_version(decl, value, diagnostics);
    }
}
