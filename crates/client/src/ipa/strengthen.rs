//! Policies of a value and of its single methods: of two that conflict, the stronger one holds
//! (IPA §3.3).

use solera_ipa::level::{self, JoinWith, LevelMarker, Meet};

use super::{Consistency, ErrorTolerance, LatencyBound, LatencyBoundAtLeast};

/// A policy that can be combined with `Other`, into the weakest policy whose reads satisfy both:
///
/// | policies | the stronger one |
/// |---|---|
/// | two levels | the weakest level that is as strong as both: the stronger level, if they can be compared |
/// | two latency bounds | the shorter one |
/// | a level and a latency bound | the bound, with this level as the weakest one that is returned ([`LatencyBoundAtLeast`]). If nothing of this level arrives in time, the read takes longer |
/// | a tolerance and [`Linearizable`](level::Linearizable) | the level, because the value is then exact |
/// | a tolerance and a weaker level, or a latency bound | the tolerance, because the other one permits a value that is off by any amount. An interval has no weaker form that could arrive earlier |
///
/// The result determines the type of what a read returns:
///
/// ```no_run
/// use solera::ipa::{Causal, Consistency, Consistent, Counter, level};
///
/// # async fn example(mut client: solera::Client) -> Result<(), solera::Error> {
/// let (strong, weak) =
///     (Consistency::<level::Linearizable>::new(), Consistency::<level::Causal>::new());
/// let stock = Counter::open(&mut client, "stock:7", weak).await?;
/// let shown: Causal<i64> = stock.read(&mut client).await?;
/// let counted: Consistent<i64> = stock.under(strong)?.read(&mut client).await?;
/// # Ok(())
/// # }
/// ```
///
/// The method's policy strengthens the value's and cannot weaken it:
///
/// ```compile_fail,E0308
/// use solera::ipa::{Causal, Consistency, Consistent, Counter, level};
///
/// # async fn example(mut client: solera::Client) -> Result<(), solera::Error> {
/// let (strong, weak) =
///     (Consistency::<level::Linearizable>::new(), Consistency::<level::Causal>::new());
/// let stock = Counter::open(&mut client, "stock:7", strong).await?;
/// let shown: Causal<i64> = stock.under(weak)?.read(&mut client).await?;
/// # Ok(())
/// # }
/// ```
///
/// Nor does it apply to reads by other methods:
///
/// ```compile_fail,E0308
/// use solera::ipa::{Causal, Consistency, Consistent, Counter, level};
///
/// # async fn example(mut client: solera::Client) -> Result<(), solera::Error> {
/// let (strong, weak) =
///     (Consistency::<level::Linearizable>::new(), Consistency::<level::Causal>::new());
/// let stock = Counter::open(&mut client, "stock:7", weak).await?;
/// let exact = stock.under(strong)?;
/// let counted: Consistent<i64> = stock.read(&mut client).await?;
/// # Ok(())
/// # }
/// ```
pub trait Strengthen<Other> {
    /// Weakest policy whose reads satisfy both.
    type Stronger;

    /// Combines the policies.
    fn strengthen(self, other: Other) -> Self::Stronger;
}

/// Weakest policy whose reads satisfy both.
pub type Stronger<One, Other> = <One as Strengthen<Other>>::Stronger;

/// Implements [`Strengthen`] for two policies, and for the same two in the other order.
macro_rules! strengthen {
    ($([$($of:tt)*] $one:ty, $other:ty => $stronger:ty = |$a:ident, $b:ident| $combined:expr;)*) => {$(
        strengthen!(once [$($of)*] $one, $other => $stronger = |$a, $b| $combined);
        strengthen!(once [$($of)*] $other, $one => $stronger = |$b, $a| $combined);
    )*};
    (once [$($of:tt)*] $one:ty, $other:ty => $stronger:ty = |$a:ident, $b:ident| $combined:expr) => {
        impl<$($of)*> Strengthen<$other> for $one {
            type Stronger = $stronger;

            fn strengthen(self, other: $other) -> $stronger {
                let ($a, $b) = (self, other);
                $combined
            }
        }
    };
}

strengthen!(once [L: JoinWith<M>, M: LevelMarker] Consistency<L>, Consistency<M>
    => Consistency<Meet<L, M>> = |_one, _other| Consistency::new());
strengthen!(once [] LatencyBound, LatencyBound
    => LatencyBound = |one, other| LatencyBound(one.0.min(other.0)));
strengthen!(once [L: JoinWith<M>, M: LevelMarker] LatencyBoundAtLeast<L>, LatencyBoundAtLeast<M>
    => LatencyBoundAtLeast<Meet<L, M>> = |one, other| one.bound.strengthen(other.bound).at_least());
strengthen!(once [] ErrorTolerance, ErrorTolerance
    => ErrorTolerance = |one, other| one.min(other));

strengthen! {
    [L: LevelMarker] LatencyBound, Consistency<L>
        => LatencyBoundAtLeast<L> = |bound, _level| bound.at_least();
    [L: LevelMarker] LatencyBound, LatencyBoundAtLeast<L>
        => LatencyBoundAtLeast<L> = |one, other| one.strengthen(other.bound).at_least();
    [L: JoinWith<M>, M: LevelMarker] Consistency<L>, LatencyBoundAtLeast<M>
        => LatencyBoundAtLeast<Meet<L, M>> = |_level, other| other.bound.at_least();
    [] ErrorTolerance, LatencyBound => ErrorTolerance = |tolerance, _bound| tolerance;
}

/// Implements the combinations of a tolerance with a level.
macro_rules! tolerate {
    ($($level:ident => $stronger:ty = |$tolerance:ident, $other:ident| $combined:expr;)*) => {$(
        strengthen! {
            [] ErrorTolerance, Consistency<level::$level>
                => $stronger = |$tolerance, $other| $combined;
            [] ErrorTolerance, LatencyBoundAtLeast<level::$level>
                => $stronger = |$tolerance, $other| $combined;
        }
    )*};
}

tolerate! {
    Linearizable => Consistency<level::Linearizable> = |_tolerance, _level| Consistency::new();
    Por => ErrorTolerance = |tolerance, _level| tolerance;
    PcPsi => ErrorTolerance = |tolerance, _level| tolerance;
    Quorum => ErrorTolerance = |tolerance, _level| tolerance;
    LocalQuorum => ErrorTolerance = |tolerance, _level| tolerance;
    Causal => ErrorTolerance = |tolerance, _level| tolerance;
    Speculative => ErrorTolerance = |tolerance, _level| tolerance;
    Eventual => ErrorTolerance = |tolerance, _level| tolerance;
}
