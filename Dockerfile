# The image: one static binary and nothing else. No CA bundle: inside a cluster the API server's certificate authority comes with
# the service account.
#
#   docker buildx build --platform linux/amd64,linux/arm64 -t REGISTRY/gpu-rollout:VERSION --push .
#   make image         # with the Rust toolchain that is here and buildah; pulls nothing
#
# BINARY says which stage the program comes from: `built` compiles it, `prebuilt` takes ./gpu-rollout out of the build context.
ARG BINARY=built
ARG RUST_VERSION=1.95

FROM rust:${RUST_VERSION}-slim AS built
WORKDIR /source
COPY . .
# An explicit target keeps the flags away from build scripts and procedural macros, which cannot be static.
RUN target="$(rustc -vV | sed -n 's/^host: //p')" \
 && RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --locked --target "$target" --no-default-features \
 && mv "target/$target/release/gpu-rollout" /gpu-rollout

FROM scratch AS prebuilt
COPY gpu-rollout /gpu-rollout

FROM ${BINARY} AS binary

FROM scratch
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="gpu-rollout" \
      org.opencontainers.image.description="The rollout hook of NVIDIA GPU stacks on Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=binary /gpu-rollout /gpu-rollout
# By number, so that `runAsNonRoot` can be checked.
USER 65532:65532
ENTRYPOINT ["/gpu-rollout"]
