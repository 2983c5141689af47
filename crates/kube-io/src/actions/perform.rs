//! Performs many writes concurrently, within limits.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};

/// The maximum number of concurrent writes.
const AT_ONCE: usize = 8;

/// Performs actions. Those of one node run one after the other in their order, until the first one
/// fails. Those of different nodes run concurrently, at most eight at a time, in the order of each
/// node's first action. Calls `may_write` before each action; after it returns false, no action is
/// started. Returns the results in the order of the actions; `None`: the action was not started.
pub async fn perform<A, T, E>(
    actions: &[A],
    node: impl Fn(&A) -> &str,
    may_write: impl Fn() -> bool,
    act: impl AsyncFn(&A) -> Result<T, E>,
) -> Vec<Option<Result<T, E>>> {
    let mut lanes: Vec<Vec<usize>> = Vec::new();
    let mut lane_of: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, action) in actions.iter().enumerate() {
        let lane = *lane_of.entry(node(action)).or_insert(lanes.len());
        if lane == lanes.len() {
            lanes.push(Vec::new());
        }
        lanes[lane].push(index);
    }
    let (may_write, act) = (&may_write, &act);
    let lanes = stream::iter(lanes).map(async |lane| {
        let mut results = Vec::new();
        for index in lane {
            if !may_write() {
                break;
            }
            let result = act(&actions[index]).await;
            let failed = result.is_err();
            results.push((index, result));
            if failed {
                break;
            }
        }
        results
    });
    let mut answers: Vec<Option<Result<T, E>>> = actions.iter().map(|_| None).collect();
    for (index, result) in
        lanes.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await.into_iter().flatten()
    {
        answers[index] = Some(result);
    }
    answers
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::time::Duration;

    use super::*;

    /// Node and number of an action.
    type ActionKey = (&'static str, u32);

    async fn performed(
        actions: &[ActionKey],
        allowed: impl Fn(usize) -> bool,
    ) -> (Vec<Option<Result<u32, u32>>>, Vec<ActionKey>, usize) {
        let (started, under_way, most) = (RefCell::new(Vec::new()), Cell::new(0), Cell::new(0));
        let act = async |action: &ActionKey| {
            started.borrow_mut().push(*action);
            under_way.set(under_way.get() + 1);
            most.set(most.get().max(under_way.get()));
            tokio::time::sleep(Duration::from_secs(1)).await;
            under_way.set(under_way.get() - 1);
            if action.1 >= 100 { Err(action.1) } else { Ok(action.1) }
        };
        let answers =
            perform(actions, |action| action.0, || allowed(started.borrow().len()), act).await;
        (answers, started.into_inner(), most.get())
    }

    #[tokio::test(start_paused = true)]
    async fn node_actions_keep_order_and_stop_at_failure() {
        let actions = [("a", 1), ("b", 2), ("a", 100), ("b", 3), ("a", 4)];
        let (answers, started, most) = performed(&actions, |_| true).await;
        assert_eq!(answers, [Some(Ok(1)), Some(Ok(2)), Some(Err(100)), Some(Ok(3)), None]);
        assert_eq!(started, [("a", 1), ("b", 2), ("a", 100), ("b", 3)], "both nodes at once");
        assert_eq!(most, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_eight_are_under_way() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
        let actions: Vec<ActionKey> =
            names.iter().flat_map(|name| [(*name, 1), (*name, 2)]).collect();
        let (answers, _, most) = performed(&actions, |_| true).await;
        assert_eq!(most, AT_ONCE);
        assert!(answers.iter().all(Option::is_some));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_starts_after_writing_is_forbidden() {
        let actions = [("a", 1), ("a", 2), ("b", 3), ("c", 4)];
        let (answers, started, _) = performed(&actions, |started| started < 2).await;
        assert_eq!(started, [("a", 1), ("b", 3)]);
        assert_eq!(answers, [Some(Ok(1)), None, Some(Ok(3)), None]);
        let (answers, ..) = performed(&actions, |_| false).await;
        assert_eq!(answers, [None, None, None, None]);
    }
}
