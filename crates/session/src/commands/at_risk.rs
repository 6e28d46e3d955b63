//! SOLERA.AT-RISK: reports writes that the loss of sites could still undo.

use solera_config::ClusterSpec;
use solera_resp::{Arguments, parse_integer};

use super::request::Request;
use crate::context::{Context, Unreachable};
use crate::session::ClientSession;

/// SOLERA.AT-RISK [COUNT n]: replies with the number of transactions of this site that the loss of
/// sites could still undo, the keys of the latest of them, and the sites whose transactions in the
/// session's durability past are not uniform or final yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtRisk {
    /// Maximal number of keys in the reply; at most 10,000.
    keys: usize,
}

impl Request for AtRisk {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<AtRisk, String> {
        let keys = match arguments.len() {
            1 => Some(10),
            3 if arguments.get(1).eq_ignore_ascii_case(b"count") => {
                parse_integer(arguments.get(2)).and_then(|keys| usize::try_from(keys).ok())
            }
            _ => return Err("ERR syntax error".to_owned()),
        };
        match keys {
            Some(keys @ ..=10_000) => Ok(AtRisk { keys }),
            _ => Err("ERR COUNT is 0 to 10000".to_owned()),
        }
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let worker = session.worker.clone();
        if let Err(too_few) = worker.with(|replica| replica.status().has_enough_sites()) {
            return session.fail_command(&too_few);
        }
        let (mut transactions, mut keys) = (0, Vec::new());
        for other in worker.workers() {
            let Some(found) = worker.at_risk(other, self.keys).await else {
                return session.fail(Unreachable(worker.node_name(other)).to_string());
            };
            transactions += found.transactions;
            keys.extend(found.keys);
        }
        keys.truncate(self.keys);
        let pasts = session.pasts;
        let mut sites = match session.homes_at_risk().await {
            Ok(homes) => homes,
            Err(error) => return session.fail(error),
        };
        match session.unfinished_sites().await {
            Ok(unfinished) => sites.extend(unfinished),
            Err(error) => return session.fail(error),
        }
        sites.extend(worker.with(|replica| replica.status().not_uniform(&pasts)));
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
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn a_count_may_be_given() {
        assert_eq!(parse("SOLERA.AT-RISK"), Ok(AtRisk { keys: 10 }));
        assert_eq!(parse("SOLERA.AT-RISK count 10000"), Ok(AtRisk { keys: 10_000 }));
        let out_of_range = "ERR COUNT is 0 to 10000";
        rejects::<AtRisk>(&[
            ("SOLERA.AT-RISK COUNT", "ERR syntax error"),
            ("SOLERA.AT-RISK KEYS 3", "ERR syntax error"),
            ("SOLERA.AT-RISK COUNT 10001", out_of_range),
            ("SOLERA.AT-RISK COUNT -1", out_of_range),
            ("SOLERA.AT-RISK COUNT x", out_of_range),
        ]);
    }
}
