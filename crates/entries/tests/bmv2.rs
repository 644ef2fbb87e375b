//! Command files of `simple_switch_CLI` and runtime JSON: they mean the same as statements of
//! entries files, and what is wrong with them is named with its line.

use entries::{Update, read};

fn program() -> ir::Program {
    ir::read(include_str!("guide.ir")).unwrap_or_else(|error| panic!("guide.ir:{error}"))
}

fn updates(text: &str) -> Vec<Update> {
    match read(&program(), "file", text) {
        Ok(file) => file.updates().to_vec(),
        Err(errors) => panic!("{}\nin\n{text}", errors[0]),
    }
}

/// Checks that a text in one of BMv2's formats has the updates of these statements.
fn check(bmv2: &str, statements: &str) {
    assert_eq!(updates(bmv2), updates(statements), "{bmv2}");
}

/// Checks that a text has one error, with this line and these words.
fn check_error(bmv2: &str, line: u32, words: &str) {
    let errors = read(&program(), "file", bmv2).expect_err(bmv2);
    assert_eq!(errors.len(), 1, "{}\n{bmv2}", errors[0]);
    let shown = errors[0].to_string();
    assert_eq!(errors[0].line, line, "{shown}");
    assert!(shown.contains(words), "{shown}");
}

#[test]
fn commands_mean_what_statements_say() {
    for (commands, statements) in [
        (
            "# routes\ntable_set_default ipv4_lpm drop\n\
             table_add ipv4_lpm forward 10.0.1.7/24 => 3 00:00:00:00:01:02 // a comment\n",
            "ipv4_lpm default -> drop()\n\
             ipv4_lpm { hdr.ipv4.dst_addr: 10.0.1.0/24 } -> forward(3, 00:00:00:00:01:02)\n",
        ),
        // The lowest number of BMv2 wins, the largest of P4Runtime.
        (
            "table_add acl drop 10.0.0.1&&&255.0.0.0 80->90 6&&&0xff => 0\n\
             table_add acl drop 0&&&0 0->0xffff 0&&&0 => 5\n",
            "acl { hdr.ipv4.src_addr: 10.0.0.0 &&& 255.0.0.0; meta.dst_port: 80..90; \
             hdr.ipv4.protocol: 6 } -> drop() priority 2147483647\n\
             acl { hdr.ipv4.src_addr: 0 &&& 0; meta.dst_port: 0..0xffff } -> drop() \
             priority 2147483642\n",
        ),
        (
            "table_add ipv4_lpm drop 10.0.0.0/8 =>\n\
             table_add ipv4_lpm drop 11.0.0.0/8 =>\n\
             table_add ipv4_lpm drop 12.0.0.0/8 =>\n\
             table_modify ipv4_lpm forward 2 => 7 00:00:00:00:00:01\n\
             table_delete ipv4_lpm 0\n\
             table_add ipv4_lpm drop 13.0.0.0/8 =>\n\
             table_delete ipv4_lpm 16777216\n",
            "ipv4_lpm { hdr.ipv4.dst_addr: 11.0.0.0/8 } -> drop()\n\
             ipv4_lpm { hdr.ipv4.dst_addr: 12.0.0.0/8 } -> forward(7, 00:00:00:00:00:01)\n",
        ),
        (
            "table_add macs drop 00:00:00:00:00:09 =>\ntable_set_timeout macs 0 1500\n",
            "macs { hdr.ethernet.dst_addr: 00:00:00:00:00:09 } -> drop() idle_timeout 1500ms\n",
        ),
        (
            "mc_mgrp_create 5\nmc_node_create 1 2 3\nmc_node_create 2 4\n\
             mc_node_associate 5 0\nmc_node_associate 5 1\nmirroring_add 100 6\n\
             mirroring_add_mc 101 5\nmc_node_update 1\nmc_node_update 1 7\n",
            "multicast 5 { port 2 instance 1, port 3 instance 1, port 7 instance 2 }\n\
             clone 100 { port 6 }\n\
             clone 101 { port 2 instance 1, port 3 instance 1, port 7 instance 2 }\n",
        ),
        (
            "register_write seen 1 5\nregister_reset seen\nregister_write seen 3 0x10\n\
             meter_set_rates limits 2 0.001:1000 0.002:2000\ncounter_write rx 1 7 99\n",
            "register seen[3] = 0x10\n\
             meter limits[2] cir 1000 cburst 1000 pir 2000 pburst 2000\n\
             counter rx[1] = packets 7\n",
        ),
        (
            "set_queue_rate 100 1\nset_queue_depth 32 1\n\
             set_crc16_parameters calc 0x1021 0xffff 0 false true\n\
             set_toeplitz_hash_key calc_0 6d5a56da\n\
             pvs_add ether_types 0x800\npvs_add ether_types 0x806\npvs_remove ether_types 0x800\n",
            "value_set ether_types { 0x806 }\nqueue port 1 rate 100 depth 32\n\
             hash crc16 polynomial 0x1021 initial 0xffff final_xor 0 reflect_in false \
             reflect_out true\nhash toeplitz 0x6d5a56da\n",
        ),
        (
            "set_queue_rate 100 1 3\nset_queue_depth 9 1\nset_queue_depth 32 1 3\n",
            "queue port 1 depth 9\nqueue port 1 priority 3 rate 100 depth 32\n",
        ),
        (
            "set_queue_rate 100 1 3\nset_queue_depth 32 1 3\nset_queue_depth 8 1 4\n\
             set_queue_depth 9 1\n",
            "queue port 1 depth 9\nqueue port 1 priority 3 rate 100\n",
        ),
        ("table_add ipv4_lpm drop 10.0.0.0/8 =>\nreset_state\n", ""),
        (
            "set_crc32_parameters a 1 2 3 1 0\nset_crc32_parameters b 1 2 3 true no\n",
            "hash crc32 polynomial 1 initial 2 final_xor 3 reflect_in true reflect_out false\n\
             hash crc32 polynomial 1 initial 2 final_xor 3 reflect_in true reflect_out false\n",
        ),
    ] {
        check(commands, statements);
    }
}

#[test]
fn members_and_groups_have_the_numbers_behind_their_handles() {
    let commands = "act_prof_create_member next_hops next_hop 1\n\
                    table_indirect_create_member ecmp next_hop 2\n\
                    act_prof_create_group next_hops\n\
                    act_prof_add_member_to_group next_hops 0 0\n\
                    act_prof_add_member_to_group next_hops 1 0\n\
                    act_prof_create_member next_hops next_hop 3\n\
                    act_prof_remove_member_from_group next_hops 0 0\n\
                    act_prof_modify_member next_hops next_hop 2 => 4\n";
    let statements = "next_hops member 1 -> next_hop(1)\nnext_hops member 2 -> next_hop(2)\n\
                      next_hops member 3 -> next_hop(4)\nnext_hops group 1 { 2 }\n";
    check(commands, statements);
}

#[test]
fn a_rate_of_all_queues_is_one_of_each_port() {
    let all = updates("set_queue_depth 10\nset_queue_rate 5 3\nset_queue_depth 12\n");
    assert_eq!(all.len(), 511);
    let queue = |port: usize| match &all[port] {
        Update::Queue(queue) => *queue,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (queue(0).depth, queue(0).packets_per_second),
        (Some(12), None)
    );
    assert_eq!(
        (queue(3).depth, queue(3).packets_per_second),
        (Some(12), Some(5))
    );
}

#[test]
fn a_member_or_group_that_is_in_use_is_not_deleted() {
    let start = "act_prof_create_member next_hops next_hop 1\n\
                 act_prof_create_member next_hops next_hop 2\n\
                 act_prof_create_group next_hops\n\
                 act_prof_add_member_to_group next_hops 1 0\n\
                 table_indirect_add ecmp 10.1.0.0/16 => 0\n\
                 table_indirect_add_with_group ecmp 10.2.0.0/16 => 0\n";
    for (command, words) in [
        ("act_prof_delete_member next_hops 0", "in an entry of `"),
        ("table_indirect_delete_member ecmp 0", "in an entry of `"),
        ("act_prof_delete_member next_hops 1", "is in a group"),
        ("act_prof_delete_group next_hops 0", "in an entry of `"),
        ("table_indirect_delete_group ecmp 0", "in an entry of `"),
    ] {
        check_error(&format!("{start}{command}\n"), 7, words);
    }
    let freed = "table_indirect_delete ecmp 0\ntable_indirect_delete ecmp 1\n\
                 act_prof_delete_group next_hops 0\nact_prof_delete_member next_hops 0\n\
                 act_prof_delete_member next_hops 1\n";
    check(&format!("{start}{freed}"), "");
}

#[test]
fn a_wrong_command_is_named_with_its_line_and_a_reason() {
    let add = "table_add ipv4_lpm drop 10.0.0.0/8 =>\n";
    for (command, words) in [
        (
            "table_ad ipv4_lpm drop 10.0.0.0/8 =>",
            "did you mean table_add?",
        ),
        ("table_add ipv4_lmp drop 10.0.0.0/8 =>", "did you mean"),
        ("table_add ipv4_lpm dropp 10.0.0.0/8 =>", "did you mean"),
        ("table_add ipv4_lpm drop 10.0.0.0 =>", "VALUE/LENGTH"),
        ("table_add ipv4_lpm drop 10.0.0.0/33 =>", "from 0 to 32"),
        (
            "table_add ipv4_lpm drop 10.0.0.0/8 1 =>",
            "has 1 keys, but 2 are given",
        ),
        ("table_add ipv4_lpm drop 10.0.0.0/8", "`=>` is missing"),
        (
            "table_add acl drop 1&&&1 0->1 6&&&0xff =>",
            "priority as the last argument",
        ),
        (
            "table_add acl drop 1&&&1 0->1 6&&&0x0f => 1",
            "all bits or none",
        ),
        ("table_add acl drop 1&&&1 5->1 6&&&0xff => 1", "is empty"),
        (
            "table_delete ipv4_lpm 1",
            "no earlier line of the file has added entry 1",
        ),
        ("table_dump ipv4_lpm", "polyplane ctl show TABLE"),
        ("mc_set_lag_membership 1 2", "link aggregation"),
        ("mc_node_associate 9 0", "no earlier line"),
        ("mirroring_add_mc 7 9", "creates no multicast group 9"),
        ("set_queue_rate 100 1 8", "priorities from 0 to 7"),
        ("set_queue_rate 100 1 3 4", "a port and a priority"),
        ("set_queue_depth 0", "drops all packets"),
        ("register_write seen 8 1", "outside"),
        (
            "register_write seen 1",
            "write register_write <register> <index> <value>",
        ),
        ("meter_set_rates limits 0 2:1 1:1", "at most the second"),
        ("meter_set_rates limits 0 1:1", "two rates"),
        ("set_crc16_parameters c 0x11021 0 0 0 0", "too large"),
        (
            "table_indirect_add ipv4_lpm 10.0.0.0/8 => 0",
            "no action profile",
        ),
        ("meter_set_rates rate 0 1:1 1:1", "belong to entries"),
        ("counter_write hits 0 1 1", "belong to entries"),
        ("port_add veth0 1", "does not change ports"),
    ] {
        check_error(&format!("{add}{command}\n"), 2, words);
    }
    let two = "set_crc16_parameters a 1 0 0 0 0\nset_crc16_parameters b 2 0 0 0 0\n";
    check_error(two, 2, "one set for its kind");
}

#[test]
fn runtime_json_means_what_statements_say() {
    let json = r#"{
  "target": "bmv2", "p4info": "build/x.p4info.txt", "bmv2_json": "build/x.json",
  "table_entries": [
    { "table": "ingress.ipv4_lpm", "default_action": true,
      "action_name": "ingress.drop", "action_params": {} },
    { "table": "ingress.ipv4_lpm", "match": { "hdr.ipv4.dst_addr": ["10.0.1.9", 24] },
      "action_name": "ingress.forward",
      "action_params": { "mac": "08:00:00:00:01:11", "port": 1 } },
    { "table": "ingress.macs", "match": { "hdr.ethernet.dst_addr": ["08:00:00:00:01:11"] },
      "action_name": "ingress.drop" },
    { "table": "ingress.acl", "priority": 10,
      "match": { "hdr.ipv4.src_addr": ["10.1.1.1", "255.255.0.0"], "meta.dst_port": [1, 2] },
      "action_name": "ingress.drop" } ],
  "multicast_group_entries": [
    { "multicast_group_id": 1,
      "replicas": [ { "egress_port": 1, "instance": 1 }, { "egress_port": 2 } ] } ],
  "clone_session_entries": [
    { "clone_session_id": 5, "replicas": [ { "egress_port": 7 } ], "packet_length_bytes": 64 } ]
}"#;
    let statements = "multicast 1 { port 1 instance 1, port 2 }\n\
        clone 5 { port 7 } truncate 64\n\
        ipv4_lpm default -> drop()\n\
        ipv4_lpm { hdr.ipv4.dst_addr: 10.0.1.0/24 } -> forward(1, 08:00:00:00:01:11)\n\
        macs { hdr.ethernet.dst_addr: 08:00:00:00:01:11 } -> drop()\n\
        acl { hdr.ipv4.src_addr: 10.1.0.0 &&& 255.255.0.0; meta.dst_port: 1..2 } -> drop() \
        priority 10\n";
    check(json, statements);
}

#[test]
fn wrong_runtime_json_is_named_with_its_line() {
    let entry = |line: &str| format!("{{\"table_entries\": [\n{{ {line} }}\n]}}");
    let start = "\"table\": \"ipv4_lpm\", \"action_name\": \"drop\"";
    for (line, words) in [
        ("\"action_name\": \"drop\"", "\"table\" is missing"),
        (
            "\"table\": \"ipv4_lmp\", \"action_name\": \"drop\"",
            "did you mean",
        ),
        (
            "\"table\": \"macs\", \"action_name\": \"drop\"",
            "exact key",
        ),
        (
            &format!("{start}, \"match\": {{\"dst_addr\": \"1.2.3.4\"}}"),
            "PREFIX LENGTH",
        ),
        (
            &format!("{start}, \"match\": {{\"dst_addr\": [\"1.2.3.4\", 40]}}"),
            "from 0 to 32",
        ),
        (&format!("{start}, \"priority\": 3"), "takes no priority"),
        (&format!("{start}, \"prio\": 3"), "no meaning here"),
        (
            &format!("{start}, \"match\": [\"dst_addr\"]"),
            "\"match\" is an object",
        ),
        (
            &format!("{start}, \"match\": null"),
            "\"match\" is an object",
        ),
        (
            &format!("{start}, \"action_params\": \"x\""),
            "\"action_params\" is an object",
        ),
        (
            &format!("{start}, \"default_action\": \"true\""),
            "is true or false",
        ),
        (
            &format!("{start}, \"default_action\": 1"),
            "is true or false",
        ),
        (
            &format!("{start}, \"action_params\": {{\"x\": 1}}"),
            "no parameter",
        ),
        (
            "\"table\": \"acl\", \"action_name\": \"drop\"",
            "needs a priority",
        ),
    ] {
        check_error(&entry(line), 2, words);
    }
    for (text, words) in [
        (
            "{\"header_types\": [], \"pipelines\": []}",
            "compiled for BMv2",
        ),
        (
            "{\"hosts\": {}, \"switches\": {}, \"links\": []}",
            "polyplane fabric up",
        ),
        ("{\"a\": 1}", "has no entries"),
        ("{\"table_entries\": 1}", "is a list"),
        ("{\"table_entries\": [,]}", "a value is expected"),
    ] {
        check_error(text, 1, words);
    }
}
