//! RUBiS: an auction house, as in UniStore §8.1.
//!
//! | module | subject |
//! |---|---|
//! | `schema` | keys, records and spaces |
//! | `catalogue` | content of a loaded database, which every client can compute |
//! | `load` | writes this content |
//! | `mix` | types of transactions, and their frequencies |
//! | `transactions` | implementations of the transactions |
//! | `visitor` | a client: its random choices, and its acknowledged actions |
//! | `invariants` | conditions that must hold at the end |

pub(crate) mod catalogue;
pub(crate) mod invariants;
pub(crate) mod load;
mod mix;
pub(crate) mod schema;
mod transactions;
mod visitor;

use std::sync::atomic::AtomicU64;

use solera::Error;

use crate::closed_loop::Workload;
use crate::session::{BenchSession, BenchSessions};
use crate::tally::{Done, Kind};
use catalogue::Catalogue;
pub use catalogue::Scale;
use mix::Transaction;
pub(crate) use visitor::{Remembered, Visitor};

/// A run of RUBiS.
pub(crate) struct Rubis {
    catalogue: Catalogue,
    /// Name that distinguishes this run's identifiers from those of other runs on the same data.
    run: String,
    seed: u64,
    /// Number of consecutive strong transactions that contend for the same name or item.
    contended: Option<u64>,
    /// Number of strong transactions drawn so far; used only with `contended`.
    drawn: AtomicU64,
}

impl Rubis {
    pub(crate) fn new(scale: Scale, seed: u64, run: String, contended: Option<u64>) -> Rubis {
        let catalogue = Catalogue::new(scale);
        Rubis { catalogue, run, seed, contended, drawn: AtomicU64::new(0) }
    }

    pub(crate) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }
}

impl Workload for Rubis {
    type Sessions = BenchSessions;
    type Visitor = Visitor;

    fn kinds(&self) -> Vec<Kind> {
        mix::kinds()
    }

    fn visitor(&self, client: usize) -> Visitor {
        Visitor::new(&self.catalogue, format!("{}-{client}", self.run), self.seed ^ client as u64)
    }

    fn next(&self, visitor: &mut Visitor) -> usize {
        mix::draw(visitor.random(), self.contended.is_some())
    }

    #[expect(clippy::too_many_lines, reason = "one arm per transaction")]
    async fn run(
        &self,
        kind: usize,
        visitor: &mut Visitor,
        session: &mut BenchSession,
    ) -> Result<Done, Error> {
        use Transaction as T;
        let here = visitor.choose(self, mix::class_of(kind));
        let remembered = &mut visitor.remembered;
        match Transaction::ALL[kind] {
            T::BrowseCategories => session.causal(transactions::browse_categories).await?,
            T::BrowseRegions => session.causal(transactions::browse_regions).await?,
            T::SearchItemsInCategory => {
                let body = async |tx: &mut _| transactions::search(tx, &here.category_page).await;
                visitor.found(session.causal(body).await?);
            }
            T::SearchItemsInRegion => {
                let body = async |tx: &mut _| transactions::search(tx, &here.region_page).await;
                visitor.found(session.causal(body).await?);
            }
            T::ViewItem => {
                session.causal(async |tx| transactions::view_item(tx, &here.item).await).await?;
            }
            T::ViewUserInfo => {
                session.causal(async |tx| transactions::view_user(tx, &here.other).await).await?;
            }
            T::ViewBidHistory => {
                session.causal(async |tx| transactions::view_bids(tx, &here.item).await).await?;
            }
            T::BuyNow => {
                session.causal(async |tx| transactions::buy_now(tx, &here).await).await?;
            }
            T::PutBid => {
                session.causal(async |tx| transactions::put_bid(tx, &here).await).await?;
            }
            T::PutComment => {
                session.causal(async |tx| transactions::put_comment(tx, &here).await).await?;
            }
            T::AboutMe => {
                session.causal(async |tx| transactions::about_me(tx, &here).await).await?;
            }
            T::StoreComment => {
                let body = async |tx: &mut _| transactions::store_comment(tx, &here).await;
                session.causal(body).await?;
            }
            T::RegisterItem => {
                let body = async |tx: &mut _| transactions::register_item(tx, &here).await;
                session.causal(body).await?;
            }
            T::RegisterUser => {
                let body = async |tx: &mut _| transactions::register_user(tx, &here).await;
                let done = session.strong(body).await?;
                if done == Done::Well {
                    remembered.registered.push((here.new_nickname, here.id));
                }
                return Ok(done);
            }
            T::StoreBuyNow => {
                let body = async |tx: &mut _| transactions::store_buy_now(tx, &here).await;
                let done = session.strong(body).await?;
                if done == Done::Well {
                    remembered.bought.push((here.contested_item, here.id));
                }
                return Ok(done);
            }
            T::StoreBid => {
                let body = async |tx: &mut _| transactions::store_bid(tx, &here).await;
                let done = session.strong(body).await?;
                if done == Done::Well {
                    remembered.bids.push((here.contested_item, here.id));
                }
                return Ok(done);
            }
            T::CloseAuction => {
                let body = async |tx: &mut _| transactions::close_auction(tx, &here).await;
                let done = session.strong(body).await?;
                if done == Done::Well {
                    remembered.closed.push(here.contested_item);
                }
                return Ok(done);
            }
        }
        Ok(Done::Well)
    }
}
