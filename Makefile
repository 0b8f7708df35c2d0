# What a contributor and the CI run. It needs Go and make; `make test` also
# wants a C compiler, for the race detector.

GO      ?= go
BIN     := bin/weir
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
T       ?= 30s

.DEFAULT_GOAL := help
.PHONY: help build run test check fmt vet arch gen gen-clean needs unit race lint vuln fuzz differential alloc deb image clean

help: ## list the targets
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | sort | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'

build: ## build bin/weir, a static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $(BIN) ./cmd/weir

run: build ## build and run Weir with an example to try (RUN_FLAGS="-c config.yaml")
	$(BIN) run --example $(RUN_FLAGS)

test: fmt vet arch gen-clean unit race ## every check there is; under ten minutes on two cores
	@echo "all checks passed"

check: test ## the same as test

fmt: ## fail if a file is not formatted
	@out=$$(gofmt -l cmd internal bench); if [ -n "$$out" ]; then echo "gofmt these:"; echo "$$out"; exit 1; fi

vet: ## go vet
	$(GO) vet ./...

arch: ## who may import whom, and manners that a machine can check
	$(GO) test -count=1 ./internal/archtest

gen: ## write generated files: plugin list, schemas, reference pages
	$(GO) generate ./...
	$(GO) test ./internal/plugins -update

gen-clean: ## fail if generated files are stale (and write them)
	@sum() { cat internal/plugins/all.go internal/policies/all.go $$(find internal/plugins/testdata docs -type f | LC_ALL=C sort) | cksum; }; \
	before=$$(sum); $(MAKE) -s gen; after=$$(sum); \
	if [ "$$before" != "$$after" ]; then echo "generated files were stale; they are written now, commit them"; exit 1; fi

# What tests start beside Go's own: the servers, and node for the script of a page.
needs:
	@bash scripts/need.sh redis-server redis-server
	@bash scripts/need.sh etcd etcd-server
	@bash scripts/need.sh node nodejs

unit: needs ## all tests in random order, fuzz seeds and exact allocations among them
	$(GO) test -timeout 180s -shuffle=on ./...

race: needs ## all tests under the race detector
	@bash scripts/need.sh "$$($(GO) env CC)" gcc libc6-dev
	CGO_ENABLED=1 $(GO) test -race -timeout 180s -shuffle=on ./...

VULN_DB ?= https://vuln.go.dev

vuln: ## known faults of dependencies that the code reaches (VULN_DB=file:///DIR/data/osv: of a checkout of golang/vulndb)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 -db $(VULN_DB) ./...

lint: vet ## staticcheck, as a Go module
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

fuzz: ## fuzz every target for T=30s each
	@set -e; for f in $$(grep -rl --include='*_test.go' '^func Fuzz' internal cmd | LC_ALL=C sort); do \
	  for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$f); do \
	    echo "== $$(dirname $$f) $$name"; \
	    $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(T) ./$$(dirname $$f); \
	  done; \
	done

differential: ## random changes of the state against rebuilding it (OPERATIONS=10000000 SEED=0)
	OPERATIONS=$(or $(OPERATIONS),10000000) SEED=$(or $(SEED),0) \
	  $(GO) test -count=1 -timeout 0 -v -run '^TestIncrementalEqualsRebuilt$$' ./internal/snapshot

alloc: ## allocations per request, exactly
	$(GO) test -count=1 -run 'Alloc' $$(grep -rl --include='*_test.go' 'AllocsPerRun' internal | xargs -n1 dirname | sort -u | sed 's|^|./|')

# Pinned: v2.48.0 needs modules of go.digitalxero.dev, which the module proxy refuses.
NFPM := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0

deb: build ## bin/weir_VERSION_ARCH.deb, with systemd units
	ARCH=$$($(GO) env GOARCH) PACKAGE_VERSION=$$(echo '$(VERSION)' | sed 's/^v//; /^[0-9]*\./!s/^/0.0.0~/') \
	  $(GO) run $(NFPM) package -f packaging/nfpm.yaml -p deb -t bin/

image: ## a Docker image of the binary alone
	docker build --build-arg VERSION=$(VERSION) -t weir:$(VERSION) .

clean: ## remove what make built
	rm -rf bin

-include bench.mk
