//! The proxy over real connections.

use std::time::Duration;

use solera_wan::{Delays, Proxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Starts a proxy in front of a server that sends back what it receives.
async fn echo_behind(delays: Delays) -> (std::net::SocketAddr, [JoinHandle<()>; 2]) {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = server.local_addr().unwrap().to_string();
    let echo = tokio::spawn(async move {
        while let Ok((mut stream, _)) = server.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
                let _ = to.shutdown().await;
            });
        }
    });
    let proxy = Proxy::bind("127.0.0.1:0", &to, delays, 3).await.unwrap();
    let address = proxy.address().unwrap();
    (address, [echo, tokio::spawn(proxy.serve())])
}

#[tokio::test]
async fn bytes_arrive_whole_and_in_order_however_they_are_cut() {
    let delays = Delays::new(Duration::from_millis(8), Duration::from_millis(4)).unwrap();
    let (address, tasks) = echo_behind(delays).await;
    let clients = (1..=4_usize).map(|client| async move {
        let (mut from, mut to) = TcpStream::connect(address).await.unwrap().into_split();
        let sent: Vec<u8> = (0..3_000_000).map(|at| (at * client + at / 253) as u8).collect();
        let expected = sent.clone();
        let sender = tokio::spawn(async move {
            let (mut rest, mut random) = (&*sent, client);
            while !rest.is_empty() {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Pieces from a byte to half a megabyte.
                let cut = (1 << ((random >> 33) % 20)).min(rest.len());
                to.write_all(&rest[..cut]).await.unwrap();
                rest = &rest[cut..];
            }
            to.shutdown().await.unwrap();
        });
        let mut got = Vec::new();
        from.read_to_end(&mut got).await.unwrap();
        sender.await.unwrap();
        assert!(got == expected, "client {client} got {} other bytes", got.len());
    });
    let clients: Vec<_> = clients.map(tokio::spawn).collect();
    for client in clients {
        client.await.unwrap();
    }
    for task in tasks {
        task.abort();
    }
}

#[tokio::test]
async fn connections_end_with_the_proxy() {
    let delays = Delays::new(Duration::ZERO, Duration::ZERO).unwrap();
    let (address, [echo, proxy]) = echo_behind(delays).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"a").await.unwrap();
    client.read_u8().await.unwrap();
    proxy.abort();
    assert!(client.read_u8().await.is_err());
    echo.abort();
}
