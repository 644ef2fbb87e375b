//! Vectors in lines of JSON, in parts, and digests of vectors that are not sent.

use aggregate::Vector;
use serde::{Deserialize, Serialize};
use support::crc::crc32;

/// Values of a line.
const VALUES_PER_LINE: usize = 4096;

/// Some values of a vector, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VectorPart {
    /// Integers.
    Integers(Vec<i64>),
    /// Bits of floats, since JSON has no NaN.
    Floats(Vec<u32>),
}

/// Returns a vector in parts of a line each. A vector without values is one part.
pub(crate) fn parts_of(vector: &Vector) -> Vec<VectorPart> {
    fn parts<T>(values: &[T], part: impl Fn(&[T]) -> VectorPart) -> Vec<VectorPart> {
        match values.is_empty() {
            true => vec![part(values)],
            false => values.chunks(VALUES_PER_LINE).map(part).collect(),
        }
    }
    match vector {
        Vector::Integers(values) => parts(values, |part| VectorPart::Integers(part.to_vec())),
        Vector::Floats(values) => parts(values, |part| {
            VectorPart::Floats(part.iter().map(|value| value.to_bits()).collect())
        }),
    }
}

/// Adds a part to a vector. One of another class is left out, so that values are missing.
pub(crate) fn add_part(vector: &mut Option<Vector>, part: &VectorPart) {
    match (vector, part) {
        (Some(Vector::Integers(values)), VectorPart::Integers(part)) => values.extend(part),
        (Some(Vector::Floats(values)), VectorPart::Floats(part)) => {
            values.extend(part.iter().map(|bits| f32::from_bits(*bits)));
        }
        (Some(_), _) => {}
        (none, VectorPart::Integers(part)) => *none = Some(Vector::Integers(part.clone())),
        (none, VectorPart::Floats(part)) => {
            let values = part.iter().map(|bits| f32::from_bits(*bits));
            *none = Some(Vector::Floats(values.collect()));
        }
    }
}

/// Returns the number of values.
pub(crate) fn len_of(vector: &Vector) -> u64 {
    let len = match vector {
        Vector::Integers(values) => values.len(),
        Vector::Floats(values) => values.len(),
    };
    len as u64
}

/// Digest of the vector that a mapper has got, to compare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorDigest {
    /// Number of its values.
    pub values: u64,
    /// CRC-32 of its values: little-endian, 4 bytes of a float, 8 of an integer.
    pub crc: u32,
}

impl VectorDigest {
    /// Returns the digest of a vector.
    pub fn of(vector: &Vector) -> VectorDigest {
        VectorDigest {
            values: len_of(vector),
            crc: crc32(&bytes_of(vector)),
        }
    }
}

/// Returns the values of a vector, little-endian: 4 bytes of a float, 8 of an integer.
pub fn bytes_of(vector: &Vector) -> Vec<u8> {
    match vector {
        Vector::Integers(values) => values.iter().flat_map(|it| it.to_le_bytes()).collect(),
        Vector::Floats(values) => values.iter().flat_map(|it| it.to_le_bytes()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use support::rng::Rng;

    /// Returns a vector that went in lines.
    fn sent(vector: &Vector) -> Option<Vector> {
        let mut arrived = None;
        for part in parts_of(vector) {
            let line = serde_json::to_string(&part).unwrap();
            add_part(&mut arrived, &serde_json::from_str(&line).unwrap());
        }
        arrived
    }

    #[test]
    fn vectors_keep_all_bits_in_lines() {
        let mut rng = Rng::new(7);
        for len in [0, 1, VALUES_PER_LINE, 3 * VALUES_PER_LINE + 5] {
            let integers = Vector::Integers((0..len).map(|_| rng.bits() as i64).collect());
            // All bits are there: NaN, infinity and -0.0 too.
            let bits = (0..len).map(|_| f32::from_bits(rng.bits() as u32));
            let floats = Vector::Floats(bits.chain([f32::NAN, f32::INFINITY, -0.0]).collect());
            for vector in [integers, floats] {
                assert_eq!(sent(&vector).as_ref(), Some(&vector));
            }
        }
    }

    #[test]
    fn vectors_of_other_bits_or_lengths_have_other_digests() {
        let vectors = [
            Vector::Integers(vec![]),
            Vector::Integers(vec![0]),
            Vector::Integers(vec![0, 0]),
            Vector::Integers(vec![1, 0]),
            Vector::Integers(vec![0, 1]),
            Vector::Floats(vec![0.0]),
            Vector::Floats(vec![-0.0]),
        ];
        for (index, vector) in vectors.iter().enumerate() {
            for other in &vectors[..index] {
                assert_ne!(VectorDigest::of(vector), VectorDigest::of(other));
            }
        }
    }

    #[test]
    fn a_part_of_the_other_class_changes_nothing() {
        let mut vector = Some(Vector::Integers(vec![1]));
        add_part(&mut vector, &VectorPart::Floats(vec![2]));
        assert_eq!(vector, Some(Vector::Integers(vec![1])));
    }
}
