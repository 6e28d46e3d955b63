//! Implementations of the transactions. The caller begins and ends each transaction.

use std::collections::{BTreeMap, BTreeSet};

use solera::{Client, Error};

use crate::batch::{Batch, number};
use crate::rubis::catalogue::{PAGE, password};
use crate::rubis::schema::{self, deed, read_deed};
use crate::rubis::visitor::Choice;
use crate::tally::Done;

/// Maximum number of entries of a user or an item on one page.
const SHOWN: usize = PAGE as usize;

/// Fields of an item in a list.
const IN_LIST: [&str; 5] = ["name", "initial", "max_bid", "buy_now", "seller"];
/// Fields of an item on its page.
const ON_PAGE: [&str; 9] = [
    "name",
    "description",
    "seller",
    "category",
    "initial",
    "reserve",
    "buy_now",
    "quantity",
    "max_bid",
];

fn fields<'a>(key: &'a str, fields: &[&'a str]) -> Vec<&'a str> {
    [&["HMGET", key], fields].concat()
}

pub(crate) async fn browse_categories(tx: &mut Client) -> Result<(), Error> {
    tx.hgetall(schema::CATEGORIES).await.map(drop)
}

pub(crate) async fn browse_regions(tx: &mut Client) -> Result<(), Error> {
    tx.hgetall(schema::REGIONS).await.map(drop)
}

/// Reads the items on a page of a search.
pub(crate) async fn search(tx: &mut Client, page: &str) -> Result<Vec<String>, Error> {
    let items: Vec<String> = tx.smembers(page).await?.into_iter().take(SHOWN).collect();
    list(tx, &items).await?;
    Ok(items)
}

/// Reads the fields of items in a list.
async fn list<I: AsRef<str>>(tx: &mut Client, items: &[I]) -> Result<(), Error> {
    let mut batch = Batch::default();
    for item in items {
        batch.add(&fields(&schema::item(item.as_ref()), &IN_LIST));
        batch.add(&["HGET", &schema::auction(item.as_ref()), "bids"]);
    }
    if !batch.is_empty() {
        batch.send(tx).await?;
    }
    Ok(())
}

/// Reads the nicknames of users.
async fn nicknames<'a>(tx: &mut Client, users: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    let mut batch = Batch::default();
    for user in users.collect::<BTreeSet<_>>().into_iter().take(SHOWN) {
        batch.add(&["HGET", &schema::user(user), "nickname"]);
    }
    if !batch.is_empty() {
        batch.send(tx).await?;
    }
    Ok(())
}

pub(crate) async fn view_item(tx: &mut Client, item: &str) -> Result<(), Error> {
    let batch = Batch::default()
        .with(&fields(&schema::item(item), &ON_PAGE))
        .with(&["GET", &schema::stock(item)])
        .with(&fields(&schema::auction(item), &["bids", "winner"]));
    let shown = batch.send(tx).await?.fields()?;
    nicknames(tx, shown[2].as_deref().into_iter()).await
}

pub(crate) async fn view_user(tx: &mut Client, user: &str) -> Result<(), Error> {
    let batch = Batch::default()
        .with(&["HGETALL", &schema::user(user)])
        .with(&["HGETALL", &schema::comments(user)]);
    let mut replies = batch.send(tx).await?;
    replies.map()?;
    commenters(tx, &replies.map()?).await
}

async fn commenters(tx: &mut Client, comments: &BTreeMap<String, String>) -> Result<(), Error> {
    let from = comments.values().filter_map(|comment| Some(comment.split_once('/')?.0));
    nicknames(tx, from).await
}

pub(crate) async fn view_bids(tx: &mut Client, item: &str) -> Result<(), Error> {
    let batch = Batch::default()
        .with(&["HGET", &schema::item(item), "name"])
        .with(&["HGETALL", &schema::bids(item)]);
    let mut replies = batch.send(tx).await?;
    replies.text()?;
    let bids = replies.map()?;
    nicknames(tx, bids.values().filter_map(|bid| Some(read_deed(bid)?.1))).await
}

/// Returns the user of a nickname, if the password is correct.
async fn log_in(tx: &mut Client, nickname: &str) -> Result<Option<String>, Error> {
    let Some(user) = tx.get(&schema::nick(nickname)).await? else { return Ok(None) };
    let found = tx.hget(&schema::user(&user), "password").await?;
    Ok(found.filter(|found| *found == password(nickname)).map(|_| user))
}

pub(crate) async fn buy_now(tx: &mut Client, choice: &Choice) -> Result<(), Error> {
    log_in(tx, &choice.nickname).await?;
    view_item(tx, &choice.item).await
}

pub(crate) async fn put_bid(tx: &mut Client, choice: &Choice) -> Result<(), Error> {
    log_in(tx, &choice.nickname).await?;
    view_item(tx, &choice.item).await?;
    tx.hgetall(&schema::bids(&choice.item)).await.map(drop)
}

pub(crate) async fn put_comment(tx: &mut Client, choice: &Choice) -> Result<(), Error> {
    log_in(tx, &choice.nickname).await?;
    let batch = Batch::default().with(&["HGET", &schema::user(&choice.other), "nickname"]).with(&[
        "HGET",
        &schema::item(&choice.item),
        "name",
    ]);
    batch.send(tx).await.map(drop)
}

pub(crate) async fn about_me(tx: &mut Client, choice: &Choice) -> Result<(), Error> {
    let Some(user) = log_in(tx, &choice.nickname).await? else { return Ok(()) };
    let mut batch = Batch::default().with(&["HGETALL", &schema::comments(&user)]);
    batch.add(&["HGETALL", &schema::user(&user)]);
    let lists = [schema::bids_on, schema::sells, schema::won, schema::bought];
    lists.iter().for_each(|list| batch.add(&["SMEMBERS", &list(&user)]));
    let mut replies = batch.send(tx).await?;
    let comments = replies.map()?;
    replies.map()?;
    let mut items = Vec::new();
    for _ in lists {
        items.extend(replies.set()?.into_iter().take(SHOWN));
    }
    list(tx, &items).await?;
    commenters(tx, &comments).await
}

/// Registers a user, in a strong transaction that conflicts with itself on the nickname.
pub(crate) async fn register_user(tx: &mut Client, choice: &Choice) -> Result<Done, Error> {
    let (nickname, user) = (&choice.new_nickname, &choice.id);
    let nick = schema::nick(nickname);
    if tx.exists(&nick).await? {
        return Ok(Done::Refused);
    }
    let batch = Batch::default().with(&["SET", &nick, user]).with(&[
        "HSET",
        &schema::user(user),
        "nickname",
        nickname,
        "first",
        &choice.text,
        "last",
        &choice.text,
        "password",
        &password(nickname),
        "region",
        &choice.region.to_string(),
    ]);
    batch.send(tx).await?;
    Ok(Done::Well)
}

/// Buys an item at its fixed price, in a strong transaction that conflicts with itself on the item.
pub(crate) async fn store_buy_now(tx: &mut Client, choice: &Choice) -> Result<Done, Error> {
    let item = &choice.contested_item;
    let stock = schema::stock(item);
    let left = tx.get(&stock).await?.map_or(Ok(0), |text| number(&text))?;
    let wanted = choice.quantity as i64;
    if left < wanted {
        return Ok(Done::Refused);
    }
    let batch = Batch::default()
        .with(&["DECRBY", &stock, &wanted.to_string()])
        .with(&["HSET", &schema::buys(item), &choice.id, &deed(wanted, &choice.user)])
        .with(&["SADD", &schema::bought(&choice.user), item]);
    batch.send(tx).await?;
    Ok(Done::Well)
}

/// Bids for an item, in a strong transaction that conflicts with [`close_auction`] on the item.
pub(crate) async fn store_bid(tx: &mut Client, choice: &Choice) -> Result<Done, Error> {
    let item = &choice.contested_item;
    let batch = Batch::default()
        .with(&["HGET", &schema::auction(item), "winner"])
        .with(&["HGET", &schema::item(item), "initial"])
        .with(&["HGET", &schema::item(item), "max_bid"]);
    let mut replies = batch.send(tx).await?;
    if replies.text()?.is_some() {
        return Ok(Done::Refused);
    }
    let (initial, highest) = (replies.number()?, replies.number()?);
    let amount = initial.max(highest) + choice.raise;
    let batch = Batch::default()
        .with(&["HSET", &schema::bids(item), &choice.id, &deed(amount, &choice.user)])
        .with(&["HINCRBY", &schema::auction(item), "bids", "1"])
        .with(&["HSET", &schema::item(item), "max_bid", &amount.to_string()])
        .with(&["SADD", &schema::bids_on(&choice.user), item]);
    batch.send(tx).await?;
    Ok(Done::Well)
}

/// Closes an auction, in a strong transaction that conflicts with [`store_bid`] on the item.
pub(crate) async fn close_auction(tx: &mut Client, choice: &Choice) -> Result<Done, Error> {
    let item = &choice.contested_item;
    let auction = schema::auction(item);
    let batch = Batch::default()
        .with(&["HGET", &auction, "winner"])
        .with(&["HGETALL", &schema::bids(item)]);
    let mut replies = batch.send(tx).await?;
    if replies.text()?.is_some() {
        return Ok(Done::Refused);
    }
    let bids = replies.map()?;
    let bids = bids.iter().filter_map(|(bid, deed)| Some((read_deed(deed)?, bid)));
    let Some(((amount, user), bid)) = bids.max() else { return Ok(Done::Refused) };
    let amount = amount.to_string();
    let batch = Batch::default()
        .with(&["HSET", &auction, "winner", user, "bid", bid, "amount", &amount])
        .with(&["SADD", &schema::won(user), item]);
    batch.send(tx).await?;
    Ok(Done::Well)
}

/// Stores a comment about another user, and the rating, in a causal transaction.
pub(crate) async fn store_comment(tx: &mut Client, choice: &Choice) -> Result<(), Error> {
    let rating = choice.rating.to_string();
    let comment = [&choice.user, &choice.item, &rating, &choice.text].map(String::as_str).join("/");
    let batch = Batch::default()
        .with(&["HSET", &schema::comments(&choice.other), &choice.id, &comment])
        .with(&["HINCRBY", &schema::user(&choice.other), "rating", &rating]);
    batch.send(tx).await.map(drop)
}

/// Offers a new item, in a causal transaction, because no other client accesses the item yet.
pub(crate) async fn register_item(tx: &mut Client, choice: &Choice) -> Result<(), Error> {
    let (item, price) = (&choice.id, choice.price.to_string());
    let quantity = choice.quantity.to_string();
    let batch = Batch::default()
        .with(&[
            "HSET",
            &schema::item(item),
            "name",
            &choice.text,
            "description",
            &choice.text,
            "seller",
            &choice.user,
            "category",
            &choice.shelf.category.to_string(),
            "region",
            &choice.region.to_string(),
            "initial",
            &price,
            "reserve",
            &price,
            "buy_now",
            &price,
            "quantity",
            &quantity,
        ])
        .with(&["SET", &schema::stock(item), &quantity])
        .with(&["SADD", &choice.category_page, item])
        .with(&["SADD", &choice.region_page, item])
        .with(&["SADD", &schema::sells(&choice.user), item]);
    batch.send(tx).await.map(drop)
}
