//! The options of `bundle render` that a bundle was rendered with.

use serde::Serialize;

use crate::info::BundleInfo;
use deployer::verification::{SignerIdentity, SourceVerification};
use recipe::model::{PodScheduling, RecipeToleration, TaintEffect, TolerationOperator};

/// One option with its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct RenderOption {
    flag: String,
    value: String,
}

/// Returns all options but those that name the recipe, the deployer, the output and the chart
/// repositories.
pub(super) fn render_options(info: &BundleInfo) -> Vec<RenderOption> {
    let mut options: Vec<(&str, String)> = Vec::new();
    if let Some(source) = &info.source {
        options.push(("--repo", source.url.clone()));
        options.push(("--revision", source.revision.clone()));
        options.push(("--path", source.path.clone()));
        match &source.verification {
            None => {}
            Some(SourceVerification::Secret(name)) => {
                options.push(("--verify-secret", name.clone()));
            }
            Some(SourceVerification::Identities(signers)) => {
                let signer = |one: &SignerIdentity| format!("{}={}", one.issuer, one.subject);
                options.extend(signers.iter().map(|one| ("--verify-identity", signer(one))));
            }
        }
    }
    options.extend(info.hook_image.iter().map(|image| ("--hook-image", image.clone())));
    options.extend(info.registry_mirrors.iter().map(|one| ("--registry-mirror", one.clone())));
    options.extend(info.image_pull_secrets.iter().map(|one| ("--image-pull-secret", one.clone())));
    // An empty path means the root, which is the default.
    let options = options.into_iter().filter(|(_, value)| !value.is_empty());
    let options = options.map(|(flag, value)| RenderOption { flag: flag.to_owned(), value });
    options
        .chain(scheduling("system", &info.node_scheduling.system))
        .chain(scheduling("accelerated", &info.node_scheduling.accelerated))
        .collect()
}

/// Returns the options for one group of pods.
fn scheduling(group: &str, pods: &PodScheduling) -> Vec<RenderOption> {
    let labels = pods.node_selector.iter().map(|(key, value)| RenderOption {
        flag: format!("--{group}-node-selector"),
        value: format!("{key}={}", value.as_str().unwrap_or_default()),
    });
    let tolerations = pods.tolerations.iter().map(|toleration| RenderOption {
        flag: format!("--{group}-node-toleration"),
        value: toleration_text(toleration),
    });
    labels.chain(tolerations).collect()
}

/// Returns a toleration as `KEY[=VALUE][:EFFECT]`.
fn toleration_text(toleration: &RecipeToleration) -> String {
    let mut text = toleration.key.clone().unwrap_or_default();
    if toleration.operator == Some(TolerationOperator::Equal) {
        text.extend(["=", toleration.value.as_deref().unwrap_or_default()]);
    }
    if let Some(effect) = toleration.effect {
        text.extend([
            ":",
            match effect {
                TaintEffect::NoSchedule => "NoSchedule",
                TaintEffect::PreferNoSchedule => "PreferNoSchedule",
                TaintEffect::NoExecute => "NoExecute",
            },
        ]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the command of the archive rendered a bundle whose signatures Flux did not
    /// verify any more.
    #[test]
    fn rendering_again_keeps_the_signers() {
        let info = |verification: &str| {
            let text = format!(
                "apiVersion: x\nkind: BundleInfo\nrenderedBy: x\ndeployer: flux\nhookChart: x\n\
                 recipe: {{name: x, sha256: x}}\nreleases: []\n\
                 source: {{url: \"oci://a.example.com/b\", revision: v1, path: \"\", verification: {verification}}}\n"
            );
            let info: BundleInfo = yaml::from_str(&text).unwrap();
            let options = render_options(&info);
            let words = options.into_iter().map(|one| format!("{} {}", one.flag, one.value));
            words.collect::<Vec<_>>().join(" ")
        };
        let source = "--repo oci://a.example.com/b --revision v1";
        assert_eq!(info("{secret: cosign}"), format!("{source} --verify-secret cosign"));
        let signers = "{identities: [{issuer: \"https://c\", subject: d}, {issuer: \"https://c\", subject: \"e*\"}]}";
        assert_eq!(
            info(signers),
            format!("{source} --verify-identity https://c=d --verify-identity https://c=e*")
        );
    }
}
