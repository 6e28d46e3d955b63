//! SOLERA.HOME: reports the homes of the shards of spaces of level `pcpsi`, and moves them.

use std::collections::BTreeSet;

use solera_config::ClusterSpec;
use solera_occult::{Command, Move, Response, ShardId};
use solera_resp::{Arguments, parse_integer};
use solera_time::SiteId;

use super::help;
use super::request::Request;
use super::sites::site_named;
use crate::context::Context;
use crate::session::ClientSession;

const SYNTAX: &str = "ERR syntax error: SOLERA.HOME [KEY key | MOVE FROM site | SHARDS first-last … | KEY key TO site [FORCE]]";

const NO_HOME: &str = "ERR the key is in no space of level pcpsi, so it has no home";

const HELP: &[&str] = &[
    "SOLERA.HOME [<subcommand> [<arg> ...]]. Without one, return how many shards have their home at each site. Subcommands are:",
    "KEY <key>",
    "    Return the number of the key's shard, and its home.",
    "MOVE FROM <site> TO <site> [FORCE]",
    "    Move all shards of a site to another one.",
    "MOVE SHARDS <first>[-<last>] ... TO <site> [FORCE]",
    "    Move these shards.",
    "MOVE KEY <key> TO <site> [FORCE]",
    "    Move the shard of a key.",
    "HELP",
    "    Print this help.",
    "A move is agreed on at once, and complete when 'arriving' is 0 and 'behind' empty. FORCE does without the former home: \
     writes that only it has are lost, and sessions that have seen them get LOST.",
];

/// Shards that move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// All shards of a site.
    From(SiteId),
    Shards(Vec<(ShardId, ShardId)>),
    /// The shard of a key.
    Key(Vec<u8>),
}

/// SOLERA.HOME [KEY key | MOVE …].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Help,
    /// Counts the shards of each site.
    Counts,
    /// Returns the shard of a key, and its home.
    Key(Vec<u8>),
    Move {
        what: What,
        to: SiteId,
        forced: bool,
    },
}

impl Request for Home {
    fn parse(arguments: &Arguments<'_>, spec: &ClusterSpec) -> Result<Home, String> {
        if help::is_asked(arguments) {
            return Ok(Home::Help);
        }
        let is = |at: usize, name: &[u8]| arguments.get(at).eq_ignore_ascii_case(name);
        match arguments.len() {
            1 => Ok(Home::Counts),
            3 if is(1, b"key") => Ok(Home::Key(arguments.get(2).to_vec())),
            6.. if is(1, b"move") => {
                let mut end = arguments.len();
                let forced = is(end - 1, b"force");
                end -= usize::from(forced);
                if end < 6 || !is(end - 2, b"to") {
                    return Err(SYNTAX.to_owned());
                }
                let to = site_named(spec, arguments.get(end - 1))?;
                let what = what(arguments, spec, end - 2)?;
                Ok(Home::Move { what, to, forced })
            }
            _ => Err(SYNTAX.to_owned()),
        }
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        if !session.worker.spec().spaces.run_occult() && self != Home::Help {
            return session.fail("ERR there is no space of level pcpsi");
        }
        match self {
            Home::Help => help::answer(session, HELP),
            Home::Counts => write_counts(session).await,
            Home::Key(key) => write_shard(session, &key),
            Home::Move { what: What::Key(key), .. } if !has_home(session, &key) => {
                session.fail(NO_HOME);
            }
            Home::Move { what, to, forced } => {
                let moved = move_homes(&*session.worker, what, to, forced).await;
                session.answer_ok(moved);
            }
        }
    }
}

/// Parses what moves: the arguments from the third one up to `end`.
fn what(arguments: &Arguments<'_>, spec: &ClusterSpec, end: usize) -> Result<What, String> {
    let is = |name: &[u8]| arguments.get(2).eq_ignore_ascii_case(name);
    let given = || (3..end).map(|at| arguments.get(at));
    match end {
        4 if is(b"from") => Ok(What::From(site_named(spec, arguments.get(3))?)),
        4 if is(b"key") => Ok(What::Key(arguments.get(3).to_vec())),
        4.. if is(b"shards") => {
            let ranges = given().map(|text| range(text, spec.occult_shards()));
            Ok(What::Shards(ranges.collect::<Result<_, _>>()?))
        }
        _ => Err(SYNTAX.to_owned()),
    }
}

fn range(text: &[u8], shards: u16) -> Result<(ShardId, ShardId), String> {
    let number = |text: &[u8]| {
        let number = parse_integer(text).and_then(|number| u16::try_from(number).ok());
        number.filter(|number| *number < shards).map(ShardId)
    };
    let mut ends = text.splitn(2, |byte| *byte == b'-');
    let first = ends.next().and_then(number);
    let last = ends.next().map_or(first, number);
    match (first, last) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        _ => Err(format!(
            "ERR '{}' is no shard and no range of shards; shards are 0 to {}",
            String::from_utf8_lossy(text),
            shards - 1
        )),
    }
}

async fn write_counts<W: Context>(session: &mut ClientSession<W>) {
    let asked = session.worker.ask_occult(session.worker.address(), Command::Moves).await;
    let Some(Response::Moves { arriving, behind }) = asked else {
        return session.fail_unanswered();
    };
    let behind: BTreeSet<SiteId> = behind.into_iter().map(|worker| worker.site).collect();
    let counted = session.worker.with_occult(|occult| {
        let homes = occult.homes();
        let mut counts = vec![0_i64; occult.config().topology.sites()];
        for shard in ShardId::all(homes.shards()) {
            counts[homes.home(shard).index()] += 1;
        }
        (homes.epoch(), counts)
    });
    let Some((moves, counts)) = counted else {
        return session.fail_unanswered();
    };
    let names: Vec<String> =
        session.worker.spec().sites.iter().map(|site| site.name.clone()).collect();
    let out = &mut session.out;
    out.map(4);
    out.bulk(b"shards");
    out.map(names.len());
    for (name, count) in names.iter().zip(counts) {
        out.bulk(name.as_bytes());
        out.integer(count);
    }
    out.bulk(b"moves");
    out.integer(moves as i64);
    out.bulk(b"arriving");
    out.integer(arriving as i64);
    out.bulk(b"behind");
    out.array(behind.len());
    behind.iter().for_each(|site| out.bulk(names[site.index()].as_bytes()));
}

/// Returns whether a key is in a space of level `pcpsi`.
fn has_home<W: Context>(session: &ClientSession<W>, key: &[u8]) -> bool {
    session.worker.spec().spaces.is_of_occult(key)
}

fn write_shard<W: Context>(session: &mut ClientSession<W>, key: &[u8]) {
    if !has_home(session, key) {
        return session.fail(NO_HOME);
    }
    let found = session.worker.with_occult(|occult| {
        let shard = occult.config().shard_of(key);
        (shard, occult.homes().home(shard))
    });
    let Some((shard, home)) = found else { return session.fail_unanswered() };
    let home = session.worker.site_name(home).to_owned();
    let out = &mut session.out;
    out.map(2);
    out.bulk(b"shard");
    out.integer(i64::from(shard.0));
    out.bulk(b"home");
    out.bulk(home.as_bytes());
}

/// Has the sites agree on a move.
///
/// # Errors
/// The error reply.
async fn move_homes(
    worker: &impl Context,
    what: What,
    to: SiteId,
    forced: bool,
) -> Result<(), String> {
    let from = match what {
        What::From(site) => Some(site),
        What::Shards(_) | What::Key(_) => None,
    };
    let shards = worker.with_occult(|occult| match what {
        What::From(site) => {
            let homes = occult.homes();
            // A forced move also completes the moves that wait for the site.
            let waits = |shard| forced && homes.arrives_from(shard, site);
            let theirs = |shard: &ShardId| homes.home(*shard) == site || waits(*shard);
            solera_occult::ranges(ShardId::all(homes.shards()).filter(theirs))
        }
        What::Shards(ranges) => ranges,
        What::Key(key) => {
            let shard = occult.config().shard_of(&key);
            vec![(shard, shard)]
        }
    });
    let shards = shards.unwrap_or_default();
    if shards.is_empty() {
        return Ok(());
    }
    let next = Move { shards, from, to: vec![to], forced };
    match worker.ask_occult(worker.address(), Command::Move(next)).await {
        Some(Response::Moving) => Ok(()),
        Some(Response::NotMoved(reason)) => Err(format!("TRYAGAIN the homes stay: {reason}")),
        _ => Err("TRYAGAIN the worker gave no answer; SOLERA.HOME shows the homes".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn shards_are_named_by_site_number_or_key() {
        assert_eq!(parse("SOLERA.HOME"), Ok(Home::Counts));
        assert_eq!(parse("SOLERA.HOME key k"), Ok(Home::Key(b"k".to_vec())));
        let of = |what, forced| Ok(Home::Move { what, to: SiteId(1), forced });
        let to = "TO us";
        assert_eq!(
            parse(&format!("SOLERA.HOME MOVE FROM eu {to}")),
            of(What::From(SiteId(0)), false)
        );
        let shards = vec![(ShardId(3), ShardId(5)), (ShardId(9), ShardId(9))];
        assert_eq!(
            parse(&format!("SOLERA.HOME move shards 3-5 9 {to} force")),
            of(What::Shards(shards), true)
        );
        assert_eq!(
            parse(&format!("SOLERA.HOME MOVE KEY k {to}")),
            of(What::Key(b"k".to_vec()), false)
        );
        rejects::<Home>(&[
            ("SOLERA.HOME KEY", SYNTAX),
            ("SOLERA.HOME KEY a b", SYNTAX),
            ("SOLERA.HOME MOVE KEY k", SYNTAX),
            ("SOLERA.HOME MOVE KEY k TO", SYNTAX),
            (
                "SOLERA.HOME MOVE SHARDS 5-3 TO us",
                "ERR '5-3' is no shard and no range of shards; shards are 0 to 16383",
            ),
        ]);
    }
}
