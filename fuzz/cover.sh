#!/bin/bash
# RUSTC_WRAPPER for fuzzers without cargo-fuzz: only our crates tell libFuzzer what they reach, so
# that what others wrote, such as tantivy, is compiled as ever and no slower.
set -eu
rustc=$1
shift
name=
before=
for word in "$@"; do
  [ "$before" = --crate-name ] && name=$word
  before=$word
done
case ${CARGO_PKG_NAME:-}/$name in
  */build_script_*) exec "$rustc" "$@" ;;
  cavy-*)
    exec "$rustc" "$@" --cfg fuzzing -Cpasses=sancov-module \
      -Cllvm-args=-sanitizer-coverage-level=4 \
      -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
      -Cllvm-args=-sanitizer-coverage-pc-table \
      -Cllvm-args=-sanitizer-coverage-trace-compares \
      -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1
    ;;
  *) exec "$rustc" "$@" ;;
esac
