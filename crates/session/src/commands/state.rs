//! SOLERA.STATE: numbers of the speculative space at this site.

use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::{Context, FromSpeculative, SpeculativeState, ToSpeculative};
use crate::session::ClientSession;

/// SOLERA.STATE space: replies with a map. Sites with the same number of final operations have the
/// same digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State;

impl Request for State {
    fn admit<W: Context>(session: &mut ClientSession<W>) -> Result<(), String> {
        match session.in_transaction() {
            true => Err("ERR SOLERA.STATE is not allowed inside a transaction".to_owned()),
            false => Ok(()),
        }
    }

    fn parse(arguments: &Arguments<'_>, spec: &ClusterSpec) -> Result<State, String> {
        space(arguments.get(1), spec).map(|()| State)
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let state = match session.request_speculative(ToSpeculative::State).await {
            Ok(FromSpeculative::State(state)) => *state,
            Ok(_) => return session.fail_unanswered(),
            Err(error) => return session.fail(error),
        };
        let SpeculativeState { finals, committed, tentative, digest, .. } = state;
        let leader = state.leader.map(|site| session.worker.site_name(site).to_owned());
        let out = &mut session.out;
        out.map(10);
        for (name, number) in
            [("final", finals), ("committed", committed), ("tentative", tentative)]
        {
            out.bulk(name.as_bytes());
            out.integer(number.try_into().unwrap_or(i64::MAX));
        }
        out.bulk(b"digest");
        out.bulk(format!("{digest:016x}").as_bytes());
        out.bulk(b"leader");
        match leader {
            Some(leader) => out.bulk(leader.as_bytes()),
            None => out.null(),
        }
        let counts = [
            ("operations", state.predicted),
            ("executions", state.executions),
            ("accurate", state.accurate),
        ];
        for (name, number) in counts {
            out.bulk(name.as_bytes());
            out.integer(number.try_into().unwrap_or(i64::MAX));
        }
        out.bulk(b"differing");
        let differing = state.divergence.as_ref().map_or(&[][..], |it| &it.sites);
        out.array(differing.len());
        for site in differing {
            out.bulk(session.worker.site_name(*site).as_bytes());
        }
        out.bulk(b"differs-after");
        match state.divergence {
            Some(it) => out.integer(it.after.try_into().unwrap_or(i64::MAX)),
            None => out.null(),
        }
    }
}

/// Checks that a space is the one of level `speculative`.
///
/// # Errors
/// The error reply.
pub(super) fn space(name: &[u8], spec: &ClusterSpec) -> Result<(), String> {
    let name = String::from_utf8_lossy(name);
    match spec.spaces.iter().find(|space| *space.name == *name) {
        Some(space) if spec.spaces.speculative().is_some_and(|it| it.name == space.name) => Ok(()),
        Some(space) => Err(format!(
            "ERR space '{name}' is of level {}, not of level speculative",
            space.level_name()
        )),
        None => Err(format!("ERR there is no space '{name}'; SOLERA.SPACES lists the spaces")),
    }
}
