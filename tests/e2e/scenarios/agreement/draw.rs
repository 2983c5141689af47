//! Random draws from a seed.

use crate::harness::stand_in::number;

/// A sequence of draws. The same seed yields the same sequence.
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

    /// Draws a number in `0..count`.
    pub(super) fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % (count.max(1) as u64)).unwrap_or(0)
    }

    /// Draws an element, if there is one.
    pub(super) fn of<'t, T>(&mut self, all: &'t [T]) -> Option<&'t T> {
        if all.is_empty() { None } else { Some(&all[self.below(all.len())]) }
    }

    /// Draws an element of `all`, which must not be empty.
    pub(super) fn one<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    /// Returns true once in `times` draws on average.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
