//! Intervals that contain the values of counters (IPA §4.3).

use std::time::Duration;

use solera_reservations::Cannot;
use solera_time::SiteId;

use super::ClientSession;
use crate::context::{AskInterval, Context, Unreachable};

/// Time after which a request for an interval fails. A site that holds too many tokens gives them
/// up within a round trip if it answers at all.
const PATIENCE: Duration = Duration::from_secs(2);

impl<W: Context> ClientSession<W> {
    /// Returns the least and the greatest value of a counter with an error bound. At some moment
    /// during the call, its value is between them.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn interval(&self, key: &[u8]) -> Result<(i64, i64), String> {
        if self.worker.spec().spaces.bound_of(key).is_none() {
            return Err(self.not_read_as_interval(key, Cannot::NoPolicy));
        }
        let owner = self.worker.reach(key).map_err(|error| error.to_string())?;
        let asked = AskInterval { key: key.into(), within: PATIENCE };
        match self.worker.ask_interval(owner, asked).await {
            Some(interval) => interval.map_err(|reason| self.not_read_as_interval(key, reason)),
            None if self.worker.process_of(owner) == Some(0) => Err(self.unanswered()),
            None => Err(Unreachable(self.worker.node_name(owner)).to_string()),
        }
    }

    /// Returns the error reply for an interval that could not be read.
    fn not_read_as_interval(&self, key: &[u8], reason: Cannot) -> String {
        let space = self.worker.spec().spaces.space_of(key);
        let key = String::from_utf8_lossy(key);
        match reason {
            Cannot::NoPolicy => format!(
                "ERR '{key}' has no error bound: its space '{}' has no setting 'error' in solera.toml",
                space.name
            ),
            Cannot::NotReader { readers } => format!(
                "UNAVAILABLE this site was cut off, and may not answer intervals of '{key}' yet; try again, or ask \
                 {}",
                self.one_of(&readers)
            ),
            Cannot::NoLease => format!(
                "UNAVAILABLE this site is cut off, and may not answer intervals of '{key}' alone; ask another site, or \
                 try again"
            ),
            Cannot::TooWide { least, greatest } => format!(
                "TRYAGAIN the interval of '{key}' would be wider than its error bound {}: from {least} to {greatest}, \
                 because sites that update it hold tokens, and have not given them up; try again",
                space.bound.map(|bound| bound.tolerance()).unwrap_or_default()
            ),
            Cannot::Behind
            | Cannot::Nothing
            | Cannot::TooMany { .. }
            | Cannot::NoTokens
            | Cannot::AtFloor => format!(
                "TRYAGAIN this site has not received all updates of '{key}' on which an interval depends; try again"
            ),
        }
    }

    /// Formats a choice among sites.
    fn one_of(&self, sites: &[SiteId]) -> String {
        let own = self.worker.address().site;
        let others = sites.iter().filter(|site| **site != own);
        let names: Vec<&str> = others.map(|site| self.worker.site_name(*site)).collect();
        match names.as_slice() {
            [] => "another site".to_owned(),
            names => format!("site {}", names.join(" or ")),
        }
    }
}
