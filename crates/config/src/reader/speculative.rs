//! `[speculative]`: settings of the space of level `speculative`.

use std::ops::RangeInclusive;

use serde::Deserialize;
use toml::Spanned;

use super::Reader;
use crate::error::ConfigError;

/// Maximum number of threads.
const MOST: usize = 256;

/// Operations that may be tentative at a site: the default, and the least and the greatest setting.
const TENTATIVE: usize = 1_000_000;
const TENTATIVE_RANGE: RangeInclusive<usize> = 100..=10_000_000;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpeculativeTable {
    threads: Option<Spanned<usize>>,
    max_tentative: Option<Spanned<usize>>,
}

impl Reader<'_> {
    /// Returns the number of procedures that threads of their own execute at a time.
    pub(super) fn speculative_threads(
        &self,
        table: &SpeculativeTable,
    ) -> Result<usize, ConfigError> {
        let Some(threads) = &table.threads else {
            return Ok(std::thread::available_parallelism().map_or(1, usize::from).min(MOST));
        };
        if *threads.get_ref() > MOST {
            let reason = format!(
                "at most {MOST} threads execute procedures, not {}; with 0, the worker executes them itself",
                threads.get_ref()
            );
            return self.invalid(Some(threads.span().start), reason);
        }
        Ok(*threads.get_ref())
    }

    /// Returns the number of operations that may be tentative at a site.
    pub(super) fn max_tentative(&self, table: &SpeculativeTable) -> Result<usize, ConfigError> {
        let Some(most) = &table.max_tentative else { return Ok(TENTATIVE) };
        if !TENTATIVE_RANGE.contains(most.get_ref()) {
            let (least, greatest) = TENTATIVE_RANGE.into_inner();
            let reason = format!("max_tentative is {least} to {greatest}, not {}", most.get_ref());
            return self.invalid(Some(most.span().start), reason);
        }
        Ok(*most.get_ref())
    }
}

#[cfg(test)]
mod tests {
    use crate::spec::{ClusterSpec, Overrides};

    #[test]
    fn settings_have_bounds_and_defaults() {
        let read = |text: &str| ClusterSpec::parse("s.toml", text, Overrides::default());
        let threads = |text: &str| read(text).unwrap().speculative_threads;
        assert!(threads("") >= 1);
        assert_eq!(threads("[speculative]\nthreads = 0"), 0);
        assert_eq!(threads("[speculative]\nthreads = 256"), 256);
        let most = |text: &str| read(text).unwrap().max_tentative;
        assert_eq!(most(""), 1_000_000);
        assert_eq!(most("[speculative]\nmax_tentative = 100"), 100);
        let error = read("[speculative]\nmax_tentative = 99").unwrap_err().to_string();
        assert!(error.contains("line 2: max_tentative is 100 to 10000000, not 99"), "{error}");
        let error = read("sites = 3\n[speculative]\nthreads = 257").unwrap_err().to_string();
        assert!(error.contains("s.toml, line 3: at most 256 threads"), "{error}");
    }
}
