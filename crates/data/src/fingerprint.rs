use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Computes a hash of a sequence of byte strings: XXH3-64 of each, with the hash of those before it
/// as the seed, and 0 at first. So strings cannot run into each other.
///
/// The result depends on nothing else: processes of other builds and platforms, and later versions,
/// compute the same.
#[derive(Clone, Default)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Adds a byte string.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    /// Returns the hash of all strings so far; 0 of none.
    pub fn finish(&self) -> u64 {
        self.0
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
        assert_eq!(of(&[]), 0);
        // That of no bytes in the test vectors of XXH3.
        assert_eq!(of(&[b""]), 0x2d06_8005_38d3_94c2);
        assert_eq!(of(&[b"a", b"key"]), 0x0fb9_792a_8a29_f960);
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
    }
}
