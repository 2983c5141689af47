//! Random numbers that are the same on every machine, because only integers are used.

use std::collections::HashMap;

/// A SplitMix64 generator (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
/// 2014).
#[derive(Clone, Debug)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// Returns a generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a generator for a seed, a name and a number. It does not depend on other draws.
    pub fn stream(seed: u64, name: &str, number: u64) -> Self {
        // FNV-1a with 64 bits.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mut random =
            Self(seed ^ hash.rotate_left(17) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.number();
        random
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`. A limit of 0 counts as 1.
    pub fn below(&mut self, limit: u64) -> u64 {
        // The bias does not matter, because limits are small compared with 2^64.
        self.number() % limit.max(1)
    }

    /// Returns true with this probability in percent.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the values. `None`: there are no values.
    pub fn choose<'a, T>(&mut self, values: &'a [T]) -> Option<&'a T> {
        let length = u64::try_from(values.len()).unwrap_or(u64::MAX);
        values.get(usize::try_from(self.below(length)).unwrap_or(0))
    }
}

/// The distribution of a time, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSpread {
    /// Always the same time.
    Constant(u64),
    /// Uniform between the two times, both included.
    Uniform(u64, u64),
    /// One half uniform between the least and the middle, the other half uniform between the middle
    /// and the most.
    Halves {
        /// The least.
        least: u64,
        /// The median.
        middle: u64,
        /// The most.
        most: u64,
    },
    /// A truncated Pareto distribution with exponent 2. A quarter of the times is more than twice
    /// the least, one in a hundred more than ten times.
    HeavyTail {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
}

impl TimeSpread {
    /// Returns the least time that can be drawn.
    pub fn least(self) -> u64 {
        match self {
            Self::Constant(value) => value,
            Self::Uniform(least, _)
            | Self::Halves { least, .. }
            | Self::HeavyTail { least, .. } => least,
        }
    }

    /// The most.
    pub fn most(self) -> u64 {
        match self {
            Self::Constant(value) => value,
            Self::Uniform(_, most) | Self::Halves { most, .. } | Self::HeavyTail { most, .. } => {
                most
            }
        }
    }

    /// Draws a time.
    pub fn draw(self, random: &mut SeededRandom) -> u64 {
        match self {
            Self::Constant(value) => value,
            Self::Uniform(least, most) => least + random.below(most.saturating_sub(least) + 1),
            Self::Halves { least, middle, most } => {
                let half = if random.below(2) == 0 {
                    Self::Uniform(least, middle)
                } else {
                    Self::Uniform(middle, most)
                };
                half.draw(random)
            }
            Self::HeavyTail { least, most } => {
                // least / sqrt(u) for a uniform u in (0, 1]. The inverse of u has sixteen
                // fractional bits, so the root has eight.
                let even = (random.number() >> 32) + 1;
                let inverse = (1_u64 << 48) / even;
                (least.saturating_mul(inverse.isqrt()) >> 8).clamp(least, most)
            }
        }
    }
}

/// Draws times in streams. The n-th time of a stream for a name does not depend on the draws for
/// other names.
#[derive(Debug)]
pub(super) struct DrawnTimes {
    seed: u64,
    /// By stream and name.
    counts: HashMap<String, u64>,
}

impl DrawnTimes {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, counts: HashMap::new() }
    }

    pub(super) fn draw(&mut self, spread: TimeSpread, stream: &'static str, name: &str) -> u64 {
        let stream = format!("{stream}/{name}");
        let number = self.counts.get(&stream).map_or(1, |count| count + 1);
        let drawn = spread.draw(&mut SeededRandom::stream(self.seed, &stream, number));
        self.counts.insert(stream, number);
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_algorithm() {
        let mut random = SeededRandom::new(1_234_567);
        assert_eq!(
            [random.number(), random.number()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
    }

    #[test]
    fn heavy_tail_has_the_stated_shape() {
        let mut random = SeededRandom::new(7);
        let spread = TimeSpread::HeavyTail { least: 1000, most: 100_000 };
        let drawn: Vec<u64> = (0..10_000).map(|_| spread.draw(&mut random)).collect();
        let above = |limit: u64| drawn.iter().filter(|value| **value > limit).count();
        assert!(drawn.iter().all(|value| (1000..=100_000).contains(value)));
        assert!((2200..2800).contains(&above(2000)), "{}", above(2000));
        assert!((60..150).contains(&above(10_000)), "{}", above(10_000));
    }

    #[test]
    fn halves_have_the_middle_in_the_middle() {
        let mut random = SeededRandom::new(8);
        let spread = TimeSpread::Halves { least: 0, middle: 100, most: 10_000 };
        let drawn: Vec<u64> = (0..10_000).map(|_| spread.draw(&mut random)).collect();
        let below = |limit: u64| drawn.iter().filter(|value| **value < limit).count();
        assert!((4700..5300).contains(&below(100)), "{}", below(100));
        assert!(
            (7000..8000).contains(&below(5_000)) && below(10_001) == 10_000,
            "{}",
            below(5_000)
        );
    }

    #[test]
    fn draws_of_a_name_are_independent_of_others() {
        let drawn =
            |name| TimeSpread::Uniform(0, 1_000_000).draw(&mut SeededRandom::stream(5, name, 0));
        assert_eq!(drawn("gpu-1"), drawn("gpu-1"));
        assert_ne!(drawn("gpu-1"), drawn("gpu-2"));
    }
}
