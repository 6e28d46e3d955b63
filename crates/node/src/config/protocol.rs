//! Which protocol a cluster runs, from where strong transactions are led, and how large they may be.

use solera_data::Op;
use solera_levels::Level;
use solera_resp::CommandId;
use solera_time::SiteId;
use solera_unistore::{Protocol, StrongLimits};
use toml::Spanned;

use super::amount::Amount;
use super::{ConfigError, Reader};
use crate::spaces::{Class, Relation, Spaces};

/// The limits of strong transactions are within these. No transaction at all may be larger than the most.
const LEAST_BYTES: u64 = 1 << 10;
const MOST_BYTES: u64 = 512 << 20;
const MOST_OPERATIONS: usize = 10_000_000;

/// UniStore, or what the paper compares it to (§8.1, §8.3). Only UniStore keeps what the levels of spaces
/// promise; the others are there to be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Baseline {
    /// Transactions are as strong as their spaces say.
    #[default]
    UniStore,
    /// Every transaction is strong, and all reads and updates of a key conflict.
    Strong,
    /// What is strong conflicts with everything strong on its key, and one group certifies it all.
    RedBlue,
    /// No transaction is strong.
    Causal,
    /// The same, without what strong transactions need.
    Uniform,
    /// The same, and what other sites write is visible before it is uniform.
    CureFt,
}

impl Baseline {
    const NAMES: [(Baseline, &'static str); 6] = [
        (Baseline::UniStore, "unistore"),
        (Baseline::Strong, "strong"),
        (Baseline::RedBlue, "redblue"),
        (Baseline::Causal, "causal"),
        (Baseline::Uniform, "uniform"),
        (Baseline::CureFt, "cureft"),
    ];

    /// The name in configurations.
    pub fn name(self) -> &'static str {
        let mut names = Baseline::NAMES.iter();
        names.find(|(baseline, _)| *baseline == self).map_or("", |(_, name)| *name)
    }

    /// What it means for those who use the cluster.
    pub fn explained(self) -> &'static str {
        match self {
            Baseline::UniStore => "transactions are as strong as their spaces say",
            Baseline::Strong => "every transaction is certified",
            Baseline::RedBlue => {
                "one group certifies all strong transactions, which all conflict on a key"
            }
            Baseline::Causal | Baseline::Uniform => {
                "no transaction is certified, so spaces do not keep what they promise"
            }
            Baseline::CureFt => {
                "no transaction is certified, so spaces do not keep what they promise, and what other \
                 sites write is visible before it is durable"
            }
        }
    }

    /// What runs on each worker.
    pub fn protocol(self) -> Protocol {
        match self {
            Baseline::UniStore | Baseline::Strong | Baseline::Causal => Protocol::UniStore,
            Baseline::RedBlue => Protocol::RedBlue,
            Baseline::Uniform => Protocol::Uniform,
            Baseline::CureFt => Protocol::CureFt,
        }
    }

    /// Whether a transaction is certified that should be, or need not be.
    pub fn certifies(self, strong: bool) -> bool {
        match self {
            Baseline::UniStore | Baseline::RedBlue => strong,
            Baseline::Strong => true,
            Baseline::Causal | Baseline::Uniform | Baseline::CureFt => false,
        }
    }

    /// What a command's operation on a key needs of certification.
    pub fn class_of(self, spaces: &Spaces, key: &[u8], command: CommandId, op: &Op) -> Class {
        let class = match self {
            Baseline::Strong => Relation::of(Level::Linearizable).class_of(command, op),
            Baseline::RedBlue => {
                spaces.space_of(key).relation.without_pairs().class_of(command, op)
            }
            _ => spaces.class_of(key, command, op),
        };
        Class { strong: self.certifies(class.strong), ..class }
    }
}

impl Reader<'_> {
    /// The protocol. Other than UniStore, it is for measuring, and keeps nothing on disk.
    pub(super) fn protocol(
        &self,
        name: Option<&Spanned<String>>,
        has_data: bool,
    ) -> Result<Baseline, ConfigError> {
        let Some(name) = name else { return Ok(Baseline::UniStore) };
        let place = Some(name.span().start);
        let mut names = Baseline::NAMES.into_iter();
        let Some((baseline, _)) = names.find(|(_, other)| name.get_ref() == other) else {
            let names = Baseline::NAMES.map(|(_, name)| name).join(", ");
            let reason = format!("there is no protocol '{}'; there are {names}", name.get_ref());
            return self.invalid(place, reason);
        };
        if has_data && baseline != Baseline::UniStore {
            let reason = format!(
                "the protocol '{}' is for comparisons and keeps no data; leave 'data' out",
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
            limits.bytes = match amount.get_ref().bytes() {
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

    /// The site that leads at first.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spaces::Space;

    #[test]
    fn what_conflicts_is_the_protocols() {
        let spaces = Spaces::new(vec![Space::new("balance", "balance:", Level::Por)]).unwrap();
        let class = |protocol: Baseline, key: &[u8], op: &Op| {
            protocol.class_of(&spaces, key, CommandId::Get, op)
        };
        let set = Op::Set(b"1".as_slice().into());
        for (protocol, causal, read, update) in [
            (Baseline::UniStore, false, false, true),
            (Baseline::RedBlue, false, false, true),
            (Baseline::Strong, true, true, true),
            (Baseline::Causal, false, false, false),
        ] {
            let strong = |key: &[u8], op| class(protocol, key, op).strong;
            let expected = (causal, read, update);
            let found =
                (strong(b"cart", &set), strong(b"balance:1", &Op::Get), strong(b"balance:1", &set));
            assert_eq!(found, expected, "{protocol:?}");
        }
        let conflict = |protocol, key: &[u8], one, other| {
            let (one, other) = (class(protocol, key, one), class(protocol, key, other));
            one.conflicts >> other.kind & 1 == 1
        };
        for (key, op) in [(b"cart".as_slice(), &Op::Get), (b"cart", &set), (b"balance:1", &Op::Get)]
        {
            assert!(conflict(Baseline::Strong, key, op, &set));
            assert!(!conflict(Baseline::UniStore, key, op, &set));
            assert!(!conflict(Baseline::RedBlue, key, op, &set));
        }
    }
}
