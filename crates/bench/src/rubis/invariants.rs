//! Invariants that must hold when all sites have all updates.

use std::collections::{BTreeMap, BTreeSet};

use solera::{Client, Error};

use crate::batch::Batch;
use crate::invariant::Invariant;
use crate::rubis::Remembered;
use crate::rubis::schema::{self, read_deed};

/// Number of items or names that are read at once.
const TOGETHER: usize = 40;

/// An item as it is in the database.
#[derive(Debug, Default)]
struct Item {
    id: String,
    quantity: i64,
    stock: i64,
    buys: BTreeMap<String, String>,
    bids: BTreeMap<String, String>,
    /// Value of the bid counter.
    counted: i64,
    winner: Option<String>,
    winning_bid: Option<String>,
}

/// Acknowledged actions of the clients on one item.
#[derive(Debug, Default)]
struct Deeds {
    bought: Vec<String>,
    bids: Vec<String>,
}

/// Checks all items and names that the clients have accessed. The client's site must have all their
/// writes.
///
/// # Errors
/// Fails if reading fails.
pub(crate) async fn check(
    client: &mut Client,
    remembered: Vec<Remembered>,
) -> Result<Vec<Invariant>, Error> {
    let mut names = Vec::new();
    let mut items: BTreeMap<String, Deeds> = BTreeMap::new();
    for one in remembered {
        names.extend(one.registered);
        for (item, purchase) in one.bought {
            items.entry(item).or_default().bought.push(purchase);
        }
        for (item, bid) in one.bids {
            items.entry(item).or_default().bids.push(bid);
        }
        for item in one.closed {
            items.entry(item).or_default();
        }
    }
    let mut found = vec![check_names(client, &names).await?];
    let mut rules = Rules::new();
    let items: Vec<(String, Deeds)> = items.into_iter().collect();
    for some in items.chunks(TOGETHER) {
        let ids: Vec<&str> = some.iter().map(|(id, _)| id.as_str()).collect();
        let read = read(client, &ids).await?;
        read.iter().zip(some).for_each(|(item, (_, deeds))| rules.check(item, deeds));
    }
    found.extend([rules.stock, rules.winners, rules.kept]);
    Ok(found)
}

/// Checks that every client whose registration was acknowledged has its nickname.
async fn check_names(
    client: &mut Client,
    registered: &[(String, String)],
) -> Result<Invariant, Error> {
    let mut rule = Invariant::new("nicknames are unique");
    for some in registered.chunks(TOGETHER) {
        let mut batch = Batch::default();
        some.iter().for_each(|(nickname, _)| batch.add(&["GET", &schema::nick(nickname)]));
        let mut replies = batch.send(client).await?;
        for (nickname, user) in some {
            let owner = replies.text()?;
            let wrong = || {
                let owner = owner.as_deref().unwrap_or("nobody");
                format!("'{nickname}' was given to {user}, and is {owner}'s")
            };
            rule.check((owner.as_ref() != Some(user)).then(wrong));
        }
    }
    Ok(rule)
}

async fn read(client: &mut Client, ids: &[&str]) -> Result<Vec<Item>, Error> {
    let mut batch = Batch::default();
    for id in ids {
        batch.add(&["HGET", &schema::item(id), "quantity"]);
        batch.add(&["GET", &schema::stock(id)]);
        batch.add(&["HGETALL", &schema::buys(id)]);
        batch.add(&["HGETALL", &schema::bids(id)]);
        batch.add(&["HGETALL", &schema::auction(id)]);
    }
    let mut replies = batch.send(client).await?;
    let items = ids.iter().map(|id| {
        let (quantity, stock) = (replies.number()?, replies.number()?);
        let (buys, bids) = (replies.map()?, replies.map()?);
        let mut auction = replies.map()?;
        let counted = auction.get("bids").and_then(|bids| bids.parse().ok()).unwrap_or(0);
        Ok(Item {
            id: (*id).to_owned(),
            quantity,
            stock,
            buys,
            bids,
            counted,
            winner: auction.remove("winner"),
            winning_bid: auction.remove("bid"),
        })
    });
    items.collect()
}

struct Rules {
    stock: Invariant,
    winners: Invariant,
    kept: Invariant,
}

impl Rules {
    fn new() -> Rules {
        Rules {
            stock: Invariant::new("no item is oversold"),
            winners: Invariant::new("the highest bid wins"),
            kept: Invariant::new("each acknowledged write is stored exactly once"),
        }
    }

    fn check(&mut self, item: &Item, deeds: &Deeds) {
        let id = &item.id;
        let sold: i64 = amounts(&item.buys).map(|(number, ..)| number).sum();
        let oversold = sold > item.quantity;
        self.stock.check(oversold.then(|| format!("item {id}: {sold} sold of {}", item.quantity)));
        if let Some(winner) = &item.winner {
            self.winners.check(wrong_winner(item, winner));
        }
        self.kept.check(lost(item, deeds, sold));
    }
}

/// Iterates over purchases or bids: their numbers, users and identifiers.
fn amounts(deeds: &BTreeMap<String, String>) -> impl Iterator<Item = (i64, &str, &str)> {
    deeds.iter().filter_map(|(id, deed)| read_deed(deed).map(|(n, user)| (n, user, id.as_str())))
}

fn wrong_winner(item: &Item, winner: &str) -> Option<String> {
    let id = &item.id;
    let (highest, ..) = amounts(&item.bids).max()?;
    let bid = item.winning_bid.as_deref().unwrap_or_default();
    match amounts(&item.bids).find(|(.., id)| *id == bid) {
        None => Some(format!("item {id}: {winner} won by a bid that is not there, '{bid}'")),
        Some((amount, user, _)) if user != winner => {
            Some(format!("item {id}: {winner} won by {user}'s bid of {amount}"))
        }
        Some((amount, ..)) if amount < highest => {
            Some(format!("item {id}: {winner} won with {amount}, and {highest} was bid"))
        }
        Some(_) => None,
    }
}

fn lost(item: &Item, deeds: &Deeds, sold: i64) -> Option<String> {
    let id = &item.id;
    let bought = deeds.bought.iter().find(|purchase| !item.buys.contains_key(*purchase));
    if let Some(purchase) = bought {
        return Some(format!("item {id}: the purchase {purchase} is not there"));
    }
    if let Some(bid) = deeds.bids.iter().find(|bid| !item.bids.contains_key(*bid)) {
        return Some(format!("item {id}: the bid {bid} is not there"));
    }
    let ids: BTreeSet<&String> = deeds.bought.iter().chain(&deeds.bids).collect();
    if ids.len() < deeds.bought.len() + deeds.bids.len() {
        return Some(format!(
            "item {id}: two clients received an acknowledgement of the same purchase or bid"
        ));
    }
    if item.quantity - sold != item.stock {
        let (quantity, stock) = (item.quantity, item.stock);
        return Some(format!("item {id}: {sold} sold of {quantity}, and {stock} left"));
    }
    if item.counted != item.bids.len() as i64 {
        let (counted, bids) = (item.counted, item.bids.len());
        return Some(format!("item {id}: {counted} bids were counted, and {bids} are there"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn item() -> Item {
        Item {
            id: "7".to_owned(),
            quantity: 5,
            stock: 2,
            buys: map(&[("b1", "1/ann"), ("b2", "2/bob")]),
            bids: map(&[("x1", "10/ann"), ("x2", "12/bob"), ("x3", "12/eve")]),
            counted: 3,
            winner: Some("bob".to_owned()),
            winning_bid: Some("x2".to_owned()),
        }
    }

    fn deeds() -> Deeds {
        let own = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        Deeds { bought: own(&["b1", "b2"]), bids: own(&["x2"]) }
    }

    /// Returns the violated rules, with descriptions.
    fn broken(item: &Item, deeds: &Deeds) -> Vec<String> {
        let mut rules = Rules::new();
        rules.check(item, deeds);
        let all = [rules.stock, rules.winners, rules.kept];
        all.into_iter().flat_map(|rule| rule.examples).collect()
    }

    #[test]
    fn a_valid_item_breaks_no_rule() {
        assert_eq!(broken(&item(), &deeds()), Vec::<String>::new());
        // An equal bid may win as well, and there may be purchases that were not acknowledged.
        let item =
            Item { winner: Some("eve".to_owned()), winning_bid: Some("x3".to_owned()), ..item() };
        assert_eq!(broken(&item, &Deeds::default()), Vec::<String>::new());
        assert_eq!(broken(&Item { winner: None, ..item }, &deeds()), Vec::<String>::new());
    }

    #[test]
    fn violations_of_each_rule_are_detected() {
        let text = |text: &str| Some(text.to_owned());
        let oversold = Item {
            stock: -1,
            buys: map(&[("b1", "1/ann"), ("b2", "2/bob"), ("b3", "3/eve")]),
            ..item()
        };
        let outbid = Item { winner: text("ann"), winning_bid: text("x1"), ..item() };
        for (item, reason) in [
            (oversold, "item 7: 6 sold of 5"),
            (outbid, "item 7: ann won with 10, and 12 was bid"),
            (Item { winner: text("eve"), ..item() }, "item 7: eve won by bob's bid of 12"),
            (Item { winning_bid: text("x9"), ..item() }, "item 7: bob won by a bid that is not"),
            (Item { stock: 3, ..item() }, "item 7: 3 sold of 5, and 3 left"),
            (Item { counted: 4, ..item() }, "item 7: 4 bids were counted, and 3 are there"),
        ] {
            let found = broken(&item, &deeds());
            assert!(found.len() == 1 && found[0].starts_with(reason), "{found:?}");
        }
        let mut lost = deeds();
        lost.bids.push("x4".to_owned());
        assert_eq!(broken(&item(), &lost), ["item 7: the bid x4 is not there"]);
        let mut lost = deeds();
        lost.bought.push("b3".to_owned());
        assert_eq!(broken(&item(), &lost), ["item 7: the purchase b3 is not there"]);
        let mut twice = deeds();
        twice.bids.push("x2".to_owned());
        assert!(broken(&item(), &twice)[0].contains("two clients"));
    }
}
