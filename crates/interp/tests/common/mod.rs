//! A program from IR text, loaded, and packets run through its blocks without a device.
#![allow(dead_code, unreachable_pub)]

use std::sync::Arc;

use bits::Value;
use exec::{
    Configuration, ControlVerdict, Engine, Loaded, Natives, PacketContext, ParserVerdict, State,
};
use interp::Interp;
use ir::{ControlId, FieldId, Layout, ParserId, Program, ScalarTy, limbs_of};

pub struct Loaded1 {
    pub program: Arc<Program>,
    pub layout: Layout,
    pub loaded: Box<dyn Loaded>,
    pub configuration: Configuration,
}

pub fn load(text: &str) -> Loaded1 {
    load_with(text, &Natives::standard())
}

pub fn load_with(text: &str, natives: &Natives) -> Loaded1 {
    let program = ir::read(text).unwrap_or_else(|e| panic!("{e}"));
    if let Err(errors) = ir::verify(&program) {
        panic!("{errors:?}");
    }
    let program = Arc::new(program);
    let layout = Layout::of(&program);
    let loaded = Interp.load(&program, &layout, natives).unwrap();
    let configuration = Configuration::new(program.clone()).unwrap();
    Loaded1 {
        program,
        layout,
        loaded,
        configuration,
    }
}

impl Loaded1 {
    pub fn state(&mut self) -> State {
        self.configuration.snapshot()
    }

    pub fn packet(&self, bytes: &[u8]) -> PacketContext {
        let mut packet =
            PacketContext::new(&self.program, &self.layout, self.loaded.scratch_limbs());
        self.loaded.prepare(&mut packet);
        packet.begin_pass();
        packet.bytes.assign(bytes).unwrap();
        packet.length = bytes.len() as u32;
        packet
    }

    pub fn field(&self, name: &str) -> FieldId {
        let found = self.program.fields.iter().find(|(_, f)| f.name == name);
        found.unwrap_or_else(|| panic!("no field {name}")).0
    }

    pub fn get(&self, packet: &PacketContext, name: &str) -> Value {
        let field = self.field(name);
        let ty = self.program.fields[field].ty;
        let at = self.layout.offset(field) as usize;
        let limbs = &packet.frame()[at..at + limbs_of(ty) as usize];
        match ty {
            ScalarTy::Varbit(_) => Value::from_limbs(&limbs[1..], limbs[0] as u32),
            ty => Value::from_limbs(limbs, ty.width()),
        }
    }

    pub fn number(&self, packet: &PacketContext, name: &str) -> u128 {
        self.get(packet, name).to_u128().unwrap()
    }

    pub fn set(&self, packet: &mut PacketContext, name: &str, value: u128) {
        let field = self.field(name);
        let at = self.layout.offset(field) as usize;
        let value = Value::truncated(value, self.program.fields[field].ty.width());
        packet.frame_mut()[at..at + value.limbs().len()].copy_from_slice(value.limbs());
    }

    pub fn parse(&mut self, packet: &mut PacketContext) -> ParserVerdict {
        let state = self.state();
        self.loaded.run_parser(ParserId::new(0), packet, &state)
    }

    pub fn control(&mut self, name: &str, packet: &mut PacketContext) -> ControlVerdict {
        let state = self.state();
        let id = self.control_id(name);
        packet.begin_block();
        self.loaded.run_control(id, packet, &state)
    }

    pub fn control_id(&self, name: &str) -> ControlId {
        let found = self.program.controls.iter().find(|(_, c)| c.name == name);
        found.unwrap().0
    }
}

pub fn value(number: u128, width: u32) -> Value {
    Value::truncated(number, width)
}
