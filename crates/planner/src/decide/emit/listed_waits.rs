//! The list of waits in a verdict's message.

use crate::pods::listed;
use crate::reason::Wait;

/// Maximum number of different texts in the list.
const MOST_TEXTS: usize = 5;

/// Lists what nodes and the fleet wait for. Nodes that wait for the same thing are one entry.
/// Several entries have numbers, because the text of an entry can contain semicolons.
pub(super) fn list_waits(waits: &[Wait]) -> String {
    let mut entries: Vec<(Vec<String>, String)> = Vec::new();
    for wait in waits {
        let (node, text) = (wait.node.as_deref().map(str::to_owned), wait.reason.to_string());
        let same = |(nodes, known): &&mut (Vec<String>, String)| {
            *known == text && nodes.is_empty() == node.is_none()
        };
        match entries.iter_mut().find(same) {
            Some((nodes, _)) => nodes.extend(node),
            None => entries.push((node.into_iter().collect(), text)),
        }
    }
    let has_numbers = entries.len() > 1;
    let shown = entries.iter().take(MOST_TEXTS).enumerate().map(|(index, (nodes, text))| {
        let number = if has_numbers { format!("({}) ", index + 1) } else { String::new() };
        let nodes = if nodes.is_empty() { String::new() } else { format!("{}: ", listed(nodes)) };
        format!("{number}{nodes}{text}")
    });
    let left = entries.iter().skip(MOST_TEXTS).map(|(nodes, _)| nodes.len().max(1)).sum::<usize>();
    let more = (left > 0).then(|| format!("and {left} more"));
    shown.chain(more).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::*;
    use crate::reason::Reason;

    fn wait(node: Option<&str>, resource: &'static str) -> Wait {
        let reason = Arc::new(Reason::PolicyApiMissing { resource });
        Wait { node: node.map(Into::into), reason, since: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn nodes_with_the_same_text_are_one_entry() {
        let text = |resource| Reason::PolicyApiMissing { resource }.to_string();
        let (a, b) = (text("a"), text("b"));
        for (waits, expected) in [
            (vec![wait(Some("gpu-0"), "a")], format!("gpu-0: {a}")),
            (
                vec![wait(Some("gpu-0"), "a"), wait(Some("gpu-1"), "a")],
                format!("gpu-0, gpu-1: {a}"),
            ),
            (
                vec![wait(Some("gpu-0"), "a"), wait(None, "b"), wait(Some("gpu-2"), "a")],
                format!("(1) gpu-0, gpu-2: {a}; (2) {b}"),
            ),
            (vec![wait(None, "a"), wait(Some("gpu-0"), "a")], format!("(1) {a}; (2) gpu-0: {a}")),
        ] {
            assert_eq!(list_waits(&waits), expected);
        }
    }

    #[test]
    fn list_names_five_texts_and_five_nodes_of_each() {
        let many: Vec<Wait> =
            (0..7).map(|node| wait(Some(format!("gpu-{node}").as_str()), "a")).collect();
        let text = Reason::PolicyApiMissing { resource: "a" };
        let expected = format!("gpu-0, gpu-1, gpu-2, gpu-3, gpu-4 and 2 more: {text}");
        assert_eq!(list_waits(&many), expected);
        let kinds: Vec<Wait> = ["a", "b", "c", "d", "e", "f", "g"]
            .into_iter()
            .chain(["g"])
            .enumerate()
            .map(|(node, kind)| wait(Some(format!("gpu-{node}").as_str()), kind))
            .collect();
        let list = list_waits(&kinds);
        assert!(list.contains("; (5) gpu-4: "), "{list}");
        assert!(list.ends_with("; and 3 more"), "{list}");
    }
}
