//! MAC addresses as text: pairs of hexadecimal digits, separated by colons.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// MAC address of 48 bits (EUI-48).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Returns true for a unicast address: the lowest bit of the first byte is 0.
    pub fn is_unicast(self) -> bool {
        self.0[0] & 1 == 0
    }
}

impl From<MacAddress> for u64 {
    fn from(address: MacAddress) -> u64 {
        let [a, b, c, d, e, f] = address.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Error of a text that is no MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacAddressError;

impl fmt::Display for MacAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write a MAC address as six bytes, as in 02:00:00:00:00:01")
    }
}

impl std::error::Error for MacAddressError {}

impl FromStr for MacAddress {
    type Err = MacAddressError;

    /// Parses six bytes of two digits each, separated by colons.
    fn from_str(text: &str) -> Result<MacAddress, MacAddressError> {
        octets(text, &[':'], 2..=2)
            .map(MacAddress)
            .ok_or(MacAddressError)
    }
}

/// Parses `N` bytes between these separators, each with this number of hexadecimal digits and
/// without a sign. Returns `None` for any other text.
pub fn octets<const N: usize>(
    text: &str,
    separators: &[char],
    digits: RangeInclusive<usize>,
) -> Option<[u8; N]> {
    let mut octets = [0; N];
    let mut parts = text.split(separators);
    for octet in &mut octets {
        let part = parts.next().filter(|part| digits.contains(&part.len()))?;
        // `from_str_radix` would accept a sign.
        let is_hex = part.bytes().all(|digit| digit.is_ascii_hexdigit());
        *octet = u8::from_str_radix(part, 16).ok().filter(|_| is_hex)?;
    }
    parts.next().is_none().then_some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: MacAddress = MacAddress([0x02, 0xaa, 0, 0, 0x10, 0xff]);

    #[test]
    fn an_address_is_read_as_it_is_written() {
        assert_eq!(ADDRESS.to_string(), "02:aa:00:00:10:ff");
        assert_eq!(ADDRESS.to_string().parse(), Ok(ADDRESS));
        assert_eq!("02:AA:00:00:10:fF".parse(), Ok(ADDRESS));
        assert_eq!(u64::from(ADDRESS), 0x02aa_0000_10ff);
    }

    #[test]
    fn texts_that_are_no_addresses_are_refused() {
        for text in [
            "",
            "02:aa:00:00:10",
            "02:aa:00:00:10:ff:00",
            "02:aa:00:00:10:",
            "2:aa:00:00:10:ff",
            "002:aa:00:00:10:ff",
            "02-aa-00-00-10-ff",
            "+2:aa:00:00:10:ff",
            "0x:aa:00:00:10:ff",
            " 02:aa:00:00:10:ff",
        ] {
            assert_eq!(text.parse::<MacAddress>(), Err(MacAddressError), "{text}");
        }
    }

    #[test]
    fn separators_and_digits_are_those_that_a_caller_accepts() {
        let either = [':', '-'];
        assert_eq!(octets("2-a:10", &either, 1..=2), Some([2, 10, 16]));
        assert_eq!(octets::<3>("2::10", &either, 1..=2), None);
        assert_eq!(octets::<3>("+2:a:10", &either, 1..=2), None);
        assert_eq!(octets("0002:a", &[':'], 1..=4), Some([2, 10]));
        assert_eq!(octets::<2>("100:a", &[':'], 1..=4), None);
    }

    #[test]
    fn an_address_with_the_group_bit_is_not_unicast() {
        assert!(ADDRESS.is_unicast());
        assert!(!MacAddress([0xff; 6]).is_unicast());
        assert!(!MacAddress([1, 0, 0, 0, 0, 0]).is_unicast());
    }
}
