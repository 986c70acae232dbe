# Runs on Linux and macOS, with Go 1.26 or newer, git and make; `make test` needs a
# C compiler, too, for the race detector. Tools run with `go run` at the versions
# below, and the control plane of the tests is built from source into the user's
# cache.

CONTROLLER_GEN = go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0
GOLANGCI_LINT  = go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
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

.DEFAULT_GOAL = help

.PHONY: help
help: ## Show this.
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/vidra-operator and bin/vidra.
	go build -ldflags '$(LINKED)' -o bin/vidra-operator ./cmd/operator
	go build -ldflags '$(LINKED)' -o bin/vidra ./cmd/vidra

.PHONY: generate
generate: ## Generate CRD, RBAC and deepcopy from the Go types.
	$(CONTROLLER_GEN) object crd rbac:roleName=vidra-operator paths=./pkg/api/... paths=./pkg/reconcile/... \
		output:object:dir=$(DEEPCOPY_DIR) output:crd:dir=$(CRD_DIR) output:rbac:dir=$(RBAC_DIR)

.PHONY: demo
demo: ## Watch Vidra work, on a control plane of its own.
	go run ./e2e/demo

# What `make test` does, three at a time: many tests wait more than they compute. The first
# ones take longest. What they need is built before: make would start the others meanwhile.
E2E = e2e-shared e2e-others e2e-raced e2e-clusters e2e-alone e2e-storms

.PHONY: test
test: e2e-binary ## All checks and tests. CI runs this.
	@$(MAKE) --no-print-directory -j3 BUILT=yes $(E2E) unit lint

# The oldest and the newest supported versions of Kubernetes. The tests run on the one that
# e2e/testenv/versions.go pins; with K8S_VERSION in the environment, on another one, which is built first.
OLDEST = 1.33
NEWEST = 1.37

.PHONY: test-long
test-long: control-plane ## All tests at full size, all with the race detector. It takes hours.
	go test -race -count=1 ./cmd/... ./pkg/...
	VIDRA_LONG=1 go test -race -count=1 -p=1 -timeout=3h ./e2e/...
	K8S_VERSION=$(OLDEST) go run ./e2e/testenv/prepare
	K8S_VERSION=$(OLDEST) go test -count=1 -p=1 -timeout=3h ./e2e/...
	K8S_VERSION=$(NEWEST) go run ./e2e/testenv/prepare
	K8S_VERSION=$(NEWEST) go test -count=1 -p=1 -timeout=3h ./e2e/...

.PHONY: lint
lint: ## Check the code with golangci-lint: go vet and gofmt, among others.
	$(GOLANGCI_LINT) run ./...

# The linter runs all of go vet, on the tests, too.
NO_VET = -vet=off

# The packages that are tested without the race detector: they start no goroutines, and their tests
# call nothing at the same time.
PURE = cmd/internal/version|cmd/vidra|pkg/api/v1alpha1|pkg/events|pkg/internal/display|pkg/internal/relation|pkg/manifest|pkg/ownership|$\
	pkg/reconcile/(breakglass|contention|object|owners|plan|prune|seal|status)

.PHONY: unit
unit: ## Tests that need no API server, with the race detector where code is concurrent.
	go test $(NO_VET) $$(go list ./cmd/... ./pkg/... | grep -E '/($(PURE))$$')
	go test $(NO_VET) -race $$(go list ./cmd/... ./pkg/... | grep -vE '/($(PURE))$$')

.PHONY: e2e
e2e: e2e-binary ## Tests on a real API server.
	@$(MAKE) --no-print-directory -j3 BUILT=yes $(E2E)

# The tests of ./e2e that start an operator of their own and keep it busy: beside the others,
# on a control plane of their own.
STORMS = ^(TestF22StatusStorm|TestF33DriftStorm|TestHeldHeals|TestHostileManifests|TestManyContendedObjects)$$

# The tests of ./e2e that are not parallel, such as those that stop the operator that the others
# share: those without t.Parallel().
ALONE = ^($(shell awk '/^func Test/ { test = substr($$2, 1, length($$2) - 2); alone[test] } \
	/^\tt\.Parallel\(\)/ { delete alone[test] } END { for (test in alone) printf "%s|", test; print "-" }' e2e/*_test.go))$$

# The packages that are tested with the race detector: those that run concurrent code in the
# process of the test.
RACED = e2e/(faultproxy|watches)$$

# The packages that start several control planes, one after the other, and wait for them.
CLUSTERS = e2e/(chart|namespaced|remote|testenv)$$

GO_TEST = go test $(NO_VET) -ldflags='-s -w' -count=1 -p=1 -timeout=40m

# Without debug information a test is linked in two thirds of the time. The tests of ./e2e are linked
# once for the three parts that run them.
E2E_TEST = cd e2e && ../bin/e2e.test -test.timeout=40m

.PHONY: e2e-binary
e2e-binary: control-plane
	go test -c -ldflags='-s -w' -o bin/e2e.test ./e2e

.PHONY: e2e-alone e2e-shared e2e-storms e2e-others e2e-raced e2e-clusters
e2e-alone: $(if $(BUILT),,e2e-binary)
	$(E2E_TEST) -test.run '$(ALONE)' -test.skip '$(STORMS)'
e2e-shared: $(if $(BUILT),,e2e-binary)
	$(E2E_TEST) -test.skip '$(ALONE)|$(STORMS)'
e2e-storms: $(if $(BUILT),,e2e-binary)
	$(E2E_TEST) -test.run '$(STORMS)'
e2e-others: $(if $(BUILT),,control-plane)
	$(GO_TEST) $$(go list ./e2e/... | grep -vE '/e2e$$|/deployed$$|/$(RACED)|/$(CLUSTERS)')
e2e-clusters: $(if $(BUILT),,control-plane)
	$(GO_TEST) $$(go list ./e2e/... | grep -E '/$(CLUSTERS)')
e2e-raced: $(if $(BUILT),,control-plane)
	$(GO_TEST) -race $$(go list ./e2e/... | grep -E '/$(RACED)')

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
control-plane: ## Build the control plane and the operator of the tests, unless they are cached.
	@go run ./e2e/testenv/prepare

.PHONY: bench
bench: control-plane ## Measure how fast edits are reverted, beside the floor.
	go run ./e2e/bench heal

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
