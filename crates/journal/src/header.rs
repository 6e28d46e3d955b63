//! Header of every file: its first sector with kind, owner and number.

use crate::disk::DiskFile;
use crate::error::{Damage, Error, Fault};
use crate::format::{MAX_NUMBER, VERSION};
use crate::identity::Identity;
use crate::record::{u32_at, u64_at};

/// Size of a header, a full sector, so that no write of a record can tear it.
pub(crate) const HEADER_BYTES: usize = 512;

const CHECKSUM: std::ops::Range<usize> = 12..16;
const IDENTITY_AT: usize = 48;

impl Identity {
    /// Creates an identity; fails with [`Error::IdentityTooLong`] beyond [`Identity::MAX_BYTES`].
    pub fn new(bytes: &[u8]) -> Result<Identity, Error> {
        let is_valid = bytes.len() <= Self::MAX_BYTES;
        is_valid
            .then(|| Identity(bytes.to_vec()))
            .ok_or(Error::IdentityTooLong { bytes: bytes.len() })
    }
}

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Segment,
    Snapshot,
}

impl Kind {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Kind::Segment => b"SLR-SEGM",
            Kind::Snapshot => b"SLR-SNAP",
        }
    }
}

/// Header of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// Number of the segment; 0 in a snapshot.
    pub(crate) number: u64,
    /// First record of a segment; last record that a snapshot covers.
    pub(crate) lsn: u64,
    /// Size of a segment, which detects truncated files; 0 in a snapshot, which has an end mark.
    pub(crate) size: u64,
    pub(crate) identity: Identity,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let identity = self.identity.as_bytes();
        bytes[..8].copy_from_slice(self.kind.magic());
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.lsn.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.size.to_le_bytes());
        bytes[40] = identity.len() as u8;
        bytes[IDENTITY_AT..IDENTITY_AT + identity.len()].copy_from_slice(identity);
        let checksum = crc32c::crc32c(&bytes);
        bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Returns the seed of the checksums of the file's frames.
    ///
    /// The seed of a segment is that of its journal, because a record's number is unique there.
    /// Each snapshot numbers its records from the beginning, so its seed also depends on the
    /// snapshot.
    pub(crate) fn seed(&self) -> u32 {
        match self.kind {
            Kind::Segment => self.identity.seed(),
            Kind::Snapshot => crc32c::crc32c_append(self.identity.seed(), &self.lsn.to_le_bytes()),
        }
    }

    /// Reads the header of `file`, which has the name `name` of a file of this kind.
    pub(crate) fn read(kind: Kind, file: &impl DiskFile, name: &str) -> Result<Header, Error> {
        let bytes = file.len().map_err(|error| Error::io("open", name, &error))?;
        if bytes < HEADER_BYTES as u64 {
            return Err(damaged(name, Fault::HeaderCut { bytes }));
        }
        let mut header = [0; HEADER_BYTES];
        file.read_at(0, &mut header).map_err(|error| Error::io("read", name, &error))?;
        Header::decode(kind, &header, name)
    }

    fn decode(kind: Kind, bytes: &[u8; HEADER_BYTES], name: &str) -> Result<Header, Error> {
        let file = name.to_owned();
        if &bytes[..8] != kind.magic() {
            let found = bytes[..8].try_into().expect("eight bytes are eight bytes");
            return Err(Error::WrongMagic { file, found });
        }
        // Checked before the version, which may be damaged. All versions have this checksum.
        let mut blank = *bytes;
        blank[CHECKSUM].fill(0);
        let (expected, found) = (crc32c::crc32c(&blank), u32_at(bytes, CHECKSUM.start));
        if expected != found {
            return Err(damaged(name, Fault::HeaderChecksum { expected, found }));
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(Error::UnknownVersion { file, found: version });
        }
        let length = usize::from(bytes[40]).min(Identity::MAX_BYTES);
        let identity = Identity(bytes[IDENTITY_AT..IDENTITY_AT + length].to_vec());
        let (number, lsn, size) = (u64_at(bytes, 16), u64_at(bytes, 24), u64_at(bytes, 32));
        // Numbers never get this large in practice, so arithmetic on them cannot overflow.
        let least = u64::from(kind == Kind::Segment);
        if !(least..=MAX_NUMBER).contains(&lsn) {
            let fault = Fault::HeaderField { field: "LSN", expected: least, found: lsn };
            return Err(damaged(name, fault));
        }
        Ok(Header { kind, number, lsn, size, identity })
    }

    /// Checks that the file belongs to `expected`.
    pub(crate) fn check_owner(&self, expected: &Identity, name: &str) -> Result<(), Error> {
        if &self.identity == expected {
            return Ok(());
        }
        let (expected, found) = (expected.clone(), self.identity.clone());
        Err(Error::OtherIdentity { file: name.to_owned(), expected, found })
    }
}

/// Returns the error for a fault in the header of the file `name`.
pub(crate) fn damaged(name: &str, fault: Fault) -> Error {
    Error::Damaged(Damage { file: name.to_owned(), offset: 0, fault })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let identity = Identity::new(b"c/1/0").unwrap();
        Header { kind: Kind::Segment, number: 4, lsn: 17, size: 512, identity }
    }

    #[test]
    fn a_header_survives() {
        let bytes = header().encode();
        assert_eq!(Header::decode(Kind::Segment, &bytes, "a"), Ok(header()));
    }

    #[test]
    fn another_kind_and_version_are_distinguished_from_damage() {
        let mut bytes = header().encode();
        let other = Header::decode(Kind::Snapshot, &bytes, "a");
        assert_eq!(
            other,
            Err(Error::WrongMagic { file: "a".to_owned(), found: *Kind::Segment.magic() })
        );
        bytes[8] = 2;
        let rotten = Header::decode(Kind::Segment, &bytes, "a");
        assert!(matches!(rotten, Err(Error::Damaged(_))), "{rotten:?}");
        bytes[CHECKSUM].fill(0);
        let checksum = crc32c::crc32c(&bytes);
        bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        let newer = Header::decode(Kind::Segment, &bytes, "a");
        assert_eq!(newer, Err(Error::UnknownVersion { file: "a".to_owned(), found: 2 }));
    }

    #[test]
    fn no_flipped_bit_passes() {
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = header().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(Kind::Segment, &bytes, "a").is_err(), "bit {bit}");
        }
    }

    #[test]
    fn frames_of_another_snapshot_or_journal_are_not_intact_here() {
        let seed = |kind, lsn, identity| {
            let identity = Identity::new(identity).unwrap();
            Header { kind, lsn, identity, ..header() }.seed()
        };
        assert_ne!(seed(Kind::Snapshot, 1, b"a"), seed(Kind::Snapshot, 2, b"a"));
        assert_ne!(seed(Kind::Snapshot, 1, b"a"), seed(Kind::Snapshot, 1, b"b"));
        assert_ne!(seed(Kind::Segment, 1, b"a"), seed(Kind::Segment, 1, b"b"));
        assert_eq!(seed(Kind::Segment, 1, b"a"), seed(Kind::Segment, 2, b"a"));
    }

    #[test]
    fn identities_have_a_longest() {
        assert!(Identity::new(&[1; 64]).is_ok());
        assert_eq!(Identity::new(&[1; 65]), Err(Error::IdentityTooLong { bytes: 65 }));
    }
}
