#!/bin/sh
# UDP blast over the source's fabric in ns-3, for comparison with `cargo bench --bench hop`: processor
# nanoseconds for a packet on a link. ns-3 comes as a wheel of the Python registry, whose C++ libraries
# a small program links; everything is installed under benches/target.
#
# Usage: benches/peers/ns3.sh [MILLISECONDS]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=${NS3_VENV:-$here/../target/ns3-venv}
out=$here/../target/ns3-blast
mkdir -p "$here/../target"
if ! [ -x "$venv/bin/python" ]; then python3 -m venv "$venv"; fi
"$venv/bin/python" -c 'import ns' 2>/dev/null || "$venv/bin/python" -m pip install --quiet 'ns3==3.44.*'
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/ns3
libs=
for module in core network internet point-to-point traffic-control applications; do
    libs="$libs -l:libns3.44-$module.so"
done
# The libraries of the wheel were built against its own copies of others, hence what is left unresolved.
# shellcheck disable=SC2086
g++ -std=c++20 -O2 -DNDEBUG -I "$site/include" "$here/ns3/blast.cc" -L "$site/lib64" $libs \
    -Wl,-rpath,"$site/lib64" -Wl,--allow-shlib-undefined -o "$out"
"$out" "$here/../../crates/homa/tests/data/homa-workloads.csv" "${1:-2}"
