//! "Did you mean": finds the known word that is nearest to a mistyped one.

use strsim::osa_distance;

/// The maximum length of a word for which a near candidate is searched: bounds the time.
const LONGEST_WORD: usize = 100;

/// Returns the candidate that the user probably meant by `word`, or `None` if none is near.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST_WORD {
        return None;
    }
    let limit = (word.chars().count() / 3).max(1);
    let scored = candidates.into_iter().filter_map(|candidate| {
        // Insertions, deletions, replacements, and swaps of neighbors.
        let distance = osa_distance(&word.to_lowercase(), &candidate.to_lowercase());
        ((distance <= limit && distance < word.chars().count())
            || is_part(word, candidate)
            || starts_alike(word, candidate))
        .then_some((distance, candidate))
    });
    scored.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// Returns a hint with the nearest candidate, or `None` if none is near.
pub fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(word, candidates).map(|near| format!("did you mean `{near}`?"))
}

/// Returns whether most of the word, and at least five letters, are the start of the candidate:
/// `maxParallel` for `maxParallelUpgrades`, even with a typo in it.
fn starts_alike(word: &str, candidate: &str) -> bool {
    let same = word
        .to_lowercase()
        .chars()
        .zip(candidate.to_lowercase().chars())
        .take_while(|(left, right)| left == right)
        .count();
    same >= 5 && same * 5 >= word.chars().count() * 3
}

/// Returns whether one of the words contains the other, with at least four letters: `gb200` for
/// `eks-gb200-training`, `upgrade` for `upgradePolicy`.
fn is_part(word: &str, candidate: &str) -> bool {
    let (word, candidate) = (word.to_lowercase(), candidate.to_lowercase());
    (word.len() >= 4 && candidate.contains(&word))
        || (candidate.len() >= 4 && word.contains(&candidate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_are_recognized_and_strangers_are_not() {
        let keys = ["version", "values", "namespace", "upgradePolicy", "enabled"];
        assert_eq!(nearest("verison", keys), Some("version"));
        assert_eq!(nearest("upgradepolicy", keys), Some("upgradePolicy"));
        assert_eq!(nearest("enable", keys), Some("enabled"));
        assert_eq!(
            nearest("maxParalell", ["maxUnavailable", "maxParallelUpgrades"]),
            Some("maxParallelUpgrades")
        );
        assert_eq!(nearest("gb200", ["base", "eks-gb200-training"]), Some("eks-gb200-training"));
        assert_eq!(nearest("replicas", keys), None);
        assert_eq!(nearest("x", ["y"]), None);
    }
}
