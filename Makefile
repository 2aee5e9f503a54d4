# What runs here runs in CI. Programs that need privileges say so themselves.

CARGO ?= cargo
export CARGO

# Live tests are in modules of this name (see CONTRIBUTING.md). Both goals below select all targets: for a selection of targets,
# cargo compiles dependencies a second time.
live := live

PREFIX ?= /usr/local

.PHONY: build install deb deb-module test test-full test-workspace test-live test-scripts lint oldest-rust oldest deny crates miri demo bench prove docs pictures setup help

help: ## list the goals
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 24

setup: ## install the programs that the tests run (Debian packages; only what is missing)
	@scripts/setup.sh test

build: ## compile the program: target/release/memtint
	$(CARGO) build --release --bin memtint

shared = $(DESTDIR)$(PREFIX)/share

# BINARY is a program that has been compiled already.
install: ## compile the program with optimization across crates (takes several times as long) and install it below $(DESTDIR)$(PREFIX), with its man pages, completions, examples and units for systemd; PREFIX is /usr/local
	$(if $(BINARY),,$(CARGO) build --profile dist --bin memtint)
	install -D "$(or $(BINARY),$${CARGO_TARGET_DIR:-target}/dist/memtint)" "$(DESTDIR)$(PREFIX)/bin/memtint"
	install -d "$(DESTDIR)$(PREFIX)/lib/systemd/system" "$(shared)/man/man1"
	for unit in systemd/*.service; do sed 's|/usr/local/|$(PREFIX)/|' "$$unit" >"$(DESTDIR)$(PREFIX)/lib/systemd/system/$${unit##*/}" || exit 1; done
	"$(DESTDIR)$(PREFIX)/bin/memtint" manual "$(shared)/man/man1"
	install -D oci/memtint-oci "$(DESTDIR)$(PREFIX)/lib/memtint/memtint-oci"
	install -d "$(shared)/bash-completion/completions" "$(shared)/zsh/site-functions" "$(shared)/fish/vendor_completions.d"
	"$(DESTDIR)$(PREFIX)/bin/memtint" completions bash >"$(shared)/bash-completion/completions/memtint"
	"$(DESTDIR)$(PREFIX)/bin/memtint" completions zsh >"$(shared)/zsh/site-functions/_memtint"
	"$(DESTDIR)$(PREFIX)/bin/memtint" completions fish >"$(shared)/fish/vendor_completions.d/memtint.fish"
	install -d "$(shared)/doc/memtint/examples"
	install -m 644 examples/*.toml "$(shared)/doc/memtint/examples"

deb: ## build the Debian package of what install installs: build/memtint_VERSION_ARCHITECTURE.deb
	@CARGO="$(CARGO)" scripts/deb.sh $(BINARY)

deb-module: ## build the Debian package of the module that regulates bandwidth, for dkms: build/memtint-guard-dkms_VERSION_all.deb
	@scripts/deb-module.sh

lint: ## format, clippy, documentation, shellcheck and prose, warnings denied; and the fuzz targets compile
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) fmt --manifest-path crates/live/helper/Cargo.toml --check
	$(CARGO) clippy --manifest-path crates/live/helper/Cargo.toml --target-dir target/helper -- -D warnings
	$(CARGO) fmt --manifest-path crates/recorder/plugin/Cargo.toml --check
	$(CARGO) clippy --manifest-path crates/recorder/plugin/Cargo.toml --target-dir target/plugin -- -D warnings
	$(CARGO) check --manifest-path fuzz/Cargo.toml --target-dir target/fuzz
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items
	scripts/shellcheck.sh
	scripts/prose.sh

# The oldest Rust that is supported, and what it compiles.
rust_version := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

oldest-rust: # for scripts/test.sh, which skips the next goal where this one fails
	rustup run $(rust_version) cargo --version >/dev/null 2>&1 || rustup toolchain install $(rust_version) --profile minimal --no-self-update

oldest: oldest-rust ## compile with the oldest Rust that is supported, which rustup installs
	rustup run $(rust_version) cargo check --locked --workspace --target-dir target/oldest

deny: ## licenses, sources and known defects of all packages (cargo-deny is compiled if it is missing; advisories are fetched from the net)
	command -v cargo-deny >/dev/null || $(CARGO) install cargo-deny --locked
	$(CARGO) deny check

# Crates that stand alone, and their dependencies.
published := units input embed map dram sched guard

crates: ## package the crates that are published, and compile each from its package alone
	$(CARGO) package --allow-dirty $(published:%=--package memtint-%)

# Crates with arithmetic on addresses, frames and budgets. Runtime, regulator, detection and stopwatch make system calls that the interpreter
# does not know; of the others the tests would take days in it, and so would one that reads a table of 200,000 entries; and it
# has no process of this machine.
interpreted := units map frames inspect guard

miri: ## unit tests of five crates, interpreted: undefined behavior fails (nightly Rust)
	rustup toolchain install nightly --profile minimal --component miri,rust-src --no-self-update
	MIRIFLAGS=-Zmiri-disable-isolation rustup run nightly cargo miri test --target-dir target/miri $(interpreted:%=--package memtint-%) --lib -- --skip lookup_returns_each_entry --skip this_process

test: ## everything that CI checks; the kernel's suites when something has changed that they depend on, else a smoke boot; as root, because live tests read frame numbers
	@scripts/test.sh

test-full: ## the same, including tests that otherwise run only after a change; some run longer
	@scripts/test.sh full

test-workspace: ## unit, integration and documentation tests that need no quiet machine
	$(CARGO) test --workspace --no-fail-fast -- --skip $(live)::

test-live: ## tests that run programs in color, read frame numbers or time memory, one at a time (as root)
	$(CARGO) test --workspace --no-fail-fast -- --test-threads=1 $(live)::

test-scripts: ## tests of the scripts that fetch kernels, choose suites and count tests
	@scripts/test/run.sh

demo: ## two real programs side by side in disjoint colors, the verdict, and what that buys on a simulated machine (as root)
	@scripts/setup.sh demo
	@scripts/demo.sh

docs: ## build the documentation site: build/docs/index.html (its programs are fetched into build/docs-programs)
	@scripts/docs.sh

pictures: build ## draw the pictures of the documentation anew: docs/pictures
	@scripts/pictures.sh

prove: ## every state of every regulated system of three cores with budgets up to three quanta (half an hour or more)
	$(CARGO) test -p memtint-guard --release --test it -- --ignored --nocapture every_system

bench: setup build ## what coloring costs, against the same programs without it (as root); platform as for the demonstration
	@mkdir -p build
	target/release/memtint platform detect --functions-of skl-e3-1220v5-4x4g >build/here.toml
	target/release/memtint bench run --platform "$${MEMTINT_PLATFORM:-build/here.toml}"
