//! `[[space]]`: parts of the key space, with their levels and conflicts.

use serde::Deserialize;
use solera_commands::similar;
use solera_data::RESERVED;
use solera_levels::{Level, UnknownLevel};
use solera_time::SiteId;
use toml::Spanned;

use super::Reader;
use crate::error::ConfigError;
use crate::protocol::Baseline;
use crate::spaces::{
    Answer, Declared, PRIMARY, Relation, Runs, Space, SpaceError, SpaceHome, Spaces, served,
    served_levels,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpaceTable {
    name: Spanned<String>,
    prefix: String,
    level: Spanned<String>,
    answer: Option<Spanned<String>>,
    home: Option<Spanned<String>>,
    strong: Option<Spanned<Vec<Spanned<String>>>>,
    conflicts: Option<Spanned<Vec<Spanned<Vec<String>>>>>,
    #[serde(rename = "type")]
    pub(super) of_type: Option<Spanned<String>>,
    pub(super) error: Option<Spanned<String>>,
    pub(super) lease_ms: Option<Spanned<u64>>,
    pub(super) at_least: Option<Spanned<String>>,
    acyclic: Option<Spanned<bool>>,
}

impl Reader<'_> {
    /// Returns the spaces. `sites` lists the names of the sites. `examples` is whether spaces may
    /// run protocols that are examples. `protocol` is that of the cluster.
    pub(super) fn spaces(
        &self,
        tables: &[SpaceTable],
        sites: &[String],
        examples: bool,
        protocol: Baseline,
    ) -> Result<Spaces, ConfigError> {
        let space = |table: &SpaceTable| {
            let space = match table.level.get_ref() == PRIMARY {
                true => self.primary(table, examples)?,
                false => self.space(table, sites, examples, protocol)?,
            };
            let space = self.typed(table, space, protocol)?;
            let space = self.with_least_level(table, space, protocol)?;
            self.hiding(table, space)
        };
        let spaces = tables.iter().map(space).collect::<Result<_, _>>()?;
        Spaces::new(spaces).or_else(|error| {
            let last = tables.iter().rfind(|table| table.name.get_ref() == error.space());
            self.invalid(last.map(|table| table.name.span().start), error.to_string())
        })
    }

    fn space(
        &self,
        table: &SpaceTable,
        sites: &[String],
        examples: bool,
        protocol: Baseline,
    ) -> Result<Space, ConfigError> {
        let also = if examples { ", and the example 'primary'" } else { "" };
        let name = table.name.get_ref();
        if let Some(answer) = &table.answer {
            let reason = "answer goes with level 'primary': other spaces answer once";
            return self.refuse(table, answer.span().start, reason);
        }
        let place = Some(table.level.span().start);
        let level = match table.level.get_ref().parse() {
            Ok(level) if Spaces::serves(level) => level,
            Ok(level) => {
                let error = SpaceError::NotServed(name.clone(), level);
                return self.invalid(place, format!("{error}{also}"));
            }
            Err(UnknownLevel(level)) => {
                let near = similar(&level, served().map(Level::name));
                let advice = match near {
                    Some(near) => format!("did you mean '{near}'? This"),
                    None => "this".to_owned(),
                };
                let reason = format!(
                    "space '{name}': there is no level '{level}'; {advice} version serves {}{also}",
                    served_levels()
                );
                return self.invalid(place, reason);
            }
        };
        if level == Level::PcPsi {
            return self.occult(table, sites);
        }
        if let Some(home) = &table.home {
            let reason = "home goes with level 'pcpsi': in other spaces, all sites are equal";
            return self.refuse(table, home.span().start, reason);
        }
        if level == Level::Speculative {
            return self.speculative(table, protocol);
        }
        let relation = match level {
            Level::Por => self.relation(table)?,
            _ => self.fixed_relation(table, level)?,
        };
        Ok(Space { relation, ..Space::new(name, &table.prefix, level) })
    }

    /// Returns a space that Occult runs.
    fn occult(&self, table: &SpaceTable, sites: &[String]) -> Result<Space, ConfigError> {
        if table.prefix.is_empty() {
            let reason = "a space without a prefix contains Solera's own keys, which cannot have this level: \
                          give the space a prefix";
            return self.refuse(table, table.level.span().start, reason);
        }
        self.fixed_relation(table, Level::PcPsi)?;
        let home = match &table.home {
            None => SpaceHome::Hash,
            Some(name) if name.get_ref() == "hash" => SpaceHome::Hash,
            Some(name) => match sites.iter().position(|site| site == name.get_ref()) {
                Some(site) => SpaceHome::Site(SiteId(site as u8)),
                None => {
                    let known = sites.iter().map(String::as_str);
                    let advice = match similar(name.get_ref(), known.clone()) {
                        Some(near) => format!("; did you mean '{near}'?"),
                        None => format!("; the sites are {}", known.collect::<Vec<_>>().join(", ")),
                    };
                    let reason = format!(
                        "home is 'hash' or the name of a site, not '{}'{advice}",
                        name.get_ref()
                    );
                    return self.refuse(table, name.span().start, reason);
                }
            },
        };
        Ok(Space::occult(table.name.get_ref(), &table.prefix, home))
    }

    /// Returns a space of level `speculative`.
    fn speculative(&self, table: &SpaceTable, protocol: Baseline) -> Result<Space, ConfigError> {
        let place = table.level.span().start;
        self.require_unistore(table, place, protocol, "level 'speculative'", |name| {
            format!("'{name}' runs alone, for comparisons")
        })?;
        if RESERVED.starts_with(&table.prefix) || table.prefix.starts_with(RESERVED) {
            let begin = match table.prefix.as_str() {
                "" => "a space without a prefix".to_owned(),
                prefix => format!("the prefix '{prefix}'"),
            };
            let reason = format!(
                "{begin} contains Solera's own keys, which cannot have this level: give the space \
                 another prefix"
            );
            return self.refuse(table, place, reason);
        }
        if let Some(conflicts) = &table.conflicts {
            let reason =
                "conflicts goes with level 'por'; with 'speculative' all operations have one order";
            return self.refuse(table, conflicts.span().start, reason);
        }
        let mut declared = Declared::only_named();
        let strong = table.strong.as_ref();
        if let Some(list) = strong.filter(|list| list.get_ref().is_empty()) {
            let reason = "strong names no command; remove it: without it, no command is strong";
            return self.refuse(table, list.span().start, reason);
        }
        for name in strong.iter().flat_map(|list| list.get_ref()) {
            let named = declared.strong(name.get_ref());
            named.or_else(|error| self.refuse(table, name.span().start, error))?;
        }
        let relation = declared.without_conflicts();
        Ok(Space::speculative(table.name.get_ref(), &table.prefix, relation))
    }

    /// Adds the setting `acyclic` to a space.
    fn hiding(&self, table: &SpaceTable, space: Space) -> Result<Space, ConfigError> {
        match &table.acyclic {
            Some(acyclic) if space.runs != Runs::Speculative => {
                let level = space.level_name();
                let reason = format!("acyclic goes with level 'speculative', not with '{level}'");
                self.refuse(table, acyclic.span().start, reason)
            }
            acyclic => {
                let acyclic = acyclic.as_ref().is_some_and(|acyclic| *acyclic.get_ref());
                Ok(Space { acyclic, ..space })
            }
        }
    }

    /// Returns a space that `primary` runs.
    fn primary(&self, table: &SpaceTable, examples: bool) -> Result<Space, ConfigError> {
        if !examples {
            let reason = "'primary' is an example of a protocol; to try it, write 'examples = true' under \
                          [development]";
            return self.refuse(table, table.level.span().start, reason);
        }
        if table.prefix.is_empty() {
            let reason = "a space without a prefix contains Solera's own keys, which an example cannot hold: \
                          give the space a prefix";
            return self.refuse(table, table.level.span().start, reason);
        }
        let strong = table.strong.as_ref().map(|list| ("strong", list.span().start));
        let conflicts = table.conflicts.as_ref().map(|list| ("conflicts", list.span().start));
        if let Some((setting, place)) = strong.or(conflicts) {
            let reason = format!(
                "{setting} has no effect with 'primary': a key's home orders all its updates"
            );
            return self.refuse(table, place, reason);
        }
        let answer = match &table.answer {
            None => Answer::default(),
            Some(name) => match Answer::named(name.get_ref()) {
                Some(answer) => answer,
                None => {
                    let reason =
                        format!("answer is 'applied' or 'accepted', not '{}'", name.get_ref());
                    return self.refuse(table, name.span().start, reason);
                }
            },
        };
        Ok(Space::primary(table.name.get_ref(), &table.prefix, answer))
    }

    /// Returns the relation of a level that permits no declarations.
    fn fixed_relation(&self, table: &SpaceTable, level: Level) -> Result<Relation, ConfigError> {
        let strong = table.strong.as_ref().map(|list| ("strong", list.span().start));
        let conflicts = table.conflicts.as_ref().map(|list| ("conflicts", list.span().start));
        let Some((setting, place)) = strong.or(conflicts) else { return Ok(Relation::of(level)) };
        let why = match level {
            Level::Linearizable => "every command is strong",
            _ => "no command is strong",
        };
        let with = match setting {
            "strong" => "levels 'por' and 'speculative'",
            _ => "level 'por'",
        };
        let reason = format!("{setting} goes with {with}; with '{level}' {why}");
        self.refuse(table, place, reason)
    }

    fn relation(&self, table: &SpaceTable) -> Result<Relation, ConfigError> {
        let mut declared = Declared::default();
        let strong = table.strong.as_ref();
        if let Some(list) = strong.filter(|list| list.get_ref().is_empty()) {
            let reason = "strong names no command; remove it to make all commands that change keys \
                          strong, or set level = 'causal'";
            return self.refuse(table, list.span().start, reason);
        }
        let strong = || strong.iter().flat_map(|list| list.get_ref());
        for name in strong() {
            let named = declared.strong(name.get_ref());
            named.or_else(|error| self.refuse(table, name.span().start, error))?;
        }
        let pairs = table.conflicts.as_ref();
        if let Some(list) = pairs.filter(|list| list.get_ref().is_empty()) {
            let reason = "conflicts names no pair; remove it to use the default conflicts";
            return self.refuse(table, list.span().start, reason);
        }
        for pair in pairs.iter().flat_map(|list| list.get_ref()) {
            let place = pair.span().start;
            let [one, other] = pair.get_ref().as_slice() else {
                let reason = format!("a pair names two commands, not {}", pair.get_ref().len());
                return self.refuse(table, place, reason);
            };
            declared.conflict(one, other).or_else(|error| self.refuse(table, place, error))?;
        }
        for name in strong() {
            let checked = declared.check(name.get_ref());
            checked.or_else(|error| self.refuse(table, name.span().start, error))?;
        }
        Ok(declared.relation())
    }

    pub(super) fn refuse<T>(
        &self,
        table: &SpaceTable,
        place: usize,
        reason: impl std::fmt::Display,
    ) -> Result<T, ConfigError> {
        self.invalid(Some(place), format!("space '{}': {reason}", table.name.get_ref()))
    }
}

#[cfg(test)]
mod tests {
    use crate::spec::{ClusterSpec, Overrides};

    /// Parses a space with these settings, which begin on line 4.
    fn parse(text: &str) -> Result<ClusterSpec, String> {
        let text = format!("[[space]]\nname = 'x'\nprefix = 'x:'\n{text}");
        ClusterSpec::parse("s.toml", &text, Overrides::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn spaces_are_read() {
        for (text, described) in [
            ("level = 'linearizable'", "x = \"x:\" linearizable"),
            ("level = 'por'", "x = \"x:\" por"),
            ("level = 'por'\nconflicts = [['*', '*']]", "x = \"x:\" por"),
            (
                "level = 'por'\nstrong = ['DecrBy', 'SET']\nconflicts = [['decr', 'DECRBY'], ['SET', '*']]",
                "x = \"x:\" por (strong SET DECRBY, conflicts SET+SET SET+DECRBY DECRBY+DECRBY)",
            ),
            (
                "level = 'por'\nstrong = ['SADD', 'SISMEMBER']",
                "x = \"x:\" por (strong SADD SISMEMBER, conflicts SADD+SADD SADD+SISMEMBER)",
            ),
            (
                "level = 'por'\nstrong = ['SADD']\nconflicts = [['SADD', 'SADD'], ['sadd', 'sadd']]",
                "x = \"x:\" por (strong SADD, conflicts SADD+SADD)",
            ),
            ("level = 'speculative'", "x = \"x:\" speculative"),
            (
                "level = 'speculative'\nstrong = ['incrby', 'Get', 'SET']",
                "x = \"x:\" speculative (strong GET SET INCRBY)",
            ),
        ] {
            let spaces = parse(text).unwrap().spaces;
            assert_eq!(spaces.space_of(b"x:1").to_string(), described, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, reason) in [
            (
                "level = 'strong'",
                "s.toml, line 4: space 'x': there is no level 'strong'; this version",
            ),
            (
                "level = 'cusal'",
                "s.toml, line 4: space 'x': there is no level 'cusal'; did you mean 'causal'? This",
            ),
            (
                "level = 'quorum'",
                "s.toml, line 4: space 'x': 'quorum' is a level of Apache Cassandra, which this version cannot use as \
                 a store yet; spaces have 'linearizable', 'por',",
            ),
            (
                "level = 'local_quorum'",
                "line 4: space 'x': 'local_quorum' is a level of Apache Cassandra",
            ),
            ("level = 'causal'\nhome = 'hash'", "line 5: space 'x': home goes with level 'pcpsi'"),
            (
                "level = 'pcpsi'\nhome = 'mars'",
                "line 5: space 'x': home is 'hash' or the name of a site, not 'mars'",
            ),
            (
                "level = 'pcpsi'\nstrong = ['SET']",
                "line 5: space 'x': strong goes with levels 'por' and 'speculative'; with 'pcpsi' no",
            ),
            (
                "level = 'causal'\n[[space]]\nname = 'y'\nprefix = 'x:'\nlevel = 'causal'",
                "line 6: the spaces 'x' and 'y' have the same prefix",
            ),
            (
                "level = 'causal'\nstrong = ['SET']",
                "line 5: space 'x': strong goes with levels 'por' and 'speculative'; with 'causal' no",
            ),
            (
                "conflicts = [['SET', 'SET']]\nlevel = 'linearizable'",
                "line 4: space 'x': conflicts goes with level 'por'; with 'linearizable' every",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn mistakes_in_a_speculative_space_are_named_with_their_line() {
        for (text, reason) in [
            (
                "strong = []",
                "line 5: space 'x': strong names no command; remove it: without it, no",
            ),
            ("strong = ['SET',\n'INCBY']", "line 6: space 'x': there is no command 'INCBY'; did"),
            ("strong = ['PING']", "line 5: space 'x': PING does not act on a key"),
            ("strong = ['*']", "line 5: space 'x': '*' is permitted only in pairs"),
            (
                "strong = ['SET']\nconflicts = [['SET', 'SET']]",
                "line 6: space 'x': conflicts goes with level 'por'; with 'speculative' all",
            ),
            ("home = 'hash'", "line 5: space 'x': home goes with level 'pcpsi'"),
            ("answer = 'applied'", "line 5: space 'x': answer goes with level 'primary'"),
            (
                "type = 'counter'",
                "line 5: space 'x': type goes with levels 'causal', 'por' and 'linearizable', not",
            ),
            ("error = '5%'", "line 5: space 'x': error goes with level 'causal', not with 'spec"),
            (
                "lease_ms = 500",
                "line 5: space 'x': lease_ms goes with level 'causal', not with 'sp",
            ),
            ("at_least = 'causal'", "line 5: space 'x': at_least does not go with level 'spec"),
            (
                "[[space]]\nname = 'y'\nprefix = 'y:'\nlevel = 'speculative'",
                "line 6: the spaces 'x' and 'y' both have the level 'speculative'",
            ),
        ] {
            let error = parse(&format!("level = 'speculative'\n{text}")).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        let read = |text: &str| {
            ClusterSpec::parse("s.toml", text, Overrides::default()).map_err(|e| e.to_string())
        };
        for prefix in ["", "s", "solera:", "solera:x"] {
            let text = format!("[[space]]\nname = 'x'\nprefix = '{prefix}'\nlevel = 'speculative'");
            let error = read(&text).unwrap_err();
            assert!(
                error.contains("line 4: space 'x': ") && error.contains(" own keys"),
                "{error}"
            );
        }
        let other =
            "protocol = 'causal'\n[[space]]\nname = 'x'\nprefix = 'x'\nlevel = 'speculative'";
        let reason =
            "line 5: space 'x': level 'speculative' goes with protocol 'unistore': 'causal'";
        let error = read(other).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }

    #[test]
    fn spaces_of_the_example_are_read_and_mistakes_named_with_their_line() {
        let examples = "[development]\nexamples = true";
        let read = |text: &str| parse(&format!("{text}\n{examples}"));
        for (text, described) in [
            ("level = 'primary'", "x = \"x:\" primary (answers when applied)"),
            ("level = 'primary'\nanswer = 'applied'", "x = \"x:\" primary (answers when applied)"),
            (
                "level = 'primary'\nanswer = 'accepted'",
                "x = \"x:\" primary (answers when accepted)",
            ),
        ] {
            let spaces = read(text).unwrap().spaces;
            assert_eq!(spaces.space_of(b"x:1").to_string(), described, "{text}");
            let with = |key: &[u8]| spaces.primary_of(key).is_some();
            assert!(spaces.run_primary() && with(b"x:1") && !with(b"y"));
        }
        assert!(!parse(&format!("level = 'causal'\n{examples}")).unwrap().spaces.run_primary());
        for (text, reason) in [
            (
                "level = 'primary'\nanswer = 'stable'",
                "s.toml, line 5: space 'x': answer is 'applied' or 'accepted', not 'stable'",
            ),
            (
                "level = 'primary'\nstrong = ['SET']",
                "s.toml, line 5: space 'x': strong has no effect with 'primary': a key's",
            ),
            (
                "answer = 'applied'\nlevel = 'causal'",
                "s.toml, line 4: space 'x': answer goes with level 'primary'",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        let whole = format!("[[space]]\nname = 'x'\nprefix = ''\nlevel = 'primary'\n{examples}");
        let error = ClusterSpec::parse("s.toml", &whole, Overrides::default()).unwrap_err();
        assert!(
            error.to_string().contains("s.toml, line 4: space 'x': a space without a prefix"),
            "{error}"
        );
        for (level, known) in
            [("strong", "there is no level"), ("quorum", "is a level of Apache Cassandra")]
        {
            let (levels, also) = ("'speculative' and 'eventual'", ", and the example 'primary'");
            let error = read(&format!("level = '{level}'")).unwrap_err();
            assert!(error.contains(known) && error.contains(&format!("{levels}{also}")), "{error}");
            let error = parse(&format!("level = '{level}'")).unwrap_err();
            assert!(error.contains(known) && error.contains(levels), "{error}");
            assert!(!error.contains("'primary'"), "{error}");
        }
        for text in ["level = 'primary'", "level = 'primary'\n[development]\nexamples = false"] {
            let error = parse(text).unwrap_err();
            let reason =
                "s.toml, line 4: space 'x': 'primary' is an example of a protocol; to try it";
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn relations_without_sense_are_named_with_their_line() {
        for (text, reason) in [
            (
                "strong = [\n'SET',\n'DECBY']",
                "line 7: space 'x': there is no command 'DECBY'; did you mean DECRBY?",
            ),
            ("conflicts = [\n['SET', 'LPUSH']]", "line 6: space 'x': there is no command 'LPUSH'"),
            ("strong = ['PING']", "line 5: space 'x': PING does not act on a key"),
            ("strong = ['solera.level']", "line 5: space 'x': SOLERA.LEVEL does not act on"),
            ("strong = ['*']", "line 5: space 'x': '*' is permitted only in pairs"),
            ("strong = []", "line 5: space 'x': strong names no command"),
            ("conflicts = []", "line 5: space 'x': conflicts names no pair"),
            ("conflicts = [\n['SET']]", "line 6: space 'x': a pair names two commands, not 1"),
            (
                "conflicts = [['SET', 'SET'],\n['SADD', 'DECRBY']]",
                "line 6: space 'x': SADD is for a set and DECRBY for a string, so that",
            ),
            (
                "conflicts = [['GET', 'EXISTS']]",
                "line 5: space 'x': neither GET nor EXISTS is strong",
            ),
            (
                "conflicts = [['GET', 'GET']]",
                "line 5: space 'x': GET is not strong, so that a pair",
            ),
            (
                "strong = ['DECRBY']\nconflicts = [['DECRBY', 'DECRBY'],\n['DECRBY', 'INCRBY']]",
                "line 7: space 'x': INCRBY is not strong, so that a pair",
            ),
            (
                "strong = ['DECRBY']\nconflicts = [['*', 'SET']]",
                "line 6: space 'x': SET is not strong, so that a pair",
            ),
            (
                "strong = ['GET', 'EXISTS', 'SET']\nconflicts = [['GET', 'EXISTS']]",
                "line 6: space 'x': GET and EXISTS change nothing, so that their order",
            ),
            (
                "strong = ['GET', 'MGET', 'SET']\nconflicts = [['GET', 'MGET']]",
                "line 6: space 'x': GET changes nothing, so that the order of two of them",
            ),
            ("strong = ['GET']", "line 5: space 'x': GET is strong and conflicts with nothing"),
            ("strong = 'SET'", "s.toml, line 5: strong is a list: ['SET']"),
            ("conflicts = ['SET', 'SET']", "s.toml, line 5: conflicts is a list of pairs: [["),
        ] {
            let error = parse(&format!("level = 'por'\n{text}")).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
