#!/bin/sh
# Distances and updates of coordinates here, in the crate vivaldi-nc and in serf's own Go package,
# in turns on the same coordinates. The Go program is built under benches/target; without Go its
# column says so.
set -u
here=$(cd "$(dirname "$0")" && pwd)
built=$here/../target/peers-serf
logs=$here/../target/peers-logs
mkdir -p "$built" "$logs"
program=
if ! command -v go >/dev/null 2>&1; then
    echo "SKIPPED serf in Go: no go"
elif cp "$here/vivaldi/main.go" "$built/" && (
    cd "$built" && rm -f go.mod go.sum && go mod init serf-distance &&
        go get github.com/hashicorp/serf/coordinate@v0.10.1 && go mod tidy && go build -o distance .
) >"$logs/serf" 2>&1; then
    program=$built/distance
else
    echo "SKIPPED serf in Go: it does not build (log: benches/target/peers-logs/serf)"
fi
exec cargo run --quiet --locked --release --manifest-path "$here/vivaldi/Cargo.toml" \
    --target-dir "$here/../target/peers-vivaldi" -- $program
