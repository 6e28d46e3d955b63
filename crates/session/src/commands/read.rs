//! SOLERA.READ: reads a key at a chosen level, or at the strongest level that arrives in time.

use std::str::FromStr;
use std::time::Duration;

use solera_commands::{Command as Described, Unit, lookup};
use solera_config::ClusterSpec;
use solera_data::Op;
use solera_levels::Level;
use solera_resp::{Arguments, parse_integer};

use super::request::Request;
use crate::context::Context;
use crate::plan::{self, KeyOp};
use crate::session::{ClientSession, Wanted};

/// Longest bound: a minute.
const LONGEST: u64 = 60_000;

/// SOLERA.READ key AT level|WITHIN ms [command [argument …]]: runs a command that reads the key,
/// GET unless another one is named. Replies with the command's reply and the level of the read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Read {
    key: Vec<u8>,
    command: &'static Described,
    op: Op,
    wanted: Wanted,
}

impl Request for Read {
    fn admit<W: Context>(session: &mut ClientSession<W>) -> Result<(), String> {
        match session.in_transaction() {
            true => Err("ERR SOLERA.READ is not allowed inside a transaction".to_owned()),
            false => Ok(()),
        }
    }

    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Read, String> {
        let key = arguments.get(1);
        let (how, value) = (arguments.get(2), arguments.get(3));
        let wanted = if how.eq_ignore_ascii_case(b"at") {
            Wanted::At(level(value)?)
        } else if how.eq_ignore_ascii_case(b"within") {
            Wanted::Within(bound(value)?)
        } else {
            return Err("ERR SOLERA.READ takes AT level or WITHIN milliseconds".to_owned());
        };
        let name = if arguments.len() > 4 { arguments.get(4) } else { b"get" };
        let (command, op) = operation(name, key, arguments.from(5))?;
        Ok(Read { key: key.to_vec(), command, op, wanted })
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let keys = std::iter::once(self.key.as_slice());
        if let Err(refused) = session.may_use(Unit::of(self.command, None), keys) {
            return session.fail(refused.to_string());
        }
        let op = KeyOp::new(&self.key, self.op);
        match session.read(self.command.id, &op, self.wanted).await {
            Ok((Ok(outcome), level)) => {
                session.out.array(2);
                plan::write_single(&mut session.out, &Ok(outcome));
                session.out.bulk(level.name().as_bytes());
            }
            Ok((Err(error), _)) => session.fail(plan::error_reply(&error)),
            Err(error) => session.fail(error),
        }
    }
}

fn level(name: &[u8]) -> Result<Level, String> {
    let name = String::from_utf8_lossy(name).to_lowercase();
    Level::from_str(&name).map_err(|_| {
        let names = Level::ALL.map(Level::name).join(", ");
        format!("ERR '{name}' is not a level; the levels are {names}")
    })
}

fn bound(text: &[u8]) -> Result<Duration, String> {
    let number = parse_integer(text).and_then(|ms| u64::try_from(ms).ok());
    match number.filter(|ms| (1..=LONGEST).contains(ms)) {
        Some(ms) => Ok(Duration::from_millis(ms)),
        None => Err(format!("ERR SOLERA.READ WITHIN takes milliseconds from 1 to {LONGEST}")),
    }
}

/// Returns the operation that a command does on a key.
///
/// # Errors
/// The error reply, if the command is not one that reads a single key.
fn operation<'a>(
    name: &'a [u8],
    key: &'a [u8],
    rest: impl Iterator<Item = &'a [u8]>,
) -> Result<(&'static Described, Op), String> {
    let mut buffer = Vec::new();
    let mut ranges = Vec::new();
    for argument in [name, key].into_iter().chain(rest) {
        let start = buffer.len();
        buffer.extend_from_slice(argument);
        ranges.push(start..buffer.len());
    }
    let refused = || {
        let name = String::from_utf8_lossy(name);
        format!("ERR SOLERA.READ runs commands that read one key, such as GET, not '{name}'")
    };
    let command = lookup(name).filter(|it| it.has_flag("readonly")).ok_or_else(refused)?;
    command.check_arity(ranges.len())?;
    let op = plan::single(command.id, &Arguments::new(&buffer, &ranges))?;
    Ok((command, op.ok_or_else(refused)?))
}

#[cfg(test)]
mod tests {
    use solera_commands::CommandId;
    use solera_data::Value;

    use super::super::request::testing::{parse, rejects};
    use super::*;

    fn parsed(line: &str) -> (Vec<u8>, CommandId, Op, Wanted) {
        let Read { key, command, op, wanted } = parse(line).unwrap();
        (key, command.id, op, wanted)
    }

    #[test]
    fn a_level_or_a_bound_is_given_and_a_command_may_be() {
        let key = b"k".to_vec();
        assert_eq!(
            parsed("SOLERA.READ k AT Causal"),
            (key.clone(), CommandId::Get, Op::Get, Wanted::At(Level::Causal))
        );
        let within = Wanted::Within(Duration::from_millis(10));
        let field = Op::HashGet(Value::from(&b"f"[..]));
        assert_eq!(
            parsed("SOLERA.READ k within 10 hget f"),
            (key.clone(), CommandId::Hget, field, within)
        );
        assert_eq!(
            parsed("SOLERA.READ k within 10 exists"),
            (key, CommandId::Exists, Op::Exists, within)
        );
    }

    #[test]
    fn what_is_no_read_of_one_key_is_rejected() {
        let how = "ERR SOLERA.READ takes AT level or WITHIN milliseconds";
        let ms = "ERR SOLERA.READ WITHIN takes milliseconds from 1 to 60000";
        let level = "ERR 'strong' is not a level; the levels are linearizable, por, pcpsi, quorum, \
                     local_quorum, causal, speculative, eventual";
        rejects::<Read>(&[
            ("SOLERA.READ k BY causal", how),
            ("SOLERA.READ k AT strong", level),
            ("SOLERA.READ k WITHIN 0", ms),
            ("SOLERA.READ k WITHIN 60001", ms),
            ("SOLERA.READ k WITHIN -1", ms),
            ("SOLERA.READ k WITHIN +1", ms),
            ("SOLERA.READ k WITHIN 1.5", ms),
            (
                "SOLERA.READ k WITHIN 1 SET v",
                "ERR SOLERA.READ runs commands that read one key, such as GET, not 'SET'",
            ),
            (
                "SOLERA.READ k AT causal MGET",
                "ERR SOLERA.READ runs commands that read one key, such as GET, not 'MGET'",
            ),
            (
                "SOLERA.READ k AT causal EXISTS l",
                "ERR SOLERA.READ runs commands that read one key, such as GET, not 'EXISTS'",
            ),
            (
                "SOLERA.READ k AT causal FOO",
                "ERR SOLERA.READ runs commands that read one key, such as GET, not 'FOO'",
            ),
            ("SOLERA.READ k AT causal HGET", "ERR wrong number of arguments for 'hget' command"),
        ]);
    }
}
