# What runs here runs in CI. Programs that need privileges say so themselves.

CARGO ?= cargo

.PHONY: build test lint demo bench setup help

help: ## list the goals
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## install the programs that the tests run (Debian packages; only what is missing)
	@scripts/setup.sh test

build: ## compile the program: target/release/memtint
	$(CARGO) build --release --bin memtint

lint: ## format, clippy, documentation and shellcheck, warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) fmt --manifest-path crates/live/helper/Cargo.toml --check
	$(CARGO) clippy --manifest-path crates/live/helper/Cargo.toml --target-dir target/helper -- -D warnings
	$(CARGO) fmt --manifest-path crates/recorder/plugin/Cargo.toml --check
	$(CARGO) clippy --manifest-path crates/recorder/plugin/Cargo.toml --target-dir target/plugin -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items
	scripts/shellcheck.sh

test: setup lint ## everything that CI checks, here and in kernels that it builds and boots; as root, because live tests read frame numbers
	$(CARGO) test --workspace
	$(MAKE) --no-print-directory -C kernel test

demo: ## two real programs side by side in disjoint colors, and the verdict (as root)
	@scripts/setup.sh demo
	@scripts/demo.sh

bench: setup build ## what coloring costs, against the same programs without it (as root); platform as for the demonstration
	@mkdir -p build
	target/release/memtint platform detect --functions-of skl-e3-1220v5-4x4g >build/here.toml
	target/release/memtint bench run --platform "$${MEMTINT_PLATFORM:-build/here.toml}"
