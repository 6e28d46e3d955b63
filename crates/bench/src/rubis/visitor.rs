//! A client: whom and what it chooses, and what it remembers.

use std::sync::atomic::Ordering;

use crate::random::Random;
use crate::rubis::Rubis;
use crate::rubis::catalogue::{self, Catalogue, REGIONS, Shelf, draw_quantity};
use crate::rubis::schema;
use crate::tally::Class;

/// What a client has been told it has done, to be found at the end.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    /// Nicknames, and whose they are.
    pub(crate) registered: Vec<(String, String)>,
    /// Items, and purchases of them.
    pub(crate) bought: Vec<(String, String)>,
    /// Items, and bids for them.
    pub(crate) bids: Vec<(String, String)>,
    /// Items whose auction it has closed.
    pub(crate) closed: Vec<String>,
}

/// One client.
pub(crate) struct Visitor {
    /// Begins the identifiers of all that the client makes, which no other client uses.
    name: String,
    made: u64,
    random: Random,
    /// The item it has an eye on: one of those that it has found last.
    item: String,
    pub(crate) remembered: Remembered,
}

/// All that a transaction may need to be told, chosen before it runs, so that it does the same when
/// it is run again.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The identifier of what the transaction makes, if it makes something.
    pub(crate) id: String,
    /// The client's own user, and the name it has.
    pub(crate) user: String,
    pub(crate) nickname: String,
    pub(crate) region: usize,
    /// Another user.
    pub(crate) other: String,
    /// An item to look at.
    pub(crate) item: String,
    /// An item to buy, to bid for or to close; the same as `item`, unless many are to meet at it.
    pub(crate) contested_item: String,
    /// The name that a new user wants.
    pub(crate) new_nickname: String,
    pub(crate) shelf: Shelf,
    pub(crate) category_page: String,
    pub(crate) region_page: String,
    /// How many to sell.
    pub(crate) quantity: u64,
    /// By how much to bid more than the highest bid one knows of.
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

    /// Has an eye on one of these items from now on.
    pub(crate) fn found(&mut self, items: Vec<String>) {
        if !items.is_empty() {
            let at = self.random.below(items.len() as u64);
            self.item.clone_from(&items[at as usize]);
        }
    }

    /// Chooses for one transaction.
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
