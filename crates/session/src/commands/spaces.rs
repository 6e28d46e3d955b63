//! SOLERA.SPACES: lists the spaces and their levels.

use solera_config::{ClusterSpec, Runs, SpaceHome, SpaceType};
use solera_levels::Level;
use solera_resp::{Arguments, Writer};

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// SOLERA.SPACES: replies with the name, prefix and level of each space, and the protocol that runs
/// it, by name and number. A space of level `por` also lists its strong commands and the
/// conflicting pairs, and one of level `speculative` its strong commands. A space that `primary`
/// runs also has the setting `answer`, one that Occult runs the setting `home`, one with a type its
/// type and error bound, and one with a weakest level of reads this level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spaces;

impl Request for Spaces {
    fn parse(_: &Arguments<'_>, _: &ClusterSpec) -> Result<Spaces, String> {
        Ok(Spaces)
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let spec = session.worker.spec().clone();
        let out = &mut session.out;
        out.array(spec.spaces.iter().len());
        for space in spec.spaces.iter() {
            let (strong, conflicts) = match space.level {
                Level::Por => (true, true),
                Level::Speculative => (true, false),
                _ => (false, false),
            };
            let (protocol, answer) = match space.runs {
                Runs::Primary(answer) => (solera_primary::PROTOCOL, Some(answer.name())),
                Runs::Occult(_) => (solera_occult::PROTOCOL, None),
                Runs::Speculative => (solera_creek::PROTOCOL, None),
                Runs::UniStore => (solera_unistore::PROTOCOL, None),
            };
            let home = match space.runs {
                Runs::Occult(SpaceHome::Hash) => Some("hash"),
                Runs::Occult(SpaceHome::Site(site)) => Some(&*spec.sites[site.index()].name),
                Runs::UniStore | Runs::Primary(_) | Runs::Speculative => None,
            };
            let of_type = space.of_type.map(SpaceType::name);
            let tolerance = space.error.map(|bound| bound.tolerance());
            let texts = [
                ("answer", answer),
                ("home", home),
                ("type", of_type),
                ("error", tolerance.as_deref()),
                ("at-least", space.at_least.map(Level::name)),
            ];
            let given = || texts.into_iter().filter_map(|(name, text)| Some((name, text?)));
            let leases = usize::from(space.error.is_some());
            let declared = usize::from(strong) + usize::from(conflicts);
            out.map(5 + declared + given().count() + leases);
            let level = space.level_name();
            for (key, value) in [
                ("name", &*space.name),
                ("prefix", &space.prefix),
                ("level", level),
                ("protocol", protocol.name),
            ] {
                out.bulk(key.as_bytes());
                out.bulk(value.as_bytes());
            }
            out.bulk(b"protocol-number");
            out.integer(protocol.number.into());
            for (name, text) in given() {
                out.bulk(name.as_bytes());
                out.bulk(text.as_bytes());
            }
            if let Some(bound) = space.error {
                out.bulk(b"lease-ms");
                out.integer(bound.lease.as_millis() as i64);
            }
            if strong {
                out.bulk(b"strong");
                names(out, &space.relation.strong());
            }
            if conflicts {
                let conflicts = space.relation.conflicts();
                out.bulk(b"conflicts");
                out.array(conflicts.len());
                conflicts.iter().for_each(|pair| names(out, pair));
            }
        }
    }
}

fn names(out: &mut Writer, names: &[&str]) {
    out.array(names.len());
    names.iter().for_each(|name| out.bulk(name.as_bytes()));
}
