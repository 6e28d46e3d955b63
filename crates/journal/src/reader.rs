//! Reads the frames of a file piece by piece, for any content.

use std::ops::Range;

use crate::disk::DiskFile;
use crate::error::{Damage, Error, Fault};
use crate::header::HEADER_BYTES;
use crate::record::{
    ALIGNMENT, FRAME_HEADER, MARK_BYTES, MARK_LENGTH, checksum, frame_bytes, u32_at, u64_at,
};

/// Number of bytes per read.
const PIECE_BYTES: usize = 1 << 20;

/// Reads the frames of one file in order. Buffers one piece of it, or one record if that is longer.
/// A length beyond the end of the file does not allocate memory.
#[derive(Debug)]
pub(crate) struct Reader<'a, F> {
    file: &'a F,
    name: &'a str,
    seed: u32,
    /// Length of the file.
    size: u64,
    /// Number of the next record.
    next: u64,
    /// Offset of the next frame in the file.
    at: u64,
    buffer: Vec<u8>,
    /// Offset of the next frame in the buffer.
    cursor: usize,
}

/// Content at an offset of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// The expected record.
    Record { number: u64, at: u64, payload: &'a [u8] },
    /// A mark.
    Mark { at: u64 },
    /// Anything else. The reader does not advance.
    Bad(Fault),
}

/// A frame without the borrowed bytes.
enum Found {
    Record { payload: Range<usize>, frame: usize },
    Mark,
    Bad(Fault),
}

/// Content after the last valid frame of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Remainder {
    /// Offset of the last intact mark.
    pub(crate) mark: Option<u64>,
    /// End of the non-zero bytes.
    pub(crate) used_to: u64,
}

impl<'a, F: DiskFile> Reader<'a, F> {
    /// Creates a reader of `file` after its header; the first record has the number `next`.
    pub(crate) fn new(file: &'a F, name: &'a str, seed: u32, next: u64) -> Result<Self, Error> {
        let size = file.len().map_err(|error| Error::io("open", name, &error))?;
        let at = HEADER_BYTES as u64;
        Ok(Reader { file, name, seed, size, next, at, buffer: Vec::new(), cursor: 0 })
    }

    /// Limits reading to `size` bytes. Returns whether the file is shorter.
    pub(crate) fn bound(&mut self, size: u64) -> bool {
        let cut_short = self.size < size;
        self.size = self.size.min(size);
        cut_short
    }

    /// Reads the next frame.
    pub(crate) fn next(&mut self) -> Result<Frame<'_>, Error> {
        match self.find()? {
            Found::Bad(fault) => Ok(Frame::Bad(fault)),
            Found::Mark => {
                let at = self.at;
                self.pass(MARK_BYTES);
                Ok(Frame::Mark { at })
            }
            Found::Record { payload, frame } => {
                let (number, at) = (self.next, self.at);
                self.pass(frame);
                self.next += 1;
                Ok(Frame::Record { number, at, payload: &self.buffer[payload] })
            }
        }
    }

    /// Returns the number that the next record must have.
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    /// Returns the offset of the next frame.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Returns the number of bytes after the frames read so far.
    pub(crate) fn left(&self) -> u64 {
        self.size.saturating_sub(self.at)
    }

    /// Returns the error for a fault at the current offset.
    pub(crate) fn damage(&self, fault: Fault) -> Error {
        Error::Damaged(Damage { file: self.name.to_owned(), offset: self.at, fault })
    }

    /// Scans the rest of the file for marks, at every offset where a frame could begin: marks do
    /// not depend on anything before them.
    pub(crate) fn remainder(&mut self) -> Result<Remainder, Error> {
        let mut remainder = Remainder { mark: None, used_to: self.at };
        let mut at = self.at;
        let mut piece = Vec::new();
        while at < self.size {
            let length = (self.size - at).min(PIECE_BYTES as u64) as usize;
            piece.resize(length, 0);
            self.read(at, &mut piece)?;
            if let Some(last) = piece.iter().rposition(|byte| *byte != 0) {
                remainder.used_to = at + last as u64 + 1;
            }
            // Frames begin at multiples of the alignment from the beginning of the file.
            for start in (0..length).step_by(ALIGNMENT) {
                let Some(frame) = piece.get(start..start + MARK_BYTES) else { break };
                if is_mark(frame, self.seed, at + start as u64) {
                    remainder.mark = Some(at + start as u64);
                }
            }
            // Pieces overlap, so that no mark is split.
            let step = if length == PIECE_BYTES { length - MARK_BYTES } else { length };
            at += step as u64;
        }
        Ok(remainder)
    }

    fn find(&mut self) -> Result<Found, Error> {
        let (expected, room) = (self.next, self.left());
        if room < FRAME_HEADER as u64 {
            return Ok(Found::Bad(Fault::Blank { expected }));
        }
        self.fill(FRAME_HEADER)?;
        let header = &self.buffer[self.cursor..self.cursor + FRAME_HEADER];
        if header.iter().all(|byte| *byte == 0) {
            return Ok(Found::Bad(Fault::Blank { expected }));
        }
        let length = u32_at(header, 4);
        let is_mark = length == MARK_LENGTH;
        let frame = if is_mark { MARK_BYTES } else { frame_bytes(length as usize) };
        if frame as u64 > room {
            return Ok(Found::Bad(Fault::Length { room, found: frame as u64 }));
        }
        self.fill(frame)?;
        let bytes = &self.buffer[self.cursor..self.cursor + frame];
        if let Some(fault) = self.fault(bytes, is_mark) {
            return Ok(Found::Bad(fault));
        }
        if is_mark {
            return Ok(Found::Mark);
        }
        let start = self.cursor + FRAME_HEADER;
        Ok(Found::Record { payload: start..start + length as usize, frame })
    }

    fn fault(&self, frame: &[u8], is_mark: bool) -> Option<Fault> {
        let (expected, found) = (checksum(self.seed, frame), u32_at(frame, 0));
        if expected != found {
            return Some(Fault::Checksum { expected, found });
        }
        let number = u64_at(frame, 8);
        if number != self.next {
            return Some(Fault::Order { expected: self.next, found: number });
        }
        let place = if is_mark { u64_at(frame, FRAME_HEADER) } else { self.at };
        (place != self.at).then_some(Fault::Place { expected: self.at, found: place })
    }

    fn pass(&mut self, bytes: usize) {
        self.cursor += bytes;
        self.at += bytes as u64;
    }

    /// Fills the buffer with `bytes` bytes from the cursor on. The file must have that many.
    fn fill(&mut self, bytes: usize) -> Result<(), Error> {
        let held = self.buffer.len() - self.cursor;
        if held >= bytes {
            return Ok(());
        }
        self.buffer.copy_within(self.cursor.., 0);
        self.cursor = 0;
        let wanted = bytes.max(PIECE_BYTES).min(self.left() as usize);
        self.buffer.resize(wanted, 0);
        let (file, name) = (self.file, self.name);
        let read = file.read_at(self.at + held as u64, &mut self.buffer[held..]);
        read.map_err(|error| Error::io("read", name, &error))
    }

    fn read(&self, at: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.file.read_at(at, buffer).map_err(|error| Error::io("read", self.name, &error))
    }
}

/// Returns whether `frame` is an intact mark that was written for `offset`.
fn is_mark(frame: &[u8], seed: u32, offset: u64) -> bool {
    u32_at(frame, 4) == MARK_LENGTH
        && u64_at(frame, FRAME_HEADER) == offset
        && checksum(seed, frame) == u32_at(frame, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;
    use crate::record::{Encoder, mark, seal};
    use crate::sim_disk::SimDisk;

    const SEED: u32 = 5;
    const START: u64 = HEADER_BYTES as u64;
    const PIECE: usize = PIECE_BYTES;

    /// Creates a file with the given bytes after a header.
    fn file(frames: &[u8]) -> SimDisk {
        let disk = SimDisk::new(1);
        disk.put("f", &[&[0; HEADER_BYTES], frames].concat());
        disk
    }

    fn frames(records: &[&[u8]]) -> Vec<u8> {
        let mut encoder = Encoder::new(1);
        records.iter().for_each(|record| {
            encoder.append(record).unwrap();
        });
        let mut bytes = encoder.take().bytes;
        seal(SEED, &mut bytes);
        bytes
    }

    /// Returns the first frame that is not a record.
    fn stop(disk: &SimDisk) -> (u64, String, Remainder) {
        let file = disk.open("f").unwrap();
        let mut reader = Reader::new(&file, "f", SEED, 1).unwrap();
        let stop = loop {
            match reader.next().unwrap() {
                Frame::Record { .. } => {}
                other => break format!("{other:?}"),
            }
        };
        (reader.next_number(), stop, reader.remainder().unwrap())
    }

    #[test]
    fn a_mark_for_another_place_is_none() {
        let right = stop(&file(&mark(SEED, 1, START)));
        assert_eq!(right.1, format!("Mark {{ at: {START} }}"));
        let (_, wrong, remainder) = stop(&file(&mark(SEED, 1, START + 8)));
        let fault = Fault::Place { expected: START, found: START + 8 };
        assert_eq!((wrong, remainder.mark), (format!("{:?}", Frame::Bad(fault)), None));
    }

    #[test]
    fn marks_are_found_behind_anything_but_only_intact_ones_in_their_place() {
        for gap in [0, 8, 1000, PIECE - 40, PIECE - 32, PIECE - 24, PIECE, 3 * PIECE] {
            let at = START + 24 + gap as u64;
            let found =
                |mark: &[u8]| stop(&file(&[&[1; 24], &*vec![0; gap], mark, &[0; 40]].concat())).2;
            let whole = mark(SEED, 9, at);
            let used = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
            let remainder = Remainder { mark: Some(at), used_to: at + used as u64 };
            assert_eq!(found(&whole), remainder, "{gap}");
            assert_eq!(found(&mark(SEED, 9, at + 8)).mark, None);
            assert_eq!(found(&mark(SEED + 1, 9, at)).mark, None);
        }
    }

    #[test]
    fn a_length_beyond_the_end_allocates_nothing() {
        let mut frames = frames(&[b"a", b"b"]);
        frames[24 + 4..24 + 8].copy_from_slice(&(1_u32 << 31).to_le_bytes());
        let disk = file(&frames);
        let file = disk.open("f").unwrap();
        let mut reader = Reader::new(&file, "f", SEED, 1).unwrap();
        assert!(matches!(reader.next(), Ok(Frame::Record { number: 1, at: START, payload: b"a" })));
        let fault = Fault::Length { room: 24, found: (1 << 31) + 16 };
        assert_eq!(reader.next(), Ok(Frame::Bad(fault)));
        assert!(reader.buffer.capacity() < 1000);
    }

    #[test]
    fn records_longer_than_a_piece_are_read() {
        let long = vec![7; 3 * PIECE_BYTES];
        let disk = file(&frames(&[b"a", &long, b"b", &long]));
        let (next, stop, _) = stop(&disk);
        assert_eq!((next, stop), (5, format!("{:?}", Frame::Bad(Fault::Blank { expected: 5 }))));
    }
}
