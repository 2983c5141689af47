//! The hash by which the maps of this crate find their entries.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

/// Returns the hash of a name or a key: the same one in every process. A caller compares the texts
/// as well, so texts with equal hashes cost time and nothing else.
pub(crate) fn hash(text: &str) -> u64 {
    FixedState::default().hash_one(text)
}
