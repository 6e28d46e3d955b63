//! Digests of modules.

use data_encoding::HEXLOWER;
use ring::digest::SHA256;

/// Returns the SHA-256 of a source in hexadecimal, by which all processes of a cluster name a
/// module.
pub fn digest(source: &str) -> String {
    HEXLOWER.encode(ring::digest::digest(&SHA256, source.as_bytes()).as_ref())
}
