//! Content of a loaded database. It is a function of the scale, so clients compute it without
//! reading the database.

use std::fmt;
use std::str::FromStr;

use crate::random::Random;

/// Amount of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    name: &'static str,
    /// Number of items for sale.
    pub items: u64,
    /// Number of registered users.
    pub users: u64,
}

impl Scale {
    /// The largest scale.
    pub const FULL: Scale = Scale::ALL[3];

    /// All scales, the largest being RUBiS' own.
    pub const ALL: [Scale; 4] = [
        Scale { name: "tiny", items: 66, users: 2_000 },
        Scale { name: "small", items: 330, users: 10_000 },
        Scale { name: "medium", items: 3_300, users: 100_000 },
        Scale { name: "full", items: 33_000, users: 1_000_000 },
    ];
}

/// Returns the small scale.
impl Default for Scale {
    fn default() -> Scale {
        Scale::ALL[1]
    }
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Scale, String> {
        let found = Scale::ALL.into_iter().find(|scale| scale.name == text);
        let names = Scale::ALL.map(|scale| scale.name).join(", ");
        found.ok_or_else(|| format!("the scales are {names}"))
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

pub(crate) const REGIONS: usize = 62;
pub(crate) const CATEGORIES: usize = 20;
/// How many of RUBiS' 33,000 items are in each category.
const CATEGORY_ITEMS: [u32; CATEGORIES] = [
    1374, 2691, 292, 2874, 538, 7521, 664, 586, 1077, 976, 2325, 1051, 1420, 270, 1069, 3029, 405,
    342, 3671, 825,
];
/// Number of items on a page of a search.
pub(crate) const PAGE: u64 = 20;
/// Maximum number of bids that an item is loaded with.
const MOST_BIDS: u64 = 50;
/// Maximum number of loaded comments about the seller for each item.
const MOST_COMMENTS: u64 = 25;
/// Percentage of items with a quantity above one, as in RUBiS. The maximum quantity is ten.
const SEVERAL_PERCENT: u8 = 20;
const MOST_OF_ONE: u64 = 10;

/// Position of an item in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shelf {
    pub(crate) category: usize,
    pub(crate) category_page: u64,
    pub(crate) region: usize,
    pub(crate) region_page: u64,
}

/// A loaded item without its shelf.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) seller: u64,
    pub(crate) quantity: u64,
    pub(crate) initial: i64,
    pub(crate) bids: u64,
    pub(crate) comments: u64,
    /// Random numbers for its content.
    pub(crate) random: Random,
}

/// Shelves of the loaded items.
pub(crate) struct Catalogue {
    pub(crate) scale: Scale,
    shelves: Vec<Shelf>,
    category_items: [u64; CATEGORIES],
    region_items: Vec<[u64; CATEGORIES]>,
}

impl Catalogue {
    pub(crate) fn new(scale: Scale) -> Catalogue {
        let mut random = Random::new(0);
        let mut category_items = [0; CATEGORIES];
        let mut region_items = vec![[0; CATEGORIES]; REGIONS];
        let shelf = |number| {
            let category = random.weighted(&CATEGORY_ITEMS);
            let region = region_of(item(scale, number).seller);
            let (in_category, in_region) =
                (&mut category_items[category], &mut region_items[region][category]);
            let shelf = Shelf {
                category,
                category_page: *in_category / PAGE,
                region,
                region_page: *in_region / PAGE,
            };
            *in_category += 1;
            *in_region += 1;
            shelf
        };
        let shelves = (0..scale.items).map(shelf).collect();
        Catalogue { scale, shelves, category_items, region_items }
    }

    pub(crate) fn shelf(&self, item: u64) -> Shelf {
        self.shelves[item as usize]
    }

    /// Chooses a shelf for a search or a new item. Draws a category with a probability proportional
    /// to its number of items, then a random page of the category, and a random page of its items
    /// in the region.
    pub(crate) fn draw_shelf(&self, region: usize, random: &mut Random) -> Shelf {
        let category = random.weighted(&CATEGORY_ITEMS);
        let pages = |items: u64| items.div_ceil(PAGE).max(1);
        Shelf {
            category,
            category_page: random.below(pages(self.category_items[category])),
            region,
            region_page: random.below(pages(self.region_items[region][category])),
        }
    }

    pub(crate) fn item(&self, number: u64) -> Item {
        item(self.scale, number)
    }
}

fn item(scale: Scale, number: u64) -> Item {
    let mut random = Random::new(number);
    Item {
        seller: random.below(scale.users),
        quantity: draw_quantity(&mut random),
        initial: random.within(1, 5000) as i64,
        bids: random.within(1, MOST_BIDS),
        comments: random.within(1, MOST_COMMENTS),
        random,
    }
}

/// Chooses the quantity of an item.
pub(crate) fn draw_quantity(random: &mut Random) -> u64 {
    match random.chance(SEVERAL_PERCENT) {
        true => random.within(2, MOST_OF_ONE),
        false => 1,
    }
}

/// Returns the region of a loaded user.
pub(crate) fn region_of(user: u64) -> usize {
    (user % REGIONS as u64) as usize
}

/// Returns the nickname of a loaded user.
pub(crate) fn nickname(user: u64) -> String {
    format!("user{user}")
}

/// Returns the password of a user, which need not be secret.
pub(crate) fn password(nickname: &str) -> String {
    format!("password of {nickname}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_fill_the_pages_of_their_categories() {
        for scale in Scale::ALL {
            assert_eq!(scale.to_string().parse::<Scale>(), Ok(scale));
            let catalogue = Catalogue::new(scale);
            assert_eq!(catalogue.category_items.iter().sum::<u64>(), scale.items);
            let in_regions = catalogue.region_items.iter().flatten().sum::<u64>();
            assert_eq!(in_regions, scale.items);
            let mut on_page = std::collections::BTreeMap::new();
            for number in 0..scale.items {
                let shelf = catalogue.shelf(number);
                *on_page.entry((shelf.category, shelf.category_page)).or_insert(0) += 1;
            }
            assert!(on_page.values().all(|items| *items <= PAGE));
        }
        assert!("huge".parse::<Scale>().unwrap_err().contains("tiny, small, medium, full"));
    }

    #[test]
    fn all_drawn_shelves_exist() {
        let catalogue = Catalogue::new("small".parse().unwrap());
        let mut random = Random::new(5);
        for _ in 0..10_000 {
            let region = random.below(REGIONS as u64) as usize;
            let shelf = catalogue.draw_shelf(region, &mut random);
            let items = catalogue.category_items[shelf.category];
            assert!(shelf.category_page * PAGE < items.max(1), "{shelf:?} of {items}");
            let items = catalogue.region_items[region][shelf.category];
            assert!(shelf.region_page * PAGE < items.max(1), "{shelf:?} of {items}");
        }
    }
}
