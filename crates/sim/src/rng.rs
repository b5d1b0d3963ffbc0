//! Random streams. Each component has its own stream, named by its path and derived from the run's seed, so
//! that adding a component does not change the numbers of the others.

use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::Xoshiro256StarStar;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A random stream: xoshiro256**, whose output is fixed by its definition rather than a library version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rng(Xoshiro256StarStar);

impl Rng {
    /// The stream of the component at `path` in a run with this seed.
    pub fn stream(seed: u64, path: &str) -> Rng {
        Rng(Xoshiro256StarStar::seed_from_u64(xxh3_64_with_seed(path.as_bytes(), seed)))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, without bias (Lemire's multiply-and-reject).
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "the bound of a random number must be positive");
        let reject_below = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= reject_below {
                return (product >> 64) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_match_golden_values() {
        let mut stream = Rng::stream(1, "loadgen0");
        let drawn: Vec<u64> = (0..3).map(|_| stream.next_u64()).collect();
        assert_eq!(drawn, GOLDEN);
        assert_ne!(Rng::stream(1, "loadgen1").next_u64(), drawn[0]);
        assert_ne!(Rng::stream(2, "loadgen0").next_u64(), drawn[0]);
    }

    const GOLDEN: [u64; 3] = [5463395396222656940, 12552417238661097873, 16269833440443254424];

    #[test]
    fn bounded_numbers_are_uniform() {
        let mut stream = Rng::stream(7, "dice");
        let mut seen = [0u32; 6];
        for _ in 0..60_000 {
            seen[stream.below(6) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (9_600..10_400).contains(count)), "{seen:?}");
    }
}
