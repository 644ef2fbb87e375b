// The page in Chromium: node tests/browser.mjs POLYPLANE CHROMIUM OUT
// POLYPLANE is the command, CHROMIUM the browser, OUT the folder of pictures and saved files.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { chromium } from "playwright-core";

const [polyplane, browserPath, out] = process.argv.slice(2);
const root = path.resolve(import.meta.dirname, "../../..");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core"), "utf8");
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });

/** Starts the server and returns its address. */
function serve() {
  const server = spawn(polyplane, ["studio", "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"] });
  return new Promise((resolve, reject) => {
    server.once("exit", (status) => reject(new Error(`polyplane studio ended with ${status}`)));
    server.stdout.on("data", (data) => {
      const url = String(data).match(/http:\S+/)?.[0];
      if (url) resolve({ server, url });
    });
  });
}

const checks = [];
const check = (name, run, options = {}) => checks.push({ name, run, options });

/** Replaces the text of an editor. */
async function write(page, label, text) {
  await page.getByRole("textbox", { name: label, exact: true }).click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(text);
}

const router = readFileSync(path.join(root, "examples/router/router.p4"), "utf8");

check("a mistake is marked and its quick fix makes the program right", async (page) => {
  await write(page, "Program", router.replace("hdr.ethernet.type", "hdr.ethernet.typ"));
  const fix = page.getByRole("button", { name: "Change to type" });
  await fix.click();
  await page.getByRole("status").getByText("compiled in").waitFor();
  assert.equal(await page.locator("#problems p").count(), 0);
});

check("the walk of a packet names the table after which it was dropped", async (page) => {
  await page.getByRole("button", { name: "Send packets" }).click();
  await page.getByRole("status").getByText("packets ran").waitFor();
  const summaries = await page.locator("#trace summary").allTextContents();
  assert.ok(summaries.some((text) => /sent at port/.test(text)), summaries.join("\n"));
  const dropped = summaries.findIndex((text) => /dropped after table ingress\.\w+|dropped after table \w+/.test(text));
  assert.ok(dropped >= 0, summaries.join("\n"));
  await page.locator("#trace summary").nth(dropped).click();
  const steps = page.locator("#trace details").nth(dropped).locator("li.dropped");
  assert.ok((await steps.count()) > 0);
  await page.screenshot({ path: path.join(out, "playground.png"), fullPage: true });
});

check("changed bytes of a sent packet are marked", async (page) => {
  await page.getByRole("button", { name: "Send packets" }).click();
  await page.getByRole("status").getByText("packets ran").waitFor();
  assert.ok((await page.locator("#trace mark").count()) > 0);
});

check("a packet is built from the program's own headers", async (page) => {
  await page.getByRole("button", { name: "Add packet" }).click();
  const packet = page.locator("fieldset.packet").last();
  await packet.getByRole("button", { name: "Add header" }).click();
  await packet.getByLabel("Header").selectOption("hdr.ethernet");
  await packet.getByLabel(/^dst/).fill("02:00:00:00:01:01");
  await packet.getByLabel(/^type/).fill("0x88b5");
  await packet.getByRole("button", { name: "Append to packet" }).click();
  const bytes = await page.locator("fieldset.packet").last().locator("textarea").inputValue();
  assert.equal(bytes.replace(/\s/g, ""), "0200000001010000000000" + "0088b5");
});

check("a capture gives its packets", async (page) => {
  await page.locator("#capture").setInputFiles(path.join(root, "examples/router/router.pcap"));
  await page.getByRole("status").getByText("packets of the capture").waitFor();
  assert.ok((await page.locator("fieldset.packet").count()) > 1);
});

check("saved files are a test that passes", async (page) => {
  await page.getByRole("button", { name: "Send packets" }).click();
  await page.getByRole("status").getByText("packets ran").waitFor();
  const saved = new Map();
  page.on("download", (download) => saved.set(download.suggestedFilename(), download));
  await page.getByRole("button", { name: "Save files" }).click();
  for (let round = 0; saved.size < 3 && round < 100; round++) await page.waitForTimeout(50);
  assert.deepEqual([...saved.keys()].sort(), ["program.entries", "program.p4", "program.stf"]);
  for (const [name, download] of saved) await download.saveAs(path.join(out, name));
  const tested = spawnSync(polyplane, ["test", "program.p4", "program.stf"], { cwd: out, encoding: "utf8" });
  assert.equal(tested.status, 0, tested.stdout + tested.stderr);
  const stf = readFileSync(path.join(out, "program.stf"), "utf8");
  assert.match(stf, /^expect 1 /m);
});

check("a link holds all texts, and nothing of it is sent", async (page, url) => {
  await write(page, "Entries", "# of the link");
  await page.getByRole("button", { name: "Copy link" }).click();
  await page.getByRole("status").getByText("The link").waitFor();
  const link = page.url();
  assert.ok(link.startsWith(`${url}#s=`));
  const other = await page.context().newPage();
  const asked = [];
  other.on("request", (request) => asked.push(request.url()));
  await other.goto(link);
  await other.getByText("# of the link").waitFor();
  assert.ok(asked.every((it) => it.startsWith(url) && !it.includes("#")));
  await other.close();
});

check("names of a program and of entries are text and never markup", async (page) => {
  const markup = "<img src=x onerror=document.title=1>";
  await write(page, "Program", router.replace("table ipv4_lpm", `@name("${markup}") table ipv4_lpm`));
  await write(page, "Entries", `${markup} { } -> <script>()`);
  await page.getByRole("button", { name: "Send packets" }).click();
  await page.locator("#entry-problems p").first().waitFor();
  await write(page, "Entries", "");
  await page.getByRole("button", { name: "Send packets" }).click();
  await page.getByRole("status").getByText("packets ran").waitFor();
  await page.locator("#trace summary").last().click();
  assert.ok((await page.locator("#trace").textContent()).includes(markup));
  assert.equal(await page.locator("main img, main script").count(), 0);
  // The policy is off in this check: markup would run.
  assert.equal(await page.title(), "Polyplane Studio");
}, { bypassCSP: true });

check("a quick fix that is pressed twice changes the text once", async (page) => {
  await write(page, "Program", router.replace("hdr.ethernet.type", "hdr.ethernet.typ"));
  await page.getByRole("button", { name: "Change to type" }).dblclick();
  await page.getByRole("status").getByText("compiled in").waitFor();
  assert.equal(await page.locator("#problems p").count(), 0);
});

check("no serious fault of accessibility, light and dark", async (page) => {
  await page.getByRole("button", { name: "Send packets" }).click();
  await page.getByRole("status").getByText("packets ran").waitFor();
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    // Of the test alone: the page's policy does not let scripts in.
    const found = await page.evaluate(async (source) => {
      (0, eval)(source);
      return (await globalThis.axe.run()).violations.filter((it) => ["serious", "critical"].includes(it.impact));
    }, axe);
    const told = found.map((it) => `${it.id}: ${it.nodes.map((node) => node.html).join(" | ")}`);
    assert.deepEqual(told, [], colorScheme);
  }
  await page.screenshot({ path: path.join(out, "playground-dark.png"), fullPage: true });
}, { bypassCSP: true });

check("the page is used by the keyboard alone", async (page) => {
  await page.getByRole("button", { name: "Send packets" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("status").getByText("packets ran").waitFor();
  await page.locator("#trace summary").nth(1).focus();
  await page.keyboard.press("Enter");
  assert.ok((await page.locator("#trace details[open]").count()) >= 2);
});

const { server, url } = await serve();
const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
let failed = 0;
for (const { name, run, options } of checks) {
  const context = await browser.newContext({ ...options, acceptDownloads: true });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => {
    // Chromium gives text that replaces a selection the selection's style; the policy refuses it.
    const isExpected = /status of 4\d\d|Applying inline style/.test(message.text());
    if (message.type() === "error" && !isExpected) faults.push(message.text());
  });
  try {
    await page.goto(url);
    await page.getByRole("status").getByText("compiled in").waitFor();
    await run(page, url);
    assert.deepEqual(faults, []);
    console.log(`ok   ${name}`);
  } catch (error) {
    failed += 1;
    await page.screenshot({ path: path.join(out, `failed-${failed}.png`) }).catch(() => {});
    console.log(`FAIL ${name}\n${error}\n${faults.join("\n")}`);
  }
  await context.close();
}
await browser.close();
server.removeAllListeners("exit");
const stopped = new Promise((resolve) => server.once("exit", resolve));
server.kill("SIGTERM");
assert.equal(await stopped, 0, "the server ends with status 0");
writeFileSync(path.join(out, "result.json"), JSON.stringify({ checks: checks.length, failed }));
console.log(`${checks.length - failed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
