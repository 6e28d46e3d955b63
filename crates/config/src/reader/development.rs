//! `[development]`: settings for developers of Solera.

use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DevelopmentTable {
    /// Whether spaces may run protocols that are examples.
    #[serde(default)]
    pub(super) examples: bool,
}
