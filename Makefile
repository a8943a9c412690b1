# The targets a developer needs. `make test` is all that must pass before a commit, `make gate` before a change is
# submitted; CI runs .ci/run, which is `make gate` and `make real` within one budget.

GO ?= go

# What runs tests; test/ring.sh puts test/rerun here. Packages come before flags, which test/rerun needs.
GOTEST ?= $(GO) test

# The version is that of the git tag; without one, or without git, the program's own.
VERSION ?= $(patsubst v%,%,$(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null))
STAMP = -X main.buildDate=$$(date -u +%F)$(if $(VERSION), -X main.version=$(VERSION))

# What build makes.
BIN ?= bin/zooid

.PHONY: build profile install release packages packages-test release-test chart-test hooks-test lint cross run gate real test steady live race compat clients fuzz sim sim-fresh mutants mutate mutate-changed cover torture hostile stress overload limits-cost ensemble ensemble-stop bench-compare nightly

build:
	CGO_ENABLED=0 $(GO) build -trimpath -pgo=$(PROFILE) -ldflags "$(STAMP)" -o $(BIN) ./cmd/zooid

# Where servers under load spend their time, by which the compiler decides what to inline; docs/decisions/082-profile.md
PROFILE = cmd/zooid/load.pgo
profile:
	ZOOID_PROFILE=$(CURDIR)/$(PROFILE) $(GO) test -trimpath -count=1 -timeout 15m -run '^TestMakeProfile$$' -v ./cmd/zooid

# Puts zooid on the path, with man pages, completions and the systemd unit: make install PREFIX=$HOME/.local
PREFIX ?= /usr/local
install: build
	GO=$(GO) DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) deploy/package/install.sh $(BIN)

# A signed release in dist/, with repositories for apt and dnf: make release VERSION=v0.2.0 SIGNING_KEY=key.asc
release: export VERSION := $(VERSION)
release:
	GO=$(GO) deploy/package/release.sh

# The same of any commit, without signatures and repositories: archives, .deb, .rpm, OCI images, Helm chart, SBOMs, checksums.
packages:
	VERSION=$(or $(VERSION),$(shell git rev-parse --short HEAD)) GO=$(GO) deploy/package/build.sh

# The .deb installed, started, upgraded and removed in a fresh Debian, which needs root and a mirror; the .rpm compared with it; the image
# run; and the chart linted, rendered and decoded. BARE=-bare does it in an empty root, without a mirror, as CI does.
BARE ?=
packages-test: chart-test
	GO=$(GO) deploy/package/test.sh $(BARE)
	GO=$(GO) deploy/package/release_test.sh $(BARE)

# A release of this tree, its repositories used by apt and dnf, with an upgrade from an earlier commit's package; made twice for
# the same bytes; and go install of its tag. packages-test does what takes a minute.
release-test:
	GO=$(GO) deploy/package/release_test.sh $(BARE) -long

chart-test:
	cd test/chart && $(GO) test -count=1 ./...

# The modules of the client's hooks, which have dependencies that the client hasn't (docs/decisions/094-client-hooks.md).
HOOKS = zk/zkotel zk/zkprom
hooks-test:
	for each in $(HOOKS); do (cd $$each && $(GO) vet ./... && $(GO) test -count=1 ./...) || exit; done

# What the compiler doesn't find; `test/lint.sh vuln` looks up known vulnerabilities. The tools' versions are pinned in the script.
lint:
	GO=$(GO) test/lint.sh

# The server is for Linux and macOS, the client, its recipes and the shell for Windows too. `make test` checks the types of the
# same packages (cross_test.go).
cross:
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build ./...
	CGO_ENABLED=0 GOOS=darwin $(GO) build ./cmd/... ./internal/... ./jute ./zk/...
	CGO_ENABLED=0 GOOS=windows $(GO) build ./jute ./zk/... ./internal/tool/cli ./cmd/zooid
	for each in $(HOOKS); do (cd $$each && CGO_ENABLED=0 GOOS=windows $(GO) build ./...) || exit; done

run: build
	./bin/zooid server

# What a change must pass to land: gate is deterministic, and any failure refuses; in real, tests of real processes that fail
# run once more, alone (test/rerun). Each writes the commit that it passed on into bin/gate.passed or bin/real.passed.
# WITHIN is the time for it in seconds: what real doesn't reach is named.
WITHIN ?= 3600
gate real:
	GO=$(GO) WITHIN=$(WITHIN) test/ring.sh $@

# Most tests wait most of the time: packages are tested two at once for each processor.
AT_ONCE = $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
test: steady live

# The packages whose tests open sockets, so that a busy machine can disturb them (TestLivePackages). `make test` runs both
# halves; of CI's rings, gate runs steady and real runs live.
LIVE = cmd/zooid|internal/(admin|apache/(back|compare|follow|learner|moving|proof|shadow)|bearer|external|freeport|keystore|metrics/expose|proof/traffic|quorum/peer(/handshake)?|server|socket|systemd|tool/(access|bench(/servers)?|cli|doctor|status|txnlog)|wordclient)|test/(compat(/(differ|matrix|moving))?|crash|day|hostile|sidebyside|versions)|zk(/recipe|/gozk/zk)?|zktest
steady:
	$(GO) vet ./...
	$(GOTEST) $$($(GO) list ./... | grep -vE '/zooid/($(LIVE))$$') -p $(AT_ONCE) -vet=off -timeout 30m
live:
	$(GOTEST) $$($(GO) list ./... | grep -E '/zooid/($(LIVE))$$') -p $(AT_ONCE) -vet=off -timeout 30m

# Packages without a second goroutine, in which the race detector can find nothing, are left out; and internal/proof/sim, whose
# tests are not for short runs.
SEQUENTIAL = internal/(apache|apache/(files|switchover)|config|policy|proof/sim|recovery|runbook|scram|systemd|tool/(access|bench/(chart|keeperbench|wire)|cli/rights|export|setup|terminal)|watch)|zk/(kerberos|scram)
race:
	$(GOTEST) $$($(GO) list ./cmd/... ./internal/... ./jute/... ./test/... ./zk/... | grep -vE '/($(SEQUENTIAL))$$') -vet=off -race -short -timeout 1h

# Real clients and a real Apache ZooKeeper; installs them first. COMPAT=-short is the share that CI runs.
COMPAT ?=
compat:
	test/compat/install.sh
	ZOOID_COMPAT=1 $(GOTEST) ./test/compat/... -p 1 -count=1 -v -timeout 1h $(COMPAT)

# The client, its recipes and the shell against a real Apache ZooKeeper too, and
# beside Curator and kazoo.
clients:
	test/compat/install.sh
	ZOOID_COMPAT=1 $(GO) test -p 1 -count=1 -timeout 1h ./zk/... ./internal/tool/cli

# Each fuzz target for FUZZTIME; UNGUIDED=1 builds faster, and no coverage guides the fuzzer.
FUZZTIME ?= 60s
fuzz:
	test/fuzz.sh $(FUZZTIME)

# Simulated ensembles: SEEDS seeds of two minutes each from FROM on, or one SEED
# with its faults listed. Fails if it simulates less than HOURS. What gates a change
# is the same for all; the range moves on from time to time, here. PACED more have
# clients that are faster than their limits, in BEGUN more servers begin, in thrice HELD
# more disks hang, servers take long to apply and load, or links between servers are
# narrow, and in LOST more a majority is lost for good.
# The simulator, with the checks of internal/invariant compiled in.
SIM = ./internal/proof/sim -tags invariants -count=1 -v
FROM ?= 59137574534000000
SEEDS ?= 400
HOURS ?= 13
BUDGET ?= 30m
PACED ?= 60
BEGUN ?= 60
HELD ?= 60
LOST ?= 60
sim:
ifdef SEED
	$(GO) test $(SIM) -timeout 25m -run TestSeeds -sim.from $(SEED) -sim.seeds 1 -sim.seconds 120 -sim.v
else
	$(GOTEST) $(SIM) -timeout 2h -run TestSeeds -sim.from $(FROM) -sim.seeds $(SEEDS) -sim.seconds 120 -sim.budget $(BUDGET) -sim.hours $(HOURS)
	$(GOTEST) $(SIM) -timeout 25m -run TestSeeds -sim.profile paced -sim.from $(FROM) -sim.seeds $(PACED) -sim.seconds 60
	$(GOTEST) $(SIM) -timeout 25m -run TestSeeds -sim.profile beginnings -sim.from $(FROM) -sim.seeds $(BEGUN) -sim.seconds 60
	$(GOTEST) $(SIM) -timeout 25m -run TestSeeds -sim.profile hanging -sim.from $(FROM) -sim.seeds $(HELD) -sim.seconds 60
	$(GOTEST) $(SIM) -timeout 25m -run TestSeeds -sim.profile standing -sim.from $(FROM) -sim.seeds $(HELD) -sim.seconds 60
	$(GOTEST) $(SIM) -timeout 25m -run TestSeeds -sim.profile narrow -sim.from $(FROM) -sim.seeds $(HELD) -sim.seconds 60
	$(GOTEST) $(SIM) -timeout 25m -run TestSeeds -sim.profile recovering -sim.from $(FROM) -sim.seeds $(LOST) -sim.seconds 60
endif

# Seeds that nobody has run yet: COUNT of them from a number on that the commit
# gives. What fails is added to internal/proof/sim/testdata/corpus.txt, which every run
# begins with.
COUNT ?= 20000
FRESH ?= $(shell echo $$((0x$$(git rev-parse HEAD | cut -c1-9) * 1000000 + 1000000000)))
FRESHBUDGET ?= 24h
sim-fresh:
	$(GO) test $(SIM) -timeout 0 -run TestSeeds -sim.from $(FRESH) -sim.seeds $(COUNT) -sim.seconds 120 -sim.budget $(FRESHBUDGET) -sim.keep $(FRESHFLAGS)

# The simulator's own test: planted bugs, of which it must find 95 percent
# (docs/mutants.md); MUTANTS='-sim.mutantseeds 1000 -sim.mutantleast 100' is the
# nightly one.
MUTANTS ?=
mutants:
	$(GOTEST) ./internal/proof/sim -count=1 -v -timeout 3h -run TestMutants -sim.mutants . $(MUTANTS)

# Small mistakes in the core, or in PKG, made one by one; those that no test of the package notices are listed
# (docs/mutation.md): make mutate PKG='./internal/tree ./jute' MUTATE='-sample 400 -least 90'.
CORE = ./jute ./internal/auth ./internal/policy ./internal/watch ./internal/tree ./internal/expiry ./internal/proposals ./internal/quorum ./internal/replica ./internal/storage
MUTATE ?=
mutate:
	$(GO) run ./test/mutate $(MUTATE) $(or $(PKG),$(CORE))

# The same for MUTATE_WITHIN in those of these packages that have changed since SINCE, the changed lines first. Survivors refuse nothing:
# whether a test is missing is for people to judge.
SINCE ?= $(shell test/since.sh)
MUTATE_WITHIN ?= 90s
mutate-changed:
	-$(GO) run ./test/mutate -since $(SINCE) -budget $(MUTATE_WITHIN) $(CORE)

# Which lines of the core nothing reaches: no test of a package, no simulated ensemble, no real server that is killed or used
# by another client (docs/testing.md). PARTS="unit sim" leaves out what takes long; MOST=2 fails if more than 2 % are missed.
PARTS ?=
MOST ?= 100
cover:
	GO=$(GO) MOST=$(MOST) test/cover.sh "$$($(GO) list $(CORE) | paste -sd,)" $(PARTS)

# Real processes killed, frozen, cut off and starved of disk, under load; the
# share that CI runs. TORTURE=-long is the nightly one; -run, -seed and -kills
# narrow it (docs/testing.md). Some of it needs root.
TORTURE ?=
torture:
	test/compat/install.sh
	ZOOID_CRASH=1 $(GOTEST) ./test/crash -count=1 -v -timeout 1h $(TORTURE)

# Real servers attacked by clients and peers that mean harm, beside honest clients;
# the share that CI runs. HOSTILE=-long is the nightly one, half an hour for one
# server and as long for three; -hostile.attack, -hostile.seed, -hostile.servers
# and -hostile.budget narrow it (docs/testing.md).
HOSTILE ?=
hostile:
	ZOOID_HOSTILE=1 $(GOTEST) ./test/hostile -count=1 -v -timeout 100m $(HOSTILE)

# A test many times beside busy processes, its failures counted: make stress PKG=./internal/server RUN='^TestX$$' N=50 LOAD=8.
# ARGS are the test's own flags, P is how many run at once; ZOOID_CRASH=1 and the like reach the test.
stress:
	@PKG='$(PKG)' RUN='$(RUN)' N='$(N)' LOAD='$(LOAD)' P='$(P)' test/stress.sh $(ARGS)

# What servers do at three times of what they can do, beside one greedy identity, beside 20,000 connections that say nothing or
# lie, with 100,000 logins a minute, and with TLS handshakes, each judged (docs/testing.md). The machine must do nothing else; it
# takes half an hour. `make hostile` has the short forms, which judge no times.
OVERLOAD ?=
overload:
	ZOOID_OVERLOAD=1 $(GO) test ./test/hostile -count=1 -v -timeout 1h -run '^TestOverload' $(OVERLOAD)

# What limits and the other checks of requests cost, in one interleaved run on a quiet machine.
LIMITSCOST ?= -rounds 25 -time 1s
limits-cost:
	test/limits-cost.sh $(LIMITSCOST)

ensemble: build
	test/ensemble.sh start

ensemble-stop:
	test/ensemble.sh stop

bench-compare: build
	test/bench-compare.sh

# The long forms, some ten hours on two cores. What has seeds begins at numbers that the commit gives: CYCLE is TestCycles'.
CYCLE ?= $(shell echo $$((0x$$(git rev-parse HEAD | cut -c1-7))))
nightly: test hooks-test cross race compat clients
	ZOOID_COMPAT=1 ZOOID_KAFKA=1 $(GO) test ./test/compat/moving -count=1 -v -timeout 30m -run TestKafka
	ZOOID_COMPAT=1 $(GO) test ./test/compat/moving -count=1 -v -timeout 100m -run TestCycles -moving.cycles 4 -moving.seed $(CYCLE)
	$(MAKE) sim-fresh COUNT=4500 FRESHBUDGET=100m
	$(GO) test $(SIM) -timeout 2h -run TestSeeds -sim.profile changes -sim.from $(FRESH) -sim.seeds 700 -sim.seconds 120 -sim.budget 90m -sim.changes 10000
	$(GO) test $(SIM) -timeout 1h -run TestSeeds -sim.profile beginnings -sim.from $(FRESH) -sim.seeds 2000 -sim.seconds 60 -sim.budget 50m
	$(GO) test $(SIM) -timeout 1h -run TestSeeds -sim.profile hanging -sim.from $(FRESH) -sim.seeds 1500 -sim.seconds 60 -sim.budget 50m
	$(GO) test $(SIM) -timeout 1h -run TestSeeds -sim.profile standing -sim.from $(FRESH) -sim.seeds 1500 -sim.seconds 60 -sim.budget 50m
	$(GO) test $(SIM) -timeout 1h -run TestSeeds -sim.profile narrow -sim.from $(FRESH) -sim.seeds 1500 -sim.seconds 60 -sim.budget 50m
	$(GO) test $(SIM) -timeout 1h -run TestSeeds -sim.profile recovering -sim.from $(FRESH) -sim.seeds 1500 -sim.seconds 60 -sim.budget 50m
	$(MAKE) mutants MUTANTS='-sim.mutantseeds 1000 -sim.mutantleast 100'
	$(MAKE) torture TORTURE='-long -timeout 100m'
	$(MAKE) hostile HOSTILE=-long
	$(MAKE) hostile HOSTILE='-run TestLearning -hostile.learn 1h -hostile.seed $(CYCLE) -timeout 3h'
	$(MAKE) overload limits-cost
	$(GO) test ./zk/recipe -count=1 -timeout 30m -run TestEveryCut -v -cut.participants 3
	$(GO) test ./internal/storage -count=1 -timeout 10m -run TestPowerCutAtEveryCall -crashimages 100000
	$(MAKE) fuzz FUZZTIME=3m
	$(MAKE) packages packages-test release-test
	$(MAKE) cover
	$(MAKE) mutate MUTATE='-short -budget 3h -seed $(CYCLE)'
