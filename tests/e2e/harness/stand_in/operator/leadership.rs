//! The leader election of the operator. Every container of the Deployment's pods is an instance
//! that campaigns for the Lease as client-go does. An instance that ends does not release the
//! Lease, so no instance leads until the Lease has expired.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::OPERATOR_NAMESPACE;
use crate::harness::stand_in::cache::Cache;
use crate::harness::stand_in::random::number;
use crate::harness::stand_in::script::Script;

/// The operator's Lease.
pub(crate) const LEASE: &str = "53822513.nvidia.com";
/// The labels of the operator's pods.
const LABELS: &str = "app=gpu-operator,app.kubernetes.io/component=gpu-operator";
/// The interval at which the leader renews the Lease and candidates try to take it, unless the
/// Lease is short.
const RETRY: Duration = Duration::from_secs(2);
/// The interval at which instances are searched.
const PERIOD: Duration = Duration::from_millis(100);

/// The instance that leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leader {
    /// The holder identity in the Lease.
    pub(super) identity: String,
    /// The operator's version, such as `v26.3.1`.
    pub(super) version: String,
    /// Whether the Deployment requests another image, so that a new pod replaces this one.
    pub(super) is_outdated: bool,
}

/// Starts the election. The receiver shows the leading instance, if one leads.
pub(super) fn start(
    client: &Client,
    script: &Arc<Mutex<Script>>,
    tasks: &mut JoinSet<()>,
) -> watch::Receiver<Option<Leader>> {
    let changed = Arc::new(Notify::new());
    let of_operator = || Config::default().labels(LABELS);
    let (leader, receiver) = watch::channel(None);
    let election = Election {
        leases: Api::namespaced(client.clone(), OPERATOR_NAMESPACE),
        script: Arc::clone(script),
        pods: Cache::start(
            Api::namespaced(client.clone(), OPERATOR_NAMESPACE),
            (),
            of_operator(),
            &changed,
            tasks,
        ),
        deployments: Cache::start(
            Api::namespaced(client.clone(), OPERATOR_NAMESPACE),
            (),
            Config::default(),
            &changed,
            tasks,
        ),
        candidates: Vec::new(),
        leader,
    };
    tasks.spawn_local(election.run(changed));
    receiver
}

struct Election {
    leases: Api<Lease>,
    script: Arc<Mutex<Script>>,
    pods: Cache<Pod>,
    deployments: Cache<Deployment>,
    candidates: Vec<Candidate>,
    leader: watch::Sender<Option<Leader>>,
}

/// An instance of the operator.
struct Candidate {
    identity: String,
    image: String,
    leads: bool,
    /// When it last tried to take or renew the Lease.
    asked: Option<Instant>,
    /// The last observed version of the Lease, and when it was first observed.
    seen: Option<(String, Instant)>,
}

impl Election {
    async fn run(mut self, changed: Arc<Notify>) {
        loop {
            tokio::time::timeout(PERIOD, changed.notified()).await.ok();
            let script = self.script.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.find_candidates(&script);
            let retry = RETRY.min(script.lease / 6);
            for candidate in &mut self.candidates {
                if candidate.asked.is_some_and(|asked| asked.elapsed() < retry) {
                    continue;
                }
                candidate.asked = Some(Instant::now());
                if let Err(error) = candidate.campaign(&self.leases, script.lease).await {
                    eprintln!("stand-in operator {}: {error:#}", candidate.identity);
                }
            }
            self.publish();
        }
    }

    /// Finds the instances. An instance lives while its container runs and its pod is not being
    /// deleted.
    fn find_candidates(&mut self, script: &Script) {
        let mut living: Vec<Candidate> =
            self.pods.all().iter().filter_map(|pod| candidate(pod, script.seed)).collect();
        living.sort_by(|one, other| one.identity.cmp(&other.identity));
        self.candidates.retain(|known| living.iter().any(|found| found.identity == known.identity));
        for found in living {
            if self.candidates.iter().all(|known| known.identity != found.identity) {
                self.candidates.push(found);
            }
        }
        self.publish();
    }

    fn publish(&self) {
        let deployments = self.deployments.all();
        let asked = deployments.iter().find(|deployment| deployment.name_any() == "gpu-operator");
        let asked = asked.and_then(|deployment| {
            deployment.spec.as_ref()?.template.spec.as_ref()?.containers.first()?.image.clone()
        });
        let leader =
            self.candidates.iter().find(|candidate| candidate.leads).map(|candidate| Leader {
                identity: candidate.identity.clone(),
                version: candidate.image.rsplit(':').next().unwrap_or_default().to_owned(),
                is_outdated: asked.is_some_and(|asked| asked != candidate.image),
            });
        self.leader.send_if_modified(|live| {
            let differs = *live != leader;
            *live = leader;
            differs
        });
    }
}

fn candidate(pod: &Pod, seed: u64) -> Option<Candidate> {
    let container = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    let runs = container.state.as_ref().is_some_and(|state| state.running.is_some());
    if !runs || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let process = format!("{} {}", pod.uid()?, container.restart_count);
    let (high, low) = (number(seed, &process), number(seed.wrapping_add(1), &process));
    let uuid = format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 52,
        low & 0xffff_ffff_ffff
    );
    let image = pod.spec.as_ref()?.containers.first()?.image.clone()?;
    Some(Candidate {
        identity: format!("{}_{uuid}", pod.name_any()),
        image,
        leads: false,
        asked: None,
        seen: None,
    })
}

impl Candidate {
    /// Renews the Lease if the instance holds it. Takes the Lease if it was not renewed for its
    /// duration, counted from when this instance observed the last renewal.
    async fn campaign(&mut self, leases: &Api<Lease>, duration: Duration) -> Result<()> {
        let now = MicroTime(Timestamp::now());
        let mut wanted = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(duration.as_secs()).ok(),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        };
        let parameters = PostParams::default();
        let Some(mut live) = leases.get_opt(LEASE).await? else {
            let metadata = ObjectMeta { name: Some(LEASE.into()), ..ObjectMeta::default() };
            self.leads =
                written(leases.create(&parameters, &Lease { metadata, spec: Some(wanted) }).await)?;
            return Ok(());
        };
        let held = live.spec.take().unwrap_or_default();
        let transitions = held.lease_transitions.unwrap_or(0);
        if held.holder_identity.as_deref() == Some(&self.identity) {
            wanted.acquire_time = held.acquire_time;
            wanted.lease_transitions = Some(transitions);
        } else {
            self.leads = false;
            let version = live.resource_version().unwrap_or_default();
            if self.seen.as_ref().is_none_or(|(seen, _)| *seen != version) {
                self.seen = Some((version, Instant::now()));
            }
            let lasts = Duration::from_secs(
                held.lease_duration_seconds
                    .and_then(|seconds| u64::try_from(seconds).ok())
                    .unwrap_or(0),
            );
            let is_held = held.holder_identity.is_some_and(|holder| !holder.is_empty());
            if is_held && self.seen.as_ref().is_some_and(|(_, since)| since.elapsed() < lasts) {
                return Ok(());
            }
            wanted.lease_transitions = Some(transitions + 1);
        }
        live.spec = Some(wanted);
        self.leads = written(leases.replace(LEASE, &parameters, &live).await)?;
        Ok(())
    }
}

/// Whether the Lease was written. Another instance may have been faster.
fn written(result: kube::Result<Lease>) -> Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(error)) if error.code == 409 => Ok(false),
        Err(error) => Err(error.into()),
    }
}
