//! SOLERA.LEADERS: reports which sites lead strong transactions, and moves leaders.

use std::collections::BTreeSet;

use solera_config::ClusterSpec;
use solera_machine::PartitionId;
use solera_resp::{Arguments, parse_integer};
use solera_time::SiteId;

use super::help;
use super::request::Request;
use super::sites::site_named;
use crate::context::{Context, Unreachable};
use crate::session::ClientSession;

const SYNTAX: &str =
    "ERR syntax error: SOLERA.LEADERS [PARTITIONS | MOVE site [ALL | SPECULATIVE | partition …]]";

const HELP: &[&str] = &[
    "SOLERA.LEADERS [<subcommand> [<arg> ...]]. Without one, return how many partitions each site leads. Subcommands are:",
    "PARTITIONS",
    "    Return the leader of each partition.",
    "MOVE <site> [ALL | SPECULATIVE | <partition> ...]",
    "    Ask a site to lead these partitions, or all. ALL, which is the default, and",
    "    SPECULATIVE include the space of level speculative, whose leader SOLERA.STATE",
    "    returns. Does not wait for it.",
    "HELP",
    "    Print this help.",
    "`solera leader move` does the same, and waits until it is done.",
];

/// SOLERA.LEADERS [PARTITIONS | MOVE site [ALL | SPECULATIVE | partition …]].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leaders {
    Help,
    /// Counts the partitions that each site leads, as far as this site knows.
    Counts,
    /// Lists the leader of each partition.
    Partitions,
    /// Requests that a site lead some partitions, or all, and perhaps the speculative space.
    Move {
        site: SiteId,
        wanted: Wanted,
    },
}

/// What a site is to lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    partitions: BTreeSet<PartitionId>,
    /// Whether the site is to lead the speculative space.
    speculative: bool,
}

impl Request for Leaders {
    fn parse(arguments: &Arguments<'_>, spec: &ClusterSpec) -> Result<Leaders, String> {
        if help::is_asked(arguments) {
            return Ok(Leaders::Help);
        }
        let is = |name: &[u8]| arguments.get(1).eq_ignore_ascii_case(name);
        match arguments.len() {
            1 => Ok(Leaders::Counts),
            2 if is(b"partitions") => Ok(Leaders::Partitions),
            3.. if is(b"move") => Ok(Leaders::Move {
                site: site_of(spec, arguments.get(2))?,
                wanted: wanted_of(spec, arguments)?,
            }),
            _ => Err(SYNTAX.to_owned()),
        }
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        match self {
            Leaders::Help => help::answer(session, HELP),
            Leaders::Counts => write_counts(session).await,
            Leaders::Partitions => write_partitions(session).await,
            Leaders::Move { site, wanted } => {
                let Wanted { partitions, speculative } = wanted;
                let mut asked = lead_from(&*session.worker, site, partitions);
                if asked.is_ok() && speculative {
                    asked = session.move_speculative_leader(site).await;
                }
                session.answer_ok(asked);
            }
        }
    }
}

/// Requests that a site lead partitions.
///
/// # Errors
/// The error reply, if the site is not a member.
fn lead_from(
    worker: &impl Context,
    site: SiteId,
    partitions: BTreeSet<PartitionId>,
) -> Result<(), String> {
    if !worker.with(|replica| replica.status().members().is_member(site)) {
        let name = worker.site_name(site);
        return Err(format!("ERR site {name} is not a member, so it cannot lead"));
    }
    let now = worker.now();
    for partition in partitions {
        worker.with(|replica| replica.move_leader(now, partition, site));
    }
    Ok(())
}

/// Returns a site by its name, or by its number from 1.
fn site_of(spec: &ClusterSpec, wanted: &[u8]) -> Result<SiteId, String> {
    // No site's name is a number, so the two cannot be confused.
    site_named(spec, wanted).or_else(|error| {
        let number = || usize::try_from(parse_integer(wanted)?).ok()?.checked_sub(1);
        let site = number().filter(|site| *site < spec.sites.len());
        site.map(|site| SiteId(site as u8)).ok_or(error)
    })
}

fn wanted_of(spec: &ClusterSpec, arguments: &Arguments<'_>) -> Result<Wanted, String> {
    let has_space = spec.spaces.run_speculative();
    let all = || Wanted {
        partitions: (0..spec.partitions).map(PartitionId).collect(),
        speculative: has_space,
    };
    if arguments.len() == 3 {
        return Ok(all());
    }
    let Wanted { mut partitions, mut speculative } = Wanted::default();
    for wanted in arguments.from(3) {
        if wanted.eq_ignore_ascii_case(b"all") {
            (partitions, speculative) = (all().partitions, has_space);
            continue;
        }
        if wanted.eq_ignore_ascii_case(b"speculative") {
            if !has_space {
                return Err("ERR there is no space of level speculative".to_owned());
            }
            speculative = true;
            continue;
        }
        let number = parse_integer(wanted).and_then(|number| u16::try_from(number).ok());
        let Some(number) = number.filter(|number| *number < spec.partitions) else {
            let (wanted, last) = (String::from_utf8_lossy(wanted), spec.partitions - 1);
            return Err(format!(
                "ERR there is no partition '{wanted}'; partitions are 0 to {last}, or ALL, or SPECULATIVE"
            ));
        };
        partitions.insert(PartitionId(number));
    }
    Ok(Wanted { partitions, speculative })
}

async fn write_counts<W: Context>(session: &mut ClientSession<W>) {
    let Some(leaders) = by_partition(session).await else { return };
    let worker = session.worker.clone();
    let sites = worker.spec().sites.len();
    session.out.map(sites);
    for site in SiteId::all(sites) {
        session.out.bulk(worker.site_name(site).as_bytes());
        let led = leaders.iter().filter(|leader| **leader == Some(site)).count();
        session.out.integer(led as i64);
    }
}

async fn write_partitions<W: Context>(session: &mut ClientSession<W>) {
    let Some(leaders) = by_partition(session).await else { return };
    let worker = session.worker.clone();
    session.out.array(leaders.len());
    for leader in leaders {
        match leader {
            Some(site) => session.out.bulk(worker.site_name(site).as_bytes()),
            None => session.out.null(),
        }
    }
}

/// Returns the leader of each partition, according to the worker of this site that holds the
/// partition. Appends an error and returns `None` if a worker does not answer.
async fn by_partition<W: Context>(session: &mut ClientSession<W>) -> Option<Vec<Option<SiteId>>> {
    let worker = session.worker.clone();
    let topology = worker.spec().topology();
    let mut leaders = vec![None; usize::from(topology.partitions)];
    for other in worker.workers() {
        let Some(leads) = worker.leaders_at(other).await else {
            session.fail(Unreachable(worker.node_name(other)).to_string());
            return None;
        };
        for (partition, leader) in topology.owned_by(other).zip(&leads) {
            let site = usize::try_from(*leader).ok().filter(|site| *site < topology.sites());
            leaders[usize::from(partition.0)] = site.map(|site| SiteId(site as u8));
        }
    }
    Some(leaders)
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    fn moved(site: u8, partitions: impl IntoIterator<Item = u16>) -> Result<Leaders, String> {
        let partitions = partitions.into_iter().map(PartitionId).collect();
        let wanted = Wanted { partitions, speculative: false };
        Ok(Leaders::Move { site: SiteId(site), wanted })
    }

    #[test]
    fn sites_and_partitions_are_parsed() {
        assert_eq!(parse("SOLERA.LEADERS"), Ok(Leaders::Counts));
        assert_eq!(parse("SOLERA.LEADERS Partitions"), Ok(Leaders::Partitions));
        assert_eq!(parse("SOLERA.LEADERS HELP"), Ok(Leaders::Help));
        assert_eq!(parse("SOLERA.LEADERS MOVE us 3 1 3"), moved(1, [1, 3]));
        // Sites can also be given by number, from 1.
        assert_eq!(parse("SOLERA.LEADERS MOVE 1 2"), moved(0, [2]));
        let all: Leaders = parse("SOLERA.LEADERS MOVE us").unwrap();
        assert_eq!(parse("SOLERA.LEADERS MOVE us 1 All"), Ok(all.clone()));
        assert!(matches!(all, Leaders::Move { wanted, .. } if wanted.partitions.len() > 4));
    }

    #[test]
    fn bad_arguments_are_rejected() {
        rejects::<Leaders>(&[
            ("SOLERA.LEADERS MOVE", SYNTAX),
            ("SOLERA.LEADERS foo", SYNTAX),
            ("SOLERA.LEADERS PARTITIONS x", SYNTAX),
            ("SOLERA.LEADERS MOVE 3 x", "ERR there is no site '3'; the sites are eu, us"),
        ]);
        let none = parse::<Leaders>("SOLERA.LEADERS MOVE us SPECULATIVE").unwrap_err();
        assert_eq!(none, "ERR there is no space of level speculative");
        let error = parse::<Leaders>("SOLERA.LEADERS MOVE us 70000").unwrap_err();
        assert!(error.starts_with("ERR there is no partition '70000'; partitions are 0 to "));
    }
}
