//! CLIENT: reports connections, configures the client's own connection, and ends others.

use std::sync::Arc;

use solera_config::Users;
use solera_resp::{Arguments, parse_integer};

use super::help;
use crate::client::Client;
use crate::context::Context;
use crate::session::{ClientSession, Next, Replies};

const HELP: [&str; 21] = [
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port> | <option> <value> [<option> <value> [...]]",
    "    Kill connections of this node; options are ADDR, LADDR, ID, USER and SKIPME (YES|NO).",
    "LIST [TYPE NORMAL] [ID <id> [<id> ...]]",
    "    Return information about the client connections of this node.",
    "NO-EVICT (ON|OFF), NO-TOUCH (ON|OFF)",
    "    Accepted without effect: Solera evicts nothing.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETINFO (LIB-NAME|LIB-VER) <value>",
    "    Set the client library's name or version.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "HELP",
    "    Print this help.",
];

pub(crate) const BAD_NAME: &str =
    "ERR Client names cannot contain spaces, newlines or special characters.";

const SYNTAX: &str = "ERR syntax error";

/// A subcommand: its name, its name in `CLIENT LIST`, and the minimal and maximal number of
/// arguments, CLIENT included.
type Subcommand = (&'static str, &'static str, usize, usize);

/// Supported subcommands.
pub(super) const SUBCOMMANDS: [Subcommand; 11] = [
    ("getname", "client|getname", 2, 2),
    ("help", "client|help", 2, 2),
    ("id", "client|id", 2, 2),
    ("info", "client|info", 2, 2),
    ("kill", "client|kill", 3, usize::MAX),
    ("list", "client|list", 2, usize::MAX),
    ("no-evict", "client|no-evict", 3, 3),
    ("no-touch", "client|no-touch", 3, 3),
    ("reply", "client|reply", 3, 3),
    ("setinfo", "client|setinfo", 4, 4),
    ("setname", "client|setname", 3, 3),
];

/// A CLIENT command with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Request {
    GetName,
    Help,
    Id,
    Info,
    Kill(Kill),
    /// LIST: the numbers of the clients; `None` for all.
    List(Option<Vec<i64>>),
    /// NO-EVICT and NO-TOUCH, which are accepted without effect.
    NoEffect,
    Reply(Reply),
    SetInfo(Info, String),
    SetName(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kill {
    /// The client with this address.
    Address(Vec<u8>),
    /// The clients that match all filters.
    Matching { filters: Vec<Filter>, skip_me: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Filter {
    Id(i64),
    Address(Vec<u8>),
    LocalAddress(Vec<u8>),
    User(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    On,
    Off,
    Skip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Info {
    LibraryName,
    LibraryVersion,
}

/// Parses and runs CLIENT. Unlike other commands, it records its subcommand as the client's last
/// command even if the arguments are invalid, and it may close the connection.
pub(crate) fn serve<W: Context>(session: &mut ClientSession<W>, arguments: &Arguments<'_>) -> Next {
    let parsed = subcommand(arguments).and_then(|found| {
        session.last_command = found.1;
        Request::parse(found, arguments, &session.worker.users())
    });
    match parsed {
        Ok(request) => request.reply(session),
        Err(error) => {
            session.fail(error);
            Next::Stay
        }
    }
}

/// Returns the subcommand if the number of arguments is right.
///
/// # Errors
/// The error reply.
fn subcommand(arguments: &Arguments<'_>) -> Result<&'static Subcommand, String> {
    let name = arguments.get(1);
    let found = SUBCOMMANDS.iter().find(|(other, ..)| name.eq_ignore_ascii_case(other.as_bytes()));
    match found {
        None => Err(solera_commands::unknown_subcommand("CLIENT", name)),
        Some((_, full, least, most)) if !(*least..=*most).contains(&arguments.len()) => {
            Err(format!("ERR wrong number of arguments for '{full}' command"))
        }
        Some(found) => Ok(found),
    }
}

impl Request {
    /// Parses the arguments of a [`subcommand`]. The names of `users` are valid in KILL USER.
    ///
    /// # Errors
    /// The error reply.
    fn parse(
        (name, ..): &Subcommand,
        arguments: &Arguments<'_>,
        users: &Users,
    ) -> Result<Request, String> {
        let third = arguments.get(2);
        Ok(match *name {
            "getname" => Request::GetName,
            "help" => Request::Help,
            "id" => Request::Id,
            "info" => Request::Info,
            "kill" => Request::Kill(kill(arguments, users)?),
            "list" => Request::List(listed(arguments)?),
            "no-evict" | "no-touch" => match third.to_ascii_lowercase().as_slice() {
                b"on" | b"off" => Request::NoEffect,
                _ => return Err(SYNTAX.to_owned()),
            },
            "reply" => Request::Reply(match third.to_ascii_lowercase().as_slice() {
                b"on" => Reply::On,
                b"off" => Reply::Off,
                b"skip" => Reply::Skip,
                _ => return Err(SYNTAX.to_owned()),
            }),
            "setinfo" => info(third, arguments.get(3))?,
            "setname" => Request::SetName(word(third).ok_or(BAD_NAME)?),
            other => unreachable!("{other} is in the table"),
        })
    }

    /// Runs the command and appends its reply.
    fn reply<W: Context>(self, session: &mut ClientSession<W>) -> Next {
        match self {
            Request::GetName if session.name.is_empty() => session.out.null(),
            Request::GetName => session.out.bulk(session.name.as_bytes()),
            Request::Help => help::answer(session, &HELP),
            Request::Id => session.out.integer(session.client.id as i64),
            Request::Info => {
                session.publish();
                let line = session.client.line() + "\n";
                session.out.verbatim(*b"txt", &line);
            }
            Request::Kill(kill) => return kill.reply(session),
            Request::List(ids) => list(session, ids.as_deref()),
            Request::NoEffect => session.out.simple("OK"),
            Request::Reply(reply) => reply.apply(session),
            Request::SetInfo(info, value) => {
                match info {
                    Info::LibraryName => session.library.0 = value,
                    Info::LibraryVersion => session.library.1 = value,
                }
                session.out.simple("OK");
            }
            Request::SetName(name) => {
                session.name = name;
                session.out.simple("OK");
            }
        }
        Next::Stay
    }
}

/// Returns `bytes` as text if they cannot break a line of `CLIENT LIST`.
pub(crate) fn word(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.bytes().all(|byte| byte.is_ascii_graphic()).then(|| text.to_owned())
}

fn info(option: &[u8], value: &[u8]) -> Result<Request, String> {
    let name = option.to_ascii_lowercase();
    let Some(value) = word(value) else {
        let name = String::from_utf8_lossy(&name);
        return Err(format!("ERR {name} cannot contain spaces, newlines or special characters."));
    };
    let info = match name.as_slice() {
        b"lib-name" => Info::LibraryName,
        b"lib-ver" => Info::LibraryVersion,
        _ => {
            let option = String::from_utf8_lossy(option);
            return Err(format!("ERR Unrecognized option '{option}'"));
        }
    };
    Ok(Request::SetInfo(info, value))
}

/// Returns the numbers of the clients that CLIENT LIST shows; `None` for all.
fn listed(arguments: &Arguments<'_>) -> Result<Option<Vec<i64>>, String> {
    if arguments.len() == 2 {
        return Ok(None);
    }
    let option = arguments.get(2).to_ascii_lowercase();
    match (option.as_slice(), arguments.len()) {
        (b"type", 4) => match arguments.get(3).to_ascii_lowercase().as_slice() {
            b"normal" => Ok(None),
            // Solera has no clients of these types.
            b"master" | b"replica" | b"slave" | b"pubsub" => Ok(Some(Vec::new())),
            _ => {
                let kind = String::from_utf8_lossy(arguments.get(3));
                Err(format!("ERR Unknown client type '{kind}'"))
            }
        },
        (b"id", 4..) => {
            let ids: Option<Vec<i64>> = arguments.from(3).map(parse_integer).collect();
            ids.map(Some).ok_or_else(|| "ERR Invalid client ID".to_owned())
        }
        _ => Err(SYNTAX.to_owned()),
    }
}

fn kill(arguments: &Arguments<'_>, users: &Users) -> Result<Kill, String> {
    if arguments.len() == 3 {
        return Ok(Kill::Address(arguments.get(2).to_vec()));
    }
    let (mut filters, mut skip_me) = (Vec::new(), true);
    for at in (2..arguments.len()).step_by(2) {
        if at + 1 == arguments.len() {
            return Err(SYNTAX.to_owned());
        }
        let (option, value) = (arguments.get(at).to_ascii_lowercase(), arguments.get(at + 1));
        match (option.as_slice(), value.to_ascii_lowercase().as_slice()) {
            (b"id", _) => match parse_integer(value) {
                Some(id @ 1..) => filters.push(Filter::Id(id)),
                _ => return Err("ERR client-id should be greater than 0".to_owned()),
            },
            (b"addr", _) => filters.push(Filter::Address(value.to_vec())),
            (b"laddr", _) => filters.push(Filter::LocalAddress(value.to_vec())),
            (b"user", _) => {
                if !users.iter().any(|user| user.name.as_bytes() == value) {
                    let name = String::from_utf8_lossy(value);
                    return Err(format!("ERR No such user '{name}'"));
                }
                filters.push(Filter::User(value.to_vec()));
            }
            (b"skipme", b"yes") => skip_me = true,
            (b"skipme", b"no") => skip_me = false,
            _ => return Err(SYNTAX.to_owned()),
        }
    }
    Ok(Kill::Matching { filters, skip_me })
}

impl Reply {
    fn apply<W: Context>(self, session: &mut ClientSession<W>) {
        match self {
            Reply::On => {
                session.replies = Replies::On;
                session.out.simple("OK");
            }
            Reply::Off => session.replies = Replies::Off,
            Reply::Skip if session.replies == Replies::Off => {}
            Reply::Skip => session.replies = Replies::SkipNext,
        }
    }
}

fn list<W: Context>(session: &mut ClientSession<W>, ids: Option<&[i64]>) {
    session.publish();
    let mut lines = String::new();
    for client in session.worker.clients() {
        if ids.is_none_or(|ids| ids.contains(&(client.id as i64))) {
            lines += &client.line();
            lines.push('\n');
        }
    }
    session.out.verbatim(*b"txt", &lines);
}

impl Kill {
    fn reply<W: Context>(self, session: &mut ClientSession<W>) -> Next {
        let mut found = session.worker.clients();
        match self {
            Kill::Address(address) => {
                let of = |client: &&Arc<Client>| client.address().as_bytes() == address;
                let Some(found) = found.iter().find(of) else {
                    session.fail("ERR No such client");
                    return Next::Stay;
                };
                session.out.simple("OK");
                end(session, std::slice::from_ref(found))
            }
            Kill::Matching { filters, skip_me } => {
                let me = session.client.id;
                found.retain(|client| {
                    filters.iter().all(|filter| filter.matches(client))
                        && !(skip_me && client.id == me)
                });
                session.out.integer(found.len() as i64);
                end(session, &found)
            }
        }
    }
}

impl Filter {
    fn matches(&self, client: &Client) -> bool {
        match self {
            Filter::Id(id) => client.id as i64 == *id,
            Filter::Address(address) => client.address().as_bytes() == address,
            Filter::LocalAddress(address) => client.local_address().as_bytes() == address,
            Filter::User(name) => client.is_user(name),
        }
    }
}

/// Ends connections. The session's own connection ends after its reply.
fn end<W: Context>(session: &ClientSession<W>, clients: &[Arc<Client>]) -> Next {
    let (own, others): (Vec<_>, Vec<_>) =
        clients.iter().partition(|client| client.id == session.client.id);
    others.iter().for_each(|client| client.kill());
    if own.is_empty() { Next::Stay } else { Next::Close }
}

#[cfg(test)]
mod tests {
    use solera_config::User;

    use super::super::request::testing::with_line;
    use super::*;

    fn parse(line: &str) -> Result<Request, String> {
        let users = Users::new(vec![User::new("bob")]);
        with_line(line, |arguments, _| Request::parse(subcommand(arguments)?, arguments, &users))
    }

    #[test]
    fn subcommands_and_their_arguments_are_parsed() {
        for (line, request) in [
            ("CLIENT GetName", Request::GetName),
            ("CLIENT NO-EVICT on", Request::NoEffect),
            ("CLIENT REPLY skip", Request::Reply(Reply::Skip)),
            ("CLIENT SETNAME a", Request::SetName("a".to_owned())),
            ("CLIENT SETINFO LIB-VER 1", Request::SetInfo(Info::LibraryVersion, "1".to_owned())),
            ("CLIENT LIST", Request::List(None)),
            ("CLIENT LIST TYPE pubsub", Request::List(Some(Vec::new()))),
            ("CLIENT LIST ID 1 2", Request::List(Some(vec![1, 2]))),
            ("CLIENT KILL a:1", Request::Kill(Kill::Address(b"a:1".to_vec()))),
        ] {
            assert_eq!(parse(line), Ok(request), "{line}");
        }
        let filters = vec![Filter::Id(3), Filter::User(b"bob".to_vec())];
        let kill = Request::Kill(Kill::Matching { filters, skip_me: false });
        assert_eq!(parse("CLIENT KILL ID 3 USER bob SKIPME No"), Ok(kill));
    }

    #[test]
    fn bad_arguments_are_rejected() {
        for (line, error) in [
            ("CLIENT FOO", "ERR unknown subcommand 'FOO'. Try CLIENT HELP."),
            ("CLIENT ID 1", "ERR wrong number of arguments for 'client|id' command"),
            ("CLIENT NO-TOUCH maybe", SYNTAX),
            ("CLIENT REPLY maybe", SYNTAX),
            ("CLIENT SETNAME \"a b\"", BAD_NAME),
            (
                "CLIENT SETINFO LIB-NAME \"a b\"",
                "ERR lib-name cannot contain spaces, newlines or special characters.",
            ),
            ("CLIENT SETINFO Foo 1", "ERR Unrecognized option 'Foo'"),
            ("CLIENT LIST TYPE", SYNTAX),
            ("CLIENT LIST TYPE Foo", "ERR Unknown client type 'Foo'"),
            ("CLIENT LIST ID x", "ERR Invalid client ID"),
            ("CLIENT KILL ID 0", "ERR client-id should be greater than 0"),
            ("CLIENT KILL USER eve FOO 1", "ERR No such user 'eve'"),
            ("CLIENT KILL ID 1 ADDR", SYNTAX),
            ("CLIENT KILL SKIPME maybe", SYNTAX),
        ] {
            assert_eq!(parse(line), Err(error.to_owned()), "{line}");
        }
    }
}
