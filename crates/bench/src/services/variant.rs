//! Variants of the services.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::TOLERANCE;
use super::retwis::Policies;
use super::store::Policy;

/// Bound of the latency of reads (IPA §5.3).
const BOUND: Policy = Policy::Within(Duration::from_millis(20));

/// Policies of the data of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Everything is linearizable.
    Strong,
    /// Everything is causal.
    Weak,
    /// Updates are causal. Reads return the strongest value that arrives within 20 ms.
    LatencyBound,
    /// Numbers are intervals with an error of at most 5%. In the Twitter clone, other reads have
    /// the latency bound (IPA Fig. 10), and in the ticket service they are causal.
    ErrorBound,
}

impl Variant {
    /// All variants, in the order in which they run.
    pub const ALL: [Variant; 4] =
        [Variant::Strong, Variant::Weak, Variant::LatencyBound, Variant::ErrorBound];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Strong => "strong",
            Variant::Weak => "weak",
            Variant::LatencyBound => "latency-bound",
            Variant::ErrorBound => "error-bound",
        }
    }

    /// Returns the policy of the ticket service.
    pub(crate) fn of_tickets(self) -> Policy {
        match self {
            Variant::Strong => Policy::Strong,
            Variant::Weak => Policy::Weak,
            Variant::LatencyBound => BOUND,
            Variant::ErrorBound => Policy::Tolerance(TOLERANCE),
        }
    }

    /// Returns the policies of the Twitter clone.
    pub(crate) fn of_retwis(self) -> Policies {
        let users = match self {
            Variant::ErrorBound => BOUND,
            _ => self.of_tickets(),
        };
        Policies { users, retweets: self.of_tickets() }
    }
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(text: &str) -> Result<Variant, String> {
        let found = Variant::ALL.into_iter().find(|variant| variant.name() == text);
        let names = || Variant::ALL.map(Variant::name).join(", ");
        found.ok_or_else(|| format!("the variants are {}", names()))
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
