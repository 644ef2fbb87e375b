//! Allocation of a function's fields in the register file.
//!
//! *Fixed* headers are those with a validity that only the parser determines, and that it does not
//! write. They stay where they were read, which differs between paths. On a path that does not read
//! them they are absent.
//!
//! Everything else has the same position on all paths. Variables start at the end of the register
//! file, after the arguments of entries, and grow upwards. Emitted headers, if code changes which
//! ones are valid, are below the parsed bits. Temporaries are between the two.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};

use bits::Id;
use ir::{Action, FieldId, HeaderId, Program, ScalarTy};

use super::error::{TranslateError, refuse};
use super::paths::Path;
use super::pattern::{Bit, Bits, PORT, Places};
use crate::FILE_BITS;

/// A standard metadata field: its name, and its position for `read_standard`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standard {
    pub(super) name: &'static str,
    pub(super) at: u32,
    pub(super) width: u32,
}

/// The fields in the order in which `read_standard` concatenates them, the last first.
const STANDARD: &[(&str, u32)] = &[
    ("priority", 3),
    ("egress_rid", 16),
    ("mcast_grp", 16),
    ("egress_global_timestamp", 48),
    ("ingress_global_timestamp", 48),
    ("deq_qdepth", 19),
    ("deq_timedelta", 32),
    ("enq_qdepth", 19),
    ("enq_timestamp", 32),
    ("packet_length", 32),
    ("egress_port", 9),
    ("egress_spec", 9),
    ("ingress_port", 9),
    ("instance_type", 32),
];

/// Width of the field that records a resubmission by the function.
pub(super) const AGAIN_BITS: u32 = 8;

/// Allocation shared by all paths.
pub(super) struct Layout<'a> {
    pub(super) program: &'a Program,
    standard: HashMap<FieldId, Standard>,
    ingress_port: Option<FieldId>,
    /// The fields of fixed headers.
    fixed: HashSet<FieldId>,
    /// Fields that only the parser writes.
    parsed: HashSet<FieldId>,
    /// Position of the field that records a resubmission, with its field list.
    again: Option<u32>,
    shared: RefCell<Shared>,
}

struct Shared {
    places: HashMap<FieldId, u32>,
    /// The end of the variables, and the beginning of the temporaries.
    variables: u32,
    temporaries: u32,
    lowest: u32,
}

/// Fields that a function's code writes, without its parser.
#[derive(Default)]
pub(super) struct Written {
    pub(super) fields: HashSet<FieldId>,
    /// The field lists with which it resubmits packets, plus one.
    pub(super) resubmits: BTreeSet<u64>,
}

impl<'a> Layout<'a> {
    /// Creates the layout of a function. Its entries have `arguments` bits of arguments, its parser
    /// consumes at most `read` bits, and the headers in `held` are not where they were read.
    pub(super) fn new(
        program: &'a Program,
        written: &Written,
        held: &BTreeSet<HeaderId>,
        arguments: u32,
        read: u32,
    ) -> Self {
        let intrinsic = |name: &str| {
            program
                .pipeline
                .intrinsics
                .get(&format!("standard_metadata.{name}"))
        };
        let mut standard = HashMap::new();
        let mut at = 0;
        for (name, width) in STANDARD {
            if let Some(field) = intrinsic(name) {
                standard.insert(
                    *field,
                    Standard {
                        name,
                        at,
                        width: *width,
                    },
                );
            }
            at += width;
        }
        let mut fixed = HashSet::new();
        for (id, header) in program.headers.iter() {
            if !written.fields.contains(&header.valid) && !held.contains(&id) {
                let count = program.header_types[header.ty].fields.len() + 1;
                fixed.extend((0..count).map(|n| FieldId::from_index(header.valid.index() + n)));
            }
        }
        let unwritten = program
            .fields
            .ids()
            .filter(|field| !written.fields.contains(field));
        let top = FILE_BITS - read;
        let again = (!written.resubmits.is_empty()).then_some(arguments);
        Layout {
            program,
            ingress_port: intrinsic("ingress_port").copied(),
            standard,
            fixed,
            parsed: unwritten.collect(),
            again,
            shared: RefCell::new(Shared {
                places: HashMap::new(),
                variables: arguments + again.map_or(0, |_| AGAIN_BITS),
                temporaries: top,
                lowest: top,
            }),
        }
    }

    /// Returns true if only the parser determines the validity of this header.
    pub(super) fn is_fixed(&self, header: HeaderId) -> bool {
        self.fixed.contains(&self.program.headers[header].valid)
    }

    /// Returns the standard metadata field, if the field is one that is not in the register file.
    pub(super) fn standard(&self, field: FieldId) -> Option<Standard> {
        self.standard.get(&field).copied()
    }

    /// Returns the position of the field that records a resubmission.
    pub(super) fn again(&self) -> Option<u32> {
        self.again
    }

    /// Assigns a header's field a position in the area of emitted headers.
    pub(super) fn place(&self, field: FieldId, at: u32) {
        self.shared.borrow_mut().places.insert(field, at);
    }

    /// Reserves an area for emitted headers below the parsed bits. Returns its position.
    pub(super) fn reserve(&self, bits: u32) -> Result<u32, TranslateError> {
        self.temporary(bits)
    }

    /// Returns the position of a variable, if it has one already.
    pub(super) fn used(&self, field: FieldId) -> Option<u32> {
        self.shared.borrow().places.get(&field).copied()
    }

    fn variable(&self, field: FieldId) -> u32 {
        let width = self.program.fields[field].ty.width();
        let mut shared = self.shared.borrow_mut();
        let next = shared.variables;
        let at = *shared.places.entry(field).or_insert(next);
        if at == next {
            shared.variables += width;
        }
        at
    }

    /// Allocates a temporary.
    pub(super) fn temporary(&self, width: u32) -> Result<u32, TranslateError> {
        let mut shared = self.shared.borrow_mut();
        match shared.temporaries.checked_sub(width) {
            Some(at) => {
                shared.temporaries = at;
                shared.lowest = shared.lowest.min(at);
                Ok(at)
            }
            None => no_room(),
        }
    }

    /// Returns the current end of the temporaries, to free later ones.
    pub(super) fn mark(&self) -> u32 {
        self.shared.borrow().temporaries
    }

    pub(super) fn release(&self, mark: u32) {
        self.shared.borrow_mut().temporaries = mark;
    }

    /// Checks that everything fits.
    pub(super) fn check(&self) -> Result<(), TranslateError> {
        let shared = self.shared.borrow();
        if shared.variables > shared.lowest {
            return no_room();
        }
        Ok(())
    }
}

fn no_room<T>() -> Result<T, TranslateError> {
    refuse(
        format!("more than {FILE_BITS} bits of headers, metadata and variables"),
        None,
    )
}

/// Allocation of one path.
pub(super) struct Frame<'a> {
    pub(super) layout: &'a Layout<'a>,
    pub(super) path: &'a Path,
    /// The action that is being translated.
    pub(super) action: Option<&'a Action>,
    /// The bits of its parameters.
    pub(super) params: Vec<Bits>,
}

impl Frame<'_> {
    /// Returns true if a field belongs to a header that is absent on this path.
    pub(super) fn is_absent(&self, field: FieldId) -> bool {
        self.layout.fixed.contains(&field) && !self.path.fields.contains_key(&field)
    }
}

impl Places for Frame<'_> {
    fn program(&self) -> &Program {
        self.layout.program
    }

    fn field(&self, field: FieldId) -> Option<Bits> {
        let ty = self.layout.program.fields[field].ty;
        let width = ty.width();
        if self.layout.ingress_port == Some(field) {
            return Some((0..width).rev().map(|bit| Bit::At(PORT + bit)).collect());
        }
        if self.layout.standard.contains_key(&field) {
            return None;
        }
        if self.layout.fixed.contains(&field) {
            let nothing = match ty {
                ScalarTy::Varbit(_) => Vec::new(),
                _ => vec![Bit::Is(false); width as usize],
            };
            return Some(self.path.fields.get(&field).cloned().unwrap_or(nothing));
        }
        if matches!(ty, ScalarTy::Varbit(_)) {
            return None;
        }
        if self.layout.parsed.contains(&field) {
            let is = self.path.fields.get(&field);
            let unset = || vec![Bit::Is(false); width as usize];
            let bits = is.cloned().unwrap_or_else(unset);
            if bits.iter().all(|bit| matches!(bit, Bit::Is(_)))
                && !self.path.lengths.contains(&field)
            {
                return Some(bits);
            }
        }
        let at = self.layout.variable(field);
        Some((at..at + width).rev().map(Bit::At).collect())
    }

    fn standard(&self, field: FieldId) -> Option<&'static str> {
        self.layout.standard(field).map(|standard| standard.name)
    }

    fn param(&self, index: u32) -> Option<Bits> {
        self.params.get(index as usize).cloned()
    }

    fn action(&self) -> Option<&Action> {
        self.action
    }
}

/// Returns the position of a field for `read_standard`.
pub(super) fn standard_at(name: &str) -> u32 {
    let before = STANDARD.iter().take_while(|(own, _)| *own != name);
    before.map(|(_, width)| width).sum()
}
