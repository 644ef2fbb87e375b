//! Bindings of the Portable Switch Architecture.

use ir::{Arch, BlockRole, TransferPath};

use super::{Binding, BlockSpec, PACKET};

pub(super) const BINDING: Binding = Binding {
    arch: Arch::Psa,
    package: "PSA_Switch",
    arguments: 4,
    blocks: &[
        BlockSpec {
            role: BlockRole::Parser,
            path: &[0, 0],
            params: &[
                PACKET,
                "ingress.hdr",
                "ingress.meta",
                "ingress_parser_input",
                "ingress.resubmit_meta",
                "ingress.recirculate_meta",
            ],
        },
        BlockSpec {
            role: BlockRole::Ingress,
            path: &[0, 1],
            params: &[
                "ingress.hdr",
                "ingress.meta",
                "ingress_input",
                "ingress_output",
            ],
        },
        BlockSpec {
            role: BlockRole::IngressDeparser,
            path: &[0, 2],
            params: &[
                PACKET,
                "ingress_deparser.clone_i2e_meta",
                "ingress_deparser.resubmit_meta",
                "ingress_deparser.normal_meta",
                "ingress.hdr",
                "ingress.meta",
                "ingress_output",
            ],
        },
        BlockSpec {
            role: BlockRole::EgressParser,
            path: &[2, 0],
            params: &[
                PACKET,
                "egress.hdr",
                "egress.meta",
                "egress_parser_input",
                "egress.normal_meta",
                "egress.clone_i2e_meta",
                "egress.clone_e2e_meta",
            ],
        },
        BlockSpec {
            role: BlockRole::Egress,
            path: &[2, 1],
            params: &["egress.hdr", "egress.meta", "egress_input", "egress_output"],
        },
        BlockSpec {
            role: BlockRole::Deparser,
            path: &[2, 2],
            params: &[
                PACKET,
                "egress_deparser.clone_e2e_meta",
                "egress_deparser.recirculate_meta",
                "egress.hdr",
                "egress.meta",
                "egress_output",
                "egress_deparser_input",
            ],
        },
    ],
    transfers: &[
        (
            TransferPath::Normal,
            "ingress_deparser.normal_meta",
            "egress.normal_meta",
        ),
        (
            TransferPath::Resubmit,
            "ingress_deparser.resubmit_meta",
            "ingress.resubmit_meta",
        ),
        (
            TransferPath::Recirculate,
            "egress_deparser.recirculate_meta",
            "ingress.recirculate_meta",
        ),
        (
            TransferPath::CloneI2E,
            "ingress_deparser.clone_i2e_meta",
            "egress.clone_i2e_meta",
        ),
        (
            TransferPath::CloneE2E,
            "egress_deparser.clone_e2e_meta",
            "egress.clone_e2e_meta",
        ),
    ],
    intrinsics: &[
        "ingress_parser_input",
        "ingress_input",
        "ingress_output",
        "egress_parser_input",
        "egress_input",
        "egress_output",
        "egress_deparser_input",
    ],
};
