//! Resolution of commits with unknown outcomes.

use std::sync::Arc;
use std::time::Duration;

use solera_data::Op;
use solera_mixt::executor::Clock;
use solera_mixt::outcome::IN_DOUBT_MS;
use solera_mixt::store::{Commits, StoreError};
use tokio::time::Instant;

use super::{Open, SpacesSession, number, read_all};
use crate::failure;
use crate::port::{Command, Kind, Port, Reply};
use crate::system::System;

/// Maximal time to wait until a site shows its own commits: until its clocks have passed its own
/// [horizon](solera_mixt::store::Horizon).
const SEES_OVER_TIMEOUT_MS: u64 = 3_000;
/// Maximal time that a command may still run after its session has ended; longer than a server
/// allows.
const AFTER_BREAK: Duration = Duration::from_millis(IN_DOUBT_MS);

/// A key that a transaction writes.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) key: Vec<u8>,
    /// Whether it is in a space where all changes of a key conflict.
    pub(super) exclusive: bool,
}

/// A commit with an unknown outcome.
#[derive(Debug)]
pub(super) struct Doubt {
    of: Doubted,
    /// Time at which the session learned that the answer is lost.
    since: Instant,
    /// Site that received the commit.
    site: Option<Arc<str>>,
}

#[derive(Debug)]
pub(super) enum Doubted {
    Commit(Open),
    /// Phases that the server runs.
    Phases(Lost),
}

/// A remote group whose answer was lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub(super) number: u64,
    pub(super) until_ms: u64,
}

impl<P: Port> SpacesSession<P> {
    /// Records that the outcome of `of` is unknown.
    pub(super) fn set_doubt(&mut self, of: Doubted) {
        self.doubt = Some(Doubt { of, since: Instant::now(), site: self.port.site() });
    }

    /// Resolves the last commit if its outcome was unknown. On success, either later commands see
    /// the commit, or it never takes effect.
    ///
    /// # Errors
    /// The outcome is still unknown.
    pub async fn resolve(&mut self) -> Result<(), StoreError> {
        let Some(Doubt { of, since, site }) = &self.doubt else { return Ok(()) };
        let (is_over, site) = (since.elapsed() >= AFTER_BREAK, site.clone());
        match of {
            Doubted::Phases(lost) => {
                let lost = *lost;
                self.settle(lost).await?;
                self.see_commits_at(site).await?;
            }
            Doubted::Commit(open) if open.kind == Kind::Strong => {
                let open = open.clone();
                self.resolve_strong(open, is_over).await?;
            }
            // A transaction that conflicts with the lost one decides at once. If the lost one is
            // still open in this session, the server waits for its outcome first.
            Doubted::Commit(Open { kind: Kind::PcPsi, object: Some(object), .. }) => {
                let object = object.clone();
                self.pass(Kind::PcPsi, object, []).await?;
            }
            Doubted::Commit(_) if is_over => self.see_commits_at(site).await?,
            Doubted::Commit(_) => {
                return Err(unavailable(
                    "the connection broke during the commit, which may still be in progress",
                ));
            }
        }
        self.doubt = None;
        Ok(())
    }

    /// Returns `Ok` if the phases whose answer was lost are over.
    async fn settle(&mut self, lost: Lost) -> Result<(), StoreError> {
        self.open().await?;
        match self.port.settle(lost.number, lost.until_ms).await.map_err(failure::of_break)? {
            Ok(true) => Ok(()),
            Ok(false) => {
                let text = "an earlier remote group is still running";
                Err(StoreError::Unavailable(text.to_owned()))
            }
            Err(text) => Err(StoreError::Unavailable(text)),
        }
    }

    async fn resolve_strong(&mut self, open: Open, is_over: bool) -> Result<(), StoreError> {
        let committed = match open.transaction {
            Some(transaction) => {
                self.open().await?;
                let answer = self.ask(Command::Outcome { transaction }).await;
                match answer.map_err(failure::of_break)? {
                    Ok(Reply::Outcome(committed)) => committed,
                    Ok(other) => return Err(unavailable(&failure::unexpected(&other).to_string())),
                    Err(text) => return Err(unavailable(&text)),
                }
            }
            None => None,
        };
        match (committed, open.object) {
            (Some(false), _) | (Some(true), None) => Ok(()),
            (Some(true), Some(object)) => {
                let read = read_all(object.key.clone());
                self.pass(Kind::Strong, object, [read]).await
            }
            (None, Some(object)) if is_over && object.exclusive => {
                // The transaction below conflicts with the lost one. After it has committed, the
                // lost transaction has either committed before it or never will. The transaction is
                // necessary because the cluster may have forgotten the outcome of the lost one.
                let on_key = |op| Command::OnKey { key: object.key.clone(), op };
                let field = number(u64::MAX);
                let add = on_key(Op::HashSet(vec![(field.clone(), b""[..].into())]));
                let remove = on_key(Op::HashDelete(vec![field]));
                self.pass(Kind::Strong, object, [add, remove]).await
            }
            (None, _) => {
                Err(unavailable("it is not decided yet whether the last transaction has committed"))
            }
        }
    }

    /// Commits a transaction that conflicts with all changes of a key. Afterwards every conflicting
    /// transaction before it is visible.
    async fn pass(
        &mut self,
        kind: Kind,
        object: Object,
        commands: impl IntoIterator<Item = Command>,
    ) -> Result<(), StoreError> {
        let begin = [Command::Begin { kind }, Command::Watch { key: object.key }];
        let all = begin.into_iter().chain(commands).chain([Command::Commit]).collect();
        self.open().await?;
        let answers = self.send(all).await.map_err(failure::of_break)?;
        let refused = answers.into_iter().find_map(Result::err);
        match refused.map(|text| failure::of_command(&text)) {
            None => Ok(()),
            Some(denied @ StoreError::Denied(_)) => Err(denied),
            Some(error) => Err(unavailable(&format!(
                "possible writes of the last transaction are not yet visible at the site: {error}"
            ))),
        }
    }

    /// Waits until later commands see all causal transactions that a site has committed so far.
    async fn see_commits_at(&mut self, site: Option<Arc<str>>) -> Result<(), StoreError> {
        let latest = self.horizon().await?.map(|horizon| horizon.latest);
        let until_ms = latest.unwrap_or_else(|| System.now_ms());
        let commits = Commits { until_ms, replicas: Some(site.into_iter().collect()) };
        match self.attach_until(&commits, SEES_OVER_TIMEOUT_MS).await? {
            None => Ok(()),
            Some(text) => Err(match failure::of_command(&text) {
                denied @ StoreError::Denied(_) => denied,
                _ => unavailable(&format!("its earlier commits are not visible yet: {text}")),
            }),
        }
    }
}

fn unavailable(why: &str) -> StoreError {
    StoreError::Unavailable(why.to_owned())
}
