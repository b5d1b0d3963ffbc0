# A new user needs only `make run` and `make test`. Both first install missing packages or list them.

DOORBELL := target/release/doorbell
# Sources that `cargo fmt --all` does not find: modules that a macro declares, and other workspaces.
MORE_SOURCES := $(wildcard scenarios/*/mod.rs fuzz/fuzz_targets/*.rs) tools/c99/src/lib.rs

.PHONY: help run fast test test-long test-fresh test-faults test-golden test-sanitize bench traces book lint build setup-run setup-test

help:
	@echo "make run        build Doorbell and its guest image, then measure testpmd at several loads"
	@echo "make test       run the test suite with its short end-to-end checks (10 to 15 minutes)"
	@echo "make test-long  run the long checks: lint, a million frames, tens of millions of instructions in lockstep"
	@echo "make test-fresh run make run, make test and the tutorial on fresh Debian systems that it creates (root; half an hour each)"
	@echo "make test-faults  kill processes and fill disks at times chosen by seeds, until a test fails or Ctrl-C"
	@echo "make test-golden  compare whole runs with stored fingerprints, to the picosecond (a minute); see tests/golden --help"
	@echo "make test-sanitize  run guest RAM and the execution engine, all of the unsafe code, under AddressSanitizer"
	@echo "make lint       check formatting and run clippy; before each commit"
	@echo "make bench      measure speed and memory, compared with QEMU where possible"
	@echo "make traces     record the traces of the study ddiosim (x86-64 under QEMU; some minutes, once)"
	@echo "make book       build the documentation as a site with search, in target/book/site"
	@echo "make build      build $(DOORBELL) only"
	@echo "make fast       build target/fast/doorbell with profile-guided optimisation (half an hour)"

run: build
	$(DOORBELL) run testpmd --rate 1Mpps,8Mpps,16Mpps,24Mpps,28Mpps,32Mpps

test: setup-test
	cargo fmt --all --check -- $(MORE_SOURCES)
	tests/short

test-long: setup-test lint build
	tests/long

test-fresh:
	tests/fresh

test-faults: setup-test
	cargo build --locked -p doorbell -p doorbell-faults
	target/debug/doorbell-faults --doorbell target/debug/doorbell $(HISTORIES)

test-golden: setup-test
	tests/golden

test-sanitize: setup-run
	tests/sanitize

bench: setup-test build
	tests/bench

traces: build
	tools/traces

book: setup-run
	tools/book

build: setup-run
	cargo build --release --locked --bin doorbell

fast: setup-run
	tools/fast

lint: setup-run
	cargo fmt --all --check -- $(MORE_SOURCES)
	cargo clippy --workspace --all-targets --locked -- -D warnings

setup-run:
	@tools/setup run

setup-test:
	@tools/setup test
