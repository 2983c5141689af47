//! The cohort: the nodes that a run waits for, by UID. It is stored with the run, so that a
//! replacement pod of the same Job has the same cohort.

use std::fmt::Write as _;

/// Prefix of the data keys of the stored cohort; the number of the part follows.
pub const COHORT_KEY_PREFIX: &str = "cohort.";
/// Number of nodes in one stored part: 16 bytes of text each.
pub const PART_NODES: usize = 10_000;
/// Hexadecimal digits of a fingerprint.
const DIGITS: usize = 16;

/// The nodes of the first complete list of a run. Only the UID decides membership: timestamps of
/// objects come from clocks that are not comparable.
///
/// It contains the 64-bit FNV-1a hash of each UID: 10,000 nodes take 160 kB of text. UIDs are
/// random, so a cheap hash is sufficient: every decision looks up every node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cohort(Vec<u64>);

impl Cohort {
    /// Creates the cohort of the nodes with these UIDs.
    pub fn from_uids<'a>(uids: impl IntoIterator<Item = &'a str>) -> Self {
        let mut fingerprints: Vec<u64> = uids.into_iter().map(fingerprint).collect();
        fingerprints.sort_unstable();
        fingerprints.dedup();
        Self(fingerprints)
    }

    /// Returns whether the node with this UID belongs to the cohort.
    pub fn contains(&self, uid: &str) -> bool {
        self.0.binary_search(&fingerprint(uid)).is_ok()
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether it has no nodes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the stored form, in parts of [`PART_NODES`] nodes.
    pub fn parts(&self) -> Vec<String> {
        let text = |part: &[u64]| {
            part.iter().fold(String::with_capacity(part.len() * DIGITS), |mut text, one| {
                // Writing into a String cannot fail.
                let _infallible = write!(text, "{one:016x}");
                text
            })
        };
        self.0.chunks(PART_NODES).map(text).collect()
    }

    /// Reads the stored form. `None` if it is not the whole cohort of `nodes` nodes, as after an
    /// interrupted write.
    pub fn from_parts<'a>(parts: impl IntoIterator<Item = &'a str>, nodes: usize) -> Option<Self> {
        let mut all = Vec::with_capacity(nodes);
        for part in parts {
            all.extend(fingerprints(part)?);
        }
        (all.len() == nodes && all.is_sorted()).then_some(Self(all))
    }
}

/// Reads concatenated fingerprints. `None` if the text has another form.
pub(super) fn fingerprints(text: &str) -> Option<Vec<u64>> {
    if !text.is_ascii() || !text.len().is_multiple_of(DIGITS) {
        return None;
    }
    (0..text.len())
        .step_by(DIGITS)
        .map(|start| u64::from_str_radix(text.get(start..start + DIGITS)?, 16).ok())
        .collect()
}

/// Returns the FNV-1a hash of a UID.
pub(super) fn fingerprint(uid: &str) -> u64 {
    uid.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uids(count: usize) -> Vec<String> {
        (0..count).map(|index| format!("00000000-0000-4000-8000-{index:012}")).collect()
    }

    #[test]
    fn cohort_of_many_parts_reads_back() {
        let uids = uids(2 * PART_NODES + 1);
        let cohort = Cohort::from_uids(uids.iter().map(String::as_str));
        let parts = cohort.parts();
        assert_eq!(parts.len(), 3);
        assert_eq!(parts[0].len(), 160_000);
        assert_eq!(
            Cohort::from_parts(parts.iter().map(String::as_str), cohort.len()),
            Some(cohort.clone())
        );
        assert!(uids.iter().all(|uid| cohort.contains(uid)));
        assert!(!cohort.contains("another"));
    }

    #[test]
    fn incomplete_cohort_counts_as_absent() {
        let cohort = Cohort::from_uids(["a", "b", "c"]);
        let parts = cohort.parts();
        assert_eq!(Cohort::from_parts([&parts[0][..32]], 3), None);
        assert_eq!(Cohort::from_parts([&parts[0][..40]], 3), None);
        assert_eq!(Cohort::from_parts([], 3), None);
        assert_eq!(Cohort::from_parts(["xxxxxxxxxxxxxxxx"], 1), None);
        assert_eq!(Cohort::from_parts([], 0), Some(Cohort::default()));
    }
}
