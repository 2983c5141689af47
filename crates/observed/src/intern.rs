//! Interns labels: equal labels of different objects are stored once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Label, Labels};

/// Minimum number of labels before the interner searches for unused ones.
const FEW: usize = 1024;

/// The labels and texts that are in use.
#[derive(Debug, Default)]
pub struct LabelInterner {
    known: Mutex<KnownLabels>,
}

#[derive(Debug, Default)]
struct KnownLabels {
    labels: HashSet<Arc<Label>>,
    texts: HashSet<Arc<str>>,
    /// The interner drops unused texts when there are more than this number.
    text_limit: usize,
    /// The interner drops unused labels when there are more than this number.
    limit: usize,
}

impl LabelInterner {
    /// Returns a projection whose views have interned labels.
    pub fn sharing<T, V, P, L>(
        self: &Arc<Self>,
        project: P,
        labels: L,
    ) -> impl Fn(&T) -> Option<V> + use<T, V, P, L>
    where
        P: Fn(&T) -> Option<V>,
        L: Fn(&mut V) -> &mut Labels,
    {
        let interner = Arc::clone(self);
        move |object| {
            let mut view = project(object)?;
            interner.share(labels(&mut view));
            Some(view)
        }
    }

    /// Replaces each label by an equal one that is already known.
    pub fn share(&self, labels: &mut Labels) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *labels = labels.shared(|label| known.shared(label));
        known.forget();
    }

    /// Returns the shared copy of a text that many views have, such as the name of a node or the
    /// UID of a DaemonSet.
    pub fn text(&self, text: &str) -> Arc<str> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.texts.get(text) {
            return Arc::clone(known);
        }
        if known.texts.len() > known.text_limit.max(FEW) {
            known.texts.retain(|text| Arc::strong_count(text) > 1);
            known.text_limit = known.texts.len() * 2;
        }
        let text: Arc<str> = Arc::from(text);
        known.texts.insert(Arc::clone(&text));
        text
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).labels.len()
    }
}

impl KnownLabels {
    fn shared(&mut self, label: &Arc<Label>) -> Arc<Label> {
        if let Some(known) = self.labels.get(label) {
            return Arc::clone(known);
        }
        self.labels.insert(Arc::clone(label));
        Arc::clone(label)
    }

    /// Drops unused labels, once per doubling of their number, so that labels whose values change
    /// all the time are not kept indefinitely.
    fn forget(&mut self) {
        if self.labels.len() > self.limit.max(FEW) {
            self.labels.retain(|label| Arc::strong_count(label) > 1);
            self.limit = self.labels.len() * 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(number: usize) -> Labels {
        [("arch".to_owned(), "amd64".to_owned()), ("number".to_owned(), number.to_string())].into()
    }

    #[test]
    fn equal_labels_are_shared_and_unused_ones_dropped() {
        let interner = LabelInterner::default();
        let mut kept = Vec::new();
        for number in 0..10 {
            let mut one = labels(number);
            interner.share(&mut one);
            assert_eq!(one, labels(number));
            kept.push(one);
        }
        let value = |labels: &Labels| labels.get("arch").map(std::ptr::from_ref);
        assert!(kept.iter().all(|one| value(one) == value(&kept[0])));
        for number in 10..100_000 {
            interner.share(&mut labels(number));
        }
        assert!(interner.len() <= FEW + 1, "{}", interner.len());
        assert!(interner.known.lock().unwrap().labels.iter().any(|label| label.value() == "9"));
    }
}
