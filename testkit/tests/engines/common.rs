//! Loads a program from IR text on every engine, and runs packets through its blocks without a
//! device.
//!
//! Every operation on a packet runs on every engine, each with its own state. The results must be
//! equal in everything that a packet contains.

use std::sync::Arc;

use bits::Value;
use exec::{Configuration, ControlVerdict, Loaded, Natives, PacketContext, ParserVerdict, State};
use ir::{ControlId, FieldId, Layout, ParserId, Program, ScalarTy, limbs_of};

/// A program on one engine.
struct Runner {
    name: &'static str,
    loaded: Arc<dyn Loaded>,
    configuration: Configuration,
}

pub(crate) struct Engines {
    pub(crate) program: Arc<Program>,
    pub(crate) layout: Layout,
    runners: Vec<Runner>,
}

pub(crate) fn load(text: &str) -> Engines {
    load_with(text, &Natives::standard())
}

pub(crate) fn load_with(text: &str, natives: &Natives) -> Engines {
    let program = ir::read(text).unwrap_or_else(|e| panic!("{e}"));
    load_program(program, natives)
}

pub(crate) fn load_program(program: Program, natives: &Natives) -> Engines {
    if let Err(errors) = ir::verify(&program) {
        panic!("{errors:#?}");
    }
    let program = Arc::new(program);
    let layout = Layout::of(&program);
    let runners = testkit::engines().into_iter().map(|engine| Runner {
        name: engine.name(),
        loaded: engine.load(&program, &layout, natives).unwrap(),
        configuration: Configuration::new(program.clone()).unwrap(),
    });
    Engines {
        runners: runners.collect(),
        program,
        layout,
    }
}

impl Runner {
    /// Runs a block on a copy of a packet.
    fn run<V>(
        &mut self,
        engines: (&Program, &Layout),
        packet: &PacketContext,
        run: &impl Fn(&dyn Loaded, &mut PacketContext, &State) -> V,
    ) -> (V, PacketContext) {
        let (program, layout) = engines;
        let mut copy = PacketContext::new(program, layout, self.loaded.scratch_limbs());
        self.loaded.prepare(&mut copy);
        copy.frame_mut().copy_from_slice(packet.frame());
        copy.bytes.copy_from(&packet.bytes);
        copy.cursor = packet.cursor;
        copy.emitted = packet.emitted.clone();
        copy.requests = packet.requests;
        copy.checksums = packet.checksums.clone();
        copy.random = packet.random;
        copy.now = packet.now;
        copy.length = packet.length;
        copy.work_left = packet.work_left;
        copy.current = packet.current;
        copy.log = packet.log.clone();
        copy.digests = packet.digests.clone();
        let state = self.configuration.snapshot();
        let verdict = run(self.loaded.as_ref(), &mut copy, &state);
        (verdict, copy)
    }
}

/// Formats everything that a packet contains except its frame.
fn rest(packet: &PacketContext) -> String {
    format!(
        "{:?}",
        (
            packet.bytes.bytes(),
            packet.cursor,
            (packet.emitted.bits(), packet.emitted.bytes()),
            &packet.requests,
            &packet.checksums,
            packet.random,
            (packet.work_left, packet.length),
            &packet.current,
            &packet.log,
            &packet.digests,
        )
    )
}

impl Engines {
    /// Returns a new packet of these bytes.
    pub(crate) fn packet(&self, bytes: &[u8]) -> PacketContext {
        let mut packet = PacketContext::new(&self.program, &self.layout, 0);
        packet.begin_pass();
        packet.bytes.assign(bytes).unwrap();
        packet.length = bytes.len() as u32;
        packet
    }

    fn field(&self, name: &str) -> FieldId {
        let found = self.program.fields.iter().find(|(_, f)| f.name == name);
        found.unwrap_or_else(|| panic!("no field {name}")).0
    }

    pub(crate) fn get(&self, packet: &PacketContext, name: &str) -> Value {
        let field = self.field(name);
        let ty = self.program.fields[field].ty;
        let at = self.layout.offset(field) as usize;
        let limbs = &packet.frame()[at..at + limbs_of(ty) as usize];
        match ty {
            ScalarTy::Varbit(_) => Value::from_limbs(&limbs[1..], limbs[0] as u32),
            ty => Value::from_limbs(limbs, ty.width()),
        }
    }

    pub(crate) fn number(&self, packet: &PacketContext, name: &str) -> u128 {
        self.get(packet, name).to_u128().unwrap()
    }

    pub(crate) fn set(&self, packet: &mut PacketContext, name: &str, value: u128) {
        let field = self.field(name);
        let at = self.layout.offset(field) as usize;
        let value = Value::truncated(value, self.program.fields[field].ty.width());
        packet.frame_mut()[at..at + value.limbs().len()].copy_from_slice(value.limbs());
    }

    pub(crate) fn parse(&mut self, packet: &mut PacketContext) -> ParserVerdict {
        self.run(packet, |loaded, packet, state| {
            loaded.run_parser(ParserId::new(0), packet, state)
        })
    }

    pub(crate) fn control(&mut self, name: &str, packet: &mut PacketContext) -> ControlVerdict {
        let id = self.control_id(name);
        packet.begin_block();
        self.run(packet, |loaded, packet, state| {
            loaded.run_control(id, packet, state)
        })
    }

    /// Same, with a tracer that discards its events.
    pub(crate) fn traced_control(
        &mut self,
        name: &str,
        packet: &mut PacketContext,
    ) -> ControlVerdict {
        let id = self.control_id(name);
        packet.begin_block();
        self.run(packet, |loaded, packet, state| {
            loaded.trace_control(id, packet, state, &mut |_| {})
        })
    }

    /// Runs a block on every engine. The packet becomes the result.
    fn run<V: PartialEq + std::fmt::Debug>(
        &mut self,
        packet: &mut PacketContext,
        run: impl Fn(&dyn Loaded, &mut PacketContext, &State) -> V,
    ) -> V {
        let mut first: Option<(V, PacketContext)> = None;
        for runner in &mut self.runners {
            let ran = runner.run((&self.program, &self.layout), packet, &run);
            let Some(first) = &first else {
                first = Some(ran);
                continue;
            };
            let name = runner.name;
            assert_eq!(ran.0, first.0, "the verdict of {name}");
            for (id, field) in self.program.fields.iter() {
                let at = self.layout.offset(id) as usize;
                let limbs = at..at + limbs_of(field.ty) as usize;
                let (limbs, expected) = (&ran.1.frame()[limbs.clone()], &first.1.frame()[limbs]);
                assert_eq!(limbs, expected, "{} by {name}", field.name);
            }
            assert_eq!(rest(&ran.1), rest(&first.1), "by {name}");
        }
        let (verdict, ran) = first.expect("there is an engine");
        *packet = ran;
        verdict
    }

    fn control_id(&self, name: &str) -> ControlId {
        let found = self.program.controls.iter().find(|(_, c)| c.name == name);
        found.unwrap().0
    }

    /// Returns the device's side of the program's state, for each engine.
    pub(crate) fn configurations(&mut self) -> impl Iterator<Item = &mut Configuration> {
        self.runners.iter_mut().map(|r| &mut r.configuration)
    }
}

pub(crate) fn value(number: u128, width: u32) -> Value {
    Value::truncated(number, width)
}
