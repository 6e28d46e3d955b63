//! Frames: delimit records in files, and detect damage.
//!
//! Segments and snapshots contain the same frames: records, numbered without gaps, and marks. A
//! mark in a segment is written after everything before it was synced. A mark ends each snapshot.

use crate::error::Error;
use crate::format::MAX_RECORD_BYTES;

/// Size of a frame header: checksum, length, number.
pub(crate) const FRAME_HEADER: usize = 4 + 4 + 8;
/// Size of a mark: a frame header and the mark's own offset.
pub(crate) const MARK_BYTES: usize = FRAME_HEADER + 8;
/// Alignment of frames.
pub(crate) const ALIGNMENT: usize = 8;
/// Value of a mark's length field.
pub(crate) const MARK_LENGTH: u32 = u32::MAX;

/// Returns the size of a record's frame in a file.
pub(crate) fn frame_bytes(record: usize) -> usize {
    (FRAME_HEADER + record).next_multiple_of(ALIGNMENT)
}

/// Encodes a mark at byte `offset` of its file, before record `next`.
pub(crate) fn mark(seed: u32, next: u64, offset: u64) -> [u8; MARK_BYTES] {
    let mut bytes = [0; MARK_BYTES];
    bytes[4..8].copy_from_slice(&MARK_LENGTH.to_le_bytes());
    bytes[8..16].copy_from_slice(&next.to_le_bytes());
    bytes[16..24].copy_from_slice(&offset.to_le_bytes());
    let checksum = checksum(seed, &bytes);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Returns a frame's checksum over all its bytes except the checksum itself, padding included, so
/// that every flipped bit is detected. The seed identifies the journal, so that frames of another
/// journal are rejected.
pub(crate) fn checksum(seed: u32, frame: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, &frame[4..])
}

/// Decodes a little-endian number from a frame. Panics if the frame is too short.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes are four bytes"))
}

/// See [`u32_at`].
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes are eight bytes"))
}

/// Records to be written: complete frames without their checksums.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Number of the first record.
    pub(crate) first: u64,
    /// Number after the last record.
    pub(crate) next: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Numbers records and encodes them as frames without checksums; see [`seal`]. Does no I/O.
#[derive(Debug)]
pub(crate) struct Encoder {
    batch: Batch,
}

impl Encoder {
    /// Creates an encoder whose first record gets the number `next`.
    pub(crate) fn new(next: u64) -> Encoder {
        Encoder { batch: Batch { first: next, next, bytes: Vec::new() } }
    }

    /// Appends a record and returns its number. Fails with [`Error::RecordTooLarge`].
    pub(crate) fn append(&mut self, record: &[u8]) -> Result<u64, Error> {
        if record.len() > MAX_RECORD_BYTES {
            return Err(Error::RecordTooLarge { bytes: record.len() });
        }
        let Batch { next, bytes, .. } = &mut self.batch;
        let (number, start) = (*next, bytes.len());
        bytes.reserve(frame_bytes(record.len()));
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(record.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(record);
        bytes.resize(start + frame_bytes(record.len()), 0);
        *next += 1;
        Ok(number)
    }

    /// Returns all frames since the last call.
    pub(crate) fn take(&mut self) -> Batch {
        self.take_for(Vec::new())
    }

    /// Returns all frames since the last call. Encodes the next frames into `bytes`, which must be
    /// empty but may have capacity.
    pub(crate) fn take_for(&mut self, bytes: Vec<u8>) -> Batch {
        let next = self.batch.next;
        std::mem::replace(&mut self.batch, Batch { first: next, next, bytes })
    }

    /// Returns the number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.batch.next
    }

    /// Returns the number of bytes that were not taken yet.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.batch.bytes.len()
    }
}

/// Sets the checksums of frames of an [`Encoder`]. The writing thread does this, to save time on
/// the worker's thread.
pub(crate) fn seal(seed: u32, mut frames: &mut [u8]) {
    while !frames.is_empty() {
        let (frame, rest) = frames.split_at_mut(first_frame(frames));
        let checksum = checksum(seed, frame);
        frame[..4].copy_from_slice(&checksum.to_le_bytes());
        frames = rest;
    }
}

/// Returns the size and number of the first frames in `bytes` that fit into `room` bytes.
pub(crate) fn fitting(bytes: &[u8], room: u64) -> (usize, u64) {
    let (mut end, mut count) = (0, 0);
    while end < bytes.len() {
        let frame = first_frame(&bytes[end..]);
        if (end + frame) as u64 > room {
            break;
        }
        end += frame;
        count += 1;
    }
    (end, count)
}

/// Returns the size of the first frame in the output of an [`Encoder`].
pub(crate) fn first_frame(bytes: &[u8]) -> usize {
    frame_bytes(u32_at(bytes, 4) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_aligned_and_numbered() {
        let mut encoder = Encoder::new(3);
        for (lsn, size) in (3..).zip([0, 1, 8, 9, 100]) {
            assert_eq!(encoder.append(&vec![1; size]), Ok(lsn));
        }
        let batch = encoder.take();
        assert_eq!((batch.first, batch.next, encoder.next()), (3, 8, 8));
        assert_eq!(batch.bytes.len(), 16 + 24 + 24 + 32 + 120);
        assert_eq!(fitting(&batch.bytes, 63), (40, 2));
        assert_eq!(fitting(&batch.bytes, 15), (0, 0));
        assert_eq!(fitting(&batch.bytes, 216), (216, 5));
    }

    #[test]
    fn a_checksum_covers_number_length_payload_padding_and_owner() {
        let frame = |seed, next| {
            let mut encoder = Encoder::new(next);
            encoder.append(b"record").unwrap();
            let mut bytes = encoder.take().bytes;
            seal(seed, &mut bytes);
            bytes
        };
        let bytes = frame(1, 1);
        assert_eq!(checksum(1, &bytes), u32_at(&bytes, 0));
        assert_ne!(u32_at(&bytes, 0), u32_at(&frame(2, 1), 0));
        assert_ne!(u32_at(&bytes, 0), u32_at(&frame(1, 2), 0));
        for bit in 32..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(checksum(1, &flipped), u32_at(&bytes, 0), "bit {bit}");
        }
    }
}
