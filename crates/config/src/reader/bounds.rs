//! Types and error bounds of spaces.

use std::time::Duration;

use super::Reader;
use super::spaces::SpaceTable;
use crate::error::ConfigError;
use crate::protocol::Baseline;
use crate::spaces::{ErrorBound, Space, SpaceType};

/// Limits of `lease_ms`. A shorter lease would often end before a transaction commits.
const LEAST_LEASE: u64 = 100;
const MOST_LEASE: u64 = 600_000;

impl Reader<'_> {
    /// Adds the type and the error bound to a space.
    pub(super) fn typed(
        &self,
        table: &SpaceTable,
        space: Space,
        protocol: Baseline,
    ) -> Result<Space, ConfigError> {
        let [of_type, error] = [&table.of_type, &table.error].map(Option::as_ref);
        let lease = table.lease_ms.as_ref().map(|lease| lease.span().start);
        let places = [
            ("type", of_type.map(|name| name.span().start)),
            ("error", error.map(|error| error.span().start)),
            ("lease_ms", lease),
        ];
        let Some((setting, place)) =
            places.iter().find_map(|(setting, place)| Some((*setting, (*place)?)))
        else {
            return Ok(space);
        };
        let level = space.level_name();
        if setting == "type" && !space.may_have_type() {
            let levels = "levels 'causal', 'por' and 'linearizable'";
            return self.refuse(
                table,
                place,
                format!("type goes with {levels}, not with '{level}'"),
            );
        }
        let of_bound = places[1..].iter().find_map(|(name, place)| Some((*name, (*place)?)));
        if let Some((setting, place)) = of_bound.filter(|_| !space.may_have_bound()) {
            let reason = format!("{setting} goes with level 'causal', not with '{level}'");
            return self.refuse(table, place, reason);
        }
        if space.prefix.is_empty() {
            let reason =
                format!("{setting} needs a prefix: a space without one contains Solera's own keys");
            return self.refuse(table, place, reason);
        }
        let of_type = match of_type {
            None => None,
            Some(name) => match SpaceType::named(name.get_ref()) {
                Ok(found) => Some(found),
                Err(reason) => return self.refuse(table, name.span().start, reason),
            },
        };
        if let Some(of_type) = of_type.filter(|it| it.is_bounded()) {
            let setting = format!("type '{of_type}'");
            if !space.may_have_bound() {
                let reason = format!("{setting} goes with level 'causal', not with '{level}'");
                return self.refuse(table, place, reason);
            }
            self.require_unistore(table, place, protocol, &setting, keeps_no("bounds"))?;
        }
        let error = self.error_bound(table, of_type, protocol)?;
        Ok(Space { of_type, error, ..space })
    }

    /// Checks that the cluster runs UniStore, which a setting requires. `why_not` completes the
    /// reason for another protocol from its name.
    pub(super) fn require_unistore(
        &self,
        table: &SpaceTable,
        place: usize,
        protocol: Baseline,
        setting: &str,
        why_not: impl FnOnce(&str) -> String,
    ) -> Result<(), ConfigError> {
        if protocol == Baseline::UniStore {
            return Ok(());
        }
        let why_not = why_not(protocol.name());
        self.refuse(table, place, format!("{setting} goes with protocol 'unistore': {why_not}"))
    }

    fn error_bound(
        &self,
        table: &SpaceTable,
        of_type: Option<SpaceType>,
        protocol: Baseline,
    ) -> Result<Option<ErrorBound>, ConfigError> {
        let Some(error) = &table.error else {
            return match &table.lease_ms {
                None => Ok(None),
                Some(lease) => {
                    let reason =
                        "lease_ms goes with error: without an error bound there are no leases";
                    self.refuse(table, lease.span().start, reason)
                }
            };
        };
        let place = error.span().start;
        if !matches!(of_type, Some(SpaceType::Counter | SpaceType::Set)) {
            let reason = "error goes with type 'counter' and with type 'set', whose size it \
                          bounds: add type = \"counter\" or type = \"set\"";
            return self.refuse(table, place, reason);
        }
        self.require_unistore(table, place, protocol, "error", keeps_no("error bounds"))?;
        let parsed = ErrorBound::parse_tolerance(error.get_ref());
        let tolerance_ppm = parsed.or_else(|reason| self.refuse(table, place, reason))?;
        let lease = match &table.lease_ms {
            None => ErrorBound::LEASE,
            Some(lease) if (LEAST_LEASE..=MOST_LEASE).contains(lease.get_ref()) => {
                Duration::from_millis(*lease.get_ref())
            }
            Some(lease) => {
                let reason = format!(
                    "lease_ms is from {LEAST_LEASE} to {MOST_LEASE}, not {}",
                    lease.get_ref()
                );
                return self.refuse(table, lease.span().start, reason);
            }
        };
        Ok(Some(ErrorBound { tolerance_ppm, lease }))
    }
}

fn keeps_no(kept: &str) -> impl FnOnce(&str) -> String {
    move |name| format!("'{name}' keeps no {kept}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::spaces::{ErrorBound, KeyBound, SpaceType};
    use crate::spec::{ClusterSpec, Overrides};

    /// Parses a space with these settings, which begin on line 4.
    fn parse(text: &str) -> Result<ClusterSpec, String> {
        let text = format!("[[space]]\nname = 'v'\nprefix = 'v:'\n{text}");
        ClusterSpec::parse("s.toml", &text, Overrides::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn types_and_bounds_are_read_and_described() {
        for (text, described) in [
            ("type = 'counter'", "v = \"v:\" causal (counter)"),
            ("type = 'bounded-counter'", "v = \"v:\" causal (bounded-counter)"),
            ("type = 'pool'", "v = \"v:\" causal (pool)"),
            ("type = 'set'", "v = \"v:\" causal (set)"),
            ("type = 'set'\nerror = '5%'", "v = \"v:\" causal (set, error 5%, lease 5000 ms)"),
            ("type = 'list'", "v = \"v:\" causal (list)"),
            (
                "type = 'counter'\nerror = '5%'",
                "v = \"v:\" causal (counter, error 5%, lease 5000 ms)",
            ),
            (
                "type = 'counter'\nerror = '0.5%'\nlease_ms = 100",
                "v = \"v:\" causal (counter, error 0.5%, lease 100 ms)",
            ),
        ] {
            let spaces = parse(&format!("level = 'causal'\n{text}")).unwrap().spaces;
            assert_eq!(spaces.space_of(b"v:1").to_string(), described, "{text}");
            let has_bound = ["error", "pool", "bounded"].iter().any(|it| text.contains(it));
            assert_eq!(spaces.have_bounds(), has_bound);
        }
        let strong = parse("level = 'linearizable'\ntype = 'set'").unwrap().spaces;
        assert_eq!(strong.space_of(b"v:1").to_string(), "v = \"v:\" linearizable (set)");
    }

    #[test]
    fn the_longest_prefix_decides_about_the_bound() {
        let text = "level = 'causal'\ntype = 'counter'\nerror = '5%'\n\
                    [[space]]\nname = 'e'\nprefix = 'v:exact:'\nlevel = 'causal'\ntype = 'counter'\n\
                    [[space]]\nname = 'f'\nprefix = 'v:fine:'\nlevel = 'causal'\ntype = 'counter'\n\
                    error = '1%'\nlease_ms = 250";
        let spaces = parse(text).unwrap().spaces;
        let bound = |key: &[u8]| {
            spaces.bound_of(key).map(|bound| match bound {
                KeyBound::Error(error) => error,
                KeyBound::Size(_) | KeyBound::Hard => panic!("it has an error bound"),
            })
        };
        let fine = ErrorBound { tolerance_ppm: 10_000, lease: Duration::from_millis(250) };
        assert_eq!(bound(b"v:1").map(|bound| bound.tolerance_ppm), Some(50_000));
        assert_eq!(bound(b"v:fine:1"), Some(fine));
        assert_eq!(bound(b"v:exact:1"), None);
        assert_eq!(bound(b"w:1"), None);
        assert_eq!(bound(b"v:solera:mixt:1"), None, "the server's own keys are no counters");
        assert_eq!(spaces.space_of(b"v:exact:1").of_type, Some(SpaceType::Counter));
        let all = spaces.prefixes_with_bounds();
        let bounded = all.iter().filter(|(_, bound)| bound.is_some());
        let prefixes: Vec<&str> = bounded.map(|(prefix, _)| &**prefix).collect();
        assert_eq!(prefixes, ["v:fine:", "v:"]);
    }

    #[test]
    fn the_first_prefix_that_matches_decides_about_the_bound() {
        let bounded = |name: &str, prefix: &str, more: &str| {
            format!(
                "[[space]]\nname = '{name}'\nprefix = '{prefix}'\nlevel = 'causal'\ntype = 'counter'\n{more}"
            )
        };
        let text = bounded("w", "w:", "error = '1%'\n")
            + &bounded("a", "w:exact:", "")
            + &bounded("b", "w:sol", "error = '2%'\n")
            + &bounded("c", "x:", "error = '3%'\n")
            + &bounded("d", "x:solera:", "error = '4%'\n");
        let spaces = ClusterSpec::parse("s.toml", &text, Overrides::default()).unwrap().spaces;
        let prefixes = spaces.prefixes_with_bounds();
        for (key, ppm) in [
            ("w:1", Some(10_000)),
            ("w:exact:1", None),
            ("w:solera:1", Some(20_000)),
            ("w:solsolera:1", None),
            ("x:1", Some(30_000)),
            ("x:solera:1", Some(40_000)),
            ("x:solera:solera:1", None),
            ("y", None),
        ] {
            let first = prefixes.iter().find(|(prefix, _)| key.starts_with(prefix.as_str()));
            let bound = spaces.bound_of(key.as_bytes());
            let ppm_of = |bound| match bound {
                KeyBound::Error(error) => error.tolerance_ppm,
                KeyBound::Size(_) | KeyBound::Hard => 0,
            };
            assert_eq!(bound.map(ppm_of), ppm, "{key}");
            assert_eq!(first.and_then(|(_, bound)| *bound), bound, "{key}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let counter = "level = 'causal'\ntype = 'counter'";
        let bounded = format!("{counter}\nerror = '5%'");
        let of_error = |error: &str| format!("{counter}\nerror = '{error}'");
        for (text, reason) in [
            (
                "level = 'causal'\ntype = 'pool'\nerror = '5%'",
                "line 6: space 'v': error goes with type 'counter' and with type 'set'",
            ),
            (
                "level = 'causal'\ntype = 'list'\nerror = '5%'",
                "line 6: space 'v': error goes with type 'counter' and with type 'set'",
            ),
            (
                "level = 'causal'\ntype = 'number'",
                "line 5: space 'v': there is no type 'number'; the type may be 'counter', \
                 'bounded-counter', 'pool', 'set' or 'list'",
            ),
            (
                "type = 'pool'\nlevel = 'por'",
                "line 4: space 'v': type 'pool' goes with level 'causal', not with 'por'",
            ),
            (
                "type = 'counter'\nlevel = 'eventual'",
                "line 4: space 'v': type goes with levels 'causal', 'por' and 'linearizable', not with",
            ),
            (
                "level = 'linearizable'\ntype = 'counter'\nerror = '5%'",
                "line 6: space 'v': error goes with level 'causal', not with 'linearizable'",
            ),
            ("level = 'pcpsi'\nerror = '5%'", "line 5: space 'v': error goes with level 'causal'"),
            (
                "level = 'eventual'\nlease_ms = 500",
                "line 5: space 'v': lease_ms goes with level 'causal', not with 'eventual'",
            ),
            (
                "level = 'primary'\ntype = 'counter'\n[development]\nexamples = true",
                "line 5: space 'v': type goes with levels 'causal', 'por' and 'linearizable', not with",
            ),
            (
                "level = 'causal'\nerror = '5%'",
                "line 5: space 'v': error goes with type 'counter' and with type 'set', whose size it \
                 bounds: add type = \"counter\" or type = \"set\"",
            ),
            (&format!("{counter}\nlease_ms = 500"), "line 6: space 'v': lease_ms goes with error"),
            (&of_error("5"), "line 6: space 'v': error is a percentage such as \"5%\" or \"0.5%\""),
            (&of_error("0%"), "line 6: space 'v': error is more than 0%, not '0%'"),
            (&of_error("-1%"), "line 6: space 'v': error is more than 0%, not '-1%'"),
            (&of_error("100.1%"), "line 6: space 'v': error is at most 100%, not '100.1%'"),
            (&of_error("0.00001%"), "line 6: space 'v': error is a multiple of 0.0001%, a"),
            (
                &format!("{counter}\nerror = 5"),
                "s.toml, line 6: space.error: expected a text in quotes, found the number 5",
            ),
            (
                &format!("{bounded}\nlease_ms = 99"),
                "line 7: space 'v': lease_ms is from 100 to 600000, not 99",
            ),
            (&format!("{bounded}\nlease_ms = 600001"), "lease_ms is from 100 to 600000, not"),
            (
                &format!("{bounded}\nlease_ms = -1"),
                "line 7: space.lease_ms: expected a whole number that is not negative, found",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
            assert!(error.starts_with("s.toml, line "), "{text}: {error}");
        }
    }

    #[test]
    fn a_bound_needs_a_prefix_and_the_protocol_unistore() {
        let space = "level = 'causal'\ntype = 'counter'\nerror = '5%'";
        let read = |text: &str| {
            let spec = ClusterSpec::parse("s.toml", text, Overrides::default());
            spec.map_err(|error| error.to_string())
        };
        let whole = read(&format!("[[space]]\nname = 'v'\nprefix = ''\n{space}")).unwrap_err();
        assert!(whole.contains("line 5: space 'v': type needs a prefix"), "{whole}");
        for protocol in ["strong", "redblue", "causal", "uniform", "cureft"] {
            let named = format!("[[space]]\nname = 'v'\nprefix = 'v:'\n{space}");
            let error = read(&format!("protocol = '{protocol}'\n{named}")).unwrap_err();
            let reason = "line 7: space 'v': error goes with protocol 'unistore': ";
            assert!(error.contains(&format!("{reason}'{protocol}' keeps no")), "{error}");
            let pool = "[[space]]\nname = 'v'\nprefix = 'v:'\nlevel = 'causal'\ntype = 'pool'";
            let error = read(&format!("protocol = '{protocol}'\n{pool}")).unwrap_err();
            let reason = "line 6: space 'v': type 'pool' goes with protocol 'unistore': ";
            assert!(error.contains(&format!("{reason}'{protocol}' keeps no")), "{error}");
        }
    }
}
