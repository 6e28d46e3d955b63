//! SOLERA.STALE: what reads of spaces of level `pcpsi` do when a copy is not recent enough.

use solera_config::ClusterSpec;
use solera_occult::OnStale;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// SOLERA.STALE [HOME | ACCEPT | FAIL]: sets what the session's reads do when the copy at this site
/// lacks writes on which the session depends. Replies with the present setting, and with counts of
/// the session's reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stale {
    on_stale: Option<OnStale>,
}

impl Request for Stale {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Stale, String> {
        const CHOICES: [(&[u8], OnStale); 3] =
            [(b"home", OnStale::Home), (b"accept", OnStale::Accept), (b"fail", OnStale::Fail)];
        let on_stale = match arguments.len() {
            1 => None,
            2 => {
                let found = CHOICES
                    .into_iter()
                    .find(|(name, _)| arguments.get(1).eq_ignore_ascii_case(name));
                Some(found.ok_or("ERR SOLERA.STALE takes HOME, ACCEPT or FAIL")?.1)
            }
            _ => return Err("ERR SOLERA.STALE takes HOME, ACCEPT or FAIL".to_owned()),
        };
        Ok(Stale { on_stale })
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        if let Some(on_stale) = self.on_stale {
            session.occult.on_stale = on_stale;
        }
        let policy: &[u8] = match session.occult.on_stale {
            OnStale::Home => b"home",
            OnStale::Accept => b"accept",
            OnStale::Fail => b"fail",
        };
        let counts = [
            (&b"reads"[..], session.occult.reads),
            (b"stale", session.occult.stale),
            (b"at-home", session.occult.at_home),
        ];
        let out = &mut session.out;
        out.map(4);
        out.bulk(b"on-stale");
        out.bulk(policy);
        for (name, count) in counts {
            out.bulk(name);
            out.integer(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn a_choice_may_be_given() {
        assert_eq!(parse("SOLERA.STALE"), Ok(Stale { on_stale: None }));
        assert_eq!(parse("SOLERA.STALE Fail"), Ok(Stale { on_stale: Some(OnStale::Fail) }));
        let choices = "ERR SOLERA.STALE takes HOME, ACCEPT or FAIL";
        rejects::<Stale>(&[("SOLERA.STALE never", choices), ("SOLERA.STALE home 1", choices)]);
    }
}
