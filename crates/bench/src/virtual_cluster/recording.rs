//! Records the commands that clients of RUBiS send to a cluster of one site in this process.
//!
//! A proxy records the connection. A client sends a batch of commands and waits for all replies, so
//! the commands between two replies are one round of a transaction.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use solera_embedded::{ClusterSpec, Embedded, Overrides};
use solera_resp::RequestParser;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::closed_loop::Workload as _;
use crate::error::BenchError;
use crate::place::TargetCluster;
use crate::ports::free_ports;
use crate::rubis::{self, Rubis, Scale};
use crate::session::{BenchSession, Strong};

/// A command's words.
pub(crate) type Words = Vec<Vec<u8>>;

/// A recorded transaction, without its beginning and end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Recorded {
    pub(crate) strong: bool,
    pub(crate) rounds: Vec<Vec<Words>>,
}

/// A recording.
pub(crate) struct Recording {
    /// Initial number of items for sale, numbered from 0.
    pub(crate) items: u64,
    /// Commands that load the database.
    pub(crate) load: Vec<Words>,
    pub(crate) transactions: Vec<Recorded>,
}

impl Recording {
    /// Returns the share of strong transactions.
    pub(crate) fn strong_share(&self) -> f64 {
        let strong = self.transactions.iter().filter(|recorded| recorded.strong).count();
        strong as f64 / self.transactions.len().max(1) as f64
    }
}

/// Part of every name that clients create.
pub(crate) const RUN: &str = "recorded";

type Shared = Arc<Mutex<Vec<Recorded>>>;

/// Records a number of transactions of RUBiS, which run one after another, so that each recording
/// is the same.
///
/// # Errors
/// Fails if the cluster cannot be started, or if a transaction fails.
pub(crate) fn record(
    scale: Scale,
    seed: u64,
    transactions: usize,
) -> Result<Recording, BenchError> {
    let rubis = Arc::new(Rubis::new(scale, seed, RUN.to_owned(), None));
    let started = |error: &dyn std::fmt::Display| BenchError::Start(error.to_string());
    let over = Overrides { sites: Some(1), ..Overrides::default() };
    let spec = ClusterSpec::parse("RUBiS' spaces", rubis::schema::SPACES, over);
    let base = free_ports(1).map_err(|error| started(&error))?;
    let spec = spec.and_then(|spec| spec.listen_from(base)).map_err(|error| started(&error))?;
    let _cluster = Embedded::with(spec).map_err(|error| started(&error))?;

    let runtime = crate::runtime()?;
    let site = SocketAddr::from(([127, 0, 0, 1], base + 1));
    let direct = runtime.block_on(TargetCluster::at(vec![endpoint(site)]))?;
    runtime.block_on(rubis::load::load(&rubis, &direct, Strong::Solera))?;

    let recorded = Shared::default();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
    let listener = listener.map_err(|error| started(&error))?;
    let proxy = listener.local_addr().map_err(|error| started(&error))?;
    let (end, ended) = oneshot::channel::<()>();
    let shared = recorded.clone();
    let listening = std::thread::Builder::new().name("recorder".to_owned()).spawn(move || {
        let serving = async {
            tokio::select! {
                () = serve(listener, site, shared) => {}
                _ = ended => {}
            }
        };
        runtime.block_on(serving);
    });
    let listening = listening.map_err(BenchError::Threads)?;
    let ran = crate::runtime().and_then(|runtime| {
        runtime.block_on(async {
            let place = TargetCluster::at(vec![endpoint(proxy)]).await?;
            let client = place.connect(0).await.map_err(BenchError::Connect)?;
            let (mut session, mut visitor) =
                (BenchSession::new(client, Strong::Solera), rubis.visitor(0));
            for _ in 0..transactions {
                let kind = rubis.next(&mut visitor);
                let done = rubis.run(kind, &mut visitor, &mut session).await;
                done.map_err(|error| BenchError::Transaction(error.to_string()))?;
            }
            Ok(())
        })
    });
    // The proxy may have ended already.
    let _ = end.send(());
    listening.join().expect("the thread has reported the panic of the recorder");
    ran?;
    let transactions = std::mem::take(&mut *lock(&recorded));
    Ok(Recording { items: scale.items, load: rubis::load::commands(&rubis), transactions })
}

fn endpoint(address: SocketAddr) -> solera::Endpoint {
    address.to_string().parse().expect("an address of a socket is one of an endpoint")
}

fn lock(recorded: &Shared) -> std::sync::MutexGuard<'_, Vec<Recorded>> {
    recorded.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, site: SocketAddr, recorded: Shared) {
    let mut passing = tokio::task::JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let recorded = recorded.clone();
        passing.spawn(async move {
            // On an error the connection ends, and the run fails.
            let _ = pass(client, site, recorded).await;
        });
    }
}

/// Forwards bytes in both directions, and records those of the client.
async fn pass(mut client: TcpStream, site: SocketAddr, recorded: Shared) -> std::io::Result<()> {
    let mut server = TcpStream::connect(site).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut asked, mut answered) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut listener = Listener::default();
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let length = read?;
                if length == 0 {
                    return Ok(());
                }
                listener.hear(&asked[..length], &recorded);
                server.write_all(&asked[..length]).await?;
            }
            read = server.read(&mut answered) => {
                let length = read?;
                if length == 0 {
                    return Ok(());
                }
                listener.end_round();
                client.write_all(&answered[..length]).await?;
            }
        }
    }
}

/// Splits the commands of one client into transactions.
#[derive(Default)]
struct Listener {
    buffer: Vec<u8>,
    parser: RequestParser,
    open: Option<Recorded>,
    round: Vec<Words>,
}

impl Listener {
    fn hear(&mut self, bytes: &[u8], recorded: &Shared) {
        self.buffer.extend_from_slice(bytes);
        let mut begin = 0;
        while let Ok(Some((arguments, length))) = self.parser.next(&self.buffer[begin..]) {
            let words: Words = arguments.from(0).map(<[u8]>::to_vec).collect();
            begin += length;
            let name = words.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
            match name.as_slice() {
                b"SOLERA.BEGIN" => {
                    let strong = words.get(1).is_some_and(|word| word == b"STRONG");
                    self.round.clear();
                    self.open = Some(Recorded { strong, rounds: Vec::new() });
                }
                b"SOLERA.COMMIT" => {
                    self.end_round();
                    lock(recorded).extend(self.open.take());
                }
                b"SOLERA.ABORT" => self.open = None,
                _ => self.round.push(words),
            }
        }
        self.buffer.drain(..begin);
    }

    /// Ends the round, after the client has waited for replies.
    fn end_round(&mut self) {
        if let Some(open) = &mut self.open
            && !self.round.is_empty()
        {
            open.rounds.push(std::mem::take(&mut self.round));
        }
    }
}

#[cfg(test)]
mod tests {
    use solera_resp::encode_command;

    use super::*;

    fn bytes(commands: &[&[&str]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        commands.iter().for_each(|command| encode_command(&mut bytes, command));
        bytes
    }

    #[test]
    fn a_recording_is_the_same_each_time() {
        let [one, other] = [1, 2].map(|_| record("tiny".parse().unwrap(), 7, 60).unwrap());
        assert_eq!(one.transactions.len(), 60);
        assert_eq!(one.transactions, other.transactions);
    }

    #[test]
    fn commands_between_two_replies_are_a_round() {
        let recorded = Shared::default();
        let mut listener = Listener::default();
        let mut send = |commands: &[&[&str]], pieces: usize| {
            let bytes = bytes(commands);
            for piece in bytes.chunks(bytes.len().div_ceil(pieces)) {
                listener.hear(piece, &recorded);
            }
            listener.end_round();
        };
        send(&[&["SITE"]], 1);
        send(&[&["SOLERA.BEGIN", "STRONG"]], 2);
        send(&[&["GET", "a"], &["GET", "b"]], 3);
        send(&[&["SET", "a", "1"]], 1);
        send(&[&["SOLERA.COMMIT"]], 1);
        send(&[&["SOLERA.BEGIN"]], 1);
        send(&[&["GET", "c"]], 1);
        send(&[&["SOLERA.ABORT"]], 1);

        let recorded = lock(&recorded);
        let [only] = recorded.as_slice() else { panic!("{recorded:?}") };
        assert!(only.strong);
        let rounds: Vec<usize> = only.rounds.iter().map(Vec::len).collect();
        assert_eq!(rounds, [2, 1]);
        assert_eq!(only.rounds[1][0], [b"SET".to_vec(), b"a".to_vec(), b"1".to_vec()]);
    }
}
