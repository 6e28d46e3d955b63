//! RUBiS' tables as keys of Solera.
//!
//! | key | type | content |
//! |---|---|---|
//! | `rubis:data` | string | the scale of the loaded data |
//! | `rubis:categories`, `rubis:regions` | hash | number → name |
//! | `rubis:nick:NICKNAME` | string | the user's id: a nickname belongs to one user |
//! | `rubis:user:U` | hash | `nickname` `first` `last` `password` `region`; `rating`, a counter |
//! | `rubis:comments:U` | hash | comment → `from/item/rating/text`, about user U |
//! | `rubis:item:I` | hash | `name` `description` `seller` `category` `region` `initial` `reserve` `buy_now` `quantity`, the number of units for sale; `max_bid`, a hint for searches |
//! | `rubis:stock:I` | counter | number of remaining units |
//! | `rubis:buys:I` | hash | purchase → `quantity/user` |
//! | `rubis:auction:I` | hash | `bids`, a counter; after closing also `winner`, `bid` and `amount` |
//! | `rubis:bids:I` | hash | bid → `amount/user` |
//! | `rubis:category:C:P` | set | page P of the items in a category |
//! | `rubis:region:R:C:P` | set | page P of the items in a category whose seller is in a region |
//! | `rubis:sells:U`, `rubis:bidson:U`, `rubis:bought:U`, `rubis:won:U` | set | a user's items |
//!
//! Concurrent bids merge: they are fields of one hash, and readers compute the highest.
//!
//! **Conflicts.** Three keys are in spaces of level `por` ([`SPACES`]), one for each conflict of
//! the paper:
//!
//! | conflict | operations | reason |
//! |---|---|---|
//! | registerUser with registerUser | `SET rubis:nick:N` | a nickname belongs to one user |
//! | storeBuyNow with storeBuyNow | `DECRBY rubis:stock:I` | no more units are sold than exist |
//! | storeBid with closeAuction | `HINCRBY` and `HSET` of `rubis:auction:I` | the highest bid wins |
//!
//! Two closings of one auction need no conflict: no bid can commit between them, so both determine
//! the same winner.

/// Spaces of a cluster on which the four transactions are strong, in the format of `solera.toml`.
pub(crate) const SPACES: &str = r#"[[space]]
name = "rubis-names"
prefix = "rubis:nick:"
level = "por"
strong = ["SET"]
conflicts = [["SET", "SET"]]

[[space]]
name = "rubis-stock"
prefix = "rubis:stock:"
level = "por"
strong = ["DECRBY"]
conflicts = [["DECRBY", "DECRBY"]]

[[space]]
name = "rubis-auctions"
prefix = "rubis:auction:"
level = "por"
strong = ["HINCRBY", "HSET"]
conflicts = [["HINCRBY", "HSET"]]
"#;

pub(crate) const DATA: &str = "rubis:data";
pub(crate) const CATEGORIES: &str = "rubis:categories";
pub(crate) const REGIONS: &str = "rubis:regions";

macro_rules! keys {
    ($($name:ident $text:literal)*) => {
        $(pub(crate) fn $name(id: &str) -> String {
            format!(concat!("rubis:", $text, ":{}"), id)
        })*
    };
}

keys! {
    nick "nick"
    user "user"
    comments "comments"
    item "item"
    stock "stock"
    buys "buys"
    auction "auction"
    bids "bids"
    sells "sells"
    bids_on "bidson"
    bought "bought"
    won "won"
}

pub(crate) fn category_page(category: usize, page: u64) -> String {
    format!("rubis:category:{category}:{page}")
}

pub(crate) fn region_page(region: usize, category: usize, page: u64) -> String {
    format!("rubis:region:{region}:{category}:{page}")
}

/// Encodes a bid or a purchase: its number and its user.
pub(crate) fn deed(number: i64, user: &str) -> String {
    format!("{number}/{user}")
}

/// Decodes the number and the user of a [`deed`]; `None` if it is invalid.
pub(crate) fn read_deed(text: &str) -> Option<(i64, &str)> {
    let (number, user) = text.split_once('/')?;
    Some((number.parse().ok()?, user))
}
