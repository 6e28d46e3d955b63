//! Commands of mixed transactions to sessions of this process, as values.

use std::sync::Arc;
use std::time::Duration;

use solera_mixt::store::{Horizon, StoreError};
use solera_node::{Caller, Local};
use solera_session::{
    self as session, Abort, AttachHorizon, AttachUntil, Begin, Commit, OnKey, Outcome, Txid, Watch,
};
use solera_spaces::failure::of_connect;
use solera_spaces::{Answer, Broken, Command, Port, Reply};

/// As whom sessions act.
#[derive(Clone, Debug)]
pub(crate) enum Whom {
    /// As the client that has asked for something.
    Caller,
    /// In the name of a user.
    User(Arc<str>),
    /// As the server itself, which may do everything.
    Server,
}

/// Sessions at a worker of this process, of which each has seen what its client has seen, and what others for it have.
#[derive(Debug)]
pub(crate) struct Sessions {
    local: Local,
    whom: Whom,
    /// None while commands run: if nobody waits for their answers any more, the session ends.
    caller: Option<Caller>,
}

impl Sessions {
    /// The first session may be open already.
    pub(crate) fn new(local: &Local, whom: Whom, first: Option<Caller>) -> Sessions {
        Sessions { local: local.clone(), whom, caller: first }
    }
}

impl Port for Sessions {
    fn is_local(&self) -> bool {
        true
    }

    async fn open(&mut self) -> Result<(), StoreError> {
        if self.caller.is_none() {
            let opened = match &self.whom {
                Whom::Caller => self.local.call(),
                Whom::User(name) => self.local.call_as(name),
                Whom::Server => Ok(self.local.call_as_server()),
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
            // Nothing is begun.
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

/// A command as sessions take it.
///
/// # Errors
/// There is no such command: what it names cannot be.
fn typed(local: &Local, command: Command) -> Result<session::Command, String> {
    Ok(match command {
        Command::Begin { strong } => Begin { strong }.into(),
        Command::Name => Txid.into(),
        Command::Commit => Commit.into(),
        Command::Abort => Abort.into(),
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

/// What a session's answer is to a mixed transaction.
fn reply(answer: session::Answer) -> Reply {
    match answer {
        session::Answer::Begin(())
        | session::Answer::Commit(())
        | session::Answer::Abort(())
        | session::Answer::Watch(())
        | session::Answer::Attach(())
        | session::Answer::AttachUntil(()) => Reply::Done,
        session::Answer::Txid(name) => Reply::Name(name.to_string()),
        session::Answer::OnKey(outcome) => Reply::Key(outcome),
        session::Answer::Outcome(committed) => Reply::Outcome(committed),
        session::Answer::AttachHorizon(horizon) => {
            Reply::Horizon(Horizon { latest: horizon.latest_ms(), stable: horizon.stable_ms() })
        }
        // No command of a mixed transaction asks for it.
        session::Answer::TakeToken(_) => Reply::Other("a token".to_owned()),
    }
}
