//! "Did you mean": the known word that is nearest to a mistyped one.

/// Nobody mistypes anything longer.
const LONGEST_WORD: usize = 100;

/// The candidate that `word` was probably meant to be; `None` if none is near.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST_WORD {
        return None;
    }
    let limit = (word.chars().count() / 3).max(1);
    let scored = candidates.into_iter().filter_map(|candidate| {
        let distance = distance(&word.to_lowercase(), &candidate.to_lowercase());
        ((distance <= limit && distance < word.chars().count()) || is_part(word, candidate) || starts_alike(word, candidate))
            .then_some((distance, candidate))
    });
    scored.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// `maxParallel` for `maxParallelUpgrades`, even with a typo in it: most of the word, and five letters at least, are how the
/// candidate starts.
fn starts_alike(word: &str, candidate: &str) -> bool {
    let same = word.to_lowercase().chars().zip(candidate.to_lowercase().chars()).take_while(|(left, right)| left == right).count();
    same >= 5 && same * 5 >= word.chars().count() * 3
}

/// `gb200` for `eks-gb200-training`, `upgrade` for `upgradePolicy`: a part of four letters or more, one way or the other.
fn is_part(word: &str, candidate: &str) -> bool {
    let (word, candidate) = (word.to_lowercase(), candidate.to_lowercase());
    (word.len() >= 4 && candidate.contains(&word)) || (candidate.len() >= 4 && word.contains(&candidate))
}

/// Insertions, deletions, replacements and swaps of neighbors between two words (optimal string alignment).
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut before_previous = vec![0; right.len() + 1];
    let mut previous: Vec<usize> = (0..=right.len()).collect();
    for (row, &letter) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, &other) in right.iter().enumerate() {
            let replaced = previous[column] + usize::from(letter != other);
            let mut best = replaced.min(previous[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && letter == right[column - 1] && left[row - 1] == other {
                best = best.min(before_previous[column - 1] + 1);
            }
            current.push(best);
        }
        before_previous = std::mem::replace(&mut previous, current);
    }
    previous[right.len()]
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
        assert_eq!(nearest("maxParalell", ["maxUnavailable", "maxParallelUpgrades"]), Some("maxParallelUpgrades"));
        assert_eq!(nearest("gb200", ["base", "eks-gb200-training"]), Some("eks-gb200-training"));
        assert_eq!(nearest("replicas", keys), None);
        assert_eq!(nearest("x", ["y"]), None);
    }
}
