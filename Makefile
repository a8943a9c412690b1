# The targets a developer needs. `make test` is all that must pass before a
# commit; CI runs .ci/run, which adds the long forms with a budget each.

GO ?= go

.PHONY: build run test race compat fuzz torture ensemble ensemble-stop bench-compare nightly

build:
	$(GO) build -trimpath -ldflags "-X main.buildDate=$$(date -u +%F)" -o bin/zooid ./cmd/zooid

run: build
	./bin/zooid server

test:
	$(GO) vet ./...
	$(GO) test -timeout 9m ./...

race:
	$(GO) test -race -short -timeout 15m ./...

# Real clients and a real Apache ZooKeeper; installs them first.
compat:
	test/compat/install.sh
	ZOOID_COMPAT=1 $(GO) test -p 1 ./test/compat/... -count=1 -v -timeout 30m

# Each fuzz target for FUZZTIME.
FUZZTIME ?= 60s
fuzz:
	test/fuzz.sh $(FUZZTIME)

# Real processes killed, frozen, cut off and starved of disk, under load; the
# share that CI runs. TORTURE=-long is the nightly one; -run, -seed and -kills
# narrow it (docs/testing.md). Some of it needs root.
TORTURE ?=
torture:
	test/compat/install.sh
	ZOOID_CRASH=1 $(GO) test ./test/crash -count=1 -v -timeout 30m $(TORTURE)

ensemble: build
	test/ensemble.sh start

ensemble-stop:
	test/ensemble.sh stop

bench-compare: build
	test/bench-compare.sh

nightly: test race compat
	$(MAKE) fuzz FUZZTIME=10m
