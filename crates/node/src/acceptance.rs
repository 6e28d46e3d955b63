//! Whether the other sites take this node for one of theirs.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::NodeId;

/// What the nodes of other sites said to this node's calls.
///
/// Whoever is refused wherever it asks has another configuration, another cluster, or a wrong clock, and
/// what it writes may never come together with what the others do. Whom nobody answers is only cut off.
#[derive(Debug, Default)]
pub(crate) struct Acceptance {
    /// Whether any of them ever let this process in.
    ever: bool,
    /// Each one's last word; the reason if it was a refusal.
    words: BTreeMap<NodeId, Result<(), String>>,
}

impl Acceptance {
    /// A node of another site has let this one in, or refused it.
    pub(crate) fn heard(&mut self, node: NodeId, word: Result<(), String>) {
        self.ever |= word.is_ok();
        self.words.insert(node, word);
    }

    /// Who refuses this node, and why, if it must take no writes: nobody accepts it. If somebody has in
    /// this process, one other site alone may be the one that is wrong.
    pub(crate) fn refused(&self) -> Option<(NodeId, &str)> {
        if self.words.values().any(Result::is_ok) {
            return None;
        }
        let sites: BTreeSet<_> = self.words.keys().map(|node| node.site).collect();
        if self.ever && sites.len() < 2 {
            return None;
        }
        let (node, word) = self.words.first_key_value()?;
        Some((*node, word.as_ref().err()?))
    }
}

#[cfg(test)]
mod tests {
    use solera_time::SiteId;

    use super::*;

    #[test]
    fn whom_nobody_accepts_takes_no_writes() {
        let node = |site| NodeId { site: SiteId(site), node: 0 };
        let refused = || Err("other clock".to_owned());
        let mut acceptance = Acceptance::default();
        assert_eq!(acceptance.refused(), None, "whom nobody answers goes on");
        acceptance.heard(node(1), refused());
        assert_eq!(acceptance.refused(), Some((node(1), "other clock")));
        acceptance.heard(node(2), Ok(()));
        assert_eq!(acceptance.refused(), None, "one of the others may be wrong");
        acceptance.heard(node(2), refused());
        assert_eq!(acceptance.refused(), Some((node(1), "other clock")), "both are not");
        acceptance.heard(node(1), Ok(()));
        assert_eq!(acceptance.refused(), None);

        let mut of_two = Acceptance::default();
        of_two.heard(node(1), Ok(()));
        of_two.heard(node(1), refused());
        assert_eq!(of_two.refused(), None, "the other site may be wrong");
    }
}
