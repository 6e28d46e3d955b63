//! Tokens in use without a promise.

use crate::agreed::Key;
use crate::numbers::{Epoch, Tokens};

/// Tokens that an update uses which commits in this step. The host passes it to
/// [`note_commit`](crate::Reservations::note_commit), or to
/// [`give_back_spent`](crate::Reservations::give_back_spent). Otherwise the tokens stay in use
/// until the process ends.
#[derive(Debug)]
#[must_use]
pub struct Spent {
    pub(crate) key: Key,
    pub(crate) epoch: Epoch,
    pub(crate) tokens: Tokens,
}
