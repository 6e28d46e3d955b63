//! Wraps a database for an experiment: without witnesses, with late witnesses, or running phases
//! itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use solera_levels::Level;
use solera_mixt::connection_methods;
use solera_mixt::store::{
    Answer, Begin, BoxFuture, Connection, CustomCall, Database, Fields, NameWrite, ObjectCall,
    StoreError,
};

/// Treatment of the witnesses that make transactions visible atomically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tracking {
    /// Witnesses are neither written nor read: transactions over several databases may be partially
    /// visible.
    Off,
    /// Witnesses work as usual.
    On,
    /// This percentage of the lookups of witnesses takes [`LATE`] longer, as if they had not
    /// arrived.
    Late(u8),
}

/// Delay of late verifications in the paper (§8.3).
const LATE: Duration = Duration::from_millis(30);

/// Wrapper of a database.
pub(super) struct Shaped {
    pub(super) inner: Arc<dyn Database>,
    pub(super) tracking: Tracking,
    /// Whether it runs groups of phases, if it can.
    pub(super) shipping: bool,
    /// Number of lookups of witnesses.
    pub(super) looks: Arc<AtomicU64>,
}

impl Database for Shaped {
    fn name(&self) -> Arc<str> {
        self.inner.name()
    }

    fn spans(&self, one: &str, other: &str) -> bool {
        self.inner.spans(one, other)
    }

    fn level(&self, space: &str) -> Option<Level> {
        self.inner.level(space)
    }

    fn executes(&self) -> bool {
        self.shipping && self.inner.executes()
    }

    fn commit_replica(&self) -> Option<Arc<str>> {
        self.inner.commit_replica()
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async {
            let inner = self.inner.connect().await?;
            let (tracking, looks) = (self.tracking, Arc::clone(&self.looks));
            Ok(Box::new(ShapedSession { inner, tracking, looks }) as Box<dyn Connection>)
        })
    }
}

struct ShapedSession {
    inner: Box<dyn Connection>,
    tracking: Tracking,
    looks: Arc<AtomicU64>,
}

impl ShapedSession {
    async fn begin(&mut self, begin: &Begin) -> Result<Vec<Fields>, StoreError> {
        if begin.names.is_empty() {
            return self.inner.begin(begin).await;
        }
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        match self.tracking {
            Tracking::Off => {
                self.inner.begin(&Begin { names: Vec::new(), ..begin.clone() }).await?;
                return Ok(vec![Fields::new(); begin.names.len()]);
            }
            Tracking::Late(percent) if look % 100 < u64::from(percent) => {
                tokio::time::sleep(LATE).await;
            }
            Tracking::On | Tracking::Late(_) => {}
        }
        self.inner.begin(begin).await
    }
}

macro_rules! inner {
    ($self:ident, $method:ident $(, $argument:ident)?) => {
        $self.inner.$method($($argument)?)
    };
}

impl Connection for ShapedSession {
    connection_methods!(inner: execute certify abort list sees horizon);

    fn begin<'a>(&'a mut self, begin: &'a Begin) -> BoxFuture<'a, Result<Vec<Fields>, StoreError>> {
        Box::pin(ShapedSession::begin(self, begin))
    }

    fn perform<'a>(
        &'a mut self,
        call: &'a ObjectCall,
    ) -> BoxFuture<'a, Result<Answer, StoreError>> {
        if self.tracking != Tracking::Off || call.look.is_none() {
            return self.inner.perform(call);
        }
        Box::pin(async { self.inner.perform(&ObjectCall { look: None, ..call.clone() }).await })
    }

    fn custom<'a>(&'a mut self, call: &'a CustomCall) -> BoxFuture<'a, Result<Answer, StoreError>> {
        if self.tracking != Tracking::Off || call.look.is_empty() {
            return self.inner.custom(call);
        }
        Box::pin(async {
            self.inner.custom(&CustomCall { look: Vec::new(), ..call.clone() }).await
        })
    }

    fn commit<'a>(&'a mut self, writes: &'a [NameWrite]) -> BoxFuture<'a, Result<(), StoreError>> {
        match self.tracking {
            Tracking::Off => self.inner.commit(&[]),
            Tracking::On | Tracking::Late(_) => self.inner.commit(writes),
        }
    }
}
