//! HELP of Solera's own commands that have subcommands, in the manner of Redis.

use solera_commands::CommandId;
use solera_resp::Arguments;

use crate::context::Context;
use crate::session::Session;

const MODULE: &[&str] = &[
    "SOLERA.MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "LOAD <name> <source> [REPLACE] [BIND <store>=<space> ...]",
    "    Load a module. BIND names the spaces that stores are; the others are the",
    "    spaces of their own names. What the compiler warns of, LIST and CHECK tell.",
    "DROP <name>",
    "    Forget a module.",
    "LIST",
    "    List the modules, with their stores, transactions and warnings.",
    "SOURCE <name>",
    "    Return the source of a module.",
    "CHECK <name> <source>",
    "    Return all that the compiler says of a source, and load nothing.",
    "HELP",
    "    Print this help.",
];

const CALL: &[&str] = &[
    "SOLERA.CALL <module>.<transaction> [<arg> ...]",
    "    Run a transaction of a module. SOLERA.MODULE LIST tells which there are.",
    "SOLERA.CALL RESUME <ticket>",
    "    Complete a transaction that was left INCOMPLETE, with the rights of the user who",
    "    has begun it, and return its result.",
    "SOLERA.CALL INCOMPLETE",
    "    List the transactions of which a part has taken effect.",
    "SOLERA.CALL COMPLETE <transaction>",
    "    Complete one with the rights of who asks for it, and return its result.",
    "SOLERA.CALL FORGET <transaction>",
    "    Give up one that has failed for good, or whose user has no right to what is left.",
    "SOLERA.CALL HELP",
    "    Print this help.",
];

const PHASE: &[&str] = &[
    "SOLERA.PHASE <subcommand> [<arg> ...]. Subcommands are:",
    "RUN <shipment>",
    "    Run phases of a transaction whose coordinator is elsewhere.",
    "SETTLE <number> <until>",
    "    Return whether a shipment is over, or will never be run.",
    "LEARN <source>",
    "    Take a module that shipments name by the digest of its source.",
    "HELP",
    "    Print this help.",
];

const SITES: &[&str] = &[
    "SOLERA.SITES [<subcommand> [<arg> [opt]]]. Without one, how each site stands. Subcommands are:",
    "REMOVE <site> [FORCE]",
    "    Remove a site that is dead for good; with FORCE also one that answers.",
    "ADD <site>",
    "    Have a site take part that was removed, or is new in solera.toml.",
    "HELP",
    "    Print this help.",
    "`solera site remove` and `solera site add` do the same, and wait until it is done.",
];

const LEADERS: &[&str] = &[
    "SOLERA.LEADERS [<subcommand> [<arg> ...]]. Without one, how many partitions each site leads. Subcommands are:",
    "PARTITIONS",
    "    Return who leads each partition.",
    "MOVE <site> [ALL | <partition> ...]",
    "    Ask a site to lead these partitions, or all. Does not wait for it.",
    "HELP",
    "    Print this help.",
    "`solera leader move` does the same, and waits until it is done.",
];

/// The usage of a command, if the request asks for it.
pub(super) fn asked(
    command: CommandId,
    arguments: &Arguments<'_>,
) -> Option<&'static [&'static str]> {
    let asks = arguments.len() == 2 && arguments.get(1).eq_ignore_ascii_case(b"help");
    let lines = match command {
        CommandId::SoleraModule => MODULE,
        CommandId::SoleraCall => CALL,
        CommandId::SoleraPhase => PHASE,
        CommandId::SoleraSites => SITES,
        CommandId::SoleraLeaders => LEADERS,
        _ => return None,
    };
    asks.then_some(lines)
}

/// Answers HELP as Redis does.
pub(super) fn answer<W: Context>(session: &mut Session<W>, lines: &[&str]) {
    session.out.array(lines.len());
    for line in lines {
        session.out.simple(line);
    }
}
