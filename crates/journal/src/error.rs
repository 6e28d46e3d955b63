//! Errors of journals, for operators.

use std::fmt;
use std::io::{self, ErrorKind};

use crate::format::{MAX_RECORD_BYTES, VERSION};
use crate::identity::Identity;
use crate::lsn::Lsn;

/// Error of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A system call failed.
    Io {
        /// The failed action: "write", "sync".
        doing: &'static str,
        /// File of the journal's directory.
        file: String,
        /// The kind of failure.
        kind: ErrorKind,
        /// Error message of the system.
        reason: String,
    },
    /// No space is left for the journal to grow.
    DiskFull {
        /// The failed action.
        doing: &'static str,
        /// The file.
        file: String,
    },
    /// Another process, or this one, has the journal open already.
    Locked,
    /// A file has the name of a journal file but begins with other bytes.
    WrongMagic {
        /// The file.
        file: String,
        /// Its first bytes.
        found: [u8; 8],
    },
    /// A file has an unknown version of the format.
    UnknownVersion {
        /// The file.
        file: String,
        /// Version of its format.
        found: u32,
    },
    /// A file belongs to another cluster, node or worker.
    OtherIdentity {
        /// The file.
        file: String,
        /// Identity of the node that opens the journal.
        expected: Identity,
        /// Identity in the file.
        found: Identity,
    },
    /// An identity is too long for a header.
    IdentityTooLong {
        /// Its length.
        bytes: usize,
    },
    /// Bytes on the disk differ from those that were written.
    Damaged(Damage),
    /// A segment in the sequence is missing.
    MissingSegment {
        /// The segment's file.
        file: String,
        /// First record after the missing ones.
        before: Lsn,
    },
    /// The journal ends before the last record that its snapshot covers.
    EndsBeforeSnapshot {
        /// The snapshot's last record.
        snapshot: Lsn,
        /// The journal's last record.
        last: Lsn,
    },
    /// The owner of the journal could not read a record during replay.
    Refused {
        /// File of the record.
        file: String,
        /// Offset in the file.
        offset: u64,
        /// Reason that the owner gave.
        reason: String,
    },
    /// The owner of the journal cannot use the data as a whole.
    Unfit {
        /// Reason that the owner gave.
        reason: String,
    },
    /// A record longer than [`MAX_RECORD_BYTES`].
    RecordTooLarge {
        /// Its length.
        bytes: usize,
    },
    /// The records of a snapshot were not appended yet, or are covered by a newer snapshot.
    SnapshotOutOfOrder {
        /// The snapshot's last record.
        snapshot: Lsn,
        /// Oldest possible last record.
        from: Lsn,
        /// Newest possible last record.
        to: Lsn,
    },
    /// The journal failed before, and accepts no records since.
    Failed(Box<Error>),
    /// The thread that syncs has panicked.
    Stopped,
    /// The remaining data cannot be repaired.
    BeyondRepair(Box<Error>),
}

/// Location and kind of damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The damaged file.
    pub file: String,
    /// Offset in the file.
    pub offset: u64,
    /// Kind of the damage.
    pub fault: Fault,
}

/// Kind of damage: the expected and the found data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file is shorter than a header.
    HeaderCut {
        /// The file's length.
        bytes: u64,
    },
    /// The header's checksum does not match its bytes.
    HeaderChecksum {
        /// Checksum of the bytes.
        expected: u32,
        /// Value read.
        found: u32,
    },
    /// The header has another number or LSN than the file's name or the previous segment require.
    HeaderField {
        /// Name of the field.
        field: &'static str,
        /// Value that the name or the previous segment requires.
        expected: u64,
        /// Value read.
        found: u64,
    },
    /// Zeros, or the end of the file, instead of a record.
    Blank {
        /// Number of the record.
        expected: u64,
    },
    /// A record exceeds the rest of the file.
    Length {
        /// Remaining bytes.
        room: u64,
        /// Length of the record.
        found: u64,
    },
    /// A record's checksum does not match its bytes.
    Checksum {
        /// Checksum of the bytes.
        expected: u32,
        /// Value read.
        found: u32,
    },
    /// An intact record with the wrong number.
    Order {
        /// Expected number.
        expected: u64,
        /// Value read.
        found: u64,
    },
    /// An intact mark that was written for another offset.
    Place {
        /// Offset where it was found.
        expected: u64,
        /// Offset that it contains.
        found: u64,
    },
    /// A snapshot has bytes after its end.
    Surplus {
        /// Number of these bytes.
        bytes: u64,
    },
}

impl Error {
    /// Converts an error of a system call.
    pub(crate) fn io(doing: &'static str, file: &str, error: &io::Error) -> Error {
        let file = file.to_owned();
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::DiskFull { doing, file },
            kind => Error::Io { doing, file, kind, reason: error.to_string() },
        }
    }

    /// Returns the error of an owner that could not read a record.
    pub(crate) fn refused(file: &str, offset: u64, reason: String) -> Error {
        Error::Refused { file: file.to_owned(), offset, reason }
    }

    /// Returns whether the cause is a full disk, which an operator can fix without losing data.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Error::DiskFull { .. } => true,
            Error::Failed(cause) => cause.is_disk_full(),
            _ => false,
        }
    }
}

impl Error {
    /// Returns the affected file, if any.
    pub fn file(&self) -> Option<&str> {
        match self {
            Error::Io { file, .. }
            | Error::DiskFull { file, .. }
            | Error::WrongMagic { file, .. }
            | Error::UnknownVersion { file, .. }
            | Error::OtherIdentity { file, .. }
            | Error::MissingSegment { file, .. }
            | Error::Refused { file, .. } => Some(file),
            Error::Damaged(damage) => Some(&damage.file),
            Error::Failed(cause) | Error::BeyondRepair(cause) => cause.file(),
            Error::Locked
            | Error::Unfit { .. }
            | Error::IdentityTooLong { .. }
            | Error::EndsBeforeSnapshot { .. }
            | Error::RecordTooLarge { .. }
            | Error::SnapshotOutOfOrder { .. }
            | Error::Stopped => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { doing, file, reason, .. } => write!(f, "cannot {doing} {file}: {reason}"),
            Error::DiskFull { doing: "allocate", file } => write!(
                f,
                "the disk is full: it has no room for the journal's next segment ({file}); make room"
            ),
            Error::DiskFull { doing, file } => {
                write!(f, "cannot {doing} {file}: the disk is full; make room")
            }
            Error::Locked => f.write_str(
                "the journal is in use: another process holds its lock; only one may open it",
            ),
            Error::WrongMagic { file, found } => {
                write!(f, "{file} is not a journal's file: it begins with {}", found.escape_ascii())
            }
            Error::UnknownVersion { file, found } => write!(
                f,
                "{file} has format version {found}; this program knows {VERSION}: use a newer one"
            ),
            Error::OtherIdentity { file, expected, found } => {
                write!(f, "{file} belongs to {found}, and this is {expected}")
            }
            Error::IdentityTooLong { bytes } => {
                write!(f, "an identity of {bytes} bytes; at most {} fit", Identity::MAX_BYTES)
            }
            Error::Damaged(damage) => damage.fmt(f),
            Error::MissingSegment { file, before } => {
                write!(f, "{file} is missing, and with it records before {before}")
            }
            Error::EndsBeforeSnapshot { snapshot, last } => write!(
                f,
                "the journal ends with record {last}, but its snapshot reaches to {snapshot}: \
                 segments are missing or damaged"
            ),
            Error::Refused { file, offset, reason } => {
                write!(f, "the record at byte {offset} of {file} cannot be read: {reason}")
            }
            Error::Unfit { reason } => {
                write!(f, "the data does not fit the configuration: {reason}")
            }
            Error::RecordTooLarge { bytes } => {
                write!(f, "a record of {bytes} bytes; at most {MAX_RECORD_BYTES} are possible")
            }
            Error::SnapshotOutOfOrder { snapshot, from, to } => {
                write!(f, "no snapshot can be made at {snapshot}, only from {from} to {to}")
            }
            Error::Failed(cause) => write!(f, "the journal failed before: {cause}"),
            Error::Stopped => f.write_str("the journal's thread is gone: it panicked"),
            Error::BeyondRepair(cause) => {
                write!(f, "nothing that opens can be made of what is left ({cause})")
            }
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is damaged at byte {}: {}", self.file, self.offset, self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::HeaderCut { bytes } => write!(f, "the file ends after {bytes} bytes of header"),
            Fault::HeaderChecksum { expected, found } => {
                write!(f, "the header's checksum is {found:08x}, its bytes give {expected:08x}")
            }
            Fault::HeaderField { field, expected, found } => {
                write!(f, "the header's {field} is {found} instead of {expected}")
            }
            Fault::Blank { expected } => write!(f, "record {expected} is not there"),
            Fault::Length { room, found } => {
                write!(f, "a record of {found} bytes where {room} are left")
            }
            Fault::Checksum { expected, found } => {
                write!(f, "a record's checksum is {found:08x}, its bytes give {expected:08x}")
            }
            Fault::Order { expected, found } => {
                write!(f, "record {found} stands where {expected} belongs")
            }
            Fault::Place { expected, found } => {
                write!(f, "a mark for byte {found} stands at byte {expected}")
            }
            Fault::Surplus { bytes } => write!(f, "{bytes} bytes follow the end of the snapshot"),
        }
    }
}
