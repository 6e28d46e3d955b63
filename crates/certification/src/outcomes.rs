//! Recent outcomes, for clients that missed the reply and know the transaction's identifier.

use solera_machine::Latest;

use crate::payload::Outcome;

/// Number of outcomes that are remembered: the latest ones.
pub(crate) const REMEMBERED: usize = 65_536;

/// The last outcomes that became known here. They do not survive the process. A transaction has one
/// outcome.
pub(crate) type Outcomes<K> = Latest<K, Outcome>;
