//! The two pasts of a session: one for its reads, and one for the durability of its writes.

use serde::{Deserialize, Serialize};
use solera_time::{MAX_SITES, Origin, SiteId, Timestamp, Vector};

use crate::protocol::PROTOCOL;

/// The causal past and the durability past of a session.
///
/// The durability past is the causal past together with the session's acknowledged writes to
/// eventual spaces. Only barriers wait for it: the reads of a session never wait for an eventual
/// write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pasts {
    /// `pastVec` (UniStore §5.1): transactions that the session has observed or committed. Entries
    /// of other sites are uniform at the session's site.
    pub causal: Vector,
    /// Times of writes to eventual spaces, by the site that executed them. Other sites may not
    /// store them yet. They are kept apart from the causal past, whose greater entries would hide
    /// the loss of a write with a former generation of its site.
    eventual: Vector,
    /// Covers the snapshots on which these writes were executed. Other sites show a write once they
    /// store everything in its snapshot, so the write survives only together with its snapshot.
    eventual_snap: Vector,
}

impl Pasts {
    /// Returns the pasts of a new session in a cluster with `sites` sites.
    pub fn none(sites: usize) -> Self {
        Pasts::causal(Vector::zero(sites))
    }

    /// Returns the pasts of a session that has written to no eventual space.
    pub fn causal(causal: Vector) -> Self {
        let none = Vector::zero(causal.entries().len());
        Pasts { causal, eventual: none, eventual_snap: none }
    }

    /// Returns the pasts with writes to eventual spaces added. `eventual_snap` covers the snapshots
    /// of these writes.
    pub fn with_eventual(mut self, eventual: &Vector, eventual_snap: &Vector) -> Self {
        self.eventual.join(eventual);
        self.eventual_snap.join(eventual_snap);
        self
    }

    /// Appends the pasts in the format of tokens: protocol, version, number of sites, and for each
    /// vector the entries of the sites and that of strong transactions, big-endian.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&PROTOCOL.past_header());
        let vectors = [&self.causal, &self.eventual, &self.eventual_snap];
        let sites = vectors.iter().map(|vector| vector.entries().len()).max().unwrap_or(0);
        bytes.push(sites as u8);
        for vector in vectors {
            for ts in vector.first(sites).iter().chain([&vector.strong]) {
                bytes.extend_from_slice(&ts.0.to_be_bytes());
            }
        }
    }

    /// Decodes the bytes after the protocol and its version; `None` if they are not valid.
    pub fn decode(bytes: &[u8]) -> Option<Pasts> {
        let (sites, entries) = bytes.split_first()?;
        let sites = usize::from(*sites);
        if sites > MAX_SITES || entries.len() != 3 * (sites + 1) * size_of::<u64>() {
            return None;
        }
        let (entries, _) = entries.as_chunks();
        let mut entries = entries.iter().map(|entry| Timestamp(u64::from_be_bytes(*entry)));
        let [causal, eventual, eventual_snap] = [(); 3].map(|()| {
            Origin::all(sites).fold(Vector::zero(sites), |vector, origin| {
                vector.with(origin, entries.next().unwrap_or_default())
            })
        });
        Some(Pasts { causal, eventual, eventual_snap })
    }

    /// Returns whether all entries after those of the first `sites` sites are zero.
    pub fn is_within(&self, sites: usize) -> bool {
        [self.causal, self.eventual, self.eventual_snap].iter().all(|it| it.is_within(sites))
    }

    /// Returns the times of the session's writes to eventual spaces, by the site that executed
    /// them.
    pub fn eventual(&self) -> &Vector {
        &self.eventual
    }

    /// Returns a vector that covers the snapshots on which these writes were executed.
    pub fn eventual_snap(&self) -> &Vector {
        &self.eventual_snap
    }

    /// Returns the durability past: everything that the session has observed or committed, eventual
    /// writes included.
    pub fn durability(&self) -> Vector {
        let mut durability = self.causal;
        durability.join(&self.eventual);
        durability
    }

    /// Adds the pasts of a reply, of a token, or of another session.
    pub fn join(&mut self, other: &Pasts) {
        self.causal.join(&other.causal);
        self.eventual.join(&other.eventual);
        self.eventual_snap.join(&other.eventual_snap);
    }

    /// Adds writes to eventual spaces that `site` executed for the session. `commit_vec` covers
    /// their commit vectors.
    pub(crate) fn add_eventual(&mut self, site: SiteId, commit_vec: &Vector) {
        self.eventual.raise(site, commit_vec[site]);
        self.eventual_snap.join(commit_vec);
    }

    /// Returns the vector that must be uniform before a barrier at the site `me` ends. Transactions
    /// of other sites in the causal past were uniform when the session observed them (UniStore
    /// §5.6), and strong ones when they committed.
    pub(crate) fn to_be_uniform(self, me: SiteId) -> Vector {
        self.eventual.with(me, self.eventual[me].max(self.causal[me]))
    }
}

#[cfg(test)]
mod tests {
    use solera_time::Timestamp;

    use super::*;

    #[test]
    fn a_barrier_waits_for_own_transactions_and_for_eventual_writes_of_every_site() {
        let ts = Timestamp;
        let mut pasts = Pasts::none(3);
        pasts.causal = pasts.causal.with(SiteId(0), ts(5)).with(SiteId(1), ts(7));
        pasts.causal.strong = ts(20);
        let alone = |site, time| Vector::zero(3).with(SiteId(site), ts(time));
        pasts.add_eventual(SiteId(0), &alone(0, 3));
        pasts.add_eventual(SiteId(1), &alone(1, 6));
        pasts.add_eventual(SiteId(2), &alone(2, 9));
        let expected = pasts.eventual().with(SiteId(0), ts(5));
        assert_eq!(pasts.to_be_uniform(SiteId(0)), expected);
        pasts.add_eventual(SiteId(0), &alone(0, 6).with(SiteId(1), ts(11)));
        assert_eq!(pasts.to_be_uniform(SiteId(0)), expected.with(SiteId(0), ts(6)));
        assert_eq!(pasts.eventual_snap().entries(), [ts(6), ts(11), ts(9)]);
        let durability = pasts.durability();
        assert_eq!(durability.entries(), [ts(6), ts(7), ts(9)]);
        assert_eq!(durability.strong, ts(20));
        let again =
            Pasts::causal(pasts.causal).with_eventual(pasts.eventual(), pasts.eventual_snap());
        assert_eq!(again, pasts);
    }
}
