//! Measures, on three sites with the delays of `--wan aws`, the latency of local operations and the
//! time until a write is visible at each other site, compared to half the round trip.
//!
//! `cargo run --release -p solera-embedded --example latency`

use std::time::{Duration, Instant};

use solera::Error;
use solera_embedded::{ClusterSpec, Embedded, Overrides};

const ROUNDS: usize = 300;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let over = Overrides { wan: Some("aws".into()), ..Overrides::default() };
    let spec = ClusterSpec::load(None, over)?;
    let rtt = spec.wan.rtt_ms.clone();
    let names: Vec<String> = spec.sites.iter().map(|site| site.name.clone()).collect();
    let cluster = Embedded::with(spec)?;
    local(&cluster).await?;
    println!("{:22} {:>10} {:>10} {:>10}", "visible after (ms)", "RTT / 2", "median", "p99");
    for from in 0..3 {
        for to in (0..3).filter(|to| *to != from) {
            let times = visibility(&cluster, from, to).await?;
            let (median, p99) = (quantile(&times, 0.5), quantile(&times, 0.99));
            let path = format!("{} → {}", names[from], names[to]);
            println!("{path:22} {:10.1} {median:10.1} {p99:10.1}", rtt[from][to] as f64 / 2.0);
        }
    }
    Ok(())
}

async fn local(cluster: &Embedded) -> Result<(), Error> {
    let mut client = cluster.client(0).await?;
    let (mut sets, mut gets, mut transactions) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..ROUNDS * 10 {
        let key = format!("key:{}", i % 100);
        let started = Instant::now();
        client.set(&key, "x").await?;
        sets.push(started.elapsed());
        let started = Instant::now();
        client.get(&key).await?;
        gets.push(started.elapsed());
        let started = Instant::now();
        client.command(&["MSET", "a", "1", "b", "2", "c", "3"]).await?;
        transactions.push(started.elapsed());
    }
    println!("{:22} {:>10} {:>10}", "local latency (ms)", "median", "p99");
    for (name, times) in [("SET", sets), ("GET", gets), ("MSET of 3", transactions)] {
        println!("{name:22} {:10.3} {:10.3}", quantile(&times, 0.5), quantile(&times, 0.99));
    }
    Ok(())
}

async fn visibility(cluster: &Embedded, from: usize, to: usize) -> Result<Vec<Duration>, Error> {
    let (mut writer, mut reader) = (cluster.client(from).await?, cluster.client(to).await?);
    let mut times = Vec::new();
    for i in 0..ROUNDS / 10 {
        let key = format!("seen:{from}:{to}:{i}");
        let started = Instant::now();
        writer.set(&key, "x").await?;
        while reader.get(&key).await?.is_none() {
            tokio::task::yield_now().await;
        }
        times.push(started.elapsed());
    }
    Ok(times)
}

fn quantile(times: &[Duration], q: f64) -> f64 {
    let mut sorted: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1000.0).collect();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * q) as usize]
}
