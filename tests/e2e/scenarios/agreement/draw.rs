//! Draws from a seed.

use crate::harness::stand_in::number;

/// A row of draws; the same seed gives the same row.
pub(super) struct Draw {
    seed: u64,
    drawn: u64,
}

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    fn next(&mut self) -> u64 {
        self.drawn += 1;
        number(self.seed, &self.drawn.to_string())
    }

    /// One of `0..count`.
    pub(super) fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % (count.max(1) as u64)).unwrap_or(0)
    }

    /// One of them.
    pub(super) fn of<'t, T>(&mut self, all: &'t [T]) -> Option<&'t T> {
        if all.is_empty() { None } else { Some(&all[self.below(all.len())]) }
    }

    /// One of them; `all` is never empty.
    pub(super) fn one<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    /// True once in `times`.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
