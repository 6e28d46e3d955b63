//! SOLERA.RIGHTS: returns the sites that hold tokens or rights of a counter.

use solera_config::ClusterSpec;
use solera_reservations::Holder;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// SOLERA.RIGHTS key: replies with a map for each site. The key's space must have a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    key: Vec<u8>,
}

impl Request for Rights {
    fn admit<W: Context>(session: &mut ClientSession<W>) -> Result<(), String> {
        match session.in_transaction() {
            true => Err("ERR SOLERA.RIGHTS is not allowed inside a transaction, because it returns the present \
                         holders, and not those of a snapshot"
                .to_owned()),
            false => Ok(()),
        }
    }

    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Rights, String> {
        Ok(Rights { key: arguments.get(1).to_vec() })
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let holders = match session.holders(&self.key).await {
            Ok(holders) => holders,
            Err(error) => return session.fail(error),
        };
        session.out.array(holders.len());
        for holder in holders {
            let name = session.worker.site_name(holder.site()).to_owned();
            let out = &mut session.out;
            match holder {
                Holder::Rights { rights, age, .. } => {
                    out.map(3);
                    out.bulk(b"site");
                    out.bulk(name.as_bytes());
                    out.bulk(b"rights");
                    match rights {
                        Some(rights) => out.integer(i64::try_from(rights).unwrap_or(i64::MAX)),
                        None => out.null(),
                    }
                    out.bulk(b"age-ms");
                    match rights {
                        Some(_) => out.integer(age.as_millis().try_into().unwrap_or(i64::MAX)),
                        None => out.null(),
                    }
                }
                Holder::Tokens { tokens, answers, .. } => {
                    out.map(4);
                    out.bulk(b"site");
                    out.bulk(name.as_bytes());
                    let counts = [
                        (&b"increments"[..], tokens.increments),
                        (&b"decrements"[..], tokens.decrements),
                        (&b"answers"[..], u64::from(answers)),
                    ];
                    for (field, count) in counts {
                        out.bulk(field);
                        out.integer(i64::try_from(count).unwrap_or(i64::MAX));
                    }
                }
            }
        }
    }
}
