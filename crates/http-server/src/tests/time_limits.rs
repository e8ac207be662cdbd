//! Tests of the time-outs of a connection.

use super::*;

fn short_header() -> ServerLimits {
    ServerLimits { header_timeout: SHORT, ..patient() }
}

#[tokio::test]
async fn a_head_that_drips_in_is_dropped_at_the_deadline() {
    let server = TestServer::open(short_header()).await;
    let started = Instant::now();
    let mut client = server.connect().await;
    let dripped = async {
        for byte in GET.iter().cycle().take(200) {
            if client.write_all(&[*byte]).await.is_err() {
                return;
            }
            let mut answer = [0; 16];
            if let Ok(Ok(0) | Err(_)) = timeout(Duration::from_millis(50), client.read(&mut answer)).await {
                return;
            }
        }
        panic!("the connection was never closed");
    };
    within(dripped).await;
    assert!(started.elapsed() >= SHORT, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_silent_connection_is_dropped_at_the_header_time_out() {
    let server = TestServer::open(short_header()).await;
    let started = Instant::now();
    let mut client = server.connect().await;
    assert_eq!(read_until_closed(&mut client).await, "");
    assert!(started.elapsed() >= SHORT, "{:?}", started.elapsed());
}

#[tokio::test]
async fn an_idle_connection_outlives_the_header_time_out() {
    let (_server, mut client) = TestServer::open_with_idle(short_header()).await;
    sleep(2 * SHORT).await;
    client.write_all(GET).await.unwrap();
    assert!(read_answer(&mut client).await.ends_with("hello"));
}

#[tokio::test]
async fn an_idle_connection_ends_at_its_own_time_out() {
    let started = Instant::now();
    let limits = ServerLimits { keep_alive_timeout: SHORT, ..patient() };
    let (_server, mut client) = TestServer::open_with_idle(limits).await;
    assert_eq!(read_until_closed(&mut client).await, "");
    assert!(started.elapsed() >= SHORT, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_line_end_behind_a_request_does_not_shorten_the_idle_time() {
    let (_server, mut client) = TestServer::open_with_idle(short_header()).await;
    client.write_all(b"\r\n").await.unwrap();
    sleep(2 * SHORT).await;
    client.write_all(GET).await.unwrap();
    assert!(read_answer(&mut client).await.ends_with("hello"));
}

#[tokio::test]
async fn the_header_time_counts_anew_for_each_request() {
    let (_server, mut client) = TestServer::open_with_idle(short_header()).await;
    // Long enough for the watchdog to have gone over to the idle deadline.
    sleep(SHORT + Duration::from_millis(100)).await;
    let started = Instant::now();
    client.write_all(&GET[..7]).await.unwrap();
    assert_eq!(read_until_closed(&mut client).await, "");
    assert!(started.elapsed() >= SHORT, "{:?}", started.elapsed());
}

#[tokio::test]
async fn half_a_pipelined_head_is_dropped_at_the_header_time_out() {
    let started = Instant::now();
    let (_server, mut client) = TestServer::open_with(short_header(), &[GET, &GET[..9]].concat()).await;
    assert!(read_answer(&mut client).await.ends_with("hello"));
    assert_eq!(read_until_closed(&mut client).await, "");
    assert!(started.elapsed() >= SHORT, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_client_that_never_stops_sending_is_cut_after_a_while() {
    let server = TestServer::open(patient()).await;
    let mut client = server.connect().await;
    client.write_all(b"POST /refuse HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n").await.unwrap();
    let endless = async {
        let chunk = vec![b'a'; 1024 * 1024];
        for sent in 0..200 {
            if client.write_all(&chunk).await.is_err() {
                return sent;
            }
        }
        200
    };
    assert!((10..100).contains(&within(endless).await));
}

#[tokio::test]
async fn a_refused_client_that_stalls_is_cut_after_a_while() {
    let server = TestServer::open(patient()).await;
    let mut client = server.connect().await;
    client.write_all(b"POST /refuse HTTP/1.1\r\nContent-Length: 9\r\n\r\n").await.unwrap();
    assert!(read_answer(&mut client).await.ends_with("refused"));
    server.stop();
    assert_eq!(server.drained().await, Drained { connections_cut: 0 });
}

#[tokio::test]
async fn a_peer_that_does_not_read_its_answer_is_dropped() {
    let server = TestServer::open(ServerLimits { write_timeout: SHORT, ..patient() }).await;
    let mut client = server.connect().await;
    client.write_all(b"GET /large HTTP/1.1\r\n\r\n").await.unwrap();
    until_open(&server.open, 1).await;
    until_open(&server.open, 0).await;
    let mut answer = Vec::new();
    let _ = within(client.read_to_end(&mut answer)).await;
    assert!(answer.len() < LARGE_BYTES, "the whole answer was kept for a peer that does not read");
}

/// Rule: a peer that reads a few bytes now and then is dropped too. It has the write time-out for each 256 KiB.
#[tokio::test]
async fn a_peer_that_trickles_is_dropped() {
    let limits = ServerLimits { write_timeout: Duration::from_secs(2), ..patient() };
    let server = TestServer::open(limits).await;
    let mut client = server.connect().await;
    client.write_all(b"GET /large HTTP/1.1\r\n\r\n").await.unwrap();
    let mut chunk = vec![0; 8 * 1024];
    until_open(&server.open, 1).await;
    let trickling = async {
        loop {
            client.read_exact(&mut chunk).await.unwrap();
            sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = trickling => {}
        () = until_open(&server.open, 0) => {}
    }
}

#[tokio::test]
async fn a_peer_that_reads_slowly_gets_its_whole_answer() {
    // The answer takes longer than that, and each 256 KiB of it far less.
    let limits = ServerLimits { write_timeout: Duration::from_secs(2), ..patient() };
    let server = TestServer::open(limits).await;
    let mut client = server.connect().await;
    client.write_all(b"GET /large HTTP/1.1\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut chunk = vec![0; 1024 * 1024];
    let mut read = 0;
    loop {
        let bytes = within(client.read(&mut chunk)).await.unwrap();
        if bytes == 0 {
            break;
        }
        read += bytes;
        sleep(Duration::from_millis(100)).await;
    }
    assert!(read > LARGE_BYTES, "{read}");
}
