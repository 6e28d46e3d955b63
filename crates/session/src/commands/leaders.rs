//! SOLERA.LEADERS: from which sites strong transactions are led, and moving that.

use std::collections::BTreeSet;

use solera_config::ClusterSpec;
use solera_machine::PartitionId;
use solera_resp::{Arguments, parse_integer};
use solera_time::SiteId;

use super::sites::site_named;
use crate::context::{Context, Unreachable};
use crate::session::Session;

const SYNTAX: &str =
    "ERR syntax error: SOLERA.LEADERS [PARTITIONS | MOVE site [ALL | partition …]]";

/// SOLERA.LEADERS [PARTITIONS | MOVE site [ALL | partition …]]: how many partitions each site leads, as this
/// site knows; or who leads each; or asks a site to lead some or all.
pub(crate) async fn leaders<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let is = |name: &[u8]| arguments.len() > 1 && arguments.get(1).eq_ignore_ascii_case(name);
    match arguments.len() {
        1 => tell_counts(session).await,
        2 if is(b"partitions") => tell_partitions(session).await,
        3.. if is(b"move") => match lead_from(session, arguments) {
            Ok(()) => session.out.simple("OK"),
            Err(reason) => session.fail(reason),
        },
        _ => session.fail(SYNTAX),
    }
}

fn lead_from<W: Context>(session: &Session<W>, arguments: &Arguments<'_>) -> Result<(), String> {
    let worker = &session.worker;
    let site = site_of(worker.spec(), arguments.get(2))?;
    let partitions = partitions_of(worker.spec(), arguments)?;
    if !worker.with(|replica| replica.status().members().is_member(site)) {
        let name = worker.site_name(site);
        return Err(format!("ERR site {name} takes no part, so it cannot lead"));
    }
    let now = worker.now();
    for partition in partitions {
        worker.with(|replica| replica.move_leader(now, partition, site));
    }
    Ok(())
}

/// A site by its name, or by its number from 1.
fn site_of(spec: &ClusterSpec, wanted: &[u8]) -> Result<SiteId, String> {
    // No site's name is a number.
    site_named(spec, wanted).or_else(|error| {
        let number = || usize::try_from(parse_integer(wanted)?).ok()?.checked_sub(1);
        let site = number().filter(|site| *site < spec.sites.len());
        site.map(|site| SiteId(site as u8)).ok_or(error)
    })
}

fn partitions_of(
    spec: &ClusterSpec,
    arguments: &Arguments<'_>,
) -> Result<BTreeSet<PartitionId>, String> {
    let all = || (0..spec.partitions).map(PartitionId);
    let mut partitions = BTreeSet::new();
    for wanted in arguments.from(3) {
        if wanted.eq_ignore_ascii_case(b"all") {
            partitions.extend(all());
            continue;
        }
        let number = parse_integer(wanted).and_then(|number| u16::try_from(number).ok());
        let Some(number) = number.filter(|number| *number < spec.partitions) else {
            let (wanted, last) = (String::from_utf8_lossy(wanted), spec.partitions - 1);
            return Err(format!(
                "ERR there is no partition '{wanted}'; partitions are 0 to {last}, or ALL"
            ));
        };
        partitions.insert(PartitionId(number));
    }
    Ok(if partitions.is_empty() { all().collect() } else { partitions })
}

async fn tell_counts<W: Context>(session: &mut Session<W>) {
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

async fn tell_partitions<W: Context>(session: &mut Session<W>) {
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

/// Who leads each partition, as the worker of this site knows that holds it. Without an answer, appends the
/// error.
async fn by_partition<W: Context>(session: &mut Session<W>) -> Option<Vec<Option<SiteId>>> {
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
