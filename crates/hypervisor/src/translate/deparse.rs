//! Translation of the deparser. Usually a function sends the headers that it has read, which are
//! already at the right positions, so no code is needed. A function that adds, removes or reorders
//! headers gets an area in the register file for all headers that it may send, in order. Invalid
//! headers are removed from the area.

use bits::{Id, Value};
use ir::{ControlId, FieldId, HeaderId, Program, ScalarTy, StageKind, StmtKind};

use super::code::{AT, Code};
use super::error::{TranslateError, refuse};
use super::flow::Flow;
use super::frame::Layout;
use super::node::Primitive;
use super::paths::Path;
use super::words::{self, number, ones};
use crate::FILE_BITS;

/// Maximum number of header bytes that the emitted program can send.
const MAX_BYTES: u32 = 127;

/// The headers that a function emits.
pub(super) struct Sent {
    /// The headers in order, with their positions if they are in a separate area.
    items: Vec<Item>,
    /// The separate area: its position and its size in bits.
    room: Option<(u32, u32)>,
}

struct Item {
    header: HeaderId,
    /// Its position in the register file, if it is in the area.
    at: u32,
    width: u32,
    /// True if the function's code uses the header at this position.
    is_home: bool,
}

impl Sent {
    pub(super) fn new(
        program: &Program,
        layout: &Layout<'_>,
        emitted: Vec<HeaderId>,
        paths: &[Path],
    ) -> Result<Sent, TranslateError> {
        let is_plain = emitted.iter().all(|header| layout.is_fixed(*header))
            && paths.iter().all(|path| stands(path, &emitted));
        let mut sent = Sent {
            items: Vec::new(),
            room: None,
        };
        let widths: Vec<u32> = emitted
            .iter()
            .map(|header| width(program, *header))
            .collect();
        let total: u32 = widths.iter().sum();
        let mut end = 0;
        if !is_plain {
            let at = layout.reserve(total)?;
            sent.room = Some((at, total));
            end = at + total;
        }
        let mut homes = Vec::new();
        for (header, width) in emitted.into_iter().zip(widths) {
            end = end.saturating_sub(width);
            let is_home = !layout.is_fixed(header) && !homes.contains(&header);
            if is_home && sent.room.is_some() {
                homes.push(header);
                settle(program, layout, header, end, width)?;
            }
            sent.items.push(Item {
                header,
                at: end,
                width,
                is_home,
            });
        }
        Ok(sent)
    }

    /// Returns the code that moves the emitted headers to the beginning of the register file.
    pub(super) fn code(&self, flow: &Flow<'_>) -> Result<Vec<Primitive>, TranslateError> {
        let Some((room, total)) = self.room else {
            return Ok(Vec::new());
        };
        let mut code = Code::new(&flow.frame);
        let up = FILE_BITS - room - total;
        let valid = |header: HeaderId| flow.program.headers[header].valid;
        for item in self.items.iter().filter(|item| !item.is_home) {
            self.fetch(flow, &mut code, item);
        }
        if total / 8 > MAX_BYTES {
            return refuse(
                format!("deparser that may send more than {MAX_BYTES} bytes of headers"),
                None,
            );
        }
        code.emit("send", vec![number(total / 8, 7), number(up, AT)]);
        for item in self.items.iter().rev() {
            let at = item.at + up;
            match state(flow, item.header) {
                State::Is(bits) => cut(&mut code, room + up, at, item.width - bits.min(item.width)),
                State::Asks => {
                    let is_valid = code.target(valid(item.header), None)?;
                    let Some((bit, _)) = is_valid else { continue };
                    // The validity bit has moved up with the whole register file.
                    remove(&mut code, room + up, bit + up, at, item.width);
                }
            }
        }
        Ok(code.made)
    }

    /// Copies a header to its position in the area.
    fn fetch(&self, flow: &Flow<'_>, code: &mut Code<'_>, item: &Item) {
        let read = flow
            .frame
            .path
            .extracted
            .iter()
            .find(|(header, ..)| *header == item.header);
        let home = self
            .items
            .iter()
            .find(|home| home.is_home && home.header == item.header);
        match (home, read) {
            (Some(home), _) => code.copy(home.at, item.at, item.width),
            (None, Some((_, offset, bits))) => {
                let from = FILE_BITS - offset - bits;
                code.copy(from, item.at + item.width - bits, *bits);
            }
            (None, None) => {}
        }
    }
}

enum State {
    /// The header has this many bits, 0 if it is invalid.
    Is(u32),
    /// Depends on the validity bit at run time.
    Asks,
}

fn state(flow: &Flow<'_>, header: HeaderId) -> State {
    if !flow.frame.layout.is_fixed(header) {
        return State::Asks;
    }
    let mut read = flow.frame.path.extracted.iter();
    let read = read.find(|(own, ..)| *own == header);
    State::Is(read.map_or(0, |(_, _, bits)| *bits))
}

/// Removes the last `width` bits of a header unconditionally. The headers after it move up.
fn cut(code: &mut Code<'_>, room: u32, at: u32, width: u32) {
    if width > 0 {
        let [kept, below] = masks(room, at, width);
        code.emit("cut_out", vec![kept, below, number(width, AT)]);
    }
}

/// Removes a header if its validity bit is not set.
fn remove(code: &mut Code<'_>, room: u32, bit: u32, at: u32, width: u32) {
    let [kept, below] = masks(room, at, width);
    code.emit(
        "remove",
        vec![number(bit, AT), kept, below, number(width, AT)],
    );
}

/// Returns two masks for the removal of `width` bits at `at`: the bits that stay (above, and the
/// variables), and the bits that move up.
fn masks(room: u32, at: u32, width: u32) -> [Value; 2] {
    let above = ones(at + width, FILE_BITS - at - width, FILE_BITS);
    let kept = words::or(&above, &ones(0, room, FILE_BITS));
    [kept, ones(room, at - room, FILE_BITS)]
}

/// Assigns a position to a header that code makes valid or invalid.
fn settle(
    program: &Program,
    layout: &Layout<'_>,
    header: HeaderId,
    at: u32,
    width: u32,
) -> Result<(), TranslateError> {
    let own = &program.headers[header];
    let mut end = at + width;
    for (number, field) in program.header_types[own.ty].fields.iter().enumerate() {
        if matches!(field.ty, ScalarTy::Varbit(_)) {
            let name = &own.name;
            return refuse(
                format!("varbit field in a header that code makes valid ({name})"),
                None,
            );
        }
        end -= field.ty.width();
        layout.place(FieldId::from_index(own.valid.index() + 1 + number), end);
    }
    Ok(())
}

fn width(program: &Program, header: HeaderId) -> u32 {
    let ty = program.headers[header].ty;
    program.header_types[ty]
        .fields
        .iter()
        .map(|field| field.ty.width())
        .sum()
}

/// Returns true if the headers that a path reads are those that are emitted, in the same order and
/// from the first bit.
fn stands(path: &Path, emitted: &[HeaderId]) -> bool {
    let mut end = 0;
    let mut count = 0;
    for header in emitted {
        if let Some((_, offset, bits)) = path.extracted.iter().find(|(own, ..)| own == header) {
            if *offset != end {
                return false;
            }
            end += bits;
            count += 1;
        }
    }
    end == path.cursor && count == path.extracted.len()
}

/// Returns the headers that the deparser emits, in order.
pub(super) fn emitted(
    program: &Program,
    deparser: Option<ControlId>,
) -> Result<Vec<HeaderId>, TranslateError> {
    let mut all = Vec::new();
    let Some(deparser) = deparser else {
        return Ok(all);
    };
    for stage in program.controls[deparser].stages.values() {
        let StageKind::Action { body, .. } = &stage.kind else {
            return refuse("deparser that branches", stage.loc);
        };
        for stmt in body {
            match &stmt.kind {
                StmtKind::Emit(place) if place.dims.is_empty() => all.push(place.base),
                other => {
                    return refuse(
                        format!("{} in a deparser", super::construct(other)),
                        stmt.loc,
                    );
                }
            }
        }
    }
    Ok(all)
}
