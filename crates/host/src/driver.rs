//! Driver of one machine.

use std::convert::Infallible;
use std::fmt;

use solera_journal::{Error, Event, Lsn};
use solera_machine::{Address, Input, InputOf, Machine, Now, Output, OutputOf, RequestId, Turns};
use solera_time::Monotonic;

use crate::gate::Gate;
use crate::log::Log;
use crate::options::Options;

/// Runs one machine. The [crate documentation](crate) describes the calls that a host makes. `C` is
/// the host's state for clients that call the machine directly.
pub struct Driver<M: Machine, L: Log, C = Infallible> {
    machine: M,
    inbox: Turns<InputOf<M>>,
    /// Remaining cost that the current turn may spend.
    left: u64,
    /// `None` if the machine keeps no records.
    gate: Option<Gate<M, L, C>>,
}

impl<M: Machine, L: Log, C> Driver<M, L, C> {
    /// Creates a driver of a machine that keeps no records.
    pub fn in_memory(machine: M) -> Self {
        Driver { machine, inbox: Turns::default(), left: 0, gate: None }
    }

    /// Creates a driver of a machine whose records go to `log`; all records up to `persisted` are
    /// durable.
    pub fn with_log(machine: M, log: L, persisted: Lsn, options: Options) -> Self {
        let gate = Some(Gate::new(log, persisted, options));
        Driver { machine, inbox: Turns::default(), left: 0, gate }
    }

    /// Returns the machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Returns the machine for direct calls. The outputs of a call leave with the next
    /// [`poll`](Self::poll); its caller waits with [`hold`](Self::hold).
    pub fn machine_mut(&mut self) -> &mut M {
        &mut self.machine
    }

    /// Returns the log, if there is one.
    pub fn log(&self) -> Option<&L> {
        self.gate.as_ref().map(Gate::log)
    }

    /// Returns the log, for a host that completes its syncs. Only the driver appends records.
    pub fn log_mut(&mut self) -> Option<&mut L> {
        self.gate.as_mut().map(Gate::log_mut)
    }

    /// Passes an input to the machine.
    pub fn handle(&mut self, now: Now, input: InputOf<M>) {
        self.machine.handle(now, input);
    }

    /// Passes an input to the machine if no input waits and the turn's quantum is not spent.
    /// Otherwise queues it behind the inputs of its protocol that wait for [`work`](Self::work).
    pub fn take(&mut self, now: Now, input: InputOf<M>) {
        let share = M::share(&input);
        if self.left > 0 && self.inbox.is_empty() {
            self.left = self.left.saturating_sub(share.cost.max(1));
            self.machine.handle(now, input);
        } else {
            self.inbox.push(share, input);
        }
    }

    /// Begins a turn of cost `quantum` and passes waiting inputs to the machine, protocol by
    /// protocol. If [`has_inputs`](Self::has_inputs) is true afterwards, the host serves its other
    /// work and then begins another turn. A protocol with more input than the worker can handle
    /// thus delays others by one quantum, not by its whole queue.
    pub fn work(&mut self, now: Now, quantum: u64) {
        self.left = quantum;
        while self.left > 0
            && let Some((cost, input)) = self.inbox.pop()
        {
            self.left = self.left.saturating_sub(cost.max(1));
            self.machine.handle(now, input);
        }
    }

    /// Notifies the machine that a client wants no more replies to a request. A command that is
    /// still queued is dropped.
    pub fn cancel(&mut self, now: Now, request: RequestId) {
        let is_it = |input: &InputOf<M>| matches!(input, Input::Client { request: of, .. } if *of == request);
        self.inbox.retain(|input| !is_it(input));
        self.machine.handle(now, Input::Cancel { request });
    }

    /// Returns whether inputs wait for [`work`](Self::work).
    pub fn has_inputs(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Lets the machine execute what is due at `now`; returns whether anything was due. `full`
    /// returns the workers whose links are full. The machine sends them as little as possible until
    /// the next deadline.
    pub fn on_deadline(&mut self, now: Now, full: impl FnOnce() -> Vec<Address>) -> bool {
        let is_due = self.next_deadline().is_some_and(|deadline| now.monotonic >= deadline);
        if is_due {
            self.machine.hold_back(full());
            self.machine.on_deadline(now);
        }
        is_due
    }

    /// Returns when the machine next needs [`on_deadline`](Self::on_deadline).
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.machine.next_deadline()
    }

    /// Returns the next output, in order: messages and replies that may leave now, events, jobs,
    /// and records. Records are appended to the log before they are returned, unless the log has
    /// failed.
    pub fn poll(&mut self) -> Option<OutputOf<M>> {
        let Some(gate) = &mut self.gate else { return self.machine.poll_output() };
        if let Some(output) = gate.take_released() {
            return Some(output);
        }
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Records(records) => {
                    gate.write(&records);
                    return Some(Output::Records(records));
                }
                Output::Trace(event) => return Some(Output::Trace(event)),
                Output::Job { job, work } => return Some(Output::Job { job, work }),
                output => {
                    if let Some(output) = gate.pass(output) {
                        return Some(output);
                    }
                }
            }
        }
        None
    }

    /// Returns whether messages and replies wait for the log.
    pub fn waits(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::waits)
    }

    /// Returns whether the host should call [`submit`](Self::submit) after all clients that are
    /// ready to write have done so. During a sync, new records are collected for the next one.
    /// Where replies do not wait for the log, records are collected for longer.
    pub fn wants_submit(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::wants_submit)
    }

    /// Submits the appended records to the disk.
    pub fn submit(&mut self) {
        if let Some(gate) = &mut self.gate {
            gate.submit();
        }
    }

    /// Handles an event of the log.
    pub fn on_log_event(&mut self, event: Event) {
        if let Some(gate) = &mut self.gate {
            gate.on_event(event);
        }
    }

    /// Holds a client that has called the machine directly until all records that the machine has
    /// emitted so far are durable; then [`take_durable`](Self::take_durable) returns it. Returns
    /// the client at once if all records are durable or the options do not require that. Drops the
    /// client if the log fails or has failed and replies are no longer sent.
    ///
    /// Call this when [`poll`](Self::poll) has returned `None`: records that were not polled are
    /// not in the log yet.
    pub fn hold(&mut self, client: C) -> Option<C> {
        match &mut self.gate {
            Some(gate) => gate.hold(client),
            None => Some(client),
        }
    }

    /// Returns the next held client whose records are durable, in the order in which clients were
    /// held.
    pub fn take_durable(&mut self) -> Option<C> {
        self.gate.as_mut().and_then(Gate::take_durable)
    }

    /// Returns whether [`hold`](Self::hold) would hold a client.
    pub fn must_wait(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::must_wait)
    }

    /// Returns whether some appended records are not durable.
    pub fn has_undurable(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::has_undurable)
    }

    /// Returns the reason for which commands that write must be rejected: the log has failed, or
    /// has little space left and will fail unless it regains some.
    pub fn refuses(&self) -> Option<&Error> {
        self.gate.as_ref().and_then(Gate::refuses)
    }

    /// Returns whether the log has failed for good.
    pub fn has_stopped(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::has_stopped)
    }

    /// Returns `true` once after the log has failed.
    pub fn has_just_stopped(&mut self) -> bool {
        self.gate.as_mut().is_some_and(Gate::has_just_stopped)
    }

    /// Returns whether clients get replies. Where replies wait for the log, none are sent after it
    /// has failed: the state in memory that was not written is lost when the machine is rebuilt, so
    /// no client may see it.
    pub fn answers(&self) -> bool {
        self.gate.as_ref().is_none_or(Gate::answers)
    }

    /// Returns whether a checkpoint is due, because of the bytes written since the last one or
    /// because the log needs space.
    pub fn wants_checkpoint(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::wants_checkpoint)
    }

    /// Makes a checkpoint due regardless of the bytes written, because it may free space for the
    /// log.
    pub fn need_checkpoint(&mut self) {
        if let Some(gate) = &mut self.gate {
            gate.need_checkpoint();
        }
    }

    /// Returns whether a checkpoint is being written.
    pub fn is_saving(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::is_saving)
    }

    /// Returns the number of bytes of a checkpoint that wait for the disk.
    pub fn checkpoint_backlog(&self) -> usize {
        self.gate.as_ref().map_or(0, Gate::checkpoint_backlog)
    }

    /// Begins a checkpoint; gives up one that is being written. If the log cannot begin it,
    /// [`take_problem`](Self::take_problem) returns the error.
    pub fn begin_checkpoint(&mut self) {
        if let Some(gate) = &mut self.gate {
            gate.begin_checkpoint();
        }
    }

    /// Writes the next part of the checkpoint, with at most `keys` keys. Returns the part with the
    /// number of the last record whose effects it contains, even if the log rejects the part and
    /// the checkpoint is given up. Returns `None` if no checkpoint is being written, if it is
    /// complete, or if the machine has no part now.
    ///
    /// # Panics
    /// If [`poll`](Self::poll) has more outputs to return.
    pub fn save(&mut self, keys: usize) -> Option<(Lsn, M::Part)> {
        self.gate.as_mut()?.save(&self.machine, keys)
    }

    /// Returns the error that ended the last checkpoint, once.
    pub fn take_problem(&mut self) -> Option<Error> {
        self.gate.as_mut().and_then(Gate::take_problem)
    }
}

impl<M: Machine + fmt::Debug, L: Log, C> fmt::Debug for Driver<M, L, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("machine", &self.machine).finish_non_exhaustive()
    }
}
