//! What the READMEs of Applications say.

use serde::Serialize;

use super::{all_waves_seconds, longest_sync_seconds, waves};
use crate::language::WrittenText;
use crate::layout::{budget, content, folders};
use contract::duration::Duration;
use release::model::{ChartOrigin, ReleaseKind};
use release::{Release, ReleasePlan};

/// What a README is made from.
#[derive(Serialize)]
pub struct ApplicationsReadme<'a> {
    /// The bundle's name.
    pub recipe: &'a str,
    /// What to say of the hook's image.
    pub image_note: Option<WrittenText>,
    /// In order.
    pub releases: Vec<ApplicationsReadmeRow<'a>>,
    /// How long one Application may be syncing.
    pub longest_sync: String,
    /// The same in seconds.
    pub longest_sync_seconds: u64,
    /// How long all waves may take.
    pub all_waves: String,
    /// The same in seconds.
    pub all_waves_seconds: u64,
    /// Whether a chart comes from an OCI registry.
    pub oci: bool,
}

/// One release.
#[derive(Serialize)]
pub struct ApplicationsReadmeRow<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its folder.
    pub folder: String,
    /// Its kind.
    pub kind: &'static str,
    /// Its Application's wave.
    pub wave: usize,
    /// Chart and version, or what is in it.
    pub content: String,
    /// A hook's budget.
    pub budget: Option<&'a str>,
}

impl<'a> ApplicationsReadme<'a> {
    /// For the bundle called `recipe`.
    pub fn new(recipe: &'a str, plan: &'a ReleasePlan) -> Self {
        let waves = waves(plan);
        let row = |(folder, release): (String, &'a Release)| ApplicationsReadmeRow {
            name: &release.name,
            namespace: &release.namespace,
            folder,
            kind: release.kind.name(),
            wave: waves[release.name.as_str()],
            content: content(release),
            budget: budget(release),
        };
        let (one, all) = (longest_sync_seconds(plan), all_waves_seconds(plan));
        let is_oci =
            |release: &Release| matches!(&release.kind, ReleaseKind::Upstream(upstream) if matches!(upstream.chart, ChartOrigin::Oci(_)));
        Self {
            recipe,
            image_note: plan.image_note().map(WrittenText::fixed),
            releases: folders(plan).map(row).collect(),
            longest_sync: Duration::from_secs(one).to_string(),
            longest_sync_seconds: one,
            all_waves: Duration::from_secs(all).to_string(),
            all_waves_seconds: all,
            oci: plan.releases.iter().any(is_oci),
        }
    }
}
