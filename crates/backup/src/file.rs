//! The format of a backup. `docs/formats/backup.md` shows the bytes.

use std::io::{self, Read, Write};

use ring::digest::{Context, SHA256};

use crate::entry::{Content, Entry, Tally};
use crate::header::Header;

/// First bytes of every version. The rest of the line is the version's number.
const NAME: &[u8] = b"solera backup ";
const MAGIC: &[u8; 16] = b"solera backup 3\n";
/// Length of a frame's head: length, checksum and kind.
const FRAME_HEAD: usize = 4 + 4 + 1;
/// Approximate size of the frames that entries are gathered into.
const FRAME_BYTES: usize = 256 * 1024;
/// Maximal size of a frame; the longest value fits with its key.
const MAX_FRAME: usize = (1 << 30) + FRAME_BYTES;
/// Bit in the type of an entry that continues the one before.
const CONTINUED: u8 = 0x80;

const HEADER: u8 = b'H';
const KEYS: u8 = b'K';
const END: u8 = b'E';

/// Writes a backup. The backup is valid only after [`BackupWriter::finish`].
pub struct BackupWriter<W> {
    sink: Hashed<W>,
    body: Vec<u8>,
    last: Option<(Vec<u8>, u8)>,
    tally: Tally,
}

/// Hashes and counts all bytes that are written or read.
struct Hashed<S> {
    inner: S,
    context: Context,
    at: u64,
}

impl<S> Hashed<S> {
    fn new(inner: S) -> Self {
        Hashed { inner, context: Context::new(&SHA256), at: 0 }
    }

    fn passed(&mut self, bytes: &[u8]) {
        self.context.update(bytes);
        self.at += bytes.len() as u64;
    }
}

impl<W: Write> Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_all(bytes)?;
        self.passed(bytes);
        Ok(())
    }

    fn write_frame(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
        if body.len() > MAX_FRAME {
            return Err(io::Error::other("a value is too long for a backup"));
        }
        let length = (body.len() as u32).to_le_bytes();
        let checksum = checksum(self.at, length, kind, body).to_le_bytes();
        self.write(&[&length[..], &checksum, &[kind]].concat())?;
        self.write(body)
    }
}

/// Returns a frame's checksum. It covers the position, so that a misplaced frame counts as damage.
fn checksum(at: u64, length: [u8; 4], kind: u8, body: &[u8]) -> u32 {
    let head = [&at.to_le_bytes()[..], &length, &[kind]].concat();
    crc32c::crc32c_append(crc32c::crc32c(&head), body)
}

impl<W: Write> BackupWriter<W> {
    /// Begins a backup.
    ///
    /// # Errors
    /// The sink cannot be written.
    pub fn new(sink: W, header: &Header) -> io::Result<Self> {
        let mut sink = Hashed::new(sink);
        sink.write(MAGIC)?;
        sink.write_frame(HEADER, &serde_json::to_vec(header)?)?;
        Ok(BackupWriter { sink, body: Vec::new(), last: None, tally: Tally::default() })
    }

    /// Writes a key, or a further part of the one before.
    ///
    /// # Errors
    /// The sink cannot be written.
    pub fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let kind = entry.content.kind();
        let again =
            self.last.as_ref().is_some_and(|(key, last)| *key == entry.key && *last == kind);
        assert!(!entry.continued || again, "parts of a key follow one another");
        self.tally.add(entry);
        self.body.push(if entry.continued { kind | CONTINUED } else { kind });
        put(&mut self.body, &entry.key)?;
        put_length(&mut self.body, entry.content.len())?;
        match &entry.content {
            Content::String(value) => put(&mut self.body, value)?,
            Content::Set(elements) => {
                elements.iter().try_for_each(|element| put(&mut self.body, element))?;
            }
            Content::Hash(pairs) => {
                for (field, value) in pairs {
                    put(&mut self.body, field)?;
                    put(&mut self.body, value)?;
                }
            }
        }
        self.last = Some((entry.key.clone(), kind));
        if self.body.len() >= FRAME_BYTES { self.end_frame() } else { Ok(()) }
    }

    /// Completes the backup. The caller must make it durable.
    ///
    /// # Errors
    /// The sink cannot be written.
    pub fn finish(mut self) -> io::Result<(W, Tally)> {
        if !self.body.is_empty() {
            self.end_frame()?;
        }
        let Tally { strings, sets, hashes, elements, fields, bytes, digest } = self.tally;
        let mut body = Vec::new();
        for number in [strings, sets, hashes, elements, fields, bytes] {
            body.extend_from_slice(&number.to_le_bytes());
        }
        body.extend_from_slice(&digest.to_le_bytes());
        body.extend_from_slice(self.sink.context.clone().finish().as_ref());
        self.sink.write_frame(END, &body)?;
        self.sink.inner.flush()?;
        Ok((self.sink.inner, self.tally))
    }

    fn end_frame(&mut self) -> io::Result<()> {
        let body = std::mem::take(&mut self.body);
        self.sink.write_frame(KEYS, &body)
    }
}

fn put_length(body: &mut Vec<u8>, length: usize) -> io::Result<()> {
    let length = u32::try_from(length).map_err(|_| io::Error::other("more than 4 GiB"))?;
    body.extend_from_slice(&length.to_le_bytes());
    Ok(())
}

fn put(body: &mut Vec<u8>, bytes: &[u8]) -> io::Result<()> {
    put_length(body, bytes.len())?;
    body.extend_from_slice(bytes);
    Ok(())
}

/// Reason why a backup cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Io(io::Error),
    /// It does not begin with the magic bytes of a backup.
    #[error("this is not a backup of Solera")]
    NotABackup,
    /// It has another version of the format.
    #[error(
        "it is of version {0} of the format, and this program reads version 3 only; take a new \
         backup of the cluster"
    )]
    Version(String),
    /// Its header is intact but invalid, for this reason.
    #[error("its header cannot be used: {0}")]
    Header(String),
    /// It ends too early: it was never completed, or the file was cut.
    #[error("it is incomplete from byte {at} on: it was cut, or never finished")]
    Incomplete {
        /// Position of the incomplete part, in bytes.
        at: u64,
    },
    /// It was altered.
    #[error("it is damaged at byte {at}: {what}")]
    Damaged {
        /// Position of the damaged part, in bytes.
        at: u64,
        /// The damage.
        what: &'static str,
    },
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ReadError::Io(error)
    }
}

/// Reads a backup, part by part. Only reading up to the end proves that the backup is intact.
pub struct BackupReader<R> {
    source: Hashed<R>,
    header: Header,
    /// The current frame, and the number of its bytes that were read.
    body: Vec<u8>,
    used: usize,
    /// Position of the frame.
    at: u64,
    last: Option<(Vec<u8>, u8)>,
    tally: Tally,
    done: bool,
}

impl<R: Read> BackupReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// The source is not a backup, or not a readable one.
    pub fn open(source: R) -> Result<Self, ReadError> {
        let mut source = Hashed::new(source);
        let mut magic = Vec::new();
        source.inner.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic)?;
        if magic != MAGIC {
            return Err(match magic.strip_prefix(NAME) {
                Some(version) if magic.len() == MAGIC.len() => {
                    ReadError::Version(String::from_utf8_lossy(version).trim().to_owned())
                }
                Some(_) => ReadError::Incomplete { at: 0 },
                None => ReadError::NotABackup,
            });
        }
        source.passed(&magic);
        let at = source.at;
        let (kind, body) = read_frame(&mut source)?;
        if kind != HEADER {
            return Err(ReadError::Damaged { at, what: "there is no header" });
        }
        let header =
            serde_json::from_slice(&body).map_err(|error| ReadError::Header(error.to_string()))?;
        Ok(BackupReader {
            source,
            header,
            body: Vec::new(),
            used: 0,
            at,
            last: None,
            tally: Tally::default(),
            done: false,
        })
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the tally of the entries read so far; of all entries once there are no more.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Reads the next entry. Returns `None` at the end; the backup is then complete and intact.
    ///
    /// # Errors
    /// The backup is damaged, incomplete or unreadable.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, ReadError> {
        while self.used == self.body.len() {
            if self.done || !self.next_frame()? {
                return Ok(None);
            }
        }
        let mut rest = &self.body[self.used..];
        let entry = take_entry(&mut rest, self.last.as_ref());
        let entry = entry.map_err(|what| ReadError::Damaged { at: self.at, what })?;
        self.used = self.body.len() - rest.len();
        self.tally.add(&entry);
        self.last = Some((entry.key.clone(), entry.content.kind()));
        Ok(Some(entry))
    }

    /// Reads the next frame. Returns whether it holds entries.
    fn next_frame(&mut self) -> Result<bool, ReadError> {
        let hash = self.source.context.clone().finish();
        self.at = self.source.at;
        let (kind, body) = read_frame(&mut self.source)?;
        let damaged = |what| Err(ReadError::Damaged { at: self.at, what });
        match kind {
            KEYS if body.is_empty() => damaged("a part without keys"),
            KEYS => {
                (self.body, self.used) = (body, 0);
                Ok(true)
            }
            END => {
                let Tally { strings, sets, hashes, elements, fields, bytes, digest } = self.tally;
                let mut expected = Vec::new();
                for number in [strings, sets, hashes, elements, fields, bytes] {
                    expected.extend_from_slice(&number.to_le_bytes());
                }
                expected.extend_from_slice(&digest.to_le_bytes());
                expected.extend_from_slice(hash.as_ref());
                if body != expected {
                    return damaged("its content does not match its end");
                }
                let mut beyond = [0];
                if self.source.inner.read(&mut beyond)? != 0 {
                    let at = self.source.at;
                    return Err(ReadError::Damaged { at, what: "bytes follow its end" });
                }
                self.done = true;
                Ok(false)
            }
            _ => damaged("a part is of unknown kind"),
        }
    }
}

fn read_frame<R: Read>(source: &mut Hashed<R>) -> Result<(u8, Vec<u8>), ReadError> {
    let at = source.at;
    let head = read_exactly(source, FRAME_HEAD, at)?;
    let (length, rest) = head.split_first_chunk::<4>().expect("it has 9 bytes");
    let (expected, kind) = rest.split_first_chunk::<4>().expect("it has 5 bytes");
    let bytes = u32::from_le_bytes(*length) as usize;
    if bytes > MAX_FRAME {
        return Err(ReadError::Damaged { at, what: "a part is longer than the maximum" });
    }
    let body = read_exactly(source, bytes, at)?;
    if checksum(at, *length, kind[0], &body) != u32::from_le_bytes(*expected) {
        return Err(ReadError::Damaged { at, what: "a checksum does not match" });
    }
    Ok((kind[0], body))
}

/// Reads `length` bytes without allocating memory for bytes that are missing.
fn read_exactly<R: Read>(
    source: &mut Hashed<R>,
    length: usize,
    at: u64,
) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    source.inner.by_ref().take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(ReadError::Incomplete { at });
    }
    source.passed(&bytes);
    Ok(bytes)
}

const SHORT: &str = "an entry is longer than its part";

fn take_entry(rest: &mut &[u8], last: Option<&(Vec<u8>, u8)>) -> Result<Entry, &'static str> {
    let (kind, left) = rest.split_first().ok_or(SHORT)?;
    *rest = left;
    let (continued, kind) = (kind & CONTINUED != 0, kind & !CONTINUED);
    let key = take(rest)?;
    let again = last.is_some_and(|(other, of)| *other == key && *of == kind);
    if continued && !again {
        return Err("a part of a key without its beginning");
    }
    let count = take_length(rest)?;
    if count == 0 || (kind == 1 && (count > 1 || continued)) {
        return Err("a key has too few or too many values");
    }
    let content = match kind {
        1 => Content::String(take(rest)?),
        2 => Content::Set((0..count).map(|_| take(rest)).collect::<Result<_, _>>()?),
        3 => {
            let mut pair = || Ok::<_, &'static str>((take(rest)?, take(rest)?));
            Content::Hash((0..count).map(|_| pair()).collect::<Result<_, _>>()?)
        }
        _ => return Err("a key is of unknown type"),
    };
    Ok(Entry { key, continued, content })
}

fn take_length(rest: &mut &[u8]) -> Result<usize, &'static str> {
    let (length, left) = rest.split_first_chunk::<4>().ok_or(SHORT)?;
    *rest = left;
    Ok(u32::from_le_bytes(*length) as usize)
}

fn take(rest: &mut &[u8]) -> Result<Vec<u8>, &'static str> {
    let length = take_length(rest)?;
    let (bytes, left) = rest.split_at_checked(length).ok_or(SHORT)?;
    *rest = left;
    Ok(bytes.to_vec())
}
