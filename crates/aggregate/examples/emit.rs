//! Prints the program of a switch with one reduction.

use aggregate::{KeyClass, Operator, Shape, SwitchReduction, ValueClass, emit};

fn main() {
    let reduction = SwitchReduction {
        job: 1,
        shape: Shape {
            operator: Operator::Add,
            keys: KeyClass::B16,
            values: ValueClass::I64,
        },
        slots: 1000,
        window: 64,
        flows: 4,
        pairs_per_message: 20,
        is_multicast: false,
    };
    print!("{}", emit(&[reduction]));
}
