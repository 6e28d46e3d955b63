//! SOLERA.INTERVAL: reads an interval that contains the value of a counter or the size of a set.

use solera_commands::{COMMANDS, CommandId, lookup};
use solera_config::{ClusterSpec, KeyBound};
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// SOLERA.INTERVAL key [GET|SCARD]: replies with the minimum and the maximum of the counter's value
/// or the set's size. The key's space must have a bound. Only one of the two commands has an
/// interval for a key; it may be named, as for SOLERA.READ.
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

    fn parse(arguments: &Arguments<'_>, spec: &ClusterSpec) -> Result<Interval, String> {
        let key = arguments.get(1).to_vec();
        if arguments.len() > 2 {
            check_command(spec, &key, arguments)?;
        }
        Ok(Interval { key })
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

/// Checks that the named command is the one whose result the key's bound concerns.
///
/// # Errors
/// The error reply.
fn check_command(spec: &ClusterSpec, key: &[u8], arguments: &Arguments<'_>) -> Result<(), String> {
    let Some(bound) = spec.spaces.bound_of(key) else { return Ok(()) };
    let (command, bounded) = match bound {
        KeyBound::Error(_) | KeyBound::Hard => (CommandId::Get, "values of counters"),
        KeyBound::Size(_) => (CommandId::Scard, "sizes of sets"),
    };
    let named = lookup(arguments.get(2));
    if arguments.len() == 3 && named.is_some_and(|named| named.id == command) {
        return Ok(());
    }
    let words: Vec<_> = arguments.from(2).map(String::from_utf8_lossy).collect();
    Err(format!(
        "ERR '{}' of '{}' has no interval: space '{}' bounds {bounded}, which {} returns",
        words.join(" "),
        String::from_utf8_lossy(key),
        spec.spaces.space_of(key).name,
        COMMANDS[command as usize].name.to_uppercase()
    ))
}
