//! The include files of the standard architectures, and the headers of monitors of a reflex plane
//! (`reflex.p4`), embedded in the binary.
//!
//! Each text has the declarations of the architecture's specification, under the file name that
//! existing programs include. The include guards are the customary ones. So a user's copy of one
//! file works together with the built-in text of another.

/// Returns the text of the standard include file `name`, as written between `<>` or `""`
/// (`v1model.p4`, `bmv2/psa.p4`). Returns `None` if there is no such file.
///
/// A file that differs from another one only by macros is a short text. It defines these macros and
/// includes `polyplane/NAME`, a name that is unlikely in a user's directory.
pub fn builtin_include(name: &str) -> Option<&'static str> {
    let text = match name {
        "core.p4" => include_str!("include/core.p4"),
        "clip.p4" => include_str!("include/clip.p4"),
        "v1model.p4" => include_str!("include/v1model.p4"),
        "psa.p4" | "bmv2/psa.p4" | "polyplane/psa.p4" => include_str!("include/psa.p4"),
        "dpdk/psa.p4" => "#define __PSA_PACKET_LENGTH__\n#include <polyplane/psa.p4>\n",
        "bmv2/pna.p4" | "polyplane/pna.p4" => include_str!("include/pna.p4"),
        "pna.p4" => "#define __PNA_TWO_CONTROLS__\n#include <polyplane/pna.p4>\n",
        "dpdk/pna.p4" => {
            "#define __PNA_TWO_CONTROLS__\n#define __PNA_DPDK__\n#include <polyplane/pna.p4>\n"
        }
        "ebpf_model.p4" => include_str!("include/ebpf_model.p4"),
        "ubpf_model.p4" => include_str!("include/ubpf_model.p4"),
        "xdp_model.p4" => include_str!("include/xdp_model.p4"),
        "reflex.p4" => include_str!("include/reflex.p4"),
        _ => return None,
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::builtin_include;

    #[test]
    fn every_include_inside_a_builtin_file_is_builtin() {
        for name in [
            "clip.p4",
            "v1model.p4",
            "dpdk/psa.p4",
            "dpdk/pna.p4",
            "pna.p4",
            "bmv2/psa.p4",
            "bmv2/pna.p4",
            "ebpf_model.p4",
            "ubpf_model.p4",
            "xdp_model.p4",
        ] {
            let mut open = vec![name];
            let mut reached_core = false;
            while let Some(name) = open.pop() {
                let text =
                    builtin_include(name).unwrap_or_else(|| panic!("{name} is not built in"));
                reached_core |= name == "core.p4";
                open.extend(
                    text.lines()
                        .filter_map(|line| line.strip_prefix("#include <")?.strip_suffix('>')),
                );
            }
            assert!(reached_core, "{name} does not include core.p4");
        }
    }

    #[test]
    fn the_headers_of_monitors_work_with_any_architecture() {
        let text = builtin_include("reflex.p4").unwrap();
        assert!(!text.contains("#include"));
    }

    #[test]
    fn an_unknown_name_is_not_builtin() {
        assert_eq!(builtin_include("tna.p4"), None);
    }
}
