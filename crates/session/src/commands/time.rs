//! TIME: the wall clock.

use crate::context::Context;
use crate::session::Session;

pub(crate) fn time<W: Context>(session: &mut Session<W>) {
    let micros = session.worker.now().physical.0;
    session.out.array(2);
    for part in [micros / 1_000_000, micros % 1_000_000] {
        session.out.bulk(part.to_string().as_bytes());
    }
}
