//! The port through which mixed transactions use sessions of this process.

use std::sync::Arc;
use std::time::Duration;

use solera_mixt::store::{Horizon, StoreError};
use solera_node::{Caller, Local};
use solera_session::{
    self as session, Abort, AttachHorizon, AttachUntil, Begin, Commit, OnKey, Outcome,
    TransactionKind, Txid, Watch,
};
use solera_spaces::failure::of_connect;
use solera_spaces::{Answer, Broken, Command, Kind, Port, Reply};

/// Identity that sessions act as.
#[derive(Clone, Debug)]
pub(crate) enum Principal {
    /// The client that sent the request.
    Caller,
    /// A user.
    User(Arc<str>),
    /// The server itself, which has all rights.
    Server,
}

/// Sessions at a worker of this process. Each one has seen what its client has seen, and what other
/// sessions for the client have seen.
#[derive(Debug)]
pub(crate) struct Sessions {
    local: Local,
    principal: Principal,
    /// `None` while commands run. If their answers are no longer awaited, the session ends.
    caller: Option<Caller>,
}

impl Sessions {
    /// Creates the port. `first` may be a session that is open already.
    pub(crate) fn new(local: &Local, principal: Principal, first: Option<Caller>) -> Sessions {
        Sessions { local: local.clone(), principal, caller: first }
    }
}

impl Port for Sessions {
    fn is_local(&self) -> bool {
        true
    }

    async fn open(&mut self) -> Result<(), StoreError> {
        if self.caller.is_none() {
            let opened = match &self.principal {
                Principal::Caller => self.local.call(),
                Principal::User(name) => self.local.call_as(name),
                Principal::Server => Ok(self.local.call_as_server()),
            };
            self.caller = Some(opened.map_err(|refused| of_connect(&refused))?);
        }
        Ok(())
    }

    async fn run(&mut self, commands: Vec<Command>) -> Result<Vec<Answer>, Broken> {
        let count = commands.len();
        let all = commands.into_iter().map(|command| typed(&self.local, command));
        let all = match all.collect::<Result<_, _>>() {
            Ok(all) => all,
            // Nothing was begun.
            Err(error) => return Ok(vec![Err(error); count]),
        };
        let Some(caller) = self.caller.take() else {
            return Err(Broken("no session is open".to_owned()));
        };
        let answers = caller.run(all).await.map_err(Broken)?;
        self.caller = Some(caller);
        Ok(answers.into_iter().map(|answer| answer.map(reply)).collect())
    }

    fn site(&self) -> Option<Arc<str>> {
        Some(self.local.site().into())
    }

    fn is_quiet(&mut self) -> bool {
        self.caller.as_ref().is_some_and(|caller| !caller.has_ended())
    }
}

/// Converts a command to the form that sessions take.
///
/// # Errors
/// The error reply, if no such command exists or its arguments are invalid.
fn typed(local: &Local, command: Command) -> Result<session::Command, String> {
    Ok(match command {
        Command::Begin { kind } => {
            let kind = match kind {
                Kind::Causal => TransactionKind::Causal,
                Kind::Strong => TransactionKind::Strong,
                Kind::PcPsi => TransactionKind::PcPsi,
            };
            Begin { kind }.into()
        }
        Command::Name => Txid.into(),
        Command::Commit => Commit.into(),
        Command::Abort => Abort { certify: false }.into(),
        Command::Certify => Abort { certify: true }.into(),
        Command::Watch { key } => Watch { keys: vec![key] }.into(),
        Command::OnKey { key, op } => {
            let operation = op.operation().name();
            let command = OnKey::new(key, op);
            command.ok_or_else(|| format!("ERR no command on keys is {operation}"))?.into()
        }
        Command::Outcome { transaction } => Outcome::of(&transaction)?.into(),
        Command::AttachUntil { until_ms, timeout_ms, sites } => {
            let timeout = Duration::from_millis(timeout_ms);
            let sites = sites.iter().map(|site| site.as_bytes());
            AttachUntil::new(local.spec(), until_ms, timeout, sites)?.into()
        }
        Command::Horizon => AttachHorizon.into(),
    })
}

/// Converts a session's answer to a reply for a mixed transaction.
fn reply(answer: session::Answer) -> Reply {
    match answer {
        session::Answer::Begin(())
        | session::Answer::Commit(())
        | session::Answer::Abort(())
        | session::Answer::Watch(())
        | session::Answer::AttachUntil(()) => Reply::Done,
        session::Answer::Speculate(_) => unreachable!("`typed` makes no such command"),
        session::Answer::Txid(name) => Reply::Name(name.to_string()),
        session::Answer::OnKey(outcome) => Reply::Key(outcome),
        session::Answer::Outcome(committed) => Reply::Outcome(committed),
        session::Answer::AttachHorizon(horizon) => {
            Reply::Horizon(Horizon { latest: horizon.latest_ms(), stable: horizon.stable_ms() })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use solera_data::{Op, Outcome as Found};

    use super::*;
    use crate::scene;

    fn on_key(op: Op) -> Command {
        Command::OnKey { key: b"k".to_vec(), op }
    }

    #[tokio::test]
    async fn a_session_whose_answer_was_not_awaited_is_not_used_again() {
        let (_cluster, local) = scene::start("").await;
        let mut port = Sessions::new(&local, Principal::Caller, None);
        assert_eq!(port.run(Vec::new()).await, Err(Broken("no session is open".to_owned())));
        port.open().await.unwrap();
        let set = Command::OnKey { key: b"k".to_vec(), op: Op::Set("v".into()) };
        let begun = port.run(vec![Command::Begin { kind: Kind::Causal }, set]).await.unwrap();
        assert_eq!(begun, [Ok(Reply::Done), Ok(Reply::Key(Found::Ok))]);
        assert!(port.is_quiet());
        // The worker may answer at once; then the answer was awaited.
        let mut is_pending = false;
        while !is_pending {
            let mut running = pin!(port.run(vec![on_key(Op::Get)]));
            let first = poll_fn(|context| Poll::Ready(running.as_mut().poll(context)));
            is_pending = first.await.is_pending();
        }
        assert!(!port.is_quiet());
        assert!(port.run(vec![on_key(Op::Get)]).await.is_err());
        // The transaction belonged to the session that ended.
        port.open().await.unwrap();
        let read = port.run(vec![on_key(Op::Get)]).await.unwrap();
        assert_eq!(read, [Ok(Reply::Key(Found::Nil))]);
    }

    #[tokio::test]
    async fn invalid_commands_are_rejected_and_the_session_stays_open() {
        let (_cluster, local) = scene::start("").await;
        let mut port = Sessions::new(&local, Principal::Server, None);
        port.open().await.unwrap();
        let nowhere = Command::AttachUntil { until_ms: 1, timeout_ms: 1, sites: vec!["x".into()] };
        let nothing = Command::Outcome { transaction: "x".to_owned() };
        for command in [on_key(Op::Digest), nothing, nowhere] {
            let answers = port.run(vec![on_key(Op::Get), command.clone()]).await.unwrap();
            let all = answers
                .iter()
                .all(|answer| matches!(answer, Err(text) if text.starts_with("ERR ")));
            assert!(all && answers.len() == 2, "{command:?}: {answers:?}");
        }
        let horizon = port.run(vec![Command::Horizon]).await.unwrap();
        assert!(matches!(horizon[..], [Ok(Reply::Horizon(_))]), "{horizon:?}");
        assert!(port.is_quiet());
    }
}
