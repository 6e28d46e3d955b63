//! SOLERA.MODULE, SOLERA.CALL and SOLERA.PHASE. A crate above this one runs them.

use solera_commands::{CommandId, lookup};
use solera_config::ClusterSpec;
use solera_creek::Level;
use solera_resp::{Arguments, Value, Writer};

use super::call::{CallOfCommand, How};
use super::help;
use super::request::Request;
use crate::context::Context;
use crate::delegation::Delegation;
use crate::session::ClientSession;

/// Subcommands of SOLERA.MODULE that users can be given access to.
#[cfg(test)]
pub(crate) const SUBCOMMANDS: [&str; 6] = ["load", "drop", "list", "source", "check", "help"];

const MODULE: &[&str] = &[
    "SOLERA.MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "LOAD <name> <source> [REPLACE] [BIND <store>=<space> ...]",
    "    Load a module. BIND maps stores to spaces; the other stores use the",
    "    spaces of their own names. LIST and CHECK show the compiler's warnings.",
    "DROP <name>",
    "    Forget a module.",
    "LIST",
    "    List the modules, with their stores, transactions and warnings.",
    "SOURCE <name>",
    "    Return the source of a module.",
    "CHECK <name> <source>",
    "    Return the compiler's diagnostics for a source, without loading it.",
    "HELP",
    "    Print this help.",
];

const CALL: &[&str] = &[
    "SOLERA.CALL <module>.<transaction> [<arg> ...]",
    "    Run a transaction of a module. SOLERA.MODULE LIST shows the transactions.",
    "SOLERA.CALL [[TRACK] WEAK|STRONG] <module>.<transaction>|<command> [<arg> ...]",
    "    Run a transaction whose stores are a space of level speculative, or a command",
    "    on its keys, as one operation of this space. WEAK returns its first",
    "    result. STRONG returns a ticket with it, and sends the final one to clients that",
    "    speak RESP3, as SOLERA.STABLE returns it. TRACK adds a ticket to WEAK, and sends",
    "    all results that differ. Without these words, the final result is the reply.",
    "SOLERA.CALL RESUME <ticket>",
    "    Complete a transaction that was left INCOMPLETE, with the rights of the user who",
    "    began it, and return its result.",
    "SOLERA.CALL INCOMPLETE",
    "    List the transactions that have taken effect only in part.",
    "SOLERA.CALL COMPLETE <transaction>",
    "    Complete one with the caller's rights, and return its result.",
    "SOLERA.CALL FORGET <transaction>",
    "    Give up one that has failed for good, or that its user has no right to complete.",
    "SOLERA.CALL HELP",
    "    Print this help.",
];

const PHASE: &[&str] = &[
    "SOLERA.PHASE <subcommand> [<arg> ...]. Subcommands are:",
    "RUN <remote-group>",
    "    Run a remote group: phases of a transaction whose coordinator is elsewhere.",
    "SETTLE <number> <until>",
    "    Return 1 if the remote group has ended or will never be run, 0 if it is running.",
    "LEARN <source>",
    "    Store a module, so that remote groups can refer to it by the digest of its source.",
    "HELP",
    "    Print this help.",
];

/// One of these commands. The module runtime parses its arguments, because only it knows the
/// modules and transactions that they name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Modules {
    Help(&'static [&'static str]),
    /// The command with its arguments, for the module runtime, and what SOLERA.CALL replies with.
    Other(Vec<Vec<u8>>, How),
    /// SOLERA.CALL of a command on keys.
    Call(Box<CallOfCommand>),
}

/// Subcommands of SOLERA.CALL.
const SUBCOMMANDS_OF_CALL: [&str; 5] = ["resume", "incomplete", "complete", "forget", "help"];

impl Request for Modules {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Modules, String> {
        let command = lookup(arguments.get(0)).map(|command| command.id);
        if !help::is_asked(arguments) {
            if command == Some(CommandId::SoleraCall) {
                return call(arguments);
            }
            let request = arguments.from(0).map(<[u8]>::to_vec).collect();
            return Ok(Modules::Other(request, How::default()));
        }
        Ok(Modules::Help(match command {
            Some(CommandId::SoleraModule) => MODULE,
            Some(CommandId::SoleraCall) => CALL,
            _ => PHASE,
        }))
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        match self {
            Modules::Help(lines) => help::answer(session, lines),
            _ if session.in_transaction() => {
                session.fail("ERR modules cannot be used inside a transaction");
            }
            Modules::Other(request, how) => hand_over(session, request, how).await,
            Modules::Call(call) => call.reply(session).await,
        }
    }
}

/// Parses SOLERA.CALL.
///
/// # Errors
/// The error reply.
fn call(arguments: &Arguments<'_>) -> Result<Modules, String> {
    let is = |word: &&str| arguments.get(1).eq_ignore_ascii_case(word.as_bytes());
    let (how, first) = match SUBCOMMANDS_OF_CALL.iter().any(is) {
        true => (How::default(), 1),
        false => How::parse(arguments)?,
    };
    let is_transaction = arguments.get(first).contains(&b'.');
    match is_transaction || SUBCOMMANDS_OF_CALL.iter().any(is) {
        true => {
            let level = how.level.map(|level| match level {
                Level::Weak => &b"WEAK"[..],
                Level::Strong => b"STRONG",
            });
            let words = arguments.from(0).take(1).chain(level).chain(arguments.from(first));
            Ok(Modules::Other(words.map(<[u8]>::to_vec).collect(), how))
        }
        false => Ok(Modules::Call(Box::new(CallOfCommand::parse(how, arguments, first)?))),
    }
}

/// Passes a command to the module runtime and waits for its answer. The session then depends on the
/// writes of the command.
async fn hand_over<W: Context>(session: &mut ClientSession<W>, request: Vec<Vec<u8>>, how: How) {
    if let Err(error) = how.admit(session) {
        return session.fail(error);
    }
    let user = session.identity.user();
    let occult = (session.occult.past.clone(), session.occult.epoch);
    let delegation = Delegation::new(user, session.pasts, occult);
    let Some(answer) = session.worker.run_modules(delegation.clone(), request) else {
        return session.fail("ERR this server runs no modules");
    };
    let answer = answer.await;
    let (past, invoked) = delegation.take_speculative();
    session.speculative.past.join(&past);
    match (answer, invoked) {
        (Ok(Value::Error(text)), _) => session.fail(text),
        // The call was an operation of the speculative space.
        (Ok(_), Some(invoked)) => how.write(session, invoked),
        (Ok(value), None) => write(&mut session.out, &value),
        (Err(_), _) => session.fail_unanswered(),
    }
    session.pasts.join(&delegation.pasts());
    session.absorb_occult(&delegation.occult());
}

/// Appends a value. Kinds that modules never answer with are written as text.
fn write(out: &mut Writer, value: &Value) {
    match value {
        Value::Null => out.null(),
        Value::Simple(text) => out.simple(text),
        Value::Error(text) => out.error(text),
        Value::Integer(number) => out.integer(*number),
        Value::Bulk(bytes) => out.bulk(bytes),
        Value::Boolean(truth) => out.boolean(*truth),
        Value::Double(number) => out.double(*number),
        Value::Array(items) | Value::Push(items) => {
            out.array(items.len());
            items.iter().for_each(|item| write(out, item));
        }
        Value::Set(items) => {
            out.set(items.len());
            items.iter().for_each(|item| write(out, item));
        }
        Value::Map(pairs) => {
            out.map(pairs.len());
            for (key, value) in pairs {
                write(out, key);
                write(out, value);
            }
        }
        Value::BigNumber(text) | Value::Verbatim { text, .. } => out.bulk(text.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::parse;
    use super::*;

    #[test]
    fn only_help_is_answered_here() {
        assert_eq!(parse("SOLERA.MODULE Help"), Ok(Modules::Help(MODULE)));
        assert_eq!(parse("solera.call HELP"), Ok(Modules::Help(CALL)));
        assert_eq!(parse("SOLERA.PHASE HELP"), Ok(Modules::Help(PHASE)));
        let request = ["SOLERA.CALL", "HELP", "x"].map(|argument| argument.as_bytes().to_vec());
        let other = Modules::Other(request.to_vec(), How::default());
        assert_eq!(parse("SOLERA.CALL HELP x"), Ok(other));
    }
}
