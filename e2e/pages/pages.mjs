// The pages in a real browser: `node pages.mjs CHROMIUM SITE-FOLDER BROKER-URL`. One line a check; ends with 1 if one fails.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const [executablePath, folder, broker] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const site = (path) => `file://${folder}/${path}`;
let failed = 0;

// Runs a check on a page of its own, which may talk to the broker alone and may not complain.
async function check(name, options, work) {
  const context = await browser.newContext({ viewport: { width: 1300, height: 900 }, reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  const trouble = [];
  page.on("console", (message) => { if (message.type() === "error") trouble.push(message.text()); });
  page.on("pageerror", (error) => trouble.push(String(error)));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith("file:") && !url.startsWith("data:") && !url.startsWith(broker)) trouble.push(`asked for ${url}`);
  });
  try {
    await work(page);
    assert.deepEqual(trouble, []);
    console.log(`ok    ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${name}: ${error.message}`);
  }
  await context.close();
}

const lit = (page, selector) => page.locator(`${selector}.lit`).count();
const V5 = site("apis/TxnOffsetCommit/v5.html");

await check("a row of the tree lights its bytes, and a byte its row", {}, async (page) => {
  await page.goto(V5);
  await page.hover("#requestn5 td.label");
  assert.equal(await lit(page, ".grid a"), 2);
  await page.hover("#requestb13");
  const row = await page.locator("tr.lit td.label").innerText();
  assert.match(row, /client_id/);
});

await check("a click pins the place, a second one lets it go", {}, async (page) => {
  await page.goto(V5);
  await page.click("#requestb13");
  assert.equal(await page.locator("tr.pinned").count(), 1);
  assert.equal(await page.locator(".grid a.pinned").count(), 2);
  await page.click("#requestb13");
  assert.equal(await page.locator(".pinned").count(), 0);
});

await check("the keyboard walks over the bytes", {}, async (page) => {
  await page.goto(V5);
  await page.focus("#requestb0");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  assert.equal(await page.evaluate(() => document.activeElement.id), "requestb17");
  assert.equal(await lit(page, "tr"), 1);
  await page.keyboard.press("End");
  assert.equal(await page.evaluate(() => document.activeElement.id), "requestb55");
});

await check("the version switch leads to the other versions", {}, async (page) => {
  await page.goto(V5);
  await page.click("nav.versions >> text=v2");
  assert.match(page.url(), /v2\.html$/);
  assert.match(await page.locator("main").innerText(), /request header v1/);
});

await check("the index is filtered", {}, async (page) => {
  await page.goto(site("index.html"));
  await page.fill("#filter", "txn");
  const names = await page.locator("#apis tbody tr:visible td:nth-child(2) a").allInnerTexts();
  assert.deepEqual(names, ["AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "WriteTxnMarkers", "TxnOffsetCommit"]);
});

await check("all is readable without JavaScript", { javaScriptEnabled: false }, async (page) => {
  await page.goto(V5);
  assert.equal(await page.locator("#request ~ .explained .grid td a").first().innerText(), "00");
  await page.click("#requestb13");
  assert.match(page.url(), /#requestn\d+$/);
  await page.goto(site("index.html"));
  assert.equal(await page.locator("#filter").isVisible(), false);
  assert.ok((await page.locator("#apis tbody tr").count()) > 80);
});

await check("light and dark differ, and text stands out in both", {}, async (page) => {
  const seen = [];
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.goto(V5);
    seen.push(await page.evaluate(worstContrast));
  }
  assert.notEqual(seen[0].paper, seen[1].paper);
  for (const one of seen) assert.ok(one.worst >= 4.5, `${one.text}: contrast ${one.worst.toFixed(2)}`);
});

await check("a narrow screen does not scroll sideways", { viewport: { width: 390, height: 800 } }, async (page) => {
  for (const path of ["index.html", "apis/Fetch/v18.html", "errors.html", "messages/OffsetCommitValue.html"]) {
    await page.goto(site(path));
    const [inner, whole] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
    assert.ok(whole <= inner, `${path} is ${whole} wide: ${await page.evaluate(widest)}`);
  }
});

await check("the broker's pages lead to each other", {}, async (page) => {
  for (const name of ["Overview", "Topics", "Groups", "Transactions", "Frames", "Decode", "APIs"]) {
    await page.goto(`${broker}/`);
    await page.click(`nav >> text="${name}"`);
    assert.equal(await page.locator("main h1").count(), 1, name);
  }
});

await check("the paste box takes a frame apart", {}, async (page) => {
  await page.goto(`${broker}/decode`);
  await page.fill("textarea", "0000001800190004000000000000 00 01 0000000000000000 0000 01 00");
  await page.click("form.paste button");
  assert.match(await page.locator("h2").first().innerText(), /AddOffsetsToTxn v4/);
  await page.hover("#f0n2 td.label");
  assert.equal(await lit(page, ".grid a"), 4);
});

await check("a capture file dropped on the paste box is taken apart", {}, async (page) => {
  const capture = readFileSync(new URL("../../crates/microscope/tests/capture/kcat.pcap", import.meta.url));
  await page.goto(`${broker}/decode`);
  const data = await page.evaluateHandle((bytes) => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array(bytes)], "kcat.pcap"));
    return data;
  }, [...capture]);
  await Promise.all([page.waitForURL(/decode/), page.dispatchEvent("form.paste", "drop", { dataTransfer: data })]);
  await page.waitForSelector("h2");
  assert.match(await page.locator("main").innerText(), /MetadataResponse/);
});

await browser.close();
process.exit(failed === 0 ? 0 : 1);

// Run in the page: the text with the least contrast to what is behind it (WCAG).
function worstContrast() {
  const channels = (css) => css.match(/[\d.]+/g).map(Number);
  const light = (css) => {
    const [r, g, b] = channels(css).slice(0, 3).map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if ((channels(color)[3] ?? 1) > 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const paper = getComputedStyle(document.body).backgroundColor;
  let worst = { worst: 99, text: "", paper };
  for (const element of document.querySelectorAll("main *")) {
    const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join("");
    if (!text || !element.offsetParent) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < worst.worst) worst = { worst: contrast, text: `${element.className || element.tagName} "${text.slice(0, 20)}"`, paper };
  }
  return worst;
}

// Run in the page: the innermost thing that reaches furthest to the right, outside of what scrolls by itself.
function widest() {
  let worst = { right: 0, text: "" };
  for (const element of document.querySelectorAll("body *")) {
    const { right } = element.getBoundingClientRect();
    if (right >= worst.right && !element.closest(".scroll")) worst = { right, text: element.outerHTML.slice(0, 80) };
  }
  return worst.text;
}
