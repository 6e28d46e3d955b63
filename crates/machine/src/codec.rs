//! Encoding of messages, records and checkpoint parts: postcard, appended to a buffer.

use postcard::ser_flavors::{Flavor, Size};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Foreign, Protocol};

/// Appends the encoding of `value`.
pub fn append(value: &impl Serialize, bytes: &mut Vec<u8>) {
    let appended = postcard::serialize_with_flavor(value, Appended(bytes));
    appended.expect("a vector takes all bytes");
}

/// Returns the number of bytes that [`append`] would append.
pub fn encoded_bytes(value: &impl Serialize) -> usize {
    postcard::serialize_with_flavor(value, Size::default()).expect("counting takes all bytes")
}

/// Reads a value from the beginning of `bytes`, and returns what follows it; `None` if no such
/// value begins there.
pub fn take<T: DeserializeOwned>(bytes: &[u8]) -> Option<(T, &[u8])> {
    postcard::take_from_bytes(bytes).ok()
}

impl Protocol {
    /// Appends the bytes of a record or part: number, version, encoding.
    pub fn append_record(&self, value: &impl Serialize, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.record_header());
        append(value, bytes);
    }

    /// Decodes a record or part of one of the protocols in `known`. All of them must encode the
    /// same type.
    ///
    /// # Errors
    /// The bytes are of another protocol or version, or are not a valid record of this type.
    pub fn decode_record<T: DeserializeOwned>(
        known: &'static [Protocol],
        bytes: &[u8],
    ) -> Result<T, DecodeError> {
        let (_, body) = Protocol::read_records(known, bytes).map_err(DecodeError::Foreign)?;
        match postcard::take_from_bytes(body) {
            Ok((value, [])) => Ok(value),
            Ok(_) => Err(DecodeError::Malformed("bytes are left over".to_owned())),
            Err(error) => Err(DecodeError::Malformed(error.to_string())),
        }
    }
}

/// A serializer that appends to a vector.
struct Appended<'a>(&'a mut Vec<u8>);

impl Flavor for Appended<'_> {
    type Output = ();

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        // Most numbers encode to one byte, and a call to copy it would dominate the cost.
        if let [byte] = bytes {
            return self.try_push(*byte);
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Reason why bytes are not a record or part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They are of another protocol or version.
    #[error("bytes that cannot be read: {0}")]
    Foreign(Foreign),
    /// They have the expected header but not the encoding that this version writes.
    #[error("no record: {0}")]
    Malformed(String),
}
