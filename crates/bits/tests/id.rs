//! Tests of typed indices, and of vectors and sets of them.

use bits::{Id, IdSet, IdVec, define_id};
use proptest::prelude::*;
use std::collections::BTreeSet;

define_id! {
    /// Index type for these tests.
    struct ThingId;
}

#[test]
fn a_vector_names_places_in_order() {
    let mut things = IdVec::<ThingId, &str>::new();
    let a = things.push("a");
    let b = things.push("b");
    things[a] = "c";
    assert_eq!((things[a], things[b], things.len()), ("c", "b", 2));
    assert_eq!(things.get(things.next_id()), None);
    assert_eq!(things.ids().collect::<Vec<_>>(), [a, b]);
    assert_eq!(format!("{b} {b:?}"), "1 ThingId(1)");
    assert_eq!(
        things
            .iter()
            .map(|(id, t)| (id.get(), *t))
            .collect::<Vec<_>>(),
        [(0, "c"), (1, "b")]
    );
}

proptest! {
    #[test]
    fn a_set_equals_the_set_of_the_standard_library(
        steps in proptest::collection::vec((any::<bool>(), 0usize..300), 0..100),
        others in proptest::collection::vec(0usize..300, 0..20),
    ) {
        let mut set = IdSet::<ThingId>::new();
        let mut model = BTreeSet::new();
        for (insert, index) in steps {
            let id = ThingId::from_index(index);
            if insert {
                prop_assert_eq!(set.insert(id), model.insert(id));
            } else {
                prop_assert_eq!(set.remove(id), model.remove(&id));
            }
            prop_assert_eq!(set.contains(id), model.contains(&id));
        }
        let other: IdSet<ThingId> = others.iter().map(|&i| ThingId::from_index(i)).collect();
        let before = model.len();
        model.extend(other.iter());
        prop_assert_eq!(set.union_with(&other), model.len() > before);
        prop_assert_eq!(set.iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(set.len(), model.len());
        prop_assert_eq!(set.is_empty(), model.is_empty());
        prop_assert_eq!(&set, &model.into_iter().collect());
    }
}
