#!/bin/sh
# Builds the golden runs for wasm32 and runs them under Node. Skips, and says why, where the target
# or Node is not installed; set CAVY_WASM_REQUIRED=1 to fail instead.
set -eu
cd "$(dirname "$0")"

skip() {
  echo "wasm: SKIPPED: $1"
  if [ "${CAVY_WASM_REQUIRED:-0}" = 1 ]; then exit 1; fi
  exit 0
}

target=wasm32-unknown-unknown
command -v cargo >/dev/null 2>&1 || skip "cargo is not installed"
command -v node >/dev/null 2>&1 || skip "node is not installed"
[ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] ||
  skip "the target $target is not installed (rustup target add $target)"

cargo build --quiet --release --target "$target"
out=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
node run.mjs "$out/$target/release/cavy_wasm_check.wasm"
