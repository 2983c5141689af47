# `make` without a target prints the targets. `image`, `stack`, `e2e`, `bench` and `release` need more
# than a Rust toolchain: scripts/needs.sh lists the programs.
.DEFAULT_GOAL := help

# Cargo profile of `make image`: release, or quick during development.
PROFILE ?= release
# Cargo profile of the image that the end-to-end tests run.
E2E_PROFILE ?= quick

.PHONY: help
help: ## print this list
	@echo "gpu-rollout: make TARGET"
	@awk -F ': ## ' '/^[a-z0-9-]+: ## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## render and verify the bundle of a GB200 cluster, and print the next steps
	@scripts/demo.sh

.PHONY: test
test: ## run all tests that need only cargo
	scripts/test.sh

.PHONY: lint
lint: ## check format, clippy, rustdoc, shell scripts, charts, licenses, prose and the site
	scripts/lint.sh

.PHONY: site
site: ## build the site of all pages in target/site, and check its links
	scripts/site.sh

.PHONY: e2e
e2e: ## run the end-to-end tests: real Helm, real API server (FILTER=… selects scenarios; needs Go and buildah)
	scripts/e2e.sh $(E2E_PROFILE) $(FILTER)

.PHONY: e2e-full
e2e-full: ## run every end-to-end scenario, and all tables of docs/deployers.md (85 minutes on 2 cores)
	scripts/e2e.sh $(E2E_PROFILE) --full

.PHONY: e2e-rest
e2e-rest: ## run the scenarios of `make e2e-full` that `make e2e` leaves out: both together run all
	scripts/e2e.sh $(E2E_PROFILE) --rest

.PHONY: stack
stack: ## run a local cluster until Ctrl-C (docs/tutorial.md; needs Go and buildah)
	scripts/stack.sh $(E2E_PROFILE)

.PHONY: soak
soak: ## test the engine in ten thousand random worlds and in large fleets, measure a thousand nodes, and fuzz all parsers (RUNS=… worlds, NODES=…, FUZZ=… inputs)
	scripts/soak.sh

.PHONY: bench
bench: ## measure time, memory and sizes on this machine
	scripts/bench.sh

.PHONY: image
image: ## build the hook's image in target/image (needs buildah; pulls nothing)
	scripts/image.sh $(PROFILE)

.PHONY: release
release: ## build a release of the last commit in target/dist (REGISTRY=…; needs buildah, jq)
	scripts/release.sh

.PHONY: reproducible
reproducible: ## build a release twice, in two directories, and compare every digest
	scripts/release/reproduce.sh $(PROFILE)

.PHONY: clean
clean: ## remove all build output of this checkout
	cargo clean
