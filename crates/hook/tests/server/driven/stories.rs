//! The stories with their expected ends.

use contract::acceptance::AcceptanceTime::{self, After, Before};
use contract::count::Count;
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::policy::{CompletionPolicy, DrainPolicy, ForeignCordon, PodDeletionPolicy};
use contract::proof::Canary;
use contract::settings::Settings;
use serde_json::json;

use super::Driven;
use super::objects::{FOREIGN, acceptance_test};
use super::play::job_ends;

/// A fleet with its events and its expected end.
#[derive(Clone, Copy)]
pub(crate) struct Story {
    pub(crate) name: &'static str,
    make: fn() -> Driven,
    /// The exit code of the run.
    pub(crate) code: ExitCode,
    /// A part of the message.
    pub(crate) says: &'static str,
    /// The number of patches of `gpu-0`, `gpu-1` and `gpu-2`.
    pub(crate) patches: [usize; 3],
    /// The number of deleted driver pods on each of them.
    pub(crate) drivers: [usize; 3],
    /// The number of accepted evictions.
    pub(crate) evictions: usize,
    /// Nodes that do not end in their initial state, each with the difference.
    pub(crate) left: &'static [(&'static str, &'static str)],
}

impl Story {
    /// Returns the fleet at the start of the story.
    pub(crate) fn begin(&self) -> Driven {
        (self.make)().begin()
    }
}

fn gpu(change: impl Fn(&mut Settings)) -> Driven {
    Driven::new(Driver::Gpu, change)
}

fn two_at_once(settings: &mut Settings) {
    settings.upgrade.policy.max_parallel_upgrades = 2;
    settings.upgrade.policy.max_unavailable = Some(Count::Number(2));
}

fn draining(settings: &mut Settings) {
    settings.upgrade.policy.pod_deletion = None;
    settings.upgrade.policy.drain =
        Some(DrainPolicy { timeout_seconds: 120, ..DrainPolicy::default() });
}

/// One attempt per node. A failed node leaves room for the others.
fn tried_once(settings: &mut Settings) {
    settings.upgrade.attempts = 1;
    settings.upgrade.policy.max_unavailable = Some(Count::Number(2));
}

/// A node with a foreign cordon leaves room for the others.
fn room_for_another(settings: &mut Settings) {
    settings.upgrade.policy.max_unavailable = Some(Count::Number(2));
}

/// All nodes have one acceptance test.
fn tested(settings: &mut Settings, when: &[AcceptanceTime]) {
    settings.upgrade.acceptance = vec![acceptance_test("smi", when)];
}

/// The number of patches of a node that is done or failed at its second attempt.
pub(crate) const TRIED_TWICE: usize = 5;

/// A story in which all nodes are upgraded.
const WELL: Story = Story {
    name: "",
    make: || gpu(|_| {}),
    code: ExitCode::Success,
    says: "settled: 3 of 3 nodes done; 3 DRA plugins replaced",
    patches: [3; 3],
    drivers: [1; 3],
    evictions: 0,
    left: &[],
};

/// Returns all stories with their numbers, or those with `$STORY` in their names, to repeat a story
/// that failed in a soak.
#[expect(clippy::disallowed_methods, reason = "an environment variable selects the story")]
pub(crate) fn numbered() -> impl Iterator<Item = (usize, &'static Story)> {
    let named = std::env::var("STORY").unwrap_or_default();
    STORIES.iter().enumerate().filter(move |(_, story)| story.name.contains(&named))
}

/// All stories.
pub(crate) const STORIES: &[Story] = &[
    Story { name: "plain", make: || gpu(two_at_once), ..WELL },
    Story {
        name: "pods with GPUs",
        make: || {
            gpu(two_at_once)
                .serves("serve", "gpu-0", 2, true)
                .serves("serve", "gpu-1", 1, true)
                .serves("web", "gpu-0", 2, false)
        },
        evictions: 6,
        ..WELL
    },
    Story {
        name: "a policy that evicts nothing",
        make: || {
            let fleet = gpu(|settings| {
                settings.upgrade.policy.pod_deletion = None;
                settings.upgrade.policy.drain = None;
            });
            fleet.serves("web", "gpu-0", 1, false)
        },
        patches: [2; 3],
        ..WELL
    },
    Story {
        name: "a budget that yields when a replacement is ready",
        make: || {
            let fleet = gpu(|_| {}).serves("serve", "gpu-0", 2, true).protected("serve", 1);
            fleet.with(|script| script.slow = [("serve", 12)].into())
        },
        evictions: 4,
        ..WELL
    },
    Story {
        name: "a budget that yields late",
        make: || {
            let fleet = gpu(|_| {})
                .serves("serve", "gpu-0", 1, true)
                .serves("serve", "gpu-1", 1, true)
                .protected("serve", 1);
            // One of the pods is not ready at first, so no pod may leave.
            let unready = |server: &crate::fake::Server, status: &str| {
                let key = {
                    let state = server.state();
                    let mut keys = state
                        .store
                        .objects
                        .keys()
                        .filter(|key| key.resource == "pods" && key.name.starts_with("serve-"));
                    keys.nth(1).unwrap().clone()
                };
                crate::world::edit(server, &key, |pod| {
                    pod["status"]["conditions"][0]["status"] = json!(status);
                });
            };
            unready(&fleet.world.server, "False");
            fleet.with(|script| {
                script.people.push((40, |server| {
                    let key = {
                        let state = server.state();
                        let not_ready =
                            |(key, pod): &(&crate::fake::store::Key, &serde_json::Value)| {
                                key.name.starts_with("serve-")
                                    && pod["status"]["conditions"][0]["status"] == "False"
                            };
                        state.store.objects.iter().find(not_ready).map(|(key, _)| key.clone())
                    };
                    if let Some(key) = key {
                        crate::world::edit(server, &key, |pod| {
                            pod["status"]["conditions"][0]["status"] = json!("True");
                        });
                    }
                }));
            })
        },
        evictions: 3,
        ..WELL
    },
    Story {
        name: "a budget that never yields",
        make: || gpu(tried_once).serves("serve", "gpu-1", 1, true).protected("serve", 1),
        code: ExitCode::NodesFailed,
        says: "gpu-1: no pod was evicted",
        patches: [3, 2, 3],
        drivers: [1, 0, 1],
        left: &[("gpu-1", "upgrade-failed pods-not-evictable 1")],
        ..WELL
    },
    Story {
        name: "a job that is waited for",
        make: || {
            let wait = CompletionPolicy { pod_selector: "app=train".into(), timeout_seconds: 0 };
            let fleet =
                gpu(|settings| settings.upgrade.policy.wait_for_completion = Some(wait.clone()));
            fleet
                .works(("Job", "train"), "gpu-1", 1, true)
                .with(|script| script.people.push((50, job_ends)))
        },
        ..WELL
    },
    Story {
        name: "drain",
        make: || {
            let fleet =
                gpu(draining).serves("serve", "gpu-0", 2, true).serves("web", "gpu-1", 2, false);
            fleet.protected("serve", 1)
        },
        evictions: 6,
        ..WELL
    },
    Story {
        name: "pod deletion that does not get through, then drain",
        make: || {
            let fleet = gpu(|settings| {
                draining(settings);
                settings.upgrade.policy.pod_deletion =
                    Some(PodDeletionPolicy { timeout_seconds: 10, ..PodDeletionPolicy::default() });
            });
            let fleet = fleet
                .serves("serve", "gpu-0", 2, true)
                .serves("web", "gpu-0", 1, false)
                .protected("serve", 1);
            fleet.with(|script| script.slow = [("serve", 30)].into())
        },
        patches: [4, 4, 3],
        evictions: 5,
        ..WELL
    },
    Story {
        name: "a node that leaves",
        make: || gpu(|_| {}).with(|script| script.leaving = ["gpu-1"].into()),
        says: "settled: 2 of ",
        patches: [3, 2, 3],
        ..WELL
    },
    Story {
        name: "a driver that fails",
        make: || gpu(tried_once).with(|script| script.failing = ["gpu-1"].into()),
        code: ExitCode::NodesFailed,
        says: "restarts: nvidia-driver-ctr: CrashLoopBackOff; 1 attempt; the node stays cordoned",
        left: &[("gpu-1", "upgrade-failed driver-failing 1 cordoned")],
        ..WELL
    },
    Story {
        name: "a driver that starts at the second attempt",
        make: || gpu(|_| {}).with(|script| script.failing_once = ["gpu-1"].into()),
        patches: [3, TRIED_TWICE, 3],
        drivers: [1, 2, 1],
        ..WELL
    },
    Story {
        name: "a driver that fails at every attempt",
        make: || {
            let fleet = gpu(|settings| {
                tried_once(settings);
                settings.upgrade.attempts = 2;
            });
            fleet.with(|script| script.failing = ["gpu-1"].into())
        },
        code: ExitCode::NodesFailed,
        says: "restarts: nvidia-driver-ctr: CrashLoopBackOff; 2 attempts; the node stays cordoned",
        patches: [3, TRIED_TWICE, 3],
        drivers: [1, 2, 1],
        left: &[("gpu-1", "upgrade-failed driver-failing 2 cordoned")],
        ..WELL
    },
    Story {
        name: "evictions that need a second attempt",
        make: || {
            // Long enough that one call without an answer, and the pause after it, do not use up an
            // attempt.
            let deletion =
                PodDeletionPolicy { timeout_seconds: 30, ..PodDeletionPolicy::default() };
            let fleet =
                gpu(|settings| settings.upgrade.policy.pod_deletion = Some(deletion.clone()));
            let fleet = fleet.serves("serve", "gpu-1", 2, true).protected("serve", 1);
            fleet.with(|script| script.slow = [("serve", 70)].into())
        },
        patches: [3, TRIED_TWICE, 3],
        evictions: 2,
        ..WELL
    },
    Story {
        name: "a node with a foreign cordon",
        make: || {
            gpu(room_for_another).node("gpu-1", |node| {
                node["spec"]["unschedulable"] = json!(true);
                node["metadata"]["annotations"][FOREIGN] = json!("yes");
            })
        },
        says: "settled: 2 of 3 nodes done, 1 deferred; 2 DRA plugins replaced",
        patches: [3, 0, 3],
        drivers: [1, 0, 1],
        left: &[("gpu-1", "cordoned")],
        ..WELL
    },
    Story {
        name: "such a node that is included",
        make: || {
            let fleet = gpu(|settings| {
                room_for_another(settings);
                settings.upgrade.foreign_cordon = ForeignCordon::Include;
            });
            fleet.node("gpu-1", |node| {
                node["spec"]["unschedulable"] = json!(true);
                node["metadata"]["annotations"][FOREIGN] = json!("yes");
            })
        },
        left: &[("gpu-1", "cordoned")],
        ..WELL
    },
    Story {
        name: "safe load",
        make: || gpu(|_| {}).with(|script| script.safe_load = true),
        patches: [4; 3],
        ..WELL
    },
    Story {
        name: "an orphaned driver pod",
        make: || {
            let fleet = gpu(|settings| {
                settings.upgrade.policy.pod_deletion = Some(PodDeletionPolicy::default());
            });
            fleet
                .driver_pod("gpu-1", |pod| pod["metadata"]["ownerReferences"] = json!([]))
                .serves("serve", "gpu-1", 1, true)
        },
        evictions: 1,
        ..WELL
    },
    Story {
        name: "OFED with drain",
        make: || {
            let fleet = Driven::new(Driver::Ofed, draining)
                .serves("serve", "gpu-0", 2, false)
                .protected("serve", 1);
            fleet.with(|script| script.safe_load = true)
        },
        says: "settled: 3 of 3 nodes done",
        patches: [4; 3],
        evictions: 4,
        ..WELL
    },
    Story {
        name: "a network device whose node leaves",
        make: || Driven::new(Driver::Ofed, |_| {}).with(|script| script.leaving = ["gpu-2"].into()),
        says: "settled: 2 of ",
        patches: [3, 3, 2],
        ..WELL
    },
    Story {
        name: "OFED, then GPU on the same nodes",
        make: || {
            let fleet = Driven::of(&[Driver::Ofed, Driver::Gpu], draining)
                .serves("serve", "gpu-0", 2, true)
                .protected("serve", 1);
            fleet.with(|script| script.driver_seconds = 4)
        },
        patches: [6; 3],
        evictions: 7,
        ..WELL
    },
    Story {
        name: "acceptance tests before and after",
        make: || gpu(|settings| tested(settings, &[Before, After])),
        // The result with the old driver is written before the driver is replaced, and that the tests
        // with the new one begin before their first pod is created.
        patches: [5; 3],
        ..WELL
    },
    Story {
        name: "an acceptance test that fails",
        make: || {
            let fleet = gpu(|settings| {
                tried_once(settings);
                tested(settings, &[After]);
            });
            fleet.with(|script| script.rejected = ["gpu-1"].into())
        },
        patches: [4; 3],
        code: ExitCode::NodesFailed,
        says: "acceptance test `smi` failed: test: exit code 3",
        left: &[("gpu-1", "upgrade-failed acceptance-failed 1 cordoned")],
        ..WELL
    },
    Story {
        name: "a canary that fails its test",
        make: || {
            let fleet = gpu(|settings| {
                tried_once(settings);
                tested(settings, &[After]);
                settings.upgrade.canary = Some(Canary::default());
            });
            fleet.with(|script| script.rejected = ["gpu-0"].into())
        },
        patches: [4, 0, 0],
        drivers: [1, 0, 0],
        code: ExitCode::Halted,
        says: "acceptance test `smi` failed: test: exit code 3",
        left: &[("gpu-0", "upgrade-failed acceptance-failed 1 cordoned")],
        ..WELL
    },
    Story {
        name: "a canary, a soak and a ramp",
        make: || {
            gpu(|settings| {
                two_at_once(settings);
                tested(settings, &[After]);
                settings.upgrade.canary = Some(Canary { soak_seconds: 60, ..Canary::default() });
                settings.upgrade.ramp = vec!["60%".parse().unwrap()];
            })
        },
        patches: [4; 3],
        ..WELL
    },
];
