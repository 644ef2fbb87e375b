//! Tests of the properties of routing tables.

use std::collections::{HashMap, HashSet};

use generators::{Family, Route, RoutingTable};

fn count_by_len(routes: &[Route]) -> HashMap<u8, usize> {
    let mut counts = HashMap::new();
    for route in routes {
        *counts.entry(route.len).or_default() += 1;
    }
    counts
}

#[test]
fn a_table_is_the_same_in_every_run_and_differs_by_seed() {
    for family in [Family::V4, Family::V6] {
        let routes = |seed| RoutingTable::generate(family, 500, seed).routes().to_vec();
        assert_eq!(routes(1), routes(1));
        assert_ne!(routes(1), routes(2));
    }
}

#[test]
fn tables_have_the_size_asked_for_without_repetition_and_the_lengths_of_the_internet() {
    for (family, longest_share) in [(Family::V4, (24, 0.593)), (Family::V6, (48, 0.403))] {
        let table = RoutingTable::generate(family, 50_000, 7);
        let different: HashSet<_> = table.routes().iter().collect();
        assert_eq!(different.len(), 50_000);
        let (len, share) = longest_share;
        let counted = count_by_len(table.routes())[&len] as f64 / 50_000.0;
        assert!((counted - share).abs() < 0.03, "{counted}");
    }
}

#[test]
fn prefixes_have_no_bits_behind_their_end_and_lie_in_public_space() {
    for family in [Family::V4, Family::V6] {
        for route in RoutingTable::generate(family, 20_000, 3).routes() {
            let host_bits = family.width() - u32::from(route.len);
            assert_eq!(route.address.trailing_zeros().min(host_bits), host_bits);
            match family {
                Family::V4 => {
                    assert!(![0, 127].contains(&(route.address >> 24)) && route.address >> 28 < 14)
                }
                Family::V6 => assert_eq!(route.address >> 125, 1),
            }
        }
    }
}

#[test]
fn addresses_gather_as_those_of_the_internet_do() {
    let table = RoutingTable::generate(Family::V4, 100_000, 1);
    let long: Vec<_> = table
        .routes()
        .iter()
        .filter(|route| route.len > 18)
        .collect();
    let blocks: HashSet<_> = long.iter().map(|route| route.address >> 14).collect();
    // With a uniform distribution, a hundred thousand prefixes would be in about eighty thousand
    // /18 blocks.
    assert!(blocks.len() < 50_000, "{} blocks", blocks.len());
}

#[test]
fn every_destination_lies_in_a_route() {
    for family in [Family::V4, Family::V6] {
        let table = RoutingTable::generate(family, 1000, 5);
        let routes: HashSet<_> = table.routes().iter().copied().collect();
        let destinations = table.destinations(500, 6);
        let limbs = bits::limbs_for(family.width());
        assert_eq!(table.keys(&destinations).len(), 500 * limbs);
        for address in destinations {
            let hit = (1..=family.width()).any(|len| {
                let host_bits = family.width() - len;
                let address = address >> host_bits << host_bits;
                routes.contains(&Route {
                    address,
                    len: len as u8,
                })
            });
            assert!(hit, "{address:x}");
        }
    }
}
