//! Conditional atomic broadcast (Creek §3.3, §5): the members agree on an order of ids, and each
//! member delivers an id only where its predicate holds. A state machine without I/O.
//!
//! The broadcast is a Multi-Paxos. The leader of a term proposes batches of ids for numbered slots.
//! A member accepts a batch when the predicates of its ids hold there, and sends its acceptance to
//! all members. Each member therefore decides by itself: the ids of a body that has arrived at the
//! leader are delivered everywhere after two more message delays. Slots are accepted in any order
//! and delivered in theirs.
//!
//! There is no message for a cast. The broadcast of the body is the cast: the leader proposes an id
//! as soon as the predicate holds at its own site. The bodies are the owner's, who has a
//! [`Predicate`] for them.
//!
//! `docs/decisions/0048-conditional-atomic-broadcast.md` has the reasons, and the differences from
//! the paper.
//!
//! | module | subject |
//! |---|---|
//! | `member` | the interface of a member |
//! | `predicate` | what the owner supplies |
//! | `participant` | dispatch of inputs; what follows every input |
//! | `log` | slots: proposals, acceptances, votes, decisions |
//! | `runs` | the order of the casts of each run; casts that are not delivered |
//! | `state`, `state::accepting`, `state::delivery` | the part of every role: accepting, deciding, delivering |
//! | `leading` | a leader: proposals, status, what all members have delivered |
//! | `succession` | elections, which `solera-election` decides; the beginning of a term |
//! | `handing_over` | promises, in parts |
//! | `catching_up` | decisions that a member lacks |
//! | `recovery` | records, checkpoints |
//! | `message`, `record`, `ids`, `config`, `step`, `rare` | data types; the context of one input |
//!
//! ```
//! use solera_consensus::{CastId, Config, Member, Output, Predicate, Run, Slot};
//! use solera_time::{Monotonic, SiteId};
//!
//! /// Casts whose bodies are here; a body is a text.
//! struct Bodies(Vec<(CastId, String)>);
//!
//! impl Predicate<String> for Bodies {
//!     fn holds(&self, id: CastId) -> bool {
//!         self.0.iter().any(|(known, _)| *known == id)
//!     }
//!     fn bodies(&self, ids: &[CastId]) -> Vec<String> {
//!         let bodies = self.0.iter().filter(|(known, _)| ids.contains(known));
//!         bodies.map(|(_, body)| body.clone()).collect()
//!     }
//!     fn bytes(&self, body: &String) -> usize {
//!         body.len()
//!     }
//! }
//!
//! // The only member decides by itself.
//! let me = SiteId(0);
//! let mut member: Member<String> = Member::new(Config::new(me, 1, me), Monotonic(0));
//! let mut bodies = Bodies(Vec::new());
//! member.begin(Monotonic(0), &bodies, true);
//! let id = Run { site: me, number: 0 }.cast(1);
//! bodies.0.push((id, "transfer".to_owned()));
//! member.learn(Monotonic(0), &bodies, id);
//! let outputs: Vec<_> = std::iter::from_fn(|| member.poll_output()).collect();
//! assert!(outputs.contains(&Output::Deliver { slot: Slot(1), ids: vec![id] }));
//! ```

mod catching_up;
mod config;
mod handing_over;
mod ids;
mod leading;
mod log;
mod member;
mod message;
mod participant;
mod predicate;
mod rare;
mod record;
mod recovery;
mod runs;
mod state;
mod step;
mod succession;

pub use config::{Config, Rule, Timing, Variant};
pub use ids::{Batch, CastId, Held, Run, Slot};
pub use member::Member;
pub use message::{Message, Output};
pub use predicate::Predicate;
pub use rare::ALL as RARE_PATHS;
pub use record::{Checkpoint, Delivery, NotRestored, Part, Record, Snapshot};
