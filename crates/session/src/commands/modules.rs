//! SOLERA.MODULE, SOLERA.CALL and SOLERA.PHASE. A crate above this one runs them.

use solera_commands::{CommandId, lookup};
use solera_config::ClusterSpec;
use solera_resp::{Arguments, Value, Writer};

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Modules {
    Help(&'static [&'static str]),
    /// The command with its arguments, for the module runtime.
    Other(Vec<Vec<u8>>),
}

impl Request for Modules {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Modules, String> {
        if !help::is_asked(arguments) {
            return Ok(Modules::Other(arguments.from(0).map(<[u8]>::to_vec).collect()));
        }
        Ok(Modules::Help(match lookup(arguments.get(0)).map(|command| command.id) {
            Some(CommandId::SoleraModule) => MODULE,
            Some(CommandId::SoleraCall) => CALL,
            _ => PHASE,
        }))
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        match self {
            Modules::Help(lines) => help::answer(session, lines),
            Modules::Other(request) => hand_over(session, request.clone()).await,
        }
    }
}

/// Passes a command to the module runtime and waits for its answer. The session then depends on the
/// writes of the command.
async fn hand_over<W: Context>(session: &mut ClientSession<W>, request: Vec<Vec<u8>>) {
    if session.in_transaction() {
        return session.fail("ERR modules cannot be used inside a transaction");
    }
    let (user, occult) = (session.identity.user(), session.occult.past.clone());
    let delegation = Delegation::new(user, session.pasts, occult);
    let Some(answer) = session.worker.run_modules(delegation.clone(), request) else {
        return session.fail("ERR this server runs no modules");
    };
    match answer.await {
        Ok(Value::Error(text)) => session.fail(text),
        Ok(value) => write(&mut session.out, &value),
        Err(_) => session.fail_unanswered(),
    }
    session.pasts.join(&delegation.pasts());
    session.join_occult(&delegation.occult());
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
        assert_eq!(parse("SOLERA.CALL HELP x"), Ok(Modules::Other(request.to_vec())));
    }
}
