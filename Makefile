# `make` alone prints the targets. `image`, `stack`, `e2e` and `bench` need more than a Rust toolchain: scripts/needs.sh has the list.
.DEFAULT_GOAL := help

# Profile of `make image`: release, or quick while developing.
PROFILE ?= release
# Profile of the image that the end-to-end tests run.
E2E_PROFILE ?= quick

.PHONY: help
help: ## this list
	@echo "gpu-rollout: make TARGET"
	@awk -F ': ## ' '/^[a-z0-9-]+: ## / { printf "  %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## render and verify the bundle of a GB200 cluster, and say what to do next
	@scripts/demo.sh

.PHONY: test
test: ## all tests that need only cargo
	scripts/test.sh

.PHONY: lint
lint: ## format, clippy, rustdoc, shell scripts, charts, licenses, prose
	scripts/lint.sh

.PHONY: e2e
e2e: ## real Helm, and the hook's image on a real API server (FILTER=… for some scenarios; needs Go and buildah)
	scripts/e2e.sh $(E2E_PROFILE) $(FILTER)

.PHONY: e2e-full
e2e-full: ## every end-to-end scenario, all tables of docs/deployers.md among them (85 minutes on 2 cores)
	scripts/e2e.sh $(E2E_PROFILE) --full

.PHONY: stack
stack: ## a local cluster to try things on, until Ctrl-C (docs/tutorial.md; needs Go and buildah)
	scripts/stack.sh $(E2E_PROFILE)

.PHONY: soak
soak: ## the engine in ten thousand random worlds and in large fleets (RUNS=… worlds)
	scripts/soak.sh

.PHONY: bench
bench: ## time, memory and sizes, measured here
	scripts/bench.sh

.PHONY: image
image: ## the hook's image, in target/image (needs buildah; pulls nothing)
	scripts/image.sh $(PROFILE)

.PHONY: clean
clean: ## remove everything that was built in this checkout
	cargo clean
