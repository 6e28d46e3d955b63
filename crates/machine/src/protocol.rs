//! Identification of protocols in bytes that leave a process.

use std::fmt;

/// A protocol, as its bytes in frames, records and tokens identify it: they begin with its number
/// and a version.
///
/// A number is never reused for another protocol. The encodings of messages, records and pasts have
/// separate versions, because different readers must understand them: other nodes read messages,
/// later builds read records on the same disk, and clients return pasts in tokens. Variants keep
/// their numbers within a version; new variants are added at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Identifies the protocol among all others, past and future.
    pub number: u8,
    /// Human-readable name.
    pub name: &'static str,
    /// Oldest version of messages that this build can write and read.
    pub oldest_messages: u8,
    /// Newest version of messages that this build can write and read, which it prefers.
    pub messages: u8,
    /// Version of its records and of the parts of its checkpoints.
    pub records: u8,
    /// Version of its part of a token.
    pub pasts: u8,
}

/// Reason why bytes belong to another protocol or version than the reader expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// They are too short to contain a header.
    Short,
    /// They belong to a protocol that is not expected here.
    Protocol {
        /// Its number.
        found: u8,
        /// Protocols whose bytes can be read.
        known: &'static [Protocol],
    },
    /// They are of another version.
    Version {
        /// Their version.
        found: u8,
        /// Version that this build reads.
        expected: u8,
        /// Protocol that they belong to.
        protocol: Protocol,
    },
}

impl Protocol {
    /// Length in bytes of the header of messages, records and pasts.
    pub const HEADER_BYTES: usize = 2;

    /// Returns the header of messages.
    pub const fn message_header(&self) -> [u8; Self::HEADER_BYTES] {
        [self.number, self.messages]
    }

    /// Returns the header of a record or a part.
    pub const fn record_header(&self) -> [u8; Self::HEADER_BYTES] {
        [self.number, self.records]
    }

    /// Returns the header of a session's past.
    pub const fn past_header(&self) -> [u8; Self::HEADER_BYTES] {
        [self.number, self.pasts]
    }

    /// Reads the header of a session's past. Returns the protocol that it names and the remaining
    /// bytes.
    ///
    /// # Errors
    /// See [`Foreign`].
    pub fn read_past<'a>(
        known: &'static [Protocol],
        bytes: &'a [u8],
    ) -> Result<(Protocol, &'a [u8]), Foreign> {
        read(known, |protocol| protocol.pasts, bytes)
    }

    /// Reads the header of messages. Returns the protocol that it names and the remaining bytes.
    ///
    /// # Errors
    /// See [`Foreign`].
    pub fn read_messages<'a>(
        known: &'static [Protocol],
        bytes: &'a [u8],
    ) -> Result<(Protocol, &'a [u8]), Foreign> {
        read(known, |protocol| protocol.messages, bytes)
    }

    /// Reads the header of a record or a part. Returns the protocol that it names and the remaining
    /// bytes.
    ///
    /// # Errors
    /// See [`Foreign`].
    pub fn read_records<'a>(
        known: &'static [Protocol],
        bytes: &'a [u8],
    ) -> Result<(Protocol, &'a [u8]), Foreign> {
        read(known, |protocol| protocol.records, bytes)
    }
}

/// Reads a header and compares its version to the one that `version` returns for the protocol.
fn read<'a>(
    known: &'static [Protocol],
    version: impl Fn(&Protocol) -> u8,
    bytes: &'a [u8],
) -> Result<(Protocol, &'a [u8]), Foreign> {
    let Some(([number, found], rest)) = bytes.split_first_chunk() else {
        return Err(Foreign::Short);
    };
    let Some(protocol) = known.iter().find(|protocol| protocol.number == *number) else {
        return Err(Foreign::Protocol { found: *number, known });
    };
    let expected = version(protocol);
    if *found != expected {
        return Err(Foreign::Version { found: *found, expected, protocol: *protocol });
    }
    Ok((*protocol, rest))
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Foreign::Short => f.write_str("they are too short to name a protocol"),
            Foreign::Protocol { found, known } => {
                write!(f, "they are of protocol {found}, and this build knows ")?;
                for (place, Protocol { number, name, .. }) in known.iter().enumerate() {
                    let or = if place > 0 { " and " } else { "" };
                    write!(f, "{or}{number} ({name})")?;
                }
                f.write_str(": a newer build wrote them, or they are other data")
            }
            Foreign::Version { found, expected, protocol } => write!(
                f,
                "they are of version {found} of {}, and this build reads version {expected}",
                protocol.name
            ),
        }
    }
}

impl std::error::Error for Foreign {}
