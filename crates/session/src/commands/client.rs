//! CLIENT: what is known of connections, and what one may do to them.

use std::sync::Arc;

use solera_resp::{Arguments, parse_integer};

use super::help;
use crate::client::Client;
use crate::context::Context;
use crate::session::{Next, Replies, Session};

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
    "    Taken and without effect: nothing is evicted here.",
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

/// The subcommands, as `CLIENT LIST` shows them; with how many arguments they take, CLIENT included.
pub(super) const SUBCOMMANDS: [(&str, &str, usize, usize); 11] = [
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

pub(crate) fn client<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) -> Next {
    let name = arguments.get(1);
    let found = SUBCOMMANDS.iter().find(|(other, ..)| name.eq_ignore_ascii_case(other.as_bytes()));
    let Some((subcommand, full, least, most)) = found else {
        session.fail(solera_commands::unknown_subcommand("CLIENT", name));
        return Next::Stay;
    };
    if !(*least..=*most).contains(&arguments.len()) {
        session.fail(format!("ERR wrong number of arguments for '{full}' command"));
        return Next::Stay;
    }
    session.last_command = full;
    match *subcommand {
        "help" => help::answer(session, &HELP),
        "id" => session.out.integer(session.client.id as i64),
        "getname" if session.name.is_empty() => session.out.null(),
        "getname" => session.out.bulk(session.name.as_bytes()),
        "setname" => set_name(session, arguments.get(2)),
        "setinfo" => set_info(session, arguments),
        "no-evict" | "no-touch" => match on_or_off(arguments.get(2)) {
            Some(_) => session.out.simple("OK"),
            None => session.fail(SYNTAX),
        },
        "reply" => reply(session, arguments.get(2)),
        "info" => {
            session.tell();
            let line = session.client.line() + "\n";
            session.out.verbatim(*b"txt", &line);
        }
        "list" => list(session, arguments),
        "kill" => return kill(session, arguments),
        other => unreachable!("{other} is in the table"),
    }
    Next::Stay
}

/// Text that does not break the lines of `CLIENT LIST`, if it is that.
pub(crate) fn word(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.bytes().all(|byte| byte.is_ascii_graphic()).then(|| text.to_owned())
}

fn set_name<W: Context>(session: &mut Session<W>, name: &[u8]) {
    match word(name) {
        Some(name) => {
            session.name = name;
            session.out.simple("OK");
        }
        None => session.fail(BAD_NAME),
    }
}

fn set_info<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let option = arguments.get(2).to_ascii_lowercase();
    let Some(value) = word(arguments.get(3)) else {
        let option = String::from_utf8_lossy(&option).into_owned();
        return session
            .fail(format!("ERR {option} cannot contain spaces, newlines or special characters."));
    };
    match option.as_slice() {
        b"lib-name" => session.library.0 = value,
        b"lib-ver" => session.library.1 = value,
        _ => {
            let option = String::from_utf8_lossy(arguments.get(2)).into_owned();
            return session.fail(format!("ERR Unrecognized option '{option}'"));
        }
    }
    session.out.simple("OK");
}

fn on_or_off(text: &[u8]) -> Option<bool> {
    let is = |other: &[u8]| text.eq_ignore_ascii_case(other);
    (is(b"on") || is(b"off")).then(|| is(b"on"))
}

fn reply<W: Context>(session: &mut Session<W>, wanted: &[u8]) {
    match wanted.to_ascii_lowercase().as_slice() {
        b"on" => {
            session.replies = Replies::On;
            session.out.simple("OK");
        }
        b"off" => session.replies = Replies::Off,
        b"skip" if session.replies == Replies::Off => {}
        b"skip" => session.replies = Replies::SkipNext,
        _ => session.fail(SYNTAX),
    }
}

fn list<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let mut ids: Option<Vec<i64>> = None;
    if arguments.len() > 2 {
        let option = arguments.get(2).to_ascii_lowercase();
        match (option.as_slice(), arguments.len()) {
            (b"type", 4) => {
                let kind = arguments.get(3).to_ascii_lowercase();
                match kind.as_slice() {
                    b"normal" => {}
                    // There are none of these.
                    b"master" | b"replica" | b"slave" | b"pubsub" => ids = Some(Vec::new()),
                    _ => {
                        let kind = String::from_utf8_lossy(arguments.get(3)).into_owned();
                        return session.fail(format!("ERR Unknown client type '{kind}'"));
                    }
                }
            }
            (b"id", 4..) => match arguments.from(3).map(parse_integer).collect() {
                Some(found) => ids = Some(found),
                None => return session.fail("ERR Invalid client ID"),
            },
            _ => return session.fail(SYNTAX),
        }
    }
    session.tell();
    let mut lines = String::new();
    for client in session.worker.clients() {
        if ids.as_ref().is_none_or(|ids| ids.contains(&(client.id as i64))) {
            lines += &client.line();
            lines.push('\n');
        }
    }
    session.out.verbatim(*b"txt", &lines);
}

fn kill<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) -> Next {
    let is = |at: usize, name: &[u8]| arguments.get(at).eq_ignore_ascii_case(name);
    if arguments.len() == 3 {
        let address = arguments.get(2);
        let all = session.worker.clients();
        let Some(found) = all.iter().find(|client| client.address().as_bytes() == address) else {
            session.fail("ERR No such client");
            return Next::Stay;
        };
        session.out.simple("OK");
        return end(session, std::slice::from_ref(found));
    }
    let mut skip_me = true;
    let mut found = session.worker.clients();
    let mut at = 2;
    while at < arguments.len() {
        if at + 1 == arguments.len() {
            session.fail(SYNTAX);
            return Next::Stay;
        }
        let value = arguments.get(at + 1);
        if is(at, b"id") {
            let Some(id) = parse_integer(value).filter(|id| *id > 0) else {
                session.fail("ERR client-id should be greater than 0");
                return Next::Stay;
            };
            found.retain(|client| client.id as i64 == id);
        } else if is(at, b"addr") {
            found.retain(|client| client.address().as_bytes() == value);
        } else if is(at, b"laddr") {
            found.retain(|client| client.local_address().as_bytes() == value);
        } else if is(at, b"user") {
            let users = session.worker.users();
            if !users.iter().any(|user| user.name.as_bytes() == value) {
                let name = String::from_utf8_lossy(value).into_owned();
                session.fail(format!("ERR No such user '{name}'"));
                return Next::Stay;
            }
            found.retain(|client| client.is_user(value));
        } else if is(at, b"skipme") && (is(at + 1, b"yes") || is(at + 1, b"no")) {
            skip_me = is(at + 1, b"yes");
        } else {
            session.fail(SYNTAX);
            return Next::Stay;
        }
        at += 2;
    }
    let me = session.client.id;
    found.retain(|client| !(skip_me && client.id == me));
    session.out.integer(found.len() as i64);
    end(session, &found)
}

/// Ends connections; the own one after its reply.
fn end<W: Context>(session: &Session<W>, clients: &[Arc<Client>]) -> Next {
    let (own, others): (Vec<_>, Vec<_>) =
        clients.iter().partition(|client| client.id == session.client.id);
    others.iter().for_each(|client| client.kill());
    if own.is_empty() { Next::Stay } else { Next::Close }
}
