//! Parallel processing of a list.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Runs `work` on every item, with one thread per CPU. The results are in the order of the items.
pub(super) fn map<'a, T: Sync, R: Send>(
    items: &'a [T],
    work: impl Fn(&'a T) -> R + Sync,
) -> Vec<R> {
    map_reporting(items, work, |_| ())
}

/// Like [`map`], but calls `done` with the number of finished items after each item.
pub(super) fn map_reporting<'a, T: Sync, R: Send>(
    items: &'a [T],
    work: impl Fn(&'a T) -> R + Sync,
    mut done: impl FnMut(usize),
) -> Vec<R> {
    // Counting the CPUs takes some twenty system calls, so one item does without. If their number is
    // unknown, one thread must do.
    let processors = || thread::available_parallelism().map_or(1, usize::from);
    let threads = if items.len() > 1 { processors().min(items.len()) } else { 1 };
    if threads == 1 {
        // One item needs no thread of its own.
        let counted = items.iter().zip(1..).map(|(item, count)| {
            let result = work(item);
            done(count);
            result
        });
        return counted.collect();
    }
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    // Sending fails only after another thread has panicked; the scope passes the
                    // panic on.
                    let _ = sender.send((index, work(item)));
                }
            });
        }
        drop(sender);
        let mut count = 0;
        let counted = results.iter().inspect(|_| {
            count += 1;
            done(count);
        });
        counted.collect()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Runs both, the first one in this thread. The second one runs at the same time, or after the first
/// one if the system permits no more threads.
pub(super) fn both<A, B: Send>(first: impl FnOnce() -> A, second: impl Fn() -> B + Sync) -> (A, B) {
    thread::scope(|scope| {
        let other = thread::Builder::new().spawn_scoped(scope, &second);
        let first = first();
        let second = match other {
            Ok(other) => other.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => second(),
        };
        (first, second)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        assert_eq!(
            super::map(&items, |item| item * 2),
            items.iter().map(|item| item * 2).collect::<Vec<_>>()
        );
        assert_eq!(super::map(&[7], |item| item * 2), [14]);
        assert!(super::map(&[], |item: &usize| *item).is_empty());
    }

    #[test]
    fn number_of_done_items_is_reported() {
        let items: Vec<usize> = (0..100).collect();
        let mut reported = Vec::new();
        super::map_reporting(&items, |item| *item, |done| reported.push(done));
        assert_eq!(reported, (1..=100).collect::<Vec<_>>());
    }
}
