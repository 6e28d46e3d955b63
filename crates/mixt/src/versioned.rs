//! Encoding of all that transactions store and send: postcard, after one byte with the version.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Version of the encoding. It increases with each change of the encoding and of the way in which
/// the compiler splits programs, because records identify groups and tapes by their numbers.
const ENCODING_VERSION: u8 = 5;

/// Error of bytes that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be read: {why}")]
pub struct Unreadable {
    pub(crate) what: &'static str,
    pub(crate) why: String,
}

pub(crate) fn encode(value: &impl Serialize) -> Arc<[u8]> {
    let bytes = postcard::to_extend(value, vec![ENCODING_VERSION]);
    bytes.expect("all parts have lengths, and the vector grows").into()
}

pub(crate) fn decode<T: DeserializeOwned>(
    bytes: &[u8],
    what: &'static str,
) -> Result<T, Unreadable> {
    match bytes.split_first() {
        Some((&ENCODING_VERSION, rest)) => {
            postcard::from_bytes(rest).map_err(|error| Unreadable { what, why: error.to_string() })
        }
        Some((form, _)) => Err(Unreadable {
            what,
            why: format!("it has version {form}, and this Solera reads version {ENCODING_VERSION}"),
        }),
        None => Err(Unreadable { what, why: "it is empty".to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::ENCODING_VERSION;

    #[test]
    fn the_page_describes_this_version() {
        let page = include_str!("../../../docs/formats/mixt.md");
        assert!(
            page.contains(&format!("\nVersion {ENCODING_VERSION}. ")),
            "docs/formats/mixt.md describes another version"
        );
    }
}
