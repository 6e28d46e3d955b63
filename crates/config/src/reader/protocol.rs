//! The protocol of a cluster, timestamps of level `pcpsi`, the first leader of strong transactions,
//! and the limits of their size.

use solera_commands::similar;
use solera_time::SiteId;
use solera_unistore::StrongLimits;
use toml::Spanned;

use super::Reader;
use super::amount::Amount;
use crate::error::ConfigError;
use crate::protocol::Baseline;
use crate::timestamps::Timestamps;

/// Bounds of the limits of strong transactions. No transaction at all may be larger than the upper
/// bounds.
const LEAST_BYTES: u64 = 1 << 10;
const MOST_BYTES: u64 = 512 << 20;
const MOST_OPERATIONS: usize = 10_000_000;
/// Greatest number of stamps of a timestamp of level `pcpsi`.
const MOST_STAMPS: u16 = 64;

impl Reader<'_> {
    /// Returns the protocol. Protocols other than UniStore are for measurements, and keep no data
    /// on disk.
    pub(super) fn protocol(
        &self,
        name: Option<&Spanned<String>>,
        has_data: bool,
    ) -> Result<Baseline, ConfigError> {
        let Some(name) = name else { return Ok(Baseline::UniStore) };
        let place = Some(name.span().start);
        let mut names = Baseline::NAMES.into_iter();
        let Some((baseline, _)) = names.find(|(_, other)| name.get_ref() == other) else {
            let names = Baseline::NAMES.map(|(_, name)| name);
            let name = name.get_ref();
            let reason = match similar(name, names) {
                Some(near) => format!("there is no protocol '{name}'; did you mean '{near}'?"),
                None => format!("there is no protocol '{name}'; there are {}", names.join(", ")),
            };
            return self.invalid(place, reason);
        };
        if has_data && baseline != Baseline::UniStore {
            let reason = format!(
                "the protocol '{}' is for comparisons and keeps no data; leave 'data' and --data out",
                name.get_ref()
            );
            return self.invalid(place, reason);
        }
        Ok(baseline)
    }

    pub(super) fn strong_limits(
        &self,
        bytes: Option<Spanned<Amount>>,
        operations: Option<Spanned<usize>>,
    ) -> Result<StrongLimits, ConfigError> {
        let mut limits = StrongLimits::default();
        if let Some(amount) = bytes {
            let place = Some(amount.span().start);
            limits.bytes = match amount.get_ref().bytes("strong_max_bytes") {
                Ok(bytes @ LEAST_BYTES..=MOST_BYTES) => bytes as usize,
                Ok(_) => {
                    return self.invalid(place, "strong_max_bytes is 1 KiB to 512 MiB".to_owned());
                }
                Err(reason) => return self.invalid(place, reason),
            };
        }
        if let Some(operations) = operations {
            if !(1..=MOST_OPERATIONS).contains(operations.get_ref()) {
                let reason = format!("strong_max_operations is 1 to {MOST_OPERATIONS}");
                return self.invalid(Some(operations.span().start), reason);
            }
            limits.operations = operations.into_inner();
        }
        Ok(limits)
    }

    /// Returns the timestamps of spaces of level `pcpsi`.
    pub(super) fn timestamps(
        &self,
        kind: Option<&Spanned<String>>,
        stamps: Option<&Spanned<u16>>,
    ) -> Result<Timestamps, ConfigError> {
        const USUAL: u16 = 2;
        let place = stamps.map(|stamps| stamps.span().start);
        let count = stamps.map_or(USUAL, |stamps| *stamps.get_ref());
        if !(1..=MOST_STAMPS).contains(&count) {
            return self.invalid(place, format!("pcpsi_stamps is 1 to {MOST_STAMPS}"));
        }
        match kind.map_or("per-site", |kind| kind.get_ref().as_str()) {
            "exact" if stamps.is_some() => {
                let reason =
                    "timestamps that are exact have a stamp for each shard; leave pcpsi_stamps out";
                self.invalid(place, reason.to_owned())
            }
            "exact" => Ok(Timestamps::Exact),
            "structural" => Ok(Timestamps::Structural(count)),
            "temporal" => Ok(Timestamps::Temporal(count)),
            "per-site" => Ok(Timestamps::PerSite(count)),
            other => {
                let reason = format!(
                    "'{other}' is no kind of timestamp: exact, structural, temporal or per-site"
                );
                self.invalid(kind.map(|kind| kind.span().start), reason)
            }
        }
    }

    /// Returns the initial leader.
    pub(super) fn leader(
        &self,
        name: Option<&Spanned<String>>,
        sites: &[String],
    ) -> Result<SiteId, ConfigError> {
        let Some(name) = name else { return Ok(SiteId(0)) };
        match sites.iter().position(|site| site == name.get_ref()) {
            Some(site) => Ok(SiteId(site as u8)),
            None => {
                let sites = sites.join(", ");
                let reason =
                    format!("there is no site '{}' to lead; the sites are {sites}", name.get_ref());
                self.invalid(Some(name.span().start), reason)
            }
        }
    }
}
