//! Forwarding of one connection.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::time::Instant;

use crate::delays::{Delays, OneWay};
use crate::queue::{Load, Receiver, Sender, queue};

/// Number of bytes that are read at once.
const PIECE: usize = 64 << 10;

/// Forwards bytes between a client, accepted at `accepted`, and a server, until both have closed
/// their sides or one is gone. The connection to the server opens after the time that TCP needs for
/// opening a connection with these delays.
pub(crate) async fn carry<C, S>(
    client: C,
    connect: impl Future<Output = io::Result<S>>,
    delays: Delays,
    seed: u64,
    accepted: Instant,
) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite,
    S: AsyncRead + AsyncWrite,
{
    let opened = accepted + delays.opening();
    let (up, down) = (queue(), queue());
    let (from_client, to_client) = split(client);
    // Bytes that the client sends meanwhile are already in transit.
    let taken = fill(from_client, up.0, OneWay::new(delays, seed));
    let given = async {
        tokio::time::sleep_until(opened).await;
        let (from_server, to_server) = split(connect.await?);
        tokio::try_join!(
            drain(up.1, to_server),
            fill(from_server, down.0, OneWay::new(delays, !seed)),
            drain(down.1, to_client)
        )
    };
    tokio::try_join!(taken, given).map(|_| ())
}

/// Queues the bytes that are read.
async fn fill(mut from: impl AsyncRead + Unpin, to: Sender, mut way: OneWay) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let load = match from.read(&mut piece).await {
            Ok(0) => Load::End,
            Ok(some) => Load::Bytes(piece[..some].into()),
            Err(_) => Load::Reset,
        };
        let last = !matches!(load, Load::Bytes(_));
        if !to.send(Instant::now() + way.draw(), load).await || last {
            return Ok(());
        }
    }
}

/// Writes the events that arrive. Fails when the other side's reset arrives.
async fn drain(mut from: Receiver, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    while let Some(load) = from.next().await {
        let written = match load {
            Load::Bytes(bytes) => to.write_all(&bytes).await,
            Load::End => return to.shutdown().await.or(Ok(())),
            Load::Reset => return Err(io::ErrorKind::ConnectionReset.into()),
        };
        // The receiver is gone. The other direction shows why, after everything that was sent
        // before.
        if written.is_err() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::sleep;

    use super::*;
    use crate::queue::WINDOW;

    const BUFFER: usize = 1 << 20;

    /// Returns a client's end, a server's end, and the connection between them.
    fn connection(
        rtt_ms: u64,
        jitter_ms: u64,
    ) -> (DuplexStream, DuplexStream, JoinHandle<io::Result<()>>) {
        let ms = Duration::from_millis;
        let delays = Delays::new(ms(rtt_ms), ms(jitter_ms)).unwrap();
        let ((client, near), (far, server)) = (duplex(BUFFER), duplex(BUFFER));
        let carried = carry(near, async { Ok(far) }, delays, 1, Instant::now());
        (client, server, tokio::spawn(carried))
    }

    fn content(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_take_half_a_round_trip_and_a_connection_one_and_a_half() {
        let (mut client, mut server, _carried) = connection(80, 0);
        let began = Instant::now();
        client.write_all(b"a").await.unwrap();
        server.read_u8().await.unwrap();
        assert_eq!(began.elapsed().as_millis(), 120);
        for _ in 0..3 {
            let began = Instant::now();
            server.write_all(b"b").await.unwrap();
            sleep(Duration::from_millis(10)).await;
            server.write_all(b"c").await.unwrap();
            client.read_u8().await.unwrap();
            assert_eq!(began.elapsed().as_millis(), 40);
            // Later bytes do not wait for earlier ones.
            client.read_u8().await.unwrap();
            assert_eq!(began.elapsed().as_millis(), 50);
            client.write_all(b"d").await.unwrap();
            server.read_u8().await.unwrap();
            assert_eq!(began.elapsed().as_millis(), 90);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn jitter_changes_no_order() {
        let (client, server, _carried) = connection(20, 100);
        let (_from_server, mut to_server) = split(client);
        let (mut from_client, _to_client) = split(server);
        let sent = content(2000);
        let expected = sent.clone();
        tokio::spawn(async move {
            for (at, piece) in sent.chunks(1 + 3).enumerate() {
                to_server.write_all(piece).await.unwrap();
                sleep(Duration::from_millis(at as u64 % 5)).await;
            }
            to_server.shutdown().await.unwrap();
        });
        let mut got = Vec::new();
        from_client.read_to_end(&mut got).await.unwrap();
        assert!(got == expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_that_has_shut_down_still_gets_the_answer() {
        let (mut client, mut server, carried) = connection(80, 10);
        client.write_all(b"question").await.unwrap();
        client.shutdown().await.unwrap();
        let mut question = String::new();
        server.read_to_string(&mut question).await.unwrap();
        server.write_all(b"answer").await.unwrap();
        drop(server);
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!((&*question, &*answer), ("question", "answer"));
        carried.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_sent_before_a_reset_arrive() {
        let (mut client, mut server, _carried) = connection(80, 0);
        client.write_all(b"a").await.unwrap();
        server.read_u8().await.unwrap();
        server.write_all(b"last words").await.unwrap();
        // This byte is in transit when the server closes, and is not received.
        client.write_all(b"b").await.unwrap();
        drop(server);
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "last words");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_waits_while_the_receiver_does_not_read() {
        let (mut client, server, _carried) = connection(80, 0);
        let sender = tokio::spawn(async move {
            let (piece, mut taken) = (content(PIECE), 0);
            while let Ok(()) =
                tokio::time::timeout(Duration::from_secs(9), client.write_all(&piece))
                    .await
                    .unwrap_or(Err(io::ErrorKind::TimedOut.into()))
            {
                taken += piece.len();
            }
            taken
        });
        let taken = sender.await.unwrap();
        // The limit does not include the buffers of the two streams and the bytes being read.
        let most = WINDOW + 2 * BUFFER + 4 * PIECE;
        assert!((WINDOW..=most).contains(&taken), "{taken}");
        drop(server);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_not_there_ends_the_connection() {
        let (mut client, near) = duplex(BUFFER);
        let delays = Delays::new(Duration::from_millis(80), Duration::ZERO).unwrap();
        let refused = async { Err::<DuplexStream, _>(io::ErrorKind::ConnectionRefused.into()) };
        let carried = tokio::spawn(carry(near, refused, delays, 1, Instant::now()));
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(carried.await.unwrap().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
