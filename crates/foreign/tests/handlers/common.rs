//! Devices with C handlers, from IR text and C text.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use exec::{Engine, FastPath, Loaded, Natives, Unsupported};
use foreign::{CodeText, CompileOptions, Compiled, HandlerState, LoadOptions};
use ir::{Layout, Program};
use packet::{Nanos, PortId};
use switch::{Device, DeviceConfig};

/// Engine with the handlers of one program.
struct WithHandlers {
    engine: Arc<dyn Engine>,
    natives: Natives,
}

impl Engine for WithHandlers {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn load(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        _: &Natives,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        self.engine.load(program, layout, &self.natives)
    }

    fn load_with(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        _: &Natives,
        pass: &FastPath,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        self.engine.load_with(program, layout, &self.natives, pass)
    }
}

/// Returns a v1model program: a header `h` with these fields, these declarations, and this code of
/// ingress.
pub(crate) fn program(fields: &str, declarations: &str, ingress: &str) -> Arc<Program> {
    let text = format!(
        r#"program t v1model
file "app.p4c"
errors {{NoError, PacketTooShort, NoMatch, StackOutOfBounds, HeaderTooShort}}
enum Color {{Red, Green, 'odd colour'}}
header_type h_t {{
{fields}
}}
header hdr.h: h_t
field sm.ingress_port: bit<9>
field sm.egress_spec: bit<9>
field sm.egress_port: bit<9>
field sm.instance_type: bit<32>
field sm.packet_length: bit<32>
field sm.enq_timestamp: bit<32>
field sm.enq_qdepth: bit<19>
field sm.deq_timedelta: bit<32>
field sm.deq_qdepth: bit<19>
field sm.ingress_global_timestamp: bit<48>
field sm.egress_global_timestamp: bit<48>
field sm.mcast_grp: bit<16>
field sm.egress_rid: bit<16>
field sm.parser_error: error
field sm.priority: bit<3>
{declarations}
parser p start start {{
    state start {{
        extract hdr.h;
        goto accept;
    }}
}}
control ingress {{
{ingress}
}}
control egress {{
    stage egress.code: action next end {{
    }}
}}
control deparser {{
    stage deparser.code: action next end {{
        emit hdr.h;
    }}
}}
block parser = parser p
block ingress = control ingress
block egress = control egress
block deparser = control deparser
intrinsic standard_metadata.ingress_port = sm.ingress_port
intrinsic standard_metadata.egress_spec = sm.egress_spec
intrinsic standard_metadata.egress_port = sm.egress_port
intrinsic standard_metadata.instance_type = sm.instance_type
intrinsic standard_metadata.packet_length = sm.packet_length
intrinsic standard_metadata.enq_timestamp = sm.enq_timestamp
intrinsic standard_metadata.enq_qdepth = sm.enq_qdepth
intrinsic standard_metadata.deq_timedelta = sm.deq_timedelta
intrinsic standard_metadata.deq_qdepth = sm.deq_qdepth
intrinsic standard_metadata.ingress_global_timestamp = sm.ingress_global_timestamp
intrinsic standard_metadata.egress_global_timestamp = sm.egress_global_timestamp
intrinsic standard_metadata.mcast_grp = sm.mcast_grp
intrinsic standard_metadata.egress_rid = sm.egress_rid
intrinsic standard_metadata.parser_error = sm.parser_error
intrinsic standard_metadata.priority = sm.priority
"#
    );
    let program = ir::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    if let Err(errors) = ir::verify(&program) {
        panic!("{errors:#?}");
    }
    Arc::new(program)
}

/// Returns the directory of the tests' compiled code.
pub(crate) fn cache() -> PathBuf {
    std::env::temp_dir().join(format!("polyplane-foreign-{}", std::process::id()))
}

pub(crate) fn code(text: &str) -> Vec<CodeText> {
    vec![CodeText {
        file: "app.p4c".to_owned(),
        line: 100,
        text: text.to_owned(),
    }]
}

pub(crate) fn options(compiler: &str) -> CompileOptions {
    CompileOptions {
        compiler: Some(OsString::from(compiler)),
        ..CompileOptions::new(&cache())
    }
}

pub(crate) fn compile(program: &Program, text: &str, compiler: &str) -> Compiled {
    match foreign::compile(program, &code(text), &options(compiler)) {
        Ok(compiled) => {
            assert_eq!(compiled.warnings(), [], "{compiler}");
            compiled
        }
        Err(error) => panic!("{compiler}: {error}"),
    }
}

/// Returns the compilers that exist here, of the system's, GCC, Clang and TinyCC.
pub(crate) fn compilers() -> Vec<&'static str> {
    let exists = |name: &&str| {
        let found = std::process::Command::new(name).arg("-v").output().is_ok();
        if !found {
            eprintln!("skipped: there is no {name} here");
        }
        found
    };
    ["cc", "clang", "tcc"].into_iter().filter(exists).collect()
}

pub(crate) fn engines() -> [Arc<dyn Engine>; 2] {
    let jit = jit::Jit::new(Arc::new(interp::Interp));
    [Arc::new(interp::Interp), Arc::new(jit)]
}

/// Returns a device with this C code for its handlers, and with this state.
pub(crate) fn device_with(
    program: &Arc<Program>,
    compiled: &Compiled,
    state: &HandlerState,
    engine: &Arc<dyn Engine>,
) -> Device {
    let natives = foreign::load(compiled, program, state, &LoadOptions::default());
    let engine = WithHandlers {
        engine: Arc::clone(engine),
        natives: natives.unwrap_or_else(|error| panic!("{error}")),
    };
    Device::new(Arc::clone(program), &engine, &DeviceConfig::default()).unwrap()
}

/// Runs `check` with a device for each engine and each compiler.
pub(crate) fn each_device(program: &Arc<Program>, text: &str, mut check: impl FnMut(&mut Device)) {
    for compiler in compilers() {
        let compiled = compile(program, text, compiler);
        for engine in engines() {
            eprintln!("{compiler}, {}", engine.name());
            check(&mut device_with(
                program,
                &compiled,
                &HandlerState::default(),
                &engine,
            ));
        }
    }
}

/// Sends a packet at this time. Returns the packets that leave: port and bytes.
pub(crate) fn send(device: &mut Device, bytes: &[u8], now: u64) -> Vec<(u32, Vec<u8>)> {
    device.receive(PortId(0), bytes).unwrap();
    device.step(Nanos(now));
    let mut sent = Vec::new();
    device.drain_sent(|port, bytes, _| sent.push((port.0, bytes.to_vec())));
    device.check_conservation().unwrap();
    sent
}

/// As [`send`], by the fast path where the engine has one.
pub(crate) fn forward(device: &mut Device, bytes: &[u8], now: u64) -> Vec<(u32, Vec<u8>)> {
    let mut frames = [packet::Frame::from_bytes(bytes).unwrap()];
    let mut sent = Vec::new();
    device.forward(&mut frames, Nanos(now), |port, frame, _| {
        sent.push((port.0, frame.bytes().to_vec()));
    });
    device.check_conservation().unwrap();
    sent
}
