//! Solera's own commands: tokens, barriers, sites and spaces.

use std::time::Duration;

use solera_levels::Level;
use solera_membership::Standing;
use solera_resp::{Arguments, Writer, parse_integer};
use solera_time::{Physical, SiteId, Timestamp, Vector};
use solera_unistore::{Command, Pasts, Response, TransactionId};

use super::sites::site_named;
use crate::context::{Context, Unreachable};
use crate::session::Session;
use crate::token::Token;

/// How long SOLERA.ATTACH waits for what is still under way.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);

/// SOLERA.TOKEN: the session's causal and durability past, to be attached at any site.
pub(crate) fn token<W: Context>(session: &mut Session<W>) {
    if session.in_transaction() {
        session.fail("ERR take the token after the transaction, which it cannot contain yet");
        return;
    }
    let token = Token { cluster: session.worker.cluster(), pasts: session.pasts };
    session.out.bulk(token.encode().as_bytes());
}

/// SOLERA.ATTACH token: waits until this site holds the token's causal past (UniStore Alg. 1 l. 51). The token's
/// durability past is added to the session's without waiting, so that barriers here cover it.
/// SOLERA.ATTACH HORIZON: a time not before that of any commit which this site has heard of, and until when every session that
/// begins at any site sees all commits of all sites.
/// SOLERA.ATTACH UNTIL unix-ms [timeout-ms [site …]]: waits until it holds all that was committed until a time, at some
/// sites or at all.
pub(crate) async fn attach<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    if session.in_transaction() {
        session.fail("ERR SOLERA.ATTACH is not allowed inside a transaction");
        return;
    }
    if arguments.get(1).eq_ignore_ascii_case(b"until") {
        return attach_until(session, arguments).await;
    }
    if arguments.len() != 2 {
        return session.fail(
            "ERR SOLERA.ATTACH takes a token, or UNTIL unix-ms [timeout-ms [site …]], or HORIZON",
        );
    }
    if arguments.get(1).eq_ignore_ascii_case(b"horizon") {
        return horizon(session);
    }
    let spec = session.worker.spec();
    let token = match Token::decode(arguments.get(1), session.worker.cluster(), spec.sites.len()) {
        Ok(token) => token,
        Err(error) => {
            session.fail(format!("BADTOKEN {error}"));
            return;
        }
    };
    wait_for(session, token.pasts, ATTACH_TIMEOUT).await;
}

/// By how much the clocks of a site's workers may differ.
const SKEW: Duration = Duration::from_secs(1);

fn horizon<W: Context>(session: &mut Session<W>) {
    let physical = Timestamp::from_physical(session.worker.now().physical);
    let (latest, stable) = session.worker.with(|replica| {
        let status = replica.status();
        let (members, view) = (status.members(), status.view());
        let there = |site: &SiteId| members.standing(*site) != Standing::Gone;
        let settled = SiteId::all(members.sites()).filter(there).map(|site| view.settled_vec[site]);
        // Where nothing is ever strong, nothing is waited for.
        let is_strong = view.stable_vec.strong > Timestamp::ZERO;
        let strong = is_strong.then_some(view.settled_vec.strong);
        let latest = status.clock().max(view.clock).max(physical).later(SKEW);
        (latest, settled.chain(strong).min().unwrap_or(Timestamp::ZERO))
    });
    session.out.array(2);
    session.out.integer(latest.micros().div_ceil(1000).try_into().unwrap_or(i64::MAX));
    session.out.integer((stable.micros() / 1000).try_into().unwrap_or(i64::MAX));
}

/// Waits for what the sites that there are have committed until a time. Of one that is cut off, it is not known.
async fn attach_until<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let number = |index: usize| {
        let number = parse_integer(arguments.get(index));
        number.and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0)
    };
    let timeout = match arguments.len() {
        3 => Some(ATTACH_TIMEOUT),
        4.. => number(3).map(Duration::from_millis),
        _ => {
            return session.fail("ERR SOLERA.ATTACH UNTIL takes unix-ms [timeout-ms [site …]]");
        }
    };
    let (Some(until_ms), Some(timeout)) = (number(2), timeout) else {
        return session.fail("ERR a time is not an integer or out of range");
    };
    let until = Timestamp::from_physical(Physical(until_ms.saturating_mul(1000)));
    // Commits are given times of hybrid clocks, which may be ahead of physical ones.
    let physical = Timestamp::from_physical(session.worker.now().physical);
    let now = session.worker.with(|replica| replica.status().clock()).max(physical);
    if until > now.later(ATTACH_TIMEOUT) {
        return session.fail("ERR that is too far in the future to wait for");
    }
    let spec = session.worker.spec().clone();
    let mut named = Vec::new();
    for index in 4..arguments.len() {
        match site_named(&spec, arguments.get(index)) {
            Ok(site) => named.push(site),
            Err(error) => return session.fail(error),
        }
    }
    let past = session.worker.with(|replica| {
        let status = replica.status();
        let members = status.members();
        let wanted = |site: &SiteId| {
            members.standing(*site) != Standing::Gone && (named.is_empty() || named.contains(site))
        };
        let sites = SiteId::all(members.sites()).filter(wanted);
        sites.fold(Vector::zero(members.sites()), |past, site| past.with(site, until))
    });
    wait_for(session, Pasts::causal(past), timeout).await;
}

async fn wait_for<W: Context>(session: &mut Session<W>, pasts: Pasts, timeout: Duration) {
    let command = Command::Attach { pasts, timeout: Some(timeout) };
    match session.worker.call(command).await {
        Some(Response::Attached) => {
            session.pasts.join(&pasts);
            session.out.simple("OK");
        }
        Some(Response::Failed(error)) => session.fail_command(&error),
        _ => session.fail_unanswered(),
    }
}

/// SOLERA.BARRIER [timeout-ms]: waits until the session's durability past is uniform (Alg. 1 l. 49).
pub(crate) async fn barrier<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let timeout = match arguments.len() {
        1 => None,
        2 => match parse_integer(arguments.get(1)).and_then(|ms| u64::try_from(ms).ok()) {
            Some(0) => None,
            Some(ms) => Some(Duration::from_millis(ms)),
            None => return session.fail("ERR timeout is not an integer or out of range"),
        },
        _ => return session.fail("ERR wrong number of arguments for 'solera.barrier' command"),
    };
    if session.in_transaction() {
        session.fail("ERR SOLERA.BARRIER is not allowed inside a transaction");
        return;
    }
    match session.worker.call(Command::Barrier { pasts: session.pasts, timeout }).await {
        Some(Response::Uniform) => session.out.simple("OK"),
        Some(Response::Failed(error)) => session.fail_command(&error),
        _ => session.fail_unanswered(),
    }
}

/// WAIT sites timeout: as Redis does with replicas, the number of other sites that surely hold what the
/// session has seen and written: f once that is uniform, and 0 if it is not in time or never can be.
pub(crate) async fn wait<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let Some(wanted) = parse_integer(arguments.get(1)) else {
        return session.fail("ERR value is not an integer or out of range");
    };
    if wanted < 0 {
        return session.fail("ERR value is out of range, must be positive");
    }
    let timeout = match parse_integer(arguments.get(2)) {
        Some(ms) if ms < 0 => return session.fail("ERR timeout is negative"),
        Some(0) => None,
        Some(ms) => Some(Duration::from_millis(ms as u64)),
        None => return session.fail("ERR timeout is not an integer or out of range"),
    };
    if session.in_transaction() {
        return session.fail("ERR WAIT is not allowed inside a transaction");
    }
    if wanted == 0 {
        return session.out.integer(0);
    }
    match session.worker.call(Command::Barrier { pasts: session.pasts, timeout }).await {
        Some(Response::Uniform) => session.out.integer(session.worker.spec().f as i64),
        Some(Response::Failed(_)) => session.out.integer(0),
        _ => session.fail_unanswered(),
    }
}

/// SOLERA.AT-RISK [COUNT n]: how many transactions of this site the loss of sites could still undo, the keys of
/// the latest, and the sites of whose transactions in the session's durability past some could be undone.
pub(crate) async fn at_risk<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let keys = match arguments.len() {
        1 => Some(10),
        3 if arguments.get(1).eq_ignore_ascii_case(b"count") => {
            parse_integer(arguments.get(2)).and_then(|keys| usize::try_from(keys).ok())
        }
        _ => return session.fail("ERR syntax error"),
    };
    let Some(limit) = keys.filter(|keys| *keys <= 10_000) else {
        return session.fail("ERR COUNT is 0 to 10000");
    };
    let worker = session.worker.clone();
    if let Err(too_few) = worker.with(|replica| replica.status().has_enough_sites()) {
        return session.fail_command(&too_few);
    }
    let (mut transactions, mut keys) = (0, Vec::new());
    for other in worker.workers() {
        let found = if other == worker.address() {
            Some(worker.with(|replica| replica.status().at_risk(limit)))
        } else {
            worker.at_risk(other, limit).await
        };
        let Some(found) = found else {
            return session.fail(Unreachable(worker.node_name(other)).to_string());
        };
        transactions += found.transactions;
        keys.extend(found.keys);
    }
    keys.truncate(limit);
    let pasts = session.pasts;
    let sites = worker.with(|replica| replica.status().not_uniform(&pasts));
    session.out.map(3);
    session.out.bulk(b"transactions");
    session.out.integer(transactions as i64);
    session.out.bulk(b"keys");
    session.out.array(keys.len());
    keys.iter().for_each(|key| session.out.bulk(key));
    session.out.bulk(b"session");
    session.out.array(sites.len());
    sites.iter().for_each(|site| session.out.bulk(worker.site_name(*site).as_bytes()));
}

/// SOLERA.OUTCOME id: what became of a strong transaction whose reply was lost.
pub(crate) async fn outcome<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let spec = session.worker.spec();
    let name = String::from_utf8_lossy(arguments.get(1)).into_owned();
    let tid: TransactionId = match name.parse() {
        Ok(tid) => tid,
        Err(error) => return session.fail(format!("ERR '{name}': {error}")),
    };
    let TransactionId { coordinator, .. } = tid;
    let exists = spec.sites.len() > coordinator.site.index()
        && coordinator.worker < spec.workers_of(coordinator.site.index());
    if !exists {
        return session.fail(format!("ERR '{name}' names a site or worker that there is not"));
    }
    match session.worker.call(Command::Outcome { tid }).await {
        Some(Response::Outcome(committed)) => session.out.simple(match committed {
            Some(true) => "committed",
            Some(false) => "aborted",
            None => "unknown",
        }),
        _ => session.fail_unanswered(),
    }
}

/// SOLERA.SITE: the name of the site.
pub(crate) fn site<W: Context>(session: &mut Session<W>) {
    let name = session.worker.site_name(session.worker.address().site).to_owned();
    session.out.bulk(name.as_bytes());
}

/// SOLERA.SPACES: name, prefix and level of each space; of level `por` also the strong commands and the
/// pairs that conflict.
pub(crate) fn spaces<W: Context>(session: &mut Session<W>) {
    let spec = session.worker.spec().clone();
    let out = &mut session.out;
    out.array(spec.spaces.iter().len());
    for space in spec.spaces.iter() {
        let declares = space.level == Level::Por;
        out.map(if declares { 5 } else { 3 });
        let level = space.level.name();
        for (key, value) in [("name", &*space.name), ("prefix", &space.prefix), ("level", level)] {
            out.bulk(key.as_bytes());
            out.bulk(value.as_bytes());
        }
        if declares {
            out.bulk(b"strong");
            names(out, &space.relation.strong());
            let conflicts = space.relation.conflicts();
            out.bulk(b"conflicts");
            out.array(conflicts.len());
            conflicts.iter().for_each(|pair| names(out, pair));
        }
    }
}

fn names(out: &mut Writer, names: &[&str]) {
    out.array(names.len());
    names.iter().for_each(|name| out.bulk(name.as_bytes()));
}

/// SOLERA.LEVEL key: what operations on a key promise.
pub(crate) fn level<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let level = session.worker.spec().spaces.level_of(arguments.get(1)).name();
    session.out.bulk(level.as_bytes());
}
