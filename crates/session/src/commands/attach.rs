//! SOLERA.ATTACH: waits until this site holds a causal past.

use std::time::{Duration, Instant};

use solera_commands::CommandId;
use solera_config::ClusterSpec;
use solera_membership::SiteStatus;
use solera_resp::{Arguments, parse_integer};
use solera_time::{Physical, SiteId, Timestamp, Vector};
use solera_unistore::{Command, Pasts, Response};

use super::request::Request;
use super::sites::site_named;
use crate::context::Context;
use crate::session::{ClientSession, Until, Wait};
use crate::token::Token;
use crate::typed::Typed;

/// Default timeout of SOLERA.ATTACH.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximal difference between the clocks of a site's workers.
const SKEW: Duration = Duration::from_secs(1);
/// Maximal time by which a token may be ahead of this site's clock. The clocks of nodes never
/// differ so much, unless one of them is wrong.
const MAX_AHEAD: Duration = Duration::from_secs(24 * 60 * 60);

/// SOLERA.ATTACH token: waits until this site holds the token's causal past (UniStore Alg. 1 l.
/// 51). The command adds the token's durability past to the session's without waiting, so that
/// later barriers at this site cover it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attach {
    /// The token.
    pub token: Token,
}

/// SOLERA.ATTACH UNTIL unix-ms [timeout-ms [site …]]: waits until this site holds all transactions
/// that some sites, or all sites, committed up to a time. It times out if one of these sites is cut
/// off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachUntil {
    /// Time up to which commits must be visible.
    pub until: Timestamp,
    /// Maximal time to wait.
    pub timeout: Duration,
    /// Sites whose commits must be visible; empty for all sites.
    pub sites: Vec<SiteId>,
}

/// SOLERA.ATTACH HORIZON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachHorizon;

/// Answer to [`AttachHorizon`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// A time that is not before any commit that this site knows of.
    pub latest: Timestamp,
    /// Every session that begins at any site sees all commits of all sites up to this time.
    pub stable: Timestamp,
}

impl Horizon {
    /// Returns [`Horizon::latest`] in milliseconds since 1970, rounded up.
    pub fn latest_ms(&self) -> u64 {
        self.latest.micros().div_ceil(1000)
    }

    /// Returns [`Horizon::stable`] in milliseconds since 1970, rounded down.
    pub fn stable_ms(&self) -> u64 {
        self.stable.micros() / 1000
    }
}

impl Typed for Attach {
    type Answer = ();

    fn command(&self) -> CommandId {
        CommandId::SoleraAttach
    }

    async fn run<W: Context>(&self, session: &mut ClientSession<W>) -> Result<(), String> {
        outside(session)?;
        is_plausible(&*session.worker, &self.token)?;
        let began = Instant::now();
        wait_for(session, self.token.pasts, ATTACH_TIMEOUT).await?;
        let left = ATTACH_TIMEOUT.saturating_sub(began.elapsed());
        session.wait_for_primary(&self.token.primary, Wait::Applied, Some(left)).await?;
        session.primary.join(&self.token.primary);
        let left = Some(ATTACH_TIMEOUT.saturating_sub(began.elapsed()));
        session.wait_for_speculative(&self.token.speculative, Until::Delivered, left).await?;
        if let Some((occult, epoch)) = &self.token.occult {
            session.attach_occult(occult, *epoch).await?;
        }
        Ok(())
    }
}

impl Typed for AttachHorizon {
    type Answer = Horizon;

    fn command(&self) -> CommandId {
        CommandId::SoleraAttach
    }

    async fn run<W: Context>(&self, session: &mut ClientSession<W>) -> Result<Horizon, String> {
        outside(session)?;
        let physical = Timestamp::from_physical(session.worker.now().physical);
        let of_occult = session.horizon_of_occult().await?;
        Ok(session.worker.with(|replica| {
            let status = replica.status();
            let (members, view) = (status.members(), status.view());
            let there = |site: &SiteId| members.status(*site) != SiteStatus::Gone;
            let settled =
                SiteId::all(members.sites()).filter(there).map(|site| view.settled_vec[site]);
            // Without strong transactions the entry stays zero and must not hold the minimum back.
            let is_strong = view.stable_vec.strong > Timestamp::ZERO;
            let strong = is_strong.then_some(view.settled_vec.strong);
            let latest = status.clock().max(view.clock).max(physical).later(SKEW);
            let stable = settled.chain(strong).chain(of_occult).min().unwrap_or(Timestamp::ZERO);
            Horizon { latest, stable }
        }))
    }
}

impl AttachUntil {
    /// Creates a wait for commits up to a time in milliseconds since 1970, at the named sites; at
    /// all sites if no name is given.
    ///
    /// # Errors
    /// The error reply, if a site does not exist.
    pub fn new<'a>(
        spec: &ClusterSpec,
        until_ms: u64,
        timeout: Duration,
        sites: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<AttachUntil, String> {
        let until = Timestamp::from_physical(Physical(until_ms.saturating_mul(1000)));
        let sites = sites.into_iter().map(|name| site_named(spec, name));
        Ok(AttachUntil { until, timeout, sites: sites.collect::<Result<_, _>>()? })
    }
}

impl Typed for AttachUntil {
    type Answer = ();

    fn command(&self) -> CommandId {
        CommandId::SoleraAttach
    }

    async fn run<W: Context>(&self, session: &mut ClientSession<W>) -> Result<(), String> {
        outside(session)?;
        is_near(&*session.worker, self.until)?;
        let past = session.worker.with(|replica| {
            let status = replica.status();
            let members = status.members();
            let wanted = |site: &SiteId| {
                members.status(*site) != SiteStatus::Gone
                    && (self.sites.is_empty() || self.sites.contains(site))
            };
            let sites = SiteId::all(members.sites()).filter(wanted);
            sites.fold(Vector::zero(members.sites()), |past, site| past.with(site, self.until))
        });
        wait_for(session, Pasts::causal(past), self.timeout).await
    }
}

/// Checks that a time is not too far in the future to wait for.
fn is_near<W: Context>(worker: &W, until: Timestamp) -> Result<(), String> {
    match until > clock(worker).later(ATTACH_TIMEOUT) {
        true => Err("ERR that is too far in the future to wait for".to_owned()),
        false => Ok(()),
    }
}

/// Checks that the times of a token can be those of commits. This site would wait in vain for later
/// ones.
fn is_plausible<W: Context>(worker: &W, token: &Token) -> Result<(), String> {
    let pasts = &token.pasts;
    let latest = [pasts.causal, *pasts.eventual(), *pasts.eventual_snap()];
    let latest = latest.iter().map(|past| past.max_entry());
    let of_occult = token.occult.iter().map(|(past, _)| Physical(past.latest().0));
    let latest = latest.chain(of_occult.map(Timestamp::from_physical)).max();
    let ahead = latest.unwrap_or_default().ahead_of(clock(worker));
    match ahead > MAX_AHEAD {
        true => Err(format!(
            "BADTOKEN the token has times that are {} s ahead of this site's clock, and at most {} s are possible; \
             take a new token, and set the clock if it is wrong",
            ahead.as_secs(),
            MAX_AHEAD.as_secs()
        )),
        false => Ok(()),
    }
}

/// Returns the later one of the hybrid clock and the physical clock of this worker. Commit times
/// come from hybrid clocks, which may be ahead of physical ones.
fn clock<W: Context>(worker: &W) -> Timestamp {
    let physical = Timestamp::from_physical(worker.now().physical);
    worker.with(|replica| replica.status().clock()).max(physical)
}

fn outside<W: Context>(session: &ClientSession<W>) -> Result<(), String> {
    match session.in_transaction() {
        true => Err("ERR SOLERA.ATTACH is not allowed inside a transaction".to_owned()),
        false => Ok(()),
    }
}

async fn wait_for<W: Context>(
    session: &mut ClientSession<W>,
    pasts: Pasts,
    timeout: Duration,
) -> Result<(), String> {
    let command = Command::Attach { pasts, timeout: Some(timeout) };
    match session.worker.call(command).await {
        Some(Response::Attached) => {
            session.pasts.join(&pasts);
            Ok(())
        }
        Some(Response::Failed(error)) => Err(session.error_reply(&error)),
        _ => Err(session.unanswered()),
    }
}

/// Arguments of SOLERA.ATTACH. The token and the names of sites are resolved when the command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttachRequest {
    /// An encoded token.
    Token(Vec<u8>),
    Until {
        /// Milliseconds since 1970.
        until_ms: u64,
        timeout: Duration,
        /// Names of the sites; empty for all.
        sites: Vec<Vec<u8>>,
    },
    Horizon,
}

impl Request for AttachRequest {
    fn admit<W: Context>(session: &mut ClientSession<W>) -> Result<(), String> {
        outside(session)
    }

    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<AttachRequest, String> {
        let first = arguments.get(1);
        if first.eq_ignore_ascii_case(b"until") {
            return parse_until(arguments);
        }
        if arguments.len() != 2 {
            return Err(
                "ERR SOLERA.ATTACH takes a token, or UNTIL unix-ms [timeout-ms [site …]], or HORIZON"
                    .to_owned(),
            );
        }
        Ok(match first.eq_ignore_ascii_case(b"horizon") {
            true => AttachRequest::Horizon,
            false => AttachRequest::Token(first.to_vec()),
        })
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let attached = match self {
            AttachRequest::Horizon => return write_horizon(session).await,
            AttachRequest::Token(text) => match token(&*session.worker, &text) {
                Ok(token) => Attach { token }.run(session).await,
                Err(error) => Err(error),
            },
            AttachRequest::Until { until_ms, timeout, sites } => {
                match until(&*session.worker, until_ms, timeout, &sites) {
                    Ok(until) => until.run(session).await,
                    Err(error) => Err(error),
                }
            }
        };
        session.answer_ok(attached);
    }
}

fn parse_until(arguments: &Arguments<'_>) -> Result<AttachRequest, String> {
    let number = |index: usize| {
        let number = parse_integer(arguments.get(index));
        number.and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0)
    };
    let timeout = match arguments.len() {
        3 => Some(ATTACH_TIMEOUT),
        4.. => number(3).map(Duration::from_millis),
        _ => {
            return Err("ERR SOLERA.ATTACH UNTIL takes unix-ms [timeout-ms [site …]]".to_owned());
        }
    };
    let (Some(until_ms), Some(timeout)) = (number(2), timeout) else {
        return Err("ERR a time is not an integer or out of range".to_owned());
    };
    let sites = arguments.from(4).map(<[u8]>::to_vec).collect();
    Ok(AttachRequest::Until { until_ms, timeout, sites })
}

/// Decodes a token of this cluster.
fn token<W: Context>(worker: &W, text: &[u8]) -> Result<Token, String> {
    let spec = worker.spec();
    let shape = (spec.sites.len(), spec.partitions);
    Token::decode(text, worker.cluster(), shape).map_err(|error| format!("BADTOKEN {error}"))
}

fn until<W: Context>(
    worker: &W,
    until_ms: u64,
    timeout: Duration,
    sites: &[Vec<u8>],
) -> Result<AttachUntil, String> {
    is_near(worker, Timestamp::from_physical(Physical(until_ms.saturating_mul(1000))))?;
    AttachUntil::new(worker.spec(), until_ms, timeout, sites.iter().map(Vec::as_slice))
}

async fn write_horizon<W: Context>(session: &mut ClientSession<W>) {
    match AttachHorizon.run(session).await {
        Ok(horizon) => {
            session.out.array(2);
            session.out.integer(horizon.latest_ms().try_into().unwrap_or(i64::MAX));
            session.out.integer(horizon.stable_ms().try_into().unwrap_or(i64::MAX));
        }
        Err(error) => session.fail(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn a_token_a_time_or_the_horizon_is_asked_for() {
        assert_eq!(parse("SOLERA.ATTACH abc"), Ok(AttachRequest::Token(b"abc".to_vec())));
        assert_eq!(parse("SOLERA.ATTACH Horizon"), Ok(AttachRequest::Horizon));
        let until = |timeout, sites: &[&str]| AttachRequest::Until {
            until_ms: 5,
            timeout,
            sites: sites.iter().map(|site| site.as_bytes().to_vec()).collect(),
        };
        assert_eq!(parse("SOLERA.ATTACH until 5"), Ok(until(ATTACH_TIMEOUT, &[])));
        let second = Duration::from_secs(1);
        assert_eq!(parse("SOLERA.ATTACH UNTIL 5 1000 eu us"), Ok(until(second, &["eu", "us"])));
    }

    #[test]
    fn bad_arguments_are_rejected() {
        let number = "ERR a time is not an integer or out of range";
        rejects::<AttachRequest>(&[
            ("SOLERA.ATTACH UNTIL", "ERR SOLERA.ATTACH UNTIL takes unix-ms [timeout-ms [site …]]"),
            ("SOLERA.ATTACH UNTIL 0", number),
            ("SOLERA.ATTACH UNTIL x", number),
            ("SOLERA.ATTACH UNTIL 5 -1", number),
            (
                "SOLERA.ATTACH a b",
                "ERR SOLERA.ATTACH takes a token, or UNTIL unix-ms [timeout-ms [site …]], or HORIZON",
            ),
        ]);
    }
}
