# The image contains one static binary and nothing else. It needs no CA bundle: in a cluster, the
# certificate authority of the API server comes with the ServiceAccount.
#
#   docker buildx build --platform linux/amd64,linux/arm64 -t REGISTRY/gpu-rollout:VERSION --push .
#   make image         # with the installed Rust toolchain and buildah; pulls nothing
#
# BINARY selects the stage that provides the program: `built` compiles it, `prebuilt` takes
# ./gpu-rollout from the build context.
ARG BINARY=built
# The version is that of rust-toolchain.toml. The digest names the image for all architectures.
ARG RUST=rust:1.95-slim@sha256:e14e87345b4d5964ddcc3491d27ee046a0f23820f340c3c1e24da6880141f7c0

FROM ${RUST} AS built
WORKDIR /source
COPY . .
# With an explicit target, cargo does not pass the flags to build scripts and procedural macros,
# which cannot be static.
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
# Numeric, because the kubelet can check `runAsNonRoot` only for a numeric user.
USER 65532:65532
ENTRYPOINT ["/gpu-rollout"]
