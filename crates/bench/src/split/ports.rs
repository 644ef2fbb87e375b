//! `ports`: packets of UDP forwarded by their source port. It is the least that a split program
//! does.

use exec::Configuration;
use ir::Program;
use packet::{Frame, PortId};
use passes::split::SplitProgram;

use super::SplitFunction;
use crate::Hand;
use crate::names::Key;
use crate::setup::{ItemSink, SetupError};
use crate::wire::{Ipv4, UDP};
use crate::workloads::fill::Fill;

/// The program's text.
pub const PROGRAM: &str = include_str!("../../programs/split_ports.p4");

/// First source port.
pub const FIRST_PORT: u32 = 1024;

const FLOWS: u32 = 10_000;

/// The function.
pub(super) struct Ports;

impl SplitFunction for Ports {
    fn name(&self) -> &'static str {
        "ports"
    }

    fn file(&self) -> &'static str {
        "ports.p4"
    }

    fn source(&self) -> &'static str {
        PROGRAM
    }

    fn flows(&self) -> u32 {
        FLOWS
    }

    fn min_bytes(&self) -> usize {
        64
    }

    fn setup(&self, _: &Program, _: &mut ItemSink<'_>) -> Result<(), SetupError> {
        Ok(())
    }

    fn entries(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError> {
        self.entries_of(program, FLOWS, setup)
    }

    fn entries_of(
        &self,
        program: &Program,
        flows: u32,
        setup: &mut ItemSink<'_>,
    ) -> Result<(), SetupError> {
        let mut fill = Fill { program, setup };
        let ports = fill.table("ports", "to_port")?;
        for flow in 0..flows {
            fill.add(&ports, &[Key::Is((FIRST_PORT + flow).into())], &[1])?;
        }
        Ok(())
    }

    fn packet(&self, flow: u32, bytes: usize, frame: &mut Frame) {
        let packet = Ipv4 {
            dst_mac: 0x0200_0000_0002,
            src_mac: 0x0200_0000_0001,
            src: 0x0a00_0001,
            dst: 0x0a00_0002,
            ttl: 64,
            protocol: UDP,
            src_port: (FIRST_PORT + flow) as u16,
            dst_port: 6000,
            len: bytes,
        };
        frame.ingress = PortId(0);
        packet.write(frame);
    }

    fn first(&self, _: u32, _: &mut Frame) -> bool {
        false
    }

    fn request(&self, flow: u32, frame: &mut Frame) {
        self.packet(flow, self.min_bytes(), frame);
    }

    fn hand(&self, _: &mut Configuration) -> Result<Option<Hand>, SetupError> {
        Ok(None)
    }

    fn server_hand(
        &self,
        _: &SplitProgram,
        _: &mut Configuration,
    ) -> Result<Option<Hand>, SetupError> {
        Ok(None)
    }
}
