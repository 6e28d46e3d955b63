//! SOLERA.AT-RISK: what the loss of sites could still undo.

use solera_resp::{Arguments, parse_integer};

use crate::context::{Context, Unreachable};
use crate::session::Session;

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
        let Some(found) = worker.at_risk(other, limit).await else {
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
