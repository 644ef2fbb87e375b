//! The paper's figures 4 and 5: two flows in the NIC, and frames before and after.

use offload::tc::RulePlanes;
use offload::{Edit, Step};
use packet::PortId;

use crate::bed::{Bed, flow, ipv4_checksum, name_of, run, set, udp_frame};

fn show(title: &str, frame: &[u8]) {
    let hex: Vec<String> = frame
        .iter()
        .take(48)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    println!("  {title} ({} bytes): {} ...", frame.len(), hex.join(" "));
}

#[test]
fn figures_4_and_5_set_field_needs_its_checksum_and_add_field_is_in_hardware() {
    let Some(mut bed) = Bed::open() else { return };
    let output = Step::Output(PortId(1));
    let new_destination = set(30, &[10, 2, 2, 2]);
    let as_printed = flow(
        &[(26, &[2, 2, 2, 3])],
        vec![new_destination.clone(), output.clone()],
    );
    let reason = bed
        .translate(&as_printed, RulePlanes::Both)
        .expect_err("it has no checksum action");
    println!("figure 4 (a) as printed: {reason}");
    assert!(reason.contains("leaves its checksum as it was"), "{reason}");
    let checksum = Step::Edit(ipv4_checksum(14));
    let first = flow(
        &[(26, &[2, 2, 2, 3])],
        vec![new_destination, checksum, output.clone()],
    );
    let field = Edit::Insert {
        offset: 14,
        bytes: vec![0x0A, 0x0A, 0x09, 0x08],
    };
    let second = flow(&[(26, &[2, 2, 2, 2])], vec![Step::Edit(field), output]);
    let frames = [
        udp_frame([2, 2, 2, 3], [1, 1, 1, 1], 60),
        udp_frame([2, 2, 2, 2], [1; 4], 124),
    ];
    let lengths = [60, 128];
    for planes in [RulePlanes::Both, RulePlanes::Software] {
        for (index, flow) in [&first, &second].into_iter().enumerate() {
            let rule = bed.translate(flow, planes).expect("the flow is offloaded");
            let installed = bed.add(rule).expect("the kernel takes the rule");
            assert_eq!(installed.in_hardware, planes == RulePlanes::Both);
            let frame = &frames[index];
            let out = bed.exchange(frame);
            assert_eq!(out, Bed::expected(flow, frame));
            assert_eq!(out[0].1.len(), lengths[index]);
            let counts = bed.read(&installed).counts;
            let (packets, bytes) = match planes {
                RulePlanes::Software => (counts.software_packets, counts.software_bytes),
                _ => (counts.hardware_packets, counts.hardware_bytes),
            };
            assert_eq!((packets, bytes), (1, frame.len() as u64));
            if planes == RulePlanes::Both {
                println!("figure 4, flow {}:", index + 1);
                print!("{}", bed.read(&installed).text(name_of));
                show("figure 5, in ", frame);
                show("figure 5, out", &out[0].1);
                print!(
                    "{}",
                    run("tc", &["-s", "filter", "show", "dev", "nic0", "ingress"])
                );
            }
            bed.remove(&installed);
        }
    }
}
