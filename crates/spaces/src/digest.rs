//! Names of modules.

use data_encoding::HEXLOWER;
use ring::digest::SHA256;

/// Names a source: its SHA-256 in hexadecimal, by which all processes of a cluster know a module.
pub fn digest(source: &str) -> String {
    HEXLOWER.encode(ring::digest::digest(&SHA256, source.as_bytes()).as_ref())
}
