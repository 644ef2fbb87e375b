"""finsy against a switch: loads a program, writes, reads, gets a packet and a digest.

usage: finsy_client.py ADDRESS P4INFO PROGRAM
"""

import asyncio
import sys
from pathlib import Path

import finsy as fy


def frame(dst, src):
    return bytes([0] * 5 + [dst] + [0] * 5 + [src, 0x99, 0x99]) + b"payload"


async def control(switch):
    station = lambda dst, action: fy.P4TableEntry(
        "stations", match=fy.Match(**{"hdr.ethernet.dst": dst}), action=fy.Action(action))
    await switch.delete_all()
    await switch.write([+station(1, "to_controller"), +station(2, "learn")])
    await switch.write([
        +fy.P4TableEntry("routes", match=fy.Match(**{"hdr.ethernet.src": "0x0a0000000000/8"}),
                         action=fy.Action("NoAction")),
        +fy.P4TableEntry("rules", match=fy.Match(**{"hdr.ethernet.type": "0x0800/&0xff00"}),
                         action=fy.Action("drop"), priority=7),
    ])
    found = [entry async for entry in switch.read(fy.P4TableEntry())]
    assert len(found) == 4, found
    print("wrote and read", len(found), "entries")

    await switch.write([+fy.P4DigestEntry("learned_t", max_list_size=1, ack_timeout_ns=10**9)])
    packets = asyncio.create_task(first(switch.read_packets()))
    digests = asyncio.create_task(first(switch.read_digests("learned_t")))
    await asyncio.sleep(0.2)
    await switch.write([fy.P4PacketOut(frame(1, 9), egress_port=0, pad=0)])
    packet = await asyncio.wait_for(packets, 5)
    assert packet.payload == frame(1, 9), packet
    print("got a packet back")
    await switch.write([fy.P4PacketOut(frame(2, 7), egress_port=0, pad=0)])
    digest = await asyncio.wait_for(digests, 5)
    print("got a digest with", len(digest.data), "message")

    counters = [entry async for entry in switch.read(fy.P4DirectCounterEntry("seen"))]
    assert sorted(entry.packet_count for entry in counters) == [1, 1], counters
    await switch.delete_all()
    left = [entry async for entry in switch.read(fy.P4TableEntry())]
    assert left == [], left
    print("finsy: passed")


async def first(items):
    async for item in items:
        return item


async def main():
    address, info, program = sys.argv[1:4]
    options = fy.SwitchOptions(p4info=Path(info), p4blob=Path(program))
    async with fy.Switch("switch", address, options) as switch:
        print("loaded", switch.p4info.pkg_info.arch)
        await control(switch)


asyncio.run(main())
