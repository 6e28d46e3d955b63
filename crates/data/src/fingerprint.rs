use xxhash_rust::xxh3::Xxh3;

/// Computes XXH3-64, with seed 0, of a sequence of byte strings. Each string is preceded by its
/// length as eight bytes, least significant first, so that strings cannot run into each other.
///
/// The result depends on nothing else: processes of other builds and platforms, and later versions,
/// compute the same.
#[derive(Clone, Default)]
pub struct Fingerprint(Xxh3);

impl Fingerprint {
    /// Adds a byte string.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// Returns the hash of all strings so far.
    pub fn finish(&self) -> u64 {
        self.0.digest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(strings: &[&[u8]]) -> u64 {
        let mut fingerprint = Fingerprint::default();
        strings.iter().for_each(|string| fingerprint.add(string));
        fingerprint.finish()
    }

    #[test]
    fn fingerprints_are_the_same_in_every_build() {
        // The first is that of no bytes in the test vectors of XXH3.
        assert_eq!(of(&[]), 0x2d06_8005_38d3_94c2);
        assert_eq!(of(&[b""]), 0xc77b_3abb_6f87_acd9);
        assert_eq!(of(&[b"a", b"key"]), 0xa66b_b2af_9b13_2797);
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
    }
}
