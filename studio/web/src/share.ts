// A link that holds all texts. They are in its fragment, which browsers do not send.

import type { Packet, Texts } from "./api";

export interface Shared extends Texts {
  packets: Packet[];
}

/** Maximum number of bytes of the texts of a link. */
const MAX_TEXT = 4_000_000;

/** Returns the bytes that a stream makes of others; null if they are more than `most`. */
async function through(
  bytes: Blob,
  stream: CompressionStream | DecompressionStream,
  most: number,
): Promise<Uint8Array<ArrayBuffer> | null> {
  const reader = bytes.stream().pipeThrough(stream).getReader();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(parts).arrayBuffer());
    parts.push(value as Uint8Array<ArrayBuffer>);
    length += value.byteLength;
    if (length > most) {
      await reader.cancel();
      return null;
    }
  }
}

/** Returns the fragment of a link. */
export async function toFragment(shared: Shared): Promise<string> {
  const packed = await through(new Blob([JSON.stringify(shared)]), new CompressionStream("deflate-raw"), MAX_TEXT);
  if (!packed) throw new Error("The texts are too long for a link: save the files.");
  let binary = "";
  for (const byte of packed) binary += String.fromCharCode(byte);
  return `#s=${btoa(binary).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "")}`;
}

/** Returns what a fragment holds; null if it holds nothing that fits. */
export async function fromFragment(fragment: string): Promise<Shared | null> {
  const text = fragment.match(/^#s=([\w-]+)$/)?.[1];
  if (!text) return null;
  try {
    const binary = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
    const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
    const unpacked = await through(new Blob([bytes]), new DecompressionStream("deflate-raw"), MAX_TEXT);
    if (!unpacked) return null;
    const value = JSON.parse(new TextDecoder().decode(unpacked)) as Partial<Shared>;
    if (typeof value.program !== "string" || typeof value.entries !== "string") return null;
    const packets = Array.isArray(value.packets) ? value.packets : [];
    return {
      program: value.program,
      entries: value.entries,
      packets: packets.map((it) => ({ port: Number(it?.port) || 0, bytes: String(it?.bytes ?? "") })),
    };
  } catch {
    return null;
  }
}
