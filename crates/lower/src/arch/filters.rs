//! Bindings of p4c's small architectures (eBPF filters, uBPF and XDP programs), and of packages
//! that the user declares.

use ir::{Arch, BlockRole};

use super::{Binding, BlockSpec, PACKET};

pub(super) const EBPF: Binding = Binding {
    arch: Arch::Ebpf,
    package: "ebpfFilter",
    arguments: 2,
    blocks: &[
        BlockSpec {
            role: BlockRole::Parser,
            path: &[0],
            params: &[PACKET, "hdr"],
        },
        BlockSpec {
            role: BlockRole::Ingress,
            path: &[1],
            params: &["hdr", "accept"],
        },
    ],
    transfers: &[],
    intrinsics: &["accept"],
};

pub(super) const UBPF: Binding = Binding {
    arch: Arch::Ubpf,
    package: "ubpf",
    arguments: 3,
    blocks: &[
        BlockSpec {
            role: BlockRole::Parser,
            path: &[0],
            params: &[PACKET, "hdr", "meta", "standard_metadata"],
        },
        BlockSpec {
            role: BlockRole::Ingress,
            path: &[1],
            params: &["hdr", "meta", "standard_metadata"],
        },
        BlockSpec {
            role: BlockRole::Deparser,
            path: &[2],
            params: &[PACKET, "hdr"],
        },
    ],
    transfers: &[],
    intrinsics: &["standard_metadata"],
};

pub(super) const XDP: Binding = Binding {
    arch: Arch::Xdp,
    package: "xdp",
    arguments: 3,
    blocks: &[
        BlockSpec {
            role: BlockRole::Parser,
            path: &[0],
            params: &[PACKET, "hdr"],
        },
        BlockSpec {
            role: BlockRole::Ingress,
            path: &[1],
            params: &["hdr", "input", "output"],
        },
        BlockSpec {
            role: BlockRole::Deparser,
            path: &[2],
            params: &["hdr", PACKET],
        },
    ],
    transfers: &[],
    intrinsics: &["input", "output"],
};

const OWN_PARSER: BlockSpec = BlockSpec {
    role: BlockRole::Parser,
    path: &[0],
    params: &[PACKET, "hdr", "meta", "standard_metadata"],
};
const OWN_CONTROL: &[&str] = &["hdr", "meta", "standard_metadata"];
const OWN_DEPARSER: &[&str] = &[PACKET, "hdr", "meta", "standard_metadata"];

/// A package of parser, control and deparser.
pub(super) const OWN_THREE: Binding = Binding {
    arch: Arch::Own,
    package: "",
    arguments: 3,
    blocks: &[
        OWN_PARSER,
        BlockSpec {
            role: BlockRole::Ingress,
            path: &[1],
            params: OWN_CONTROL,
        },
        BlockSpec {
            role: BlockRole::Deparser,
            path: &[2],
            params: OWN_DEPARSER,
        },
    ],
    transfers: &[],
    intrinsics: &[],
};

/// A package of parser, two controls and deparser.
pub(super) const OWN_FOUR: Binding = Binding {
    arch: Arch::Own,
    package: "",
    arguments: 4,
    blocks: &[
        OWN_PARSER,
        BlockSpec {
            role: BlockRole::Ingress,
            path: &[1],
            params: OWN_CONTROL,
        },
        BlockSpec {
            role: BlockRole::Egress,
            path: &[2],
            params: OWN_CONTROL,
        },
        BlockSpec {
            role: BlockRole::Deparser,
            path: &[3],
            params: OWN_DEPARSER,
        },
    ],
    transfers: &[],
    intrinsics: &[],
};
