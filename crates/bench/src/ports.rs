//! Ports for clusters that are started for measurements.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Number of searches that this process has begun. Each search begins at another port, because the
/// finder of a port may not listen on it yet.
static SEARCHES: AtomicU16 = AtomicU16::new(0);

/// Returns a port such that it and the next `after` ports were free a moment ago. It is below the
/// system's range for outgoing connections, which could use it before a server listens there, or
/// even connect to themselves.
pub(crate) fn free_ports(after: u16) -> std::io::Result<u16> {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let begin =
        SEARCHES.fetch_add(1, Ordering::Relaxed) % 1000 + (std::process::id() % 1000) as u16;
    let bases = (begin..begin + 1000).map(|n| 20_000 + n % 1000 * 10);
    let mut bases = bases.filter(|base| (*base..=base + after).all(free));
    bases.next().ok_or_else(|| std::io::Error::other("no ports are free on 127.0.0.1"))
}
