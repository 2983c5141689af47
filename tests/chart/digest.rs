//! The trigger digest is the same wherever it is computed, and changes whenever the hook must fire
//! again.

use super::helm::{template, template_as, values};

const COMPONENT: &str = "driver: {version: \"580.126.20\", enabled: true}\ntoolkit: {version: v1.18.0}\nnumbers: {large: 12345678, none: null}\n";

#[test]
#[ignore = "needs helm (make e2e)"]
fn nothing_but_values_and_image_matters() {
    let file = values(COMPONENT);
    let file = ["--values", file.to_str().unwrap()];
    let digest = template(&file).digest().to_owned();
    assert_eq!(digest.len(), 64);
    let with = |more: &[&str]| template(&[&file, more].concat()).digest().to_owned();
    assert_eq!(with(&["--is-upgrade"]), digest);
    assert_eq!(with(&["--kube-version", "1.37.0", "--api-versions", "resource.k8s.io/v1"]), digest);
    assert_eq!(template_as("other", "default", &file).digest(), digest);

    // The same values in another order and in two files.
    let first = values("toolkit: {version: v1.18.0}\nnumbers: {none: null, large: 12345678}\n");
    let second = values("driver: {enabled: true, version: \"580.126.20\"}\n");
    let split = ["--values", first.to_str().unwrap(), "--values", second.to_str().unwrap()];
    assert_eq!(template(&split).digest(), digest);
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn a_change_of_anything_fires_again() {
    let file = values(COMPONENT);
    let file = ["--values", file.to_str().unwrap()];
    let mut seen = vec![template(&file).digest().to_owned()];
    for change in [
        "driver.version=580.126.16",
        "driver.upgradePolicy.maxParallelUpgrades=2",
        "some.key.of.the.component=true",
        "numbers.none=0",
        "rollout.component.version=v26.3.1",
        "rollout.image.tag=0.2.0",
        "rollout.image.digest=sha256:0000000000000000000000000000000000000000000000000000000000000000",
        "rollout.dra.maxUnavailable=1",
    ] {
        let digest = template(&[&file[..], &["--set", change]].concat()).digest().to_owned();
        assert!(!seen.contains(&digest), "{change}");
        seen.push(digest);
    }
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn digest_is_in_trigger_settings_and_pod() {
    let objects = template(&[]);
    let digest = objects.digest();
    assert_eq!(objects.settings().digest, digest);
    assert_eq!(objects.trigger()["data"]["settings"], objects.settings_text());
    assert_eq!(objects.trigger()["metadata"]["labels"]["gpu-rollout.dev/digest"], digest[..16]);
    assert_eq!(
        objects.job()["spec"]["template"]["metadata"]["labels"]["gpu-rollout.dev/digest"],
        digest[..16]
    );
}
