//! Ports for clusters that are started to be measured.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// How many searches this process has begun. Each begins elsewhere: who found a port may not listen
/// there yet.
static SEARCHES: AtomicU16 = AtomicU16::new(0);

/// Returns a port such that it and so many after it were free a moment ago. It lies below those
/// that the system gives to outgoing connections, which could take it before a server listens
/// there, or even connect to themselves.
pub(crate) fn free_ports(after: u16) -> std::io::Result<u16> {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let begin =
        SEARCHES.fetch_add(1, Ordering::Relaxed) % 1000 + (std::process::id() % 1000) as u16;
    let bases = (begin..begin + 1000).map(|n| 20_000 + n % 1000 * 10);
    let mut bases = bases.filter(|base| (*base..=base + after).all(free));
    bases.next().ok_or_else(|| std::io::Error::other("no ports are free on 127.0.0.1"))
}
