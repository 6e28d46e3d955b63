//! Assignment of keys to partitions.

use serde::{Deserialize, Serialize};
/// A logical partition of the key space (UniStore's `m ∈ P`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartitionId(pub u16);

impl PartitionId {
    /// Returns the partition of `key`, from its CRC-32C. If the key contains a non-empty `{tag}`,
    /// only the tag is hashed, as in Redis Cluster, so that users can keep keys together.
    pub fn of(key: &[u8], partitions: u16) -> PartitionId {
        let hash = crc32c::crc32c(hash_tag(key));
        // Maps the hash to the range without a division.
        PartitionId(((u64::from(hash) * u64::from(partitions)) >> 32) as u16)
    }
}

fn hash_tag(key: &[u8]) -> &[u8] {
    if !key.contains(&b'{') {
        return key;
    }
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    match key[open + 1..].iter().position(|byte| *byte == b'}') {
        Some(0) | None => key,
        Some(length) => &key[open + 1..open + 1 + length],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_where_they_are_across_versions() {
        assert_eq!(PartitionId::of(b"123456789", 4096), PartitionId(0xe30));
        assert_eq!(PartitionId::of(b"", 16), PartitionId(0));
    }

    #[test]
    fn every_partition_gets_its_share() {
        let mut counts = [0; 16];
        for i in 0..16_000 {
            counts[usize::from(PartitionId::of(format!("key:{i}").as_bytes(), 16).0)] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_tag_keeps_keys_together() {
        let of = |key: &[u8]| PartitionId::of(key, 64);
        assert_eq!(of(b"{user7}.cart"), of(b"{user7}.inbox"));
        assert_eq!(of(b"a{user7}b"), of(b"user7"));
        assert_eq!(hash_tag(b"{}x"), b"{}x");
        assert_eq!(hash_tag(b"x{y"), b"x{y");
    }
}
