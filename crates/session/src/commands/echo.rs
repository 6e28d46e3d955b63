//! ECHO: replies with its argument.

use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// ECHO message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Echo {
    message: Vec<u8>,
}

impl Request for Echo {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Echo, String> {
        Ok(Echo { message: arguments.get(1).to_vec() })
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        session.out.bulk(&self.message);
    }
}
