//! Parse cache: fields that the first prefetch pass saves for each packet, so that later ones need
//! not parse. Loading a few numbers replaces the unpredictable branches of a parser.

use std::collections::{BTreeSet, HashSet};

use bits::limbs_for;
use cranelift_codegen::ir::{InstBuilder, Value};
use exec::slots::Slot;
use exec::{BURST, FastPath, FastPathStep};
use ir::FieldId;
use support::work::checkpoint;

use super::field_allocation::{extracted_in_parser, fields_of, written_in_parser};
use super::lookup_schedule::{Level, LookupSchedule};
use super::prefetch_pass::PrefetchedStages;
use super::{I64, Translator, in_limbs};
use crate::abi::{flags, offset};

/// Number of bytes of a word of the lookup buffer.
const WORD: usize = 8;

/// Layout of the saved fields: a row per packet, with the limbs of fields that later prefetch
/// passes need.
#[derive(Clone, Debug)]
pub(crate) struct ParsedFields {
    /// Level of the prefetch pass that saves the fields. It runs before all others.
    pub(crate) level: Level,
    /// Index of the first word of the first row.
    first: usize,
    limbs: Vec<NotedLimb>,
    /// Number of words of a row.
    row: usize,
}

/// Saved limb of a field, in the smallest possible number of bytes.
#[derive(Clone, Copy, Debug)]
struct NotedLimb {
    slot: Slot,
    bytes: usize,
    /// Byte offset in the row.
    at: usize,
}

/// Use of the parse cache by a prefetch pass.
pub(super) enum Noted {
    /// Parses without saving the fields.
    Nowhere,
    /// Saves the fields.
    Here(ParsedFields),
    /// Loads the saved fields.
    Before(ParsedFields),
}

impl ParsedFields {
    /// Creates the layout of these limbs, each with its width in bits.
    fn new(level: Level, first: usize, limbs: impl Iterator<Item = (Slot, u32)>) -> ParsedFields {
        let bytes = |width: u32| (width.div_ceil(8) as usize).next_power_of_two();
        let mut limbs: Vec<(usize, Slot)> =
            limbs.map(|(slot, width)| (bytes(width), slot)).collect();
        // Sorts by size, largest first. So each limb is aligned to its size.
        limbs.sort_by_key(|&(bytes, slot)| (std::cmp::Reverse(bytes), slot));
        let mut end = 0;
        let limbs = limbs.into_iter().map(|(bytes, slot)| {
            let at = end;
            end += bytes;
            NotedLimb { slot, bytes, at }
        });
        let limbs = limbs.collect();
        ParsedFields {
            level,
            first,
            limbs,
            row: end.div_ceil(WORD),
        }
    }

    /// Returns the size in words.
    pub(crate) fn words(&self) -> usize {
        BURST * self.row
    }
}

impl Translator<'_> {
    /// Returns the use of the parse cache by the prefetch pass of a level. The first one of several
    /// defines the layout.
    pub(super) fn parsed_for_scouts(
        &mut self,
        pass: &FastPath,
        sites: &PrefetchedStages,
        levels: &LookupSchedule,
        level: Level,
    ) -> Noted {
        let mut later: BTreeSet<Level> = self.code.scout_levels();
        if later.pop_first() != Some(level) {
            let parsed = self.code.parsed.clone();
            return parsed.map_or(Noted::Nowhere, Noted::Before);
        }
        if later.is_empty() {
            return Noted::Nowhere;
        }
        let needed = later
            .into_iter()
            .flat_map(|level| self.scouted_on(pass, sites, levels, level).1);
        let needed: BTreeSet<FieldId> = needed.collect();
        let made = self.made_by_parser(pass);
        let limbs = needed
            .into_iter()
            .filter(|field| made.contains(field))
            .flat_map(|field| self.limbs_of_field(field));
        let parsed = ParsedFields::new(level, self.code.end_of_scouts(), limbs);
        self.code.parsed = Some(parsed.clone());
        Noted::Here(parsed)
    }

    /// Returns the fields that the first parser of a fast path may write, and those that the
    /// architecture writes by its result.
    fn made_by_parser(&self, pass: &FastPath) -> HashSet<FieldId> {
        let mut steps = pass.steps.iter();
        let parse = steps.find_map(|step| match step {
            FastPathStep::Parse { parser, errors } => Some((*parser, errors)),
            _ => None,
        });
        let Some((parser, errors)) = parse else {
            return HashSet::new();
        };
        let mut made = written_in_parser(self.program, parser);
        let extracted = extracted_in_parser(self.program, parser);
        made.extend(
            extracted
                .into_iter()
                .flat_map(|header| fields_of(self.program, header)),
        );
        made.extend(errors);
        made
    }

    /// Returns the limbs of a field that are in variables, each with its width in bits.
    fn limbs_of_field(&self, field: FieldId) -> Vec<(Slot, u32)> {
        let width = self.program.fields.get(field).map_or(0, |f| f.ty.width());
        let slots = (self.slot(field)..).zip(0..limbs_for(width) as u32);
        let limbs = slots.map(|(slot, limb)| (slot, (width - 64 * limb).min(64)));
        limbs
            .filter(|&(slot, _)| self.home(slot).is_some())
            .collect()
    }

    /// Saves the fields of the current packet, if other prefetch passes follow.
    pub(super) fn note_parsed(&mut self, parsed: &ParsedFields) {
        let (noted, behind) = (self.b.create_block(), self.b.create_block());
        let flags = self.load_constant(offset::FIRST_FLAGS);
        let are_several = self.b.ins().band_imm(flags, flags::SEVERAL_SCOUTS as i64);
        self.branch(are_several, noted, behind);
        self.start_sealed(noted);
        let row = self.row_of_packet(parsed);
        for limb in &parsed.limbs {
            checkpoint();
            let value = self.load_slots(limb.slot, 1)[0];
            let at = limb.at as i32;
            match limb.bytes {
                1 => self.b.ins().istore8(in_limbs(), value, row, at),
                2 => self.b.ins().istore16(in_limbs(), value, row, at),
                4 => self.b.ins().istore32(in_limbs(), value, row, at),
                _ => self.b.ins().store(in_limbs(), value, row, at),
            };
        }
        self.jump(behind);
        self.start_sealed(behind);
    }

    /// Loads the fields of the current packet that an earlier prefetch pass saved.
    pub(super) fn take_parsed(&mut self, parsed: &ParsedFields) {
        let row = self.row_of_packet(parsed);
        for limb in &parsed.limbs {
            checkpoint();
            let at = limb.at as i32;
            let value = match limb.bytes {
                1 => self.b.ins().uload8(I64, in_limbs(), row, at),
                2 => self.b.ins().uload16(I64, in_limbs(), row, at),
                4 => self.b.ins().uload32(in_limbs(), row, at),
                _ => self.b.ins().load(I64, in_limbs(), row, at),
            };
            self.store_slots(limb.slot, &[value]);
        }
    }

    fn row_of_packet(&mut self, parsed: &ParsedFields) -> Value {
        let (notes, at) = (self.load_constant(offset::NOTES), self.at());
        let behind = self.b.ins().imul_imm(at, (WORD * parsed.row) as i64);
        let row = self.b.ins().iadd(notes, behind);
        self.b.ins().iadd_imm(row, (WORD * parsed.first) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Body, BurstLayout, Shared, in_bytes, translate};
    use super::*;
    use cranelift_codegen::Context;
    use cranelift_codegen::ir::{Function, Opcode};
    use cranelift_codegen::isa::CallConv;
    use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
    use exec::Natives;
    use ir::{ControlId, Layout, ParserId, Program};

    #[test]
    fn limbs_take_no_more_bytes_than_they_need_and_stand_at_multiples_of_these() {
        let widths = [(4, 1), (5, 48), (6, 9), (7, 32), (8, 64), (9, 8)];
        let parsed = ParsedFields::new(0, 100, widths.into_iter());
        let limbs = parsed.limbs.iter();
        let limbs: Vec<(Slot, usize, usize)> =
            limbs.map(|limb| (limb.slot, limb.bytes, limb.at)).collect();
        let expected = [
            (5, 8, 0),
            (8, 8, 8),
            (7, 4, 16),
            (6, 2, 20),
            (4, 1, 22),
            (9, 1, 23),
        ];
        assert_eq!(limbs, expected);
        assert_eq!(parsed.words(), 3 * BURST);
    }

    /// Generates two tables with wide keys. The key of the second depends on the entries of the
    /// first, through actions that each write another number.
    fn program(actions: usize) -> Program {
        let declared: String = (0..actions)
            .map(|at| format!("action is_{at}() {{\n m = 32w{at};\n}}\n"))
            .collect();
        let listed: String = (0..actions)
            .map(|at| format!(" action is_{at} table_and_default;\n"))
            .collect();
        let text = format!(
            "program t own\nfield m: bit<32>\nheader_type h_t {{\n a: bit<32>;\n b: bit<32>;\n}}\nheader h: h_t\n\
             parser p start s {{\n state s {{\n extract h;\n goto accept;\n }}\n}}\n{declared}\
             table first {{\n key a: exact as bit<32> = h.a;\n{listed} default is_0();\n size 16 declared;\n}}\n\
             table second {{\n key m: exact as bit<32> = m;\n key b: exact as bit<32> = h.b;\n{listed} default is_0();\n size 16 declared;\n}}\n\
             control c {{\n stage first: match first next second;\n stage second: match second next end;\n}}\n"
        );
        ir::read(&text).unwrap_or_else(|error| panic!("{error:?}"))
    }

    /// Returns the functions of the prefetch passes of such a program.
    fn scouts(actions: usize) -> Vec<Function> {
        let program = program(actions);
        let pass = FastPath {
            steps: vec![
                FastPathStep::Parse {
                    parser: ParserId::new(0),
                    errors: Vec::new(),
                },
                FastPathStep::Control(ControlId::new(0)),
            ],
        };
        let (layout, natives) = (Layout::of(&program), Natives::default());
        let shared = Shared::new(
            &program,
            &layout,
            &natives,
            BurstLayout::Grouped,
            CallConv::SystemV,
        );
        let mut shared = shared.expect("the program has all that it names");
        let mut made = |body: Body<'_>| {
            let (mut context, mut builder) = (Context::new(), FunctionBuilderContext::new());
            context.func.signature = shared.signature(0);
            let builder = FunctionBuilder::new(&mut context.func, &mut builder);
            let stages = translate(&mut shared, builder, body).expect("it is translated");
            (context.func, stages)
        };
        let (_, stages) = made(Body::FastPath(&pass));
        (0..2)
            .map(|level| made(Body::Prefetch(&pass, &stages, level)).0)
            .collect()
    }

    fn count(
        func: &Function,
        is_counted: impl Fn(&Function, cranelift_codegen::ir::Inst) -> bool,
    ) -> usize {
        let blocks = func.layout.blocks();
        let insts = blocks.flat_map(|block| func.layout.block_insts(block));
        insts.filter(|&inst| is_counted(func, inst)).count()
    }

    #[test]
    fn the_first_scout_parses_for_the_others() {
        let scouts = scouts(2);
        let reads_packet = |func: &Function, inst| {
            let flags = func.dfg.insts[inst].memflags();
            flags.is_some_and(|flags| flags.alias_region() == in_bytes().alias_region())
        };
        let reads: Vec<usize> = scouts
            .iter()
            .map(|func| count(func, reads_packet))
            .collect();
        assert!(reads[0] > 0);
        assert_eq!(reads[1], 0);
    }

    #[test]
    fn a_scout_does_not_branch_on_which_action_assigns() {
        let branches = |actions| {
            let is_branch = |func: &Function, inst| func.dfg.insts[inst].opcode() == Opcode::Brif;
            count(&scouts(actions)[1], is_branch)
        };
        assert_eq!(branches(2), branches(3));
    }
}
