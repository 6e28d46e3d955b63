//! Parser for SOLERA.MODULE, SOLERA.CALL and SOLERA.PHASE.

use solera_commands::unknown_subcommand;
use solera_session::CallLevel;

/// A parsed request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Load {
        name: String,
        source: String,
        replace: bool,
        binds: Binds,
    },
    Drop {
        name: String,
    },
    List,
    Source {
        name: String,
    },
    Check {
        name: String,
        source: String,
    },
    /// `level` is that of an operation of the speculative space; `None` for its final result.
    Call {
        module: String,
        transaction: String,
        args: Vec<Vec<u8>>,
        level: Option<CallLevel>,
    },
    Resume {
        ticket: String,
    },
    Incomplete,
    Complete {
        transaction: String,
    },
    Forget {
        transaction: String,
    },
    Phase(Phase),
}

/// A request of a coordinator in another process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Run an encoded remote group.
    Run(Vec<u8>),
    /// Return whether a remote group is over. `until_ms` is its time limit.
    Settle { number: u64, until_ms: u64 },
    /// Store the source of a module.
    Learn { source: String },
}

/// Pairs of a store and the space that it is bound to.
pub(crate) type Binds = Vec<(String, String)>;

/// Maximal length of a module's name, in bytes.
const NAME: usize = 128;

impl Request {
    /// Parses a request: the command's name and its arguments. A source has at most `most` bytes.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) fn read(words: &[Vec<u8>], most: usize) -> Result<Request, String> {
        let command = String::from_utf8_lossy(&words[0]).to_lowercase();
        let rest = &words[1..];
        match command.as_str() {
            "solera.call" => call(rest),
            "solera.phase" => phase(rest, most).map(Request::Phase),
            _ => module(rest, most),
        }
    }
}

fn call(words: &[Vec<u8>]) -> Result<Request, String> {
    let name = text(&words[0], "a transaction's name")?;
    if name.eq_ignore_ascii_case("resume") {
        return match &words[1..] {
            [ticket] => Ok(Request::Resume { ticket: text(ticket, "a ticket")? }),
            _ => Err("ERR SOLERA.CALL RESUME takes one ticket".to_owned()),
        };
    }
    if name.eq_ignore_ascii_case("incomplete") {
        return match &words[1..] {
            [] => Ok(Request::Incomplete),
            _ => Err("ERR SOLERA.CALL INCOMPLETE takes no arguments".to_owned()),
        };
    }
    if name.eq_ignore_ascii_case("complete") {
        return match &words[1..] {
            [name] => Ok(Request::Complete { transaction: text(name, "a transaction's name")? }),
            _ => Err("ERR SOLERA.CALL COMPLETE takes the name of one transaction".to_owned()),
        };
    }
    if name.eq_ignore_ascii_case("forget") {
        return match &words[1..] {
            [name] => Ok(Request::Forget { transaction: text(name, "a transaction's name")? }),
            _ => Err("ERR SOLERA.CALL FORGET takes the name of one transaction".to_owned()),
        };
    }
    let level = match &words[0] {
        word if word.eq_ignore_ascii_case(b"weak") => Some(CallLevel::Weak),
        word if word.eq_ignore_ascii_case(b"strong") => Some(CallLevel::Strong),
        _ => None,
    };
    let (name, args) = match (level, &words[1..]) {
        (Some(_), [name, args @ ..]) => (text(name, "a transaction's name")?, args),
        (_, args) => (name, args),
    };
    let Some((module, transaction)) = name.rsplit_once('.') else {
        return Err(format!(
            "ERR '{}' is not a transaction: write module.transaction",
            name.escape_debug()
        ));
    };
    let (module, transaction) = (module.to_owned(), transaction.to_owned());
    Ok(Request::Call { module, transaction, args: args.to_vec(), level })
}

fn phase(words: &[Vec<u8>], most: usize) -> Result<Phase, String> {
    let number = |word: &[u8]| {
        let number = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| "ERR SOLERA.PHASE SETTLE takes two numbers".to_owned())
    };
    let subcommand = String::from_utf8_lossy(&words[0]).to_lowercase();
    match (subcommand.as_str(), &words[1..]) {
        ("run", [bytes]) => Ok(Phase::Run(bytes.clone())),
        ("settle", [name, until_ms]) => {
            Ok(Phase::Settle { number: number(name)?, until_ms: number(until_ms)? })
        }
        ("learn", [source]) => Ok(Phase::Learn { source: sourced(source, most)? }),
        ("run" | "settle" | "learn" | "help", _) => {
            Err(format!("ERR wrong number of arguments for 'solera.phase|{subcommand}' command"))
        }
        _ => Err(unknown_subcommand("SOLERA.PHASE", &words[0])),
    }
}

fn module(words: &[Vec<u8>], most: usize) -> Result<Request, String> {
    let subcommand = String::from_utf8_lossy(&words[0]).to_lowercase();
    match (subcommand.as_str(), &words[1..]) {
        ("list", []) => Ok(Request::List),
        ("drop", [name]) => Ok(Request::Drop { name: named(name)? }),
        ("source", [name]) => Ok(Request::Source { name: named(name)? }),
        ("check", [name, source]) => {
            Ok(Request::Check { name: named(name)?, source: sourced(source, most)? })
        }
        ("load", [name, rest @ ..]) if !rest.is_empty() => load(name, rest, most),
        ("list" | "drop" | "source" | "check" | "load" | "help", _) => {
            Err(format!("ERR wrong number of arguments for 'solera.module|{subcommand}' command"))
        }
        _ => Err(unknown_subcommand("SOLERA.MODULE", &words[0])),
    }
}

/// Parses LOAD. The source follows the name or is the last argument, where `redis-cli -x` puts it.
/// In the latter case, REPLACE may also follow the source: it is no source of a module.
fn load(name: &[u8], rest: &[Vec<u8>], most: usize) -> Result<Request, String> {
    let is_option = |word: &Vec<u8>| {
        word.eq_ignore_ascii_case(b"replace") || word.eq_ignore_ascii_case(b"bind")
    };
    let options_first = rest.first().is_some_and(is_option);
    let (rest, mut replace) = match rest {
        [rest @ .., last]
            if options_first && rest.len() > 1 && last.eq_ignore_ascii_case(b"replace") =>
        {
            (rest, true)
        }
        _ => (rest, false),
    };
    let (source, options) = match rest {
        [options @ .., source] if options_first => (source, options),
        [source, options @ ..] => (source, options),
        [] => unreachable!("the caller has checked the number of words"),
    };
    let name = named(name)?;
    let source = sourced(source, most)?;
    let mut binds = Binds::new();
    let mut options = options.iter().peekable();
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"replace") {
            replace = true;
        } else if option.eq_ignore_ascii_case(b"bind") {
            binds.push(bound(options.next(), &binds)?);
            // Further pairs may follow one BIND, because neither option contains a `=`.
            while let Some(pair) = options.next_if(|word| word.contains(&b'=')) {
                binds.push(bound(Some(pair), &binds)?);
            }
        } else {
            let option = String::from_utf8_lossy(option);
            return Err(format!(
                "ERR '{}' is neither REPLACE nor BIND store=space",
                option.escape_debug()
            ));
        }
    }
    Ok(Request::Load { name, source, replace, binds })
}

/// Parses the pair after BIND. `binds` are the pairs before it.
fn bound(pair: Option<&Vec<u8>>, binds: &Binds) -> Result<(String, String), String> {
    let pair = pair.map(|pair| text(pair, "a binding")).transpose()?;
    let pair = pair.as_deref().and_then(|pair| pair.split_once('='));
    let Some((store, space)) = pair else {
        return Err("ERR BIND takes store=space".to_owned());
    };
    if binds.iter().any(|(bound, _)| bound == store) {
        return Err(format!("ERR BIND names the store '{}' twice", store.escape_debug()));
    }
    Ok((store.to_owned(), space.to_owned()))
}

fn named(bytes: &[u8]) -> Result<String, String> {
    let name = text(bytes, "a module's name")?;
    let is_allowed = |c: char| c.is_alphanumeric() || c == '_' || c == '-' || c == '.';
    if name.is_empty() || name.len() > NAME || !name.chars().all(is_allowed) {
        let shown: String = name.chars().take(40).collect();
        return Err(format!(
            "ERR '{}' is not a valid name of a module: letters, digits, '_', '-' and '.', at most {NAME} bytes",
            shown.escape_debug()
        ));
    }
    Ok(name)
}

fn sourced(bytes: &[u8], most: usize) -> Result<String, String> {
    if bytes.len() > most {
        let length = bytes.len();
        return Err(format!("ERR the source has {length} bytes, and a module at most {most}"));
    }
    text(bytes, "the source")
}

fn text(bytes: &[u8], what: &str) -> Result<String, String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(format!("ERR {what} is not UTF-8 after {} bytes", error.valid_up_to())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&[u8]]) -> Result<Request, String> {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
        Request::read(&words, 100)
    }

    #[test]
    fn the_source_follows_the_name_or_is_last() {
        let first = read(&[b"SOLERA.MODULE", b"load", b"m", b"x", b"replace", b"BIND", b"a=b"]);
        let last = read(&[b"solera.module", b"LOAD", b"m", b"REPLACE", b"bind", b"a=b", b"x"]);
        let end = read(&[b"solera.module", b"LOAD", b"m", b"bind", b"a=b", b"x", b"replace"]);
        assert_eq!(last, end);
        let binds = vec![("a".to_owned(), "b".to_owned())];
        let load = Request::Load { name: "m".into(), source: "x".into(), replace: true, binds };
        assert_eq!(first.as_ref(), Ok(&load));
        assert_eq!(first, last);
    }

    #[test]
    fn one_bind_or_several_take_several_pairs() {
        let pair = |store: &str, space: &str| (store.to_owned(), space.to_owned());
        let binds = vec![pair("a", "x"), pair("b", "far/y"), pair("c", "z")];
        let load = Request::Load { name: "m".into(), source: "s=".into(), replace: true, binds };
        for words in [
            &[&b"s="[..], b"BIND", b"a=x", b"b=far/y", b"c=z", b"REPLACE"][..],
            &[b"s=", b"BIND", b"a=x", b"BIND", b"b=far/y", b"c=z", b"REPLACE"],
            &[b"REPLACE", b"BIND", b"a=x", b"b=far/y", b"bind", b"c=z", b"s="],
        ] {
            let command = [&[&b"SOLERA.MODULE"[..], b"LOAD", b"m"], words].concat();
            assert_eq!(read(&command).as_ref(), Ok(&load));
        }
    }

    #[test]
    fn names_are_split_at_the_last_dot() {
        let words = [&b"SOLERA.CALL"[..], b"a.b.c", b"1"];
        let weak = [&b"SOLERA.CALL"[..], b"Weak", b"a.b.c", b"1"];
        for (words, expected) in [(&words[..], None), (&weak[..], Some(CallLevel::Weak))] {
            let Ok(Request::Call { module, transaction, args, level }) = read(words) else {
                panic!("it is a call")
            };
            assert_eq!((&*module, &*transaction, args), ("a.b", "c", vec![b"1".to_vec()]));
            assert_eq!(level, expected);
        }
    }

    #[test]
    fn errors_name_the_reason() {
        let long = [b'x'; 101];
        for (words, reason) in [
            (&[&b"SOLERA.CALL"[..], b"m"][..], "write module.transaction"),
            (&[b"SOLERA.CALL", b"resume"], "one ticket"),
            (&[b"SOLERA.CALL", b"\xff"], "not UTF-8"),
            (&[b"SOLERA.CALL", b"complete"], "the name of one transaction"),
            (&[b"SOLERA.MODULE", b"load", b"m"], "wrong number"),
            (&[b"SOLERA.MODULE", b"load", b"m", &long], "101 bytes"),
            (&[b"SOLERA.MODULE", b"load", b"m", b"ab\xff"], "not UTF-8 after 2 bytes"),
            (&[b"SOLERA.MODULE", b"load", b"m", b"x", b"bind"], "store=space"),
            (&[b"SOLERA.MODULE", b"load", b"m", b"x", b"now"], "'now' is neither"),
            (
                &[b"SOLERA.MODULE", b"load", b"m", b"x", b"bind", b"a=b", b"bind", b"a=c"],
                "'a' twice",
            ),
            (&[b"SOLERA.MODULE", b"load", b"m", b"x", b"bind", b"a=b", b"a=c"], "'a' twice"),
            (&[b"SOLERA.MODULE", b"load", b"m", b"x", b"a=b"], "'a=b' is neither"),
            (&[b"SOLERA.MODULE", b"load", b"a b", b"x"], "not a valid name of a module"),
            (&[b"SOLERA.MODULE", b"list", b"x"], "wrong number"),
            (&[b"SOLERA.MODULE", b"burn"], "unknown subcommand 'burn'. Try SOLERA.MODULE HELP"),
            (&[b"SOLERA.PHASE", b"run"], "wrong number"),
            (&[b"SOLERA.PHASE", b"settle", b"1", b"-1"], "two numbers"),
            (&[b"SOLERA.PHASE", b"learn", &long], "101 bytes"),
            (&[b"SOLERA.PHASE", b"stop", b"1"], "Try SOLERA.PHASE HELP"),
        ] {
            let error = read(words).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
