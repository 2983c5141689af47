//! Views of objects by node. A clone costs a pointer, and a change of one clone copies only a few
//! neighboring nodes: caches, snapshots and previous snapshots share nearly everything, and their
//! differences are found without examining the rest.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::named::{self, Named};

/// Views by node. Iterators follow the names of nodes, and on each node the keys of the views.
pub struct Views<T> {
    /// `""` has the views whose node is not known. No group is empty.
    by_node: Named<NodeGroup<T>>,
    len: usize,
}

/// The views on one node with their keys, sorted by key. Equal keys keep the order in which they
/// were added.
type NodeGroup<T> = Vec<(Arc<str>, Arc<T>)>;

/// A view of something that is on a node.
pub trait OnNode {
    /// Returns the node's name, once it is known.
    fn on_node(&self) -> Option<&str>;
}

/// Iterator over the shared pointers to the views of [`Views`].
pub struct SharedViews<'a, T> {
    groups: named::Iter<'a, NodeGroup<T>>,
    group: std::slice::Iter<'a, (Arc<str>, Arc<T>)>,
}

/// Iterator over the views of [`Views`].
pub type ViewsIter<'a, T> = std::iter::Map<SharedViews<'a, T>, fn(&'a Arc<T>) -> &'a T>;

impl<'a, T> Iterator for SharedViews<'a, T> {
    type Item = &'a Arc<T>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((_, view)) = self.group.next() {
                return Some(view);
            }
            self.group = self.groups.next()?.1.iter();
        }
    }
}

impl<T> Clone for Views<T> {
    fn clone(&self) -> Self {
        Self { by_node: self.by_node.clone(), len: self.len }
    }
}

impl<T> Default for Views<T> {
    fn default() -> Self {
        Self { by_node: Named::default(), len: 0 }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Views<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

/// Keys do not count.
impl<T: PartialEq> PartialEq for Views<T> {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.len == other.len && self.shared().eq(other.shared())
    }
}

impl<T: Eq> Eq for Views<T> {}

impl<T> Views<T> {
    /// Creates an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Iterates over all views.
    pub fn iter(&self) -> ViewsIter<'_, T> {
        self.shared().map(Arc::as_ref)
    }

    /// Iterates over the shared pointers to all views.
    pub fn shared(&self) -> SharedViews<'_, T> {
        SharedViews { groups: self.by_node.iter(), group: [].iter() }
    }

    /// Returns the number of views.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no views.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether both share all content: neither has changed since one was cloned from the
    /// other.
    pub fn is_same(&self, other: &Self) -> bool {
        self.by_node.is_same(&other.by_node)
    }

    /// Iterates over the views on a node. `""` selects the views whose node is not known.
    pub fn on<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a T> + Clone + use<'a, T> {
        self.shared_on(node).map(AsRef::as_ref)
    }

    /// Iterates over the shared pointers to the views of [`Self::on`].
    pub fn shared_on<'a>(
        &'a self,
        node: &str,
    ) -> impl Iterator<Item = &'a Arc<T>> + Clone + use<'a, T> {
        self.by_node.get(node).into_iter().flatten().map(|(_, view)| view)
    }

    /// Adds a view to a node, or replaces the view with this key there. `""`: its node is not
    /// known.
    pub fn insert(&mut self, node: &str, key: impl Into<Arc<str>>, view: Arc<T>) {
        let key = key.into();
        let mut group = self.by_node.get(node).cloned().unwrap_or_default();
        match group.binary_search_by(|(known, _)| known.cmp(&key)) {
            Ok(place) => group[place].1 = view,
            Err(place) => {
                group.insert(place, (key, view));
                self.len += 1;
            }
        }
        self.by_node.insert(node, group);
    }

    /// Removes the view with this key from a node. Returns whether it was there.
    pub fn remove(&mut self, node: &str, key: &str) -> bool {
        let Some(known) = self.by_node.get(node) else { return false };
        let Ok(place) = known.binary_search_by(|(known, _)| (**known).cmp(key)) else {
            return false;
        };
        let mut group = known.clone();
        group.remove(place);
        self.len -= 1;
        if group.is_empty() {
            self.by_node.remove(node);
        } else {
            self.by_node.insert(node, group);
        }
        true
    }

    /// Replaces the views on a node by those of several other collections.
    fn copy_node<'a>(&mut self, node: &str, parts: impl IntoIterator<Item = &'a Self>)
    where
        T: 'a,
    {
        let of_node = |part: &'a Self| part.by_node.get(node).into_iter().flatten();
        let mut group: NodeGroup<T> = parts.into_iter().flat_map(of_node).cloned().collect();
        group.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.len -= self.by_node.get(node).map_or(0, Vec::len);
        self.len += group.len();
        if group.is_empty() {
            self.by_node.remove(node);
        } else {
            self.by_node.insert(node, group);
        }
    }
}

impl<T: PartialEq> Views<T> {
    /// Returns the names of the nodes with different views in the two collections; `""` if views
    /// without a node differ. Nodes whose views are shared are not examined.
    pub fn differing_nodes<'a>(&'a self, other: &'a Self) -> Vec<&'a Arc<str>> {
        self.by_node.differing(&other.by_node)
    }

    /// Updates the union of several collections with disjoint keys. `before`: the collections of
    /// which this one is the union; their number must be the same.
    pub fn follow(&mut self, before: &[Self], now: &[Self]) {
        for (before, part) in before.iter().zip(now) {
            for node in before.differing_nodes(part) {
                self.copy_node(node, now);
            }
        }
    }
}

impl<T: Clone> Views<T> {
    /// Returns the first view on a node for which `is_wanted` is true, for a change of parts that do
    /// not name its node.
    pub fn find_mut(&mut self, node: &str, is_wanted: impl Fn(&T) -> bool) -> Option<&mut T> {
        let group = self.by_node.get_mut(node)?;
        group.iter_mut().map(|(_, view)| view).find(|view| is_wanted(view)).map(Arc::make_mut)
    }
}

impl<T: OnNode> Views<T> {
    /// Adds a view without a key of its own, after the other views on its node.
    pub fn push(&mut self, view: T) {
        let node = view.on_node().unwrap_or_default().to_owned();
        let mut group = self.by_node.get(&node).cloned().unwrap_or_default();
        let last = group.last().map_or_else(|| Arc::from(""), |(key, _)| Arc::clone(key));
        group.push((last, Arc::new(view)));
        self.by_node.insert(node, group);
        self.len += 1;
    }

    /// Returns the list of all views for a change. It replaces the content when it is dropped.
    pub fn edit(&mut self) -> ViewsEdit<'_, T> {
        let list = self.shared().cloned().collect();
        ViewsEdit { views: self, list }
    }
}

/// The list of all views during a change: see [`Views::edit`].
pub struct ViewsEdit<'v, T: OnNode> {
    views: &'v mut Views<T>,
    list: Vec<Arc<T>>,
}

impl<T: OnNode> Deref for ViewsEdit<'_, T> {
    type Target = Vec<Arc<T>>;

    fn deref(&self) -> &Self::Target {
        &self.list
    }
}

impl<T: OnNode> DerefMut for ViewsEdit<'_, T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.list
    }
}

impl<T: OnNode> Drop for ViewsEdit<'_, T> {
    fn drop(&mut self) {
        *self.views = self.list.drain(..).collect();
    }
}

impl<T: OnNode> From<Vec<T>> for Views<T> {
    fn from(views: Vec<T>) -> Self {
        views.into_iter().collect()
    }
}

impl<T: OnNode> FromIterator<T> for Views<T> {
    fn from_iter<I: IntoIterator<Item = T>>(views: I) -> Self {
        views.into_iter().map(Arc::new).collect()
    }
}

impl<T: OnNode> FromIterator<Arc<T>> for Views<T> {
    /// Collects views without keys of their own: those of one node keep their order.
    fn from_iter<I: IntoIterator<Item = Arc<T>>>(views: I) -> Self {
        let key: Arc<str> = "".into();
        let mut groups: BTreeMap<String, NodeGroup<T>> = BTreeMap::new();
        for view in views {
            let node = view.on_node().unwrap_or_default().to_owned();
            groups.entry(node).or_default().push((Arc::clone(&key), view));
        }
        let len = groups.values().map(Vec::len).sum();
        Self { by_node: groups.into_iter().collect(), len }
    }
}

impl<'a, T> IntoIterator for &'a Views<T> {
    type IntoIter = ViewsIter<'a, T>;
    type Item = &'a T;

    fn into_iter(self) -> ViewsIter<'a, T> {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl OnNode for (&str, u32) {
        fn on_node(&self) -> Option<&str> {
            (!self.0.is_empty()).then_some(self.0)
        }
    }

    fn listed(views: &Views<(&'static str, u32)>) -> Vec<u32> {
        assert_eq!(views.len(), views.iter().count());
        views.iter().map(|view| view.1).collect()
    }

    fn on(views: &Views<(&'static str, u32)>, node: &str) -> Vec<u32> {
        views.on(node).map(|view| view.1).collect()
    }

    #[test]
    fn change_in_one_clone_leaves_the_other() {
        let mut views: Views<(&str, u32)> = vec![("a", 1), ("b", 2)].into();
        let before = views.clone();
        assert!(before.is_same(&views));
        for view in views.edit().iter_mut() {
            Arc::make_mut(view).1 += 10;
        }
        Arc::make_mut(&mut views.edit()[1]).1 += 10;
        assert_eq!((listed(&views), listed(&before)), (vec![11, 22], vec![1, 2]));
        assert!(!before.is_same(&views) && before != views);
    }

    #[test]
    fn views_without_keys_keep_their_order_on_each_node() {
        let mut views: Views<(&str, u32)> = vec![("b", 3), ("", 2), ("a", 4), ("a", 1)].into();
        assert_eq!(listed(&views), [2, 4, 1, 3]);
        assert_eq!(
            (on(&views, "a"), on(&views, ""), on(&views, "c")),
            (vec![4, 1], vec![2], vec![])
        );
        views.push(("a", 0));
        assert_eq!(on(&views, "a"), [4, 1, 0]);
    }

    #[test]
    fn views_with_keys_are_sorted_replaced_and_removed_by_them() {
        let mut views: Views<(&str, u32)> = Views::new();
        for (key, number) in [("z", 1), ("x", 2), ("z", 3), ("y", 4)] {
            views.insert("a", key, Arc::new(("a", number)));
        }
        assert_eq!(listed(&views), [2, 4, 3]);
        assert!(views.remove("a", "x") && !views.remove("a", "x") && !views.remove("b", "y"));
        assert_eq!(listed(&views), [4, 3]);
        assert!(views.remove("a", "y") && views.remove("a", "z"));
        assert_eq!((views.is_empty(), views == Views::new()), (true, true));
    }

    #[test]
    fn view_is_found_on_its_node_for_a_change() {
        let mut views: Views<(&str, u32)> = vec![("a", 1), ("b", 2), ("b", 3)].into();
        let before = views.clone();
        views.find_mut("b", |view| view.1 > 2).expect("it is there").1 = 30;
        assert_eq!(views.find_mut("a", |view| view.1 > 2), None);
        assert_eq!((listed(&views), listed(&before)), (vec![1, 2, 30], vec![1, 2, 3]));
    }

    #[test]
    fn only_nodes_with_changed_views_differ() {
        let mut views: Views<(&str, u32)> = vec![("a", 1), ("b", 2), ("", 3)].into();
        let before = views.clone();
        let differing = |views: &Views<(&'static str, u32)>| {
            let names = before.differing_nodes(views).into_iter().map(ToString::to_string);
            names.collect::<Vec<_>>()
        };
        assert_eq!(differing(&views), [""; 0]);
        views.push(("c", 4));
        Arc::make_mut(&mut views.edit()[1]).1 = 10;
        assert_eq!(differing(&views), ["a", "c"]);
        assert_eq!(differing(&Views::new()), ["", "a", "b"]);
    }

    #[test]
    fn union_follows_its_parts() {
        let part = |node: &'static str, key: &str, number: u32| {
            let mut views = Views::new();
            views.insert(node, key, Arc::new((node, number)));
            views
        };
        let (drivers, toolkits) = (part("a", "driver", 1), part("a", "toolkit", 2));
        let none = [Views::new(), Views::new()];
        let mut both = Views::new();
        both.follow(&none, &[drivers.clone(), toolkits.clone()]);
        assert_eq!(listed(&both), [1, 2]);
        let before = both.clone();
        both.follow(
            &[drivers.clone(), toolkits.clone()],
            &[part("b", "driver", 3), toolkits.clone()],
        );
        assert_eq!(
            (on(&both, "a"), on(&both, "b"), listed(&before)),
            (vec![2], vec![3], vec![1, 2])
        );
        both.follow(&[part("b", "driver", 3), toolkits], &none);
        assert!(both.is_empty());
    }
}
