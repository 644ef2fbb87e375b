//! Symbolic execution of a function's parser. The general parser extracts a packet's first bytes as
//! one blob. The function's parser becomes a list of paths over it, tried in order. A path has the
//! blob bits that select it, the minimum packet length, and the values of fields at its end.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bits::{Id, Value};
use ir::{
    Action, Dim, Expr, FieldId, HeaderId, HeaderPlace, KeyMatch, KeySet, Keyset, LabelId, ParserId,
    Place, Program, SelectCase, StateId, Stmt, StmtKind, Target, Transition, ValueSetId,
};

use super::error::{TranslateError, refuse};
use super::pattern::{self, Bit, Bits, Cube, Places};
use crate::{FILE_BITS, HEADER_BITS};

/// Maximum number of paths through a parser.
const MAX_PATHS: usize = 2048;
/// Maximum number of states on one path.
const MAX_STATES: u32 = 128;
/// Maximum number of packet bits from which a length or an index may be computed.
const MAX_CHOSEN_BITS: usize = 8;

/// The members of value sets.
pub(super) type ValueSets = HashMap<ValueSetId, Vec<Vec<KeyMatch>>>;

/// Information about the program around a parser.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) value_sets: &'a ValueSets,
    /// The headers that the deparser emits.
    pub(super) emitted: &'a [HeaderId],
}

/// Result of the analysis of a parser.
pub(super) struct Parsed {
    /// All paths. The first one that matches is taken.
    pub(super) paths: Vec<Path>,
    /// Headers that the parser writes or copies, and that therefore are not where they were read.
    pub(super) held: BTreeSet<HeaderId>,
}

/// One path.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    /// Pattern of the blob.
    pub(super) cube: Cube,
    /// Minimum number of header bytes.
    pub(super) least_bytes: u32,
    /// Maximum number of header bytes.
    pub(super) most_bytes: u32,
    /// Number of bits that the function's parser has consumed.
    pub(super) cursor: u32,
    /// Number of bits that it has consumed or looked at.
    pub(super) seen: u32,
    /// Values of the fields that it has set: bits of the blob, or constants.
    pub(super) fields: BTreeMap<FieldId, Bits>,
    /// The extracted headers, in order, with position and size in bits.
    pub(super) extracted: Vec<(HeaderId, u32, u32)>,
    /// The parser error at its end.
    pub(super) error: u32,
    /// Fields that are set to the packet's length.
    pub(super) lengths: Vec<FieldId>,
    states: u32,
    /// The choice at each fork. Paths are ordered by it, and the first one that matches is taken.
    order: Vec<u32>,
    /// The block that is being left.
    leaving: Option<LabelId>,
    /// Patterns of earlier alternatives. A path that implies one of them is never taken.
    passed: Vec<Cube>,
}

impl Path {
    /// Adds a pattern to the path. Returns `None` if the path cannot be taken then.
    fn asking(&self, cube: &Cube) -> Option<Path> {
        let cube = self.cube.and(cube)?;
        let is_taken = self.passed.iter().any(|passed| passed.is_within(&cube));
        (!is_taken).then(|| Path {
            cube,
            ..self.clone()
        })
    }

    /// Records the choice at a fork.
    fn way(mut self, number: usize) -> Path {
        self.order.push(number as u32);
        self
    }
}

/// Computes all paths through a parser.
pub(super) fn paths(
    program: &Program,
    parser: ParserId,
    around: Surroundings<'_>,
) -> Result<Parsed, TranslateError> {
    let mut walk = Walk {
        program,
        parser,
        around,
        held: BTreeSet::new(),
        done: Vec::new(),
    };
    let whole = Path {
        most_bytes: HEADER_BITS / 8,
        ..Path::default()
    };
    walk.state(program.parsers[parser].start, whole)?;
    walk.done.sort_by(|a, b| a.order.cmp(&b.order));
    if let Some(field) = program
        .pipeline
        .intrinsics
        .get("standard_metadata.parser_error")
    {
        for path in &mut walk.done {
            path.fields
                .insert(*field, pattern::of_value(&super::number(path.error, 32)));
        }
    }
    Ok(Parsed {
        paths: walk.done,
        held: walk.held,
    })
}

/// Returns the position in the register file of a bit of the blob.
pub(super) fn place_of(offset: u32) -> u32 {
    FILE_BITS - 1 - offset
}

struct Walk<'a> {
    program: &'a Program,
    parser: ParserId,
    around: Surroundings<'a>,
    held: BTreeSet<HeaderId>,
    done: Vec<Path>,
}

/// The fields of one path.
struct On<'a>(&'a Program, &'a Path);

impl Places for On<'_> {
    fn program(&self) -> &Program {
        self.0
    }

    fn field(&self, field: FieldId) -> Option<Bits> {
        let width = self.0.fields[field].ty.width() as usize;
        let unset = || vec![Bit::Is(false); width];
        let bits = self.1.fields.get(&field).cloned().unwrap_or_else(unset);
        Some(self.1.cube.known(&bits))
    }

    fn standard(&self, _: FieldId) -> Option<&'static str> {
        None
    }

    fn param(&self, _: u32) -> Option<Bits> {
        None
    }

    fn action(&self) -> Option<&Action> {
        None
    }
}

impl Walk<'_> {
    fn state(&mut self, id: StateId, mut path: Path) -> Result<(), TranslateError> {
        let state = &self.program.parsers[self.parser].states[id];
        path.states += 1;
        if path.states > MAX_STATES {
            return refuse("a parser that loops without reading to an end", state.loc);
        }
        for path in self.body(&state.body, path)? {
            self.transition(&state.transition, path)?;
        }
        Ok(())
    }

    fn end(&mut self, path: Path) -> Result<(), TranslateError> {
        if self.done.len() >= MAX_PATHS {
            return refuse(format!("a parser with more than {MAX_PATHS} paths"), None);
        }
        self.done.push(path);
        Ok(())
    }

    fn fail(&mut self, mut path: Path, error: &str) -> Result<(), TranslateError> {
        let number = self.program.errors.iter().position(|name| name == error);
        path.error = number.unwrap_or(0) as u32;
        self.end(path)
    }

    fn goto(&mut self, target: Target, path: Path) -> Result<(), TranslateError> {
        match target {
            Target::State(state) => self.state(state, path),
            Target::Accept | Target::Reject => self.end(path),
        }
    }

    fn transition(
        &mut self,
        transition: &Transition,
        mut path: Path,
    ) -> Result<(), TranslateError> {
        let (keys, cases) = match transition {
            Transition::Direct(target) => return self.goto(*target, path),
            Transition::Select { keys, cases } => (keys, cases),
        };
        let keys: Vec<Expr> = keys.iter().map(|key| self.resolve(key, &path)).collect();
        // A computed key is known once the bits on which it depends are known.
        let computed = keys
            .iter()
            .find(|key| pattern::bits(&On(self.program, &path), key).is_none());
        if let Some(computed) = computed {
            for known in self.known(&path, computed)? {
                self.transition(transition, known)?;
            }
            return Ok(());
        }
        let bits = keys
            .iter()
            .filter_map(|key| pattern::bits(&On(self.program, &path), key));
        let bits: Vec<Bits> = bits.collect();
        for (number, case) in cases.iter().enumerate() {
            for cube in self.case(case, &bits, &path)? {
                let Some(asking) = path.asking(&cube) else {
                    continue;
                };
                let is_certain = asking.cube == path.cube;
                self.goto(case.target, asking.way(number))?;
                if is_certain {
                    return Ok(());
                }
                path.passed.push(cube);
            }
        }
        self.fail(path.way(cases.len()), "NoMatch")
    }

    fn case(
        &self,
        case: &SelectCase,
        keys: &[Bits],
        path: &Path,
    ) -> Result<Vec<Cube>, TranslateError> {
        let sets = match &case.keyset {
            Keyset::ValueSet(set) => return Ok(self.members(*set, keys)),
            Keyset::Sets(sets) => sets,
        };
        let mut all = vec![Cube::default()];
        for (set, bits) in sets.iter().zip(keys) {
            let own = self.set(set, bits, path)?;
            let pairs = all.iter().flat_map(|a| own.iter().map(move |b| (a, b)));
            all = pairs.filter_map(|(a, b)| a.and(b)).collect();
        }
        Ok(all)
    }

    fn set(&self, set: &KeySet, bits: &Bits, path: &Path) -> Result<Vec<Cube>, TranslateError> {
        let value = |expr: &Expr| {
            let bits = pattern::bits(&On(self.program, path), expr);
            let value = bits.and_then(|bits| pattern::constant(&bits));
            value.map_or_else(|| refuse("a select case that is not constant", None), Ok)
        };
        Ok(match set {
            KeySet::Any => vec![Cube::default()],
            KeySet::Value(is) => Cube::equal(bits, &value(is)?).into_iter().collect(),
            KeySet::Mask(is, mask) => Cube::masked(bits, &value(is)?, &value(mask)?)
                .into_iter()
                .collect(),
            KeySet::Range(low, high) => pattern::within(bits, &value(low)?, &value(high)?),
            KeySet::ValueSet(set) => self.members(*set, std::slice::from_ref(bits)),
        })
    }

    fn members(&self, set: ValueSetId, keys: &[Bits]) -> Vec<Cube> {
        let members = self.around.value_sets.get(&set).into_iter().flatten();
        members
            .flat_map(|member| super::keys::cubes(keys, member))
            .collect()
    }

    /// Splits the path so that this expression is constant on each part. Parts that cannot occur
    /// are omitted.
    fn known(&self, path: &Path, expr: &Expr) -> Result<Vec<Path>, TranslateError> {
        let mut support = BTreeSet::new();
        super::support(expr, &mut |field| {
            let bits = On(self.program, path).field(field).unwrap_or_default();
            support.extend(bits.iter().filter_map(|bit| match bit {
                Bit::At(at) => Some(*at),
                Bit::Is(_) => None,
            }));
        });
        if support.len() > MAX_CHOSEN_BITS {
            return refuse(
                format!(
                    "a parser's computation from more than {MAX_CHOSEN_BITS} bits of the packet"
                ),
                None,
            );
        }
        let ways = (0..1u32 << support.len()).filter_map(|way| {
            let bits = support
                .iter()
                .enumerate()
                .map(|(number, at)| (*at, way >> number & 1 == 1));
            path.asking(&Cube(bits.collect()))
        });
        Ok(ways.collect())
    }

    /// Splits the path so that an expression is constant. Returns each part with the value.
    fn values(&self, path: &Path, expr: &Expr) -> Result<Vec<(Path, Value)>, TranslateError> {
        let of = |path: &Path| {
            let expr = self.resolve(expr, path);
            pattern::constant(&pattern::bits(&On(self.program, path), &expr)?)
        };
        if let Some(value) = of(path) {
            return Ok(vec![(path.clone(), value)]);
        }
        let known = self.known(path, expr)?.into_iter();
        let valued = known.map(|path| match of(&path) {
            Some(value) => Ok((path, value)),
            None => refuse("a computation of this kind in a parser", None),
        });
        valued.collect()
    }

    /// Returns the paths after a body. Paths that leave a block skip the remaining statements.
    fn body(&mut self, body: &[Stmt], path: Path) -> Result<Vec<Path>, TranslateError> {
        let mut paths = vec![path];
        for stmt in body {
            let mut next = Vec::new();
            for path in paths {
                match path.leaving {
                    Some(_) => next.push(path),
                    None => next.extend(self.stmt(stmt, path)?),
                }
            }
            paths = next;
        }
        Ok(paths)
    }

    fn stmt(&mut self, stmt: &Stmt, path: Path) -> Result<Vec<Path>, TranslateError> {
        let at = |refusal: TranslateError| refusal.at(stmt.loc);
        self.kind(&stmt.kind, path).map_err(at)
    }

    fn kind(&mut self, kind: &StmtKind, mut path: Path) -> Result<Vec<Path>, TranslateError> {
        match kind {
            StmtKind::Extract(place, size) => return self.extract(place, size.as_ref(), path),
            StmtKind::Assign(place, value) => return self.assign(place, value, path),
            StmtKind::Advance(by) => {
                let mut on = Vec::new();
                for (path, by) in self.values(&path, by)? {
                    let by = by.to_u64().unwrap_or(u64::MAX).min(1 << 20) as u32;
                    on.push(self.consume(path, by)?);
                }
                return Ok(on);
            }
            StmtKind::Lookahead { total, dests } => {
                let start = path.cursor;
                let mut long = self.fork_short(path, *total)?;
                for (place, offset) in dests {
                    if let Some(header) = self.header_of(place.base) {
                        self.hold(header)?;
                    }
                    let width = self.program.fields[place.base].ty.width();
                    long.fields.insert(place.base, blob(start + offset, width));
                }
                return Ok(vec![long]);
            }
            StmtKind::PacketLength(place) => path.lengths.push(place.base),
            StmtKind::Verify(cond, error) => return self.verify(cond, error, path),
            StmtKind::Fail(error) => {
                path.error = *error;
                self.end(path)?;
                return Ok(Vec::new());
            }
            StmtKind::If(cond, then, otherwise) => {
                let mut on = Vec::new();
                for (path, is) in self.values(&path, cond)? {
                    let body = if is.is_zero() { otherwise } else { then };
                    on.extend(self.body(body, path)?);
                }
                return Ok(on);
            }
            StmtKind::CopyHeader(to, from) => return self.copy(to, from, path),
            StmtKind::Leave(label) => path.leaving = Some(*label),
            StmtKind::Block(label, body) => {
                let mut paths = self.body(body, path)?;
                for path in &mut paths {
                    path.leaving = path.leaving.filter(|own| own != label);
                }
                return Ok(paths);
            }
            other => return refuse(format!("{} in a parser", super::construct(other)), None),
        }
        Ok(vec![path])
    }

    /// Splits off the path of packets that are too short for `bits` more bits. Returns the path of
    /// the others.
    fn fork_short(&mut self, path: Path, bits: u32) -> Result<Path, TranslateError> {
        let end = path.cursor + bits;
        if end > HEADER_BITS {
            return refuse(
                format!("a parser that reads more than {} bytes", HEADER_BITS / 8),
                None,
            );
        }
        let bytes = end.div_ceil(8);
        if bytes > path.least_bytes {
            self.fail(
                Path {
                    most_bytes: bytes - 1,
                    ..path.clone()
                },
                "PacketTooShort",
            )?;
        }
        let (least_bytes, seen) = (path.least_bytes.max(bytes), path.seen.max(end));
        Ok(Path {
            least_bytes,
            seen,
            ..path
        })
    }

    fn consume(&mut self, path: Path, bits: u32) -> Result<Path, TranslateError> {
        let path = self.fork_short(path, bits)?;
        Ok(Path {
            cursor: path.cursor + bits,
            ..path
        })
    }

    fn extract(
        &mut self,
        place: &HeaderPlace,
        size: Option<&Expr>,
        path: Path,
    ) -> Result<Vec<Path>, TranslateError> {
        let mut found = vec![(path, place.base.get(), true)];
        for Dim { index, len, stride } in &place.dims {
            let mut next = Vec::new();
            for (path, base, is_inside) in found {
                for (path, index) in self.values(&path, index)? {
                    let index = index.to_u64().unwrap_or(u64::MAX);
                    let is_inside = is_inside && index < u64::from(*len);
                    let offset = index.min(u64::from(*len)) as u32 * stride;
                    next.push((path, base + offset, is_inside));
                }
            }
            found = next;
        }
        let mut on = Vec::new();
        for (path, base, is_inside) in found {
            if !is_inside {
                self.fail(path, "StackOutOfBounds")?;
                continue;
            }
            let header = HeaderId::from_index(base as usize);
            match size {
                None => on.extend(self.extract_bits(header, None, path)?),
                Some(size) => {
                    for (path, size) in self.values(&path, size)? {
                        let bits = size.to_u64().unwrap_or(u64::MAX).min(1 << 20) as u32;
                        on.extend(self.extract_bits(header, Some(bits), path)?);
                    }
                }
            }
        }
        Ok(on)
    }

    fn extract_bits(
        &mut self,
        id: HeaderId,
        varbit: Option<u32>,
        path: Path,
    ) -> Result<Option<Path>, TranslateError> {
        let header = &self.program.headers[id];
        let fields = &self.program.header_types[header.ty].fields;
        let is_varbit = |ty: ir::ScalarTy| matches!(ty, ir::ScalarTy::Varbit(_));
        let width = |ty: ir::ScalarTy| {
            if is_varbit(ty) {
                varbit.unwrap_or(0)
            } else {
                ty.width()
            }
        };
        let total: u32 = fields.iter().map(|field| width(field.ty)).sum();
        let most = fields
            .iter()
            .find(|field| is_varbit(field.ty))
            .map_or(0, |field| field.ty.width());
        let fixed = total - varbit.unwrap_or(0);
        // The end of the packet is checked first. A varbit too long for its field is an error only
        // if the packet is long enough.
        if varbit.unwrap_or(0) > most {
            let seen = fixed + varbit.unwrap_or(0);
            if path.cursor + seen > HEADER_BITS {
                return refuse(
                    "a varbit field whose length may be beyond the bytes that are read",
                    None,
                );
            }
            let long = self.fork_short(path, seen)?;
            self.fail(long, "HeaderTooShort")?;
            return Ok(None);
        }
        let start = path.cursor;
        let mut path = self.consume(path, total)?;
        path.fields.insert(header.valid, vec![Bit::Is(true)]);
        let mut at = start;
        for (number, field) in fields.iter().enumerate() {
            let own = FieldId::from_index(header.valid.index() + 1 + number);
            path.fields.insert(own, blob(at, width(field.ty)));
            at += width(field.ty);
        }
        path.extracted.retain(|(other, ..)| *other != id);
        path.extracted.push((id, start, total));
        Ok(Some(path))
    }

    /// Copies a header, for example the result of a sub-parser.
    fn copy(
        &mut self,
        to: &HeaderPlace,
        from: &HeaderPlace,
        mut path: Path,
    ) -> Result<Vec<Path>, TranslateError> {
        if !to.dims.is_empty() || !from.dims.is_empty() {
            return refuse("a header chosen at run time, copied in a parser", None);
        }
        self.hold(from.base)?;
        let (new, old) = (
            &self.program.headers[to.base],
            &self.program.headers[from.base],
        );
        for number in 0..=self.program.header_types[old.ty].fields.len() {
            let field = |header: &ir::Header| FieldId::from_index(header.valid.index() + number);
            match path.fields.get(&field(old)).cloned() {
                Some(bits) => path.fields.insert(field(new), bits),
                None => path.fields.remove(&field(new)),
            };
        }
        path.extracted.retain(|(header, ..)| *header != to.base);
        let is_read = self.is_as_read(&path, from.base);
        let mut read = path.extracted.iter_mut();
        match read.find(|(header, ..)| *header == from.base) {
            Some(read) if is_read => read.0 = to.base,
            _ if path.fields.get(&old.valid) == Some(&vec![Bit::Is(true)]) => self.hold(to.base)?,
            _ => {}
        }
        Ok(vec![path])
    }

    /// Records that a header is not where it was read. Such a header cannot be emitted.
    fn hold(&mut self, header: HeaderId) -> Result<(), TranslateError> {
        if self.around.emitted.contains(&header) {
            let name = &self.program.headers[header].name;
            return refuse(
                format!("a header that a parser writes or copies, and that is sent ({name})"),
                None,
            );
        }
        self.held.insert(header);
        Ok(())
    }

    fn header_of(&self, field: FieldId) -> Option<HeaderId> {
        let mut headers = self.program.headers.ids();
        headers.find(|header| self.fields_of(*header).contains(&field.index()))
    }

    /// Returns the field indices of a header, its validity first.
    fn fields_of(&self, header: HeaderId) -> std::ops::RangeInclusive<usize> {
        let header = &self.program.headers[header];
        let first = header.valid.index();
        first..=first + self.program.header_types[header.ty].fields.len()
    }

    /// Returns true if a header's fields are still the bits that were read.
    fn is_as_read(&self, path: &Path, header: HeaderId) -> bool {
        let mut fields = self.fields_of(header).skip(1).map(FieldId::from_index);
        let mut read = path.extracted.iter();
        let Some((_, start, total)) = read.find(|(own, ..)| *own == header) else {
            return false;
        };
        let now = fields.try_fold(Vec::new(), |mut all, field| {
            all.extend(path.fields.get(&field)?);
            Some(all)
        });
        now == Some(blob(*start, *total))
    }

    /// Makes a header invalid.
    fn invalidate(&self, header: HeaderId, mut path: Path) -> Path {
        for field in self.fields_of(header).skip(1) {
            path.fields.remove(&FieldId::from_index(field));
        }
        let valid = self.program.headers[header].valid;
        path.fields.insert(valid, vec![Bit::Is(false)]);
        path.extracted.retain(|(own, ..)| *own != header);
        path
    }

    fn assign(
        &mut self,
        place: &Place,
        value: &Expr,
        path: Path,
    ) -> Result<Vec<Path>, TranslateError> {
        let field = place.base;
        if !place.dims.is_empty() {
            return refuse("an element chosen at run time, written in a parser", None);
        }
        if let Some(header) = self.header_of(field) {
            let valid = self.program.headers[header].valid;
            match value {
                Expr::Const(_, value) if field == valid && value.is_zero() => {
                    return Ok(vec![self.invalidate(header, path)]);
                }
                _ => self.hold(header)?,
            }
        }
        if matches!(value, Expr::Read(from) if from.dims.is_empty() && path.lengths.contains(&from.base))
        {
            let mut path = path;
            path.lengths.push(field);
            return Ok(vec![path]);
        }
        let resolved = self.resolve(value, &path);
        if let Some(bits) = pattern::bits(&On(self.program, &path), &resolved) {
            let mut path = path;
            path.fields.insert(field, bits);
            return Ok(vec![path]);
        }
        let mut on = Vec::new();
        for (mut path, value) in self.values(&path, &resolved)? {
            path.fields.insert(field, pattern::of_value(&value));
            on.push(path);
        }
        Ok(on)
    }

    /// Resolves array elements in an expression, if their indices are known.
    fn resolve(&self, expr: &Expr, path: &Path) -> Expr {
        super::map_places(expr, &|place| {
            let mut base = place.base.get();
            for Dim { index, len, stride } in &place.dims {
                let index = self.resolve(index, path);
                let bits = pattern::bits(&On(self.program, path), &index)?;
                let index = pattern::constant(&bits)?.to_u64()?;
                if index >= u64::from(*len) {
                    return None;
                }
                base += index as u32 * stride;
            }
            Some(Place::from(FieldId::from_index(base as usize)))
        })
    }

    fn verify(
        &mut self,
        cond: &Expr,
        error: &Expr,
        path: Path,
    ) -> Result<Vec<Path>, TranslateError> {
        let error = pattern::bits(&On(self.program, &path), error);
        let error = error
            .and_then(|bits| pattern::constant(&bits))
            .and_then(|error| error.to_u64());
        let Some(error) = error else {
            return refuse("verify with an error that is computed", None);
        };
        let cond = &self.resolve(cond, &path);
        let on = On(self.program, &path);
        let (holding, failing) = (
            pattern::dnf(&on, cond, true),
            pattern::dnf(&on, cond, false),
        );
        let (cubes, are_failing) = match (holding, failing) {
            (Some(holding), Some(failing)) if holding.len() < failing.len() => (holding, false),
            (_, Some(failing)) => (failing, true),
            (Some(holding), None) => (holding, false),
            (None, None) => return self.verify_known(cond, error as u32, path),
        };
        let mut path = path;
        let mut going_on = Vec::new();
        for (number, cube) in cubes.iter().enumerate() {
            let Some(asking) = path.asking(cube) else {
                continue;
            };
            let is_certain = asking.cube == path.cube;
            let asking = asking.way(number);
            match are_failing {
                true => self.end(Path {
                    error: error as u32,
                    ..asking
                })?,
                false => going_on.push(asking),
            }
            if is_certain {
                return Ok(going_on);
            }
            path.passed.push(cube.clone());
        }
        let other = path.way(cubes.len());
        match are_failing {
            true => going_on.push(other),
            false => self.end(Path {
                error: error as u32,
                ..other
            })?,
        }
        Ok(going_on)
    }

    /// Same for a condition that must be known: splits the path by its value.
    fn verify_known(
        &mut self,
        cond: &Expr,
        error: u32,
        path: Path,
    ) -> Result<Vec<Path>, TranslateError> {
        let mut going_on = Vec::new();
        for (path, holds) in self.values(&path, cond)? {
            match holds.is_zero() {
                true => self.end(Path { error, ..path })?,
                false => going_on.push(path),
            }
        }
        Ok(going_on)
    }
}

/// Returns bits of the blob.
fn blob(offset: u32, width: u32) -> Bits {
    (offset..offset + width)
        .map(|offset| Bit::At(place_of(offset)))
        .collect()
}
