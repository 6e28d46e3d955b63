//! Random numbers from the operating system.

use ring::rand::{SecureRandom, SystemRandom};

/// Returns a random number.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
    u64::from_le_bytes(bytes)
}
