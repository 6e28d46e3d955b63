//! Mailboxes of workers, and links between sites with delays and cuts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use solera_time::SiteId;
use solera_unistore::{Address, Message};
use tokio::sync::mpsc::UnboundedSender;

use crate::wan::Wan;
use crate::worker::Control;

/// What arrives in a worker's mailbox.
pub(crate) enum Parcel {
    /// Messages of another worker, to be handled when they are due.
    Messages { from: Address, due: Instant, messages: Vec<Message> },
    /// An order of the host.
    Control(Control),
}

/// How a cluster's workers reach one another.
pub(crate) struct Network {
    mailboxes: Vec<Vec<UnboundedSender<Parcel>>>,
    /// One-way delays in microseconds.
    delays: Vec<Vec<AtomicU64>>,
    /// Delays added by faults, in microseconds.
    added: Vec<Vec<AtomicU64>>,
    cut: Vec<Vec<AtomicBool>>,
    alive: Vec<AtomicBool>,
}

impl Network {
    pub(crate) fn new(mailboxes: Vec<Vec<UnboundedSender<Parcel>>>, wan: &Wan) -> Self {
        let sites = mailboxes.len();
        let matrix = |value: &dyn Fn(usize, usize) -> u64| {
            (0..sites).map(|a| (0..sites).map(|b| AtomicU64::new(value(a, b))).collect()).collect()
        };
        Network {
            mailboxes,
            delays: matrix(&|a, b| wan.one_way(a, b).as_micros() as u64),
            added: matrix(&|_, _| 0),
            cut: (0..sites).map(|_| (0..sites).map(|_| AtomicBool::new(false)).collect()).collect(),
            alive: (0..sites).map(|_| AtomicBool::new(true)).collect(),
        }
    }

    /// Hands messages over. Between sites they take their time, and are lost on a cut link or when
    /// the receiver is dead: the protocol recovers by itself.
    pub(crate) fn send(&self, from: Address, to: Address, messages: Vec<Message>) {
        let (a, b) = (from.site.index(), to.site.index());
        let mut due = Instant::now();
        if a != b {
            if self.is_cut(a, b) || !self.is_alive(a) || !self.is_alive(b) {
                return;
            }
            due += self.delay(a, b);
        }
        // A mailbox without a worker belongs to a cluster that is stopping.
        let _ = self.mailboxes[b][usize::from(to.worker)].send(Parcel::Messages {
            from,
            due,
            messages,
        });
    }

    pub(crate) fn control(&self, to: Address, control: Control) {
        let mailbox = &self.mailboxes[to.site.index()][usize::from(to.worker)];
        let _ = mailbox.send(Parcel::Control(control));
    }

    pub(crate) fn workers_of(&self, site: SiteId) -> impl Iterator<Item = Address> + use<> {
        let workers = self.mailboxes[site.index()].len();
        (0..workers).map(move |worker| Address { site, worker: worker as u8 })
    }

    pub(crate) fn delay(&self, a: usize, b: usize) -> Duration {
        let micros =
            self.delays[a][b].load(Ordering::Relaxed) + self.added[a][b].load(Ordering::Relaxed);
        Duration::from_micros(micros)
    }

    pub(crate) fn add_delay(&self, a: usize, b: usize, one_way: Duration) {
        for (a, b) in [(a, b), (b, a)] {
            self.added[a][b].store(one_way.as_micros() as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn set_cut(&self, a: usize, b: usize, cut: bool) {
        self.cut[a][b].store(cut, Ordering::Relaxed);
        self.cut[b][a].store(cut, Ordering::Relaxed);
    }

    pub(crate) fn is_cut(&self, a: usize, b: usize) -> bool {
        self.cut[a][b].load(Ordering::Relaxed)
    }

    pub(crate) fn set_alive(&self, site: usize, alive: bool) {
        self.alive[site].store(alive, Ordering::SeqCst);
    }

    pub(crate) fn is_alive(&self, site: usize) -> bool {
        self.alive[site].load(Ordering::SeqCst)
    }
}
