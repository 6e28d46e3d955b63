//! Protocols of a cluster.

use solera_commands::CommandId;
use solera_data::Op;
use solera_levels::Level;
use solera_unistore::Protocol;

use crate::spaces::{Class, Relation, Spaces};

/// UniStore, or a protocol that the paper compares it with (§8.1, §8.3). Only UniStore gives the
/// guarantees of the spaces' levels; the others exist for measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Baseline {
    /// Transactions are as strong as their spaces require.
    #[default]
    UniStore,
    /// Every transaction is strong, and all reads and updates of a key conflict.
    Strong,
    /// A strong operation conflicts with all strong operations on its key, and one group certifies
    /// all strong transactions.
    RedBlue,
    /// No transaction is strong.
    Causal,
    /// Like [`Baseline::Causal`], without the costs of strong transactions.
    Uniform,
    /// Like [`Baseline::Uniform`], and writes of other sites become visible before they are
    /// uniform.
    CureFt,
}

impl Baseline {
    pub(crate) const NAMES: [(Baseline, &'static str); 6] = [
        (Baseline::UniStore, "unistore"),
        (Baseline::Strong, "strong"),
        (Baseline::RedBlue, "redblue"),
        (Baseline::Causal, "causal"),
        (Baseline::Uniform, "uniform"),
        (Baseline::CureFt, "cureft"),
    ];

    /// Returns the name in configurations.
    pub fn name(self) -> &'static str {
        let mut names = Baseline::NAMES.iter();
        names.find(|(baseline, _)| *baseline == self).map_or("", |(_, name)| *name)
    }

    /// Returns the consequences for users of the cluster.
    pub fn explained(self) -> &'static str {
        match self {
            Baseline::UniStore => "the spaces determine which transactions are strong",
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

    /// Returns the protocol that each worker runs.
    pub fn protocol(self) -> Protocol {
        match self {
            Baseline::UniStore | Baseline::Strong | Baseline::Causal => Protocol::UniStore,
            Baseline::RedBlue => Protocol::RedBlue,
            Baseline::Uniform => Protocol::Uniform,
            Baseline::CureFt => Protocol::CureFt,
        }
    }

    /// Returns whether a transaction is certified; `strong` is whether its spaces require it.
    pub fn certifies(self, strong: bool) -> bool {
        match self {
            Baseline::UniStore | Baseline::RedBlue => strong,
            Baseline::Strong => true,
            Baseline::Causal | Baseline::Uniform | Baseline::CureFt => false,
        }
    }

    /// Returns the certification class of a command's operation on a key.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spaces::Space;

    #[test]
    fn conflicts_depend_on_the_protocol() {
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
