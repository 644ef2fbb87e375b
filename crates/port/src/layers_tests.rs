//! Tests of the header walk.

use super::*;
use crate::nest::{Part, Position, make, parts};
use proptest::prelude::*;

proptest! {
    #[test]
    fn every_checksum_is_found_with_its_pseudo_header(
        parts in parts(),
        payload in prop::collection::vec(any::<u8>(), 1..60),
    ) {
        let made = make(&parts, &payload, Position::default());
        let layers = Layers::of(&made.bytes);
        let mut found = layers.as_slice().iter().enumerate().filter_map(|(n, layer)| {
            let at = layer.checksum_at()?;
            // The UDP header of a tunnel may have no checksum (zero).
            let is_there = layer.kind != Kind::Udp || made.bytes[at..at + 2] != [0, 0];
            let pseudo = layers.pseudo_sum(&made.bytes, n, layer.end() - layer.at());
            is_there.then_some((layer.at(), at, pseudo))
        });
        for expect in &made.checksums {
            let pseudo = Some(u32::from(expect.pseudo));
            prop_assert_eq!(found.next(), Some((expect.start, expect.at, pseudo)));
        }
        prop_assert_eq!(found.next(), None);
    }

    #[test]
    fn no_bytes_make_the_search_panic(
        parts in parts(),
        damage in prop::collection::vec((0usize..300, any::<u8>()), 0..6),
        len in 0usize..400,
        target in 0usize..400,
    ) {
        let mut bytes = make(&parts, &[7; 100], Position::default()).bytes;
        for (at, byte) in damage {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        bytes.truncate(len);
        for kind in [Kind::Tcp, Kind::Udp, Kind::Sctp] {
            Layers::up_to(&bytes, target, kind);
        }
        let layers = Layers::of(&bytes);
        for (n, layer) in layers.as_slice().iter().enumerate() {
            prop_assert!(layer.at() <= layer.end() && layer.end() <= bytes.len());
            layers.pseudo_sum(&bytes, n, layer.end() - layer.at());
        }
    }
}

#[test]
fn a_payload_that_only_resembles_a_tunnel_is_none() {
    let udp = |port, payload: &[u8]| {
        let parts = [Part::Ethernet(0), Part::V4(false), Part::Udp(port, true)];
        make(&parts, payload, Position::default()).bytes
    };
    let inside = [Part::V4(false), Part::Tcp];
    let good = make(&inside, &[1; 40], Position::default()).bytes;
    let count = |payload: &[u8]| Layers::of(&udp(7000, payload)).as_slice().len();
    assert_eq!(count(&good), 4, "IP in UDP");
    let mut wrong_checksum = good.clone();
    wrong_checksum[11] ^= 1;
    assert_eq!(count(&wrong_checksum), 2);
    let with_more = [&good[..], &[0]].concat();
    assert_eq!(count(&with_more), 2);
    assert_eq!(count(&[0x08; 60]), 2);
}

#[test]
fn headers_in_an_encapsulation_that_is_not_known_are_found_from_the_target() {
    let outside = [Part::Ethernet(1), Part::V4(false), Part::Udp(1701, true)];
    let inside = [Part::V6(1), Part::Tcp];
    let inside = make(&inside, &[1; 40], Position::default()).bytes;
    let made = make(
        &outside,
        &[&[0xc8; 14], &inside[..]].concat(),
        Position::default(),
    );
    let target = made.bytes.len() - 40 - 32;
    let layers = Layers::up_to(&made.bytes, target, Kind::Tcp).unwrap();
    let kinds: Vec<Kind> = layers.as_slice().iter().map(|l| l.kind).collect();
    let to = (target - 48 + 24) as u32;
    assert_eq!(kinds, [Kind::V4, Kind::Udp, Kind::V6(to), Kind::Tcp]);
    assert_eq!(Layers::up_to(&made.bytes, target + 2, Kind::Tcp), None);
}
