//! `[modules]`: limits of transaction modules. The executor of modules has defaults for settings
//! that are not given.

use serde::Deserialize;
use toml::Spanned;

use super::Reader;
use super::amount::Amount;
use crate::error::ConfigError;
use crate::modules::ModuleSpec;
use crate::placed::Placed;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModuleTable {
    max_source: Option<Spanned<Amount>>,
    threads: Option<Spanned<u64>>,
    max_calls: Option<Spanned<u64>>,
    upkeep_ms: Option<Spanned<u64>>,
    max_steps: Option<Spanned<u64>>,
    max_depth: Option<Spanned<u64>>,
    max_value: Option<Spanned<Amount>>,
    max_held: Option<Spanned<Amount>>,
    max_handed_on: Option<Spanned<Amount>>,
    run_ms: Option<Spanned<u64>>,
    attempts: Option<Spanned<u64>>,
    finish_ms: Option<Spanned<u64>>,
    orphan_ms: Option<Spanned<u64>>,
    blocked_ms: Option<Spanned<u64>>,
    keep_ms: Option<Spanned<u64>>,
}

impl Reader<'_> {
    pub(super) fn modules(&self, table: ModuleTable) -> Result<ModuleSpec, ConfigError> {
        let number = |name: &str, given: Option<Spanned<u64>>, least: u64, most: u64| {
            let Some(given) = given else { return Ok(None) };
            let placed = self.placed(given);
            match (least..=most).contains(&placed.value) {
                true => Ok(Some(placed)),
                false => placed.invalid(format!("{name} is {least} to {most}")),
            }
        };
        let amount = |name: &str, given: Option<Spanned<Amount>>, least: u64, most: u64| {
            let Some(given) = given else { return Ok(None) };
            let Placed { value, at } = self.placed(given);
            match value.bytes(name) {
                Ok(value) if (least..=most).contains(&value) => Ok(Some(Placed { value, at })),
                Ok(_) => {
                    let (least, most) = (least >> 10, most >> 20);
                    let reason = format!("{name} is {least} KiB to {most} MiB");
                    Err(ConfigError::Invalid { at, reason })
                }
                Err(reason) => Err(ConfigError::Invalid { at, reason }),
            }
        };
        let (day_ms, kib, mib) = (86_400_000, 1 << 10, 1 << 20);
        Ok(ModuleSpec {
            source_bytes: amount("max_source", table.max_source, kib, 16 * mib)?,
            threads: number("threads", table.threads, 1, 64)?,
            calls: number("max_calls", table.max_calls, 1, 1_000_000)?,
            upkeep_ms: number("upkeep_ms", table.upkeep_ms, 10, day_ms)?,
            steps: number("max_steps", table.max_steps, 1000, 10_000_000_000)?,
            depth: number("max_depth", table.max_depth, 1, 10_000)?,
            value_bytes: amount("max_value", table.max_value, kib, 512 * mib)?,
            held_bytes: amount("max_held", table.max_held, kib, 4096 * mib)?,
            handed_on_bytes: amount("max_handed_on", table.max_handed_on, kib, 512 * mib)?,
            run_ms: number("run_ms", table.run_ms, 1, day_ms)?,
            attempts: number("attempts", table.attempts, 1, 1000)?,
            finish_ms: number("finish_ms", table.finish_ms, 1, day_ms)?,
            orphan_ms: number("orphan_ms", table.orphan_ms, 1, day_ms)?,
            blocked_ms: number("blocked_ms", table.blocked_ms, 1, day_ms)?,
            keep_ms: number("keep_ms", table.keep_ms, 1, day_ms)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::spec::{ClusterSpec, Overrides};

    fn parse(text: &str) -> Result<ClusterSpec, String> {
        let text = format!("[modules]\n{text}");
        ClusterSpec::parse("s.toml", &text, Overrides::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_are_read_with_their_line() {
        let modules = parse("max_source = '1 MiB'\nfinish_ms = 70").unwrap().modules;
        let source = modules.source_bytes.unwrap();
        assert_eq!((source.value, source.at.as_deref()), (1 << 20, Some("s.toml, line 2")));
        assert_eq!(modules.finish_ms.unwrap().value, 70);
        assert_eq!(modules.keep_ms, None);
    }

    #[test]
    fn values_out_of_range_are_reported_with_their_line() {
        for (text, reason) in [
            ("threads = 0", "s.toml, line 2: threads is 1 to 64"),
            ("\nattempts = 0", "line 3: attempts is 1 to 1000"),
            ("max_value = 7", "line 2: max_value is 1 KiB to 512 MiB"),
            ("max_source = 'much'", "line 2: max_source: 'much' is not an amount of bytes"),
            ("colour = 1", "colour"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
