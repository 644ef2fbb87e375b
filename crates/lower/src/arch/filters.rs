//! The small architectures of p4c: eBPF filters, uBPF and XDP programs.

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
