//! Secrets of receivers (contract 12.2.12 and 12.2.13), also while the master key is replaced.

use std::path::PathBuf;

use domain::operation::receiver::{AddedReceiver, ReceiverCommand, ReceiverReport};
use serde_json::json;

use super::standard::signature;
use super::{Scene, id};
use crate::game::Game;
use crate::support::program::Program;
use crate::support::receiver::{Notification, Receiver};
use crate::support::{MASTER_KEY, TestApp};

async fn rotate(scene: &Scene, added: &AddedReceiver) -> String {
    match scene.change(ReceiverCommand::RotateSecret(id(added).clone())).await {
        ReceiverReport::Rotated(rotated) => rotated.secret,
        report => panic!("{report:?}"),
    }
}

/// Signed with these secrets, in this order, and no others.
#[track_caller]
fn assert_signed(notification: &Notification, secrets: &[&str]) {
    let expected: Vec<_> = secrets.iter().map(|secret| signature(secret, notification)).collect();
    assert_eq!(notification.header("webhook-signature"), expected.join(" "));
}

/// Rule 12.2.13: the secret before the new one signs behind it. After a second rotation the first one signs no more at
/// once. After 24 hours the newest signs alone. Each holds for the very next event of a receiver that is being sent to.
#[tokio::test(flavor = "multi_thread")]
async fn while_a_secret_rotates_two_sign() {
    let receiver = Receiver::taking().await;
    let scene = Scene::new(&[&receiver]).await;
    let added = scene.add(&receiver).await;
    let first = added.secret.as_deref().unwrap();
    assert!(first.len() == 50 && first.starts_with("whsec_"), "{first}");
    scene.pay("b1").await;
    receiver.until_received(1).await;
    let second = rotate(&scene, &added).await;
    scene.pay("b2").await;
    receiver.until_received(2).await;
    let third = rotate(&scene, &added).await;
    scene.pay("b3").await;
    receiver.until_received(3).await;
    let ends = "SELECT count(*) FROM receivers WHERE former_until BETWEEN now() + interval '23:59' AND now() + interval '24:00'";
    assert_eq!(scene.till.number(ends).await, 1);
    scene.till.execute("UPDATE receivers SET former_until = now()").await;
    scene.pay("b4").await;
    let came = receiver.until_received(4).await;
    let expected: [&[&str]; 4] = [&[first], &[&second, first], &[&third, &second], &[&third]];
    for (notification, secrets) in came.iter().zip(expected) {
        assert_signed(notification, secrets);
    }
    let stored = scene.till.number("SELECT count(*) FROM receivers WHERE secret = former_secret").await;
    assert_eq!((stored, second == third), (0, false));
    let log = "SELECT count(*) FROM operator_log WHERE concat(before, after, note) LIKE '%whsec_%'";
    assert_eq!(scene.till.number(log).await, 0, "the log tells no secret");
}

/// A data folder with the tests' master key. It goes with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An exchange on a server with the machine's clock.
async fn pay_at(server: &crate::support::program::ServerProcess, app: &TestApp, biz_no: &str) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let game = Game::new(app, "o1", biz_no, 1).with("ts", now);
    let answer = game.request().send(server.address).await;
    assert_eq!(answer.code(), 1, "{}", answer.body);
}

/// Both secrets go on signing, under a running server and with the new master key alone.
#[tokio::test(flavor = "multi_thread")]
async fn secrets_sign_on_when_the_master_key_is_replaced() {
    let receiver = Receiver::taking().await;
    let (till, app) = super::quiet_till(&[], |_| {}).await;
    let folder = std::env::temp_dir().join(format!("minitill-receivers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("master.key"), MASTER_KEY).unwrap();
    let folder = Folder(folder);
    let program = Program::on(&till.database_url)
        .with("MINITILL_SECRETS__MASTER_KEY", "")
        .with("MINITILL_DATABASE__DATA_DIR", folder.0.to_str().unwrap())
        .with("MINITILL_NOTIFY__ALLOW_NETWORKS", "127.0.0.1/32")
        .with("MINITILL_NOTIFY__PORTS", &receiver.address.port().to_string());
    let added = program.json(&["receiver", "add", "a1", &receiver.url("/")]);
    let receiver_id = added["receiver_id"].as_str().unwrap();
    let rotated = program.json(&["receiver", "rotate-secret", "a1", receiver_id]);
    let (former, secret) = (added["secret"].as_str().unwrap(), rotated["secret"].as_str().unwrap());
    let server = program.serve(None).await;
    pay_at(&server, &app, "b1").await;
    receiver.until_received(1).await;
    // The pay key, the app secret, and both secrets of the receiver.
    assert_eq!(program.json(&["master-key", "rotate"])["secrets"], json!(4));
    pay_at(&server, &app, "b2").await;
    receiver.until_received(2).await;
    assert_eq!(program.json(&["master-key", "forget"])["forgotten"], json!(1));
    drop(server);
    till.execute("UPDATE receivers SET leased_until = now() WHERE lease IS NOT NULL").await;
    let server = program.serve(None).await;
    pay_at(&server, &app, "b3").await;
    let came = receiver
        .until("the third comes", |came| came.iter().any(|notification| notification.data("biz_no") == "b3"));
    for notification in came.await {
        assert_signed(&notification, &[secret, former]);
    }
}
