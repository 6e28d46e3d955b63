//! SOLERA.SITE: replies with the name of the site.

use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// SOLERA.SITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site;

impl Request for Site {
    fn parse(_: &Arguments<'_>, _: &ClusterSpec) -> Result<Site, String> {
        Ok(Site)
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let name = session.worker.site_name(session.worker.address().site).to_owned();
        session.out.bulk(name.as_bytes());
    }
}
