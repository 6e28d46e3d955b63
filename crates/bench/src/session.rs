//! Sessions that run transactions strongly or causally, depending on the run.

use std::str::FromStr;
use std::time::Duration;

use solera::{Client, Error, Token, Value};

use crate::closed_loop::{Sessions, WorkloadSession};
use crate::place::TargetCluster;
use crate::tally::{Aborts, Counters};

/// How a run executes the transactions that should be strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strong {
    /// As strong transactions.
    Solera,
    /// Causally: the baseline CAUSAL, which keeps no invariants.
    Causal,
}

impl FromStr for Strong {
    type Err = String;

    fn from_str(text: &str) -> Result<Strong, String> {
        match text {
            "solera" => Ok(Strong::Solera),
            "causal" => Ok(Strong::Causal),
            _ => Err("strong transactions are run as 'solera' or 'causal'".to_owned()),
        }
    }
}

impl Strong {
    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Strong::Solera => "solera",
            Strong::Causal => "causal",
        }
    }
}

/// Sites of a cluster, and how clients run strong transactions there.
#[derive(Clone)]
pub(crate) struct BenchSessions {
    place: TargetCluster,
    strong: Strong,
}

impl BenchSessions {
    pub(crate) fn new(place: &TargetCluster, strong: Strong) -> BenchSessions {
        BenchSessions { place: place.clone(), strong }
    }
}

impl Sessions for BenchSessions {
    type Session = BenchSession;

    fn sites(&self) -> Vec<String> {
        self.place.sites()
    }

    fn site_of(&self, client: usize) -> usize {
        self.place.site_of(client)
    }

    async fn connect(&self, client: usize) -> Result<BenchSession, Error> {
        Ok(BenchSession::new(self.place.connect(client).await?, self.strong))
    }
}

impl WorkloadSession for BenchSession {
    fn take_aborts(&mut self) -> Aborts {
        let mut aborts = Aborts::new();
        if self.aborts > 0 {
            aborts.insert("conflict".to_owned(), std::mem::take(&mut self.aborts));
        }
        aborts
    }

    async fn counters(&mut self) -> Counters {
        Counters::new()
    }

    async fn reconnect(&mut self) -> Result<(), Error> {
        self.client.reconnect().await
    }

    async fn token(&mut self) -> Option<Token> {
        self.client.token().await.ok()
    }
}

/// Session of one client.
pub(crate) struct BenchSession {
    pub(crate) client: Client,
    strong: Strong,
    /// Number of attempts of strong transactions that aborted.
    pub(crate) aborts: u64,
}

impl BenchSession {
    pub(crate) fn new(client: Client, strong: Strong) -> BenchSession {
        BenchSession { client, strong, aborts: 0 }
    }

    /// Runs a causal transaction.
    pub(crate) async fn causal<R>(
        &mut self,
        body: impl AsyncFnOnce(&mut Client) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.client.transaction(body).await
    }

    /// Runs a strong transaction, and retries it after conflicts.
    pub(crate) async fn strong<R>(
        &mut self,
        mut body: impl AsyncFnMut(&mut Client) -> Result<R, Error>,
    ) -> Result<R, Error> {
        if self.strong == Strong::Causal {
            return self.client.transaction(body).await;
        }
        let mut runs = 0_u64;
        let result = self
            .client
            .strong(async |tx| {
                runs += 1;
                body(tx).await
            })
            .await;
        let aborted = matches!(&result, Err(error) if error.code() == Some("ABORTED"));
        self.aborts += if aborted { runs } else { runs.saturating_sub(1) };
        result
    }
}

/// Pauses before a transaction is repeated: the first one, and the longest one.
const PAUSE: Duration = Duration::from_millis(1);
const MOST_PAUSE: Duration = Duration::from_millis(64);

/// Runs a transaction, and repeats it after aborts, up to [`Client::ATTEMPTS`] times in all. Passes
/// each abort to `aborted`.
pub(crate) async fn repeat<R>(
    mut attempt: impl AsyncFnMut() -> Result<R, Error>,
    mut aborted: impl FnMut(&Error),
) -> Result<R, Error> {
    let (mut attempts, mut pause) = (0, PAUSE);
    loop {
        attempts += 1;
        let result = attempt().await;
        let Err(error) = &result else { return result };
        if error.code() != Some("ABORTED") {
            return result;
        }
        aborted(error);
        if attempts == Client::ATTEMPTS {
            return result;
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(MOST_PAUSE);
    }
}

/// Runs commands between MULTI and EXEC, and returns their replies.
pub(crate) async fn multi(
    client: &mut Client,
    commands: &[Vec<impl AsRef<[u8]>>],
) -> Result<Vec<Value>, Error> {
    let mut all: Vec<Vec<&[u8]>> = vec![vec![b"MULTI"]];
    all.extend(commands.iter().map(|command| command.iter().map(AsRef::as_ref).collect()));
    all.push(vec![b"EXEC"]);
    match client.pipeline(&all).await?.pop() {
        Some(Value::Error(text)) => Err(Error::server(&text)),
        Some(Value::Null) => Err(Error::server("ABORTED EXEC returned nil")),
        Some(Value::Array(replies)) => Ok(replies),
        other => Err(Error::unexpected(&other.unwrap_or(Value::Null))),
    }
}
