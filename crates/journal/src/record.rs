//! Frames: how records are cut out of bytes again, and shown to be whole.
//!
//! Segments and snapshots hold the same frames: records, numbered without gaps, and marks. A mark
//! in a segment says that all before it was synced before it was written; one ends each snapshot.

use crate::error::Error;
use crate::format::MAX_RECORD_BYTES;

/// Checksum, length, number.
pub(crate) const FRAME_HEADER: usize = 4 + 4 + 8;
/// A frame header and the mark's own offset.
pub(crate) const MARK_BYTES: usize = FRAME_HEADER + 8;
/// Frames begin at multiples of this.
pub(crate) const ALIGNMENT: usize = 8;
/// Stands in a mark where a record has its length.
pub(crate) const MARK_LENGTH: u32 = u32::MAX;

/// The bytes that a record takes in a file.
pub(crate) fn frame_bytes(record: usize) -> usize {
    (FRAME_HEADER + record).next_multiple_of(ALIGNMENT)
}

/// A mark at byte `offset` of its file, before record `next`.
pub(crate) fn mark(seed: u32, next: u64, offset: u64) -> [u8; MARK_BYTES] {
    let mut bytes = [0; MARK_BYTES];
    bytes[4..8].copy_from_slice(&MARK_LENGTH.to_le_bytes());
    bytes[8..16].copy_from_slice(&next.to_le_bytes());
    bytes[16..24].copy_from_slice(&offset.to_le_bytes());
    let checksum = checksum(seed, &bytes);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// A frame's checksum: of all its bytes but the checksum itself, padding included, so that no
/// flipped bit passes. The seed tells whose frame it is, so that one of another journal does not
/// pass.
pub(crate) fn checksum(seed: u32, frame: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, &frame[4..])
}

/// Little-endian numbers out of a frame. Panics if it is shorter than that.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes are four bytes"))
}

/// See [`u32_at`].
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes are eight bytes"))
}

/// Records on their way to a file: whole frames, one after the other, without their checksums.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The first record's number.
    pub(crate) first: u64,
    /// The number after the last record's.
    pub(crate) next: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Numbers records and makes frames of them, but for their checksums: see [`seal`]. Does no I/O.
#[derive(Debug)]
pub(crate) struct Encoder {
    batch: Batch,
}

impl Encoder {
    /// An encoder whose first record gets the number `next`.
    pub(crate) fn new(next: u64) -> Encoder {
        Encoder { batch: Batch { first: next, next, bytes: Vec::new() } }
    }

    /// Takes a record and returns its number. Errors: [`Error::RecordTooLarge`].
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

    /// All frames since the last call.
    pub(crate) fn take(&mut self) -> Batch {
        self.take_for(Vec::new())
    }

    /// The same. The next frames go to `bytes`, which are empty but may have room.
    pub(crate) fn take_for(&mut self, bytes: Vec<u8>) -> Batch {
        let next = self.batch.next;
        std::mem::replace(&mut self.batch, Batch { first: next, next, bytes })
    }

    /// The number that the next record gets.
    pub(crate) fn next(&self) -> u64 {
        self.batch.next
    }

    /// How many bytes wait to be taken.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.batch.bytes.len()
    }
}

/// Puts the checksums into frames of an [`Encoder`]: whoever writes them has the time for it.
pub(crate) fn seal(seed: u32, mut frames: &mut [u8]) {
    while !frames.is_empty() {
        let (frame, rest) = frames.split_at_mut(first_frame(frames));
        let checksum = checksum(seed, frame);
        frame[..4].copy_from_slice(&checksum.to_le_bytes());
        frames = rest;
    }
}

/// How many of the frames in `bytes`, from the first on, fit into `room` bytes: their bytes and
/// number.
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

/// The size of the first of several frames that an [`Encoder`] made.
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
