//! Trace sinks: [`Quiet`] ignores all steps, [`Telling`] reports them. The interpreter loop is
//! compiled once for each.

use std::collections::HashMap;

use bits::{Value, limbs_for};
use exec::slots::SlotValue;
use exec::slots::call::{Called, ExternCall};
use exec::slots::header::HeaderSite;
use exec::slots::table::{Applied, TableSite};
use exec::{TraceEvent, Tracer};
use ir::{Call, FieldId, HeaderId, Layout, Operand, Program, ScalarTy, limbs_of};
use table::EntryId;

use super::Outcome;
use crate::code::{Code, Tell};

/// Trace sink of a run.
pub(crate) trait TraceSink {
    /// True if steps are reported.
    const ON: bool;

    fn tell(&mut self, tell: &Tell, limbs: &[u64], code: &Code);
    fn looked_up(
        &mut self,
        table: &TableSite,
        limbs: &[u64],
        applied: &Applied<'_>,
        entry: Option<EntryId>,
    );
    fn extracted(
        &mut self,
        header: &HeaderSite,
        distance: usize,
        limbs: &[u64],
        offset: usize,
        bits: usize,
    );
    fn advanced(&mut self, bits: u64);
    fn emitted(&mut self, header: &HeaderSite, distance: usize, bits: Option<usize>);
    /// Reports the result of a call.
    fn called(&mut self, called: Called);
}

/// Trace sink that ignores all steps, at no cost.
pub(crate) struct Quiet;

impl TraceSink for Quiet {
    const ON: bool = false;

    fn tell(&mut self, _: &Tell, _: &[u64], _: &Code) {}
    fn looked_up(&mut self, _: &TableSite, _: &[u64], _: &Applied<'_>, _: Option<EntryId>) {}
    fn extracted(&mut self, _: &HeaderSite, _: usize, _: &[u64], _: usize, _: usize) {}
    fn advanced(&mut self, _: u64) {}
    fn emitted(&mut self, _: &HeaderSite, _: usize, _: Option<usize>) {}
    fn called(&mut self, _: Called) {}
}

/// Trace sink that reports every step to a tracer.
pub(crate) struct Telling<'t> {
    tracer: &'t mut dyn Tracer,
    program: &'t Program,
    layout: &'t Layout,
    /// All fields before the current statement.
    before: Vec<u64>,
    /// Checksum that the current call has computed.
    checksum: Option<u64>,
    /// Current iteration of each loop.
    rounds: HashMap<u32, u64>,
}

impl<'t> Telling<'t> {
    pub(crate) fn new(
        tracer: &'t mut dyn Tracer,
        program: &'t Program,
        layout: &'t Layout,
    ) -> Telling<'t> {
        Telling {
            tracer,
            program,
            layout,
            before: Vec::new(),
            checksum: None,
            rounds: HashMap::new(),
        }
    }

    /// Reports the end of a parser.
    pub(crate) fn parser_ended(&mut self, outcome: Outcome, consumed: usize) {
        match outcome {
            Outcome::Done => self.tracer.event(TraceEvent::Accepted { consumed }),
            Outcome::Reject(error) => self.tracer.event(TraceEvent::Rejected { error }),
            Outcome::Drop(_) => {}
        }
    }

    /// Reports each field that changed since [`Tell::Before`], and `target` in any case.
    fn written(&mut self, target: FieldId, loc: Option<ir::Loc>, limbs: &[u64]) {
        for (field, declared) in self.program.fields.iter() {
            let at = self.layout.offset(field) as usize;
            let span = at..at + limbs_of(declared.ty) as usize;
            let (Some(old), Some(new)) = (self.before.get(span.clone()), limbs.get(span)) else {
                continue;
            };
            if old != new || field == target {
                self.tracer.event(TraceEvent::Written {
                    field,
                    old: value(old, declared.ty),
                    new: value(new, declared.ty),
                    loc,
                });
            }
        }
    }

    /// Returns the event of a call with its values. The results are not yet moved to their
    /// destinations.
    fn call_event(
        &mut self,
        code: &ExternCall,
        call: &Call,
        loc: Option<ir::Loc>,
        limbs: &[u64],
    ) -> TraceEvent {
        let read = |from: &SlotValue| {
            let slot = from.slot as usize;
            value(&limbs[slot..slot + limbs_of(from.ty) as usize], from.ty)
        };
        let values = code.values();
        let (mut ins, mut data) = (values.ins.iter(), values.data.iter());
        let mut arguments = Vec::new();
        for operand in &call.operands {
            match operand {
                Operand::In(_) => arguments.extend(ins.next().map(read)),
                Operand::Data(values) => {
                    arguments.extend(data.by_ref().take(values.len()).map(read));
                }
                _ => {}
            }
        }
        let mut results: Vec<Value> = values.outs.iter().map(read).collect();
        if let (Some(sum), Some(given)) = (self.checksum.take(), values.ins.get(1)) {
            results.push(Value::truncated(sum.into(), given.ty.width()));
        }
        TraceEvent::Call {
            call: Box::new(call.clone()),
            arguments,
            results,
            loc,
        }
    }

    /// Returns the header stack element at `distance` limbs from the instance.
    fn header(&self, header: &HeaderSite, distance: usize) -> HeaderId {
        let slot = header.valid as usize + distance;
        let found = self
            .program
            .headers
            .iter()
            .find(|(_, h)| self.layout.offset(h.valid) as usize == slot);
        found.map_or(header.id, |(id, _)| id)
    }
}

/// Returns the value in a field's limbs. A varbit has its current width.
fn value(limbs: &[u64], ty: ScalarTy) -> Value {
    match ty {
        ScalarTy::Varbit(most) => {
            let width = limbs.first().map_or(0, |&bits| bits as u32).min(most);
            Value::from_limbs(&limbs[1..], width)
        }
        ty => Value::from_limbs(limbs, ty.width()),
    }
}

impl TraceSink for Telling<'_> {
    const ON: bool = true;

    fn tell(&mut self, tell: &Tell, limbs: &[u64], code: &Code) {
        let event = match tell {
            Tell::State(parser, state) => TraceEvent::State {
                parser: *parser,
                state: *state,
            },
            Tell::Stage(control, stage) => TraceEvent::Stage {
                control: *control,
                stage: *stage,
            },
            Tell::Condition(holds) => TraceEvent::Condition { holds: *holds },
            Tell::Select(keys, case, target) => TraceEvent::Select {
                keys: keys
                    .iter()
                    .map(|&(slot, width)| {
                        let slot = slot as usize;
                        Value::from_limbs(&limbs[slot..slot + limbs_for(width)], width)
                    })
                    .collect(),
                case: *case,
                target: *target,
            },
            Tell::Action(action) => {
                let mut slot = code.actions[*action].params as usize;
                let params = self.program.actions[*action].params.iter();
                let params = params.map(|param| {
                    let at = slot;
                    slot += limbs_of(param.ty) as usize;
                    value(&limbs[at..slot], param.ty)
                });
                TraceEvent::Action {
                    action: *action,
                    params: params.collect(),
                }
            }
            Tell::Exit => TraceEvent::Exit,
            Tell::Before => {
                self.before.clear();
                self.before
                    .extend_from_slice(&limbs[..self.layout.limbs() as usize]);
                return;
            }
            Tell::After(target, loc) => return self.written(*target, *loc, limbs),
            Tell::Call(at, call, loc) => {
                self.call_event(&code.calls[*at as usize], call, *loc, limbs)
            }
            Tell::Loop(of) => {
                self.rounds.insert(*of, 0);
                return;
            }
            Tell::Round(of, loc) => {
                let number = self.rounds.entry(*of).or_default();
                *number += 1;
                TraceEvent::Round {
                    of: *of,
                    number: *number,
                    loc: *loc,
                }
            }
            Tell::LoopLeft(of) => TraceEvent::LoopLeft { of: *of },
        };
        self.tracer.event(event);
    }

    fn looked_up(
        &mut self,
        table: &TableSite,
        limbs: &[u64],
        applied: &Applied<'_>,
        entry: Option<EntryId>,
    ) {
        let mut slot = table.key as usize;
        let key = table.key_widths.iter().map(|&width| {
            let at = slot;
            slot += limbs_for(width);
            Value::from_limbs(&limbs[at..slot], width)
        });
        let key = key.collect();
        self.tracer.event(TraceEvent::Lookup {
            table: table.id,
            key,
            hit: applied.hit,
            entry,
            member: applied.member,
            group: applied.group,
        });
    }

    fn extracted(
        &mut self,
        header: &HeaderSite,
        distance: usize,
        limbs: &[u64],
        offset: usize,
        bits: usize,
    ) {
        let id = self.header(header, distance);
        let valid = self.program.headers[id].valid.get();
        let fields = (0..header.fields.len() as u32).filter_map(|i| {
            let field = FieldId::new(valid + 1 + i);
            let ty = self.program.fields.get(field)?.ty;
            let at = self.layout.offset(field) as usize;
            Some((field, value(&limbs[at..at + limbs_of(ty) as usize], ty)))
        });
        let fields = fields.collect();
        self.tracer.event(TraceEvent::Extracted {
            header: id,
            offset,
            bits,
            fields,
        });
    }

    fn advanced(&mut self, bits: u64) {
        self.tracer.event(TraceEvent::Advanced { bits });
    }

    fn emitted(&mut self, header: &HeaderSite, distance: usize, bits: Option<usize>) {
        let header = self.header(header, distance);
        self.tracer.event(match bits {
            Some(bits) => TraceEvent::Emitted { header, bits },
            None => TraceEvent::NotEmitted { header },
        });
    }

    fn called(&mut self, called: Called) {
        self.checksum = called.checksum;
    }
}
