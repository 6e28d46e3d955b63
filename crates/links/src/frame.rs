//! The bytes of frames.
//!
//! `docs/formats/wire.md` draws them.

use std::fmt;

use solera_machine::Foreign;

/// The version of all that nodes say to one another.
pub(crate) const VERSION: u16 = 10;
/// Length, checksum, kind and number.
pub(crate) const HEADER: usize = 4 + 4 + 1 + 8;
/// The longest frame that is read. The largest value a client can send fits.
pub(crate) const MAX_FRAME: usize = 1 << 30;

/// What a frame carries. Acknowledgements and answers go to the node that has called, the others to
/// the called one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Messages between workers; numbered.
    Messages = 1,
    /// The number is the sender's clock, in microseconds since 1970.
    Ping = 2,
    /// A question to the called node; the number comes back with the answer.
    Ask = 3,
    /// All numbered frames up to this one have arrived.
    Ack = 4,
    /// The answer to a question.
    Answer = 5,
    /// The caller waits no longer for the answer to the question of this number.
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
    /// What it carries.
    pub kind: Kind,
    /// See [`Kind`].
    pub number: u64,
    /// The content.
    pub body: &'a [u8],
}

/// Bytes that no peer of this version sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// Shorter than a header, or longer than any frame.
    Length(u32),
    /// The checksum is of other bytes.
    Damaged,
    /// A kind of frame that does not exist, or that does not travel this way.
    Kind(u8),
    /// The content is not what the frame's kind says.
    Content,
    /// Messages of a protocol or version that this node does not run.
    Foreign(Foreign),
    /// Messages that cannot be from where they say, or are not for this node.
    Misplaced,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Length(length) => write!(f, "a frame of {length} bytes"),
            WireError::Damaged => write!(f, "a frame that was damaged on its way"),
            WireError::Kind(kind) => write!(f, "a frame of kind {kind}, which has no place here"),
            WireError::Content => write!(f, "a frame whose content cannot be read"),
            WireError::Foreign(foreign) => write!(f, "messages that cannot be read: {foreign}"),
            WireError::Misplaced => write!(f, "messages that do not fit this cluster"),
        }
    }
}

impl std::error::Error for WireError {}

/// Appends a frame.
///
/// # Panics
/// If the body is longer than any frame; [`encode_batch`](crate::encode_batch) makes no such
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

/// The first frame of `bytes` and its length there; `None` while it is not complete.
///
/// # Errors
/// No frame begins like this. Nothing after it can be trusted.
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
