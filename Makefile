# Runs on Linux and macOS, with Go 1.26 or newer, git and make; `make test` needs a
# C compiler, too, for the race detector. Tools run with `go run` at the versions
# below, and the control plane of the tests is built from source into the user's
# cache.

CONTROLLER_GEN = go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0
GOLANGCI_LINT  = go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GREMLINS       = go run github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
GOVULNCHECK    = go run golang.org/x/vuln/cmd/govulncheck@v1.9.0

# Where `make generate` writes. A test sets these to compare.
CRD_DIR      = config/crd/bases
RBAC_DIR     = config/rbac
DEEPCOPY_DIR = pkg/api/v1alpha1

# The name and the platforms of the image.
IMAGE     = vidra-operator:dev
PLATFORMS = linux/amd64,linux/arm64

# What `vidra-operator --version` and `vidra version` print.
VERSION = $(shell git describe --tags --always --dirty 2>/dev/null)
LINKED  = -X github.com/vidra-operator/vidra/cmd/internal/version.linked=$(VERSION)

# Without Go plugins of kustomize, which Vidra never loads, the linker drops unused code: 72 MB instead of 98.
TAGS = kustomize_disable_go_plugin_support

.DEFAULT_GOAL = help

.PHONY: help
help: ## Show this.
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/vidra-operator and bin/vidra.
	go build -tags '$(TAGS)' -ldflags '$(LINKED)' -o bin/vidra-operator ./cmd/operator
	go build -tags '$(TAGS)' -ldflags '$(LINKED)' -o bin/vidra ./cmd/vidra

.PHONY: generate
generate: ## Generate CRD, RBAC and deepcopy from the Go types.
	$(CONTROLLER_GEN) object crd rbac:roleName=vidra-operator paths=./pkg/api/... paths=./pkg/reconcile/... \
		output:object:dir=$(DEEPCOPY_DIR) output:crd:dir=$(CRD_DIR) output:rbac:dir=$(RBAC_DIR)

# make reads `make demo --keep` as --keep-going.
KEEP = $(if $(findstring k,$(filter-out -%,$(firstword $(MAKEFLAGS)))),--keep)

.PHONY: demo
demo: ## Watch Vidra work, on a control plane of its own; with --keep it stays up.
	go run ./e2e/demo $(KEEP)

.PHONY: test
test: e2e-binaries ## All checks and tests. CI runs this.
	@$(MAKE) --no-print-directory --keep-going -j3 BUILT=yes $(E2E) unit lint

# The oldest and the newest supported versions of Kubernetes. The tests run on the one that
# e2e/testenv/versions.go pins; with K8S_VERSION in the environment, on another one, which is built first.
OLDEST = 1.33
NEWEST = 1.37

.PHONY: test-long
test-long: control-plane ## All tests at full size, all with the race detector. It takes hours.
	go test -race -count=1 ./cmd/... ./pkg/...
	VIDRA_LONG=1 VIDRA_SOURCE_CONTROLLER=yes go test -race -count=1 -p=1 -timeout=3h ./e2e/...
	K8S_VERSION=$(OLDEST) go run ./e2e/testenv/prepare
	K8S_VERSION=$(OLDEST) go test -count=1 -p=1 -timeout=3h ./e2e/...
	K8S_VERSION=$(NEWEST) go run ./e2e/testenv/prepare
	K8S_VERSION=$(NEWEST) go test -count=1 -p=1 -timeout=3h ./e2e/...

.PHONY: test-sources
test-sources: control-plane ## Tests with the controllers of Flux, which are built once, in 16 minutes of processor time.
	VIDRA_SOURCE_CONTROLLER=yes go test -count=1 -timeout=1h -v ./e2e/sources

.PHONY: lint
lint: ## Check the code with golangci-lint: go vet and gofmt, among others.
	$(GOLANGCI_LINT) run ./...

# The linter runs all of go vet, on the tests, too.
NO_VET = -vet=off

# The packages that are tested without the race detector: they start no goroutines, and their tests
# call nothing at the same time.
PURE = cmd/internal/version|cmd/vidra|pkg/api/v1alpha1|pkg/events|pkg/internal/display|pkg/internal/relation|pkg/manifest|pkg/ownership|$\
	pkg/reconcile/(breakglass|contention|object|owners|plan|policy|prune|seal|status)

.PHONY: unit
unit: ## Tests that need no API server, with the race detector where code is concurrent.
	go test $(NO_VET) $$(go list ./cmd/... ./pkg/... | grep -E '/($(PURE))$$')
	go test $(NO_VET) -race $$(go list ./cmd/... ./pkg/... | grep -vE '/($(PURE))$$')

.PHONY: e2e
e2e: e2e-binaries ## Tests on a real API server.
	@$(MAKE) --no-print-directory --keep-going -j3 BUILT=yes $(E2E)

# The tests of ./e2e that start an operator of their own and keep it busy: beside the others,
# on a control plane of their own.
STORMS = ^(TestF22StatusStorm|TestF33DriftStorm|TestHeldHeals|TestHostileManifests|TestManyContendedObjects)$$

# The tests of ./e2e that are not parallel, such as those that stop the operator that the others
# share: those without t.Parallel().
ALONE = ^($(shell awk '/^func Test/ { test = substr($$2, 1, length($$2) - 2); alone[test] } \
	/^\tt\.Parallel\(\)/ { delete alone[test] } END { for (test in alone) printf "%s|", test; print "-" }' e2e/*_test.go))$$

# One round of each benchmark is no part of `make test`, but CI runs it: `make e2e/bench`.

# The packages that are tested with the race detector: those that run concurrent code in the
# process of the test.
RACED = e2e/faultproxy e2e/watches

# The other packages, but ./e2e, which runs in three parts, and those that need a cluster.
PACKAGES = $(filter-out $(RACED) e2e e2e/deployed,$(sort $(patsubst %/,%,$(dir $(wildcard e2e/*_test.go e2e/*/*_test.go)))))

# What runs three at a time, as many tests wait more than they compute. The first ones take longest; e2e/release
# does only where nothing is compiled yet.
LONGEST = e2e-alone e2e-shared e2e/watches e2e-storms e2e/search e2e/remote e2e/release e2e/chart e2e/cli e2e/demo e2e/crash
E2E     = $(LONGEST) $(filter-out $(LONGEST) e2e/bench,$(PACKAGES) $(RACED))

# A test binary is linked again only if what is in it has changed, and without debug information in
# two thirds of the time.
TEST_BINARY = go test -c -ldflags='-s -w'

.PHONY: e2e-binaries
e2e-binaries: control-plane
	$(TEST_BINARY) -o bin/tests/ ./e2e $(addprefix ./,$(PACKAGES))
	$(TEST_BINARY) -race -o bin/raced/ $(addprefix ./,$(RACED))

# run FOLDER,PACKAGE,FLAGS runs the tests of a package in its folder, as go test does. The programs that
# they start are built.
define run
@cd $(2) && began=$$(date +%s) && VIDRA_TESTS_BUILT=yes $(CURDIR)/.ci/test $(CURDIR)/bin/$(1)/$(notdir $(2)).test -test.timeout=40m $(3) && \
	echo "ok $@ $$(($$(date +%s) - began))s"
endef

.PHONY: e2e-alone e2e-shared e2e-storms $(PACKAGES) $(RACED)
e2e-alone e2e-shared e2e-storms $(PACKAGES) $(RACED): $(if $(BUILT),,e2e-binaries)
e2e-alone:
	$(call run,tests,e2e,-test.run '$(ALONE)' -test.skip '$(STORMS)')
e2e-shared:
	$(call run,tests,e2e,-test.skip '$(ALONE)|$(STORMS)')
e2e-storms:
	$(call run,tests,e2e,-test.run '$(STORMS)')
$(PACKAGES):
	$(call run,tests,$@)
$(RACED):
	$(call run,raced,$@)

# The node image of the kind cluster, if not that of kind, and what to run there: E2E_RUN and
# E2E_SKIP are as for go test -run and -skip.
KIND_NODE_IMAGE =
E2E_RUN  =
E2E_SKIP = $(STORMS)
E2E_KIND = go run ./e2e/kind --image='$(IMAGE)' --run='$(E2E_RUN)' --skip='$(E2E_SKIP)'

.PHONY: e2e-kind
e2e-kind: PLATFORMS = linux/$(shell go env GOARCH)
e2e-kind: image ## Tests of the deployed operator on a kind cluster, which needs Docker.
	$(E2E_KIND) --node-image='$(KIND_NODE_IMAGE)'

.PHONY: e2e-cluster
e2e-cluster: ## The same on the cluster of KUBECONFIG, which can pull IMAGE.
	$(E2E_KIND) --kubeconfig='$(or $(KUBECONFIG),$(error set KUBECONFIG to the kubeconfig of a cluster without Vidra))'

.PHONY: control-plane
control-plane: ## Build the control plane and the programs of the tests, unless they are cached.
	@go run ./e2e/testenv/prepare

.PHONY: bench
bench: control-plane ## Run all benchmarks in less than ten minutes.
	go run ./e2e/bench all

.PHONY: bench-full
bench-full: control-plane ## Run all benchmarks at full size. It takes hours.
	go run ./e2e/bench all -size full

# For how long `make soak` acts, and the seed of a run to repeat.
SOAK = 30m
SEED =

# Gremlins counts a mutant in the condition of a case as not covered: the coverage of Go has no block for it.
MUTATED = pkg/reconcile/policy pkg/reconcile/prune pkg/ownership

.PHONY: mutation
mutation: ## Mutate the decisions about writes, and print the mutants that the unit tests do not find.
	@for package in $(MUTATED); do \
		echo "$$package"; $(GREMLINS) unleash "./$$package" --invert-logical --timeout-coefficient 50 -S lct || exit 1; \
	done

.PHONY: soak
soak: control-plane ## Disturb an operator in every way for 30 minutes, or SOAK=8h.
	@mkdir -p bin
	SOAK='$(SOAK)' VIDRA_SEED='$(SEED)' VIDRA_LONG=1 go test ./e2e -run '^TestSoak$$' -count=1 -v -timeout=0 -artifacts -outputdir='$(CURDIR)/bin'

RELEASE = --version='$(VERSION)' --image='$(IMAGE)' --platforms='$(PLATFORMS)'

.PHONY: image
image: ## Build the container image: bin/image, and in Docker if it runs.
	go run ./e2e/release image $(RELEASE)

.PHONY: push
push: ## Build the container image and push it to the registry in IMAGE.
	go run ./e2e/release push $(RELEASE)

.PHONY: release
release: IMAGE = ghcr.io/vidra-operator/vidra-operator:$(VERSION)
release: ## Build the files of a release: dist.
	go run ./e2e/release dist $(RELEASE)

.PHONY: vulncheck
vulncheck: ## Check for known vulnerabilities, with the database on the internet.
	$(GOVULNCHECK) ./cmd/...

.PHONY: clean
clean: ## Remove what was built here. The cached control plane stays.
	rm -rf bin dist
