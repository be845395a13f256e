# Build, test and try Graphmill. `make` by itself lists the targets.
# Works with GNU make 3.81 (macOS) and newer.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# Three Go modules: the program, the guest SDK, the plugins. The last two are
# compiled to WebAssembly, so they are checked for that target too.
MODULES       := . sdk/go plugins
GUEST_MODULES := sdk/go plugins
WASM          := GOOS=wasip1 GOARCH=wasm

# FUZZTIME is how long each fuzzer runs: make fuzz FUZZTIME=10m
FUZZTIME ?= 15s
FUZZERS  := wasmhost:FuzzCheck wasmhost/meter:FuzzRewrite wasmhost/meter:FuzzMeteredComputesTheSame \
	wasmhost/frame:FuzzDecode wasmhost/frame:FuzzValue sources/clientcert:FuzzKey sources/pulsar:FuzzReadCommand \
	sources/pulsar:FuzzSafe sdk/go:FuzzFields api/statement:FuzzParse

# RUN=regex picks tests by name: make e2e RUN=TestRestart
RUN       ?=
RUN_FLAG   = $(if $(RUN),-run '$(RUN)')
E2E        = $(GO) test -tags e2e -count=1 -p 1 -v $(RUN_FLAG)

# BENCH=pulsar runs one benchmark; flags go before it: make bench BENCH='-pulsar-rounds 9 pulsar'
BENCH ?=

.DEFAULT_GOAL := help
.PHONY: help build plugins test race fuzz e2e e2e-full bench bench-sdk demo lint generate clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/graphmill
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-X main.release=$(VERSION)' -o bin/graphmill ./cmd/graphmill

plugins: ## build bin/plugins/NAME.wasm
	plugins/build.sh

# Without -timeout a package has ten minutes, which a slow and busy machine may need.
TEST = $(GO) test -timeout 40m

test: ## vet and test all modules; needs no services
	@set -e; for m in $(MODULES); do \
		echo "== $$m"; \
		(cd $$m && $(GO) vet ./... && $(TEST) ./...); \
	done

race: ## test all modules with the race detector (needs a C compiler)
	@set -e; for m in $(MODULES); do \
		echo "== $$m"; \
		(cd $$m && $(TEST) -race ./...); \
	done

# Now and then go test ends a fuzzer that found nothing with the error "context
# deadline exceeded", at the end of its time (golang/go#75804, mended in Go 1.27).
# A find is written to testdata, and fails.
fuzz: ## each fuzzer of what comes from outside for FUZZTIME (15s)
	@set -e; log=$$(mktemp); trap 'rm -f "$$log"' EXIT; for f in $(FUZZERS); do \
		echo "== $$f for $(FUZZTIME)"; \
		if ! (cd $${f%%:*} && $(GO) test -run '^$$' -fuzz "^$${f##*:}\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x .) >"$$log" 2>&1; then \
			cat "$$log"; \
			grep -q '^ *context deadline exceeded$$' "$$log" || exit 1; \
			! grep -q 'Failing input' "$$log" || exit 1; \
		fi; \
		tail -n 2 "$$log"; \
	done

e2e: ## end-to-end tests on real Kafka, Pulsar and Neo4j (Java 17, Maven); RUN=regex
	$(E2E) -timeout 40m ./integration/... ./server/graph/... ./sources/...

e2e-full: ## e2e at full size, with the long tests; RUN=regex
	GRAPHMILL_E2E_FULL=1 $(E2E) -timeout 90m ./integration/... ./server/graph/... ./sources/...

bench: build plugins ## rows a second against hand-written code, on real servers; BENCH=graph or pulsar
	$(GO) run ./integration/bench $(BENCH)

bench-sdk: ## what the Go SDK costs a guest, against one written without it; no services
	$(GO) test -run '^$$' -bench GuestCost -benchtime 1000x ./sdk/hosttest

demo: ## 10,000 ratings from a broker into a graph; DEMO_ONCE=1 ends it by itself
	$(GO) run ./integration/demo

lint: ## gofmt, go vet and staticcheck on all modules
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then \
		echo "not formatted (run gofmt -w on them):"; echo "$$unformatted"; exit 1; \
	fi
	@set -e; staticcheck=$$($(GO) tool -n staticcheck); \
	echo "== ."; $(GO) vet -tags e2e ./...; "$$staticcheck" -tags e2e ./...; \
	for m in $(GUEST_MODULES); do \
		echo "== $$m"; (cd $$m && $(GO) vet ./... && "$$staticcheck" ./...); \
		echo "== $$m for wasip1"; (cd $$m && $(WASM) $(GO) vet ./... && $(WASM) "$$staticcheck" ./...); \
	done
	@echo "lint: clean"

generate: ## run go generate (golden frames, the reference pages of docs)
	@set -e; for m in $(MODULES); do (cd $$m && $(GO) generate ./...); done

clean: ## remove what was built
	rm -rf bin
