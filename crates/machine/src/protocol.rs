//! How protocols are told apart in bytes that leave a process.

use std::fmt;

/// A protocol, as frames, records and tokens name it: what they hold of it begins with its number
/// and a version.
///
/// Numbers are never given to another protocol. The encodings of messages, records and pasts have
/// versions of their own: other nodes must understand the first, later builds the second on the
/// same disk, and whoever is given a token the third. Variants keep their numbers within a version;
/// new ones come after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Tells the protocol from all others, past and future.
    pub number: u8,
    /// For people.
    pub name: &'static str,
    /// The oldest version of messages that this build can write and read, and the newest, which it
    /// prefers.
    pub oldest_messages: u8,
    /// See `oldest_messages`.
    pub messages: u8,
    /// The version of its records and of the parts of its checkpoints.
    pub records: u8,
    /// The version of what a session carries of it in a token.
    pub pasts: u8,
}

/// Bytes that begin with another protocol or version than the one that reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// They are too short to tell.
    Short,
    /// They are of a protocol that is not expected here.
    Protocol {
        /// Its number.
        found: u8,
        /// Whose bytes can be read.
        known: &'static [Protocol],
    },
    /// They are of another version.
    Version {
        /// Their version.
        found: u8,
        /// The version that is read.
        expected: u8,
        /// Whose bytes they are.
        protocol: Protocol,
    },
}

impl Protocol {
    /// Length in bytes of what stands before messages and records.
    pub const HEADER_BYTES: usize = 2;

    /// What stands before messages.
    pub const fn message_header(&self) -> [u8; Self::HEADER_BYTES] {
        [self.number, self.messages]
    }

    /// What stands before a record or a part.
    pub const fn record_header(&self) -> [u8; Self::HEADER_BYTES] {
        [self.number, self.records]
    }

    /// What stands before a session's past.
    pub const fn past_header(&self) -> [u8; Self::HEADER_BYTES] {
        [self.number, self.pasts]
    }

    /// Reads what stands before a session's past. Returns which of the protocols it names, and what
    /// comes after it.
    ///
    /// # Errors
    /// See [`Foreign`].
    pub fn read_past<'a>(
        known: &'static [Protocol],
        bytes: &'a [u8],
    ) -> Result<(Protocol, &'a [u8]), Foreign> {
        read(known, |protocol| protocol.pasts, bytes)
    }

    /// Reads what stands before messages. Returns which of the protocols it names, and what comes
    /// after it.
    ///
    /// # Errors
    /// See [`Foreign`].
    pub fn read_messages<'a>(
        known: &'static [Protocol],
        bytes: &'a [u8],
    ) -> Result<(Protocol, &'a [u8]), Foreign> {
        read(known, |protocol| protocol.messages, bytes)
    }

    /// Reads what stands before a record or a part. Returns which of the protocols it names, and
    /// what comes after it.
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

/// Reads a protocol's number and the version that `version` says is read.
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
                write!(f, "they are of protocol {found}, and this is ")?;
                for (place, Protocol { number, name, .. }) in known.iter().enumerate() {
                    let or = if place > 0 { " or " } else { "" };
                    write!(f, "{or}{number} ({name})")?;
                }
                f.write_str(": a newer build wrote them, or they are something else")
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
