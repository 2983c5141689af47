//! Collections of views whose clones cost a pointer. Caches, snapshots and previous snapshots share
//! each view, and they share an unchanged list as a whole. A change of one clone copies what it
//! changes.

use std::collections::{HashMap, HashSet};
use std::ops::Index;
use std::sync::{Arc, OnceLock};

/// A list of views with an index by node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Views<T> {
    list: Arc<ViewList<T>>,
}

/// A view of something that is on a node.
pub trait OnNode {
    /// Returns the node's name, once it is known.
    fn on_node(&self) -> Option<&str>;
}

#[derive(Debug)]
struct ViewList<T> {
    views: Vec<Arc<T>>,
    /// Positions by node, built on first use.
    by_node: OnceLock<Arc<ByNode<T>>>,
}

#[derive(Debug)]
struct ByNode<T> {
    places: HashMap<Box<str>, NodePositions>,
    /// The function that the index was built with.
    on_node: fn(&T) -> Option<&str>,
}

/// Positions of the views on one node: nearly always one.
#[derive(Debug)]
struct NodePositions {
    first: u32,
    more: Vec<u32>,
}

impl<T> ViewList<T> {
    fn new(views: Vec<Arc<T>>) -> Self {
        Self { views, by_node: OnceLock::new() }
    }
}

impl<T> Clone for ViewList<T> {
    /// Copies the list for a change. The index is not copied, because the change makes it stale.
    fn clone(&self) -> Self {
        Self::new(self.views.clone())
    }
}

impl<T: PartialEq> PartialEq for ViewList<T> {
    fn eq(&self, other: &Self) -> bool {
        self.views == other.views
    }
}

impl<T: Eq> Eq for ViewList<T> {}

/// Iterator over the views of [`Views`].
type ViewsIter<'a, T> = std::iter::Map<std::slice::Iter<'a, Arc<T>>, fn(&'a Arc<T>) -> &'a T>;

impl<T> Default for Views<T> {
    fn default() -> Self {
        Self { list: Arc::new(ViewList::new(Vec::new())) }
    }
}

impl<T> Views<T> {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Iterates over all views, in their order.
    pub fn iter(&self) -> ViewsIter<'_, T> {
        self.list.views.iter().map(Arc::as_ref)
    }

    /// Returns the number of views.
    pub fn len(&self) -> usize {
        self.list.views.len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.list.views.is_empty()
    }

    /// Returns the first view.
    pub fn first(&self) -> Option<&T> {
        self.list.views.first().map(AsRef::as_ref)
    }

    /// Returns the view at a position.
    pub fn get(&self, place: usize) -> Option<&T> {
        self.list.views.get(place).map(AsRef::as_ref)
    }

    /// Returns the successor of this list. It takes over the index if that is still correct: mostly
    /// one view of many was replaced.
    #[must_use]
    pub fn succeeded_by(&self, views: impl IntoIterator<Item = Arc<T>>) -> Self {
        let list = ViewList::new(views.into_iter().collect());
        if let Some(index) =
            self.list.by_node.get().filter(|index| index.holds_for(&self.list.views, &list.views))
        {
            // A new list has none.
            drop(list.by_node.set(Arc::clone(index)));
        }
        Self { list: Arc::new(list) }
    }

    /// Iterates over the shared pointers to the views.
    pub fn shared(&self) -> impl ExactSizeIterator<Item = &Arc<T>> {
        self.list.views.iter()
    }

    /// Appends a view.
    pub fn push(&mut self, view: T) {
        self.changed().push(Arc::new(view));
    }

    /// Returns whether both share one list: neither has changed since one was cloned from the
    /// other.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.list, &other.list)
    }

    /// Returns the views that only one of the two lists has. This includes views that were replaced
    /// by equal ones.
    pub fn differing<'a>(&'a self, other: &'a Self) -> Vec<&'a T> {
        if self.is_same(other) {
            return Vec::new();
        }
        // Lists keep their order: nearly always one view was replaced, added or removed.
        let (left, right) = (self.list.views.as_slice(), other.list.views.as_slice());
        let same = |(one, two): &(&Arc<T>, &Arc<T>)| Arc::ptr_eq(one, two);
        let begin = left.iter().zip(right).take_while(same).count();
        let (left, right) = (&left[begin..], &right[begin..]);
        let end = left.iter().rev().zip(right.iter().rev()).take_while(same).count();
        let (left, right) = (&left[..left.len() - end], &right[..right.len() - end]);
        let known = |views: &[Arc<T>]| views.iter().map(Arc::as_ptr).collect::<HashSet<_>>();
        let (ours, theirs) = (known(left), known(right));
        let only = |views: &'a [Arc<T>], others: &HashSet<*const T>| {
            views
                .iter()
                .filter(|view| !others.contains(&Arc::as_ptr(view)))
                .map(AsRef::as_ref)
                .collect::<Vec<_>>()
        };
        let mut found = only(left, &theirs);
        found.extend(only(right, &ours));
        found
    }

    /// Returns the concatenation of the lists as the successor of this list.
    #[must_use]
    pub fn joined(&self, lists: &[Self]) -> Self {
        match lists {
            [one] => Self { list: Arc::clone(&one.list) },
            several => self.succeeded_by(several.iter().flat_map(Self::shared).cloned()),
        }
    }

    /// Returns the list of this clone for a change; use [`Arc::make_mut`] to change a view.
    pub fn changed(&mut self) -> &mut Vec<Arc<T>> {
        let list = Arc::make_mut(&mut self.list);
        list.by_node = OnceLock::new();
        &mut list.views
    }
}

impl<T: OnNode> Views<T> {
    /// Iterates over the views on a node, in the order of the list. `""` selects the views whose
    /// node is not known.
    pub fn on<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a T> + Clone + use<'a, T> {
        self.shared_on(node).map(AsRef::as_ref)
    }

    /// Iterates over the shared pointers to the views of [`Self::on`].
    pub fn shared_on<'a>(
        &'a self,
        node: &str,
    ) -> impl Iterator<Item = &'a Arc<T>> + Clone + use<'a, T> {
        let places = self
            .list
            .by_node
            .get_or_init(|| Arc::new(ByNode::new(&self.list.views, T::on_node)))
            .places
            .get(node);
        let all = places
            .into_iter()
            .flat_map(|places| std::iter::once(places.first).chain(places.more.iter().copied()));
        all.filter_map(|place| self.list.views.get(place as usize))
    }
}

impl<T> ByNode<T> {
    fn new(views: &[Arc<T>], on_node: fn(&T) -> Option<&str>) -> Self {
        let mut all: HashMap<Box<str>, NodePositions> = HashMap::with_capacity(views.len());
        for (place, view) in (0_u32..).zip(views) {
            let node = on_node(view).unwrap_or_default();
            match all.get_mut(node) {
                Some(places) => places.more.push(place),
                None => {
                    drop(all.insert(node.into(), NodePositions { first: place, more: Vec::new() }));
                }
            }
        }
        Self { places: all, on_node }
    }

    /// Returns whether the index of one list is correct for the other: the views at each position
    /// are on the same node.
    fn holds_for(&self, one: &[Arc<T>], other: &[Arc<T>]) -> bool {
        let same = |(one, other): (&Arc<T>, &Arc<T>)| {
            Arc::ptr_eq(one, other) || (self.on_node)(one) == (self.on_node)(other)
        };
        one.len() == other.len() && one.iter().zip(other).all(same)
    }
}

impl<T> From<Vec<T>> for Views<T> {
    fn from(views: Vec<T>) -> Self {
        views.into_iter().collect()
    }
}

impl<T> FromIterator<T> for Views<T> {
    fn from_iter<I: IntoIterator<Item = T>>(views: I) -> Self {
        views.into_iter().map(Arc::new).collect()
    }
}

impl<T> FromIterator<Arc<T>> for Views<T> {
    fn from_iter<I: IntoIterator<Item = Arc<T>>>(views: I) -> Self {
        Self { list: Arc::new(ViewList::new(views.into_iter().collect())) }
    }
}

impl<'a, T> IntoIterator for &'a Views<T> {
    type IntoIter = ViewsIter<'a, T>;
    type Item = &'a T;

    fn into_iter(self) -> ViewsIter<'a, T> {
        self.iter()
    }
}

impl<T> Index<usize> for Views<T> {
    type Output = T;

    fn index(&self, place: usize) -> &T {
        &self.list.views[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_in_one_clone_leaves_the_other() {
        let mut views: Views<String> = vec!["a".to_owned(), "b".to_owned()].into();
        let before = views.clone();
        assert!(std::ptr::eq(&raw const before[0], &raw const views[0]), "one view, held twice");
        views.changed().iter_mut().for_each(|view| Arc::make_mut(view).push('x'));
        Arc::make_mut(&mut views.changed()[1]).push('y');
        assert_eq!((views[0].as_str(), views[1].as_str(), before[0].as_str()), ("ax", "bxy", "a"));
    }

    #[test]
    fn places_stay_known_until_something_changes_node() {
        let views: Views<(&str, u32)> = vec![("a", 1), ("b", 2), ("b", 3)].into();
        assert_eq!(views.on("b").count(), 2);
        let known = |views: &Views<(&str, u32)>| views.list.by_node.get().map(Arc::as_ptr);
        let replaced = |place: usize, with: (&'static str, u32)| {
            views.succeeded_by(
                views
                    .shared()
                    .enumerate()
                    .map(|(at, view)| if at == place { Arc::new(with) } else { Arc::clone(view) }),
            )
        };
        let other = replaced(1, ("b", 20));
        assert!(known(&other).is_some() && known(&other) == known(&views));
        assert_eq!(other.on("b").map(|view| view.1).collect::<Vec<_>>(), [20, 3]);
        let moved = replaced(1, ("a", 20));
        assert!(known(&moved).is_none());
        assert_eq!(moved.on("a").map(|view| view.1).collect::<Vec<_>>(), [1, 20]);
        let shorter = views.succeeded_by(views.shared().take(1).cloned());
        assert!(known(&shorter).is_none() && shorter.on("b").count() == 0);
    }

    #[test]
    fn lists_tell_what_only_one_of_them_has() {
        let mut views: Views<u32> = vec![0, 1, 2, 3, 4, 5].into();
        let before = views.clone();
        let differing = |views: &Views<u32>| {
            let mut found: Vec<u32> = before.differing(views).into_iter().copied().collect();
            found.sort_unstable();
            found
        };
        assert_eq!(differing(&views), [0; 0]);
        views.changed()[2] = Arc::new(20);
        assert_eq!(differing(&views), [2, 20]);
        views.push(6);
        assert_eq!(differing(&views), [2, 6, 20]);
        views.changed().swap_remove(1);
        assert_eq!(differing(&views), [1, 2, 6, 20], "one that moved is no other one");
        assert_eq!(differing(&Views::new()), [0, 1, 2, 3, 4, 5]);
    }

    impl OnNode for (&str, u32) {
        fn on_node(&self) -> Option<&str> {
            (!self.0.is_empty()).then_some(self.0)
        }
    }

    #[test]
    fn objects_on_node_are_found_after_change() {
        let mut views: Views<(&str, u32)> = vec![("a", 1), ("", 2), ("b", 3), ("a", 4)].into();
        let on = |views: &Views<(&str, u32)>, node: &str| {
            views.on(node).map(|view| view.1).collect::<Vec<_>>()
        };
        assert_eq!(
            (on(&views, "a"), on(&views, "b"), on(&views, "c")),
            (vec![1, 4], vec![3], vec![])
        );
        assert_eq!(on(&views, ""), [2], "of which the node is not known");
        let before = views.clone();
        views.push(("c", 5));
        views.changed().swap_remove(0);
        assert_eq!(
            (on(&views, "a"), on(&views, "c"), on(&before, "a")),
            (vec![4], vec![5], vec![1, 4])
        );
    }
}
