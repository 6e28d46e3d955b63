//! Three invariants. The demo checks each with causal transactions, which break it, and with strong
//! transactions, which keep it.

use solera::{Client, Error, Value};
use tokio::sync::Barrier;

use super::{CALIFORNIA, CheckFailed, Checked, FRANKFURT, Stage, VIRGINIA, check, wait_until};

const SITES: [(usize, &str); 3] =
    [(VIRGINIA, "virginia"), (CALIFORNIA, "california"), (FRANKFURT, "frankfurt")];

/// Spaces of the invariants, with the strong commands that conflict.
pub(super) const SPACES: &str = include_str!("../../../../examples/invariants.toml");

/// Kind of the transactions with which a chapter runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Causal,
    Strong,
}

impl How {
    fn begin(self) -> &'static [&'static str] {
        match self {
            How::Causal => &["SOLERA.BEGIN"],
            How::Strong => &["SOLERA.BEGIN", "STRONG"],
        }
    }

    /// Returns the chapter's key for this kind of transactions; each chapter runs with both kinds.
    fn key(self, name: &str) -> String {
        match self {
            How::Causal => format!("causal:{name}"),
            How::Strong => format!("strong:{name}"),
        }
    }
}

/// A client at one site that reads, decides and writes, concurrently with clients at other sites.
struct Actor<'a> {
    client: Client,
    how: How,
    /// Barrier at which all actors wait after reading.
    all_have_read: &'a Barrier,
}

impl Actor<'_> {
    /// Runs one transaction, and retries it when it aborts. `read` returns what the writes depend
    /// on; `write` decides and writes.
    async fn act<S, R>(
        &mut self,
        read: impl AsyncFn(&mut Client) -> Result<S, Error>,
        write: impl AsyncFn(&mut Client, S) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut attempts = 0;
        loop {
            self.client.command(self.how.begin()).await?;
            let seen = read(&mut self.client).await?;
            // Only the first attempt waits at the barrier; a retry begins after the other actors
            // have read.
            if attempts == 0 {
                self.all_have_read.wait().await;
            }
            attempts += 1;
            let result = write(&mut self.client, seen).await?;
            match self.client.command(&["SOLERA.COMMIT"]).await {
                Ok(_) => return Ok(result),
                Err(error) if error.code() == Some("ABORTED") => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Creates one actor at each site.
async fn actors<'a>(
    stage: &Stage,
    how: How,
    all_have_read: &'a Barrier,
) -> Result<[Actor<'a>; 3], CheckFailed> {
    let actor = async |(site, _)| {
        let client = stage.cluster.client(site).await?;
        Ok::<_, CheckFailed>(Actor { client, how, all_have_read })
    };
    Ok([actor(SITES[0]).await?, actor(SITES[1]).await?, actor(SITES[2]).await?])
}

/// Waits until the key has the value at every site.
async fn everywhere(stage: &Stage, key: &str, value: &str) -> Checked {
    for (site, _) in SITES {
        let mut client = stage.cluster.client(site).await?;
        wait_until(async || Ok(client.get(key).await?.as_deref() == Some(value))).await?;
    }
    Ok(())
}

/// Three clients withdraw the whole balance of one account concurrently.
pub(super) async fn overdraft(stage: &mut Stage) -> Checked {
    stage.title("Money is paid out once");
    stage.say("An account holds 100. At all three sites somebody withdraws 100, at the same time:");
    stage.say("each reads the balance, and takes the money if it is there.");
    for how in [How::Causal, How::Strong] {
        let account = how.key("account");
        stage.cluster.client(VIRGINIA).await?.incr_by(&account, 100).await?;
        everywhere(stage, &account, "100").await?;
        let all_have_read = Barrier::new(SITES.len());
        let [mut a, mut b, mut c] = actors(stage, how, &all_have_read).await?;
        let withdraw = async |actor: &mut Actor<'_>| {
            let balance = async |client: &mut Client| client.get(&account).await;
            let take = async |client: &mut Client, balance: Option<String>| {
                let there = balance.is_some_and(|balance| balance == "100");
                if there {
                    client.incr_by(&account, -100).await?;
                }
                Ok(there)
            };
            actor.act(balance, take).await
        };
        let (a, b, c) = tokio::join!(withdraw(&mut a), withdraw(&mut b), withdraw(&mut c));
        let paid = [a?, b?, c?].into_iter().filter(|paid| *paid).count();
        let left = 100 - 100 * paid as i64;
        everywhere(stage, &account, &left.to_string()).await?;
        match how {
            How::Causal => {
                check(paid == 3, "causal transactions have kept the account from an overdraft")?;
                stage.say(&format!(
                    "causal     all {paid} withdrawals succeed, and the account holds {left}"
                ));
            }
            How::Strong => {
                check(paid == 1, &format!("{paid} of 3 strong withdrawals were paid"))?;
                stage.say(&format!(
                    "strong     {paid} withdrawal succeeds; the others retry, see {left}, and withdraw nothing"
                ));
            }
        }
    }
    Ok(())
}

/// Three clients register the same name concurrently.
pub(super) async fn unique_names(stage: &mut Stage) -> Checked {
    stage.title("A name belongs to one");
    stage.say("At all three sites somebody registers as 'ada', if nobody has that name yet.");
    for how in [How::Causal, How::Strong] {
        let name = how.key("user:ada");
        let all_have_read = Barrier::new(SITES.len());
        let [mut a, mut b, mut c] = actors(stage, how, &all_have_read).await?;
        let register = async |actor: &mut Actor<'_>, site: &'static str| {
            let owner = async |client: &mut Client| client.get(&name).await;
            let take = async |client: &mut Client, owner: Option<String>| {
                if owner.is_none() {
                    client.set(&name, site).await?;
                }
                Ok(owner.is_none())
            };
            actor.act(owner, take).await
        };
        let [(_, at_a), (_, at_b), (_, at_c)] = SITES;
        let (a, b, c) =
            tokio::join!(register(&mut a, at_a), register(&mut b, at_b), register(&mut c, at_c));
        let results = [(at_a, a?), (at_b, b?), (at_c, c?)];
        let welcome: Vec<&str> =
            results.iter().filter(|(_, taken)| *taken).map(|(at, _)| *at).collect();
        match how {
            How::Causal => {
                check(welcome.len() == 3, "causal transactions have kept the name unique")?;
                stage
                    .say("causal     all 3 registrations succeed, and two of them silently lose the name");
            }
            How::Strong => {
                let [owner] = *welcome else {
                    return Err(CheckFailed(format!("{} have got one name", welcome.len())));
                };
                everywhere(stage, &name, owner).await?;
                stage.say(&format!(
                    "strong     {owner} has the name, and the others learn that it is taken"
                ));
            }
        }
    }
    Ok(())
}

/// One client closes an auction while two others bid.
pub(super) async fn auction(stage: &mut Stage) -> Checked {
    stage.title("The highest bid wins");
    stage.say("An auction has a bid of 100. Virginia closes it and names the winner while");
    stage.say("california bids 110 and frankfurt 120. A closed auction takes no bids.");
    for how in [How::Causal, How::Strong] {
        let (bids, winner) = (how.key("auction:bids"), how.key("auction:winner"));
        stage.cluster.client(VIRGINIA).await?.sadd(&bids, "100").await?;
        for (site, _) in SITES {
            let mut client = stage.cluster.client(site).await?;
            wait_until(async || client.sismember(&bids, "100").await).await?;
        }
        let all_have_read = Barrier::new(SITES.len());
        let [mut closer, mut low, mut high] = actors(stage, how, &all_have_read).await?;
        let close = async {
            let highest = async |client: &mut Client| Ok(highest_of(client.smembers(&bids).await?));
            let name = async |client: &mut Client, highest: Option<i64>| {
                client.set(&winner, &highest.unwrap_or(0).to_string()).await
            };
            closer.act(highest, name).await
        };
        let bid = async |actor: &mut Actor<'_>, amount: i64| {
            let is_open = async |client: &mut Client| {
                Ok(client.command(&["EXISTS", &winner]).await? == Value::Integer(0))
            };
            let add = async |client: &mut Client, is_open: bool| {
                if is_open {
                    client.sadd(&bids, &amount.to_string()).await?;
                }
                Ok(is_open)
            };
            actor.act(is_open, add).await
        };
        let (closed, low, high) = tokio::join!(close, bid(&mut low, 110), bid(&mut high, 120));
        closed?;
        let accepted = [(100, true), (110, low?), (120, high?)];
        let accepted: Vec<i64> =
            accepted.iter().filter(|(_, taken)| *taken).map(|(bid, _)| *bid).collect();
        let mut client = stage.cluster.client(FRANKFURT).await?;
        // The auction is closed at one site; the other sites receive this a little later.
        wait_until(async || Ok(client.get(&winner).await?.is_some())).await?;
        let won = client.get(&winner).await?.and_then(|won| won.parse::<i64>().ok());
        let highest = accepted.iter().max().copied();
        let bids: Vec<String> = accepted.iter().map(i64::to_string).collect();
        let outcome =
            format!("{} wins, of the accepted bids {}", won.unwrap_or(0), bids.join(", "));
        let late = if accepted.len() < SITES.len() { "; the rest came too late" } else { "" };
        match how {
            How::Causal => {
                check(
                    won < highest,
                    &format!("causal transactions have closed it well: {outcome}"),
                )?;
                stage.say(&format!("causal     {outcome}"));
            }
            How::Strong => {
                check(won == highest, &outcome)?;
                stage.say(&format!("strong     {outcome}{late}"));
            }
        }
    }
    Ok(())
}

fn highest_of(bids: impl IntoIterator<Item = String>) -> Option<i64> {
    bids.into_iter().filter_map(|bid| bid.parse().ok()).max()
}
