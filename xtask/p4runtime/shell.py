"""p4runtime-shell against a switch: loads a program, writes, reads, gets a packet and a digest.

usage: shell.py ADDRESS P4INFO PROGRAM
"""

import sys

import p4runtime_sh.shell as sh


def frame(dst, src):
    return bytes([0] * 5 + [dst] + [0] * 5 + [src, 0x99, 0x99]) + b"payload"


def main():
    address, info, program = sys.argv[1:4]
    sh.setup(device_id=1, grpc_addr=address, election_id=(0, 1),
             config=sh.FwdPipeConfig(info, program))
    print("loaded", [table.name for table in sh.P4Objects(sh.P4Type.table)])

    up = sh.TableEntry("In.stations")(action="In.to_controller")
    up.match["hdr.ethernet.dst"] = "00:00:00:00:00:01"
    up.insert()
    learn = sh.TableEntry("In.stations")(action="In.learn")
    learn.match["hdr.ethernet.dst"] = "00:00:00:00:00:02"
    learn.insert()
    route = sh.TableEntry("In.routes")(action="NoAction")
    route.match["hdr.ethernet.src"] = "0a:00:00:00:00:00/8"
    route.insert()
    rule = sh.TableEntry("In.rules")(action="In.drop")
    rule.match["hdr.ethernet.type"] = "0x0800&&&0xff00"
    rule.priority = 7
    rule.insert()
    found = list(sh.TableEntry("In.stations").read())
    assert len(found) == 2, found
    rules = list(sh.TableEntry("In.rules").read())
    assert [entry.priority for entry in rules] == [7], rules
    print("wrote and read", len(found) + len(rules), "entries")

    digest = sh.DigestEntry("learned_t")
    digest.max_list_size = 1
    digest.ack_timeout_ns = 10**9
    digest.insert()

    packets = sh.PacketIn()
    out = sh.PacketOut()
    out.payload = frame(1, 9)
    out.metadata["egress_port"] = "0"
    out.metadata["pad"] = "0"
    out.send()
    came = next(iter(packets.sniff(timeout=5)), None)
    assert came is not None, "no packet came in"
    assert came.packet.payload == frame(1, 9), came
    print("got a packet back")

    lists = sh.DigestList()
    out.payload = frame(2, 7)
    out.send()
    told = next(iter(lists.sniff(timeout=5)), None)
    assert told is not None, "no digest came"
    print("got a digest with", len(told.digest.data), "message")

    counted = next(iter(up_counter(sh)))
    assert counted == 1, counted
    up.delete()
    assert len(list(sh.TableEntry("In.stations").read())) == 1
    sh.teardown()
    print("shell: passed")


def up_counter(sh):
    entry = sh.DirectCounterEntry("In.seen")
    entry.table_entry.match["hdr.ethernet.dst"] = "00:00:00:00:00:01"
    for found in entry.read():
        yield found.packet_count


main()
