// An STF test of what was tried, for `polyplane test`.

import type { Packet, PacketResult } from "./api";

/** Returns a test that sends the packets and expects what came out. */
export function toStf(packets: Packet[], ran: PacketResult[], entries: string | null): string {
  const lines = ["# Made by Polyplane Studio. polyplane test program.p4 program.stf"];
  if (entries) lines.push(`entries ${entries}`);
  packets.forEach((packet, index) => {
    const result = ran[index];
    if (!result || "fault" in result) return;
    if (index > 0) lines.push("wait 1ms");
    lines.push(`packet ${packet.port} ${result.trace.packet.bytes}`);
    for (const output of result.trace.outputs) {
      if (output.port === undefined) continue;
      lines.push(`expect ${output.port} ${output.bytes} $`);
    }
  });
  // At ports without an expectation nothing came out.
  lines.push("no_packet");
  return `${lines.join("\n")}\n`;
}
