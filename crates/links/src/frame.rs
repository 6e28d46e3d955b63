//! Encoding of frames.
//!
//! `docs/formats/wire.md` shows the format.

use solera_machine::Foreign;

/// Version of all messages between nodes.
pub(crate) const VERSION: u16 = 11;
/// Length of a frame's length, checksum, kind and number.
pub(crate) const HEADER: usize = 4 + 4 + 1 + 8;
/// Longest frame that is read, in bytes. The largest value that a client can send fits.
pub(crate) const MAX_FRAME: usize = 1 << 30;

/// Kind of a frame. Acknowledgements and answers travel to the caller of a connection, all other
/// kinds to the called node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Messages between workers; numbered.
    Messages = 1,
    /// A ping, whose number is the sender's clock in microseconds since 1970.
    Ping = 2,
    /// A question to the called node. The answer has the same number.
    Ask = 3,
    /// Acknowledges all numbered frames up to this number.
    Ack = 4,
    /// The answer to a question.
    Answer = 5,
    /// Withdraws the question with this number.
    Withdraw = 6,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        let all = [Kind::Messages, Kind::Ping, Kind::Ask, Kind::Ack, Kind::Answer, Kind::Withdraw];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// One frame, without its length and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Kind.
    pub kind: Kind,
    /// Number, whose meaning depends on the kind; see [`Kind`].
    pub number: u64,
    /// Content.
    pub body: &'a [u8],
}

/// Error of bytes that no correct peer of this version sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The frame is shorter than a header, or longer than any frame.
    #[error("a frame of {0} bytes")]
    Length(u32),
    /// The checksum is wrong.
    #[error("a frame that was damaged on its way")]
    Damaged,
    /// The kind does not exist, or does not travel in this direction.
    #[error("a frame of kind {0}, which is not valid here")]
    Kind(u8),
    /// The content does not match the frame's kind.
    #[error("a frame whose content cannot be read")]
    Content,
    /// The messages have a protocol or version that this node does not run.
    #[error("messages that cannot be read: {0}")]
    Foreign(Foreign),
    /// The messages cannot come from their sender, or are not for this node.
    #[error("messages that do not belong to this cluster")]
    Misplaced,
}

impl WireError {
    /// Returns the kind of the error as one word, for counters.
    pub fn label(&self) -> &'static str {
        match self {
            WireError::Length(_) => "length",
            WireError::Damaged => "damaged",
            WireError::Kind(_) => "kind",
            WireError::Content => "content",
            WireError::Foreign(_) => "protocol",
            WireError::Misplaced => "misplaced",
        }
    }
}

/// Appends an encoded frame.
///
/// # Panics
/// If the body is longer than any frame; [`encode_batch`](crate::encode_batch) creates no such
/// bodies.
pub fn write_frame(out: &mut Vec<u8>, frame: Frame<'_>) {
    let length = frame.body.len() + HEADER - 8;
    assert!(length <= MAX_FRAME, "frames are cut before");
    out.extend_from_slice(&(length as u32).to_be_bytes());
    let mut head = [0; 9];
    head[0] = frame.kind as u8;
    head[1..].copy_from_slice(&frame.number.to_be_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&head), frame.body);
    out.extend_from_slice(&checksum.to_be_bytes());
    out.extend_from_slice(&head);
    out.extend_from_slice(frame.body);
}

/// Decodes the first frame of `bytes`, and returns it with its length. Returns `None` while the
/// frame is incomplete.
///
/// # Errors
/// These bytes do not begin a frame, and the bytes after them cannot be interpreted.
pub fn read_frame(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, WireError> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length);
    if !(9..=MAX_FRAME).contains(&(length as usize)) {
        return Err(WireError::Length(length));
    }
    let Some((checksum, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
    let Some(content) = rest.get(..length as usize) else { return Ok(None) };
    if crc32c::crc32c(content) != u32::from_be_bytes(*checksum) {
        return Err(WireError::Damaged);
    }
    let (head, body) = content.split_at(9);
    let kind = Kind::of(head[0]).ok_or(WireError::Kind(head[0]))?;
    let number = head[1..].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Ok(Some((Frame { kind, number, body }, HEADER + body.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Vec<u8> {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, Frame { kind: Kind::Messages, number: 7, body: b"content" });
        bytes
    }

    #[test]
    fn a_frame_is_read_back() {
        let bytes = frame();
        let (read, length) = read_frame(&bytes).unwrap().unwrap();
        assert_eq!(read, Frame { kind: Kind::Messages, number: 7, body: b"content" });
        assert_eq!(length, bytes.len());
        for cut in 0..bytes.len() {
            assert_eq!(read_frame(&bytes[..cut]), Ok(None), "cut at {cut}");
        }
    }

    #[test]
    fn malformed_frames_are_refused() {
        let good = frame();
        let with = |at: usize, bytes: &[u8]| {
            let mut frame = good.clone();
            frame[at..at + bytes.len()].copy_from_slice(bytes);
            frame
        };
        let mut odd = Vec::new();
        write_frame(&mut odd, Frame { kind: Kind::Ack, number: 0, body: &[] });
        odd[8] = 9;
        let checksum = crc32c::crc32c(&odd[8..]);
        odd[4..8].copy_from_slice(&checksum.to_be_bytes());
        for (bytes, error) in [
            (with(0, &[0; 4]), WireError::Length(0)),
            (with(0, &[0, 0, 0, 8]), WireError::Length(8)),
            (with(0, &[0xff; 4]), WireError::Length(u32::MAX)),
            (with(0, &[0x40, 0, 0, 1]), WireError::Length(MAX_FRAME as u32 + 1)),
            (with(4, &[0; 4]), WireError::Damaged),
            (with(8, &[4]), WireError::Damaged),
            (with(16, &[8]), WireError::Damaged),
            (with(good.len() - 1, &[1]), WireError::Damaged),
            (odd, WireError::Kind(9)),
        ] {
            assert_eq!(read_frame(&bytes), Err(error), "{bytes:?}");
        }
    }
}
