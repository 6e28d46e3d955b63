//! `[log]`: format and levels of the log.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;
use toml::Spanned;

use super::Reader;
use crate::error::ConfigError;
use crate::log::{LogSpec, area};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LogTable {
    format: Option<Spanned<String>>,
    level: Option<Spanned<String>>,
    #[serde(default)]
    areas: BTreeMap<Spanned<String>, Spanned<String>>,
}

impl Reader<'_> {
    /// Reads the table and `log_level`, which is another name of `level` in it.
    pub(super) fn log(
        &self,
        table: LogTable,
        log_level: Option<Spanned<String>>,
    ) -> Result<LogSpec, ConfigError> {
        if let (Some(twice), Some(_)) = (&log_level, &table.level) {
            let reason = "log_level is the level in [log]; set one of them".to_owned();
            return self.invalid(Some(twice.span().start), reason);
        }
        let format = table.format.map(|format| self.named_one("format", &format)).transpose()?;
        let levels = table.level.or(log_level).map(|levels| self.levels(&levels)).transpose()?;
        let LogSpec { level, mut areas, .. } = levels.unwrap_or_default();
        for (name, level) in table.areas {
            let found = area(name.get_ref());
            let found = found.or_else(|reason| self.invalid(Some(name.span().start), reason))?;
            if areas.insert(found, self.named_one("level", &level)?).is_some() {
                let reason = format!("the level of the area '{found}' is set twice");
                return self.invalid(Some(name.span().start), reason);
            }
        }
        Ok(LogSpec { format, level, areas })
    }

    /// Reads a level and levels of areas in the form of the option `--log-level`.
    fn levels(&self, text: &Spanned<String>) -> Result<LogSpec, ConfigError> {
        let read = text.get_ref().parse();
        read.or_else(|reason| self.invalid(Some(text.span().start), reason))
    }

    fn named_one<T>(&self, what: &str, text: &Spanned<String>) -> Result<T, ConfigError>
    where
        T: FromStr<Err = String>,
    {
        text.get_ref().parse().or_else(|reason: String| {
            let reason = format!("there is no {what} '{}': {reason}", text.get_ref());
            self.invalid(Some(text.span().start), reason)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{LogFormat, LogLevel, areas};
    use crate::spec::{ClusterSpec, Overrides};

    fn read(text: &str, option: &str) -> Result<LogSpec, String> {
        let log = if option.is_empty() { LogSpec::default() } else { option.parse()? };
        let over = Overrides { sites: Some(1), log, ..Overrides::default() };
        let spec = ClusterSpec::parse("s.toml", text, over).map_err(|error| error.to_string())?;
        Ok(spec.log)
    }

    #[test]
    fn format_level_and_areas_are_read() {
        let text = "[log]\nformat = 'json'\nlevel = 'warn'\n[log.areas]\nlinks = 'debug'";
        let spec = read(text, "").unwrap();
        assert_eq!((spec.format, spec.level), (Some(LogFormat::Json), Some(LogLevel::Warn)));
        assert_eq!(spec.areas, [(areas::LINKS, LogLevel::Debug)].into());
        for levels in ["warn", "links=debug", "warn,links=debug,sites=error"] {
            assert_eq!(read(&format!("log_level = '{levels}'"), ""), levels.parse());
            assert_eq!(read(&format!("[log]\nlevel = '{levels}'"), ""), levels.parse());
        }
        let both = "log_level = 'warn,links=debug'\n[log.areas]\nsites = 'info'";
        assert_eq!(read(both, ""), "warn,links=debug,sites=info".parse());
        assert_eq!(read("log.areas.sites = 'warn'", "links=info"), "links=info,sites=warn".parse());
        assert_eq!(read(text, "error").unwrap().level, Some(LogLevel::Error));
        assert_eq!(read("", ""), Ok(LogSpec::default()));
    }

    #[test]
    fn errors_name_the_line() {
        for (text, reason) in [
            ("[log]\nformat = 'xml'", "s.toml, line 2: there is no format 'xml': the formats are"),
            ("[log]\nlevel = 'loud'", "s.toml, line 2: there is no level 'loud': the levels are"),
            ("[log]\nlevel = 'wran'", "line 2: there is no level 'wran': did you mean 'warn'?"),
            ("log_level = 'info,link=warn'", "line 1: there is no area 'link' of the log; did you"),
            (
                "[log]\nlevel = 'info,links=warn'\n[log.areas]\nlinks = 'debug'",
                "line 4: the level of the area 'links' is set twice",
            ),
            ("[log.areas]\nlinks = 'loud'", "s.toml, line 2: there is no level 'loud'"),
            (
                "[log.areas]\n\nattic = 'info'",
                "s.toml, line 3: there is no area 'attic' of the log",
            ),
            ("log_level = 'info'\n[log]\nlevel = 'warn'", "s.toml, line 1: log_level is the level"),
            ("[log]\ncolour = 'red'", "s.toml, line 2: there is no setting 'colour' here"),
        ] {
            let error = read(text, "").unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
