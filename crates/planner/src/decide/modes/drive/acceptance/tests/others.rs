//! Cordons and pods that others change while a node is tested, and pods that the hook itself
//! deletes at the end of the run.

use super::*;

/// Changes the pods of tests.
fn edit(scene: &mut Scene, change: impl Fn(AcceptancePod) -> AcceptancePod) {
    let pods = scene.observed.acceptance.iter().cloned();
    scene.observed.acceptance = pods.map(change).collect();
}

/// Workloads could come while the pod of the test before was ending.
#[test]
fn cordon_is_restored_between_two_tests() {
    let mut scene = Scene::new(vec![test("a", &[After])]);
    scene.observe(&[("earlier", PASSED)]);
    assert_eq!(reason(&scene.step(After, 1)), "AcceptanceEnding");
    scene.node.unschedulable = false;
    assert_eq!(reason(&scene.step(After, 2)), "Cordoning");
}

/// A pod of the right name that has succeeded on another node proves nothing.
#[test]
fn pod_on_another_node_is_not_that_of_the_test() {
    let mut scene = Scene::new(vec![test("a", &[After])]);
    let pod = scene.creation(After, 1).expect("the test").pod;
    scene.observe(&[(pod.as_str(), PASSED)]);
    edit(&mut scene, |pod| AcceptancePod { node: "gpu-1".to_owned(), ..pod });
    assert_eq!(scene.creation(After, 60).map(|creation| creation.pod), Some(pod));
}

/// Regression: the hook deletes the pods when the time of the run is over. A test whose own time
/// ended then counted as lost, and the node's proof as failed.
#[test]
fn lost_test_is_no_result_after_the_deadline() {
    for is_over in [true, false] {
        let mut scene = Scene::new(vec![test("a", &[After])]);
        let pod = scene.creation(After, 1).expect("the test").pod;
        scene.observe(&[(pod.as_str(), AcceptancePhase::Running)]);
        edit(&mut scene, |pod| AcceptancePod { deleting: true, ..pod });
        if is_over {
            scene.memory.deadline = at(600);
        }
        let expected = if is_over { "Accepting" } else { "not accepted" };
        assert_eq!(reason(&scene.step(After, 601)), expected);
        scene.observe(&[]);
        assert_eq!(reason(&scene.step(After, 602)), expected);
        assert_eq!(scene.results().is_empty(), is_over);
    }
}
