//! ACL: reports users and their rights.

use data_encoding::HEXLOWER;
use ring::rand::{SecureRandom, SystemRandom};
use solera_commands::{CATEGORIES, Unit, unknown_subcommand};
use solera_config::ClusterSpec;
use solera_resp::{Arguments, parse_integer};

use super::help;
use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

const BITS: &str = "ERR ACL GENPASS argument must be the number of bits for the output password, a \
                    positive number up to 4096";
/// Supported subcommands.
pub(super) const SUBCOMMANDS: [&str; 7] =
    ["cat", "genpass", "getuser", "help", "list", "users", "whoami"];
/// Subcommands of Redis that Solera replaces by its configuration file.
const CHANGES: [&str; 4] = ["setuser", "deluser", "load", "save"];
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

/// A supported subcommand of ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Acl {
    /// `CAT`: the list of categories.
    Categories,
    /// `CAT category`: the name of an existing category, in lower case.
    Category(String),
    /// `GENPASS [bits]`: the number of bits, from 1 to 4096.
    GenPass {
        bits: usize,
    },
    /// `GETUSER name`.
    GetUser(Vec<u8>),
    Help,
    List,
    Users,
    WhoAmI,
}

impl Request for Acl {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Acl, String> {
        let subcommand = arguments.get(1).to_ascii_lowercase();
        if !SUBCOMMANDS.iter().any(|name| name.as_bytes() == subcommand) {
            return Err(match CHANGES.iter().find(|name| name.as_bytes() == subcommand) {
                Some(name) => format!(
                    "ERR ACL {} is not supported; users are in solera.toml, and are read again on SIGHUP",
                    name.to_uppercase()
                ),
                None => unknown_subcommand("ACL", arguments.get(1)),
            });
        }
        Ok(match (subcommand.as_slice(), arguments.len()) {
            (b"whoami", 2) => Acl::WhoAmI,
            (b"list", 2) => Acl::List,
            (b"users", 2) => Acl::Users,
            (b"getuser", 3) => Acl::GetUser(arguments.get(2).to_vec()),
            (b"cat", 2) => Acl::Categories,
            (b"cat", 3) => Acl::Category(category(arguments.get(2))?),
            (b"genpass", 2) => Acl::GenPass { bits: 256 },
            (b"genpass", 3) => match parse_integer(arguments.get(2)) {
                Some(bits @ 1..=4096) => Acl::GenPass { bits: bits as usize },
                Some(_) => return Err(BITS.to_owned()),
                None => return Err("ERR value is not an integer or out of range".to_owned()),
            },
            (b"help", 2) => Acl::Help,
            (b"cat" | b"genpass", _) => {
                let name = String::from_utf8_lossy(&subcommand);
                return Err(format!(
                    "ERR unknown subcommand or wrong number of arguments for '{name}'. Try ACL HELP."
                ));
            }
            _ => {
                let name = String::from_utf8_lossy(&subcommand);
                return Err(format!("ERR wrong number of arguments for 'acl|{name}' command"));
            }
        })
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let users = session.worker.users();
        match self {
            Acl::Categories => {
                session.out.array(CATEGORIES.len());
                CATEGORIES.iter().for_each(|category| session.out.bulk(category.as_bytes()));
            }
            Acl::Category(name) => {
                let units: Vec<Unit> = Unit::all().filter(|unit| unit.is_in(&name)).collect();
                session.out.array(units.len());
                units.iter().for_each(|unit| session.out.bulk(unit.name().as_bytes()));
            }
            Acl::GenPass { bits } => generate(session, bits),
            Acl::GetUser(name) => get_user(session, &name),
            Acl::Help => help::answer(session, &HELP),
            Acl::List => {
                session.out.array(users.iter().len());
                users.iter().for_each(|user| session.out.bulk(user.to_string().as_bytes()));
            }
            Acl::Users => {
                session.out.array(users.iter().len());
                users.iter().for_each(|user| session.out.bulk(user.name.as_bytes()));
            }
            Acl::WhoAmI => {
                let name = session.identity.name();
                session.out.bulk(name.as_bytes());
            }
        }
    }
}

/// Returns the name of an existing category in lower case.
fn category(name: &[u8]) -> Result<String, String> {
    let name = String::from_utf8_lossy(name).to_lowercase();
    match CATEGORIES.contains(&name.as_str()) {
        true => Ok(name),
        false => Err(format!("ERR Unknown category '{name}'")),
    }
}

fn get_user<W: Context>(session: &mut ClientSession<W>, name: &[u8]) {
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

fn generate<W: Context>(session: &mut ClientSession<W>, bits: usize) {
    let mut bytes = vec![0; bits.div_ceil(8)];
    if SystemRandom::new().fill(&mut bytes).is_err() {
        return session.fail("ERR the operating system provides no random numbers");
    }
    let mut text = HEXLOWER.encode(&bytes);
    text.truncate(bits.div_ceil(4));
    session.out.bulk(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn subcommands_and_their_arguments_are_parsed() {
        assert_eq!(parse("ACL WhoAmI"), Ok(Acl::WhoAmI));
        assert_eq!(parse("ACL CAT"), Ok(Acl::Categories));
        assert_eq!(parse("ACL CAT Read"), Ok(Acl::Category("read".to_owned())));
        assert_eq!(parse("ACL GENPASS"), Ok(Acl::GenPass { bits: 256 }));
        assert_eq!(parse("ACL GENPASS 4096"), Ok(Acl::GenPass { bits: 4096 }));
        assert_eq!(parse("ACL GETUSER Bob"), Ok(Acl::GetUser(b"Bob".to_vec())));
    }

    #[test]
    fn bad_arguments_are_rejected() {
        rejects::<Acl>(&[
            ("ACL FOO", "ERR unknown subcommand 'FOO'. Try ACL HELP."),
            (
                "ACL LOG",
                "ERR unknown subcommand 'LOG': Solera does not support this subcommand of Redis \
                 yet. Try ACL HELP.",
            ),
            (
                "ACL SETUSER bob",
                "ERR ACL SETUSER is not supported; users are in solera.toml, and are read again on SIGHUP",
            ),
            ("ACL WHOAMI x", "ERR wrong number of arguments for 'acl|whoami' command"),
            ("ACL GETUSER", "ERR wrong number of arguments for 'acl|getuser' command"),
            ("ACL CAT foo", "ERR Unknown category 'foo'"),
            (
                "ACL CAT read write",
                "ERR unknown subcommand or wrong number of arguments for 'cat'. Try ACL HELP.",
            ),
            ("ACL GENPASS 0", BITS),
            ("ACL GENPASS 4097", BITS),
            ("ACL GENPASS x", "ERR value is not an integer or out of range"),
        ]);
    }
}
