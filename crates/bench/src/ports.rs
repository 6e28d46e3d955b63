//! Ports for clusters that are started for measurements.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Number of searches that this process has begun. Each search begins at another port, because a
/// port that an earlier search returned may not be in use yet.
static SEARCHES: AtomicU16 = AtomicU16::new(0);

/// Returns a port that was free a moment ago, together with the next `after` ports. The port is
/// below the system's range for outgoing connections. An outgoing connection could otherwise use
/// the port before a server listens there, or even connect to itself.
pub(crate) fn free_ports(after: u16) -> std::io::Result<u16> {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let begin =
        SEARCHES.fetch_add(1, Ordering::Relaxed) % 1000 + (std::process::id() % 1000) as u16;
    let bases = (begin..begin + 1000).map(|n| 20_000 + n % 1000 * 10);
    let mut bases = bases.filter(|base| (*base..=base + after).all(free));
    bases.next().ok_or_else(|| std::io::Error::other("no ports are free on 127.0.0.1"))
}
