//! SOLERA.INTERVAL: reads an interval that contains the value of a counter.

use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// SOLERA.INTERVAL key: replies with the minimum and the maximum of the counter's value. The key's
/// space must have an error bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    key: Vec<u8>,
}

impl Request for Interval {
    fn admit<W: Context>(session: &mut ClientSession<W>) -> Result<(), String> {
        match session.in_transaction() {
            true => Err("ERR SOLERA.INTERVAL is not allowed inside a transaction, because the interval contains the \
                         present value, and not that of a snapshot"
                .to_owned()),
            false => Ok(()),
        }
    }

    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Interval, String> {
        Ok(Interval { key: arguments.get(1).to_vec() })
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        match session.interval(&self.key).await {
            Ok((minimum, maximum)) => {
                session.out.array(2);
                session.out.integer(minimum);
                session.out.integer(maximum);
            }
            Err(error) => session.fail(error),
        }
    }
}
