//! Settings of durability.

use std::time::Duration;

use toml::Spanned;

use super::{Reader, Setting};
use crate::durability::Durability;
use crate::error::ConfigError;

impl Reader<'_> {
    pub(super) fn durability(
        &self,
        kept: bool,
        name: Option<Spanned<String>>,
        interval: Option<Spanned<u64>>,
    ) -> Result<Durability, ConfigError> {
        let place = name.as_ref().map(|name| name.span().start);
        let default = if kept { "always" } else { "memory" };
        let name = name.map_or_else(|| default.to_owned(), Spanned::into_inner);
        if !["always", "interval", "memory"].contains(&name.as_str()) {
            let reason = format!("durability is 'always', 'interval' or 'memory', not '{name}'");
            return self.invalid(place, reason);
        }
        if !kept && name != "memory" {
            let reason = format!("durability '{name}' needs a directory: set data, or use --data");
            return self.invalid(place, reason);
        }
        match (name.as_str(), interval) {
            ("interval", interval) => {
                let interval = Setting::new(None, interval, 100);
                if !(1..=60_000).contains(&interval.value) {
                    let reason = "sync_interval_ms is 1 to 60000".to_owned();
                    return self.invalid(interval.place, reason);
                }
                Ok(Durability::Interval(Duration::from_millis(interval.value)))
            }
            (_, Some(interval)) => {
                let reason =
                    format!("sync_interval_ms goes with durability 'interval', not '{name}'");
                self.invalid(Some(interval.span().start), reason)
            }
            ("memory", None) => Ok(Durability::Memory),
            (_, None) => Ok(Durability::Always),
        }
    }
}
