#!/usr/bin/env bash
# rustc_apfloat: an overflow that is rounded to the greatest finite number has no overflow flag.
#
# Subject: the crate rustc_apfloat, a port of LLVM's APFloat, multiplication of 32-bit floats.
# Version: rustc_apfloat 0.2.3+llvm-462a31f5a5ab of crates.io.
# Input: the greatest finite number times 2, with each direction of rounding.
# Seen: where the result is infinity, the status has OVERFLOW and INEXACT. Where rounding carries it
# to the greatest finite number, toward zero and toward the other infinity, it has INEXACT alone.
# Reason to know: IEEE 754-2019, section 7.4, signals overflow in both cases, and so do processors
# (x86, Arm, RISC-V). A simulator that takes its flags from this crate differs from them.
#
# Needs cargo. Builds the crate in a temporary folder. Fails if the behaviour is another one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/src"
cat > "$folder/Cargo.toml" <<'TOML'
[package]
name = "flags"
version = "0.0.0"
edition = "2021"

[dependencies]
rustc_apfloat = "=0.2.3"
TOML
cat > "$folder/src/main.rs" <<'RUST'
use rustc_apfloat::ieee::Single;
use rustc_apfloat::{Float, Round};

fn main() {
    let two = Single::from_u128(2).value;
    for (name, round) in [
        ("to nearest", Round::NearestTiesToEven),
        ("toward zero", Round::TowardZero),
        ("down", Round::TowardNegative),
        ("up", Round::TowardPositive),
    ] {
        let product = Single::largest().mul_r(two, round);
        println!("{name}: infinite {}, {:?}", product.value.is_infinite(), product.status);
    }
}
RUST
seen=$(cd "$folder" && cargo run --quiet --target-dir "$folder/target")
echo "$seen"
expected='to nearest: infinite true, Status(OVERFLOW | INEXACT)
toward zero: infinite false, Status(INEXACT)
down: infinite false, Status(INEXACT)
up: infinite true, Status(OVERFLOW | INEXACT)'
if [ "$seen" != "$expected" ]; then
    echo "the behaviour is another one" >&2
    exit 1
fi
