//! Merges moves and constants into one primitive. They are executed together if none reads or
//! overwrites the result of an earlier one. Constants are written last. A constant that a later
//! move overwrites is omitted.

use bits::Value;

use super::code::AT;
use super::node::Primitive;
use super::words::{self, number, ones};
use crate::FILE_BITS;

/// Number of moves in one primitive.
pub(crate) const MOVES: usize = 4;

/// A move of a range of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Move {
    from: u32,
    to: u32,
    width: u32,
}

impl Move {
    fn overlaps(at: u32, width: u32, other: u32, other_width: u32) -> bool {
        at < other + other_width && other < at + width
    }

    /// Joins two moves, if both their sources and their destinations are adjacent.
    fn joined(self, next: Move) -> Option<Move> {
        let (low, high) = if self.from < next.from {
            (self, next)
        } else {
            (next, self)
        };
        let is_next = low.from + low.width == high.from && low.to + low.width == high.to;
        is_next.then_some(Move {
            width: low.width + high.width,
            ..low
        })
    }
}

/// Moves and constants that are executed together.
struct Group {
    moves: Vec<Move>,
    value: Value,
    mask: Value,
}

/// Returns the primitives with moves and constants merged.
pub(super) fn merged(primitives: Vec<Primitive>) -> Vec<Primitive> {
    let mut all = Vec::new();
    let mut group = Group::new();
    for primitive in primitives {
        let args = &primitive.args;
        match primitive.action {
            "set" => group.set(&args[0], &args[1]),
            "move" => group.add(moved(args), &mut all),
            "shuffle" => {
                for part in args[2..].chunks(3) {
                    group.add(moved(part), &mut all);
                }
                group.set(&args[0], &args[1]);
            }
            _ => {
                group.flush(&mut all);
                all.push(primitive);
                drop_mark(&mut all);
            }
        }
    }
    group.flush(&mut all);
    all
}

fn moved(args: &[Value]) -> Move {
    let place = |value: &Value| value.to_u64().unwrap_or(0) as u32;
    let width = args[2].limbs().iter().map(|limb| limb.count_ones()).sum();
    Move {
        from: place(&args[0]),
        to: place(&args[1]),
        width,
    }
}

/// Replaces "set port 511, set group 0" by v1model's drop operation.
fn drop_mark(all: &mut Vec<Primitive>) {
    let is = |primitive: &Primitive, action: &str, value: u64| {
        primitive.action == action
            && primitive.args[1].is_zero()
            && primitive.args[2].to_u64() == Some(value)
    };
    if let [.., port, group] = all.as_slice()
        && is(port, "set_port", 511)
        && is(group, "set_group", 0)
    {
        all.truncate(all.len() - 2);
        all.push(Primitive {
            action: "drop",
            args: Vec::new(),
        });
    }
}

impl Group {
    fn new() -> Group {
        Group {
            moves: Vec::new(),
            value: Value::zero(FILE_BITS),
            mask: Value::zero(FILE_BITS),
        }
    }

    fn set(&mut self, value: &Value, mask: &Value) {
        self.value = words::or(&self.value.and(&mask.not()), value);
        self.mask = words::or(&self.mask, mask);
    }

    fn add(&mut self, own: Move, all: &mut Vec<Primitive>) {
        if own.width == 0 {
            return;
        }
        let moved_to = |at: u32| {
            let mut moves = self.moves.iter();
            moves.any(|other| Move::overlaps(at, own.width, other.to, other.width))
        };
        let source = ones(own.from, own.width, FILE_BITS);
        if moved_to(own.from) || moved_to(own.to) || !self.mask.and(&source).is_zero() {
            self.flush(all);
        }
        self.forget(&ones(own.to, own.width, FILE_BITS));
        if let Some(joined) = self.moves.last().and_then(|last| last.joined(own)) {
            self.moves.pop();
            self.moves.push(joined);
            return;
        }
        if self.moves.len() == MOVES {
            self.flush(all);
        }
        self.moves.push(own);
    }

    /// Removes constants that are overwritten before they are read.
    fn forget(&mut self, range: &Value) {
        self.value = self.value.and(&range.not());
        self.mask = self.mask.and(&range.not());
    }

    fn flush(&mut self, all: &mut Vec<Primitive>) {
        let Group { moves, value, mask } = std::mem::replace(self, Group::new());
        let args = |own: &Move| {
            vec![
                number(own.from, AT),
                number(own.to, AT),
                ones(0, own.width, FILE_BITS),
            ]
        };
        let primitive = match moves.as_slice() {
            [] if mask.is_zero() => return,
            [] => Primitive {
                action: "set",
                args: vec![value, mask],
            },
            [own] if mask.is_zero() => Primitive {
                action: "move",
                args: args(own),
            },
            moves => {
                let nothing = Move {
                    from: 0,
                    to: 0,
                    width: 0,
                };
                let padded = moves.iter().chain(std::iter::repeat(&nothing)).take(MOVES);
                let moved = padded.flat_map(args);
                Primitive {
                    action: "shuffle",
                    args: [value, mask].into_iter().chain(moved).collect(),
                }
            }
        };
        all.push(primitive);
    }
}
