# Millrace. `make` lists what there is; each target is a task of `cargo xtask` (e2e/xtask).
.DEFAULT_GOAL := help
.PHONY: help try demo up down status images check book test test-all test-server flaky nightly conformance alerts bench bench-peers bench-compare bench-operator chaos keeper-faults codegen audit fuzz sim sim-operator sim-files seeds bench-keeper argocd upgrades release

# Its first build takes a minute or two, and prints nothing.
XTASK := test -x "$${CARGO_TARGET_DIR:-target}/debug/xtask" || echo "==> compiling what runs it" >&2; \
	cargo run --quiet --locked --package xtask --

# What a first try runs, and the stack after it, compiled the quickest way. One selection for both
# builds of `make try`, so that nothing is compiled twice.
TRY := -p xtask -p millrace-collector -p millrace-ddl -p millrace-loadgen
RUN_TRY = "$${CARGO_TARGET_DIR:-target}/try/xtask"
BUILD_TRY = test -x $(RUN_TRY) || echo "==> compiling what runs it (about 20 s)" >&2; \
	cargo build --quiet --locked --profile try $(TRY) --bin xtask

help: ## What can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

try: prerequisites ## The shortest way to rows in a table: one collector and a ClickHouse engine, no Kubernetes, no Kafka
	@$(BUILD_TRY)
	@$(RUN_TRY) try

demo: prerequisites ## All of it on this machine: cluster, operator, pipeline, a million spans, checked; COLLECTORS=all builds each allocator's
	@$(BUILD_TRY)
	@$(RUN_TRY) demo $(if $(COLLECTORS),--collectors $(COLLECTORS))

up: prerequisites ## The local stack alone: Kubernetes, Kafka, the ClickHouse engine
	@$(BUILD_TRY)
	@$(RUN_TRY) up

down: prerequisites ## Remove the local stack: no process, mount, interface or rule stays
	@$(BUILD_TRY)
	@$(RUN_TRY) down

status: prerequisites ## What of the local stack runs, and where it answers
	@$(BUILD_TRY)
	@$(RUN_TRY) status

images: prerequisites ## The operator's and the collectors' images, as OCI archives
	@$(XTASK) images

release: prerequisites ## What users get, signed and tried, in target/releases: images, charts, archives, a bundle; QUICK=1: this platform, one collector
	@$(XTASK) release $(if $(QUICK),--quick) $(if $(NO_BUILD),--no-build)

check: prerequisites ## Structure rules, formatting, lints, dependency policy
	@$(XTASK) check

book: prerequisites ## The pages as a book in target/book, every link in it checked (installs mdBook: 2 min the first time)
	@$(XTASK) book

test: prerequisites ## Minutes: unit, property and model tests, the main path with a real broker and engine; CHANGED=1: what the change reaches; ONLY=name: some, of all
	@$(XTASK) test $(if $(CHANGED),--changed) $(if $(ONLY),--only '$(ONLY)')

test-all: prerequisites ## All that CI runs: that, check, integration, faults, a real cluster; FROM=cluster begins there
	@$(XTASK) test-all $(if $(FROM),--from $(FROM))

test-server: prerequisites ## Tables, inserts and replicated tables on empty ClickHouse servers: CLICKHOUSE_URLS="http://user:password@host:8123 ..." ONLY=name
	@$(XTASK) test-server $(CLICKHOUSE_URLS) $(if $(ONLY),--only '$(ONLY)')

flaky: prerequisites ## Chosen tests again and again on busy processors: ONLY=name RUNS=20
	@$(XTASK) flaky --only '$(ONLY)' $(if $(RUNS),--runs $(RUNS))

nightly: prerequisites ## Hours: all seeds, fuzz targets, sizes in a cluster, Argo CD, upgrades, conformance, faults, benchmarks; ONLY=fuzz for one
	@$(XTASK) nightly $(if $(ONLY),--only '$(ONLY)')

conformance: prerequisites ## Ours and the OpenTelemetry Collector's: rows compared, topics exchanged (builds it)
	@$(XTASK) conformance

upgrades: prerequisites ## From each earlier release's charts and images to these and back under load, in the local cluster; EARLIER=COMMIT: from that
	@$(XTASK) upgrades

argocd: prerequisites ## Argo CD and Flux sync our charts and pipelines in the local cluster (builds both: 13 min the first time); TESTS=flux: some
	@$(XTASK) argocd $(if $(TESTS),--only '$(TESTS)')

alerts: prerequisites ## The chart's alerts, tried with Prometheus' own evaluator (Debian's, where there is none)
	@$(XTASK) alerts

fuzz: prerequisites ## Fuzz targets: all, or TARGET=name; RUNS=100000 executions each
	@$(XTASK) fuzz --runs $(or $(RUNS),100000) $(if $(TARGET),--target $(TARGET))

chaos: prerequisites ## Faults under load, one JSON line each: BUDGET=pr|nightly|release FAULT= RUNS= SEED= LANES=
	@$(XTASK) chaos

keeper-faults: prerequisites ## Faults against three real ZooKeepers, judged by what clients saw: STRIKE= RUNS= SEED= (docs/internals/coordination-faults.md)
	@$(XTASK) keeper-faults

bench: prerequisites ## What the collector costs, as JSON lines: CASE= (files, scrape: with peers; PEERS=0: alone) RUNS= QUICK=1 PROFILE=1 PEER= (docs/internals/performance.md)
	@$(XTASK) bench

bench-peers: prerequisites ## The same, side by side with the OpenTelemetry Collector
	@$(XTASK) bench --peers

bench-compare: prerequisites ## Two commits in turns, and whether they differ: A= B= CASE= PAIRS= (docs/internals/performance.md)
	@$(XTASK) bench-compare

bench-operator: prerequisites ## One operator with thousands of objects on the local API server: COUNT= RATE= SECONDS= QUIET_SECONDS= KEEP=1 API=standin KIND=gateway TENANTS= KAFKA=1
	@$(XTASK) bench-operator

bench-keeper: prerequisites ## Real ZooKeepers under load, as tables and plots: OUT=target/keeper-bench MATRIX=inserts (real INSERTs) REPEATS= CLICKHOUSE=own (docs/internals/keeper-bench.md)
	@$(if $(CLICKHOUSE),cargo build --release --locked -p millrace-collector -p millrace-ddl)
	@cargo run --quiet --release --locked -p millrace-keeper-bench -- suite \
		--out $(or $(OUT),target/keeper-bench) $(if $(MATRIX),--matrix $(MATRIX)) \
		$(if $(REPEATS),--repeats $(REPEATS)) $(if $(CLICKHOUSE),--clickhouse $(CLICKHOUSE))

sim: prerequisites ## The sizing rule against models of others, in a simulator: tables and plots in docs
	@$(XTASK) sim

seeds: prerequisites ## Gateways in a simulated world, by seed: SEEDS=20000, or SEED=17 again with its log
	@MILLRACE_SEEDS=$(or $(SEEDS),20000) $(if $(SEED),MILLRACE_SEED=$(SEED)) \
		cargo test --locked -p millrace-source-kafka --lib simulation -- --nocapture

sim-operator: prerequisites ## Every reconciler in a simulated cluster, by seed: SEEDS=1000 a kind, or SEED=17 KIND=edgepools
	@MILLRACE_SEEDS=$(or $(SEEDS),1000) $(if $(SEED),MILLRACE_SEED=$(SEED)) \
		cargo test --locked -p millrace-operator --test integration -- --nocapture simulation::$(KIND)

sim-files: prerequisites ## The reader of log files against writers that rotate, by seed: SEEDS=4000, or SEED=17 again with its log
	@MILLRACE_SEEDS=$(or $(SEEDS),4000) $(if $(SEED),MILLRACE_SEED=$(SEED)) \
		cargo test --locked -p millrace-source-files --lib simulation -- --nocapture

codegen: prerequisites ## Write what is generated: CRDs, chart CRDs, manifests, reference pages
	@$(XTASK) codegen

audit: prerequisites ## Known vulnerabilities in dependencies (queries the advisory database)
	@$(XTASK) audit

.PHONY: prerequisites
prerequisites:
	@sh e2e/stack/prerequisites.sh
