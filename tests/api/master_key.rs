//! Replacing the master key, with servers that go on serving.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use store::MasterKeyRefused;
use store::secrets::Keyring;
use tokio::time::sleep;

use crate::game::Game;
use crate::support::program::Program;
use crate::support::{MASTER_KEY, TestApp, TestTill, until};

/// More than are encrypted anew in one transaction.
const APPS: usize = 70;
const NEW_KEY: &str = "2222222222222222222222222222222222222222222222222222222222222222";

struct Scene {
    till: TestTill,
    apps: Vec<TestApp>,
    folder: PathBuf,
    /// Commands and servers that read their keys from the folder's file.
    program: Program,
}

impl Scene {
    async fn new(name: &str) -> Self {
        let till = TestTill::start().await;
        let mut apps = Vec::new();
        for index in 0..APPS {
            let app = till.app(&format!("a{index:02}")).await;
            till.player(&app, "o1", 0, 1_000_000).await;
            apps.push(app);
        }
        let folder = std::env::temp_dir().join(format!("minitill-rotate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("master.key"), MASTER_KEY).unwrap();
        let program = Program::on(&till.database_url)
            .with("MINITILL_SECRETS__MASTER_KEY", "")
            .with("MINITILL_DATABASE__DATA_DIR", folder.to_str().unwrap());
        Self { till, apps, folder, program }
    }

    /// Programs that take their keys from the setting instead.
    fn holding(&self, keys: &str) -> Program {
        self.program.clone().with("MINITILL_SECRETS__MASTER_KEY", keys)
    }

    /// Every app's exchange succeeds on this server.
    async fn assert_serves_all(&self, address: std::net::SocketAddr, round: &str) {
        for app in &self.apps {
            let answer = game(app, &format!("all{round}")).request().send(address).await;
            assert_eq!(answer.code(), 1, "{}: {}", app.id, answer.body);
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn game(app: &TestApp, biz_no: &str) -> Game {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    Game::new(app, "o1", biz_no, 1).with("ts", now)
}

/// Contract 9.4.6: a program that starts during a rotation may have read the file before the new key was in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_a_rotation_has_just_added_is_read_again() {
    let scene = Scene::new("added").await;
    let before = Keyring::read(&scene.folder.join("master.key")).unwrap().unwrap();
    scene.program.json(&["master-key", "rotate"]);
    scene.till.store.unlock(&before).await.unwrap();
    // Keys of the setting have no file.
    let of_setting = Keyring::parse(MASTER_KEY, "tests").unwrap();
    assert_eq!(scene.till.store.unlock(&of_setting).await.unwrap_err(), MasterKeyRefused::DoesNotFit);
}

/// No request fails while the key is replaced, twice, under a running server.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_under_requests_goes_through_rotations_without_a_failed_request() {
    let scene = Scene::new("requests").await;
    let server = scene.program.serve(None).await;
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    // Longer than the server remembers an app, and until both clients have had every app, so that it reads each one
    // again.
    let all_are_read_again = async || {
        sleep(Duration::from_millis(2500)).await;
        let before = sent.load(Ordering::Relaxed);
        until("every app is asked for", async || sent.load(Ordering::Relaxed) > before + 3 * APPS).await;
    };
    let clients: Vec<_> = (0..2)
        .map(|client| {
            let (stop, sent, apps) = (Arc::clone(&stop), Arc::clone(&sent), scene.apps.clone());
            let address = server.address;
            tokio::spawn(async move {
                let mut failed = Vec::new();
                for (round, app) in apps.iter().cycle().enumerate() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let answer = game(app, &format!("c{client}r{round}")).request().send(address).await;
                    sent.fetch_add(1, Ordering::Relaxed);
                    if answer.code() != 1 {
                        failed.push(answer.body);
                    }
                    sleep(Duration::from_millis(20)).await;
                }
                failed
            })
        })
        .collect();
    let before = scene.program.json(&["master-key", "show"])["encrypts"].clone();
    scene.program.json(&["app", "create", "other"]);
    for _ in 0..2 {
        all_are_read_again().await;
        let (scene_program, other) = (scene.program.clone(), ["app", "rotate-pay-key", "other"]);
        // A pay key is made while others are encrypted anew.
        let rotating = tokio::task::spawn_blocking(move || scene_program.json(&["master-key", "rotate"]));
        scene.program.json(&other);
        assert!(rotating.await.unwrap()["secrets"].as_u64().unwrap() >= 2 * APPS as u64);
        let ambiguous = scene.program.complaint(&["master-key", "rotate"]);
        assert!(ambiguous.contains("has keys that encrypt nothing"), "{ambiguous}");
        assert_eq!(scene.program.json(&["master-key", "forget"])["forgotten"], 1);
    }
    all_are_read_again().await;
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        assert_eq!(client.await.unwrap(), [""; 0]);
    }
    let after = scene.program.json(&["master-key", "show"]);
    assert_ne!(after["encrypts"], before);
    assert_eq!((&after["unfinished"], after["at_hand"].as_array().unwrap().len()), (&json!(false), 1));
    server.terminate();
    // With the new key alone everything opens; with the former one nothing starts.
    let text = std::fs::read_to_string(scene.folder.join("master.key")).unwrap();
    assert!(text.trim().len() == 64 && !text.contains(MASTER_KEY));
    let server = scene.program.serve(None).await;
    scene.assert_serves_all(server.address, "alone").await;
    server.terminate();
    let refused = scene.holding(MASTER_KEY).complaint(&["app", "list"]);
    assert!(refused.starts_with("minitill: the master key does not fit this database"), "{refused}");
    let log = scene.program.json(&["operator-log", "--limit", "9"]).to_string();
    assert!(
        log.contains("master_key.rotate") && log.contains("master_key.rotated") && !log.contains(text.trim())
    );
}

/// Killed in the middle, a rotation leaves everything readable, and is done when it is repeated.
#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_that_is_killed_loses_nothing_and_is_finished_by_the_next() {
    let scene = Scene::new("killed").await;
    let new_key = scene.folder.join("new.key");
    std::fs::write(&new_key, NEW_KEY).unwrap();
    let rotate = ["master-key", "rotate", "--new-key-file", new_key.to_str().unwrap()];
    let server = scene.program.serve(None).await;
    // The second transaction of the rotation waits for this app.
    let mut holder = scene.till.sql.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM apps WHERE app_id = 'a66' FOR UPDATE").execute(&mut *holder).await.unwrap();
    let mut rotating = scene.program.command(&rotate).stdout(Stdio::null()).spawn().unwrap();
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%app_secret FROM apps%'
                 AND datname = current_database()";
    until("the rotation waits", async || scene.till.number(waits).await > 0).await;
    rotating.kill().unwrap();
    rotating.wait().unwrap();
    holder.rollback().await.unwrap();
    assert_eq!(scene.program.json(&["master-key", "show"])["unfinished"], true);
    scene.assert_serves_all(server.address, "half").await;
    let made = scene.program.json(&["app", "create", "between"]);
    assert_eq!(made["app_id"], "between");
    // Neither key is enough by itself now, and the former one is not forgotten.
    let former = scene.program.complaint(&["master-key", "forget"]);
    assert!(former.contains("a rotation is unfinished"), "{former}");
    let half = scene.holding(NEW_KEY).complaint(&["app", "list"]);
    assert!(half.contains("the former key is needed beside the new one"), "{half}");
    let half = scene.holding(MASTER_KEY).complaint(&["app", "list"]);
    assert!(half.contains("does not fit"), "{half}");
    let done = scene.program.json(&rotate);
    assert_eq!(done["secrets"], 2 * (APPS - 64), "what the first call did is not done again");
    assert_eq!(scene.program.json(&rotate)["secrets"], 0, "the key given is the one that encrypts");
    scene.program.json(&["master-key", "forget"]);
    assert_eq!(scene.holding(NEW_KEY).json(&["master-key", "show"])["unfinished"], false);
    sleep(Duration::from_millis(2100)).await;
    scene.assert_serves_all(server.address, "done").await;
    server.terminate();
}

/// The steps of docs/operators.md with the key in a variable: both everywhere, rotate, the new alone.
#[tokio::test(flavor = "multi_thread")]
async fn with_keys_in_the_setting_the_first_one_encrypts_and_both_decrypt() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let program = Program::on(&till.database_url);
    let holding = |keys: &str| program.clone().with("MINITILL_SECRETS__MASTER_KEY", keys);
    let one = program.complaint(&["master-key", "rotate"]);
    assert!(one.contains("expected the new key before the key that encrypts"), "{one}");
    let both = format!("{MASTER_KEY},{NEW_KEY}");
    let server = holding(&both).serve(None).await;
    assert!(
        holding(&both)
            .complaint(&["master-key", "rotate"])
            .contains("expected the new key before the key that encrypts")
    );
    holding(&both).json(&["app", "rotate-secret", "a1"]);
    let rotated = holding(&format!("{NEW_KEY},{MASTER_KEY}")).json(&["master-key", "rotate"]);
    assert_eq!(rotated["secrets"], 3, "the pay key, the app secret and the one before it");
    sleep(Duration::from_millis(2100)).await;
    assert_eq!(game(&app, "b1").request().send(server.address).await.code(), 1);
    // Whoever holds both encrypts with the one that the database names, whatever stands in front.
    holding(&both).json(&["app", "create", "a2"]);
    server.terminate();
    let uses = "SELECT sum(uses)::bigint FROM key_uses WHERE app_id = 'a1' AND kind = 'pay_key'";
    assert_eq!(till.number(uses).await, 1, "a server that stops writes its counts (contract 8.2.3)");
    let server = holding(NEW_KEY).serve(None).await;
    assert_eq!(game(&app, "b2").request().send(server.address).await.code(), 1);
    // It opens what it decides about.
    assert_eq!(holding(NEW_KEY).json(&["token", "revoke", "a2", "--all"])["revoked"], 0);
    let former = Keyring::parse(MASTER_KEY, "tests").unwrap();
    assert_eq!(till.store.unlock(&former).await, Err(MasterKeyRefused::DoesNotFit));
}
