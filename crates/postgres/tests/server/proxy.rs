//! A TCP proxy before the server that loses requests or answers on demand.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::Url;

/// The loss to inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    Nothing,
    /// The next request does not arrive. The client notices that its connection is gone, and the
    /// server does not.
    NextRequest,
    /// The answer to the next commit does not arrive.
    CommitAnswer,
    /// Connections are refused, and the existing ones end.
    Everything,
}

pub(crate) struct Proxy {
    pub(crate) url: Url,
    loss: Arc<Mutex<Loss>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn new(behind: &Url) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let loss = Arc::new(Mutex::new(Loss::Nothing));
        let (_, rest) = behind.0.split_once('@').unwrap();
        let server: SocketAddr = rest.split_once('/').unwrap().0.parse().unwrap();
        let shared = Arc::clone(&loss);
        let accepting = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                if *shared.lock().unwrap() == Loss::Everything {
                    continue;
                }
                let server = TcpStream::connect(server).await.unwrap();
                tokio::spawn(forward(client, server, Arc::clone(&shared)));
            }
        });
        Proxy { url: behind.at(address), loss, accepting }
    }

    pub(crate) fn lose(&self, loss: Loss) {
        *self.loss.lock().unwrap() = loss;
    }

    /// Returns whether the loss has happened.
    pub(crate) fn has_lost(&self) -> bool {
        *self.loss.lock().unwrap() == Loss::Nothing
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn forward(client: TcpStream, server: TcpStream, loss: Arc<Mutex<Loss>>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut request = vec![0; 1 << 16];
    let mut answer = vec![0; 1 << 16];
    loop {
        tokio::select! {
            read = from_client.read(&mut request) => {
                let Ok(1..) = read else { return };
                let now = *loss.lock().unwrap();
                match now {
                    Loss::NextRequest => {
                        *loss.lock().unwrap() = Loss::Nothing;
                        drop((from_client, to_client));
                        return linger(from_server, to_server).await;
                    }
                    Loss::Everything => return,
                    Loss::Nothing | Loss::CommitAnswer => {}
                }
                let Ok(()) = to_server.write_all(&request[..read.unwrap()]).await else { return };
            }
            read = from_server.read(&mut answer) => {
                let Ok(length @ 1..) = read else { return };
                let bytes = &answer[..length];
                let now = *loss.lock().unwrap();
                let committed = bytes.windows(7).any(|tag| tag == b"COMMIT\0");
                match now {
                    Loss::CommitAnswer if committed => {
                        *loss.lock().unwrap() = Loss::Nothing;
                        return;
                    }
                    Loss::Everything => return,
                    _ => {}
                }
                let Ok(()) = to_client.write_all(bytes).await else { return };
            }
        }
    }
}

/// Keeps a connection open until the server ends it.
async fn linger(mut from_server: OwnedReadHalf, _to_server: OwnedWriteHalf) {
    let mut bytes = [0; 1024];
    while let Ok(1..) = from_server.read(&mut bytes).await {}
}
