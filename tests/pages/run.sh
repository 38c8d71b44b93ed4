#!/usr/bin/env bash
# Opens reports and pages in Chromium: axe-core must find no violation, in light and dark, wide and
# narrow; a report must not be too large. `run.sh FILE.html..`. Needs node, npm and chromium.
set -euo pipefail
cd "$(dirname "$0")"
browser=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
for need in node npm; do
  command -v "$need" >/dev/null || { echo "SKIPPED: $need is not installed (looks at pages)"; exit 0; }
done
[ -n "$browser" ] || { echo "SKIPPED: chromium is not installed (looks at pages)"; exit 0; }
[ -d node_modules/axe-core ] || npm ci --silent --no-audit --no-fund || {
  echo "SKIPPED: npm cannot install axe-core (looks at pages)"; exit 0; }
[ $# -gt 0 ] || { echo "error: name the pages to look at"; exit 2; }
CHROMIUM=$browser exec node look.mjs "$@"
