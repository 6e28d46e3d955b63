//! Identity of a node of a configured cluster, for comparison with other nodes.

use std::time::{SystemTime, UNIX_EPOCH};

use solera_config::{ClusterSpec, SiteSpec, Timestamps};
use solera_links::{Identity, Speaks, WITH_THE_SITES};
use solera_site::Beside;

/// Returns the time in microseconds since 1970.
pub(crate) fn clock_us() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_epoch.as_micros() as u64
}

/// Returns the identity of a node with this configuration.
pub(crate) fn identity(spec: &ClusterSpec) -> Identity {
    let workers = |site: &SiteSpec| site.nodes.iter().map(|node| node.workers).collect();
    let mut spaces: Vec<String> = spec.spaces.iter().map(ToString::to_string).collect();
    if spec.spaces.run_occult() && spec.timestamps != Timestamps::default() {
        spaces.push(format!("timestamps of pcpsi: {}", spec.timestamps));
    }
    let beside = Beside {
        primary: spec.spaces.run_primary(),
        occult: spec.spaces.run_occult(),
        reservations: spec.spaces.have_bounds(),
        creek: spec.spaces.run_speculative(),
        trial: false,
    };
    let agreed = [
        ("partitions", spec.partitions.to_string()),
        ("protocol", spec.protocol.name().to_owned()),
        ("leader", spec.sites[spec.leader.index()].name.clone()),
        (WITH_THE_SITES, spec.f.to_string()),
        ("the spaces", spaces.join(", ")),
    ];
    Identity {
        cluster: spec.name.clone(),
        id: spec.id(),
        sites: spec.sites.iter().map(|site| (site.name.clone(), workers(site))).collect(),
        agreed: agreed.into_iter().map(|(what, how)| (what.to_owned(), how)).collect(),
        speaks: solera_site::protocols(beside).map(Speaks::of).collect(),
    }
}

#[cfg(test)]
mod tests {
    use solera_config::sample::{TWO_SITES, parse};
    use solera_links::{Card, Refusal};
    use solera_machine::NodeId;
    use solera_time::SiteId;

    use super::*;

    const NEW: &str = "\
[[site]]
name = 'ap'
[[site.node]]
resp = 'c:1'
peer = 'c:2'
admin = 'c:3'
";

    fn id(site: u8) -> NodeId {
        NodeId { site: SiteId(site), node: 0 }
    }

    fn card(spec: &ClusterSpec, from: NodeId, to: NodeId, incarnation: u64) -> Card {
        Card::new(&identity(spec), from, to, incarnation, clock_us())
    }

    /// Checks the card `theirs` against `ours`.
    fn check(
        ours: &Card,
        theirs: &Card,
        caller_is_other: bool,
        spec: &ClusterSpec,
    ) -> Result<i64, Refusal> {
        ours.check(theirs, caller_is_other, &identity(spec), spec.max_clock_skew)
    }

    fn speaks(protocol: u8, oldest: u8, newest: u8) -> Speaks {
        Speaks { protocol, name: "UniStore".to_owned(), oldest, newest }
    }

    #[test]
    fn nodes_that_belong_together_agree() {
        let spec = parse(TWO_SITES);
        let called = card(&spec, id(1), id(0), 1);
        let mut caller = card(&spec, id(0), id(1), 2);
        caller.clock_us = called.clock_us + 2_000_000;
        assert_eq!(check(&called, &caller, true, &spec), Ok(2_000_000));
        assert_eq!(check(&caller, &called, false, &spec), Ok(-2_000_000));
    }

    #[test]
    fn the_list_of_sites_grows_at_its_end() {
        let (short, long) = (parse(TWO_SITES), parse(&format!("f = 2\n{TWO_SITES}{NEW}")));
        let called = card(&short, id(1), id(0), 1);
        let caller = Card { clock_us: called.clock_us, ..card(&long, id(0), id(1), 2) };
        assert_eq!(check(&called, &caller, true, &short), Ok(0));
        assert_eq!(check(&caller, &called, false, &long), Ok(0));
    }

    #[test]
    fn nodes_agree_on_the_speculative_space() {
        let with = |file: &str, strong: &str| {
            parse(&format!(
                "{file}[[space]]\nname = 'x'\nprefix = 'x'\nlevel = 'speculative'\n{strong}"
            ))
        };
        let ours = with(TWO_SITES, "strong = ['SET']");
        let called = card(&ours, id(1), id(0), 1);
        let from =
            |spec: &ClusterSpec| Card { clock_us: called.clock_us, ..card(spec, id(0), id(1), 2) };
        assert_eq!(check(&called, &from(&ours), true, &ours), Ok(0));
        for (caller, reason) in [
            (with(TWO_SITES, ""), "the spaces: 'x = \"x\" speculative, default"),
            (
                with(TWO_SITES, "strong = ['SET', 'GET']"),
                "the spaces: 'x = \"x\" speculative (strong GET SET), default",
            ),
            (parse(TWO_SITES), "the spaces: 'default = \"\" causal' at the caller"),
        ] {
            let error = check(&called, &from(&caller), true, &ours).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of reasons")]
    fn strangers_get_a_reason() {
        let ours = parse(TWO_SITES);
        let called = card(&ours, id(1), id(0), 1);
        let from = |text: &str| card(&parse(text), id(0), id(1), 2);
        let good = from(TWO_SITES);
        let late = Card { clock_us: called.clock_us - 3_600_000_000, ..good.clone() };
        let future = Card { hybrid_us: called.clock_us + 90_000_000, ..good.clone() };
        let early = Card { clock_us: called.clock_us + 61_000_000, ..good.clone() };
        for (caller, reason) in [
            (
                from(&format!("cluster = 'x'\n{TWO_SITES}")),
                "the caller belongs to 'x', the called node",
            ),
            (
                from(&TWO_SITES.replace("'us'", "'ap'")),
                "the sites: 'eu, ap' at the caller, 'eu, us' at",
            ),
            (
                from(&format!("workers = 2\n{TWO_SITES}")),
                "the nodes' workers: 'eu: 2, us: 2' at the",
            ),
            (
                from(&format!("partitions = 32\n{TWO_SITES}")),
                "partitions: '32' at the caller, '16' at",
            ),
            (
                from(&format!("f = 1\n{TWO_SITES}")),
                "f: '1' at the caller, '0' at the called node; give all nodes the same file",
            ),
            (
                from(&format!(
                    "{TWO_SITES}[[space]]\nname = 'x'\nprefix = 'x'\nlevel = 'eventual'\n"
                )),
                "the spaces: 'x = \"x\" eventual, default",
            ),
            (
                from(&format!(
                    "{TWO_SITES}[[space]]\nname = 'x'\nprefix = 'x'\nlevel = 'por'\nstrong = ['DECR']\n"
                )),
                "the spaces: 'x = \"x\" por (strong DECRBY, conflicts DECRBY+DECRBY), default",
            ),
            (
                from(&format!(
                    "{TWO_SITES}[[space]]\nname = 'x'\nprefix = 'x'\nlevel = 'causal'\ntype = 'counter'\n\
                     error = '5%'\n"
                )),
                "the spaces: 'x = \"x\" causal (counter, error 5%, lease 5000 ms), default",
            ),
            (
                from(&format!(
                    "pcpsi_stamps = 4\n{TWO_SITES}[[space]]\nname = 'x'\nprefix = 'x'\nlevel = 'pcpsi'\n"
                )),
                ", timestamps of pcpsi: per-site with 4 stamps' at the caller",
            ),
            (Card { to: id(0), ..good.clone() }, "meant node 1 of site eu, but this is node 1 of"),
            (
                Card { from: id(1), ..good.clone() },
                "the caller claims to be the called node itself",
            ),
            (
                Card { from: id(6), ..good.clone() },
                "the caller claims to be the called node itself",
            ),
            (
                Card { agreed: Vec::new(), ..good.clone() },
                "different releases of Solera: partitions: 'nothing' at the caller",
            ),
            (
                Card { speaks: vec![speaks(1, 3, 4)], ..good.clone() },
                "messages of protocol 1 (UniStore): 'versions 3 to 4' at the caller, 'version 2' at",
            ),
            (
                Card { speaks: vec![speaks(1, 2, 2), speaks(7, 1, 1)], ..good.clone() },
                "messages of protocol 7 (UniStore): 'version 1' at the caller, 'nothing' at",
            ),
            (
                Card { speaks: Vec::new(), ..good.clone() },
                "messages of protocol 1 (UniStore): 'nothing' at the caller, 'version 2' at the called node; \
                 upgrade them to the same release",
            ),
            (
                from(&format!("{NEW}{TWO_SITES}")),
                "the sites: 'ap, eu, us' at the caller, 'eu, us' at",
            ),
            (
                from(
                    &format!("{TWO_SITES}{NEW}")
                        .replace("admin = 'b:3'", "admin = 'b:3'\nworkers = 2"),
                ),
                "the nodes' workers: 'eu: 1, us: 2, ap: 1' at the caller, 'eu: 1, us: 1' at",
            ),
            (
                Card { from: id(2), ..from(&format!("{TWO_SITES}{NEW}")) },
                "the called node does not list site ap yet",
            ),
            (Card { id: 1, ..good.clone() }, "the cluster's identifier: '1' at the caller"),
            (late, "the clock of node 1 of site us is 3600 s ahead of the other node's; 60 s are"),
            (early, "the clock of node 1 of site eu is 61 s ahead of the other node's"),
            (future.clone(), "node 1 of site eu holds times that are 90 s ahead"),
        ] {
            let error = check(&called, &caller, true, &ours).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        // A node accepts another one whose times are ahead if its own times are as far ahead. A
        // node whose times are ahead accepts one whose times are not.
        let as_far = Card { hybrid_us: future.hybrid_us, ..called.clone() };
        assert!(check(&as_far, &future, true, &ours).is_ok());
        assert!(check(&future, &called, false, &ours).is_ok());
    }
}
