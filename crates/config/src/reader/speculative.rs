//! `[speculative]`: settings of the space of level `speculative`.

use serde::Deserialize;
use toml::Spanned;

use super::Reader;
use crate::error::ConfigError;

/// Maximum number of threads.
const MOST: usize = 256;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpeculativeTable {
    threads: Option<Spanned<usize>>,
}

impl Reader<'_> {
    /// Returns the number of procedures that threads of their own execute at a time.
    pub(super) fn speculative_threads(
        &self,
        table: SpeculativeTable,
    ) -> Result<usize, ConfigError> {
        let Some(threads) = table.threads else {
            return Ok(std::thread::available_parallelism().map_or(1, usize::from).min(MOST));
        };
        if *threads.get_ref() > MOST {
            let reason = format!(
                "at most {MOST} threads execute procedures, not {}; with 0, the worker executes them itself",
                threads.get_ref()
            );
            return self.invalid(Some(threads.span().start), reason);
        }
        Ok(threads.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use crate::spec::{ClusterSpec, Overrides};

    #[test]
    fn threads_have_a_bound_and_a_default() {
        let read = |text: &str| ClusterSpec::parse("s.toml", text, Overrides::default());
        let threads = |text: &str| read(text).unwrap().speculative_threads;
        assert!(threads("") >= 1);
        assert_eq!(threads("[speculative]\nthreads = 0"), 0);
        assert_eq!(threads("[speculative]\nthreads = 256"), 256);
        let error = read("sites = 3\n[speculative]\nthreads = 257").unwrap_err().to_string();
        assert!(error.contains("s.toml, line 3: at most 256 threads"), "{error}");
    }
}
