//! Which partition a key belongs to.

/// A logical partition of the key space (the paper's `m ∈ P`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u16);

impl PartitionId {
    /// The partition of `key`, by CRC-16 as Redis Cluster computes slots: if the key contains a
    /// non-empty `{tag}`, only the tag counts, so that users can keep keys together.
    pub fn of(key: &[u8], partitions: u16) -> PartitionId {
        PartitionId(crc16(hash_tag(key)) % partitions)
    }
}

fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    match key[open + 1..].iter().position(|byte| *byte == b'}') {
        Some(0) | None => key,
        Some(length) => &key[open + 1..open + 1 + length],
    }
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

const TABLE: [u16; 256] = {
    let mut table = [0u16; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_redis_cluster() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(PartitionId::of(b"foo", 16384), PartitionId(12182));
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
