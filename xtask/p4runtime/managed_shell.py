"""p4runtime-shell against a switch of which a reflex plane manages a table: reads the entry of a loop,
writes, changes and removes one of its own, and removes that of the loop.

usage: managed_shell.py ADDRESS
"""

import sys
import time

import p4runtime_sh.shell as sh

TABLE = "IntIngress.detour"
KEYS = ["hdr.ipv4.src", "hdr.ipv4.dst", "hdr.ipv4.protocol", "meta.l4_src", "meta.l4_dst"]


def entries():
    return list(sh.TableEntry(TABLE).read())


def own(port):
    entry = sh.TableEntry(TABLE)(action="IntIngress.via")
    for key, value in zip(KEYS, ["10.0.1.9", "10.0.2.9", "17", "9", "9000"]):
        entry.match[key] = value
    entry.action["port"] = port
    entry.metadata = b"shell"
    return entry


def main():
    sh.setup(device_id=1, grpc_addr=sys.argv[1], election_id=(0, 1), role_name="shell")
    # The plane may still be reading its reports.
    loops = []
    for _ in range(40):
        before = len(loops)
        loops = [entry for entry in entries() if entry.metadata == b"reflex detour"]
        if loops and len(loops) == before:
            break
        time.sleep(0.5)
    assert loops, "a loop wrote no entry"
    print("read", len(loops), "entries of loops")
    own("3").insert()
    own("4").modify()
    ports = [entry.action["port"].value for entry in entries() if entry.metadata == b"shell"]
    assert ports == [b"\x04"], ports
    own("4").delete()
    loops[0].delete()
    assert len(entries()) == len(loops) - 1
    print("wrote a managed table")
    sh.teardown()


if __name__ == "__main__":
    main()
