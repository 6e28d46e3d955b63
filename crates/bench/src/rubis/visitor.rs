//! State of a client: its random choices, and its acknowledged actions.

use std::sync::atomic::Ordering;

use crate::random::Random;
use crate::rubis::Rubis;
use crate::rubis::catalogue::{self, Catalogue, REGIONS, Shelf, draw_quantity};
use crate::rubis::schema;
use crate::tally::Class;

/// Acknowledged actions of a client, which are checked at the end.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    /// Registered nicknames with their users.
    pub(crate) registered: Vec<(String, String)>,
    /// Items with their purchases.
    pub(crate) bought: Vec<(String, String)>,
    /// Items with their bids.
    pub(crate) bids: Vec<(String, String)>,
    /// Items whose auction the client has closed.
    pub(crate) closed: Vec<String>,
}

/// One client.
pub(crate) struct Visitor {
    /// Unique prefix of the identifiers that the client creates.
    name: String,
    made: u64,
    random: Random,
    /// Current item: one of those in the last search result.
    item: String,
    pub(crate) remembered: Remembered,
}

/// Arguments of a transaction, chosen before it runs, so that a retry uses the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// Identifier of the object that the transaction creates, if any.
    pub(crate) id: String,
    /// The client's own user.
    pub(crate) user: String,
    pub(crate) nickname: String,
    pub(crate) region: usize,
    /// Another user.
    pub(crate) other: String,
    /// An item to look at.
    pub(crate) item: String,
    /// An item to buy, to bid for or to close; equals `item` unless transactions should contend for
    /// it.
    pub(crate) contested_item: String,
    /// Nickname of a new user.
    pub(crate) new_nickname: String,
    pub(crate) shelf: Shelf,
    pub(crate) category_page: String,
    pub(crate) region_page: String,
    /// Quantity to sell.
    pub(crate) quantity: u64,
    /// Amount by which to exceed the highest known bid.
    pub(crate) raise: i64,
    pub(crate) price: i64,
    pub(crate) rating: i64,
    pub(crate) text: String,
}

impl Visitor {
    pub(crate) fn new(catalogue: &Catalogue, name: String, seed: u64) -> Visitor {
        let mut random = Random::new(seed);
        let item = random.below(catalogue.scale.items).to_string();
        Visitor { name, made: 0, random, item, remembered: Remembered::default() }
    }

    pub(crate) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Makes one of these items the current one.
    pub(crate) fn found(&mut self, items: Vec<String>) {
        if !items.is_empty() {
            let at = self.random.below(items.len() as u64);
            self.item.clone_from(&items[at as usize]);
        }
    }

    /// Chooses the arguments of one transaction.
    pub(crate) fn choose(&mut self, rubis: &Rubis, class: Class) -> Choice {
        let scale = rubis.catalogue.scale;
        let random = &mut self.random;
        self.made += 1;
        let id = format!("{}-{}", self.name, self.made);
        let user = random.below(scale.users);
        let region = random.below(REGIONS as u64) as usize;
        let shelf = rubis.catalogue.draw_shelf(region, random);
        let (contested_item, new_nickname) = match rubis.contended {
            Some(together) if class == Class::Strong => {
                let round = rubis.drawn.fetch_add(1, Ordering::Relaxed) / together;
                ((round % scale.items).to_string(), format!("{}-{round}", rubis.run))
            }
            _ => (self.item.clone(), id.clone()),
        };
        Choice {
            id,
            user: user.to_string(),
            nickname: catalogue::nickname(user),
            region,
            other: random.below(scale.users).to_string(),
            item: self.item.clone(),
            contested_item,
            new_nickname,
            shelf,
            category_page: schema::category_page(shelf.category, shelf.category_page),
            region_page: schema::region_page(region, shelf.category, shelf.region_page),
            quantity: draw_quantity(random),
            raise: random.within(1, 10) as i64,
            price: random.within(1, 5000) as i64,
            rating: random.within(0, 10) as i64 - 5,
            text: random.text(20),
        }
    }
}
