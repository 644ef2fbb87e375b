// Elements made by code. Texts are set as text, so no name in a program or capture is markup.

type Child = Node | string;

/** Returns an element with properties, attributes (names with a dash, and `role`) and children. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Record<string, unknown> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "for") {
      made.setAttribute(name, String(value));
    } else {
      (made as unknown as Record<string, unknown>)[name] = value;
    }
  }
  made.append(...children);
  return made;
}

/** Returns the element of the page with this id. */
export function byId<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found as T;
}
