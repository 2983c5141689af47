//! What `report` contains, where hooks have run.

use ops::report::{format_metrics, report};

use crate::person::Person;
use crate::world::World;

/// The record keeps the replacements of earlier runs: a run that replaced 4 pods was reported with 14.
#[tokio::test(flavor = "local", start_paused = true)]
async fn report_counts_replacements_of_its_run_only() {
    let mut world = World::at_rest(4);
    world.upgrade(&[2, 0, 3, 1]);
    world.run("pod-a", "job-1").await;
    let mut person = Person::with_rights(&world, &[]).await;
    assert_eq!(report(&person.observe(&world).await).totals.replaced, 4);
    world.settings.digest = "e".repeat(64);
    let settings = world.settings.clone();
    world.install(&settings, "job-2");
    world.upgrade(&[1]);
    let ended = world.run("pod-b", "job-2").await;
    assert_eq!(ended.message, "settled: 4 of 4 nodes done; 1 DRA plugins replaced");
    let found = report(&person.observe(&world).await);
    assert_eq!((found.totals.replaced, found.totals.touched), (1, 1), "{:#?}", found.nodes);
    assert!(found.nodes.iter().all(|node| node.node == "gpu-1" && node.replaced.len() == 1), "{:#?}", found.nodes);
    let metrics = format_metrics(&[found]);
    let replaced = metrics.lines().find(|line| line.contains("replaced") && !line.starts_with('#'));
    assert!(replaced.is_some_and(|line| line.ends_with(" 1.0")), "{metrics}");
}
