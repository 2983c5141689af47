//! Collections of views whose clones cost a pointer a view: caches, snapshots and what a snapshot is compared with hold each view once.
//! A view that is changed in one clone is copied first.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// A list of views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Views<T> {
    views: Vec<Arc<T>>,
}

/// Views by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<T> {
    views: BTreeMap<String, Arc<T>>,
}

/// The views of [`Views`].
pub struct Iter<'a, T> {
    views: std::slice::Iter<'a, Arc<T>>,
}

/// The views of [`Views`], to be changed.
type IterMut<'a, T> = std::iter::Map<std::slice::IterMut<'a, Arc<T>>, fn(&'a mut Arc<T>) -> &'a mut T>;

/// Names and views of [`Named`].
pub struct NamedIter<'a, T> {
    views: std::collections::btree_map::Iter<'a, String, Arc<T>>,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        self.views.next().map(AsRef::as_ref)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.views.size_hint()
    }
}

impl<T> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.views.next_back().map(AsRef::as_ref)
    }
}

impl<'a, T> Iterator for NamedIter<'a, T> {
    type Item = (&'a String, &'a T);

    fn next(&mut self) -> Option<Self::Item> {
        self.views.next().map(|(name, view)| (name, view.as_ref()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.views.size_hint()
    }
}

impl<T> Default for Views<T> {
    fn default() -> Self {
        Self { views: Vec::new() }
    }
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self { views: BTreeMap::new() }
    }
}

impl<T> Views<T> {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// All, in their order.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { views: self.views.iter() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// The first.
    pub fn first(&self) -> Option<&T> {
        self.views.first().map(AsRef::as_ref)
    }

    /// The one at a place.
    pub fn get(&self, place: usize) -> Option<&T> {
        self.views.get(place).map(AsRef::as_ref)
    }

    /// Removes the one at a place; the last one comes there.
    pub fn swap_remove(&mut self, place: usize) {
        self.views.swap_remove(place);
    }

    /// Adds one at the end.
    pub fn push(&mut self, view: T) {
        self.views.push(Arc::new(view));
    }

    /// Keeps those that pass.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.views.retain(|view| keep(view));
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.views.clear();
    }
}

impl<T: Clone> Views<T> {
    /// All, to be changed.
    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        self.views.iter_mut().map(Arc::make_mut)
    }

    /// Removes and answers the one at a place.
    pub fn remove(&mut self, place: usize) -> T {
        Arc::unwrap_or_clone(self.views.remove(place))
    }

    /// The last, to be changed.
    pub fn last_mut(&mut self) -> Option<&mut T> {
        self.views.last_mut().map(Arc::make_mut)
    }
}

impl<T> From<Vec<T>> for Views<T> {
    fn from(views: Vec<T>) -> Self {
        views.into_iter().collect()
    }
}

impl<T> FromIterator<T> for Views<T> {
    fn from_iter<I: IntoIterator<Item = T>>(views: I) -> Self {
        Self { views: views.into_iter().map(Arc::new).collect() }
    }
}

impl<T> FromIterator<Arc<T>> for Views<T> {
    fn from_iter<I: IntoIterator<Item = Arc<T>>>(views: I) -> Self {
        Self { views: views.into_iter().collect() }
    }
}

impl<T> Extend<T> for Views<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, views: I) {
        self.views.extend(views.into_iter().map(Arc::new));
    }
}

impl<'a, T> IntoIterator for &'a Views<T> {
    type IntoIter = Iter<'a, T>;
    type Item = &'a T;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<'a, T: Clone> IntoIterator for &'a mut Views<T> {
    type IntoIter = IterMut<'a, T>;
    type Item = &'a mut T;

    fn into_iter(self) -> IterMut<'a, T> {
        self.iter_mut()
    }
}

impl<T> Index<usize> for Views<T> {
    type Output = T;

    fn index(&self, place: usize) -> &T {
        &self.views[place]
    }
}

impl<T: Clone> IndexMut<usize> for Views<T> {
    fn index_mut(&mut self, place: usize) -> &mut T {
        Arc::make_mut(&mut self.views[place])
    }
}

impl<T> Named<T> {
    /// The one of a name.
    pub fn get<Q: Ord + ?Sized>(&self, name: &Q) -> Option<&T>
    where
        String: Borrow<Q>,
    {
        self.views.get(name).map(AsRef::as_ref)
    }

    /// Whether there is one of this name.
    pub fn contains_key<Q: Ord + ?Sized>(&self, name: &Q) -> bool
    where
        String: Borrow<Q>,
    {
        self.views.contains_key(name)
    }

    /// Names and views, in the order of the names.
    pub fn iter(&self) -> NamedIter<'_, T> {
        NamedIter { views: self.views.iter() }
    }

    /// The names, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.views.keys()
    }

    /// The views, in the order of their names.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.views.values().map(AsRef::as_ref)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// Adds one, or takes the place of the one of that name.
    pub fn insert(&mut self, name: String, view: T) {
        self.views.insert(name, Arc::new(view));
    }

    /// Removes the one of a name.
    pub fn remove(&mut self, name: &str) {
        self.views.remove(name);
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.views.clear();
    }
}

impl<T: Clone> Named<T> {
    /// The one of a name, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        self.views.get_mut(name).map(Arc::make_mut)
    }

    /// All, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.views.values_mut().map(Arc::make_mut)
    }
}

impl<const N: usize, T> From<[(String, T); N]> for Named<T> {
    fn from(views: [(String, T); N]) -> Self {
        views.into_iter().collect()
    }
}

impl<T> FromIterator<(String, T)> for Named<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(views: I) -> Self {
        Self { views: views.into_iter().map(|(name, view)| (name, Arc::new(view))).collect() }
    }
}

impl<T> FromIterator<(String, Arc<T>)> for Named<T> {
    fn from_iter<I: IntoIterator<Item = (String, Arc<T>)>>(views: I) -> Self {
        Self { views: views.into_iter().collect() }
    }
}

impl<'a, T> IntoIterator for &'a Named<T> {
    type IntoIter = NamedIter<'a, T>;
    type Item = (&'a String, &'a T);

    fn into_iter(self) -> NamedIter<'a, T> {
        self.iter()
    }
}

impl<T> Index<&str> for Named<T> {
    type Output = T;

    /// The one of a name that is there.
    fn index(&self, name: &str) -> &T {
        &self.views[name]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_in_one_clone_is_not_seen_in_another() {
        let mut views: Views<String> = vec!["a".to_owned(), "b".to_owned()].into();
        let before = views.clone();
        assert!(std::ptr::eq(&raw const before[0], &raw const views[0]), "one view, held twice");
        views.iter_mut().for_each(|view| view.push('x'));
        views[1].push('y');
        assert_eq!((views[0].as_str(), views[1].as_str(), before[0].as_str()), ("ax", "bxy", "a"));
        let mut named: Named<String> = [("n".to_owned(), "a".to_owned())].into_iter().collect();
        let before = named.clone();
        named.get_mut("n").expect("it is there").push('x');
        assert_eq!((named["n"].as_str(), before["n"].as_str()), ("ax", "a"));
    }
}
