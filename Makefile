# Profile of `make image`: release, or quick while developing.
PROFILE ?= release

.PHONY: image
image: ## the hook's image, in target/image (needs buildah; pulls nothing)
	scripts/image.sh $(PROFILE)
