# `make run` and `make test` are all that a new user needs. Both install or name what is missing first.

DOORBELL := target/release/doorbell

.PHONY: help run fast test test-long test-fresh test-faults test-golden test-sanitize bench traces book lint build setup-run setup-test

help:
	@echo "make run        build Doorbell and its guest image, then measure testpmd at several loads"
	@echo "make test       the test suite with its short end-to-end checks (10 to 15 minutes)"
	@echo "make test-long  the long checks: lint, a million frames, tens of millions of instructions in lockstep"
	@echo "make test-fresh the two commands above on fresh Debian machines, which it makes (root; half an hour each)"
	@echo "make test-faults  processes killed and disks filled at moments that seeds decide, until it finds something or Ctrl-C"
	@echo "make test-golden  whole runs do what they did before, to the picosecond (a minute); tests/golden --help says more"
	@echo "make test-sanitize  guest RAM and the engine, all of the unsafe code, under AddressSanitizer"
	@echo "make lint       formatting and clippy; before each commit"
	@echo "make bench      speed and memory, beside QEMU where there is something to compare"
	@echo "make traces     record the traces of the study ddiosim (x86-64 under QEMU; some minutes, once)"
	@echo "make book       the documentation as a site with search, in target/book/site"
	@echo "make build      only build $(DOORBELL)"
	@echo "make fast       build target/fast/doorbell, arranged by what it does in some short benchmarks (half an hour)"

run: build
	$(DOORBELL) run testpmd --rate 1Mpps,8Mpps,16Mpps,24Mpps,28Mpps,32Mpps

test: setup-test
	cargo fmt --all --check
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
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

setup-run:
	@tools/setup run

setup-test:
	@tools/setup test
