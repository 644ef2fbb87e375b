//! Tests that data from a server is not trusted: P4Infos and entities with changed bytes are
//! decoded or refused.

use controller::{Catalog, datum};
use p4info::P4Info;
use p4info::p4::v1::Entity;
use support::rng::Xorshift;

/// Random changes that are the same in each run.
struct Numbers(Xorshift);

impl Numbers {
    /// The bytes with a few of them changed, left out or doubled.
    fn change(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.0.index(3) {
            if bytes.is_empty() {
                break;
            }
            let at = self.0.index(bytes.len());
            match self.0.index(4) {
                0 => bytes[at] = self.0.index(256) as u8,
                1 => bytes[at] ^= 1 << self.0.index(8),
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, bytes[at]),
            }
        }
        bytes
    }
}

fn info() -> P4Info {
    let program = ir::read(include_str!("../../entries/tests/guide.ir"));
    let program = program.unwrap_or_else(|error| panic!("guide.ir:{error}"));
    p4info::p4info(&program).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

const STATEMENTS: &str = "
    ipv4_lpm { hdr.ipv4.dst_addr: 10.0.0.0/8 } -> forward(port: 3, mac: 1)
    acl { meta.dst_port: 80..443; hdr.ipv4.src_addr: 10.0.0.0/8; hdr.ipv4.protocol: 6 } -> drop() priority 10
    next_hops member 1 -> next_hop(port: 1)
    next_hops group 7 { 1 weight 3 } max_size 8
    ecmp { hdr.ipv4.dst_addr: 10.2.0.0/16 } -> { next_hop(1) weight 2, next_hop(2) }
    multicast 5 { port 1 instance 2 }
    clone 3 { port 4 } truncate 128 class 2
    register pairs[0] = { 1, true }
    meter limits[0] cir 1000 cburst 100 pir 2000 pburst 200
    counter rx[1] = packets 7
    value_set port_types { (1, 0x800), (_, 0x800 &&& 0xff00) }
";

#[test]
fn entities_with_changed_bytes_are_read_or_refused() {
    let catalog = Catalog::new(info()).unwrap_or_else(|error| panic!("{error}"));
    let file = catalog.schema.read("statements", STATEMENTS);
    let file = file.unwrap_or_else(|errors| panic!("{}", errors[0]));
    let mut numbers = Numbers(Xorshift::new(1));
    let (mut read, mut refused) = (0, 0);
    for update in file.updates() {
        let entity = catalog
            .entity(update)
            .unwrap_or_else(|error| panic!("{error}"));
        let bytes = p4info::to_bytes(&Entity {
            entity: Some(entity),
        });
        for _ in 0..2000 {
            let Ok(entity) = p4info::from_bytes::<Entity>(&numbers.change(&bytes)) else {
                continue;
            };
            let Some(entity) = entity.entity else {
                continue;
            };
            match catalog.read(&entity) {
                // Decoded entities can be formatted.
                Ok(one) => {
                    assert!(!catalog.schema.statement(&one.update).is_empty());
                    read += 1;
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    refused += 1;
                }
            }
        }
    }
    assert!(read > 500 && refused > 500, "{read} and {refused}");
}

#[test]
fn p4infos_with_changed_bytes_are_taken_or_refused() {
    let own = Catalog::new(info()).unwrap_or_else(|error| panic!("{error}"));
    let file = own.schema.read("statements", STATEMENTS);
    let file = file.unwrap_or_else(|errors| panic!("{}", errors[0]));
    let entity = |update| own.entity(update).unwrap_or_else(|error| panic!("{error}"));
    let entities: Vec<_> = file.updates().iter().map(entity).collect();
    let bytes = p4info::to_bytes(&info());
    let mut numbers = Numbers(Xorshift::new(2));
    let mut taken = 0;
    for _ in 0..3000 {
        let Ok(info) = p4info::from_bytes::<P4Info>(&numbers.change(&bytes)) else {
            continue;
        };
        let Ok(catalog) = Catalog::new(info) else {
            continue;
        };
        taken += 1;
        for entity in &entities {
            if let Ok(one) = catalog.read(entity) {
                assert!(!catalog.schema.statement(&one.update).is_empty());
                // The update may be refused, but must not cause a panic.
                let _ = catalog.entity(&one.update);
            }
            if let p4info::p4::v1::entity::Entity::RegisterEntry(cell) = entity
                && let Some(data) = &cell.data
            {
                let spec = catalog.info.registers.first();
                let spec = spec.and_then(|register| register.type_spec.as_ref());
                let _ = datum(&catalog, spec, "", data);
            }
        }
    }
    assert!(taken > 200, "{taken}");
}
