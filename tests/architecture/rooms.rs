//! The one table: which room may import which, and what of the world outside it may touch.

/// Something outside the program that a room may not touch unless its row says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum World {
    /// The Kubernetes client and its types.
    Kubernetes,
    /// The asynchronous runtime, threads.
    Tasks,
    /// The file system.
    Files,
    /// Processes, the environment, the network.
    System,
    /// How much time has passed.
    Elapsed,
    /// What time it is.
    Clock,
}

impl World {
    /// Parts of paths that give it away.
    pub(crate) const SIGNS: &[(Self, &[&str])] = &[
        (Self::Kubernetes, &["kube"]),
        (Self::Kubernetes, &["k8s_openapi"]),
        (Self::Tasks, &["tokio"]),
        (Self::Tasks, &["std", "thread"]),
        (Self::Files, &["std", "fs"]),
        (Self::System, &["std", "env"]),
        (Self::System, &["std", "net"]),
        (Self::System, &["std", "process", "Command"]),
        (Self::Clock, &["Timestamp", "now"]),
        (Self::Clock, &["Zoned", "now"]),
        (Self::Clock, &["SystemTime"]),
        (Self::Elapsed, &["Instant"]),
    ];
}

/// A room of the house: a module of the crate's root.
pub(crate) struct Room {
    /// The module.
    pub(crate) name: &'static str,
    /// Rooms that it may import; each stands in a row above.
    pub(crate) imports: &'static [&'static str],
    /// What it may touch outside the program.
    pub(crate) touches: &'static [World],
    /// Why not more.
    pub(crate) why: &'static str,
}

const fn room(name: &'static str, imports: &'static [&'static str], touches: &'static [World], why: &'static str) -> Room {
    Room { name, imports, touches, why }
}

/// The table. A new room is a row here and one in `ARCHITECTURE.md`.
pub(crate) const ROOMS: &[Room] = &[
    room("contract", &[], &[], "both lives agree on it, so it depends on neither"),
    room("catalog", &["contract"], &[], "it is data, embedded at build time"),
    room("text", &["contract"], &[], "it reads what people write and knows no format"),
    room("device_plugin", &["contract", "text"], &[], "what the plugin makes of a file depends on nothing of ours"),
    room(
        "recipe",
        &["contract", "catalog", "text", "device_plugin"],
        &[World::Files],
        "a recipe is judged without knowing what is made of it",
    ),
    room("release", &["contract", "catalog", "device_plugin", "recipe"], &[], "the plan is pure: the same recipe gives the same releases"),
    room("deployer", &["contract", "release"], &[], "a deployer only writes down what the plan says"),
    room(
        "bundle",
        &["contract", "text", "device_plugin", "recipe", "release", "deployer"],
        &[World::Files, World::System],
        "it puts files into a directory and knows no command line",
    ),
    room("rollout", &["contract"], &[], "the engine is pure: no I/O, no clock, no Kubernetes client"),
    room("simulate", &["contract", "rollout"], &[], "its world is made of numbers: no clock, nothing random that no seed gave"),
    room(
        "cluster",
        &["contract", "rollout"],
        &[World::Kubernetes, World::Tasks, World::Elapsed],
        "it reads and writes the cluster and decides nothing",
    ),
    room(
        "hook",
        &["contract", "rollout", "cluster"],
        &[World::Kubernetes, World::Tasks, World::Elapsed, World::Clock],
        "it wires observe, decide and act, and knows no command line",
    ),
    room(
        "console",
        &["contract", "rollout", "simulate", "cluster"],
        &[World::Kubernetes, World::Tasks, World::Elapsed],
        "it tells people what the engine makes of a cluster, does what they ask for, and knows no command line",
    ),
    room(
        "cli",
        &[
            "contract",
            "catalog",
            "text",
            "device_plugin",
            "recipe",
            "release",
            "deployer",
            "bundle",
            "rollout",
            "simulate",
            "cluster",
            "hook",
            "console",
        ],
        &[World::Tasks, World::Files],
        "arguments in, calls, text out; what time it is, the hook knows",
    ),
    room("main", &["cli"], &[World::System], "it hands over the words that it was started with, and does nothing else"),
];

/// The row of a room.
pub(crate) fn named(name: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.name == name)
}

#[test]
fn no_room_imports_one_that_stands_below_it() {
    for (index, room) in ROOMS.iter().enumerate() {
        for import in room.imports {
            assert!(ROOMS[..index].iter().any(|above| above.name == *import), "`{}` imports `{import}`, which stands below it", room.name);
        }
    }
}

/// `ARCHITECTURE.md` tells people the same.
#[test]
fn the_map_says_the_same() {
    let map = include_str!("../../ARCHITECTURE.md");
    let mut findings = Vec::new();
    for room in ROOMS.iter().filter(|room| room.name != "main") {
        let expected = match room.imports {
            [] => "nothing of ours".to_owned(),
            imports if imports.len() == ROOMS.len() - 2 => "everything".to_owned(),
            imports => imports.join(", "),
        };
        let row = map.lines().find(|line| line.starts_with(&format!("| `src/{}/` |", room.name)));
        match row.and_then(|row| row.trim_end_matches(" |").rsplit_once("| ")) {
            Some((_, found)) if found == expected => {}
            found => findings.push(format!("ARCHITECTURE.md: `{}` may import: {expected}; the map says {found:?}", room.name)),
        }
    }
    crate::expect_none(&findings);
}
