//! The weakest level at which a space may be read.

use std::str::FromStr;

use solera_levels::Level;

use super::Reader;
use super::spaces::SpaceTable;
use crate::error::ConfigError;
use crate::protocol::Baseline;
use crate::spaces::Space;

impl Reader<'_> {
    /// Adds the weakest level of reads to a space.
    pub(super) fn with_least_level(
        &self,
        table: &SpaceTable,
        space: Space,
        protocol: Baseline,
    ) -> Result<Space, ConfigError> {
        let Some(name) = &table.at_least else { return Ok(space) };
        let place = name.span().start;
        self.require_unistore(table, place, protocol, "at_least", |name| {
            format!("with '{name}', no read has another level than its space")
        })?;
        let offered = space.read_levels();
        let own = space.level_name();
        let Some(strongest) = offered.first() else {
            let reason = format!(
                "at_least does not go with level '{own}': no read of such a space has another level"
            );
            return self.refuse(table, place, reason);
        };
        let named = Level::from_str(name.get_ref()).ok();
        if let Some(level) = named.filter(|level| offered.contains(level)) {
            return Ok(Space { at_least: Some(level), ..space });
        }
        let names: Vec<String> = offered.iter().map(|level| format!("'{level}'")).collect();
        let choice = format!("reads of a space of level '{own}' have {}", names.join(" or "));
        let reason = match named {
            Some(level) if level.is_stronger_than(*strongest) => {
                format!("at_least = '{level}' is stronger than the space: {choice}")
            }
            _ => format!("at_least cannot be '{}': {choice}", name.get_ref()),
        };
        self.refuse(table, place, reason)
    }
}

#[cfg(test)]
mod tests {
    use solera_levels::Level;

    use crate::spec::{ClusterSpec, Overrides};

    /// Parses a space with these settings, which begin on line 4.
    fn parse(settings: &str) -> Result<ClusterSpec, String> {
        let text = format!("[[space]]\nname = 'v'\nprefix = 'v:'\n{settings}");
        ClusterSpec::parse("s.toml", &text, Overrides::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_least_level_is_one_that_reads_of_the_space_have() {
        for (own, least) in [
            ("linearizable", Level::Linearizable),
            ("linearizable", Level::Causal),
            ("linearizable", Level::Eventual),
            ("por", Level::Por),
            ("por", Level::Causal),
            ("causal", Level::Causal),
            ("causal", Level::Eventual),
            ("eventual", Level::Eventual),
        ] {
            let text = format!("level = '{own}'\nat_least = '{least}'");
            let space = parse(&text).unwrap().spaces.space_of(b"v:1").clone();
            assert_eq!(space.at_least, Some(least), "{text}");
            let described = format!("v = \"v:\" {own} (reads at least {least})");
            assert_eq!(space.to_string(), described, "nodes agree on it");
        }
        let typed = parse("level = 'causal'\ntype = 'list'\nat_least = 'linearizable'").unwrap();
        assert_eq!(typed.spaces.space_of(b"v:1").at_least, Some(Level::Linearizable));
        let plain = parse("level = 'causal'").unwrap().spaces.space_of(b"v:1").clone();
        assert_eq!(plain.at_least, None);
        let typed = "level = 'causal'\ntype = 'counter'\nerror = '5%'\nat_least = 'causal'";
        let typed = parse(typed).unwrap().spaces.space_of(b"v:1").to_string();
        let bound = "(counter, error 5%, lease 5000 ms)";
        assert_eq!(typed, format!("v = \"v:\" causal {bound} (reads at least causal)"));
    }

    #[test]
    fn other_levels_are_rejected_with_their_line() {
        for (settings, reason) in [
            (
                "level = 'causal'\nat_least = 'linearizable'",
                "s.toml, line 5: space 'v': at_least = 'linearizable' is stronger than the space: reads of a space \
                 of level 'causal' have 'causal' or 'eventual'",
            ),
            (
                "at_least = 'por'\nlevel = 'linearizable'",
                "s.toml, line 4: space 'v': at_least cannot be 'por': reads of a space of level 'linearizable' have \
                 'linearizable' or 'causal' or 'eventual'",
            ),
            (
                "level = 'eventual'\nat_least = 'weak'",
                "s.toml, line 5: space 'v': at_least cannot be 'weak': reads of a space of level 'eventual' have \
                 'eventual'",
            ),
            (
                "level = 'pcpsi'\nat_least = 'causal'",
                "s.toml, line 5: space 'v': at_least does not go with level 'pcpsi': no read of such a space has \
                 another level",
            ),
            (
                "level = 'primary'\nat_least = 'eventual'\n[development]\nexamples = true",
                "s.toml, line 5: space 'v': at_least does not go with level 'primary': no read of such a space has \
                 another level",
            ),
        ] {
            assert_eq!(parse(settings).unwrap_err(), reason);
        }
        let text = "protocol = 'causal'\n[[space]]\nname = 'v'\nprefix = 'v:'\nlevel = 'causal'\n\
                    at_least = 'causal'";
        let error = ClusterSpec::parse("s.toml", text, Overrides::default()).unwrap_err();
        let reason =
            "s.toml, line 6: space 'v': at_least goes with protocol 'unistore': with 'causal'";
        assert!(error.to_string().starts_with(reason), "{error}");
    }
}
