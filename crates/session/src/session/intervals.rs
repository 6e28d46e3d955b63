//! Intervals that contain the values of counters (IPA §4.3), and holders of tokens and rights.

use std::time::Duration;

use solera_reservations::{Cannot, Holder};
use solera_time::SiteId;

use super::ClientSession;
use crate::context::{AskBound, Bound, Context, Unreachable, What};

/// Time after which a request for an interval fails. A site that holds too many tokens gives them
/// up within a round trip if it answers at all.
const PATIENCE: Duration = Duration::from_secs(2);

impl<W: Context> ClientSession<W> {
    /// Returns the least and the greatest value of a counter or size of a set with a bound. At some
    /// moment during the call, it is between them.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn interval(&self, key: &[u8]) -> Result<(i64, i64), String> {
        let answer = self.ask_bound(key, What::Interval).await;
        self.worker.count_reads(|counts| match &answer {
            Ok(Bound::Interval(..)) => counts.intervals += 1,
            Ok(Bound::Cannot(reason)) => counts.note_failure(Some(reason)),
            Ok(Bound::Holders(_)) | Err(_) => counts.note_failure(None),
        });
        match answer? {
            Bound::Interval(least, greatest) => Ok((least, greatest)),
            Bound::Cannot(reason) => Err(self.bound_error(key, reason)),
            Bound::Holders(_) => Err(self.unanswered()),
        }
    }

    /// Returns the sites with tokens or rights of a counter or set with a bound.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn holders(&self, key: &[u8]) -> Result<Vec<Holder>, String> {
        match self.ask_bound(key, What::Holders).await? {
            Bound::Holders(holders) => Ok(holders),
            Bound::Cannot(reason) => Err(self.bound_error(key, reason)),
            Bound::Interval(..) => Err(self.unanswered()),
        }
    }

    async fn ask_bound(&self, key: &[u8], what: What) -> Result<Bound, String> {
        if self.worker.spec().spaces.bound_of(key).is_none() {
            return Ok(Bound::Cannot(Cannot::NoPolicy));
        }
        let owner = self.worker.reach(key).map_err(|error| error.to_string())?;
        let asked = AskBound { key: key.into(), what, within: PATIENCE };
        match self.worker.ask_bound(owner, asked).await {
            Some(answer) => Ok(answer),
            None if self.worker.process_of(owner) == Some(0) => Err(self.unanswered()),
            None => Err(Unreachable(self.worker.node_name(owner)).to_string()),
        }
    }

    /// Returns the error reply for an interval or for holders that could not be read.
    fn bound_error(&self, key: &[u8], reason: Cannot) -> String {
        let space = self.worker.spec().spaces.space_of(key);
        let key = String::from_utf8_lossy(key);
        match reason {
            Cannot::NoPolicy => format!(
                "ERR '{key}' has no bound: in solera.toml, its space '{}' has neither the setting 'error' nor the \
                 type 'bounded-counter' or 'pool'",
                space.name
            ),
            Cannot::Uncounted | Cannot::SoldOut { .. } => format!(
                "TRYAGAIN the sites could not be asked how much is left of '{key}': one of them does not answer, or \
                 the list of sites is changing; SOLERA.RIGHTS shows what this site has"
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
                space.error.map(|error| error.tolerance()).unwrap_or_default()
            ),
            Cannot::OutOfRange => {
                format!("ERR '{key}' has no interval: its value is beyond 64 bits, or may be")
            }
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
