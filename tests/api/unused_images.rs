//! The sweep of images that nothing uses (contract 5.10), and the floor of free disk (contract 5.9).

use std::time::Duration;

use domain::picture_store::{Outside, PictureStore};
use domain::secret::Secret;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::game::Game;
use crate::image::{png, upload};
use crate::support::{Answer, NOW, PAGE, Request, TestApp, TestTill};

const DAY: Duration = Duration::from_hours(24);

fn picture(number: u8) -> Vec<u8> {
    png(8, |x, y| [number, x.to_le_bytes()[0], y.to_le_bytes()[0]])
}

async fn uploaded(till: &TestTill, app: &TestApp, number: u8) -> String {
    let answer = till.send(upload(app, &picture(number))).await;
    answer.json()["data"]["imgId"].as_str().unwrap_or_else(|| panic!("{}", answer.body)).to_owned()
}

async fn report(till: &TestTill, app: &TestApp, order: &str, img_id: &str) -> Answer {
    let path = format!("/openapi/mp/developer/order/v1/report?app_id={}&access_token={}", app.id, app.token);
    let report = json!({
        "out_biz_order_no": order, "out_order_no": order, "open_id": "o1", "order_create_time": NOW - 1000,
        "order_status": 1, "order_path": PAGE, "product_cover_img_id": img_id,
    });
    till.send(Request::post(&path).body(report.to_string())).await
}

async fn is_served(till: &TestTill, img_id: &str) -> bool {
    till.send(Request::get(&format!("/img/{img_id}"))).await.status == 200
}

/// Makes all images older than a day.
async fn age(till: &TestTill) {
    till.execute("UPDATE images SET last_uploaded_at = last_uploaded_at - interval '25 hours'").await;
}

/// Rule: contract 5.10.1 to 5.10.3.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_nothing_uses_goes_and_every_other_stays() {
    let till = TestTill::start().await;
    let (app, other) = (till.app("a1").await, till.app("a2").await);
    till.player(&app, "o1", 0, 0).await;
    let unused = uploaded(&till, &app, 1).await;
    let reported = uploaded(&till, &app, 2).await;
    let formerly = uploaded(&till, &app, 3).await;
    let again = uploaded(&till, &app, 4).await;
    let shared = uploaded(&till, &app, 5).await;
    for (order, img_id) in [("order-1", &formerly), ("order-1", &reported)] {
        assert_eq!(report(&till, &app, order, img_id).await.code(), 1);
    }
    age(&till).await;
    assert_eq!(uploaded(&till, &app, 4).await, again, "uploaded again");
    let of_other = uploaded(&till, &other, 5).await;
    assert_eq!(till.store.sweep_unused_images(DAY * 2).await.unwrap(), 0);
    assert_eq!(till.store.sweep_unused_images(DAY).await.unwrap(), 2);
    for (img_id, stays) in [
        (&unused, false),
        (&reported, true),
        (&formerly, true),
        (&again, true),
        (&shared, false),
        (&of_other, true),
    ] {
        assert_eq!(is_served(&till, img_id).await, stays, "{img_id}");
    }
    assert_eq!(report(&till, &app, "order-2", &unused).await.code(), 10_000_417);
    assert_eq!(till.number("SELECT count(DISTINCT content_sha256) FROM picture_parts").await, 4);
    let usage = "SELECT count(*) FROM image_usage u WHERE (bytes, images) = \
                 (SELECT sum(byte_length)::bigint, count(*) FROM images i WHERE i.app_id = u.app_id)";
    assert_eq!(till.number(usage).await, 2);
    assert_ne!(uploaded(&till, &app, 1).await, unused, "an image of its own");
}

/// Rule: contract 5.10.3. A sweep removes a piece, so that other jobs have their turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_removes_a_piece() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let some = u8::try_from(store::IMAGES_AT_ONCE).unwrap();
    for number in 0..=some {
        uploaded(&till, &app, number).await;
    }
    age(&till).await;
    assert_eq!(till.store.sweep_unused_images(DAY).await.unwrap(), u64::from(some));
    assert_eq!(till.number("SELECT count(*) FROM images").await, 1);
    assert_eq!(till.store.sweep_unused_images(DAY).await.unwrap(), 1);
    assert_eq!(till.store.sweep_unused_images(DAY).await.unwrap(), 0);
    assert_eq!(till.number("SELECT count(*) FROM picture_parts").await, 0);
}

/// Rule: bytes in a folder go with the last image that has them.
#[tokio::test(flavor = "multi_thread")]
async fn the_object_of_an_unused_image_goes_too() {
    let folder = std::env::temp_dir().join(format!("minitill-unused-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let kept = folder.clone();
    let till = TestTill::start_with(|config| {
        config.image.store = PictureStore::Folder;
        config.image.folder = kept;
    })
    .await;
    let app = till.app("a1").await;
    till.store.open_picture_store(Outside::Folder).await.unwrap().unwrap();
    uploaded(&till, &app, 1).await;
    age(&till).await;
    assert_eq!(till.store.sweep_unused_images(DAY).await.unwrap(), 1);
    let swept = till.store.sweep_pictures(true).await.unwrap();
    assert_eq!(json!(swept), json!({"contents": 0, "unfinished": 0, "objects": 0, "files": 0, "foreign": 0}));
    std::fs::remove_dir_all(folder).unwrap();
}

/// Rule: contract 5.10.4. Reports, uploads and two sweeps at once: an order never names an image that is
/// gone, and an upload never answers with one.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_or_an_upload_racing_with_the_sweep_keeps_its_image_or_is_refused() {
    let till = TestTill::start_with(|config| config.database.connections = 8).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 0).await;
    for round in 0..6 {
        let numbers: Vec<u8> = (round * 20..round * 20 + 20).collect();
        let mut images = Vec::new();
        for number in &numbers {
            images.push(uploaded(&till, &app, *number).await);
        }
        age(&till).await;
        let sweeps = join_all((0..2).map(|_| till.store.sweep_unused_images(DAY)));
        let reports = join_all(images.iter().take(10).enumerate().map(|(number, img_id)| {
            let order = format!("order-{round}-{number}");
            let (till, app) = (&till, &app);
            async move { report(till, app, &order, img_id).await.code() }
        }));
        let uploads = join_all(numbers.iter().skip(10).map(|number| uploaded(&till, &app, *number)));
        let (sweeps, reports, uploads) = tokio::join!(sweeps, reports, uploads);
        assert!(sweeps.iter().all(Result::is_ok), "{sweeps:?}");
        assert!(reports.iter().all(|code| [1, 10_000_417].contains(code)), "{reports:?}");
        for img_id in uploads {
            assert!(is_served(&till, &img_id).await, "{img_id} was answered and is gone");
        }
    }
    let dangling = "SELECT count(*) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM images i JOIN picture_parts p \
                    USING (content_sha256) WHERE i.app_id = o.app_id AND i.img_id = o.product_cover_img_id)";
    assert_eq!(till.number(dangling).await, 0);
}

/// Rule: contract 5.9.
#[tokio::test(flavor = "multi_thread")]
async fn below_the_floor_of_free_disk_uploads_are_503_and_nothing_else_is() {
    let folder = std::env::temp_dir();
    let till = TestTill::start_with(|config| {
        config.database.data_dir = folder;
        config.image.disk_free_min = u64::MAX;
    })
    .await;
    let app = till.app_like("a1", crate::support::AppKind { sandbox: true, ..Default::default() }).await;
    till.player(&app, "o1", 50, 50).await;
    let img_id = till.image(&app).await;
    let by_url = format!(
        "/openapi/mp/developer/file/img/uploadWithUrl?app_id={}&access_token={}&url=http://192.0.2.1/",
        app.id, app.token
    );
    for request in [upload(&app, &picture(1)), Request::post(&by_url)] {
        let refused = till.send(request).await;
        assert_eq!(refused.status, 503);
        assert_eq!(
            refused.body,
            r#"{"result":10000500,"error_msg":"the service has no room for pictures now, try again later"}"#
        );
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    assert_eq!(Game::new(&app, "o1", "b1", 10).send(&till).await.code(), 1);
    assert_eq!(report(&till, &app, "order-1", img_id.as_str()).await.code(), 1);
    assert!(is_served(&till, img_id.as_str()).await);
    let get = async |path: &str| Request::get(path).send(till.operator_address).await;
    let ready = get("/readyz").await;
    let told: Value = ready.json();
    let shortage = told["uploads_refused"].as_str().unwrap();
    assert!(ready.status == 200 && told["status"] == "ready", "{}", ready.body);
    assert!(
        shortage.ends_with(&format!(" bytes of disk are free, and image.disk_free_min is {}", u64::MAX)),
        "{shortage}"
    );
    assert!(get("/metrics").await.body.contains("\nminitill_uploads_have_room 0\n"));
    // Nothing is asked where the database is elsewhere.
    let outside = TestTill::start_with(|config| {
        config.database.data_dir = std::env::temp_dir();
        config.database.url = Secret::new("postgres://elsewhere/minitill".to_owned());
        config.image.disk_free_min = u64::MAX;
    })
    .await;
    let app = outside.app("a1").await;
    assert_eq!(outside.send(upload(&app, &picture(1))).await.code(), 1);
    assert!(
        Request::get("/metrics")
            .send(outside.operator_address)
            .await
            .body
            .contains("\nminitill_uploads_have_room 1\n")
    );
}
