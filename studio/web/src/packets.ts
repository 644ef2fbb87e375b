// The list of packets, and the builder that makes bytes from the program's own headers.

import type { FieldView, HeaderView, Packet } from "./api";
import { element } from "./dom";

/** Maximum number of packets that the server takes. */
const MAX_PACKETS = 64;

export class PacketList {
  private packets: Packet[] = [];
  private headers: HeaderView[] = [];

  constructor(
    private readonly place: HTMLElement,
    private readonly changed: () => void,
  ) {}

  get all(): Packet[] {
    return this.packets;
  }

  set all(packets: Packet[]) {
    this.packets = packets.slice(0, MAX_PACKETS);
    this.draw();
  }

  /** Sets the headers that the builder offers. */
  set offered(headers: HeaderView[]) {
    this.headers = headers;
  }

  add(packet: Packet): void {
    if (this.packets.length >= MAX_PACKETS) throw new Error(`A run has at most ${MAX_PACKETS} packets.`);
    this.packets.push(packet);
    this.draw();
    this.changed();
    this.place.querySelector<HTMLElement>(":scope > fieldset:last-of-type textarea")?.focus();
  }

  private draw(): void {
    this.place.replaceChildren(...this.packets.map((packet, index) => this.row(packet, index)));
  }

  private row(packet: Packet, index: number): HTMLElement {
    const port = element("input", { type: "number", min: "0", value: String(packet.port) });
    port.addEventListener("input", () => {
      packet.port = Math.max(0, Math.trunc(Number(port.value) || 0));
      this.changed();
    });
    const bytes = element("textarea", { rows: 3, value: grouped(packet.bytes), spellcheck: false });
    bytes.setAttribute("aria-label", `Bytes of packet ${index + 1}, hexadecimal`);
    bytes.addEventListener("input", () => {
      packet.bytes = bytes.value;
      this.changed();
    });
    const remove = element("button", { type: "button", textContent: "Remove" });
    remove.setAttribute("aria-label", `Remove packet ${index + 1}`);
    remove.addEventListener("click", () => {
      this.packets.splice(index, 1);
      this.draw();
      this.changed();
    });
    const build = element("button", { type: "button", textContent: "Add header" });
    const builder = element("div", { className: "builder" });
    build.addEventListener("click", () => {
      this.openBuilder(builder, (made) => {
        packet.bytes = packet.bytes.replace(/\s+/g, "") + made;
        this.draw();
        this.changed();
      });
    });
    return element(
      "fieldset",
      { className: "packet" },
      element("legend", { textContent: `Packet ${index + 1}` }),
      element("div", { className: "row" }, element("label", {}, "Port ", port), build, remove),
      bytes,
      builder,
    );
  }

  /** Shows the fields of one of the program's headers, and hands over the bytes of their values. */
  private openBuilder(place: HTMLElement, take: (bytes: string) => void): void {
    if (this.headers.length === 0) {
      place.replaceChildren(element("p", { textContent: "The program has errors, or no headers." }));
      return;
    }
    const choice = element("select", {}, ...this.headers.map((it) => element("option", { textContent: it.name })));
    const fields = element("div", { className: "fields" });
    const fault = element("p", { className: "fault", role: "alert" });
    let inputs: [FieldView, HTMLInputElement][] = [];
    const drawFields = () => {
      const header = this.headers[choice.selectedIndex];
      inputs = (header?.fields ?? [])
        .filter((field) => !field.is_varbit)
        .map((field) => [field, element("input", { type: "text", value: "0" })]);
      fields.replaceChildren(
        ...inputs.map(([field, input]) => element("label", {}, `${field.name} (${field.width} bits) `, input)),
      );
    };
    choice.addEventListener("change", drawFields);
    drawFields();
    const done = element("button", { type: "button", textContent: "Append to packet" });
    done.addEventListener("click", () => {
      let bits = "";
      for (const [field, input] of inputs) {
        const value = parseValue(input.value);
        if (value === null || value >= 1n << BigInt(field.width)) {
          fault.textContent = `${field.name}: write a number of ${field.width} bits, as 10, 0x0a, 10.0.1.2 or 02:00:00:00:01:01`;
          input.focus();
          return;
        }
        bits += value.toString(2).padStart(field.width, "0");
      }
      if (bits.length % 8 !== 0) bits = bits.padEnd(bits.length + 8 - (bits.length % 8), "0");
      let made = "";
      for (let at = 0; at < bits.length; at += 8) {
        made += Number.parseInt(bits.slice(at, at + 8), 2).toString(16).padStart(2, "0");
      }
      take(made);
    });
    place.replaceChildren(element("label", {}, "Header ", choice), fields, fault, done);
    choice.focus();
  }
}

/** Returns the value of a number, an IPv4 address or a MAC address; null if it is none. */
export function parseValue(text: string): bigint | null {
  const word = text.trim().replace(/_/g, "");
  if (/^(\d+|0[xX][\da-fA-F]+|0[bB][01]+)$/.test(word)) return BigInt(word);
  const mac = word.match(/^([\da-fA-F]{2}:){5}[\da-fA-F]{2}$/);
  if (mac) return BigInt(`0x${word.replace(/:/g, "")}`);
  const parts = word.match(/^(\d+)\.(\d+)\.(\d+)\.(\d+)$/)?.slice(1).map(Number);
  if (parts?.every((part) => part < 256)) {
    return parts.reduce((value, part) => (value << 8n) | BigInt(part), 0n);
  }
  return null;
}

/** Returns hexadecimal digits in groups of two bytes, for reading. */
export function grouped(bytes: string): string {
  const digits = bytes.replace(/\s+/g, "");
  return digits.replace(/(.{4})(?=.)/g, "$1 ");
}
