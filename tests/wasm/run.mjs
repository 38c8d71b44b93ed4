// Runs the golden runs in WebAssembly and compares their digests with those written down in
// golden.rs, which the native tests are held to as well.
import { readFile } from "node:fs/promises";

const path = process.argv[2];
const module = await WebAssembly.compile(await readFile(path));

const imports = WebAssembly.Module.imports(module);
if (imports.length > 0) {
  const names = imports.map((each) => `${each.module}.${each.name}`).join(", ");
  console.error(`wasm: the module imports ${names}; it must import nothing`);
  process.exit(1);
}

const { exports } = await WebAssembly.instantiate(module, {});
const hex = (digest) => `0x${BigInt.asUintN(64, digest).toString(16).padStart(16, "0")}`;
const count = exports.golden_count();
let agreed = 0;
for (let index = 0; index < count; index += 1) {
  const expected = hex(exports.golden_digest(index));
  const found = hex(exports.golden_run(index));
  if (found === expected) {
    agreed += 1;
  } else {
    const bytes = new Uint8Array(
      exports.memory.buffer,
      exports.golden_name(index),
      exports.golden_name_bytes(index),
    );
    const name = new TextDecoder().decode(bytes);
    console.error(`wasm: "${name}" has digest ${found}, golden.rs says ${expected}`);
  }
}
if (count === 0 || agreed < count) {
  process.exit(1);
}
console.log(`wasm: ${agreed} digests agree`);
