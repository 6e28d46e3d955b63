//! SELECT: accepts database 0, the only one.

use solera_config::ClusterSpec;
use solera_resp::{Arguments, parse_integer};

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// SELECT 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Select;

impl Request for Select {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Select, String> {
        match parse_integer(arguments.get(1)) {
            Some(0) => Ok(Select),
            Some(_) => Err("ERR DB index is out of range".to_owned()),
            None => Err("ERR value is not an integer or out of range".to_owned()),
        }
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        session.out.simple("OK");
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn database_0_is_the_only_one() {
        assert_eq!(parse("SELECT 0"), Ok(Select));
        rejects::<Select>(&[
            ("SELECT 1", "ERR DB index is out of range"),
            ("SELECT x", "ERR value is not an integer or out of range"),
        ]);
    }
}
