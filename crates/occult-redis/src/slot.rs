//! Slots of a Redis Cluster, and the names of the keys that contain their records.

use std::sync::LazyLock;

use solera_occult::{DEFAULT_SHARDS, ShardId};

/// Prefix of the keys of records. Data must not have such keys.
pub(crate) const RESERVED: &[u8] = b"solera:{";

/// Returns the slot of a key: the slot of its first `{…}`, or of the whole key if there is none or
/// it is empty.
pub fn slot_of(key: &[u8]) -> ShardId {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let length = key[open + 1..].iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &key[open + 1..open + 1 + length])
    });
    ShardId(crc16(tag.unwrap_or(key)) % DEFAULT_SHARDS)
}

/// CRC-16/XMODEM, by which Redis assigns keys to slots.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |mut crc: u16, byte| {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
        crc
    })
}

/// For each slot, the smallest number whose decimal digits hash to it.
static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut tags = vec![u32::MAX; usize::from(DEFAULT_SHARDS)];
    let mut missing = tags.len();
    for number in 0_u32.. {
        let tag = &mut tags[usize::from(slot_of(number.to_string().as_bytes()).0)];
        if *tag == u32::MAX {
            *tag = number;
            missing -= 1;
        }
        if missing == 0 {
            break;
        }
    }
    tags
});

/// Returns the number whose digits hash to a slot, in the names of the slot's keys.
pub(crate) fn tag_of(slot: ShardId) -> u32 {
    TAGS[usize::from(slot.0)]
}

/// Returns the key of the clock of a master that keeps it in this slot.
pub(crate) fn clock_key(slot: ShardId) -> Vec<u8> {
    format!("solera:{{{}}}:c", tag_of(slot)).into_bytes()
}

/// Returns the key of a slot's record.
pub fn record_key(slot: ShardId) -> Vec<u8> {
    format!("solera:{{{}}}:s", tag_of(slot)).into_bytes()
}

/// Returns the key of the state that the slot's master keeps.
pub fn home_key(slot: ShardId) -> Vec<u8> {
    format!("solera:{{{}}}:h", tag_of(slot)).into_bytes()
}

/// Returns the key of a key's timestamp.
pub fn timestamp_key(key: &[u8]) -> Vec<u8> {
    let tag = tag_of(slot_of(key));
    [format!("solera:{{{tag}}}:t:").as_bytes(), key].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // `CLUSTER KEYSLOT` returns these slots.
        for (key, slot) in
            [("123456789", 12739), ("foo", 12182), ("{user1000}.following", 3443), ("{}a", 10875)]
        {
            assert_eq!(slot_of(key.as_bytes()), ShardId(slot), "{key}");
        }
        assert_eq!(slot_of(b"a{foo}b{bar}"), slot_of(b"foo"));
    }

    #[test]
    fn records_lie_in_their_slot() {
        for slot in ShardId::all(DEFAULT_SHARDS) {
            assert_eq!(slot_of(&record_key(slot)), slot);
            assert_eq!(slot_of(&home_key(slot)), slot);
            assert_eq!(slot_of(&clock_key(slot)), slot);
        }
        for key in ["foo", "a{foo}b", "}x{", "{}"] {
            assert_eq!(slot_of(&timestamp_key(key.as_bytes())), slot_of(key.as_bytes()));
        }
    }
}
