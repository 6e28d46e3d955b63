//! SOLERA.SITES: reports the status of the sites, and removes or adds one.

use solera_config::ClusterSpec;
use solera_membership::Change;
use solera_resp::Arguments;
use solera_time::SiteId;

use super::help;
use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

const SYNTAX: &str = "ERR syntax error: SOLERA.SITES [REMOVE site [FORCE] | ADD site]";

const HELP: &[&str] = &[
    "SOLERA.SITES [<subcommand> [<arg> [opt]]]. Without one, return the status of each site. Subcommands are:",
    "REMOVE <site> [FORCE]",
    "    Remove a site that has failed permanently; with FORCE also one that answers.",
    "ADD <site>",
    "    Add a site that was removed, or is new in solera.toml.",
    "HELP",
    "    Print this help.",
    "`solera site remove` and `solera site add` do the same, and wait until it is done.",
];

/// SOLERA.SITES [REMOVE name [FORCE] | ADD name]: replies with the status of each site, after the
/// change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sites {
    Help,
    Show,
    Change(Wanted),
}

/// A requested change of a site's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    site: SiteId,
    change: Change,
    /// Whether to remove the site even if it still answers.
    force: bool,
}

impl Request for Sites {
    fn parse(arguments: &Arguments<'_>, spec: &ClusterSpec) -> Result<Sites, String> {
        if help::is_asked(arguments) {
            return Ok(Sites::Help);
        }
        let is = |at: usize, word: &[u8]| arguments.get(at).eq_ignore_ascii_case(word);
        let (change, force) = match arguments.len() {
            1 => return Ok(Sites::Show),
            3 if is(1, b"remove") => (Change::Remove, false),
            4 if is(1, b"remove") && is(3, b"force") => (Change::Remove, true),
            3 if is(1, b"add") => (Change::Add, false),
            _ => return Err(SYNTAX.to_owned()),
        };
        let site = site_named(spec, arguments.get(2))?;
        Ok(Sites::Change(Wanted { site, change, force }))
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let change = match self {
            Sites::Help => return help::answer(session, HELP),
            Sites::Show => None,
            Sites::Change(wanted) => {
                if let Err(error) = wanted.may_be_made(&*session.worker) {
                    return session.fail(error);
                }
                Some((wanted.site, wanted.change))
            }
        };
        show_after(session, change).await;
    }
}

impl Wanted {
    /// Checks that the change is allowed now.
    ///
    /// # Errors
    /// The error reply.
    fn may_be_made(&self, worker: &impl Context) -> Result<(), String> {
        if worker.spec().nodes().next().is_none() {
            return Err("ERR the sites of a single process cannot be removed or added one by one"
                .to_owned());
        }
        match self.change {
            Change::Remove if self.force => {}
            Change::Remove => {
                if let Some(alive) = worker.answering_node(self.site) {
                    return Err(format!(
                        "ALIVE {alive} answers. Removing its site ends its processes and loses the writes that it \
                         has acknowledged but not sent to another site. Stop its nodes first, or use FORCE"
                    ));
                }
            }
            Change::Add => {
                if let Some(unready) = worker.node_without(self.site) {
                    let name = worker.site_name(self.site);
                    return Err(format!(
                        "ERR site {name} must be in the list of every node first; {unready} does not list it \
                         yet, or has not been heard from since this node started"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Makes the change, if there is one, and then appends the status of the sites.
async fn show_after<W: Context>(session: &mut ClientSession<W>, change: Option<(SiteId, Change)>) {
    let worker = session.worker.clone();
    let Some(report) = worker.sites(change).await else {
        let root = worker.workers().next().expect("a site has a worker");
        let node = worker.node_name(root);
        return session.fail(format!(
            "TRYAGAIN {node} did not answer; a change may have been made: see SOLERA.SITES"
        ));
    };
    let name = |site: SiteId| worker.site_name(site).to_owned();
    if let Some(refused) = report.refused {
        return session.fail(format!("ERR {}", refused.explain(name)));
    }
    let out = &mut session.out;
    // The root worker may list more sites than this node, or fewer.
    let sites = report.members.sites().min(worker.spec().sites.len());
    out.array(sites);
    for site in SiteId::all(sites) {
        out.map(4);
        let status = report.members.status(site).to_string();
        for (key, value) in [("name", name(site)), ("status", status)] {
            out.bulk(key.as_bytes());
            out.bulk(value.as_bytes());
        }
        out.bulk(b"generation");
        out.integer(i64::from(report.members.generation(site)));
        // A site that has not confirmed the same members; empty if all have.
        out.bulk(b"waits-for");
        let waits = report.not_agreed.map(name).unwrap_or_default();
        out.bulk(waits.as_bytes());
    }
}

/// Returns a site by its name.
pub(crate) fn site_named(spec: &ClusterSpec, wanted: &[u8]) -> Result<SiteId, String> {
    let named = |name: &str| name.as_bytes().eq_ignore_ascii_case(wanted);
    let site = spec.sites.iter().position(|site| named(&site.name));
    site.map(|site| SiteId(site as u8)).ok_or_else(|| {
        let names: Vec<&str> = spec.sites.iter().map(|site| site.name.as_str()).collect();
        let (wanted, names) = (String::from_utf8_lossy(wanted), names.join(", "));
        format!("ERR there is no site '{wanted}'; the sites are {names}")
    })
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn a_change_of_a_site_is_parsed() {
        assert_eq!(parse("SOLERA.SITES"), Ok(Sites::Show));
        assert_eq!(parse("SOLERA.SITES help"), Ok(Sites::Help));
        let wanted =
            |site, change, force| Ok(Sites::Change(Wanted { site: SiteId(site), change, force }));
        assert_eq!(parse("SOLERA.SITES remove US"), wanted(1, Change::Remove, false));
        assert_eq!(parse("SOLERA.SITES REMOVE us Force"), wanted(1, Change::Remove, true));
        assert_eq!(parse("SOLERA.SITES ADD eu"), wanted(0, Change::Add, false));
    }

    #[test]
    fn bad_arguments_are_rejected() {
        rejects::<Sites>(&[
            ("SOLERA.SITES REMOVE", SYNTAX),
            ("SOLERA.SITES MOVE eu", SYNTAX),
            ("SOLERA.SITES ADD eu FORCE", SYNTAX),
            ("SOLERA.SITES REMOVE nowhere x", SYNTAX),
            ("SOLERA.SITES ADD nowhere", "ERR there is no site 'nowhere'; the sites are eu, us"),
        ]);
    }
}
