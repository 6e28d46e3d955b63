//! SOLERA.LEVEL: the level of a key.

use solera_resp::Arguments;

use crate::context::Context;
use crate::session::Session;

/// SOLERA.LEVEL key: what operations on a key promise.
pub(crate) fn level<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let level = session.worker.spec().spaces.space_of(arguments.get(1)).level_name();
    session.out.bulk(level.as_bytes());
}
