//! Source of random words: the operating system, or a seed for scenarios that must be reproducible.
//!
//! Not for keys: anyone who knows the seed knows every word.

use std::sync::Arc;

use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// A source of random 256-bit words. A clone draws from the same source.
#[derive(Debug, Clone, Default)]
pub struct RandomSource(Option<Arc<Mutex<ChaCha8Rng>>>);

impl RandomSource {
    /// Source that draws from the thread's generator, which the operating system seeds.
    pub fn machine() -> Self {
        Self::default()
    }

    /// Source that returns the same words in the same order for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self(Some(Arc::new(Mutex::new(ChaCha8Rng::seed_from_u64(seed)))))
    }

    /// Returns the next 256 bits.
    pub fn word(&self) -> [u8; 32] {
        match &self.0 {
            None => rand::random(),
            Some(seeded) => seeded.lock().random(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_words_repeat_and_random_words_differ() {
        let (one, same, other) = (RandomSource::seeded(1), RandomSource::seeded(1), RandomSource::seeded(2));
        let shared = one.clone();
        let words = [one.word(), shared.word()];
        assert_ne!(words[0], words[1]);
        assert_eq!(words, [same.word(), same.word()]);
        assert_ne!(words[0], other.word());
        assert_ne!(RandomSource::machine().word(), RandomSource::machine().word());
    }
}
