# `make` builds the command and makes a figure of each system; `make test` runs tests; `make help`.

CARGO ?= cargo
TARGET := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
CAVY := $(TARGET)/release/cavy
# The lock file decides what is built.
LOCKED ?= --locked
# Options of rooms that are off by default and tested all the same.
FEATURES := --features cavy-live/tower

.DEFAULT_GOAL := tour
.PHONY: tour figures guides short-guides same-claims steps claims seeds build install live live-test search search-test test check fmt fmt-check lint tidy wasm deny command compile unit doc docs site pages bench clean help

# One figure of each system, a minute of two cores together.
TOUR = persephone.fig3 homa.w4 slowpoke.fig11 incast.cure dast.clients htrae.error roar.delay
tour: build ## build, make a figure of each system, print where the report is (the default)
	@echo "$(CAVY) reproduce $(TOUR)"; $(CAVY) reproduce $(TOUR) || [ $$? -eq 1 ]
	@echo "next: $(CAVY) ask                       which cause of a slow tail to look at first"
	@echo "      $(CAVY) plan new my.toml; $(CAVY) run my.toml   a workload of your own"
	@echo "      $(CAVY) reproduce persephone      all figures of a system ($(CAVY) list)"

build: ## build the command
	$(CARGO) build --release $(LOCKED)

PREFIX ?= $(HOME)/.local
install: build ## put cavy, and cavy-live if it is built, into PREFIX/bin (~/.local/bin)
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(CAVY) $(DESTDIR)$(PREFIX)/bin/cavy
	@if [ -x $(CAVY)-live ]; then \
	  echo "install -m 755 $(CAVY)-live $(DESTDIR)$(PREFIX)/bin/cavy-live"; \
	  install -m 755 $(CAVY)-live $(DESTDIR)$(PREFIX)/bin/cavy-live; fi
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; \
	  *) echo "note: $(PREFIX)/bin is not on the PATH";; esac

live: build ## build cavy-live as well: servers, load generator, live studies
	$(CARGO) build --release $(LOCKED) -p cavy-live-cli --features rpc

live-test: ## the study of Homa with QUIC and gRPC, which `make test` does not compile
	$(CARGO) clippy $(LOCKED) -p cavy-live-cli --features rpc --all-targets -- -D warnings
	$(CARGO) test $(LOCKED) -p cavy-live-cli --features rpc --test study_homa -- --nocapture

# To compile tantivy with optimisation takes more than five minutes of a processor, so the search
# cluster is a package of its own, which `make` does not compile. Its tests are not optimised: then
# everything compiles in two minutes.
SEARCH = $(CARGO) $(1) $(LOCKED) --manifest-path search-live/Cargo.toml \
  --target-dir $(TARGET)/search
search: ## build cavy-search, the search cluster that speaks as Elasticsearch does (10 minutes)
	$(call SEARCH,build --release)
	@mkdir -p $(TARGET)/release && cp $(TARGET)/search/release/cavy-search $(TARGET)/release/

search-test: ## the tests of cavy-search
	$(PATIENCE) $(call SEARCH,test) --no-fail-fast

# From fast to slow, so that the first mistake is seen early. Once the command is compiled, a second
# row of steps, which is what users do, takes what the first leaves idle: the last rooms compile one
# after the other, and tests that open sockets wait more than they compute. With KEEP_GOING=1 a failed
# step does not stop the next ones.
FIRST = fmt-check lint tidy command
STEPS = compile wasm deny unit search-test doc
BESIDE = figures same-claims short-guides
# They are made with the command that the tests have compiled, whose sums are checked for overflow and
# whose assertions are on. A release build for them alone costs more than it saves.
TESTED = CAVY=$(TARGET)/debug/cavy BUILT=
IDLE = $(shell chrt --idle 0 true 2>/dev/null && echo chrt --idle 0 || echo nice -n 19)
KEEP_GOING ?=
test: ## all tests, beside them the figures of all systems; says how long each step took
	@failed=0; $(MAKE) --no-print-directory steps STEPS="$(FIRST)" || failed=1; \
	[ $$failed = 0 ] || [ -n "$(KEEP_GOING)" ] || exit 1; \
	mkdir -p $(TARGET); echo "beside: $(BESIDE), into $(TARGET)/beside.log"; \
	$(IDLE) $(MAKE) --no-print-directory steps STEPS="$(BESIDE)" $(TESTED) \
	  >$(TARGET)/beside.log 2>&1 & \
	beside=$$!; trap "kill $$beside 2>/dev/null" EXIT; trap 'exit 130' INT TERM; \
	$(MAKE) --no-print-directory steps || failed=1; \
	[ $$failed = 0 ] || [ -n "$(KEEP_GOING)" ] || exit 1; \
	wait $$beside || failed=1; cat $(TARGET)/beside.log; exit $$failed

steps:
	@failed=; for step in $(STEPS); do start=$$(date +%s); \
	  $(MAKE) --no-print-directory $$step || failed="$$failed $$step"; \
	  took="$$took$$(printf '%6d s  %s' $$(($$(date +%s) - start)) $$step)|"; \
	  [ -z "$$failed" ] || [ -n "$(KEEP_GOING)" ] || break; done; \
	echo "$$took" | tr '|' '\n'; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

same-claims:
	@for system in $(SYSTEMS); do \
	  diff -u docs/claims/$$system.md $(TARGET)/figures/$$system/claims.md || \
	  { echo "docs/claims/$$system.md is of another run; 'make claims' writes it"; exit 1; }; done

# What has to be made before the command runs.
BUILT = build

# cavy as users build it, and cavy-live as it is there: `make live` or the tests have built it.
ONLY ?=
guides: $(BUILT) ## run the first commands of the guides as they stand there (of ONLY="page page")
	$(if $(BUILT),$(CARGO) test -q $(LOCKED) --workspace $(FEATURES) --test tidy --no-run)
	$(TARGET)/debug/guides $(abspath $(TARGET)/guides) \
	  $(abspath $(dir $(CAVY))) $(abspath $(TARGET)/debug) $(if $(ONLY),-- $(ONLY))

# Those of the guides that take seconds, for `make test`; all ten take two and a half minutes. The
# tutorial and the README are run by crates/cli/tests/guides.rs.
short-guides:
	@$(MAKE) --no-print-directory guides ONLY="which-remedy nearest-region read-a-report"

# Systems whose claims are kept in docs/claims. The same seed gives the same page on any machine, so
# `make test` compares. Exit code 1 of `cavy reproduce` says that a claim is not reproduced; which
# ones are known not to be stands in the page.
SYSTEMS = $(basename $(notdir $(wildcard docs/claims/*.md)))
figures: $(BUILT) ## make the figures of all systems
	@for system in $(SYSTEMS); do echo "$(CAVY) reproduce $$system"; \
	  rm -f $(TARGET)/figures/$$system/claims.md; \
	  $(CAVY) reproduce $$system --out $(TARGET)/figures/$$system || [ $$? -eq 1 ] || exit 1; done

claims: figures ## make all figures, and keep their claims in docs/claims
	@for system in $(SYSTEMS); do \
	  cp $(TARGET)/figures/$$system/claims.md docs/claims/$$system.md || exit 1; done
	$(MAKE) docs

# Do quick verdicts depend on the seed? Twenty runs of each system: an hour of two cores for all.
SEEDS ?= 20
seeds: build ## judge the claims of SYSTEMS under SEEDS seeds, and keep the tables in docs/seeds
	@mkdir -p docs/seeds; for system in $(SYSTEMS); do \
	  echo "$(CAVY) reproduce $$system --seeds $(SEEDS)"; \
	  $(CAVY) reproduce $$system --seeds $(SEEDS) --resume --out $(TARGET)/seeds/$$system || \
	  [ $$? -eq 1 ] || exit 1; \
	  cp $(TARGET)/seeds/$$system/seeds.md docs/seeds/$$system.md || exit 1; done
	$(MAKE) docs

# What one runs while working: the tests of the rooms that differ from BASE, a commit or a branch.
# Together with tidy's, so that what both stand on is compiled once.
BASE ?= HEAD
check: fmt-check lint ## formats, lints, tidy, and tests of the rooms that changed (BASE=main: since then)
	@rooms=$$( (git diff --name-only $(BASE); git ls-files --others --exclude-standard) | sed -n \
	  -e 's,^crates/kinds/.*,-p cavy-kinds-tests,p;t' \
	  -e 's,^crates/\([^/]*\)/.*,-p cavy-\1,p;t' -e 's,^tests/kinds/.*,-p cavy-kinds-tests,p;t' \
	  -e 's,^tests/eighth/.*,-p cavy-eighth,p' | sort -u); \
	[ -n "$$rooms" ] || echo "no room differs from $(BASE)"; \
	echo "$(CARGO) test -p cavy-tidy" $$rooms; $(CARGO) test -q $(LOCKED) -p cavy-tidy $$rooms

fmt: ## format the code
	$(CARGO) fmt --all
	$(CARGO) fmt --manifest-path search-live/Cargo.toml

fmt-check:
	@if $(CARGO) fmt --version >/dev/null 2>&1; then \
	  echo "$(CARGO) fmt --all --check"; $(CARGO) fmt --all --check && \
	  $(CARGO) fmt --manifest-path search-live/Cargo.toml --check; \
	else echo "SKIPPED: rustfmt is not installed (rustup component add rustfmt)"; fi

lint: ## clippy, warnings denied
	@if $(CARGO) clippy --version >/dev/null 2>&1; then \
	  echo "$(CARGO) clippy --workspace --all-targets"; \
	  $(CARGO) clippy $(LOCKED) --workspace --all-targets $(FEATURES) -- -D warnings && \
	  $(call SEARCH,clippy) --all-targets -- -D warnings; \
	else echo "SKIPPED: clippy is not installed (rustup component add clippy)"; fi

# Of the whole workspace, whose features `unit` has: of tidy alone, `kinds` and all below it would be
# compiled for this step and once more for the next.
tidy: ## the repository's tests of itself
	$(CARGO) test $(LOCKED) --workspace $(FEATURES) --test tidy -- --nocapture

# The protocols must run in a browser and give the same numbers there. One room a line.
WASM = -p cavy-core \
  -p cavy-coords \
  -p cavy-search \
  -p cavy-homa \
  -p cavy-txn \
  -p cavy-sched \
  -p cavy-tcp -p cavy-whatif \
  -p cavy-workload
wasm: ## what must build for wasm32, if that target is installed
	@if [ -d "$$($(CARGO:cargo=rustc) --print sysroot)/lib/rustlib/wasm32-unknown-unknown/lib" ]; then \
	  echo "$(CARGO) check $(WASM) --target wasm32-unknown-unknown"; \
	  $(CARGO) check $(LOCKED) $(WASM) \
	    --target wasm32-unknown-unknown && \
	  if [ -x tests/wasm/run.sh ]; then tests/wasm/run.sh; fi; \
	else echo "SKIPPED: target wasm32-unknown-unknown is not installed (rustup target add it)"; fi

deny:
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
	  echo "$(CARGO) deny check"; $(CARGO) deny check licenses bans sources; \
	else echo "SKIPPED: cargo-deny is not installed (cargo install cargo-deny)"; fi

# A test program that hangs would take the time of all that come after it. Where steps go on after a
# failure, programs do too: after 15 minutes such a one is ended, which counts as its failure.
HOST = $(shell $(CARGO:cargo=rustc) -vV | sed -n 's/^host: //p' | tr a-z- A-Z_)
PATIENCE = $(if $(KEEP_GOING),CARGO_TARGET_$(HOST)_RUNNER="timeout -k 10 900")
# Its features are those that it has in tests.
command:
	$(CARGO) test $(LOCKED) --workspace --no-run $(FEATURES) --test commands

compile: ## compile the tests of all rooms
	$(CARGO) test $(LOCKED) --workspace --no-run $(FEATURES)

unit: ## the tests of all rooms
	$(PATIENCE) $(CARGO) test $(LOCKED) --workspace --no-fail-fast $(FEATURES)

# cavy-live-cli has nothing to document, and its feature rocksdb compiles a large C++ library.
doc: ## the documentation of the code, warnings denied
	RUSTDOCFLAGS="$$RUSTDOCFLAGS -D warnings" $(CARGO) doc $(LOCKED) --workspace --exclude cavy-live-cli \
	  --all-features --no-deps

docs: ## write the generated parts of documents anew
	$(CARGO) run -q $(LOCKED) -p cavy-tidy --bin documents

# mdBook is a program of its own; nothing here compiles it.
MDBOOK ?= mdbook
SITE ?= $(abspath $(TARGET))/site
site: ## all pages and the documentation of the code in one folder, with search, to read offline
	@$(MDBOOK) --version >/dev/null 2>&1 || { \
	  echo "error: mdBook is not installed, which makes the pages"; \
	  echo "hint: cargo install mdbook --version 0.5.4 --locked --no-default-features --features search"; \
	  exit 2; }
	$(MAKE) doc
	$(CARGO) run -q $(LOCKED) -p cavy-tidy --bin site -- $(TARGET)/site-source
	$(MDBOOK) build $(TARGET)/site-source --dest-dir $(SITE)
	cp -r $(TARGET)/doc $(SITE)/api
	@echo "site: $(SITE)/index.html"

# Reports and pages as people see them who use a keyboard, a screen reader, a phone or dark colors.
PAGES = $(wildcard $(TARGET)/figures/*/report.html $(addprefix $(SITE)/,index.html \
  docs/tutorial/first-plan.html docs/reference/plan-server.html docs/reference/live-command.html \
  docs/models/homa.html docs/models/tcp.html docs/claims/homa.html docs/performance.html))
pages: ## open reports and pages of the site in Chromium; axe-core must find no fault
	tests/pages/run.sh $(abspath $(PAGES))

bench: ## the benchmarks
	cd benches && $(CARGO) bench

clean: ## remove what was built
	$(CARGO) clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12
