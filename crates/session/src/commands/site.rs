//! SOLERA.SITE: the name of the site.

use crate::context::Context;
use crate::session::Session;

/// SOLERA.SITE: the name of the site.
pub(crate) fn site<W: Context>(session: &mut Session<W>) {
    let name = session.worker.site_name(session.worker.address().site).to_owned();
    session.out.bulk(name.as_bytes());
}
