//! Data types whose reads return how consistent the value is (IPA §3). **Experimental.**
//!
//! A program opens a value with a policy: [`Consistency`] reads at a level, [`LatencyBound`] at the
//! strongest level that arrives in time, and [`ErrorTolerance`] returns an interval that contains
//! the value. The policy determines the type of what a read returns, so a program that confuses a
//! value that may be old with a current one does not compile.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use solera::ipa::{Answer, Counter, ErrorTolerance, LatencyBound, Pool, Rushed, Set, Taken};
//!
//! # async fn example(mut client: solera::Client) -> Result<(), solera::Error> {
//! let views = Counter::open(&mut client, "views:home", ErrorTolerance::percent(5)).await?;
//! views.add(&mut client, 1).await?;
//! match views.read(&mut client).await?.at_least(1000) {
//!     Answer::Yes => println!("a thousand visitors"),
//!     Answer::No | Answer::Perhaps => {}
//! }
//!
//! let bound = LatencyBound(Duration::from_millis(50));
//! let followers = Set::open(&mut client, "followers:ann", bound).await?;
//! match followers.contains(&mut client, "bob").await? {
//!     Rushed::Consistent(follows) if *follows => println!("bob follows ann"),
//!     Rushed::Consistent(_) => println!("bob does not follow ann"),
//!     rest => println!("perhaps {}", rest.weaken().endorse()),
//! }
//!
//! let tickets = Pool::open(&mut client, "tickets:show", bound).await?;
//! match tickets.take(&mut client, 2).await? {
//!     Taken::Units(ids) => println!("sold {}", ids.join(" and ")),
//!     Taken::SoldOut { .. } => println!("sold out"),
//!     Taken::CannotTell { .. } => println!("try again later"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A single method may have a policy of its own: `under` returns the same value with a further
//! policy. Of two that conflict, the stronger one holds, as [`Strengthen`] describes.
//!
//! ```no_run
//! use solera::ipa::{Causal, Consistency, Consistent, Set, level};
//!
//! # async fn example(mut client: solera::Client) -> Result<(), solera::Error> {
//! let members = Set::open(&mut client, "members", Consistency::<level::Causal>::new()).await?;
//! let checked = members.under(Consistency::<level::Linearizable>::new())?;
//! let about: Causal<i64> = members.size(&mut client).await?;
//! let is_member: Consistent<bool> = checked.contains(&mut client, "ann").await?;
//! # Ok(())
//! # }
//! ```
//!
//! The programs `tickets` and `retwis` in the repository's folder `examples` are whole services
//! with these types.
//!
//! # Types of one's own
//! A program builds a type of its own of the same parts:
//!
//! | part | what it is |
//! |---|---|
//! | [`Client::read_under`] | a read under a [`Policy`], which may be rushed: any command that reads one key |
//! | a [`Counter`] with an [`ErrorTolerance`], a [`BoundedCounter`], a [`Pool`] | a pool of tokens. The space declares how many there are, by its `error` or by the units that are left, and sites share them |
//! | [`Counter::add`], [`BoundedCounter::subtract`], [`Client::take`] | take tokens; in a causal transaction, the commit takes those of all its updates, or none. [`Taken::of`] converts its result |
//! | [`Client::interval`] | bounds of the value, which include the updates that tokens of other sites permit |
//! | [`Client::holders`] | the sites that hold tokens or rights |
//! | [`Client::declared`], [`Declared::expect_type`], [`Policy::check`], [`CountPolicy::check`] | the declaration of a key's space, and the checks of `open` |
//! | [`Strengthen`] | combines two policies |
//!
//! Sites request tokens ahead of need, and give up those that they do not use. The program
//! `deliveries` in the repository's folder `examples` has such a type: an average with an error
//! bound, of two counters.
//!
//! # Spaces and transactions
//! What a space declares in `solera.toml` applies to all programs. Opening a value fails if its
//! space has another type or tolerance, or does not offer the level. The types send the commands
//! that any Redis client can send.
//!
//! Reads are refused inside a transaction, because they return the present value and not that of a
//! snapshot. Updates may be part of a causal transaction. A [`Pool`] or [`BoundedCounter`] then
//! takes its units when the transaction commits: the commit fails with the codes `SOLDOUT` and
//! `TRYAGAIN`. A strong transaction refuses updates of keys with a bound.

mod counter;
mod list;
mod policy;
mod pool;
mod set;
mod strengthen;
mod tokens;

use crate::client::Client;
pub use crate::declared::Declared;
use crate::error::Error;
pub use counter::Counter;
pub use list::List;
pub use policy::{
    Consistency, CountPolicy, ErrorTolerance, LatencyBound, LatencyBoundAtLeast, Policy, Wanted,
};
pub use pool::{BoundedCounter, Pool};
pub use set::Set;
#[doc(no_inline)]
pub use solera_ipa::{
    Answer, At, Causal, Consistent, Inconsistent, Integer, Interval, LocalQuorum, Overflow, PcPsi,
    Por, Quorum, Rushed, Speculative, level,
};
#[doc(no_inline)]
pub use solera_levels::Level;
pub use strengthen::{Strengthen, Stronger};
pub use tokens::{Holder, Holds, Taken};

/// Key of a value that a program has opened.
#[derive(Clone, Debug)]
struct Opened {
    key: String,
    space: Declared,
}

impl Opened {
    /// Checks that the space of a key has a type, or none if `or_none`, and what `check` requires.
    async fn new(
        client: &mut Client,
        key: String,
        (of_type, or_none): (&str, bool),
        check: impl FnOnce(&Declared) -> Result<(), Error>,
    ) -> Result<Opened, Error> {
        let space = client.declared(&key).await?;
        space.expect_type(of_type, or_none)?;
        check(space)?;
        let space = space.clone();
        Ok(Opened { key, space })
    }

    /// Combines the value's policy with a further one, if the space permits it.
    fn strengthen<P, Q>(&self, policy: P, further: Q) -> Result<Stronger<P, Q>, Error>
    where
        P: Strengthen<Q>,
        Q: CountPolicy,
    {
        // A space that offers both levels is at least as strong as their meet, so the combination
        // needs no check.
        further.check(&self.space)?;
        Ok(policy.strengthen(further))
    }
}
