//! Formats steps as indented text.

use super::dump::{self, Difference, ROW};
use super::page::{Page, Style};
use super::step::{Bytes, Key, MatchedEntry, Named, Source, Step};
use support::amount;
use support::text_table::padded;
use switch::is_one_shot;

/// Maximum number of consecutive unchanged rows that are shown.
const MAX_ROWS_ALIKE: usize = 4;

/// Maximum number of rows shown of bytes that are not compared.
const MAX_ROWS: usize = 8;

/// Formats the steps of a packet as text. Writes that change nothing are left out.
pub(crate) fn text(steps: &[Step], colours: bool) -> String {
    let mut writer = Writer {
        page: Page::new(colours),
        depth: 0,
        loops: Vec::new(),
        stage: String::new(),
        has_copies: false,
        received: Vec::new(),
        deparsed: Vec::new(),
    };
    let is_news = |step: &&Step| !matches!(step, Step::Written { old, new, .. } if old == new);
    let news: Vec<&Step> = steps.iter().filter(is_news).collect();
    let mut rest = &news[..];
    while let Some((step, behind)) = rest.split_first() {
        rest = match step {
            // Consecutive invalid headers share a line.
            Step::NotEmitted { header } => writer.not_emitted(header, behind),
            Step::Stage { kind: "action", .. } if is_end(behind.first()) => behind,
            step => {
                writer.step(step);
                behind
            }
        };
    }
    writer.page.into_text()
}

/// Returns true if an action stage before this step did nothing.
fn is_end(step: Option<&&Step>) -> bool {
    use Step::{Block, Copied, Deparsed, Dropped, Queued, Sent, Stage};
    match step {
        None => true,
        Some(step) => matches!(
            step,
            Block { .. }
                | Copied { .. }
                | Deparsed(_)
                | Dropped { .. }
                | Queued { .. }
                | Sent(_)
                | Stage { .. }
        ),
    }
}

struct Writer {
    page: Page,
    /// Indentation of the current steps: 1 in a block, 2 in a state or stage, 3 in an action.
    depth: usize,
    /// The running loops, outermost first, with their indentation.
    loops: Vec<(u32, usize)>,
    /// The current stage.
    stage: String,
    /// True if the packet was copied.
    has_copies: bool,
    /// The packet as received.
    received: Vec<u8>,
    /// The packet as last deparsed.
    deparsed: Vec<u8>,
}

impl Writer {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Received(bytes) => self.received(bytes),
            Step::Block { role, name } => self.block(role, name),
            Step::State { state, source, .. } => self.opens("state", state, source.as_ref()),
            Step::Extracted {
                header,
                offset_bits,
                bits,
                fields,
            } => {
                self.extracted(header, *offset_bits, *bits, fields);
            }
            Step::Advanced { bits } => self.inner(&format!("advance by {}", bit_count(*bits))),
            Step::Select {
                keys,
                case,
                keyset,
                target,
            } => {
                self.select(keys, *case, keyset.as_deref(), target);
            }
            Step::Rejected { error } => self.rejected(error),
            Step::Accepted { consumed_bits } => {
                let consumed = bit_count(*consumed_bits as u64);
                self.page
                    .line(1, Style::Good, &format!("accept after {consumed}"));
            }
            Step::Stage { stage, source, .. } => {
                self.stage.clone_from(stage);
                self.opens("stage", stage, source.as_ref());
            }
            Step::Condition { condition, holds } => self.condition(condition, *holds),
            Step::Lookup {
                table,
                keys,
                hit,
                entry,
                member,
                group,
            } => {
                self.lookup(table, keys);
                self.found(*hit, entry.as_ref());
                self.chosen(*member, *group);
            }
            Step::Action {
                action,
                params,
                source,
            } => self.action(action, params, source.as_ref()),
            Step::Written {
                field,
                old,
                new,
                source,
            } => {
                let depth = self.depth;
                let page = self.page.begin(depth);
                page.plain(&format!("{field} = "))
                    .put(Style::Changed, &new.text);
                page.plain(&format!(", was {}", old.text))
                    .end_with(source.as_ref());
            }
            Step::Call { .. } => self.call(step),
            Step::Round { of, number, source } => self.round(*of, *number, source.as_ref()),
            Step::LoopLeft { of } => self.leave_loop(*of),
            Step::Folded { rounds, .. } => {
                let text = format!(
                    "... {} like these ...",
                    amount::count(*rounds as u64, "round")
                );
                let depth = self.loops.last().map_or(1, |(_, depth)| *depth);
                self.page.line(depth, Style::Faint, &text);
            }
            Step::Given { fields } => self.given(fields),
            Step::Emitted { header, bits } => {
                self.inner(&format!("emit {header} ({})", bit_count(*bits as u64)));
            }
            Step::NotEmitted { header } => self.passed_over(&[header]),
            Step::Exit => self.inner("exit"),
            Step::Learned { change, entry } => self.inner(&format!("the handler {change} {entry}")),
            Step::Plane { text, .. } => self.page.line(1, Style::Heading, text),
            Step::Message { text } => self.inner(&format!("message: {text}")),
            Step::Digest { digest, fields } => {
                self.inner(&format!("digest {digest} is sent"));
                self.named(fields);
            }
            Step::CopiesRefused {
                copies,
                reason,
                text,
            } => {
                self.depth = 0;
                let copies = match copies {
                    1 => "1 copy is".to_owned(),
                    copies => format!("{copies} copies are"),
                };
                let text = format!("{copies} refused ({reason}): {text}");
                self.page.line(0, Style::Bad, &text);
            }
            Step::NoCloneSession { session } => {
                self.depth = 0;
                let text = format!("no clone: there is no clone session {session}");
                self.page.line(0, Style::Missed, &text);
            }
            Step::Deparsed(bytes) => self.deparsed(bytes),
            Step::Copied { .. }
            | Step::Queued { .. }
            | Step::Dequeued { .. }
            | Step::Again { .. } => self.way(step),
            Step::Sent(bytes) => self.sent(bytes),
            Step::Dropped { text, .. } => {
                self.depth = 0;
                self.page.line(0, Style::Bad, &format!("dropped: {text}"));
            }
        }
    }

    /// Writes a call, with its arguments and results below it.
    fn call(&mut self, step: &Step) {
        let Step::Call {
            function,
            instance,
            constants,
            arguments,
            results,
            source,
        } = step
        else {
            return;
        };
        let on = instance.as_ref().map(|name| format!(" of {name}"));
        let text = format!("call {function}{}", on.unwrap_or_default());
        let depth = self.depth;
        self.page
            .begin(depth)
            .plain(&text)
            .end_with(source.as_ref());
        let constants = constants
            .iter()
            .map(|constant| (constant.name, constant.text.as_str(), ""));
        let values = |values: &'_ [Named], mark: &'static str| {
            let rows = values.iter();
            let rows = rows.map(|row| (row.name.clone(), row.value.text.clone(), mark));
            rows.collect::<Vec<_>>()
        };
        let mut rows: Vec<_> = constants
            .map(|(name, text, mark)| (name.to_owned(), text.to_owned(), mark))
            .collect();
        rows.extend(values(arguments, ""));
        rows.extend(values(results, "-> "));
        let widest = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
        for (name, text, mark) in rows {
            let line = format!("{}  {mark}{text}", padded(&name, widest));
            self.page.line(depth + 1, Style::Plain, &line);
        }
    }

    /// Writes the fields that the architecture sets. Zeros are left out.
    fn given(&mut self, fields: &[Named]) {
        let is_zero = |field: &&Named| field.value.is_zero();
        let fields: Vec<Named> = fields.iter().filter(|f| !is_zero(f)).cloned().collect();
        if fields.is_empty() {
            return;
        }
        self.page.line(0, Style::Heading, "set by the architecture");
        self.depth = 0;
        self.named(&fields);
    }

    /// Writes the head of a loop round. The steps of the round are indented one level deeper.
    fn round(&mut self, of: u32, number: u64, source: Option<&Source>) {
        self.leave_loop(of);
        self.loops.push((of, self.depth));
        let depth = self.depth;
        self.page
            .begin(depth)
            .plain(&format!("round {number}"))
            .end_with(source);
        self.depth += 1;
    }

    /// Restores the indentation before a loop, if the loop runs.
    fn leave_loop(&mut self, of: u32) {
        if let Some(at) = self.loops.iter().position(|(open, _)| *open == of) {
            self.depth = self.loops[at].1;
            self.loops.truncate(at);
        }
    }

    /// Writes a line about an object in a block, state, stage or action.
    fn inner(&mut self, text: &str) {
        let depth = self.depth;
        self.page.line(depth, Style::Plain, text);
    }

    fn received(&mut self, bytes: &Bytes) {
        self.received.clone_from(&bytes.bytes);
        self.deparsed.clear();
        let port = bytes.port.unwrap_or_default();
        let text = format!("received by port {port}, {}", byte_count(bytes.length));
        self.page.line(0, Style::Heading, &text);
        let rows = bytes.bytes.chunks(ROW);
        for (row, bytes) in rows.enumerate().take(MAX_ROWS) {
            self.row(row, bytes, |_| false);
        }
        let more = bytes.length.saturating_sub(MAX_ROWS * ROW);
        if more > 0 {
            self.page
                .line(1, Style::Faint, &format!("... {} more", byte_count(more)));
        }
        self.depth = 0;
    }

    fn block(&mut self, role: &str, name: &str) {
        self.depth = 1;
        self.loops.clear();
        let page = self.page.begin(0).put(Style::Heading, role);
        page.plain(&format!(" {name}")).end();
    }

    /// Writes the head of a state or stage.
    fn opens(&mut self, what: &str, name: &str, source: Option<&Source>) {
        self.depth = 2;
        self.loops.clear();
        self.page
            .begin(1)
            .plain(&format!("{what} {name}"))
            .end_with(source);
    }

    fn extracted(&mut self, header: &str, offset: usize, bits: usize, fields: &[Named]) {
        let at = bit_count(offset as u64);
        let text = format!("extract {header} ({}, after {at})", bit_count(bits as u64));
        self.inner(&text);
        self.named(fields);
    }

    /// Writes names and values, one per line, with aligned values.
    fn named(&mut self, values: &[Named]) {
        let widest = values
            .iter()
            .map(|value| value.name.len())
            .max()
            .unwrap_or(0);
        let depth = self.depth + 1;
        for Named { name, value } in values {
            let text = format!("{}  {}", padded(name, widest), value.text);
            self.page.line(depth, Style::Plain, &text);
        }
    }

    fn select(&mut self, keys: &[Named], case: Option<usize>, keyset: Option<&str>, target: &str) {
        self.inner("select");
        self.named(keys);
        let depth = self.depth + 1;
        let text = match (case, keyset) {
            (Some(case), Some(keyset)) => format!("case {} holds: {keyset}: {target}", case + 1),
            (Some(case), None) => format!("case {} holds: {target}", case + 1),
            (None, _) => format!("no case holds: {target}"),
        };
        self.page.line(depth, Style::Plain, &text);
    }

    fn rejected(&mut self, error: &str) {
        let text = match error {
            "error.NoError" => "reject".to_owned(),
            error => format!("reject with {error}"),
        };
        self.page.line(1, Style::Bad, &text);
    }

    fn condition(&mut self, condition: &str, holds: bool) {
        let (style, word) = match holds {
            true => (Style::Good, "true"),
            false => (Style::Missed, "false"),
        };
        let depth = self.depth;
        let page = self.page.begin(depth).plain(condition);
        page.plain(" is ").put(style, word).end();
    }

    fn lookup(&mut self, table: &str, keys: &[Key]) {
        // The stage of a table usually has the table's name.
        if self.stage != table {
            self.inner(&format!("table {table}"));
        }
        let widest = keys.iter().map(|key| key.name.len()).max().unwrap_or(0);
        let kinds = keys
            .iter()
            .map(|key| key.match_kind.len())
            .max()
            .unwrap_or(0);
        for Key {
            name,
            match_kind,
            value,
        } in keys
        {
            let text = &value.text;
            let (name, match_kind) = (padded(name, widest), padded(match_kind, kinds));
            self.inner(&format!("key {name}  {match_kind}  {text}"));
        }
    }

    fn found(&mut self, hit: bool, entry: Option<&MatchedEntry>) {
        let depth = self.depth;
        let page = self.page.begin(depth);
        if !hit {
            return page
                .put(Style::Missed, "miss")
                .plain(": the default action runs")
                .end();
        }
        page.put(Style::Good, "hit");
        let Some(MatchedEntry {
            id, text, is_const, ..
        }) = entry
        else {
            return page.end();
        };
        let is_const = if *is_const { " of the program" } else { "" };
        page.plain(&format!(": entry {id}{is_const}")).end();
        let text = text.as_deref();
        let text = text.unwrap_or("(added by a packet: it matches this key)");
        self.page.line(depth + 1, Style::Plain, text);
    }

    fn chosen(&mut self, member: Option<u32>, group: Option<u32>) {
        let text = match (group, member) {
            // Groups of one-shot entries have generated numbers.
            (Some(group), Some(_)) if is_one_shot(group) => {
                "one of its actions is chosen".to_owned()
            }
            (None, Some(member)) if is_one_shot(member) => return,
            (Some(group), Some(member)) => format!("group {group} chooses member {member}"),
            (Some(group), None) => format!("group {group} has no member"),
            (None, Some(member)) => format!("member {member}"),
            (None, None) => return,
        };
        self.inner(&text);
    }

    fn action(&mut self, action: &str, params: &[Named], source: Option<&Source>) {
        let params = params.iter();
        let params: Vec<String> = params
            .map(|Named { name, value }| format!("{name}: {}", value.text))
            .collect();
        self.depth = 2;
        let page = self
            .page
            .begin(2)
            .plain("action ")
            .put(Style::Heading, action);
        page.plain(&format!("({})", params.join(", ")))
            .end_with(source);
        self.depth = 3;
    }

    /// Writes consecutive invalid headers: the first one, and those that follow it. Returns the
    /// remaining steps.
    fn not_emitted<'s>(&mut self, first: &str, behind: &'s [&'s Step]) -> &'s [&'s Step] {
        let name = |step: &&'s Step| match step {
            Step::NotEmitted { header } => Some(header.as_str()),
            _ => None,
        };
        let more: Vec<&str> = behind.iter().map_while(name).collect();
        self.passed_over(&[&[first], &more[..]].concat());
        &behind[more.len()..]
    }

    fn passed_over(&mut self, headers: &[&str]) {
        let text = format!("not valid, not emitted: {}", headers.join(", "));
        let depth = self.depth;
        self.page.line(depth, Style::Faint, &text);
    }

    fn deparsed(&mut self, bytes: &Bytes) {
        self.depth = 0;
        let above = std::mem::replace(&mut self.deparsed, bytes.bytes.clone());
        self.compared("deparsed", bytes, &above);
    }

    fn sent(&mut self, bytes: &Bytes) {
        self.depth = 0;
        let port = bytes.port.unwrap_or_default();
        let text = format!("sent by port {port}");
        if bytes.bytes == self.deparsed {
            let text = format!("{text}, {}", byte_count(bytes.length));
            return self.page.line(0, Style::Good, &text);
        }
        self.compared(&text, bytes, &[]);
    }

    /// Writes the path of a packet between its blocks.
    fn way(&mut self, step: &Step) {
        self.depth = 0;
        self.has_copies |= matches!(step, Step::Copied { .. });
        let text = match step {
            Step::Copied {
                why,
                port,
                instance,
            } => {
                format!("copied ({why}): a copy for port {port}, instance {instance}")
            }
            Step::Queued {
                port,
                priority,
                depth,
            } => {
                let mut text = format!("queued for port {port}");
                if *priority > 0 {
                    text += &format!(", priority {priority}");
                }
                if *depth > 0 {
                    text += &format!(", behind {}", amount::count(u64::from(*depth), "packet"));
                }
                text
            }
            // With a single packet, it is clear which one leaves.
            Step::Dequeued { .. } if !self.has_copies => return,
            Step::Dequeued { port } => format!("the packet for port {port}"),
            Step::Again { why } => format!("starts over: {why}"),
            _ => return,
        };
        self.page.line(0, Style::Heading, &text);
    }

    /// Writes bytes, with marks where they differ from the received packet.
    fn compared(&mut self, what: &str, bytes: &Bytes, above: &[u8]) {
        let difference = Difference::new(&self.received, &bytes.bytes);
        let is_as_received = bytes.bytes == self.received;
        let is_shown = is_as_received || bytes.bytes == above;
        let changed = match difference.new_bytes() {
            _ if is_as_received => "as received".to_owned(),
            _ if is_shown => "as above".to_owned(),
            0 => "nothing new".to_owned(),
            new => format!("{} changed or new", byte_count(new)),
        };
        let text = format!("{what}, {}: {changed}", byte_count(bytes.length));
        self.page.line(0, Style::Heading, &text);
        if is_shown {
            return;
        }
        for removed in &difference.removed {
            let gone = &self.received[removed.clone()];
            let text = format!(
                "removed: {} at {:04x} ({})",
                byte_count(gone.len()),
                removed.start,
                dump::hex(&gone[..gone.len().min(ROW)])
            );
            self.page.line(1, Style::Missed, &text);
        }
        self.rows(&bytes.bytes, &difference);
    }

    fn rows(&mut self, bytes: &[u8], difference: &Difference) {
        let rows: Vec<(usize, &[u8])> = bytes.chunks(ROW).enumerate().collect();
        for alike in rows.chunk_by(|a, b| !difference.touches(a.0) && !difference.touches(b.0)) {
            let shown = match alike.len() {
                len if len > MAX_ROWS_ALIKE => 1,
                len => len,
            };
            for (row, bytes) in &alike[..shown] {
                self.row(*row, bytes, |at| difference.is_new(at));
            }
            let rest: usize = alike[shown..].iter().map(|(_, bytes)| bytes.len()).sum();
            if rest > 0 {
                let text = format!("... {} as received", byte_count(rest));
                self.page.line(1, Style::Faint, &text);
            }
        }
    }

    /// Writes a row of bytes, and below it marks under the new ones.
    fn row(&mut self, row: usize, bytes: &[u8], is_new: impl Fn(usize) -> bool) {
        let offset = row * ROW;
        let page = self
            .page
            .begin(1)
            .put(Style::Faint, &format!("{offset:04x}  "));
        let mut marks = String::from("        ");
        for (at, (gap, byte)) in dump::cells(bytes).enumerate() {
            let new = is_new(offset + at);
            let style = if new { Style::Changed } else { Style::Plain };
            page.plain(gap).put(style, &byte);
            marks += &" ".repeat(gap.len());
            marks += if new { "^^" } else { "  " };
        }
        // 16 bytes take 48 columns.
        let width = 48 + 2;
        let taken: usize = dump::cells(bytes)
            .map(|(gap, byte)| gap.len() + byte.len())
            .sum();
        page.plain(&" ".repeat(width - taken.min(width)));
        page.put(Style::Faint, &dump::characters(bytes)).end();
        let marks = marks.trim_end();
        if !marks.is_empty() {
            self.page.line(0, Style::Changed, marks);
        }
    }
}

fn byte_count(bytes: usize) -> String {
    amount::count(bytes as u64, "byte")
}

/// Formats a number of bits, in bytes if possible.
fn bit_count(bits: u64) -> String {
    match bits % 8 {
        0 => amount::count(bits / 8, "byte"),
        _ => amount::count(bits, "bit"),
    }
}
