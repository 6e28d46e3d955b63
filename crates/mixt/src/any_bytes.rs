//! Fuzz target for arbitrary bytes from a store, a worker or a coordinator. The code either rejects
//! the bytes, or decodes them and continues. It never panics.

use std::fmt::Debug;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use solera_program::value::Value;

use crate::binding::Modules;
use crate::coordinator::{Ask, Coordinator, Next};
use crate::group::{GroupRun, GroupStep};
use crate::job::Job;
use crate::location::Fields;
use crate::outcome::Limits;
use crate::record::{Record, RecoveryLease, State};
use crate::request::calls::{Answer, StoreError};
use crate::request::remote_group::{RemoteGroup, RemoteReplies};
use crate::request::{Reply, Request};
use crate::versioned::{decode, encode};
use crate::witness::WriteWitness;

/// Maximum number of answers to a transaction.
const ANSWERS: usize = 200;

/// Decodes bytes as each type that transactions store or send to workers. If the bytes contain a
/// transaction of one of `modules`, runs it over empty stores.
///
/// # Panics
/// If a decoded value changes when it is encoded and decoded again.
pub fn read_any(bytes: &[u8], modules: &Arc<Modules>) {
    read::<State>(bytes);
    read::<RecoveryLease>(bytes);
    read::<WriteWitness>(bytes);
    read::<RemoteReplies>(bytes);
    let leases = Fields::from([(0, bytes.into()), (1, bytes.into())]);
    let _ = RecoveryLease::acquired(&leases);
    if let Some(record) = read::<Record>(bytes) {
        go_on(record, modules);
    }
    if let Some(remote_group) = read::<RemoteGroup>(bytes) {
        run_group(&remote_group, modules);
    }
}

fn read<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) -> Option<T> {
    let found: T = decode(bytes, "what is looked at").ok()?;
    let again = decode(&encode(&found), "what was just written");
    assert_eq!(again.as_ref(), Ok(&found));
    Some(found)
}

/// Completes the transaction of a ticket or record.
fn go_on(record: Record, modules: &Arc<Modules>) {
    let mut now_ms = record.lease.since_ms;
    let limits = Limits::default();
    let resumed = Coordinator::resume(record, Arc::clone(modules), limits, now_ms);
    let Ok(mut coordinator) = resumed else { return };
    let mut answer = None;
    for _ in 0..ANSWERS {
        answer = Some(match coordinator.next(now_ms, answer) {
            Next::Ask(Ask::Store { request, .. }) => reply(&request),
            Next::Ask(Ask::Wait { ms }) => {
                now_ms = now_ms.saturating_add(ms);
                Ok(Reply::Done)
            }
            Next::Finished(_) => break,
        });
    }
    coordinator.garbage();
}

/// Runs the next group of phases as a worker does, and aborts it before the commit.
fn run_group(remote_group: &RemoteGroup, modules: &Modules) {
    let Ok(job) = Job::of(&remote_group.record, modules, Limits::default()) else { return };
    let next = remote_group.record.state.next as usize;
    if job.plan.groups.get(next).is_none_or(|group| group.database.is_none()) {
        return;
    }
    let mut run = GroupRun::new(Arc::new(job), remote_group.record.state.clone(), false);
    let mut step = run.next(None);
    for _ in 0..ANSWERS {
        step = match step {
            GroupStep::Ask(request) => run.next(Some(reply(&request))),
            GroupStep::Ready => run.give_up(),
            GroupStep::Ended(_) => break,
        };
    }
}

/// Returns the answer of a store that is empty and accepts every write.
fn reply(request: &Request) -> Result<Reply, StoreError> {
    Ok(match request {
        Request::Begin(begin) => Reply::Began(vec![Fields::new(); begin.names.len()]),
        Request::Perform(call) if call.op.mutates() => {
            Reply::Answered(Answer { value: Some(Value::Unit), seen: Fields::new() })
        }
        Request::Perform(_) | Request::Custom(_) => return Err(StoreError::Missing),
        Request::Commit(_) => Reply::Committed,
        Request::Certify => Reply::Certified,
        Request::Execute(_) => return Err(StoreError::Unavailable("no worker".to_owned())),
        Request::Sees(_) => Reply::Sees(true),
        Request::Permits(_) => Reply::Permits(None),
        Request::Abort => Reply::Done,
    })
}
