// An STF test of what was tried, for `polyplane test`.

import type { Packet, PacketResult } from "./api";

/** Returns a test that sends the packets and expects what came out. */
export function toStf(packets: Packet[], ran: PacketResult[], entries: string | null): string {
  const lines = ["# Made by Polyplane Studio. polyplane test program.p4 program.stf"];
  if (entries) lines.push(`entries ${entries}`);
  const observed = new Set<number>();
  packets.forEach((packet, index) => {
    const result = ran[index];
    if (!result || "fault" in result) return;
    lines.push(`packet ${packet.port} ${packet.bytes.replace(/\s+|:|^0x/g, "")}`);
    for (const output of result.trace.outputs) {
      if (output.port === undefined) continue;
      observed.add(output.port);
      lines.push(`expect ${output.port} ${output.bytes} $`);
    }
  });
  return `${lines.join("\n")}\n`;
}
