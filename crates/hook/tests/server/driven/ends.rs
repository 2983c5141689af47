//! Each story undisturbed: its end, and the expected number of writes.

use super::objects::Kind;
use super::stories::STORIES;

#[tokio::test(flavor = "local", start_paused = true)]
async fn every_story_ends_as_promised_with_minimal_writes() {
    for story in STORIES {
        let fleet = story.begin();
        let ended = fleet.run("pod-a").await;
        let place = story.name;
        assert_eq!(ended.code, story.code, "{place}: {}", ended.message);
        assert!(ended.message.contains(story.says), "{place}: {}", ended.message);
        fleet.assert_safe(place);
        let writes = fleet.writes();
        let count = |object: String| writes.get(&object).copied().unwrap_or(0);
        for (index, (patches, drivers)) in story.patches.into_iter().zip(story.drivers).enumerate()
        {
            let node = format!("gpu-{index}");
            assert_eq!(count(format!("node {node}")), patches, "{place}: patches of {node}");
            for driver in fleet.drivers.iter().map(|driver| Kind::driver(*driver)) {
                assert_eq!(
                    count(format!("{driver:?} of {node}")),
                    drivers,
                    "{place}: {driver:?} deleted on {node}"
                );
            }
            let left =
                story.left.iter().find(|(name, _)| *name == node).map_or("", |(_, left)| *left);
            assert_eq!(fleet.left(&node), left, "{place}: {node}");
        }
        let evictions = writes.iter().filter(|(object, _)| object.starts_with("eviction of "));
        assert_eq!(
            evictions.map(|(_, count)| *count).collect::<Vec<_>>(),
            vec![1; story.evictions],
            "{place}: {writes:?}"
        );
    }
}
