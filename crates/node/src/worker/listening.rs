//! Accepts connections of clients.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;

use super::Worker;
use super::connection::{serve, serve_tls};
use crate::clients::ends_of;

/// Connections that the kernel queues before they are accepted.
const BACKLOG: i32 = 1024;
/// Time without traffic after which the kernel probes whether a client is alive.
const KEEPALIVE: Duration = Duration::from_secs(300);

/// Listens for connections until the site dies. All workers of a site share the address; the kernel
/// distributes connections among them.
pub(super) fn listen(worker: &Rc<Worker>) -> std::io::Result<()> {
    let site = &worker.spec.sites[worker.address.site.index()];
    if let Some(address) = site.listen {
        listen_on(worker, address, None)?;
    }
    if let (Some(address), Some(tls)) = (site.listen_tls, &worker.tls) {
        listen_on(worker, address, Some(tls.clone()))?;
    }
    Ok(())
}

fn listen_on(
    worker: &Rc<Worker>,
    address: SocketAddr,
    tls: Option<Arc<ArcSwap<TlsAcceptor>>>,
) -> std::io::Result<()> {
    let listener = TcpListener::from_std(bind(address)?)?;
    let worker = worker.clone();
    spawn_local(async move {
        let death = worker.death();
        let draining = worker.network.draining();
        tokio::pin!(death, draining);
        let accepted = |accepted: std::io::Result<(TcpStream, SocketAddr)>| {
            accepted.map(|(stream, from)| take_client(&worker, stream, from, tls.as_deref()))
        };
        loop {
            tokio::select! {
                client = listener.accept() => {
                    if accepted(client).is_err() {
                        // Most likely no descriptor is free; another connection may end meanwhile.
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                }
                () = &mut death => return,
                () = &mut draining => break,
            }
        }
        // Clients that connected before the shutdown are served.
        for _ in 0..BACKLOG {
            tokio::select! {
                biased;
                client = listener.accept() => drop(accepted(client)),
                () = std::future::ready(()) => return,
            }
        }
    });
    Ok(())
}

fn take_client(
    worker: &Rc<Worker>,
    stream: TcpStream,
    from: SocketAddr,
    tls: Option<&ArcSwap<TlsAcceptor>>,
) {
    prepare(&stream);
    let (worker, ends) = (worker.clone(), ends_of(&stream));
    match tls {
        None => spawn_local(serve(stream, worker, ends, Some(from))),
        Some(tls) => spawn_local(serve_tls(stream, (**tls.load()).clone(), worker, ends, from)),
    };
}

/// Sets options of a client's socket. A client is served even if that fails.
fn prepare(stream: &TcpStream) {
    // Without this option replies wait for acknowledgements.
    let _ = stream.set_nodelay(true);
    // Otherwise a client whose host has vanished would stay for ever. Redis does the same.
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 3);
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive.with_retries(3));
}

fn bind(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn clients_are_asked_whether_they_are_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stream, _) = tokio::join!(TcpStream::connect(address), listener.accept());
        let stream = stream.unwrap();
        prepare(&stream);
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEPALIVE);
    }
}
