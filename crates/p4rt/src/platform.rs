//! What a P4Info asks of the platform (section "`PkgInfo` Message"): one that asks for more than there is, or for nonsense, is refused.

use p4info::P4Info;

use crate::fault::{Checked, invalid};

/// Multicast groups have numbers of 16 bits, of which 0 is none; replicas are limited by memory alone.
const MOST_GROUPS: i32 = 0xffff;

/// Checks the properties that a P4Info asks for.
pub(crate) fn check(info: &P4Info) -> Checked {
    let package = info.pkg_info.as_ref();
    let Some(asked) = package.and_then(|package| package.platform_properties.as_ref()) else {
        return Ok(());
    };
    let groups = asked.multicast_group_table_size;
    let total = asked.multicast_group_table_total_replicas;
    let each = asked.multicast_group_table_max_replicas_per_entry;
    if groups.min(total).min(each) < 0 {
        return invalid("a platform property of the P4Info is negative");
    }
    if groups > MOST_GROUPS {
        return invalid(format!(
            "multicast_group_table_size of the P4Info asks for {groups} groups; there can be {MOST_GROUPS}"
        ));
    }
    if total > 0 && each > total {
        return invalid(format!(
            "multicast_group_table_max_replicas_per_entry of the P4Info is {each}, above the {total} of multicast_group_table_total_replicas"
        ));
    }
    Ok(())
}
