//! SOLERA.RIGHTS: returns the sites that hold tokens or rights of a counter.

use std::time::Duration;

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
            let count = |number: u64| Some(i64::try_from(number).unwrap_or(i64::MAX));
            let ms = |time: Duration| Some(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
            let fields = match holder {
                Holder::Rights { rights, age, .. } => {
                    let age = rights.and_then(|_| ms(age));
                    vec![("rights", rights.and_then(count)), ("age-ms", age)]
                }
                Holder::Tokens { tokens, answers, expiry, .. } => vec![
                    ("increments", count(tokens.increments)),
                    ("decrements", count(tokens.decrements)),
                    ("tokens-ms", expiry.unused.and_then(ms)),
                    ("answers", count(answers.into())),
                    ("answers-ms", expiry.lease.and_then(ms)),
                ],
            };
            let out = &mut session.out;
            out.map(1 + fields.len());
            out.bulk(b"site");
            out.bulk(session.worker.site_name(holder.site()).as_bytes());
            for (field, number) in fields {
                out.bulk(field.as_bytes());
                match number {
                    Some(number) => out.integer(number),
                    None => out.null(),
                }
            }
        }
    }
}
