//! Tests of the graceful drain.

use super::*;

#[tokio::test]
async fn a_drain_answers_a_request_in_flight_and_closes_behind_it() {
    let mut server = TestServer::open(patient()).await;
    let mut client = server.connect().await;
    client.write_all(GET_GATED).await.unwrap();
    server.wait_until_entered().await;
    server.stop();
    let closed = async { while TcpStream::connect(server.address).await.is_ok() {} };
    within(closed).await;
    server.gate.send(true).unwrap();
    let answer = read_until_closed(&mut client).await;
    assert!(answer.ends_with("gated") && answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert_eq!(server.drained().await, Drained { connections_cut: 0 });
}

#[tokio::test]
async fn a_drain_closes_idle_connections_at_once() {
    let server = TestServer::open(patient()).await;
    let mut clients = [server.connect_idle().await, server.connect_idle().await];
    clients[1].write_all(b"\r\n").await.unwrap();
    server.stop();
    for client in &mut clients {
        assert_eq!(read_until_closed(client).await, "");
    }
    assert_eq!(server.drained().await, Drained { connections_cut: 0 });
}

/// A request begins with its first byte.
#[tokio::test]
async fn a_drain_waits_for_the_rest_of_a_head() {
    let server = TestServer::open(patient()).await;
    let mut first = server.connect().await;
    let mut second = server.connect_idle().await;
    first.write_all(&GET[..1]).await.unwrap();
    second.write_all(&GET[..9]).await.unwrap();
    sleep(Duration::from_millis(50)).await;
    server.stop();
    sleep(Duration::from_millis(150)).await;
    first.write_all(&GET[1..]).await.unwrap();
    second.write_all(&GET[9..]).await.unwrap();
    for client in [&mut first, &mut second] {
        let answer = read_until_closed(client).await;
        assert!(answer.ends_with("hello") && answer.contains("\r\nconnection: close\r\n"), "{answer}");
    }
    assert_eq!(server.drained().await, Drained { connections_cut: 0 });
}

/// The first byte of a pipelined head counts as well.
#[tokio::test]
async fn a_drain_answers_what_is_pipelined_behind_a_request_in_flight() {
    let mut server = TestServer::open(patient()).await;
    let mut together = server.connect().await;
    together.write_all(&[GET_GATED, GET, &GET[..9]].concat()).await.unwrap();
    server.wait_until_entered().await;
    let mut apart = server.connect().await;
    apart.write_all(GET_GATED).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    apart.write_all(GET).await.unwrap();
    server.stop();
    sleep(Duration::from_millis(100)).await;
    server.gate.send(true).unwrap();
    sleep(Duration::from_millis(100)).await;
    together.write_all(&GET[9..]).await.unwrap();
    for (client, answers) in [(&mut together, 3), (&mut apart, 2)] {
        let answer = read_until_closed(client).await;
        assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), answers, "{answer}");
        assert_eq!(answer.matches("connection: close").count(), 1, "{answer}");
        assert!(answer.ends_with("hello"), "{answer}");
    }
    assert_eq!(server.drained().await, Drained { connections_cut: 0 });
}

/// The server has not accepted these connections yet, or has not seen their bytes yet.
#[tokio::test]
async fn a_drain_answers_requests_that_still_wait_in_the_kernel() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let mut client = std::net::TcpStream::connect(address).unwrap();
        std::io::Write::write_all(&mut client, GET).unwrap();
        waiting.push(client);
    }
    let server = TestServer::open_on(listener, patient());
    server.stop();
    for client in waiting {
        client.set_nonblocking(true).unwrap();
        let answer = read_until_closed(&mut TcpStream::from_std(client).unwrap()).await;
        assert!(answer.ends_with("hello") && answer.contains("connection: close"), "{answer}");
    }
    assert_eq!(server.drained().await, Drained { connections_cut: 0 });
}

/// The same on a keep-alive connection. One thread runs server and test, so the server cannot have
/// looked at the socket between the write and the signal.
#[tokio::test]
async fn a_drain_answers_a_request_that_came_in_the_same_moment() {
    for _ in 0..20 {
        let server = TestServer::open(patient()).await;
        let client = server.connect_idle().await.into_std().unwrap();
        std::io::Write::write_all(&mut &client, GET).unwrap();
        server.stop();
        let answer = read_until_closed(&mut TcpStream::from_std(client).unwrap()).await;
        assert!(answer.ends_with("hello") && answer.contains("connection: close"), "{answer}");
        assert_eq!(server.drained().await, Drained { connections_cut: 0 });
    }
}

/// The first byte of a new connection may come shortly after the signal.
#[tokio::test]
async fn a_drain_listens_to_a_new_connection_for_a_moment() {
    let server = TestServer::open(patient()).await;
    let mut client = server.connect().await;
    until_open(&server.open, 1).await;
    server.stop();
    // One thread runs server and test: the server has its turn here, and no time passes.
    while std::net::TcpStream::connect(server.address).is_ok() {
        tokio::task::yield_now().await;
    }
    client.write_all(GET).await.unwrap();
    assert!(read_until_closed(&mut client).await.ends_with("hello"));
    assert_eq!(server.drained().await, Drained { connections_cut: 0 });
}

/// Under load, every request that was sent before the signal gets its answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_under_load_loses_no_request() {
    for _ in 0..5 {
        let server = TestServer::open(patient()).await;
        let (address, stop) = (server.address, server.stop.clone());
        let answered = watch::Sender::new(0);
        let clients: Vec<_> = (0..32)
            .map(|_| tokio::spawn(request_until_stopped(address, stop.clone(), answered.clone())))
            .collect();
        within(answered.subscribe().wait_for(|answers| *answers > 64)).await.expect("there is load");
        server.stop();
        for client in clients {
            within(client).await.expect("no request is lost");
        }
        assert_eq!(server.drained().await, Drained { connections_cut: 0 });
    }
}

/// Sends requests until the server stops, ten on each connection, and counts those that got an
/// answer. Fails if a request that was sent before the signal got none.
async fn request_until_stopped(address: SocketAddr, stop: watch::Sender<bool>, count: watch::Sender<u32>) {
    let mut answers = 0;
    while let Ok(mut client) = TcpStream::connect(address).await {
        for _ in 0..10 {
            let sent = client.write_all(GET).await.is_ok();
            let must_be_answered = sent && !*stop.borrow();
            let mut answer = [0; 15];
            let answered = within(client.read_exact(&mut answer)).await.is_ok();
            assert!(answered || !must_be_answered, "request {answers} of this client was lost");
            if !answered || *stop.borrow() {
                return;
            }
            answers += 1;
            count.send_modify(|count| *count += 1);
            let mut rest = [0; 1024];
            let _ = within(client.read(&mut rest)).await;
        }
    }
}

#[tokio::test]
async fn a_drain_at_the_cap_serves_the_backlog_as_others_end() {
    let mut server = TestServer::open(ServerLimits { connections_max: 1, ..patient() }).await;
    let mut first = server.connect().await;
    first.write_all(GET_GATED).await.unwrap();
    server.wait_until_entered().await;
    let mut second = server.connect().await;
    second.write_all(GET).await.unwrap();
    server.stop();
    sleep(Duration::from_millis(50)).await;
    server.gate.send(true).unwrap();
    assert!(read_until_closed(&mut first).await.ends_with("gated"));
    assert!(read_until_closed(&mut second).await.ends_with("hello"));
    assert_eq!(server.drained().await, Drained { connections_cut: 0 });
}

/// The handler of one connection never ends.
#[tokio::test]
async fn a_drain_cuts_what_is_left_at_its_deadline_and_counts_it() {
    let server = TestServer::open(ServerLimits { drain_timeout: SHORT, ..patient() }).await;
    let mut client = server.connect().await;
    client.write_all(b"GET /never HTTP/1.1\r\n\r\n").await.unwrap();
    let _idle = server.connect_idle().await;
    let stopped = Instant::now();
    server.stop();
    assert_eq!(server.drained().await, Drained { connections_cut: 1 });
    assert!(stopped.elapsed() >= SHORT, "{:?}", stopped.elapsed());
    assert_eq!(read_until_closed(&mut client).await, "");
}
