//! Loads the database before a run.

use std::rc::Rc;
use std::sync::Arc;

use crate::batch::Batch;
use crate::error::BenchError;
use crate::load::{Part, Writing, fill};
use crate::place::TargetCluster;
use crate::rubis::Rubis;
use crate::rubis::catalogue::{self, CATEGORIES, Item, REGIONS, nickname, password};
use crate::rubis::schema::{self, deed};
use crate::session::Strong;

/// Returns whether the data must be written, because there is none.
///
/// # Errors
/// Fails if there is other data, or if it cannot be read.
pub(crate) async fn is_needed(rubis: &Rubis, place: &TargetCluster) -> Result<bool, BenchError> {
    let wanted = rubis.catalogue().scale.to_string();
    let found = async { place.connect(0).await?.get(schema::DATA).await };
    match found.await.map_err(BenchError::Load)? {
        None => Ok(true),
        Some(found) if found == wanted => Ok(false),
        Some(found) => Err(BenchError::OtherData { found, wanted }),
    }
}

/// Writes the data.
pub(crate) async fn load(
    rubis: &Arc<Rubis>,
    place: &TargetCluster,
    strong: Strong,
) -> Result<(), BenchError> {
    fill(place, strong, parts(rubis)).await.map_err(BenchError::Load)
}

/// Returns the commands that write the data.
pub(crate) fn commands(rubis: &Arc<Rubis>) -> Vec<Vec<Vec<u8>>> {
    let of_part = |part: Part| {
        let mut batch = Batch::default();
        (0..part.count).for_each(|thing| (part.write)(thing, &mut batch));
        batch.into_commands()
    };
    parts(rubis).into_iter().flat_map(of_part).collect()
}

fn parts(rubis: &Arc<Rubis>) -> Vec<Part> {
    let scale = rubis.catalogue().scale;
    let causal = |count, write: fn(u64, &mut Batch)| Part {
        count,
        writing: Writing::Causal,
        write: Rc::new(write),
    };
    let of_items = |writing, write: fn(&Rubis, u64, &mut Batch)| {
        let rubis = rubis.clone();
        let write = move |n: u64, batch: &mut Batch| write(&rubis, n, batch);
        Part { count: scale.items, writing, write: Rc::new(write) }
    };
    let write_nick = |user: u64, batch: &mut Batch| {
        batch.add(&["SET", &schema::nick(&nickname(user)), &user.to_string()]);
    };
    let data = |what: String| {
        let write = move |_, batch: &mut Batch| batch.add(&["SET", schema::DATA, &what]);
        Part { count: 1, writing: Writing::Causal, write: Rc::new(write) }
    };
    vec![
        // An interrupted load cannot be repeated: bids would be counted twice.
        data(format!("part of {scale}")),
        causal(1, |_, batch| names(batch)),
        causal(scale.users, user),
        Part { count: scale.users, writing: Writing::Strong, write: Rc::new(write_nick) },
        of_items(Writing::Causal, item),
        of_items(Writing::Strong, |rubis, n, batch| {
            let bids = rubis.catalogue().item(n).bids.to_string();
            batch.add(&["HINCRBY", &schema::auction(&n.to_string()), "bids", &bids]);
        }),
        data(scale.to_string()),
    ]
}

fn names(batch: &mut Batch) {
    for (key, one, count) in
        [(schema::CATEGORIES, "category", CATEGORIES), (schema::REGIONS, "region", REGIONS)]
    {
        let pairs = (0..count).flat_map(|n| [n.to_string(), format!("{one} {n}")]);
        let command: Vec<String> =
            ["HSET", key].map(String::from).into_iter().chain(pairs).collect();
        batch.add(&command);
    }
}

fn user(number: u64, batch: &mut Batch) {
    let nickname = nickname(number);
    batch.add(&[
        "HSET",
        &schema::user(&number.to_string()),
        "nickname",
        &nickname,
        "first",
        "Great",
        "last",
        "User",
        "password",
        &password(&nickname),
        "region",
        &catalogue::region_of(number).to_string(),
    ]);
}

/// Adds the commands that write an item with its causal data.
fn item(rubis: &Rubis, number: u64, batch: &mut Batch) {
    let Item { seller, quantity, initial, bids, comments, mut random } =
        rubis.catalogue().item(number);
    let shelf = rubis.catalogue().shelf(number);
    let users = rubis.catalogue().scale.users;
    let (id, seller) = (number.to_string(), seller.to_string());
    let description = random.below(200);
    // Each bid is higher than the previous ones.
    let amount = |bid: u64| initial + bid as i64;
    batch.add(&[
        "HSET",
        &schema::item(&id),
        "name",
        &random.text(20),
        "description",
        &random.text(description),
        "seller",
        &seller,
        "category",
        &shelf.category.to_string(),
        "region",
        &shelf.region.to_string(),
        "initial",
        &initial.to_string(),
        "reserve",
        &initial.to_string(),
        "buy_now",
        &(2 * initial).to_string(),
        "quantity",
        &quantity.to_string(),
        "max_bid",
        &amount(bids).to_string(),
    ]);
    batch.add(&["SET", &schema::stock(&id), &quantity.to_string()]);
    batch.add(&["SADD", &schema::category_page(shelf.category, shelf.category_page), &id]);
    let region_page = schema::region_page(shelf.region, shelf.category, shelf.region_page);
    batch.add(&["SADD", &region_page, &id]);
    batch.add(&["SADD", &schema::sells(&seller), &id]);

    let mut command = vec!["HSET".to_owned(), schema::bids(&id)];
    for bid in 1..=bids {
        let bidder = random.below(users).to_string();
        command.extend([format!("{id}-{bid}"), deed(amount(bid), &bidder)]);
    }
    batch.add(&command);
    let mut command = vec!["HSET".to_owned(), schema::comments(&seller)];
    for comment in 1..=comments {
        let (from, length) = (random.below(users), random.below(100));
        let text = format!("{from}/{id}/0/{}", random.text(length));
        command.extend([format!("{id}-{comment}"), text]);
    }
    batch.add(&command);
}
