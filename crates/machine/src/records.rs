//! Buffer of records on their way to a journal.

/// Size of the length that precedes each record.
const LENGTH_BYTES: usize = 8;
/// Initial capacity, enough for the records of most client requests.
const ROOM: usize = 4 << 10;

/// Bytes of records, in the order in which they were emitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    bytes: Vec<u8>,
}

impl Records {
    /// Returns the bytes of each record.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (length, from) = rest.split_first_chunk::<LENGTH_BYTES>()?;
            let (record, after) = from.split_at(u64::from_le_bytes(*length) as usize);
            rest = after;
            Some(record)
        })
    }

    /// Adds a record whose bytes `encode` appends to the buffer.
    #[inline]
    pub fn push_with(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        if start == 0 {
            self.bytes.reserve(ROOM);
        }
        self.bytes.extend_from_slice(&[0; LENGTH_BYTES]);
        let from = self.bytes.len();
        encode(&mut self.bytes);
        let length = (self.bytes.len() - from) as u64;
        self.bytes[start..from].copy_from_slice(&length.to_le_bytes());
    }
}
