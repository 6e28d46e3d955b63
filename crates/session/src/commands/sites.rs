//! SOLERA.SITES: how the sites stand, and removing and adding one.

use std::borrow::Cow;

use solera_config::ClusterSpec;
use solera_membership::Change;
use solera_resp::Arguments;
use solera_time::SiteId;

use crate::context::Context;
use crate::session::Session;

const SYNTAX: &str = "ERR syntax error: SOLERA.SITES [REMOVE site [FORCE] | ADD site]";

/// SOLERA.SITES [REMOVE name [FORCE] | ADD name]: how each site stands, after the change.
pub(crate) async fn sites<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let worker = session.worker.clone();
    let change = match asked(&*worker, arguments) {
        Ok(change) => change,
        Err(error) => return session.fail(error),
    };
    let Some(told) = worker.sites(change).await else {
        let root = worker.workers().next().expect("a site has a worker");
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
    let sites = told.members.sites().min(worker.spec().sites.len());
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

/// The change that is asked for, if one is.
///
/// # Errors
/// The error reply: it is none, or must not be made now.
fn asked(
    worker: &impl Context,
    arguments: &Arguments<'_>,
) -> Result<Option<(SiteId, Change)>, Cow<'static, str>> {
    let length = arguments.len();
    if length == 1 {
        return Ok(None);
    }
    if !(3..=4).contains(&length) {
        return Err(SYNTAX.into());
    }
    let (word, wanted) = (arguments.get(1), arguments.get(2));
    let change = match () {
        () if word.eq_ignore_ascii_case(b"remove") => Change::Remove,
        () if word.eq_ignore_ascii_case(b"add") => Change::Add,
        () => return Err(SYNTAX.into()),
    };
    let force = length == 4 && arguments.get(3).eq_ignore_ascii_case(b"force");
    if length == 4 && !(force && change == Change::Remove) {
        return Err(SYNTAX.into());
    }
    let site = site_named(worker.spec(), wanted)?;
    if worker.spec().nodes().next().is_none() {
        return Err("ERR the sites of one process come and go together".into());
    }
    match change {
        Change::Remove if force => {}
        Change::Remove => {
            if let Some(alive) = worker.answering_node(site) {
                return Err(format!(
                    "ALIVE {alive} answers. To remove its site loses what the site has acknowledged and \
                     told nobody, and ends its processes. Stop its nodes first, or say FORCE"
                )
                .into());
            }
        }
        Change::Add => {
            if let Some(unready) = worker.node_without(site) {
                let name = worker.site_name(site);
                return Err(format!(
                    "ERR site {name} must be in the list of every node first; {unready} does not list it \
                     yet, or was not heard since this node started"
                )
                .into());
            }
        }
    }
    Ok(Some((site, change)))
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
