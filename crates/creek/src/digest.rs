//! Digest of the final operations.

use serde::{Deserialize, Serialize};
use solera_machine::codec;

use crate::ids::OperationId;

/// Digest of a sequence of operations and their responses. Two sites with the same digest at the
/// same position have executed the same operations in the same order, with the same results.
///
/// It detects programs that are not deterministic and damaged state, not attacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest(pub u64);

/// Prime of the 64-bit FNV-1a hash.
const PRIME: u64 = 0x0100_0000_01b3;
/// Basis of the 64-bit FNV-1a hash.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

impl Digest {
    /// Returns the digest of the sequence with one more operation.
    pub(crate) fn then<R: Serialize>(self, id: OperationId, response: Option<&R>) -> Digest {
        let mut bytes = Vec::new();
        codec::append(&(self.0, id, response), &mut bytes);
        let hash =
            bytes.iter().fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
        Digest(hash)
    }
}
