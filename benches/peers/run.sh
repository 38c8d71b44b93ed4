#!/bin/sh
# Runs the same M/G/14 model (service 1 or 100 us, Poisson arrivals, load 0.8) in other people's
# simulators and prints a table: CPU nanoseconds per request (median of three runs) and the mean
# sojourn time, which must agree. A second table has SimPy's side of `cargo bench --bench services`:
# CPU nanoseconds per visit, and throughput. A third one has that of `cargo bench --bench parts`:
# the same queries of a search cluster, by sub-query. A peer that cannot be installed is skipped,
# and the table says so.
#
# Everything is installed under benches/target; package managers keep their caches where they do.
set -u
here=$(cd "$(dirname "$0")" && pwd)
built=$here/../target
venv=$built/peers-venv
logs=$built/peers-logs
mkdir -p "$logs"

echo "| peer | ns/request | mean sojourn us |"
echo "|---|---|---|"

skip() { echo "| $1 | skipped: $2 (log: benches/target/peers-logs/$3) | |"; }

# Prints the row of the middle one of three runs, by time.
row() {
    name=$1
    shift
    for _ in 1 2 3; do "$@" || return 1; done 2>"$logs/$name" | sort -t "$(printf '\t')" -k 2 -n |
        awk -F '\t' 'NF == 3 { line[++n] = "| " $1 " | " $2 " | " $3 " |" }
                     END { if (n != 3) exit 1; print line[2] }' ||
        skip "$name" "it fails" "$name"
}

python_peer() {
    name=$1 package=$2
    shift 2
    if ! [ -x "$venv/bin/python" ] && ! python3 -m venv "$venv" >"$logs/venv" 2>&1; then
        skip "$name" "no Python virtual environment" venv
    elif ! "$venv/bin/python" -m pip install --quiet "$package" >"$logs/$name" 2>&1; then
        skip "$name" "$package does not install" "$name"
    else
        row "$name" "$venv/bin/python" "$here/$name.py" "$@"
    fi
}

python_peer simpy_idiomatic 'simpy==4.1.*'
python_peer simpy_lean 'simpy==4.1.*'
python_peer ciw_model 'ciw==3.2.*'

if ! command -v cargo >/dev/null 2>&1; then
    echo "| simcore | skipped: no cargo | |"
elif ! cargo build --quiet --locked --release --manifest-path "$here/rust/Cargo.toml" \
    --target-dir "$built/peers-rust" >"$logs/simcore" 2>&1; then
    skip simcore "it does not build" simcore
else
    row simcore "$built/peers-rust/release/cavy-peer-simcore"
fi

printf '\n| peer | ns/visit | requests/s |\n|---|---|---|\n'
python_peer simpy_chain 'simpy==4.1.*'

printf '\n| peer | ns/sub-query | mean ms |\n|---|---|---|\n'
queries=$logs/queries
if ! (cd "$here/.." && cargo bench --quiet --bench parts -- "$queries") >"$logs/parts" 2>&1; then
    skip simpy_parts "the queries are not written" parts
else
    python_peer simpy_parts 'simpy==4.1.*' "$queries"
    python_peer simpy_parts 'simpy==4.1.*' "$queries" plans
fi
