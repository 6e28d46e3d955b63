//! How protocols are told apart in bytes that leave a process.

use std::fmt;

/// A protocol, as frames, records and tokens name it: what they hold of it begins with its number and a version.
///
/// Numbers are never given to another protocol. The encodings of messages, records and pasts have versions of their own:
/// other nodes must understand the first, later builds the second on the same disk, and whoever is given a token the third.
/// Variants keep their numbers within a version; new ones come after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Tells the protocol from all others, past and future.
    pub number: u8,
    /// For people.
    pub name: &'static str,
    /// The oldest version of messages that this build can write and read, and the newest, which it prefers.
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
    /// They are of the protocol with this number.
    Protocol {
        /// Whose bytes they are.
        found: u8,
        /// Who reads them.
        expected: Protocol,
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

    /// Reads what stands before a session's past. Returns what comes after it.
    ///
    /// # Errors
    /// See [`Foreign`].
    pub fn read_past<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], Foreign> {
        self.read(self.pasts, bytes)
    }

    /// Reads what stands before messages. Returns what comes after it.
    ///
    /// # Errors
    /// See [`Foreign`].
    pub fn read_messages<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], Foreign> {
        self.read(self.messages, bytes)
    }

    /// Reads what stands before a record or a part. Returns what comes after it.
    ///
    /// # Errors
    /// See [`Foreign`].
    pub fn read_record<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], Foreign> {
        self.read(self.records, bytes)
    }

    fn read<'a>(&self, version: u8, bytes: &'a [u8]) -> Result<&'a [u8], Foreign> {
        let protocol = *self;
        match bytes.split_first_chunk::<{ Self::HEADER_BYTES }>() {
            None => Err(Foreign::Short),
            Some(([found, _], _)) if *found != self.number => {
                Err(Foreign::Protocol { found: *found, expected: protocol })
            }
            Some(([_, found], _)) if *found != version => {
                Err(Foreign::Version { found: *found, expected: version, protocol })
            }
            Some((_, rest)) => Ok(rest),
        }
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Foreign::Short => f.write_str("they are too short to name a protocol"),
            Foreign::Protocol { found, expected } => write!(
                f,
                "they are of protocol {found}, and this is {} ({}): a newer build wrote them, or \
                 they are something else",
                expected.number, expected.name
            ),
            Foreign::Version { found, expected, protocol } => write!(
                f,
                "they are of version {found} of {}, and this build reads version {expected}",
                protocol.name
            ),
        }
    }
}

impl std::error::Error for Foreign {}
