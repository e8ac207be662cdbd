//! Pictures in a folder and in an S3 store (contract 5.8). No imgId points to missing or wrong bytes; what an
//! interruption leaves, a sweep finds.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use domain::picture_store::{Outside, PictureStore};
use minitill::config::Config;
use serde_json::{Value, json};

use crate::image::{large_picture, png, upload, uploaded};
use crate::support::program::Program;
use crate::support::s3::S3;
use crate::support::{PICTURE, Request, TestApp, TestTill, until};

/// A folder and an S3 store of one test's own.
struct Stores {
    folder: PathBuf,
    s3: S3,
}

impl Stores {
    async fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("minitill-pictures-{}-{number}", std::process::id()));
        Self { folder, s3: S3::start().await }
    }

    fn variables(&self) -> Vec<(String, String)> {
        let folder = self.folder.to_str().unwrap().to_owned();
        let mut variables = self.s3.variables.clone();
        variables.push(("MINITILL_IMAGE__FOLDER".to_owned(), folder));
        variables
    }

    /// A till that keeps new pictures there.
    async fn till(&self, store: PictureStore) -> TestTill {
        TestTill::start_with(|config| self.set(config, store)).await
    }

    fn set(&self, config: &mut Config, store: PictureStore) {
        let with = Config::load(None, self.variables().into_iter()).unwrap();
        config.s3 = with.s3;
        config.image.folder = with.image.folder;
        config.image.store = store;
    }

    fn program(&self, till: &TestTill) -> Program {
        self.variables()
            .iter()
            .fold(Program::on(&till.database_url), |program, (name, value)| program.with(name, value))
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The files of a folder that hold pictures.
fn files(folder: &Path) -> Vec<PathBuf> {
    let groups = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let groups = groups.filter(|path| path.is_dir());
    groups.flat_map(|group| std::fs::read_dir(group).unwrap().map(|entry| entry.unwrap().path())).collect()
}

const KEPT_OBJECTS: &str = "SELECT count(*) FROM picture_objects WHERE is_kept";
const OBJECTS: &str = "SELECT count(*) FROM picture_objects";
const NOTHING_SWEPT: [(&str, u64); 4] = [("contents", 0), ("unfinished", 0), ("objects", 0), ("files", 0)];

/// What an hour does to what was begun.
async fn an_hour_passes(till: &TestTill) {
    till.execute("UPDATE picture_objects SET created_at = created_at - interval '61 minutes'").await;
}

#[track_caller]
fn assert_swept(swept: &Value, expected: [(&str, u64); 4]) {
    for (name, count) in expected {
        assert_eq!(swept[name], count, "{name} in {swept}");
    }
}

async fn assert_served(till: &TestTill, id: &str, bytes: &[u8]) {
    let answer = till.send(Request::get(&format!("/img/{id}"))).await;
    assert_eq!((answer.status, answer.bytes.len()), (200, bytes.len()), "{}", answer.body);
    assert!(answer.bytes == bytes, "other bytes");
}

/// So many small pictures, all different.
fn pictures(count: u8) -> Vec<Vec<u8>> {
    (0..count).map(|number| png(24, |x, y| [number, x.to_le_bytes()[0], y.to_le_bytes()[0]])).collect()
}

async fn uploaded_all(till: &TestTill, app: &TestApp, pictures: &[Vec<u8>]) -> Vec<String> {
    let mut ids = Vec::new();
    for picture in pictures {
        ids.push(uploaded(till, app, picture).await);
    }
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_outside_the_database_is_served_as_one_inside() {
    for outside in Outside::ALL {
        let stores = Stores::new().await;
        let till = stores.till(outside.into()).await;
        let (app, other) = (till.app("a1").await, till.app("a2").await);
        let large = large_picture();
        let id = uploaded(&till, &app, &large).await;
        assert_eq!(uploaded(&till, &app, &large).await, id, "the same bytes are the same image");
        assert_ne!(uploaded(&till, &other, &large).await, id, "an id is useless to another app");
        // Once for all apps, and nothing of it in the database.
        assert_eq!(till.number(OBJECTS).await, 1);
        assert_eq!(till.number(KEPT_OBJECTS).await, 1);
        assert_eq!(till.number("SELECT count(*) FROM picture_parts").await, 0);
        assert_served(&till, &id, &large).await;
        for (range, from, to) in [("bytes=0-0", 0, 1), ("bytes=262143-524288", 262_143, 524_289)] {
            let part = till.send(Request::get(&format!("/img/{id}")).header("range", range)).await;
            assert_eq!((part.status, part.bytes.as_slice()), (206, &large[from..to]), "{range}");
        }
        let last = till.send(Request::get(&format!("/img/{id}")).header("range", "bytes=-7")).await;
        assert_eq!((last.status, last.bytes.as_slice()), (206, &large[large.len() - 7..]));
        let small = till.send(Request::get(&format!("/img/{id}?w=120"))).await;
        assert_eq!((small.status, pictures::inspect(&small.bytes).unwrap().side), (200, 120));
        assert_swept(&stores.program(&till).json(&["image", "sweep"]), NOTHING_SWEPT);
    }
}

/// Rule: an object's name tells nothing about its bytes, not even to whoever sees the bucket.
#[tokio::test(flavor = "multi_thread")]
async fn names_outside_tell_nothing() {
    let stores = Stores::new().await;
    let till = stores.till(PictureStore::Folder).await;
    let id = uploaded(&till, &till.app("a1").await, PICTURE).await;
    let files = files(&stores.folder);
    let name = files[0].file_name().unwrap().to_str().unwrap();
    assert_eq!((files.len(), name.len(), std::fs::read(&files[0]).unwrap().as_slice()), (1, 48, PICTURE));
    let hash: String = sqlx::query_scalar("SELECT encode(content_sha256, 'hex') FROM images")
        .fetch_one(&till.sql)
        .await
        .unwrap();
    assert!(name != id && !hash.contains(name));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_picture_leaves_nothing_outside() {
    let stores = Stores::new().await;
    let till = stores.till(PictureStore::Folder).await;
    let (app, program) = (till.app("a1").await, stores.program(&till));
    let path = std::env::temp_dir().join(format!("minitill-{}-store-block.png", std::process::id()));
    std::fs::write(&path, PICTURE).unwrap();
    program.json(&["image", "block", path.to_str().unwrap(), "--reason", "r"]);
    till.send(upload(&app, PICTURE))
        .await
        .assert_refused(10_000_303, "file: the picture is blocked by risk control; use another one");
    assert_eq!(till.number(OBJECTS).await, 0);
    program.json(&["image", "unblock", path.to_str().unwrap()]);
    let id = uploaded(&till, &app, PICTURE).await;
    // One that is blocked later needs its bytes for `image block`.
    program.json(&["image", "block", &id, "--reason", "r"]);
    assert_eq!(till.send(Request::get(&format!("/img/{id}"))).await.status, 404);
    std::fs::remove_file(&path).unwrap();
}

/// Rule: `image move` moves every way, and whoever looks meanwhile sees every picture whole.
#[tokio::test(flavor = "multi_thread")]
async fn pictures_move_from_store_to_store_under_readers() {
    let stores = Stores::new().await;
    let till = stores.till(PictureStore::Database).await;
    let (app, program) = (till.app("a1").await, stores.program(&till));
    let mut pictures = pictures(10);
    pictures.push(large_picture());
    let ids = uploaded_all(&till, &app, &pictures).await;
    let ways = ["folder", "s3", "database", "s3", "folder", "database"];
    let moving = tokio::task::spawn_blocking(move || {
        for to in ways {
            let moved = program.json(&["image", "move", "--to", to]);
            assert_eq!(
                (&moved["to"], &moved["moved"], &moved["damaged"]),
                (&json!(to), &json!(11), &json!([]))
            );
            assert_eq!(program.json(&["image", "move", "--to", to])["moved"], 0);
            assert_eq!(program.json(&["image", "verify"])["whole"], 11);
        }
        assert_swept(&program.json(&["image", "sweep"]), NOTHING_SWEPT);
    });
    let mut looks = 0;
    while !moving.is_finished() || looks == 0 {
        for (id, picture) in ids.iter().zip(&pictures) {
            assert_served(&till, id, picture).await;
            looks += 1;
        }
    }
    moving.await.unwrap();
    assert_eq!(till.number(OBJECTS).await, 0);
    assert_eq!(files(&stores.folder), Vec::<PathBuf>::new());
}

/// Rule: a move that is killed anywhere loses nothing and is repeated.
#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_is_killed_is_repeated() {
    let stores = Stores::new().await;
    let till = stores.till(PictureStore::Database).await;
    let (app, program) = (till.app("a1").await, stores.program(&till));
    let pictures = pictures(30);
    let ids = uploaded_all(&till, &app, &pictures).await;
    for (to, kills) in [("folder", 2), ("s3", 2), ("database", 2)] {
        for _ in 0..kills {
            let before = till.number(KEPT_OBJECTS).await;
            let mut moving = program.command(&["image", "move", "--to", to]).spawn().unwrap();
            // Until something was begun; then at once.
            let begun = "SELECT count(*) FROM picture_objects WHERE NOT is_kept";
            until("something was begun", async || {
                moving.try_wait().unwrap().is_some()
                    || till.number(begun).await > 0
                    || till.number(KEPT_OBJECTS).await != before
            })
            .await;
            moving.kill().unwrap();
            moving.wait().unwrap();
            assert_eq!(program.json(&["image", "verify"])["whole"], 30);
        }
        program.json(&["image", "move", "--to", to]);
        assert_eq!(program.json(&["image", "move", "--to", to])["moved"], 0);
        for (id, picture) in ids.iter().zip(&pictures) {
            assert_served(&till, id, picture).await;
        }
        an_hour_passes(&till).await;
        program.json(&["image", "sweep"]);
        assert_swept(&program.json(&["image", "sweep"]), NOTHING_SWEPT);
        let kept = if to == "database" { 0 } else { 30 };
        assert_eq!((till.number(OBJECTS).await, till.number(KEPT_OBJECTS).await), (kept, kept));
        let in_folder = if to == "folder" { 30 } else { 0 };
        assert_eq!(files(&stores.folder).len(), in_folder);
    }
}

/// Rule: a sweep removes what nobody uses, says how much, and leaves alone what is not ours and what
/// is being written.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_finds_what_was_left() {
    let stores = Stores::new().await;
    let till = stores.till(PictureStore::Folder).await;
    let (app, program) = (till.app("a1").await, stores.program(&till));
    let id = uploaded(&till, &app, PICTURE).await;
    let at = |name: &str| stores.folder.join(&name[..2]).join(name);
    let lay = |name: &str| {
        std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        std::fs::write(at(name), "left").unwrap();
    };
    // An object without a row, a file that was cut short, one that is being written, and others'.
    let (unknown, unfinished, begun) = ("a".repeat(48), "b".repeat(48), "c".repeat(48));
    lay(&unknown);
    lay(&format!("{unfinished}#1"));
    lay(&begun);
    lay(&format!("{begun}#1"));
    lay("notes.txt");
    std::fs::write(stores.folder.join("README"), "not ours").unwrap();
    till.execute(&format!(
        "INSERT INTO picture_objects (name, stored_in, content_sha256, byte_length) VALUES ('{begun}', 'folder', 'x', 1);
         INSERT INTO picture_parts VALUES ('unused', 0, 'bytes'), ('unused', 1, 'bytes')"
    ))
    .await;
    let found = [("contents", 1), ("unfinished", 0), ("objects", 1), ("files", 1)];
    for _ in 0..2 {
        let looked = program.json(&["image", "sweep", "--dry-run"]);
        assert_swept(&looked, found);
        assert_eq!((&looked["dry_run"], &looked["foreign"]), (&json!(true), &json!(1)));
    }
    assert_swept(&program.json(&["image", "sweep"]), found);
    assert_swept(&program.json(&["image", "sweep"]), NOTHING_SWEPT);
    assert!(!at(&unknown).exists() && at(&begun).exists() && at("notes.txt").exists());
    an_hour_passes(&till).await;
    let found = [("contents", 0), ("unfinished", 1), ("objects", 1), ("files", 1)];
    assert_swept(&program.json(&["image", "sweep", "--dry-run"]), found);
    assert_swept(&program.json(&["image", "sweep"]), found);
    assert_swept(&program.json(&["image", "sweep"]), NOTHING_SWEPT);
    assert_served(&till, &id, PICTURE).await;
    assert!(stores.folder.join("README").exists());
}

/// Rule: an upload that a sweep overtakes begins again; its imgId points to its bytes.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_in_the_middle_of_an_upload_loses_nothing() {
    let stores = Stores::new().await;
    let till = stores.till(PictureStore::S3).await;
    let (app, program) = (till.app("a1").await, stores.program(&till));
    let Some(double) = &stores.s3.double else { return };
    for overtaken in [false, true] {
        let picture = png(32, |x, y| [x.to_le_bytes()[0], y.to_le_bytes()[0], u8::from(overtaken)]);
        double.hold();
        let (request, address) = (upload(&app, &picture), till.address);
        let uploading = tokio::spawn(async move { request.send(address).await });
        double.held().await;
        if overtaken {
            an_hour_passes(&till).await;
        }
        // Young: left alone. Old: given up, with its object.
        let expected = u64::from(overtaken);
        let swept = program.json(&["image", "sweep"]);
        assert_swept(
            &swept,
            [("contents", 0), ("unfinished", expected), ("objects", expected), ("files", 0)],
        );
        double.release();
        let answer = uploading.await.unwrap();
        if answer.status == 200 {
            let id = answer.json()["data"]["imgId"].as_str().unwrap().to_owned();
            assert_served(&till, &id, &picture).await;
        } else {
            // What was written did not stay, and that was noticed.
            assert!(overtaken && answer.status == 503, "{}", answer.body);
            let id = uploaded(&till, &app, &picture).await;
            assert_served(&till, &id, &picture).await;
        }
    }
    assert_eq!(till.number(OBJECTS).await, till.number(KEPT_OBJECTS).await);
    assert_eq!(program.json(&["image", "verify"])["whole"], 2);
    assert_swept(&program.json(&["image", "sweep"]), NOTHING_SWEPT);
}

/// Rule: an object that was written and read back, and is swept away before the image is written, is
/// no image's place.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_goes_before_its_image_is_written_is_noticed() {
    let stores = Stores::new().await;
    let Some(double) = &stores.s3.double else { return };
    let till = stores.till(PictureStore::S3).await;
    let app = till.app("a1").await;
    uploaded(&till, &app, &pictures(1)[0]).await;
    let known = double.objects().clone();
    double.hold();
    let (request, address) = (upload(&app, PICTURE), till.address);
    let uploading = tokio::spawn(async move { request.send(address).await });
    double.held().await;
    let mut holding = till.sql.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE picture_blocks IN EXCLUSIVE MODE").execute(&mut *holding).await.unwrap();
    double.release();
    let waiting = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                   WHERE d.datname = current_database() AND NOT l.granted";
    until("the upload waits", async || till.number(waiting).await == 1).await;
    // What a sweep does, an hour later.
    till.execute("DELETE FROM picture_objects WHERE NOT is_kept").await;
    *double.objects() = known;
    holding.rollback().await.unwrap();
    let answer = uploading.await.unwrap();
    let id = answer.json()["data"]["imgId"].as_str().unwrap_or_else(|| panic!("{}", answer.body)).to_owned();
    assert_served(&till, &id, PICTURE).await;
    assert_eq!(till.number(OBJECTS).await, 2);
}

/// Rule: the same new picture from two apps at once is kept once, and both have it.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_new_picture_at_once_is_kept_once() {
    for outside in Outside::ALL {
        let stores = Stores::new().await;
        let till = stores.till(outside.into()).await;
        let mut uploading = tokio::task::JoinSet::new();
        for number in 0..8 {
            let (request, address) = (upload(&till.app(&format!("a{number}")).await, PICTURE), till.address);
            uploading.spawn(async move { request.send(address).await });
        }
        for answer in uploading.join_all().await {
            let id = answer.json()["data"]["imgId"]
                .as_str()
                .unwrap_or_else(|| panic!("{}", answer.body))
                .to_owned();
            assert_served(&till, &id, PICTURE).await;
        }
        assert_eq!((till.number(KEPT_OBJECTS).await, till.number(OBJECTS).await), (1, 1));
        assert_swept(&stores.program(&till).json(&["image", "sweep"]), NOTHING_SWEPT);
    }
}

/// Rule: bytes that are missing, short or wrong are never served as if they were whole, and `verify`
/// names them.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_objects_are_named_and_not_moved() {
    let stores = Stores::new().await;
    let till = stores.till(PictureStore::Folder).await;
    let (app, program) = (till.app("a1").await, stores.program(&till));
    let pictures = pictures(4);
    let mut of_picture = Vec::new();
    for picture in &pictures {
        let id = uploaded(&till, &app, picture).await;
        let file =
            files(&stores.folder).into_iter().find(|file| std::fs::read(file).unwrap() == *picture).unwrap();
        of_picture.push((id, file));
    }
    std::fs::remove_file(&of_picture[0].1).unwrap();
    std::fs::write(&of_picture[1].1, &pictures[1][1..]).unwrap();
    let mut wrong = pictures[2].clone();
    *wrong.last_mut().unwrap() ^= 1;
    std::fs::write(&of_picture[2].1, wrong).unwrap();
    for (id, _) in &of_picture[..3] {
        let answer = till.send(Request::get(&format!("/img/{id}"))).await;
        assert_eq!(
            (answer.status, answer.code(), answer.message().as_str()),
            (500, 10_000_500, "system error; send the same request again")
        );
    }
    assert_served(&till, &of_picture[3].0, &pictures[3]).await;
    for arguments in [&["image", "verify", "--json"][..], &["image", "move", "--to", "database", "--json"]] {
        let output = program.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let reasons = told["damaged"].to_string();
        assert_eq!(told["damaged"].as_array().unwrap().len(), 3, "{reasons}");
        for words in ["missing in folder", "are expected", "they are other bytes"] {
            assert!(reasons.contains(words), "{words} in {reasons}");
        }
    }
    assert_eq!(till.number(KEPT_OBJECTS).await, 3, "what is damaged stays where it is");
    assert_served(&till, &of_picture[3].0, &pictures[3]).await;
}

/// Rule: with the S3 store away an upload is refused, nothing is acknowledged, and what is not about pictures goes on.
/// Nobody waits for a store that hangs.
#[tokio::test(flavor = "multi_thread")]
async fn an_s3_store_that_is_away_is_answered_503() {
    let stores = Stores::new().await;
    let Some(double) = &stores.s3.double else { return };
    let patient = stores.till(PictureStore::S3).await;
    let till = TestTill::start_on(patient.database_url.clone(), |config| {
        stores.set(config, PictureStore::S3);
        config.image.store_timeout = Duration::from_secs(2);
    })
    .await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let id = uploaded(&patient, &app, PICTURE).await;
    let new = pictures(1).remove(0);
    double.fail(true);
    let away = "the service is not available now, try again";
    for request in [upload(&app, &new), Request::get(&format!("/img/{id}"))] {
        let answer = till.send(request).await;
        assert_eq!((answer.status, answer.code(), answer.message().as_str()), (503, 10_000_500, away));
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    assert_eq!(crate::game::Game::new(&app, "o1", "b1", 10).send(&till).await.code(), 1);
    // A store that hangs until after the answer.
    double.fail(false);
    double.hold();
    let answer = till.send(upload(&app, &pictures(2)[1])).await;
    assert!(answer.status == 200 || answer.status == 503, "{}", answer.body);
    double.release();
    assert_eq!(till.number("SELECT count(*) FROM picture_objects WHERE NOT is_kept").await, 0);
    let id = uploaded(&patient, &app, &new).await;
    assert_served(&patient, &id, &new).await;
}

/// Rule: a store of another database is neither written nor swept, and the server says so at its
/// start. A store that is only away does not keep the server from selling.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_not_ours_is_refused() {
    let stores = Stores::new().await;
    let (till, other) = (stores.till(PictureStore::Folder).await, TestTill::start().await);
    let app = till.app("a1").await;
    let id = uploaded(&till, &app, PICTURE).await;
    let server = |program: Program| {
        let program = program.with("MINITILL_PUBLIC__LISTEN", "127.0.0.1:0");
        program.with("MINITILL_OPS__LISTEN", "127.0.0.1:0").with("MINITILL_IMAGE__STORE", "folder")
    };
    let foreign = server(stores.program(&other));
    for arguments in [&["serve"][..], &["image", "sweep"], &["image", "move", "--to", "folder"]] {
        let complaint = foreign.complaint(arguments);
        assert!(complaint.contains("image.folder belongs to another Minitill's database"), "{complaint}");
    }
    // As if its disk were not mounted.
    let aside = stores.folder.with_extension("aside");
    std::fs::rename(&stores.folder, &aside).unwrap();
    assert_eq!(till.send(upload(&app, &large_picture())).await.status, 503);
    let own = server(stores.program(&till));
    for arguments in [&["serve"][..], &["image", "sweep"]] {
        let complaint = own.complaint(arguments);
        assert!(
            complaint.contains("does not hold this database's pictures: is its disk mounted"),
            "{complaint}"
        );
    }
    std::fs::remove_dir_all(&stores.folder).unwrap();
    std::fs::rename(&aside, &stores.folder).unwrap();
    assert_served(&till, &id, PICTURE).await;
    uploaded(&till, &app, &large_picture()).await;
    // Nobody listens there.
    let away = stores.program(&till).with("MINITILL_S3__ENDPOINT", "http://127.0.0.1:9");
    let server = away
        .with("MINITILL_IMAGE__STORE", "s3")
        .with("MINITILL_IMAGE__STORE_TIMEOUT", "2s")
        .serve(None)
        .await;
    assert_eq!(upload(&app, &pictures(1)[0]).send(server.address).await.status, 503);
    assert_eq!(Request::get(&format!("/img/{id}")).send(server.address).await.bytes, PICTURE);
}
