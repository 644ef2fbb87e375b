//! Bindings of the Portable NIC Architecture, with and without the pre control. The specification
//! has it, but some versions of the include file do not.

use ir::{Arch, BlockRole};

use super::{Binding, BlockSpec, PACKET};

const PARSER: BlockSpec = BlockSpec {
    role: BlockRole::Parser,
    path: &[0],
    params: &[PACKET, "hdr", "meta", "parser_input"],
};
const MAIN: &[&str] = &["hdr", "meta", "main_input", "main_output"];
const DEPARSER: &[&str] = &[PACKET, "hdr", "meta", "main_output"];

pub(super) const BINDING: Binding = Binding {
    arch: Arch::Pna,
    package: "PNA_NIC",
    arguments: 4,
    blocks: &[
        PARSER,
        BlockSpec {
            role: BlockRole::PreControl,
            path: &[1],
            params: &["hdr", "meta", "pre_input", "pre_output"],
        },
        BlockSpec {
            role: BlockRole::Ingress,
            path: &[2],
            params: MAIN,
        },
        BlockSpec {
            role: BlockRole::Deparser,
            path: &[3],
            params: DEPARSER,
        },
    ],
    transfers: &[],
    intrinsics: &[
        "parser_input",
        "pre_input",
        "pre_output",
        "main_input",
        "main_output",
    ],
};

pub(super) const BINDING_WITHOUT_PRE: Binding = Binding {
    arch: Arch::Pna,
    package: "PNA_NIC",
    arguments: 3,
    blocks: &[
        PARSER,
        BlockSpec {
            role: BlockRole::Ingress,
            path: &[1],
            params: MAIN,
        },
        BlockSpec {
            role: BlockRole::Deparser,
            path: &[2],
            params: DEPARSER,
        },
    ],
    transfers: &[],
    intrinsics: &["parser_input", "main_input", "main_output"],
};
