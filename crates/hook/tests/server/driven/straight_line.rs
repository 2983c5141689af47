//! What an upgrade asks of the API server grows with the fleet in a straight line: so much for each node, and so much once.

use contract::count::Count;
use contract::driver::Driver;
use contract::exit::ExitCode;

use super::Driven;

/// Requests of one upgrade, those for the Lease apart.
struct Asked {
    nodes: usize,
    reads: usize,
    writes: usize,
    evictions: usize,
}

impl Asked {
    /// How many more there are than in the smaller fleet, for each node more.
    fn for_each_node_beyond(&self, smaller: &Self, count: impl Fn(&Self) -> usize) -> f64 {
        share(count(self).saturating_sub(count(smaller)), self.nodes - smaller.nodes)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a mean of some thousands")]
fn share(count: usize, of: usize) -> f64 {
    count as f64 / of as f64
}

/// A fleet whose nodes each have a pod with a GPU, a tenth of them upgraded at once.
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

#[expect(clippy::print_stdout, reason = "the figures are for people")]
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
        // Start, driver pod, plugin and its record, the end, an event: and what goes beside a patch that was too late.
        assert!(writes <= 8.0, "{place}: {writes:.2} writes for each node more");
        // The pods of the node: one list and one watch. Caches cost what they cost however many nodes there are.
        assert!(reads <= 3.0, "{place}: {reads:.2} reads for each node more");
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
