//! SOLERA.SITES: how the sites stand, and removing and adding one.

use solera_resp::Arguments;
use solera_time::SiteId;
use solera_unistore::{Change, Standing};

use crate::session::Session;
use crate::worker::Worker;
use solera_config::ClusterSpec;

const SYNTAX: &str = "ERR syntax error: SOLERA.SITES [REMOVE site [FORCE] | ADD site]";

/// SOLERA.SITES [REMOVE name [FORCE] | ADD name]: how each site stands, after the change.
pub(crate) async fn sites(session: &mut Session, arguments: &Arguments<'_>) {
    let worker = session.worker.clone();
    let spec = worker.spec.clone();
    let change = match arguments.len() {
        1 => None,
        length @ (3 | 4) => {
            let force = length == 4 && arguments.get(3).eq_ignore_ascii_case(b"force");
            let (word, wanted) = (arguments.get(1), arguments.get(2));
            if length == 4 && !(force && word.eq_ignore_ascii_case(b"remove")) {
                return session.fail(SYNTAX);
            }
            let change = match () {
                () if word.eq_ignore_ascii_case(b"remove") => Change::Remove,
                () if word.eq_ignore_ascii_case(b"add") => Change::Add,
                () => return session.fail(SYNTAX),
            };
            let site = match site_named(&spec, wanted) {
                Ok(site) => site,
                Err(error) => return session.fail(error),
            };
            if spec.nodes().next().is_none() {
                return session.fail("ERR the sites of one process come and go together");
            }
            if change == Change::Remove
                && !force
                && let Some(alive) = who_answers(&worker, site)
            {
                return session.fail(format!(
                    "ALIVE {alive} answers. To remove its site loses what the site has acknowledged and \
                     told nobody, and ends its processes. Stop its nodes first, or say FORCE"
                ));
            }
            if change == Change::Add
                && let Some(unready) = without(&worker, site)
            {
                let name = worker.site_name(site);
                return session.fail(format!(
                    "ERR site {name} must be in the list of every node first; {unready} does not list it \
                     yet, or was not heard since this node started"
                ));
            }
            Some((site, change))
        }
        _ => return session.fail(SYNTAX),
    };
    let me = worker.address.site;
    let Some(told) = worker.network.sites(me, change).await else {
        let root = worker.network.workers_of(me).next().expect("a site has a worker");
        let node = worker.node_name(root);
        return session.fail(format!(
            "TRYAGAIN {node} did not answer; a change may have been made: see SOLERA.SITES"
        ));
    };
    let name = |site: SiteId| worker.site_name(site).to_owned();
    if let Some(refused) = told.refused {
        return session.fail(format!("ERR {}", refused.explain(name)));
    }
    let out = &mut session.out;
    // The root may list more sites than this node, or fewer.
    let sites = told.members.sites().min(spec.sites.len());
    out.array(sites);
    for site in SiteId::all(sites) {
        out.map(4);
        let standing = told.members.standing(site).to_string();
        for (key, value) in [("name", name(site)), ("standing", standing)] {
            out.bulk(key.as_bytes());
            out.bulk(value.as_bytes());
        }
        out.bulk(b"life");
        out.integer(i64::from(told.members.life(site)));
        // Whether every other site has confirmed the same.
        out.bulk(b"waits-for");
        let waits = told.not_agreed.map(name).unwrap_or_default();
        out.bulk(waits.as_bytes());
    }
}

/// A site by its name.
pub(crate) fn site_named(spec: &ClusterSpec, wanted: &[u8]) -> Result<SiteId, String> {
    let named = |name: &str| name.as_bytes().eq_ignore_ascii_case(wanted);
    let site = spec.sites.iter().position(|site| named(&site.name));
    site.map(|site| SiteId(site as u8)).ok_or_else(|| {
        let names: Vec<&str> = spec.sites.iter().map(|site| site.name.as_str()).collect();
        let (wanted, names) = (String::from_utf8_lossy(wanted), names.join(", "));
        format!("ERR there is no site '{wanted}'; the sites are {names}")
    })
}

/// A node that this one reaches, of a site that takes part.
fn who_answers(worker: &Worker, site: SiteId) -> Option<String> {
    let network = &worker.network;
    if !matches!(network.membership().standing(site), Standing::Member | Standing::Joining) {
        return None;
    }
    let mut links = network.workers_of(site).filter_map(|other| network.link_to(other));
    links.find(|link| link.is_whole()).map(|link| link.name.clone())
}

/// A node that is not known to list a new site; none if all do, or it is not new.
fn without(worker: &Worker, site: SiteId) -> Option<String> {
    let spec = &worker.spec;
    let here = spec.node_of(worker.address);
    let others = spec.nodes().map(|(node, _)| node).filter(|node| Some(*node) != here);
    let unready = worker.network.membership().without(site, others);
    unready.first().map(|node| spec.name_of(*node))
}
