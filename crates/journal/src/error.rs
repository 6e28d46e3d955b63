//! What can go wrong, in the words of whoever has to mend it.

use std::fmt;
use std::io::{self, ErrorKind};

use crate::format::{MAX_RECORD_BYTES, VERSION};
use crate::identity::Identity;
use crate::lsn::Lsn;

/// Why a journal could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The operating system refused or failed.
    Io {
        /// What was being done: "write", "sync".
        doing: &'static str,
        /// To which file of the journal's directory.
        file: String,
        /// The kind of failure.
        kind: ErrorKind,
        /// The system's own words.
        reason: String,
    },
    /// No space is left for the journal to grow.
    DiskFull {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        file: String,
    },
    /// Another process, or this one, has the journal open already.
    Locked,
    /// A file bears a journal's name, but begins with other bytes.
    WrongMagic {
        /// The file.
        file: String,
        /// Its first bytes.
        found: [u8; 8],
    },
    /// A file has a format that this program does not know.
    UnknownVersion {
        /// The file.
        file: String,
        /// Its format's version.
        found: u32,
    },
    /// A file belongs to another cluster, node or worker.
    OtherIdentity {
        /// The file.
        file: String,
        /// Who opens the journal.
        expected: Identity,
        /// Whose file it is.
        found: Identity,
    },
    /// An identity longer than a header has room for.
    IdentityTooLong {
        /// Its length.
        bytes: usize,
    },
    /// Bytes on the disk are not those that were written.
    Damaged(Damage),
    /// A segment in the sequence is not there.
    MissingSegment {
        /// The segment's file.
        file: String,
        /// The first record that is not missing with it.
        before: Lsn,
    },
    /// The journal ends before the record that its snapshot reaches to.
    EndsBeforeSnapshot {
        /// The snapshot's last record.
        snapshot: Lsn,
        /// The journal's last record.
        last: Lsn,
    },
    /// Whoever replays the journal could not read a record.
    Refused {
        /// The file it stands in.
        file: String,
        /// Where in the file.
        offset: u64,
        /// The reader's words.
        reason: String,
    },
    /// A record longer than [`MAX_RECORD_BYTES`].
    RecordTooLarge {
        /// Its length.
        bytes: usize,
    },
    /// A snapshot of records that the journal does not hold yet, or that it replaced by a newer
    /// one.
    SnapshotOutOfOrder {
        /// The snapshot's last record.
        snapshot: Lsn,
        /// The oldest that could be taken.
        from: Lsn,
        /// The newest that could be taken.
        to: Lsn,
    },
    /// The journal failed before, and takes nothing since.
    Failed(Box<Error>),
    /// The thread that syncs is gone: it panicked.
    Stopped,
    /// What is left cannot be brought into a state that opens.
    BeyondRepair(Box<Error>),
}

/// Where bytes are not what was written, and how that shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The damaged file.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// What was expected, and what was found.
    pub fault: Fault,
}

/// What was expected of a place, and what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file is shorter than a header.
    HeaderCut {
        /// The file's length.
        bytes: u64,
    },
    /// The header's checksum does not match its bytes.
    HeaderChecksum {
        /// Computed from the bytes.
        expected: u32,
        /// Read.
        found: u32,
    },
    /// The header tells another number or LSN than the file's name or the segment before.
    HeaderField {
        /// Which field.
        field: &'static str,
        /// What the name or the segment before calls for.
        expected: u64,
        /// Read.
        found: u64,
    },
    /// Zeros, or the end of the file, where a record should be.
    Blank {
        /// The record's number.
        expected: u64,
    },
    /// A record that is longer than what is left of the file.
    Length {
        /// The room left.
        room: u64,
        /// The record's length as read.
        found: u64,
    },
    /// A record's checksum does not match its bytes.
    Checksum {
        /// Computed from the bytes.
        expected: u32,
        /// Read.
        found: u32,
    },
    /// An intact record, but another one than belongs here.
    Order {
        /// The number that belongs here.
        expected: u64,
        /// Read.
        found: u64,
    },
    /// An intact mark that was written for another place.
    Place {
        /// Where it was found.
        expected: u64,
        /// Where it says that it stands.
        found: u64,
    },
    /// A snapshot with bytes after its end.
    Surplus {
        /// How many.
        bytes: u64,
    },
}

impl Error {
    /// What a failed call of the operating system means.
    pub(crate) fn io(doing: &'static str, file: &str, error: &io::Error) -> Error {
        let file = file.to_owned();
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::DiskFull { doing, file },
            kind => Error::Io { doing, file, kind, reason: error.to_string() },
        }
    }

    /// What the reader of a record says that could not read it.
    pub(crate) fn refused(file: &str, offset: u64, reason: String) -> Error {
        Error::Refused { file: file.to_owned(), offset, reason }
    }

    /// Whether the cause is a lack of space, which someone can mend without losing anything.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Error::DiskFull { .. } => true,
            Error::Failed(cause) => cause.is_disk_full(),
            _ => false,
        }
    }
}

impl Error {
    /// The file that it is about, if it is about one.
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
