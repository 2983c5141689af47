//! Parts of a release depend only on what they contain.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::{add_program, errors, script, succeed};

/// Packs a directory, in another time zone and with other file permissions than the default.
fn pack(directory: &Path, name: &str) -> Vec<u8> {
    let archive = directory.join(name);
    let pack = script("scripts/release/pack.sh").get_program().to_owned();
    succeed(
        Command::new("sh")
            .args(["-c", "umask 077 && \"$0\" \"$1\" \"$2\""])
            .arg(pack)
            .args([&archive, &directory.join("tree")])
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .env("TZ", "Asia/Kolkata"),
    );
    fs::read(archive).unwrap()
}

#[test]
#[ignore = "needs GNU tar: make e2e"]
fn archives_of_the_same_content_are_the_same() {
    let archives = [0o644, 0o600].map(|mode| {
        let place = tempfile::tempdir().unwrap();
        let tree = place.path().join("tree");
        add_program(&tree.join("b/run"), "true");
        // A file system may list files in the order of their creation.
        let names = if mode == 0o644 { ["a", "c"] } else { ["c", "a"] };
        for name in names {
            let file = tree.join(name);
            fs::write(&file, name).unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
        }
        pack(place.path(), "archive.tar.gz")
    });
    assert!(archives[0] == archives[1]);
}

/// Writes an OCI layout with one image for an architecture.
fn add_image(layout: &Path, architecture: &str) {
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let (manifest, config) = (format!("{architecture}-manifest"), format!("{architecture}-config"));
    fs::write(
        blobs.join(&config),
        format!("{{\"architecture\": \"{architecture}\", \"os\": \"linux\"}}"),
    )
    .unwrap();
    fs::write(
        blobs.join(&manifest),
        format!("{{\"config\": {{\"digest\": \"sha256:{config}\"}}}}"),
    )
    .unwrap();
    fs::write(
        layout.join("index.json"),
        format!(
            "{{\"manifests\": [{{\"mediaType\": \"m\", \"digest\": \"sha256:{manifest}\", \"size\": 1}}]}}"
        ),
    )
    .unwrap();
}

#[test]
#[ignore = "needs jq: make e2e"]
fn index_of_images_does_not_depend_on_their_order() {
    let place = tempfile::tempdir().unwrap();
    let layout = |name: &str| place.path().join(name);
    for architecture in ["amd64", "arm64"] {
        add_image(&layout(architecture), architecture);
    }
    let index = |first: &str, second: &str| {
        let arguments = ["all", "0.1.0", first, second];
        succeed(script("scripts/release/index.sh").args(arguments).current_dir(place.path()))
    };
    let digest = index("amd64", "arm64");
    assert_eq!(index("arm64", "amd64"), digest);
    let blob = digest.trim_end().strip_prefix("sha256:").unwrap();
    let text = fs::read_to_string(layout("all").join("blobs/sha256").join(blob)).unwrap();
    let index: serde_json::Value = serde_json::from_str(&text).unwrap();
    let platforms: Vec<&str> = index["manifests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|manifest| manifest["platform"]["architecture"].as_str().unwrap())
        .collect();
    assert_eq!(platforms, ["amd64", "arm64"]);
}

#[test]
fn image_of_a_release_is_in_the_values_of_its_chart() {
    let place = tempfile::tempdir().unwrap();
    let values = place.path().join("values.yaml");
    let before = catalog::hook_chart::FILES.iter().find(|(path, _)| *path == "values.yaml");
    fs::write(&values, before.unwrap().1).unwrap();
    let digest = format!("sha256:{}", "0a".repeat(32));
    succeed(
        script("scripts/release/stamp.sh")
            .arg(place.path())
            .args(["localhost:5000/gpu-rollout", &digest]),
    );
    let text = fs::read_to_string(values).unwrap();
    let after: serde_json::Value = serde_yaml::from_str(&text).unwrap();
    let image = &after["rollout"]["image"];
    assert_eq!(image["repository"], "localhost:5000/gpu-rollout");
    assert_eq!(image["digest"], digest.as_str());
    let changed = text.lines().zip(before.unwrap().1.lines()).filter(|(new, old)| new != old);
    assert_eq!(changed.count(), 2);
}

#[test]
fn chart_gets_only_a_complete_digest() {
    let place = tempfile::tempdir().unwrap();
    let values = place.path().join("values.yaml");
    fs::write(&values, "rollout:\n  image:\n    repository: \"\"\n    digest: \"\"\n").unwrap();
    let before = fs::read_to_string(&values).unwrap();
    let long = format!("sha256:{}", "0".repeat(65));
    let other = format!("sha256:{}", "0g".repeat(32));
    for digest in ["", "sha256:", "sha256:0a", &long, &other, &"0a".repeat(32)] {
        let output = script("scripts/release/stamp.sh")
            .arg(place.path())
            .args(["localhost:5000/gpu-rollout", digest])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{digest}");
        assert!(errors(&output).contains("64 hexadecimal digits"), "{digest}: {}", errors(&output));
    }
    assert_eq!(fs::read_to_string(&values).unwrap(), before);
}

/// Users of the `Dockerfile` get the program that the tests ran.
#[test]
fn compiler_of_the_dockerfile_is_that_of_the_toolchain() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    let dockerfile = read("Dockerfile");
    let (_, image) = dockerfile.split_once("\nARG RUST=rust:").unwrap();
    let (version, _) = image.split_once('-').unwrap();
    let toolchain = read("rust-toolchain.toml");
    let (_, channel) = toolchain.split_once("\nchannel = \"").unwrap();
    let (channel, _) = channel.split_once('"').unwrap();
    assert!(
        channel == version || channel.starts_with(&format!("{version}.")),
        "Dockerfile: {version}, rust-toolchain.toml: {channel}"
    );
}

/// `docker buildx build` compiles the program from what `.dockerignore` leaves of the repository.
#[test]
#[ignore = "needs buildah: make e2e"]
fn docker_build_gets_every_member_of_the_workspace() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("Dockerfile");
    fs::write(&file, "FROM scratch\nCOPY . /\n").unwrap();
    let [storage, run, source] = ["storage", "run", "source"].map(|name| place.path().join(name));
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    succeed(
        Command::new("buildah")
            .args(["--storage-driver", "vfs", "--root"])
            .arg(storage)
            .arg("--runroot")
            .arg(run)
            .args(["build", "--quiet", "--output"])
            .arg(&source)
            .arg("--file")
            .args([&file, &repository.to_owned()]),
    );
    succeed(
        Command::new("cargo")
            .args(["metadata", "--offline", "--locked", "--no-deps", "--format-version=1"])
            .current_dir(source),
    );
}
