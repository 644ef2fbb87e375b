//! Architectures in the program generator: their blocks, intrinsic metadata and extern syntax.

use super::{Generator, InstanceKind, Place, Ty, Variable};

/// The architecture of a generated program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Architecture {
    V1model,
    Psa,
    /// PNA as implemented by BMv2, with one control.
    Pna,
    /// PNA with a control before the main one.
    PnaTwoControls,
}

/// An intrinsic metadata field that the architecture sets.
pub(super) struct Told {
    path: &'static str,
    ty: Ty,
}

const fn told(path: &'static str, ty: Ty) -> Told {
    Told { path, ty }
}

const V1MODEL: &[Told] = &[
    told("sm.ingress_port", Ty::Bit(9)),
    told("sm.packet_length", Ty::Bit(32)),
    told("sm.instance_type", Ty::Bit(32)),
];

const PSA_INGRESS_PARSER: &[Told] = &[
    told("((bit<32>)istd.ingress_port)", Ty::Bit(32)),
    told("(istd.packet_path == PSA_PacketPath_t.RESUBMIT)", Ty::Bool),
    told("(istd.packet_path == PSA_PacketPath_t.NORMAL)", Ty::Bool),
];

const PSA_INGRESS: &[Told] = &[
    told("((bit<32>)istd.ingress_port)", Ty::Bit(32)),
    told(
        "(istd.packet_path == PSA_PacketPath_t.RECIRCULATE)",
        Ty::Bool,
    ),
    told("(istd.parser_error == error.NoError)", Ty::Bool),
    told("((bit<8>)ostd.class_of_service)", Ty::Bit(8)),
    told("ostd.drop", Ty::Bool),
];

const PSA_EGRESS_PARSER: &[Told] = &[
    told("((bit<32>)istd.egress_port)", Ty::Bit(32)),
    told("(istd.packet_path == PSA_PacketPath_t.CLONE_I2E)", Ty::Bool),
];

const PSA_EGRESS: &[Told] = &[
    told("((bit<32>)istd.egress_port)", Ty::Bit(32)),
    told("((bit<8>)istd.class_of_service)", Ty::Bit(8)),
    told("((bit<16>)istd.instance)", Ty::Bit(16)),
    told("(istd.packet_path == PSA_PacketPath_t.CLONE_E2E)", Ty::Bool),
    told(
        "(istd.packet_path == PSA_PacketPath_t.NORMAL_MULTICAST)",
        Ty::Bool,
    ),
    told("(istd.parser_error == error.NoError)", Ty::Bool),
];

const PNA: &[Told] = &[
    told("((bit<32>)istd.input_port)", Ty::Bit(32)),
    told("istd.recirculated", Ty::Bool),
    told("is_host_port(istd.input_port)", Ty::Bool),
];

const PNA_TWO_CONTROLS: &[Told] = &[
    told("((bit<32>)istd.input_port)", Ty::Bit(32)),
    told("istd.loopedback", Ty::Bool),
    told("(istd.direction == PNA_Direction_t.NET_TO_HOST)", Ty::Bool),
    told("((bit<3>)istd.pass)", Ty::Bit(3)),
];

impl Architecture {
    pub(super) fn preamble(self) -> &'static str {
        match self {
            Architecture::V1model => "#include <core.p4>\n#include <v1model.p4>\n",
            Architecture::Psa => {
                "#include <core.p4>\n#include <psa.p4>\n\nstruct empty_t { }\n\nstruct carried_t {\n    bit<13> c;\n}\n"
            }
            Architecture::Pna => {
                "#include <core.p4>\n#include <bmv2/pna.p4>\n\nstruct learned_t {\n    bit<13> v;\n}\n"
            }
            Architecture::PnaTwoControls => {
                "#include <core.p4>\n#include <pna.p4>\n\nstruct learned_t {\n    bit<13> v;\n}\n"
            }
        }
    }

    pub(super) fn is_pna(self) -> bool {
        matches!(self, Architecture::Pna | Architecture::PnaTwoControls)
    }

    /// Returns the prefix of the architecture's type names.
    fn prefix(self) -> &'static str {
        match self {
            Architecture::Psa => "PSA",
            _ => "PNA",
        }
    }

    /// Returns keys of intrinsic metadata, with valid match kinds. Enums without an underlying type
    /// are excluded, because no controller could write such keys.
    pub(super) fn told_keys(self, place: Place) -> &'static [(&'static str, &'static str)] {
        match (self, place) {
            (Architecture::V1model, _) => &[
                ("sm.ingress_port", "exact"),
                ("sm.ingress_port", "ternary"),
                ("sm.parser_error", "exact"),
                ("sm.instance_type", "range"),
            ],
            (Architecture::Psa, Place::Egress) => &[
                ("istd.egress_port", "exact"),
                ("istd.packet_path == PSA_PacketPath_t.NORMAL", "exact"),
                ("istd.instance", "exact"),
            ],
            (Architecture::Psa, _) => &[
                ("istd.ingress_port", "exact"),
                ("istd.ingress_port", "ternary"),
                ("istd.packet_path == PSA_PacketPath_t.NORMAL", "exact"),
                ("istd.parser_error", "exact"),
            ],
            (Architecture::Pna, _) => &[
                ("istd.input_port", "exact"),
                ("istd.input_port", "ternary"),
                ("is_host_port(istd.input_port)", "exact"),
                ("istd.recirculated", "exact"),
            ],
            (Architecture::PnaTwoControls, _) => &[
                ("istd.input_port", "exact"),
                ("istd.direction == PNA_Direction_t.HOST_TO_NET", "exact"),
                ("istd.loopedback", "exact"),
                ("istd.pass", "exact"),
            ],
        }
    }
}

impl Generator<'_> {
    /// Writes the blocks of the architecture, and its package.
    pub(super) fn blocks(&mut self) {
        match self.architecture {
            Architecture::V1model => self.v1model(),
            Architecture::Psa => self.psa(),
            Architecture::Pna | Architecture::PnaTwoControls => self.pna(),
        }
    }

    fn v1model(&mut self) {
        let inout = "inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm";
        self.parser(
            "parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm)",
            V1MODEL,
        );
        self.checksums();
        self.control(Place::Ingress, &format!("control I({inout})"), V1MODEL);
        self.control(Place::Egress, &format!("control E({inout})"), V1MODEL);
        self.deparser("control D(packet_out packet, in headers_t hdr)", None);
        self.line("V1Switch(P(), Verify(), I(), E(), Compute(), D()) main;");
    }

    fn psa(&mut self) {
        let common = "packet_in packet, out headers_t hdr, inout metadata_t meta";
        self.parser(
            &format!("parser IP({common}, in psa_ingress_parser_input_metadata_t istd, in empty_t resubmit_meta, in empty_t recirculate_meta)"),
            PSA_INGRESS_PARSER,
        );
        self.control(
            Place::Ingress,
            "control I(inout headers_t hdr, inout metadata_t meta, in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd)",
            PSA_INGRESS,
        );
        self.deparser(
            "control ID(packet_out packet, out carried_t clone_i2e_meta, out empty_t resubmit_meta, out carried_t normal_meta, inout headers_t hdr, in metadata_t meta, in psa_ingress_output_metadata_t istd)",
            Some(&[("psa_clone_i2e(istd)", "clone_i2e_meta"), ("psa_normal(istd)", "normal_meta")]),
        );
        self.parser(
            &format!("parser EP({common}, in psa_egress_parser_input_metadata_t istd, in carried_t normal_meta, in carried_t clone_i2e_meta, in empty_t clone_e2e_meta)"),
            PSA_EGRESS_PARSER,
        );
        self.control(
            Place::Egress,
            "control E(inout headers_t hdr, inout metadata_t meta, in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd)",
            PSA_EGRESS,
        );
        self.deparser(
            "control ED(packet_out packet, out empty_t clone_e2e_meta, out empty_t recirculate_meta, inout headers_t hdr, in metadata_t meta, in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd)",
            Some(&[]),
        );
        self.line(
            "IngressPipeline(IP(), I(), ID()) ingress;\nEgressPipeline(EP(), E(), ED()) egress;",
        );
        self.line(
            "PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;",
        );
    }

    fn pna(&mut self) {
        let has_two = self.architecture == Architecture::PnaTwoControls;
        let told = if has_two { PNA_TWO_CONTROLS } else { PNA };
        self.parser(
            "parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd)",
            told,
        );
        if has_two {
            self.line("control Pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd) {\n    apply { }\n}\n");
        }
        self.control(
            Place::Ingress,
            "control C(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd, inout pna_main_output_metadata_t ostd)",
            told,
        );
        let (direction, checksum, main) = match has_two {
            true => ("in", None, "PNA_NIC(P(), Pre(), C(), D()) main;"),
            false => ("inout", Some(&[][..]), "PNA_NIC(P(), C(), D()) main;"),
        };
        self.deparser(
            &format!("control D(packet_out packet, {direction} headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd)"),
            checksum,
        );
        self.line(main);
    }

    /// Runs `body` with these metadata fields in scope.
    pub(super) fn where_told(&mut self, told: &[Told], body: impl FnOnce(&mut Self)) {
        let outer = self.variables.len();
        for Told { path, ty } in told {
            self.variables.push(Variable {
                path: String::from(*path),
                ty: *ty,
                is_writable: false,
            });
        }
        body(self);
        self.variables.truncate(outer);
    }

    /// Returns a statement that requests an operation from the architecture, such as a drop or a
    /// clone; `None` if there is none at this place.
    pub(super) fn request(&mut self, place: Place) -> Option<String> {
        match self.architecture {
            Architecture::V1model => self.v1model_request(place),
            Architecture::Psa => self.psa_request(),
            Architecture::Pna | Architecture::PnaTwoControls => self.pna_request(),
        }
    }

    fn v1model_request(&mut self, place: Place) -> Option<String> {
        Some(match (place, self.choices.index(7)) {
            (_, 0) => String::from("mark_to_drop(sm);"),
            (_, 1) => {
                let port = self.choices.index(6);
                format!("sm.egress_spec = {port};")
            }
            (Place::Ingress, 2) => String::from("sm.mcast_grp = 1;"),
            (Place::Ingress, 3) => {
                String::from("clone_preserving_field_list(CloneType.I2E, 1, 1);")
            }
            (Place::Egress, 3) => String::from("clone(CloneType.E2E, 1);"),
            (Place::Ingress, 4) => {
                String::from("if (sm.instance_type == 0) { resubmit_preserving_field_list(1); }")
            }
            (Place::Egress, 4) => {
                String::from("if (sm.instance_type == 0) { recirculate_preserving_field_list(1); }")
            }
            (Place::Ingress | Place::Egress, 5) => {
                let length = 14 + self.choices.index(60);
                format!("truncate({length});")
            }
            (_, 6) => {
                let value = self.expr(Ty::Bit(16), 2);
                format!("log_msg(\"value {{}}\", {{ {value} }});")
            }
            _ => return None,
        })
    }

    fn psa_request(&mut self) -> Option<String> {
        let port = self.choices.index(6);
        let clone = "ostd.clone = true; ostd.clone_session_id = (CloneSessionId_t)1;";
        Some(match (self.side, self.choices.index(8)) {
            (Place::Egress, 0..2) => String::from("egress_drop(ostd);"),
            (Place::Egress, 2) => {
                format!("if (istd.packet_path == PSA_PacketPath_t.NORMAL_UNICAST) {{ {clone} }}")
            }
            (Place::Egress, _) => return None,
            (_, 0) => String::from("ingress_drop(ostd);"),
            (_, 1) => String::from("multicast(ostd, (MulticastGroup_t)1);"),
            (_, 2) => format!("ostd.class_of_service = (ClassOfService_t){port};"),
            (_, 3) => String::from(clone),
            (_, 4) => String::from(
                "if (istd.packet_path == PSA_PacketPath_t.NORMAL) { ostd.resubmit = true; }",
            ),
            (_, 5) => String::from(
                "if (istd.packet_path == PSA_PacketPath_t.NORMAL) { send_to_port(ostd, PSA_PORT_RECIRCULATE); }",
            ),
            _ => format!("send_to_port(ostd, (PortId_t){port});"),
        })
    }

    fn pna_request(&mut self) -> Option<String> {
        let port = self.choices.index(6);
        Some(match self.choices.index(5) {
            0 => String::from("drop_packet();"),
            1 => String::from("mirror_packet((MirrorSlotId_t)0, (MirrorSessionId_t)1);"),
            2 => format!("ostd.class_of_service = (ClassOfService_t){port};"),
            3 if self.architecture == Architecture::PnaTwoControls => {
                String::from("if (istd.pass == (PassNumber_t)0) { recirculate(); }")
            }
            _ => format!("send_to_port((PortId_t){port});"),
        })
    }

    /// Returns a statement that sets a default egress port.
    pub(super) fn first_port(&mut self) -> String {
        let port = self.choices.index(5);
        match self.architecture {
            Architecture::V1model => format!("sm.egress_spec = {port};"),
            Architecture::Psa => format!("send_to_port(ostd, (PortId_t){port});"),
            Architecture::Pna | Architecture::PnaTwoControls => {
                format!("send_to_port((PortId_t){port});")
            }
        }
    }

    /// Returns a random kind of extern instance of the architecture.
    pub(super) fn instance_kind(&mut self) -> InstanceKind {
        let size = 1 + self.choices.index(6) as u32;
        let is_v1model = self.architecture == Architecture::V1model;
        match self.choices.index(if is_v1model { 3 } else { 5 }) {
            0 => InstanceKind::Counter(size),
            1 => InstanceKind::Meter(size),
            2 => InstanceKind::Register(Ty::Bit(self.width()), size),
            3 => InstanceKind::Hash,
            _ => InstanceKind::Random,
        }
    }

    /// Returns the declaration of an instance.
    pub(super) fn declaration(&mut self, name: &str, kind: InstanceKind) -> String {
        if self.architecture == Architecture::V1model {
            return match kind {
                InstanceKind::Meter(size) => format!("meter({size}, MeterType.bytes) {name};"),
                InstanceKind::Register(ty, size) => {
                    format!("register<{}>({size}) {name};", ty.text())
                }
                InstanceKind::Counter(size) => {
                    format!("counter({size}, CounterType.packets_and_bytes) {name};")
                }
                InstanceKind::Hash | InstanceKind::Random => String::new(),
            };
        }
        let prefix = self.architecture.prefix();
        match kind {
            InstanceKind::Counter(size) => format!(
                "Counter<bit<32>, bit<32>>({size}, {prefix}_CounterType_t.PACKETS_AND_BYTES) {name};"
            ),
            InstanceKind::Meter(size) => {
                format!("Meter<bit<32>>({size}, {prefix}_MeterType_t.BYTES) {name};")
            }
            InstanceKind::Register(ty, size) => {
                let first = self.literal(ty);
                format!("Register<{}, bit<32>>({size}, {first}) {name};", ty.text())
            }
            InstanceKind::Hash if self.architecture == Architecture::PnaTwoControls => {
                format!("Hash<bit<32>>(PNA_HashAlgorithm_t.TARGET_DEFAULT) {name};")
            }
            InstanceKind::Hash => {
                let (algorithm, width) = [
                    ("CRC16", 16),
                    ("CRC32", 32),
                    ("IDENTITY", 32),
                    ("ONES_COMPLEMENT16", 16),
                ][self.choices.index(4)];
                format!("Hash<bit<{width}>>({prefix}_HashAlgorithm_t.{algorithm}) {name};")
            }
            InstanceKind::Random => format!("Random<bit<16>>(16w3, 16w9) {name};"),
        }
    }

    /// Returns a call of an instance in the syntax of PSA and PNA. `target` is a number that the
    /// call may write.
    pub(super) fn instance_call(
        &mut self,
        name: &str,
        kind: InstanceKind,
        target: &Variable,
    ) -> String {
        let path = &target.path;
        let width = super::width_of(target.ty);
        match kind {
            InstanceKind::Counter(size) => {
                let index = self.index(size);
                format!("{name}.count({index});")
            }
            InstanceKind::Meter(size) => {
                let index = self.index(size);
                let prefix = self.architecture.prefix();
                let value = self.literal(target.ty);
                format!(
                    "if ({name}.execute({index}) == {prefix}_MeterColor_t.GREEN) {{ {path} = {value}; }}"
                )
            }
            InstanceKind::Register(ty, size) => {
                let index = self.index(size);
                match self.choices.one_in(2) {
                    true => format!("{path} = (bit<{width}>){name}.read({index});"),
                    false => {
                        let value = self.expr(ty, 2);
                        format!("{name}.write({index}, {value});")
                    }
                }
            }
            InstanceKind::Hash => {
                let data = self.whole_bytes();
                format!("{path} = (bit<{width}>){name}.get_hash({{ {data} }});")
            }
            InstanceKind::Random => format!("{path} = (bit<{width}>){name}.read();"),
        }
    }

    /// Writes a table with `add_on_miss`, and its two actions.
    pub(super) fn learning_table(&mut self) {
        let (table, known, unknown) = (self.name("t"), self.name("known"), self.name("unknown"));
        let Some(target) = self.writable(|ty| matches!(ty, Ty::Bit(_))) else {
            return;
        };
        let (path, width) = (target.path, super::width_of(target.ty));
        let value = self.expr(Ty::Bit(13), 2);
        self.line(format!(
            "    action {known}(bit<13> v) {{\n        {path} = (bit<{width}>)v;\n    }}\n    action {unknown}() {{\n        add_entry(\"{known}\", (learned_t){{ v = {value} }}, (ExpireTimeProfileId_t)0);\n    }}\n    table {table} {{\n        key = {{"
        ));
        for _ in 0..1 + self.choices.index(2) {
            let width = [2, 8, 9, 48][self.choices.index(4)];
            let (key, name) = (self.expr(Ty::Bit(width), 1), self.name("k"));
            self.line(format!("            {key}: exact @name(\"{name}\");"));
        }
        self.line(format!(
            "        }}\n        actions = {{ @tableonly {known}; @defaultonly {unknown}; }}\n        const default_action = {unknown}();\n        add_on_miss = true;\n        size = 64;\n    }}"
        ));
        self.tables.push(super::Table {
            name: table,
            actions: vec![known],
            is_applied: false,
        });
    }

    /// Returns numbers of whole bytes, concatenated.
    pub(super) fn whole_bytes(&mut self) -> String {
        self.units(8)
    }

    /// Returns numbers of whole 16-bit words, concatenated.
    pub(super) fn words(&mut self) -> String {
        self.units(16)
    }

    fn units(&mut self, bits: u32) -> String {
        let data: Vec<String> = (0..1 + self.choices.index(3))
            .map(|_| {
                let ty = Ty::Bit(bits * (1 + self.choices.index(8) as u32));
                self.expr(ty, 1)
            })
            .collect();
        data.join(", ")
    }
}
