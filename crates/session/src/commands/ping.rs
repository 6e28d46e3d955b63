//! PING: replies with PONG, or with its argument.

use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// PING [message].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ping {
    message: Option<Vec<u8>>,
}

impl Request for Ping {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Ping, String> {
        match arguments.len() {
            1 => Ok(Ping { message: None }),
            2 => Ok(Ping { message: Some(arguments.get(1).to_vec()) }),
            _ => Err("ERR wrong number of arguments for 'ping' command".to_owned()),
        }
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        match &self.message {
            None => session.out.simple("PONG"),
            Some(message) => session.out.bulk(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn one_message_may_be_given() {
        assert_eq!(parse("PING"), Ok(Ping { message: None }));
        assert_eq!(parse("PING a"), Ok(Ping { message: Some(b"a".to_vec()) }));
        rejects::<Ping>(&[("PING a b", "ERR wrong number of arguments for 'ping' command")]);
    }
}
