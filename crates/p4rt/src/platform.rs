//! Platform properties of a P4Info (section "`PkgInfo` Message"). Properties that are invalid, or
//! more than the device can provide, are refused.

use p4info::P4Info;

use crate::request_error::{Checked, invalid};

/// Maximum number of multicast groups: ids have 16 bits and 0 is not an id. Replicas are limited by
/// memory only.
const MAX_GROUPS: i32 = 0xffff;

/// Checks the platform properties that a P4Info requests.
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
    if groups > MAX_GROUPS {
        return invalid(format!(
            "multicast_group_table_size of the P4Info asks for {groups} groups; there can be {MAX_GROUPS}"
        ));
    }
    if total > 0 && each > total {
        return invalid(format!(
            "multicast_group_table_max_replicas_per_entry of the P4Info is {each}, above the {total} of multicast_group_table_total_replicas"
        ));
    }
    Ok(())
}
