use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

/// Maximum length of bytes that are stored inline instead of on the heap: most keys and numbers.
const INLINE: usize = 22;

#[derive(Clone)]
enum Bytes {
    Inline { len: u8, bytes: [u8; INLINE] },
    Shared(Arc<[u8]>),
}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Bytes::Shared(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for Bytes {
    fn from(slice: &[u8]) -> Self {
        if slice.len() > INLINE {
            return Bytes::Shared(slice.into());
        }
        let mut bytes = [0; INLINE];
        bytes[..slice.len()].copy_from_slice(slice);
        Bytes::Inline { len: slice.len() as u8, bytes }
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.as_slice())
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfBytes;

        impl Visitor<'_> for OfBytes {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(bytes.into())
            }
        }

        deserializer.deserialize_bytes(OfBytes)
    }
}

macro_rules! blob {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, serde::Serialize, serde::Deserialize)]
        pub struct $name(Bytes);

        impl $name {
            /// Returns the bytes.
            pub fn as_bytes(&self) -> &[u8] {
                self.0.as_slice()
            }
        }

        impl Deref for $name {
            type Target = [u8];
            fn deref(&self) -> &[u8] {
                self.as_bytes()
            }
        }

        impl Borrow<[u8]> for $name {
            fn borrow(&self) -> &[u8] {
                self.as_bytes()
            }
        }

        // Compares the bytes, as `Borrow` requires.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.as_bytes() == other.as_bytes()
            }
        }

        impl Eq for $name {}

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                self.as_bytes().cmp(other.as_bytes())
            }
        }

        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.as_bytes().hash(state);
            }
        }

        impl From<&[u8]> for $name {
            fn from(bytes: &[u8]) -> Self {
                $name(bytes.into())
            }
        }

        impl From<&$name> for $name {
            fn from(shared: &$name) -> Self {
                shared.clone()
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                text.as_bytes().into()
            }
        }

        impl From<Vec<u8>> for $name {
            fn from(bytes: Vec<u8>) -> Self {
                bytes.as_slice().into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.as_bytes().escape_ascii())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{self}\"")
            }
        }
    };
}

/// Beginning of keys, after the prefix of their space, that are reserved for modules and for the
/// records of mixed transactions.
pub const RESERVED: &str = "solera:";

/// Beginning of the reserved keys that contain the cluster's agreements on error bounds. They are
/// of no use in another cluster.
pub const BOUNDS: &str = "solera:bounds:";

blob! {
    /// A key: any bytes. Cloning is cheap, because long keys are shared.
    Key
}

blob! {
    /// A value, a set's element or a hash's field name: any bytes. Cloning is cheap, because long
    /// values are shared.
    Value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_bytes_stay_what_they_are() {
        let text = "0123456789012345678901234567890";
        for len in [0, 1, INLINE - 1, INLINE, INLINE + 1, text.len()] {
            let value = Value::from(&text[..len]);
            assert_eq!(value.as_bytes(), &text.as_bytes()[..len]);
            assert_eq!(value.clone(), value);
            assert_eq!(value.cmp(&Value::from("01234")), text[..len].cmp("01234"));
        }
        assert_eq!(size_of::<Key>(), 24);
    }
}
