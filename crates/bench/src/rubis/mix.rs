//! The types of transactions, and their frequencies.
//!
//! RUBiS' clients walk through pages by a table of probabilities. UniStore's authors used the
//! bidding mix of the PoR paper (`cheng_15_updates_long_wait.csv` of their load generator), and
//! state 15% updates and 10% strong transactions. A walk of that table, without the pages that do
//! not use the database, gives 11% and 9%. Here each transaction is drawn independently with the
//! frequencies of that walk. The frequencies of the read-only, the causal and the strong
//! transactions are then scaled to the paper's shares.
//!
//! There are 11 read-only transactions. Pages with the same requests to the database count as one
//! transaction (`BrowseCategoriesInRegion` and `SelectCategoryToSellItem` are `browseCategories`),
//! and the search for an auction that is due is part of `closeAuction`.

use crate::random::Random;
use crate::tally::{Class, Kind};

macro_rules! transactions {
    ($($id:ident $name:literal $class:ident $weight:literal)*) => {
        /// A type of transaction.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Transaction {
            $($id),*
        }

        impl Transaction {
            pub(crate) const ALL: &[Transaction] = &[$(Transaction::$id),*];
        }

        const KINDS: &[Kind] = &[$(Kind { name: $name, class: Class::$class }),*];

        /// Frequency of each type, out of 10,000 transactions.
        const WEIGHTS: &[u32] = &[$($weight),*];
    };
}

transactions! {
    BrowseCategories "browseCategories" Read 1561
    BrowseRegions "browseRegions" Read 423
    SearchItemsInCategory "searchItemsInCategory" Read 2123
    SearchItemsInRegion "searchItemsInRegion" Read 850
    ViewItem "viewItem" Read 1669
    ViewUserInfo "viewUserInfo" Read 320
    ViewBidHistory "viewBidHistory" Read 198
    BuyNow "buyNow" Read 136
    PutBid "putBid" Read 674
    PutComment "putComment" Read 60
    AboutMe "aboutMe" Read 486
    StoreComment "storeComment" Causal 175
    RegisterItem "registerItem" Causal 325
    RegisterUser "registerUser" Strong 227
    StoreBuyNow "storeBuyNow" Strong 158
    StoreBid "storeBid" Strong 587
    CloseAuction "closeAuction" Strong 28
}

/// Frequency of each strong type in contended runs. All strong types are equally frequent, so types
/// that can conflict often do. The sum of their frequencies is that of other runs.
const CONTENDED: u32 = 250;

pub(crate) fn kinds() -> Vec<Kind> {
    KINDS.to_vec()
}

pub(crate) fn class_of(kind: usize) -> Class {
    KINDS[kind].class
}

/// Chooses the type of the next transaction; returns its index.
pub(crate) fn draw(random: &mut Random, contended: bool) -> usize {
    if !contended {
        return random.weighted(WEIGHTS);
    }
    let even = |(kind, weight): (&Kind, &u32)| match kind.class {
        Class::Strong => CONTENDED,
        _ => *weight,
    };
    let weights: Vec<u32> = KINDS.iter().zip(WEIGHTS).map(even).collect();
    random.weighted(&weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(class: Class) -> u32 {
        let of_class = KINDS.iter().zip(WEIGHTS).filter(|(kind, _)| kind.class == class);
        of_class.map(|(_, weight)| weight).sum()
    }

    #[test]
    fn transactions_and_their_shares_match_the_paper() {
        let count = |class| KINDS.iter().filter(|kind| kind.class == class).count();
        assert_eq!(Class::ALL.map(count), [11, 2, 4, 0, 0, 0]);
        assert_eq!(Class::ALL.map(share), [8500, 500, 1000, 0, 0, 0]);
    }

    #[test]
    fn contention_keeps_the_share_of_strong_transactions() {
        let mut random = Random::new(1);
        let mut drawn = vec![0_u32; KINDS.len()];
        for _ in 0..100_000 {
            drawn[draw(&mut random, true)] += 1;
        }
        for (kind, drawn) in
            KINDS.iter().zip(&drawn).filter(|(kind, _)| kind.class == Class::Strong)
        {
            assert!(drawn.abs_diff(2500) < 250, "{}: {drawn}", kind.name);
        }
        assert!(drawn[0].abs_diff(15_610) < 800);
    }
}
