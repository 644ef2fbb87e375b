//! Deferred loads of parsed fields.
//!
//! While a parser runs, a header that only extraction writes is unchanged in the packet. So only
//! its offset must be passed from state to state. If all its fields were passed too, each would be
//! a block parameter in each state and at each of the parser's many exits. Then most code of a
//! program with many headers would be moves of values that are zero or unused there. So the fields
//! are loaded once, at the end of the parser, header by header.

use std::collections::{HashMap, HashSet};

use cranelift_codegen::ir::{InstBuilder, InstructionData, Opcode, Value, ValueDef};
use exec::slots::Slot;
use exec::slots::header::HeaderSite;
use ir::{FieldId, HeaderId, ParserId, Program};
use support::work::checkpoint;

use super::field_allocation::{FieldAllocation, extracted_in_parser, fields_of, written_in_parser};
use super::{I64, Translator};

/// Limit below which fields are loaded during extraction, since tail duplication then knows more of
/// them from the start. The size is the number of limbs of the fields and validities that could be
/// deferred, times the number of parser states.
///
/// Only headers of [`FieldAllocation::tracked`] can be deferred. A program defers none if headers
/// may be unaligned. They may be if any extracted header's fixed fields are not whole bytes. The
/// same holds if any `advance` is not by a constant multiple of eight bits.
const MAX_CARRIED: usize = 2000;

/// Location of a limb of a deferred field or of a validity.
#[derive(Clone, Copy, Debug)]
struct Place {
    header: HeaderId,
    /// None for the header's validity.
    field: Option<FieldPlace>,
}

/// Limb of a number of `width` bits, `bit` bits after the start of its header.
#[derive(Clone, Copy, Debug)]
struct FieldPlace {
    bit: u32,
    width: u32,
    limb: usize,
}

/// Deferred loads of the current parser. Empty outside of parsers.
#[derive(Debug, Default)]
pub(super) struct DeferredLoads {
    headers: HashSet<HeaderId>,
    places: HashMap<Slot, Place>,
}

impl DeferredLoads {
    /// Returns the headers that a parser extracts and nothing else writes, or none if they are few.
    /// `written_before` are the fields that the architecture may write.
    fn of(
        program: &Program,
        sites: &[HeaderSite],
        homes: &FieldAllocation,
        written_before: &HashSet<FieldId>,
        parser: ParserId,
    ) -> DeferredLoads {
        let mut written = written_in_parser(program, parser);
        written.extend(written_before);
        let mut headers = extracted_in_parser(program, parser);
        headers.retain(|&header| {
            let fields = fields_of(program, header);
            homes.tracked.contains(&header) && !fields.iter().any(|field| written.contains(field))
        });
        let sites = headers
            .iter()
            .filter_map(|header| sites.get(header.get() as usize));
        let places: HashMap<Slot, Place> = sites.flat_map(places_of).collect();
        let states = program
            .parsers
            .get(parser)
            .map_or(0, |parser| parser.states.len());
        match places.len() * states < MAX_CARRIED {
            true => DeferredLoads::default(),
            false => DeferredLoads { headers, places },
        }
    }
}

impl Translator<'_> {
    /// Starts a parser. It must be the first one since all fields were cleared.
    pub(super) fn begin_late(&mut self, parser: ParserId) {
        if let Some(fusing) = self.fused.as_mut() {
            let written = &fusing.written_before;
            fusing.late = DeferredLoads::of(
                self.program,
                &self.code.headers,
                &fusing.homes,
                written,
                parser,
            );
        }
    }

    /// Returns true if the fields of an extracted header are loaded later.
    pub(super) fn is_late(&self, header: HeaderId) -> bool {
        let fusing = self.fused.as_ref();
        fusing.is_some_and(|fusing| fusing.late.headers.contains(&header))
    }

    /// Returns the value of a deferred field's limb or validity.
    pub(super) fn late(&mut self, slot: Slot) -> Option<Value> {
        let Place { header, field } = *self.fused.as_ref()?.late.places.get(&slot)?;
        let at = self.offset_in_parser(header)?;
        let is_extracted = self.is_computed(at);
        let Some(field) = field else {
            return Some(match is_extracted {
                true => self.number(1),
                false => {
                    let is_there = self.is_there(at);
                    self.b.ins().uextend(I64, is_there)
                }
            });
        };
        if is_extracted {
            return Some(self.limb_in_packet(header, field));
        }
        let (there, missing) = (self.b.create_block(), self.b.create_block());
        let (after, value) = self.block_with(1);
        let is_there = self.is_there(at);
        self.branch(is_there, there, missing);
        self.start_sealed(there);
        let limb = self.limb_in_packet(header, field);
        self.jump_with(after, &[limb]);
        self.start_sealed(missing);
        let zero = self.number(0);
        self.jump_with(after, &[zero]);
        self.start_sealed(after);
        Some(value[0])
    }

    /// Returns true if a header's offset is known to come from an extraction: it is computed, and
    /// not the constant for a missing header ([`super::offsets::Offsets`]).
    fn is_computed(&self, offset: Value) -> bool {
        let dfg = &self.b.func.dfg;
        let ValueDef::Result(inst, _) = dfg.value_def(dfg.resolve_aliases(offset)) else {
            return false;
        };
        !matches!(
            dfg.insts[inst],
            InstructionData::UnaryImm {
                opcode: Opcode::Iconst,
                ..
            }
        )
    }

    fn limb_in_packet(&mut self, header: HeaderId, field: FieldPlace) -> Value {
        let at = self.bytes_of_header(header);
        let total = self.code.headers[header.get() as usize].fixed_bits;
        self.load_bits(at, field.bit, field.width, total)[field.limb]
    }

    /// Loads the deferred fields at the end of the parser.
    pub(super) fn end_late(&mut self) {
        let Some(fusing) = self.fused.as_mut() else {
            return;
        };
        let late = std::mem::take(&mut fusing.late);
        let mut headers: Vec<HeaderId> = late.headers.into_iter().collect();
        headers.sort_by_key(|header| header.get());
        for header in headers {
            checkpoint();
            self.load_header(header);
        }
    }

    /// Loads the fields of a header from the packet, if it was extracted.
    fn load_header(&mut self, header: HeaderId) {
        let Some(site) = self.code.headers.get(header.get() as usize).cloned() else {
            return;
        };
        let Some(offset) = self.offset_of(header) else {
            return;
        };
        let (there, after) = (self.b.create_block(), self.b.create_block());
        let is_there = self.is_there(offset);
        self.branch(is_there, there, after);
        self.start_sealed(there);
        let one = self.number(1);
        self.store_slots(site.valid, &[one]);
        let bytes = self.bytes_of_header(header);
        let mut bit = 0;
        for field in &site.fields {
            checkpoint();
            let value = self.load_bits(bytes, bit, field.width, site.fixed_bits);
            self.store_slots(field.slot, &value);
            bit += field.width;
        }
        self.jump(after);
        self.start_sealed(after);
    }
}

/// Returns the location of each limb of a header's fields.
fn places_of(site: &HeaderSite) -> Vec<(Slot, Place)> {
    let header = site.id;
    let mut places = vec![(
        site.valid,
        Place {
            header,
            field: None,
        },
    )];
    let mut bit = 0;
    for field in &site.fields {
        checkpoint();
        let width = field.width;
        let limbs = (bits::limbs_for(width) as u32).max(1);
        for limb in 0..limbs {
            checkpoint();
            let place = FieldPlace {
                bit,
                width,
                limb: limb as usize,
            };
            let field_place = Place {
                header,
                field: Some(place),
            };
            places.push((field.slot + limb, field_place));
        }
        bit += width;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::super::field_allocation::tests::read;
    use super::*;

    /// Maximum number of headers that are not deferred, in a parser that extracts each in a
    /// separate state. Each counts four limbs, including its validity. The programs of
    /// `testkit/tests/large.rs` have far more.
    const FEW: u32 = 22;

    /// Returns the deferred headers of such a parser, which also runs `code` in its first state.
    /// There is one more header that is not extracted.
    fn late(headers: u32, code: &str) -> Vec<u32> {
        late_beside(headers, code, &HashSet::new())
    }

    /// Returns the deferred headers if the architecture may write these fields.
    fn late_beside(headers: u32, code: &str, written_before: &HashSet<FieldId>) -> Vec<u32> {
        let declared: String = (0..=headers)
            .map(|at| format!("header hdr.h{at}: h_t\n"))
            .collect();
        let states: String = (0..headers)
            .map(|at| {
                let code = if at == 0 { code } else { "" };
                let next = match at + 1 == headers {
                    true => String::from("accept"),
                    false => format!("s{}", at + 1),
                };
                format!("    state s{at} {{\n        extract hdr.h{at};\n        {code}\n        goto {next};\n    }}\n")
            })
            .collect();
        let (program, sites, homes) = read(&format!(
            "program t own\nheader_type h_t {{\n    a: bit<8>;\n    b: bit<80>;\n}}\n{declared}parser p start s0 {{\n{states}}}\n"
        ));
        let late = DeferredLoads::of(&program, &sites, &homes, written_before, ParserId::new(0));
        let mut late: Vec<u32> = late.headers.iter().map(|header| header.get()).collect();
        late.sort_unstable();
        late
    }

    #[test]
    fn headers_are_loaded_late_where_a_parser_extracts_many() {
        assert_eq!(late(FEW, ""), []);
        let all: Vec<u32> = (0..=FEW).collect();
        assert_eq!(late(FEW + 1, ""), all);
    }

    #[test]
    fn a_header_that_a_parser_writes_is_not_loaded_late() {
        let many = FEW + 2;
        let others: Vec<u32> = (0..many).filter(|&at| at != 5).collect();
        for code in [
            "hdr.h5.b = 80w1;",
            "hdr.h5.$valid$ = false;",
            "lookahead 8 (hdr.h5.a at 0);",
        ] {
            assert_eq!(late(many, code), others, "{code}");
        }
    }

    #[test]
    fn a_header_that_the_architecture_may_write_is_not_loaded_late() {
        let many = FEW + 2;
        let others: Vec<u32> = (0..many).filter(|&at| at != 5).collect();
        // The validity of the header, and its fields.
        for field in 0..3 {
            let written = FieldId::new(5 * 3 + field);
            let late = late_beside(many, "", &HashSet::from([written]));
            assert_eq!(late, others, "{field}");
        }
    }

    #[test]
    fn no_header_is_loaded_late_where_headers_may_begin_inside_of_a_byte() {
        let many = FEW + 2;
        assert_eq!(late(many, "advance 32w16;").len(), many as usize);
        assert_eq!(late(many, "advance 32w12;"), []);
    }
}
