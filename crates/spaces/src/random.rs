//! Random numbers of the system.

use ring::rand::{SecureRandom, SystemRandom};

/// A random number.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
    u64::from_le_bytes(bytes)
}
