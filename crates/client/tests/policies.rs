//! Reads that a client requests for policies, from a server with a script.

use std::time::Duration;

use solera::ipa::{Consistency, CountPolicy, Counter, LatencyBound, Level, Rushed, level};
use solera::{Client, Error};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const STRONG: Consistency<level::Linearizable> = Consistency::new();
const CAUSAL: Consistency<level::Causal> = Consistency::new();
const EVENTUAL: Consistency<level::Eventual> = Consistency::new();
const LONG: LatencyBound = LatencyBound(Duration::from_secs(3600));
const SHORT: LatencyBound = LatencyBound(Duration::from_nanos(1));

/// Writes an array of bulk strings.
fn bulks(words: &[&str]) -> String {
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), words.collect::<String>())
}

/// Opens a counter in a linearizable space, and reads it with what `further` returns. The server
/// expects these requests, and answers each with the value 7 of a level.
async fn read<P: CountPolicy, Q: CountPolicy>(
    policy: P,
    further: impl FnOnce(Counter<P>) -> Counter<Q>,
    reads: &[(&str, Level)],
) -> Result<Q::Count, Error> {
    let space = bulks(&["name", "default", "prefix", "", "level", "linearizable"]);
    let space = space.replace("*6", "*1\r\n%3");
    let mut script = vec![("HELLO 3".to_owned(), "%0\r\n".to_owned())];
    script.push(("SOLERA.SPACES".to_owned(), space));
    for (how, level) in reads {
        script.push((format!("SOLERA.READ n {how} GET"), bulks(&["7", level.name()])));
    }
    let (client, mut stream) = tokio::io::duplex(4096);
    let server = tokio::spawn(async move {
        let mut buffer = [0; 4096];
        for (expected, reply) in script {
            let length = stream.read(&mut buffer).await.unwrap();
            let text = String::from_utf8_lossy(&buffer[..length]);
            let words = text.lines().filter(|line| !line.starts_with(['*', '$']));
            assert_eq!(words.collect::<Vec<_>>().join(" "), expected);
            stream.write_all(reply.as_bytes()).await.unwrap();
        }
    });
    let mut client = Client::over(client).await?;
    let counter = further(Counter::open(&mut client, "n", policy).await?);
    let read = counter.read(&mut client).await;
    drop(client);
    // The script is over, with no request left.
    server.await.unwrap();
    read
}

#[tokio::test]
async fn a_value_below_the_weakest_level_is_read_again() {
    let least = LONG.at_least::<level::Causal>();
    for (first, reads) in [
        (Level::Linearizable, 1),
        (Level::Por, 1),
        (Level::Causal, 1),
        (Level::Eventual, 2),
        (Level::Quorum, 2),
    ] {
        let script = [("WITHIN 60000", first), ("AT causal", Level::Causal)];
        let read = read(least, |counter| counter, &script[..reads]).await.unwrap();
        let expected = if reads == 1 { first } else { Level::Causal };
        assert_eq!(read.level(), expected);
    }
    // A server that answers at another level than the one that was named.
    let script = [("WITHIN 60000", Level::Eventual), ("AT causal", Level::Eventual)];
    let refused = read(least, |counter| counter, &script).await.unwrap_err();
    assert_eq!(refused.to_string(), "the value of 'n' has level eventual");
}

#[tokio::test]
async fn of_two_policies_the_stronger_one_is_requested() {
    let (strong, causal) = (("AT linearizable", Level::Linearizable), ("AT causal", Level::Causal));
    let within = ("WITHIN 60000", Level::Causal);
    let soon = ("WITHIN 1", Level::Causal);
    let (from_causal, from_strong) =
        (LONG.at_least::<level::Causal>(), LONG.at_least::<level::Linearizable>());
    macro_rules! requests {
        ($($one:expr, $other:expr => $reads:expr;)*) => {$(
            let combined = read($one, |counter| counter.under($other).unwrap(), &[$reads]).await;
            assert!(combined.is_ok(), "{combined:?}");
            let swapped = read($other, |counter| counter.under($one).unwrap(), &[$reads]).await;
            assert!(swapped.is_ok(), "{swapped:?}");
        )*};
    }
    requests! {
        STRONG, CAUSAL => strong;
        EVENTUAL, CAUSAL => causal;
        CAUSAL, CAUSAL => causal;
        // Only the strongest level is at least as strong as both.
        CAUSAL, Consistency::<level::Quorum>::new() => strong;
        LONG, SHORT => soon;
        LONG, EVENTUAL => within;
        LONG, CAUSAL => within;
        LONG, STRONG => strong;
        LONG, from_causal => within;
        SHORT, from_causal => soon;
        from_causal, SHORT.at_least::<level::Eventual>() => soon;
        from_causal, EVENTUAL => within;
        from_causal, STRONG => strong;
        from_causal, from_strong => strong;
        from_strong, CAUSAL => strong;
        from_causal, LONG.at_least::<level::LocalQuorum>() => ("AT linearizable", Level::Linearizable);
    }
    let both = read(LONG, |counter| counter.under(STRONG).unwrap(), &[strong]).await.unwrap();
    assert!(matches!(both, Rushed::Consistent(seven) if *seven == 7), "{both:?}");
}
