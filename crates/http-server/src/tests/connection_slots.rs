//! The limit of each address, and room for new connections.

use tokio::net::TcpSocket;

use super::*;

/// A connection from this address of the machine itself, when it is served. The reset may come while it connects.
async fn served_from(source: &str, server: &TestServer) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(source.parse().unwrap(), 0)).unwrap();
    let mut client = within(socket.connect(server.address)).await.ok()?;
    client.write_all(GET).await.ok()?;
    within(client.read_u8()).await.ok().map(|_| client)
}

/// Rule: a connection over the limit of its address is reset, others are served, and a place is free again when
/// a connection ends.
#[tokio::test]
async fn one_address_takes_its_own_places_only() {
    let limits = ServerLimits { connections_per_address_max: 2, ..patient() };
    let server = TestServer::open(limits).await;
    let first = server.connect_idle().await;
    let _second = server.connect_idle().await;
    let refused = async { TcpStream::connect(server.address).await?.read_u8().await };
    let refused = within(refused).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!((server.open.now(), server.open.refused()), (2, 1));
    assert!(served_from("127.0.0.2", &server).await.is_some(), "another address");
    drop(first);
    until_open(&server.open, 1).await;
    assert!(served_from("127.0.0.1", &server).await.is_some(), "a place is free again");
}

/// Rule: a network without the limit has none.
#[tokio::test]
async fn a_proxy_has_no_limit_of_its_own() {
    let unlimited_networks = vec!["127.0.0.1/32".parse().unwrap()];
    let limits = ServerLimits { connections_per_address_max: 1, unlimited_networks, ..patient() };
    let server = TestServer::open(limits).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(server.connect_idle().await);
    }
    let of_other = served_from("127.0.0.2", &server).await;
    assert!(of_other.is_some() && served_from("127.0.0.2", &server).await.is_none(), "another has its limit");
}

/// Rule: over nine tenths of the places, connections without a request under way are closed, the longest idle first.
/// One with a request under way stays.
#[tokio::test]
async fn the_longest_idle_make_room() {
    let limits = ServerLimits { connections_max: 20, ..patient() };
    let mut server = TestServer::open(limits).await;
    let mut busy = server.connect().await;
    busy.write_all(GET_GATED).await.unwrap();
    server.wait_until_entered().await;
    let mut idle = Vec::new();
    for _ in 0..17 {
        idle.push(server.connect_idle().await);
        sleep(Duration::from_millis(2)).await;
    }
    sleep(Duration::from_millis(250)).await;
    assert_eq!((server.open.now(), server.open.closed_for_room()), (18, 0), "nine tenths may stay");
    // The first of them is used again, so the second and the third have been idle longest.
    idle[0].write_all(GET).await.unwrap();
    assert!(read_answer(&mut idle[0]).await.ends_with("hello"));
    idle.extend([server.connect_idle().await, server.connect_idle().await]);
    for index in [1, 2] {
        assert_eq!(read_until_closed(&mut idle[index]).await, "", "connection {index} makes room");
    }
    until_open(&server.open, 18).await;
    sleep(Duration::from_millis(250)).await;
    assert_eq!((server.open.now(), server.open.closed_for_room()), (18, 2), "and no other");
    server.gate.send(true).unwrap();
    assert!(read_answer(&mut busy).await.ends_with("gated"));
    idle[3].write_all(GET).await.unwrap();
    assert!(read_answer(&mut idle[3]).await.ends_with("hello"));
}

/// Rule: a listener that is full of connections which send nothing still serves a new one.
#[tokio::test]
async fn silent_connections_keep_nobody_out() {
    let limits = ServerLimits { connections_max: 100, ..patient() };
    let server = TestServer::open(limits).await;
    let mut silent = Vec::new();
    for _ in 0..130 {
        silent.push(server.connect().await);
    }
    assert!(served_from("127.0.0.2", &server).await.is_some());
}
