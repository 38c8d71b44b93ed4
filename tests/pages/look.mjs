// Looks at pages with axe-core in headless Chromium; see run.sh.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const NODES_MAX = 15_000; // Of a report that nobody has touched.
const LOADS = Number(process.env.LOADS ?? 3); // Of each report, whose times are measured.
const axe = readFileSync("node_modules/axe-core/axe.min.js", "utf8");
const folder = mkdtempSync(join(tmpdir(), "cavy-pages-"));

// What the page does to itself. The count comes before anything is opened.
const probe = (all) => `<script>${axe}</script><script>
addEventListener("load", async () => {
  const say = (found) => {
    const out = document.createElement("pre");
    out.id = "found";
    out.textContent = JSON.stringify(found);
    document.body.append(out);
  };
  const nodes = document.querySelectorAll("*").length;
  try {
    if (${all}) document.querySelectorAll("details").forEach((one) => { one.open = true; });
    await new Promise((done) => setTimeout(done, 500));
    const { violations, passes } = await axe.run(document, { resultTypes: ["violations"] });
    say({ nodes, passes: passes.length, violations: violations.map(({ id, help, nodes }) => ({ id, help,
      count: nodes.length, first: nodes.slice(0, 3).map((one) => one.target.join(" ") + ": " + one.html.slice(0, 120)) })) });
  } catch (error) { say({ nodes, error: String(error) }); }
});
</script>`;

// How long it takes until the page is loaded and laid out.
const watch = `<script>addEventListener("load", () => {
  document.body.getBoundingClientRect();
  const out = document.createElement("pre");
  out.id = "found";
  out.textContent = JSON.stringify(performance.now());
  document.body.append(out);
});</script>`;

// Loads the page with something put at its end, and gives what that says of it.
function open(page, put, options) {
  const end = page.lastIndexOf("</body>");
  const copy = join(folder, "page.html");
  writeFileSync(copy, page.slice(0, end) + put + page.slice(end));
  const out = execFileSync(process.env.CHROMIUM, [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files",
    ...options, "--dump-dom", pathToFileURL(copy).href,
  ], { encoding: "utf8", maxBuffer: 1 << 29, stdio: ["ignore", "pipe", "ignore"], timeout: 240_000 });
  const found = out.match(/<pre id="found">(.*?)<\/pre>/s);
  if (!found) return { error: "the page did not end its look" };
  const decode = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"' };
  return JSON.parse(found[1].replace(/&(lt|gt|amp|quot);/g, (entity) => decode[entity]));
}

function look(file, scheme, width) {
  const text = readFileSync(file, "utf8");
  const report = text.includes('id="data" type="application/json"');
  const base = `<base href="${pathToFileURL(dirname(resolve(file)))}/">`;
  // The policy of a report forbids a base; it needs none, since it is one file.
  const page = report ? text : text.replace("<head>", () => `<head>${base}`);
  const colors = `--blink-settings=preferredColorScheme=${scheme === "dark" ? 0 : 1}`;
  const found = open(page, probe(report), [colors, `--window-size=${width},4000`, "--virtual-time-budget=120000"]);
  const loads = report ? Array.from({ length: LOADS }, () => open(page, watch, [colors, `--window-size=${width},900`])) : [];
  return { report, ...found, loads: loads.filter(Number.isFinite).map(Math.round).sort((a, b) => a - b) };
}

let faults = 0;
for (const file of process.argv.slice(2)) {
  for (const [scheme, width] of [["light", 1400], ["dark", 1400], ["light", 400], ["dark", 400]]) {
    const found = look(file, scheme, width);
    const { report, nodes, passes, violations = [], error, loads } = found;
    console.log(`${file}, ${scheme}, ${width} px: ${error ?? `${nodes} nodes, ${passes} rules hold, ${violations.length} do not`}`);
    if (loads.length) console.log(`  usable after ${loads[loads.length >> 1]} ms, median of ${loads.length}: ${loads.join(" ")}`);
    if (error) faults += 1;
    for (const { id, help, count, first } of violations) {
      faults += 1;
      console.log(`  ${id}: ${help} (${count})`);
      for (const one of first) console.log(`    ${one}`);
    }
    if (report && nodes > NODES_MAX) {
      faults += 1;
      console.log(`  ${nodes} nodes; a report has ${NODES_MAX} at most`);
    }
  }
}
rmSync(folder, { recursive: true });
console.log(faults ? `${faults} faults` : "all pages hold");
process.exit(faults ? 1 : 0);
