//! Cookies: the bytes by which an owner finds its rules again, also after a crash.

use support::crc::crc32;

use crate::target::RuleId;

/// Bytes that only cookies of this module begin their checksum with.
const MAGIC: &[u8] = b"polyplane rule";

/// Returns the cookie of a rule: four bytes of the owner, eight of the rule's number, and four of a
/// checksum over both.
pub(super) fn cookie(owner: u32, rule: RuleId) -> [u8; 16] {
    let mut cookie = [0; 16];
    cookie[..4].copy_from_slice(&owner.to_be_bytes());
    cookie[4..12].copy_from_slice(&rule.0.to_be_bytes());
    let checksum = checksum(&cookie);
    cookie[12..].copy_from_slice(&checksum);
    cookie
}

/// Returns the rule of a cookie; `None` if it is another owner's.
pub(super) fn rule_of(owner: u32, cookie: &[u8; 16]) -> Option<RuleId> {
    let [a, b, c, d, number @ .., _, _, _, _] = cookie;
    let is_own = u32::from_be_bytes([*a, *b, *c, *d]) == owner && checksum(cookie) == cookie[12..];
    is_own.then(|| RuleId(u64::from_be_bytes(*number)))
}

fn checksum(cookie: &[u8; 16]) -> [u8; 4] {
    let bytes = [MAGIC, &cookie[..12]].concat();
    crc32(&bytes).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_finds_its_rule_and_no_changed_cookie_is_a_rule() {
        let own = cookie(7, RuleId(1 << 40 | 5));
        assert_eq!(rule_of(7, &own), Some(RuleId(1 << 40 | 5)));
        assert_eq!(rule_of(8, &own), None);
        assert_eq!(rule_of(0, &[0; 16]), None);
        for bit in 0..128 {
            let mut changed = own;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(rule_of(7, &changed), None, "bit {bit}");
        }
    }
}
