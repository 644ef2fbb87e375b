//! Individual reports as lines of JSON. Values that a report does not have are left out.

use std::fmt::{self, Write};

use crate::flow::FlowKey;
use crate::hop::Hop;
use crate::path::{Gaps, ReportView, ReportedHops, SinkHop};
use crate::report::{IndividualReport, ReportHeader, ReportVersion};

/// Members of a JSON object. Names and values are numbers, addresses and words of this file, which
/// need no escapes.
struct Object<'s> {
    out: &'s mut String,
    is_empty: bool,
}

impl<'s> Object<'s> {
    fn new(out: &'s mut String) -> Object<'s> {
        out.push('{');
        Object {
            out,
            is_empty: true,
        }
    }

    fn name(&mut self, name: &str) {
        self.out.push_str(if self.is_empty { "\"" } else { ",\"" });
        self.is_empty = false;
        self.out.push_str(name);
        self.out.push_str("\":");
    }

    fn flag(&mut self, name: &str, value: bool) {
        self.name(name);
        self.out.push_str(if value { "true" } else { "false" });
    }

    fn number(&mut self, name: &str, value: impl Into<u64>) {
        self.name(name);
        push_number(value.into(), self.out);
    }

    fn text(&mut self, name: &str, value: impl fmt::Display) {
        self.name(name);
        // A `String` takes all text.
        let _ = write!(self.out, "\"{value}\"");
    }

    fn known(&mut self, name: &str, value: Option<impl Into<u64>>) {
        if let Some(value) = value {
            self.number(name, value);
        }
    }

    fn end(self) {
        self.out.push('}');
    }
}

/// Appends a number in decimal.
fn push_number(mut value: u64, out: &mut String) {
    const MAX_DIGITS: usize = 20;
    let mut digits = [0; MAX_DIGITS];
    let mut at = MAX_DIGITS;
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.push_str(str::from_utf8(&digits[at..]).unwrap_or_default());
}

/// Appends one line of JSON: an individual report, its flow and its hops.
pub fn write_json_line(
    header: &ReportHeader,
    report: &IndividualReport<'_>,
    view: &ReportView<'_>,
    out: &mut String,
) {
    let mut object = Object::new(out);
    object.text(
        "version",
        match header.version {
            ReportVersion::V05 => "0.5",
            ReportVersion::V1 => "1.0",
            ReportVersion::V2 => "2.0",
        },
    );
    object.known("node", header.exporter.node.map(|node| node.0));
    object.number("hardware", header.exporter.hardware);
    object.number("sequence", header.sequence);
    let associations = report.associations;
    object.flag("dropped", associations.dropped);
    object.flag("congested", associations.congested);
    object.flag("tracked", associations.tracked);
    object.flag("intermediate", associations.intermediate);
    if let Some(drop) = report.drop_record() {
        object.name("drop");
        let mut drops = Object::new(object.out);
        drops.number("queue", drop.queue);
        drops.number("reason", drop.reason);
        drops.end();
    }
    if let Some(flow) = view.flow {
        object.name("flow");
        write_flow(&flow, object.out);
    }
    match &view.hops {
        ReportedHops::None => {}
        ReportedHops::Hop(hop) => {
            object.text("scope", "hop");
            object.name("hops");
            write_hops(std::iter::once(*hop), object.out);
        }
        ReportedHops::Path(path) => {
            object.text("scope", "path");
            object.text(
                "sink_hop",
                match path.sink_hop() {
                    SinkHop::InStack => "stack",
                    SinkHop::InReport => "report",
                    SinkHop::InBoth => "both",
                    SinkHop::Absent => "absent",
                },
            );
            object.name("missing");
            write_gaps(path.gaps(), object.out);
            object.name("hops");
            write_hops(path.hops(), object.out);
            let sum = path.summed_hop_latency().ok();
            object.known("summed_hop_latency", sum.map(|sum| sum.0));
        }
    }
    if let Some(error) = view.int_error {
        object.text("int_error", error);
    }
    object.end();
    out.push('\n');
}

fn write_flow(flow: &FlowKey, out: &mut String) {
    let mut object = Object::new(out);
    object.text("source", flow.source);
    object.text("destination", flow.destination);
    object.number("protocol", flow.protocol);
    object.known("source_port", flow.ports.map(|ports| ports.source));
    object.known(
        "destination_port",
        flow.ports.map(|ports| ports.destination),
    );
    object.end();
}

fn write_gaps(gaps: Gaps, out: &mut String) {
    let names = [
        (gaps.cut, "cut"),
        (gaps.hops_exceeded, "hops_exceeded"),
        (gaps.mtu_exceeded, "mtu_exceeded"),
        (gaps.intermediate, "intermediate"),
    ];
    let mut comma = "";
    out.push('[');
    for (_, name) in names.iter().filter(|(is_missing, _)| *is_missing) {
        out.push_str(comma);
        out.push('"');
        out.push_str(name);
        out.push('"');
        comma = ",";
    }
    out.push(']');
}

fn write_hops(hops: impl Iterator<Item = Hop>, out: &mut String) {
    out.push('[');
    for (index, hop) in hops.enumerate() {
        if index > 0 {
            out.push(',');
        }
        let mut object = Object::new(out);
        object.known("node", hop.node.map(|node| node.0));
        object.known("ingress_interface", hop.interfaces.map(|of| of.ingress));
        object.known("egress_interface", hop.interfaces.map(|of| of.egress));
        object.known("latency", hop.latency);
        object.known("queue", hop.queue.map(|of| of.id));
        object.known("queue_occupancy", hop.queue.map(|of| of.level));
        let nanoseconds = |time: crate::hop::HopTime| time.nanoseconds();
        object.known("ingress_time", hop.ingress_time.map(nanoseconds));
        object.known("egress_time", hop.egress_time.map(nanoseconds));
        let logical = hop.logical_interfaces;
        object.known("logical_ingress_interface", logical.map(|of| of.ingress));
        object.known("logical_egress_interface", logical.map(|of| of.egress));
        object.known("tx_utilisation", hop.tx_utilisation);
        object.known("buffer", hop.buffer.map(|of| of.id));
        object.known("buffer_occupancy", hop.buffer.map(|of| of.level));
        object.end();
    }
    out.push(']');
}
