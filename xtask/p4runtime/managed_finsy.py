"""finsy against a switch of which a reflex plane manages a table: reads the entry of a loop, writes,
changes and removes one of its own, and removes that of the loop.

usage: managed_finsy.py ADDRESS
"""

import asyncio
import sys

import finsy as fy

TABLE = "IntIngress.detour"


def own(port):
    key = {
        "hdr.ipv4.src": "10.0.1.8", "hdr.ipv4.dst": "10.0.2.8", "hdr.ipv4.protocol": 17,
        "meta.l4_src": 8, "meta.l4_dst": 8000,
    }
    return fy.P4TableEntry(TABLE, match=fy.Match(**key), action=fy.Action("IntIngress.via", port=port),
                           metadata=b"finsy")


async def control(switch):
    async def entries():
        return [entry async for entry in switch.read(fy.P4TableEntry(TABLE))]

    # The plane may still be reading its reports.
    loops = []
    for _ in range(40):
        before = len(loops)
        loops = [entry for entry in await entries() if entry.metadata == b"reflex detour"]
        if loops and len(loops) == before:
            break
        await asyncio.sleep(0.5)
    assert loops, "a loop wrote no entry"
    print("read", len(loops), "entries of loops")
    await switch.write([+own(3)])
    await switch.write([~own(4)])
    ports = [entry.action.args["port"] for entry in await entries() if entry.metadata == b"finsy"]
    assert ports == [4], ports
    try:
        await switch.write([+own(3)])
    except fy.P4ClientError as error:
        assert "ALREADY_EXISTS" in str(error), error
    else:
        raise AssertionError("an entry was inserted twice")
    await switch.write([-own(4)])
    await switch.write([-loops[0]])
    left = await entries()
    assert len(left) == len(loops) - 1, left
    print("wrote a managed table")


async def main():
    # finsy has no roles without a configuration: the plane has a role.
    async with fy.Switch("switch", sys.argv[1]) as switch:
        await control(switch)


asyncio.run(main())
