//! The number of API requests of an upgrade grows linearly with the fleet: a constant part, and a
//! part for each node.

use contract::count::Count;
use contract::driver::Driver;
use contract::exit::ExitCode;

use super::Driven;

/// The number of requests of one upgrade, without those for the Lease.
struct Asked {
    nodes: usize,
    reads: usize,
    writes: usize,
    evictions: usize,
}

impl Asked {
    /// Returns the number of additional requests for each additional node, compared with the
    /// smaller fleet.
    fn for_each_node_beyond(&self, smaller: &Self, count: impl Fn(&Self) -> usize) -> f64 {
        share(count(self).saturating_sub(count(smaller)), self.nodes - smaller.nodes)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a mean of some thousands")]
fn share(count: usize, of: usize) -> f64 {
    count as f64 / of as f64
}

/// Upgrades a fleet with one GPU pod on each node, a tenth of the nodes at the same time.
async fn upgrade(nodes: usize) -> Asked {
    let mut fleet = Driven::sized(nodes, &[Driver::Gpu], |settings| {
        settings.upgrade.policy.max_parallel_upgrades = u32::try_from(nodes / 10).unwrap();
        settings.upgrade.policy.max_unavailable =
            Some(Count::Number(u32::try_from(nodes / 10).unwrap()));
    });
    for index in 0..nodes {
        fleet = fleet.serves("serve", &format!("gpu-{index}"), 1, true);
    }
    let fleet = fleet.begin();
    let ended = fleet.run("pod-a").await;
    assert_eq!(ended.code, ExitCode::Success, "{nodes} nodes: {}", ended.message);
    fleet.assert_safe(&format!("{nodes} nodes"));
    let mut asked = Asked { nodes, reads: 0, writes: 0, evictions: 0 };
    for entry in fleet.world.log().into_iter().filter(|entry| entry.request.resource != "leases") {
        *match (entry.request.is_write(), entry.request.resource.as_str()) {
            (false, _) => &mut asked.reads,
            (true, "pods/eviction") => &mut asked.evictions,
            (true, _) => &mut asked.writes,
        } += 1;
    }
    asked
}

#[expect(clippy::print_stdout, reason = "the figures are the output")]
async fn grows_in_a_straight_line(sizes: &[usize]) {
    let mut fleets = Vec::new();
    for size in sizes {
        let asked = upgrade(*size).await;
        println!(
            "{size} nodes: {:.2} reads, {:.2} writes, {:.2} evictions a node",
            share(asked.reads, *size),
            share(asked.writes, *size),
            share(asked.evictions, *size)
        );
        fleets.push(asked);
    }
    for pair in fleets.windows(2) {
        let [smaller, larger] = pair else { unreachable!("windows of two") };
        let each = |count: fn(&Asked) -> usize| larger.for_each_node_beyond(smaller, count);
        let (reads, writes) = (each(|asked| asked.reads), each(|asked| asked.writes));
        let place = format!("from {} to {} nodes", smaller.nodes, larger.nodes);
        // Start, driver pod, plugin and its record, end and its record, event, and repeated patches after
        // conflicts.
        assert!(writes <= 8.0, "{place}: {writes:.2} writes for each additional node");
        // One list and one watch of the node's pods. The requests of the caches do not depend on
        // the number of nodes.
        assert!(reads <= 3.0, "{place}: {reads:.2} reads for each additional node");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn requests_grow_linearly_with_the_fleet() {
    grows_in_a_straight_line(&[10, 40]).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
#[ignore = "soak: three hundred nodes"]
async fn soak_requests_grow_linearly_with_the_fleet() {
    grows_in_a_straight_line(&[10, 100, 300]).await;
}
