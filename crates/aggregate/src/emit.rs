//! P4 text of a switch: IPv4 forwarding, and the reductions of which it holds slots.
//!
//! The program keeps its state in registers alone and has no loop: code for a pair is repeated for
//! each pair of a message. Reductions that differ in their numbers alone share this code, and each
//! has its part of the registers. docs/internals/aggregate.md explains the registers.

use std::fmt::Write;

use crate::message::{Flags, Kind, VERSION};
use crate::pair::{Operator, Shape, ValueClass};
use crate::vector::{LANE_BITS, LANES};

/// Candidates of a key in the index, from one CRC-32 by double hashing.
const CANDIDATES: u32 = 4;

/// Bits of a slot's number in the index.
const SLOT_BITS: u32 = 24;

/// Maximum number of slots of an epoch.
pub const MAX_SLOTS: u32 = 1 << (SLOT_BITS - 1);

/// Maximum number of slots of an epoch of a vector: registers of lanes have numbers of 32 bits.
pub const MAX_BLOCKS: u32 = 1 << 20;

/// Maximum number of cells of a register that reductions share.
const MAX_SHARED_CELLS: u64 = 1 << 31;

/// A reduction in a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchReduction {
    /// Its number.
    pub job: u16,
    /// Operator and classes.
    pub shape: Shape,
    /// Slots of an epoch. There are two banks of them.
    pub slots: u32,
    /// Messages of a flow in flight: a power of two.
    pub window: u32,
    /// Number of flows: mappers and switches.
    pub flows: u32,
    /// Maximum number of pairs in a message.
    pub pairs_per_message: usize,
    /// True if replies go to all mappers too.
    pub is_multicast: bool,
}

impl SwitchReduction {
    /// Returns the number of bits of an index into a bank's part of the index: four places for
    /// each slot. Blocks of an epoch have numbers in a row, and one place each.
    fn index_bits(&self) -> u32 {
        let places = match self.shape.is_vector() {
            true => 1,
            false => CANDIDATES,
        };
        (self.slots.max(1) * places)
            .next_power_of_two()
            .trailing_zeros()
    }

    /// Returns the number of cells of the largest register.
    fn cells(&self) -> u64 {
        let lanes = match self.shape.is_vector() {
            true => 2 * u64::from(self.slots) * LANES as u64,
            false => 0,
        };
        let messages = u64::from(self.window) * u64::from(self.flows.max(1));
        lanes.max(messages).max(2u64 << self.index_bits())
    }

    /// Returns true if it differs from another one in its number alone.
    fn is_alike(&self, other: &SwitchReduction) -> bool {
        SwitchReduction {
            job: other.job,
            ..*self
        } == *other
    }

    /// Returns the number of bytes of the registers.
    pub fn state_bytes(&self) -> u64 {
        let slots = 2 * u64::from(self.slots);
        let index = 2u64 << self.index_bits();
        let cells = u64::from(self.window) * u64::from(self.flows);
        slots * slot_bytes(self.shape) + index * 8 + cells * 16 + 2 * 8 + 8
    }
}

/// Returns the number of bytes of a slot's registers: each cell takes whole words of 8 bytes.
pub fn slot_bytes(shape: Shape) -> u64 {
    let words = |bytes: usize| bytes.div_ceil(8) * 8;
    let count = 4;
    let bytes = match shape.is_vector() {
        true => words(shape.keys.bytes()) + words(count) + LANES * words(4),
        false => words(shape.keys.bytes()) + words(count + shape.values.bytes()),
    };
    bytes as u64
}

/// Returns the program of a switch. Without reductions it forwards alone.
pub fn emit(reductions: &[SwitchReduction]) -> String {
    let mut parts = Parts::default();
    for (number, group) in Group::all(reductions).iter().enumerate() {
        parts.add(number, group);
    }
    let places = [
        ("@HEADERS@\n", &parts.headers),
        ("@STACKS@\n", &parts.stacks),
        ("@SELECT@\n", &parts.select),
        ("@STATES@\n", &parts.states),
        ("@VERIFY@\n", &parts.verify),
        ("@CONTROLS@\n", &parts.controls),
        ("@INSTANCES@\n", &parts.instances),
        ("@APPLIES@\n", &parts.applies),
        ("@UPDATE@\n", &parts.update),
        ("@EMIT@\n", &parts.emit),
    ];
    let is_multicast = reductions.iter().any(|reduction| reduction.is_multicast);
    let egress = match is_multicast {
        true => include_str!("copies.p4"),
        false => "    apply { }\n",
    };
    let mut text = include_str!("emit.p4")
        .replace("@VERSION@", &VERSION.to_string())
        .replace("@UDP_FIELDS@", include_str!("udp_fields.p4").trim_end());
    for (place, part) in places {
        text = text.replace(place, part);
    }
    text.replace("@EGRESS@\n", egress)
}

/// Reductions that share a control and registers.
struct Group {
    /// The first one. The others differ in their numbers alone.
    first: SwitchReduction,
    /// The number of each.
    jobs: Vec<u16>,
}

impl Group {
    /// Returns the groups of reductions, in the order of their first ones.
    fn all(reductions: &[SwitchReduction]) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for reduction in reductions {
            let has_room = |group: &&mut Group| {
                let jobs = group.jobs.len() as u64 + 1;
                group.first.is_alike(reduction) && jobs * reduction.cells() <= MAX_SHARED_CELLS
            };
            match groups.iter_mut().find(has_room) {
                Some(group) => group.jobs.push(reduction.job),
                None => groups.push(Group {
                    first: *reduction,
                    jobs: vec![reduction.job],
                }),
            }
        }
        groups
    }

    /// Returns the number of cells of a register, of which each reduction has this number.
    fn cells(&self, each: impl Into<u64>) -> String {
        (self.jobs.len() as u64 * each.into()).to_string()
    }

    /// Returns the code for the number of a packet's reduction in this group.
    fn member(&self) -> &'static str {
        match self.jobs.len() {
            1 => "0",
            _ => "meta.member",
        }
    }

    /// Returns the code for the number of the bank of a packet's epoch.
    fn bank(&self) -> &'static str {
        match self.jobs.len() {
            1 => "(bit<32>) hdr.agg.epoch[0:0]",
            _ => "(meta.member << 1) + (bit<32>) hdr.agg.epoch[0:0]",
        }
    }

    /// Returns the code for the first cell of this bank, if each bank has this number.
    fn bank_base(&self, cells: u64) -> String {
        match self.jobs.len() {
            1 => format!("hdr.agg.epoch[0:0] == 1 ? 32w{cells} : 0"),
            _ => format!("({}) * {cells}", self.bank()),
        }
    }

    /// Returns the code for the first cell of a packet's flow, of which each has this number.
    fn flow_base(&self, window: u32) -> String {
        let first = &self.first;
        let own = format!("(bit<32>) hdr.agg.flow * {window}");
        match self.jobs.len() {
            1 => own,
            _ => format!("meta.member * {} + {own}", window * first.flows.max(1)),
        }
    }
}

/// Parts of the text that depend on the reductions.
#[derive(Default)]
struct Parts {
    headers: String,
    stacks: String,
    select: String,
    states: String,
    verify: String,
    controls: String,
    instances: String,
    applies: String,
    update: String,
    emit: String,
}

impl Parts {
    fn add(&mut self, number: usize, group: &Group) {
        self.try_add(number, group)
            .expect("writing to a string succeeds");
    }

    fn try_add(&mut self, r: usize, group: &Group) -> std::fmt::Result {
        let reduction = &group.first;
        let Shape {
            operator,
            keys,
            values,
        } = reduction.shape;
        let (key_bits, value_bits) = (keys.bytes() * 8, values.bytes() * 8);
        let pairs = reduction.pairs_per_message;
        let value_fields: Vec<String> = match reduction.shape.is_vector() {
            true => (0..LANES).map(lane).collect(),
            false => vec!["value".to_owned()],
        };
        writeln!(self.headers, "header pair_{r}_t {{")?;
        writeln!(self.headers, "    bit<{key_bits}> key;")?;
        for field in &value_fields {
            writeln!(self.headers, "    bit<{value_bits}> {field};")?;
        }
        writeln!(self.headers, "}}\n")?;
        writeln!(self.stacks, "    pair_{r}_t[{pairs}] pairs_{r};")?;
        // The scales of floats are combined by MAX.
        let operators = match values {
            ValueClass::F32 => vec![operator, Operator::Max],
            _ => vec![operator],
        };
        for (member, job) in group.jobs.iter().enumerate() {
            for (kind, state) in [
                (Kind::Data, "data"),
                (Kind::Collect, "bank"),
                (Kind::Reply, "bank"),
                (Kind::Clear, "clear"),
            ] {
                // The member 0 needs no state: metadata begins with zeros.
                let state = match member {
                    0 => format!("{state}_{r}"),
                    _ => format!("member_{r}_{member}_{state}"),
                };
                for operator in &operators {
                    writeln!(
                        self.select,
                        "            ({VERSION}, {}, {job}, {}, {}, {}): {state};",
                        kind.code(),
                        operator.code(),
                        keys.code(),
                        values.code()
                    )?;
                }
            }
            if member == 0 {
                continue;
            }
            for state in ["data", "bank", "clear"] {
                writeln!(self.states, "    state member_{r}_{member}_{state} {{")?;
                writeln!(self.states, "        meta.member = {member};")?;
                writeln!(self.states, "        transition {state}_{r};\n    }}\n")?;
            }
        }
        let fields: String = (0..pairs)
            .map(|i| {
                let pair = format!("hdr.pairs_{r}[{i}]");
                let values = value_fields.iter();
                let values: String = values.map(|f| format!(", {pair}.{f}")).collect();
                format!(",\n            {pair}.key{values}")
            })
            .collect();
        let reduction_number = r + 1;
        for (part, function) in [
            (&mut self.verify, "verify_checksum"),
            (&mut self.update, "update_checksum"),
        ] {
            let own = format!("meta.reduction == {reduction_number}");
            let (condition, checksum, result) = match function {
                "verify_checksum" => (own, "            hdr.udp.checksum,\n", "meta.zero"),
                _ => (format!("{own} && meta.is_changed"), "", "hdr.udp.checksum"),
            };
            for (with_bank, bank) in [
                ("!hdr.bank.isValid()", ""),
                (
                    "hdr.bank.isValid()",
                    ",\n            hdr.bank.first, hdr.bank.used, hdr.bank.counts",
                ),
            ] {
                let head = include_str!("udp_fields.p4").trim_end();
                writeln!(part, "        {function}({condition} && {with_bank}, {{")?;
                writeln!(part, "{checksum}{head}{bank}{fields}")?;
                writeln!(part, "        }}, {result}, HashAlgorithm.csum16);")?;
            }
        }
        writeln!(self.states, "    state clear_{r} {{")?;
        writeln!(self.states, "        meta.reduction = {reduction_number};")?;
        writeln!(self.states, "        transition accept;\n    }}\n")?;
        writeln!(self.states, "    state bank_{r} {{")?;
        writeln!(self.states, "        packet.extract(hdr.bank);")?;
        writeln!(self.states, "        transition data_{r};\n    }}\n")?;
        writeln!(self.states, "    state data_{r} {{")?;
        writeln!(self.states, "        meta.reduction = {reduction_number};")?;
        writeln!(self.states, "        meta.left = hdr.agg.pairs;")?;
        writeln!(self.states, "        transition select(hdr.agg.pairs) {{")?;
        writeln!(self.states, "            0 .. {pairs}: pairs_{r};")?;
        writeln!(
            self.states,
            "            default: opaque;\n        }}\n    }}\n"
        )?;
        writeln!(self.states, "    state pairs_{r} {{")?;
        writeln!(self.states, "        transition select(meta.left) {{")?;
        writeln!(self.states, "            0: accept;")?;
        writeln!(
            self.states,
            "            default: pair_{r};\n        }}\n    }}\n"
        )?;
        writeln!(self.states, "    state pair_{r} {{")?;
        writeln!(self.states, "        packet.extract(hdr.pairs_{r}.next);")?;
        writeln!(self.states, "        meta.left = meta.left - 1;")?;
        writeln!(self.states, "        transition pairs_{r};\n    }}\n")?;
        writeln!(self.emit, "        packet.emit(hdr.pairs_{r});")?;
        writeln!(self.instances, "    Reduction{r}() reduction_{r};")?;
        let begin = match r {
            0 => "                if",
            _ => " else if",
        };
        write!(
            self.applies,
            "{begin} (meta.reduction == {reduction_number}) {{\n                    \
             reduction_{r}.apply(hdr, meta, standard_metadata);\n                }}"
        )?;
        self.controls += &control(r, group);
        Ok(())
    }
}

/// Returns the control of a group of reductions.
fn control(r: usize, group: &Group) -> String {
    let reduction = &group.first;
    let Shape { keys, values, .. } = reduction.shape;
    let is_vector = reduction.shape.is_vector();
    let value_bits = values.bytes() * 8;
    let pairs = 0..reduction.pairs_per_message;
    let each = |code: &dyn Fn(usize) -> String| pairs.clone().map(code).collect::<String>();
    let index_bits = reduction.index_bits();
    let parts = [
        ("@R@", r.to_string()),
        ("@KEY_BITS@", (keys.bytes() * 8).to_string()),
        ("@VALUE_BITS@", value_bits.to_string()),
        (
            "@SLOT_VALUE_BITS@",
            match is_vector {
                true => 32,
                false => value_bits + 32,
            }
            .to_string(),
        ),
        ("@LANES@\n", lane_registers(r, group)),
        (
            "@MULTICAST@\n",
            match reduction.is_multicast {
                true => "                standard_metadata.mcast_grp = hdr.agg.job;\n",
                false => "",
            }
            .to_owned(),
        ),
        (
            "@INPUTS@\n",
            match is_vector {
                true => INPUTS.to_owned(),
                false => String::new(),
            },
        ),
        ("@MEMBER@", group.member().to_owned()),
        ("@MEMBERS@", group.cells(1u64)),
        ("@BANK@", group.bank().to_owned()),
        ("@BANKS@", group.cells(2u64)),
        ("@SLOT_BASE@", group.bank_base(reduction.slots.into())),
        ("@ALL_SLOTS@", group.cells(2 * reduction.slots)),
        ("@INDEX_BASE@", group.bank_base(1 << index_bits)),
        ("@ALL_INDEX@", group.cells(2u64 << index_bits)),
        (
            "@CELLS@",
            group.cells(reduction.window * reduction.flows.max(1)),
        ),
        ("@FLOW_BASE@", group.flow_base(reduction.window)),
        ("@WINDOW@", reduction.window.to_string()),
        ("@FLOWS@", reduction.flows.to_string()),
        ("@PAIR_BYTES@", reduction.shape.pair_bytes().to_string()),
        (
            "@CUT_ALL@\n",
            each(&|i| format!("        hdr.pairs_{r}[{i}].setInvalid();\n")),
        ),
        ("@CUT_MASK@\n", each(&|i| cut_by_mask(r, i))),
        (
            "@ABSORB@\n",
            each(&|i| match is_vector {
                true => absorb_block(r, i, reduction),
                false => absorb(r, i, reduction),
            }),
        ),
        (
            "@FILL@\n",
            each(&|i| match is_vector {
                true => fill_block(r, i),
                false => fill(r, i, value_bits),
            }),
        ),
    ];
    let mut text = include_str!("reduction.p4").to_owned();
    for (place, part) in parts {
        text = text.replace(place, &part);
    }
    text
}

/// Code for the number of mappers of which a message has a block.
const INPUTS: &str = "                    \
    inputs = hdr.agg.kind == KIND_REPLY ? hdr.bank.counts[47:32] : 1;\n";

/// Returns the code that cuts a pair of a repeated message which was cut the first time.
fn cut_by_mask(r: usize, i: usize) -> String {
    format!(
        "        if (mask[{i}:{i}] == 1) {{
            hdr.pairs_{r}[{i}].setInvalid();
            cut = cut + 1;
        }}\n"
    )
}

/// Returns the code that combines a pair with its slot.
fn absorb(r: usize, i: usize, reduction: &SwitchReduction) -> String {
    let pair = format!("hdr.pairs_{r}[{i}]");
    let index_bits = reduction.index_bits();
    let mut search = String::from("                found = SEARCH_EMPTY;\n");
    for candidate in (0..CANDIDATES).rev() {
        let next = match candidate + 1 < CANDIDATES {
            true => format!("                place = place + step;\n{search}"),
            false => "                found = SEARCH_FULL;\n".to_owned(),
        };
        search = format!(
            "            position = index_base + (bit<32>) place[{}:0];
            index_{r}.read(entry, position);
            if (entry[63:24] != generation) {{
                found = SEARCH_EMPTY;
            }} else {{
                keys_{r}.read(key, slot_base + (bit<32>) entry[23:0]);
                if (key == {pair}.key) {{
                    found = SEARCH_HIT;
                }} else {{
{next}                }}
            }}\n",
            index_bits - 1
        );
    }
    let (fits, combined) = combine(reduction.shape, &pair);
    format!(
        "        if ({pair}.isValid()) {{
            hash(place, HashAlgorithm.crc32, 32w0, {{ {pair}.key }}, 64w0x100000000);
            step = (place >> 16) | 1;
{search}            is_taken = false;
            if (found == SEARCH_HIT) {{
                slot = slot_base + (bit<32>) entry[23:0];
                values_{r}.read(held, slot);
                old = held[{top}:0];
                new = {pair}.value;
{combined}                if ({fits}) {{
                    values_{r}.write(slot, (held[{count_top}:{value_bits}] + 1) ++ new);
                    is_taken = true;
                }}
            }} else if (found == SEARCH_EMPTY && used < {slots}) {{
                slot = slot_base + used;
                keys_{r}.write(slot, {pair}.key);
                values_{r}.write(slot, 32w1 ++ {pair}.value);
                index_{r}.write(position, generation ++ used[23:0]);
                used = used + 1;
                is_taken = true;
            }} else {{
                hdr.agg.flags = hdr.agg.flags | {full};
                meta.is_changed = true;
            }}
            if (is_taken) {{
                mask[{i}:{i}] = 1;
                {pair}.setInvalid();
                cut = cut + 1;
            }}
        }}\n",
        top = reduction.shape.values.bytes() * 8 - 1,
        count_top = reduction.shape.values.bytes() * 8 + 31,
        value_bits = reduction.shape.values.bytes() * 8,
        slots = reduction.slots,
        full = Flags::FULL.0,
    )
}

/// Returns the name of a lane's field.
fn lane(number: usize) -> String {
    format!("v{number}")
}

/// Returns the registers and variables for lanes of a vector.
fn lane_registers(r: usize, group: &Group) -> String {
    if !group.first.shape.is_vector() {
        return String::new();
    }
    let cells = group.cells(u64::from(2 * group.first.slots) * LANES as u64);
    format!(
        "    // Lanes of the slots' blocks.
    register<bit<32>>({cells}) lanes_{r};
    bit<32> first_lane;
    // The highest bit is set if the sum of a lane overflows.
    bit<32> overflow;
    // Number of mappers of which the message has a block.
    bit<16> inputs;\n"
    )
}

/// Returns the code that combines a block with its slot: all of its lanes, or none.
fn absorb_block(r: usize, i: usize, reduction: &SwitchReduction) -> String {
    let pair = format!("hdr.pairs_{r}[{i}]");
    let each = |code: &dyn Fn(&str) -> String| -> String {
        let lanes = (0..LANES).map(|number| {
            let field = format!("{pair}.{}", lane(number));
            let cell = format!("first_lane + {number}");
            code(&field)
                .replace("@READ@", &format!("lanes_{r}.read(old, {cell});"))
                .replace("@WRITE@", &format!("lanes_{r}.write({cell}, {field});"))
        });
        lanes.collect()
    };
    let keep_old = |compare: &str| {
        each(&|field| {
            format!(
                "                @READ@
                if ((int<32>) old {compare} (int<32>) {field}) {{
                    {field} = old;
                }}\n"
            )
        })
    };
    let add = || {
        each(&|field| {
            format!(
                "                @READ@
                new = old + {field};
                overflow = overflow | ((old ^ new) & ({field} ^ new));
                {field} = new;\n"
            )
        })
    };
    let combine = match (reduction.shape.operator, reduction.shape.values) {
        (Operator::Add, ValueClass::F32) => format!(
            "                if (hdr.agg.operator == {}) {{\n{}                }} else {{\n{}                }}\n",
            Operator::Max.code(),
            keep_old(">"),
            add()
        ),
        (Operator::Add, _) => add(),
        (Operator::Max, _) => keep_old(">"),
        (Operator::Min, _) => keep_old("<"),
    };
    // A block that does not fit gets its own lanes back.
    let restore = each(&|field| {
        format!("                @READ@\n                {field} = {field} - old;\n")
    });
    let store = each(&|_| "                @WRITE@\n".to_owned());
    let index_top = reduction.index_bits() + LANE_BITS - 1;
    let place = match reduction.index_bits() {
        0 => String::new(),
        _ => format!(" + (bit<32>) {pair}.key[{index_top}:{LANE_BITS}]"),
    };
    format!(
        "        if ({pair}.isValid()) {{
            position = index_base{place};
            index_{r}.read(entry, position);
            found = SEARCH_FULL;
            if (entry[63:24] != generation) {{
                if (used < {slots}) {{
                    found = SEARCH_EMPTY;
                    slot = slot_base + used;
                    keys_{r}.write(slot, {pair}.key);
                    values_{r}.write(slot, inputs ++ 16w1);
                    index_{r}.write(position, generation ++ used[23:0]);
                    used = used + 1;
                    first_lane = slot << {LANE_BITS};
                }}
            }} else {{
                slot = slot_base + (bit<32>) entry[23:0];
                first_lane = slot << {LANE_BITS};
                keys_{r}.read(key, slot);
                if (key == {pair}.key) {{
                    found = SEARCH_HIT;
                }}
            }}
            is_taken = found != SEARCH_FULL;
            if (found == SEARCH_HIT) {{
                overflow = 0;
{combine}                if (overflow[31:31] == 1) {{
{restore}                    is_taken = false;
                }} else {{
                    values_{r}.read(held, slot);
                    values_{r}.write(slot, held + (inputs ++ 16w1));
                }}
            }}
            if (is_taken) {{
{store}                mask[{i}:{i}] = 1;
                {pair}.setInvalid();
                cut = cut + 1;
            }} else if (found == SEARCH_FULL) {{
                hdr.agg.flags = hdr.agg.flags | {full};
                meta.is_changed = true;
            }}
        }}\n",
        slots = reduction.slots,
        full = Flags::FULL.0,
    )
}

/// Returns the code that fills a block of a reply from its slot.
fn fill_block(r: usize, i: usize) -> String {
    let read = |number: usize| {
        let field = format!("hdr.pairs_{r}[{i}].{}", lane(number));
        format!("            lanes_{r}.read({field}, first_lane + {number});\n")
    };
    let lanes: String = (0..LANES).map(read).collect();
    format!(
        "        if (hdr.bank.first + {i} < used) {{
            slot = slot_base + hdr.bank.first + {i};
            first_lane = slot << {LANE_BITS};
            hdr.pairs_{r}[{i}].setValid();
            keys_{r}.read(hdr.pairs_{r}[{i}].key, slot);
            values_{r}.read(held, slot);
            hdr.bank.counts = hdr.bank.counts + (16w0 ++ held[31:16] ++ 16w0 ++ held[15:0]);
{lanes}            filled = filled + 1;
        }}\n"
    )
}

/// Returns the condition under which the combined value fits, and the code that combines.
fn combine(shape: Shape, pair: &str) -> (String, String) {
    let Shape {
        operator, values, ..
    } = shape;
    let bits = values.bytes() * 8;
    let indent = " ".repeat(16);
    let number = |name: &str| match values.is_signed() {
        true => format!("(int<{bits}>) {name}"),
        false => name.to_owned(),
    };
    let keep_old = |compare: &str| {
        let (old, new) = (number("old"), number("new"));
        format!("{indent}if ({old} {compare} {new}) {{\n{indent}    new = old;\n{indent}}}\n")
    };
    let sign = format!("[{0}:{0}]", bits - 1);
    match operator {
        Operator::Max => ("true".to_owned(), keep_old(">")),
        Operator::Min => ("true".to_owned(), keep_old("<")),
        Operator::Add => {
            let add = format!("{indent}new = old + new;\n");
            let fits = match values.is_signed() {
                // The sum overflows if both terms have the other sign.
                true => format!("((old ^ new) & ({pair}.value ^ new)){sign} == 0"),
                false => "new >= old".to_owned(),
            };
            (fits, add)
        }
    }
}

/// Returns the code that fills a pair of a reply from its slot.
fn fill(r: usize, i: usize, value_bits: usize) -> String {
    format!(
        "        if (hdr.bank.first + {i} < used) {{
            slot = slot_base + hdr.bank.first + {i};
            hdr.pairs_{r}[{i}].setValid();
            keys_{r}.read(hdr.pairs_{r}[{i}].key, slot);
            values_{r}.read(held, slot);
            hdr.pairs_{r}[{i}].value = held[{top}:0];
            hdr.bank.counts = hdr.bank.counts + (bit<64>) held[{count_top}:{value_bits}];
            filled = filled + 1;
        }}\n",
        top = value_bits - 1,
        count_top = value_bits + 31,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::KeyClass;

    const FIRST: SwitchReduction = SwitchReduction {
        job: 1,
        shape: Shape {
            operator: Operator::Add,
            keys: KeyClass::B16,
            values: ValueClass::I64,
        },
        slots: 100,
        window: 8,
        flows: 3,
        pairs_per_message: 10,
        is_multicast: false,
    };

    fn jobs(reductions: &[SwitchReduction]) -> Vec<Vec<u16>> {
        let groups = Group::all(reductions).into_iter();
        groups.map(|group| group.jobs).collect()
    }

    #[test]
    fn reductions_that_differ_in_their_numbers_alone_share_a_control() {
        let other = |job, change: fn(&mut SwitchReduction)| {
            let mut other = SwitchReduction { job, ..FIRST };
            change(&mut other);
            other
        };
        let reductions = [
            FIRST,
            other(2, |r| r.slots = 200),
            other(3, |_| {}),
            other(4, |r| r.shape.operator = Operator::Max),
            other(5, |r| r.is_multicast = true),
            other(6, |r| r.window = 16),
            other(7, |r| r.flows = 4),
            other(8, |r| r.pairs_per_message = 9),
            other(9, |r| r.slots = 200),
        ];
        let expected = [
            vec![1, 3],
            vec![2, 9],
            vec![4],
            vec![5],
            vec![6],
            vec![7],
            vec![8],
        ];
        assert_eq!(jobs(&reductions), expected);
    }

    #[test]
    fn the_registers_of_a_group_have_indices_of_32_bits() {
        let large = SwitchReduction {
            slots: MAX_BLOCKS,
            shape: Shape {
                keys: KeyClass::Block,
                values: ValueClass::I32,
                ..FIRST.shape
            },
            ..FIRST
        };
        let reductions: Vec<_> = (1..=9)
            .map(|job| SwitchReduction { job, ..large })
            .collect();
        assert_eq!(
            jobs(&reductions),
            [vec![1, 2, 3, 4], vec![5, 6, 7, 8], vec![9]]
        );
    }
}
