// Searches the built site in headless Chromium, and takes screenshots.
//
//   npm install --prefix /tmp/browser playwright-core
//   NODE_PATH=/tmp/browser/node_modules node scripts/website/browser.mjs build/site/site [FOLDER of screenshots]
//
// Exit code 1 if a term does not find its page first, a page logs an error or loads a file from another host, or a page
// is wider than a screen of 380 px.
import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { extname, join } from "node:path";

const { chromium } = createRequire(join(process.env.NODE_PATH ?? ".", "x.js"))("playwright-core");
const [site, pictures] = process.argv.slice(2);

// a term that people search for, and the pages of which one has to be first
const TERMS = {
  "custom environment": ["how-to/own-environment"],
  hyperparameters: ["how-to/tune"],
  "frame stack": ["how-to/memory"],
  "image observations": ["how-to/cookbook"],
  "action mask": ["how-to/own-environment", "how-to/cookbook"],
  "resume training": ["how-to/stop-and-resume", "how-to/cookbook"],
  "multi-agent": ["how-to/several-agents"],
  "self-play": ["how-to/self-play"],
  ONNX: ["how-to/export"],
  "vectorized environments": ["how-to/vector-envs"],
  "learning rate schedule": ["how-to/cookbook"],
  NaN: ["troubleshooting"],
};
const SCREENS = [
  ["index", 1280, "light"],
  ["iteration", 1280, "dark"],
  ["algorithms/ppo", 1280, "light"],
  ["environments/gymnasium", 1280, "dark"],
  ["index", 380, "light"],
  ["algorithms/dqn", 380, "dark"],
];
const TYPES = { ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".json": "application/json", ".svg": "image/svg+xml" };

const server = createServer((request, response) => {
  const file = join(site, decodeURIComponent(new URL(request.url, "http://x").pathname)).replace(/\/$/, "/index.html");
  if (!existsSync(file) || !statSync(file).isFile()) return response.writeHead(404).end();
  response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream" });
  createReadStream(file).pipe(response);
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const root = `http://127.0.0.1:${server.address().port}/`;

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const faults = [];
const watched = async (options) => {
  const page = await browser.newPage(options);
  page.on("pageerror", (error) => faults.push(`${page.url()}: ${error}`));
  page.on("console", (line) => line.type() === "error" && faults.push(`${page.url()}: ${line.text()}`));
  page.on("request", (one) => one.url().startsWith(root) || one.url().startsWith("data:") || one.url().startsWith("blob:") || faults.push(`${page.url()} loads ${one.url()}`));
  return page;
};

const page = await watched({ viewport: { width: 1280, height: 900 } });
await page.goto(root + "index.html");
await page.locator(".md-search__button").first().click();
await page.locator("dialog input").first().fill("environment");
await page.locator("dialog ol > li > a").first().waitFor({ timeout: 60000 }); // the index is loaded
for (const [term, right] of Object.entries(TERMS)) {
  await page.locator("dialog input").first().fill(term);
  await page.waitForTimeout(Number(process.env.WAIT ?? 1000)); // milliseconds until the results are those of the term
  const links = await page.locator("dialog ol > li > a").evaluateAll((all) => all.map((a) => a.href));
  const found = links.map((href) => href.replace(root, "").replace(/\.html.*/, ""));
  const places = [...new Set(found)];
  const good = right.includes(places[0]);
  console.log(`${good ? "ok  " : "FAIL"} ${term}: ${places.slice(0, 5).join(", ")}`);
  if (!good) faults.push(`"${term}" finds ${places[0]} first, not ${right.join(" or ")}`);
}
await page.close();

for (const [name, width, scheme] of SCREENS) {
  const page = await watched({ viewport: { width, height: width < 500 ? 800 : 900 }, colorScheme: scheme });
  await page.goto(`${root}${name}.html`);
  await page.waitForTimeout(500);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  if (wide > width) faults.push(`${name} is ${wide} px wide on a screen of ${width}`);
  if (pictures) await page.screenshot({ path: join(pictures, `${name.replaceAll("/", "-")}-${width}-${scheme}.png`) });
  await page.close();
}
await browser.close();
server.close();
for (const fault of faults) console.log(`fault: ${fault}`);
process.exit(faults.length ? 1 : 0);
