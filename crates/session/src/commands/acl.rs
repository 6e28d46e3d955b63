//! ACL: what users may do.

use data_encoding::HEXLOWER;
use ring::rand::{SecureRandom, SystemRandom};
use solera_commands::{CATEGORIES, Unit, unknown_subcommand};
use solera_resp::{Arguments, parse_integer};

use crate::context::Context;
use crate::session::Session;

const BITS: &str = "ERR ACL GENPASS argument must be the number of bits for the output password, a \
                    positive number up to 4096";
/// The subcommands that are served.
pub(super) const SUBCOMMANDS: [&str; 7] =
    ["cat", "genpass", "getuser", "help", "list", "users", "whoami"];
/// What Redis has, and the configuration here.
const CHANGES: [&str; 7] = ["setuser", "deluser", "load", "save", "log", "dryrun", "reset"];
const HELP: [&str; 16] = [
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format. Users are changed in solera.toml.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
    "HELP (no arguments)",
];

pub(crate) fn acl<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let subcommand = arguments.get(1).to_ascii_lowercase();
    if !SUBCOMMANDS.iter().any(|name| name.as_bytes() == subcommand) {
        return match CHANGES.iter().find(|name| name.as_bytes() == subcommand) {
            Some(name) => session.fail(format!(
                "ERR ACL {} is not served; users are in solera.toml, and are read again on SIGHUP",
                name.to_uppercase()
            )),
            None => session.fail(unknown_subcommand("ACL", arguments.get(1))),
        };
    }
    let users = session.worker.users();
    match (subcommand.as_slice(), arguments.len()) {
        (b"whoami", 2) => {
            let name = session.identity.name();
            session.out.bulk(name.as_bytes());
        }
        (b"list", 2) => {
            session.out.array(users.iter().len());
            users.iter().for_each(|user| session.out.bulk(user.to_string().as_bytes()));
        }
        (b"users", 2) => {
            session.out.array(users.iter().len());
            users.iter().for_each(|user| session.out.bulk(user.name.as_bytes()));
        }
        (b"getuser", 3) => get_user(session, arguments.get(2)),
        (b"cat", 2) => {
            session.out.array(CATEGORIES.len());
            CATEGORIES.iter().for_each(|category| session.out.bulk(category.as_bytes()));
        }
        (b"cat", 3) => category(session, arguments.get(2)),
        (b"genpass", 2) => generate(session, 256),
        (b"genpass", 3) => match parse_integer(arguments.get(2)) {
            Some(bits @ 1..=4096) => generate(session, bits as usize),
            Some(_) => session.fail(BITS),
            None => session.fail("ERR value is not an integer or out of range"),
        },
        (b"help", 2) => {
            session.out.array(HELP.len());
            HELP.iter().for_each(|line| session.out.simple(line));
        }
        (b"cat" | b"genpass", _) => {
            let name = String::from_utf8_lossy(&subcommand);
            session.fail(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try ACL HELP."
            ));
        }
        _ => {
            let name = String::from_utf8_lossy(&subcommand);
            session.fail(format!("ERR wrong number of arguments for 'acl|{name}' command"));
        }
    }
}

fn get_user<W: Context>(session: &mut Session<W>, name: &[u8]) {
    let users = session.worker.users();
    let found = std::str::from_utf8(name).ok().and_then(|name| users.get(name));
    let Some(user) = found else { return session.out.null() };
    let out = &mut session.out;
    out.map(6);
    out.bulk(b"flags");
    let flags = [Some(if user.enabled { "on" } else { "off" }), user.nopass.then_some("nopass")];
    out.set(flags.iter().flatten().count());
    flags.iter().flatten().for_each(|flag| out.bulk(flag.as_bytes()));
    out.bulk(b"passwords");
    out.array(user.hashes.len());
    user.hashes_in_hex().for_each(|hash| out.bulk(hash.as_bytes()));
    for (what, text) in [("commands", user.rules()), ("keys", user.keys()), ("channels", "".into())]
    {
        out.bulk(what.as_bytes());
        out.bulk(text.as_bytes());
    }
    out.bulk(b"selectors");
    out.array(0);
}

fn category<W: Context>(session: &mut Session<W>, name: &[u8]) {
    let name = String::from_utf8_lossy(name).to_lowercase();
    if !CATEGORIES.contains(&name.as_str()) {
        return session.fail(format!("ERR Unknown category '{name}'"));
    }
    let units: Vec<Unit> = Unit::all().filter(|unit| unit.is_in(&name)).collect();
    session.out.array(units.len());
    units.iter().for_each(|unit| session.out.bulk(unit.name().as_bytes()));
}

fn generate<W: Context>(session: &mut Session<W>, bits: usize) {
    let mut bytes = vec![0; bits.div_ceil(8)];
    if SystemRandom::new().fill(&mut bytes).is_err() {
        return session.fail("ERR the system gives no random numbers");
    }
    let mut text = HEXLOWER.encode(&bytes);
    text.truncate(bits.div_ceil(4));
    session.out.bulk(text.as_bytes());
}
