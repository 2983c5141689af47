# Turns the output of `cargo metadata` into a CycloneDX document (scripts/release/sbom.sh). It has no serial
# number, so that the same source gives the same bytes.
def reference: "\(.name)@\(.version)";

def component($checksums):
  {
    "bom-ref": reference,
    type: "library",
    name,
    version,
    licenses: [{expression: (.license // "NOASSERTION" | gsub("/"; " OR "))}]
  }
  # A package without source is a part of this project.
  + (if .source then {purl: "pkg:cargo/\(.name)@\(.version | @uri)"} else {} end)
  + ($checksums[reference] | if . then {hashes: [{alg: "SHA-256", content: .}]} else {} end);

($linked | split("\n") | map(select(. != "") | {key: ., value: true}) | from_entries) as $linked
| ($checksums | split("\n") | map(select(. != "") | split(" ") | {key: .[0], value: .[1]}) | from_entries) as $checksums
| (.packages | map(select($linked[reference]))) as $packages
| ($packages | map({key: .id, value: reference}) | from_entries) as $references
| ($packages[] | select(.name == "gpu-rollout")) as $program
| {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: {
      timestamp: ($time | todate),
      component: ($program | component($checksums) + {type: "application"}),
      properties: [{name: "gpu-rollout:target", value: $target}]
    },
    components: ($packages | map(select(.name != "gpu-rollout") | component($checksums)) | sort_by(."bom-ref")),
    dependencies: (
      [
        .resolve.nodes[]
        | select($references[.id])
        | {
            ref: $references[.id],
            dependsOn: (
              [.deps[] | select(.dep_kinds | any(.kind == null)) | $references[.pkg] | select(. != null)] | unique
            )
          }
      ]
      | sort_by(.ref)
    )
  }
