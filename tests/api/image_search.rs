//! Images as operators look for them, and all that is known of one.

use domain::ids::{AppId, ImgId};
use domain::operation::image::ImageCommand;
use pictures::{HASH_SIDE, hashes_of_near_copies, process};
use sha2::{Digest as _, Sha256};
use store::{BlobHash, ImageFilter, ImageKey, StoredImage};
use time::OffsetDateTime;

use crate::support::{PICTURE, TestTill, operator};

/// Writes images as uploads would have, without bytes: a digit for the id, app, second of the upload, and
/// what they look like.
async fn images(till: &TestTill, rows: &[(char, &str, i64, i64)]) {
    for (digit, app, second, looks) in rows {
        let (id, hash) = (id(*digit), digit.to_string().repeat(64));
        till.execute(&format!(
            "INSERT INTO images (app_id, img_id, sha256, format, side, byte_length, content_sha256, perceptual_hash,
                    uploaded_at)
             VALUES ('{app}', '{id}', '\\x{hash}', 'png', 10, 100, '\\x{hash}', {looks}, to_timestamp({second}))"
        ))
        .await;
    }
}

fn id(digit: char) -> String {
    digit.to_string().repeat(48)
}

fn digits(images: &[StoredImage]) -> String {
    images.iter().map(|image| image.img_id.as_str().chars().next().unwrap()).collect()
}

async fn found(till: &TestTill, filter: ImageFilter) -> String {
    let page = till.store.images(&filter, 100).await.unwrap();
    assert_eq!(page.next, None);
    digits(&page.items)
}

fn at(second: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(second).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn images_are_found_by_each_field_newest_first() {
    let till = TestTill::start().await;
    till.app("a1").await;
    till.app("a2").await;
    images(&till, &[('1', "a1", 10, 0), ('2', "a1", 20, 0), ('3', "a2", 20, 0), ('4', "a2", 30, 0)]).await;
    till.execute(&format!("UPDATE images SET blocked_by = content_sha256 WHERE img_id = '{}'", id('2')))
        .await;
    let any = ImageFilter::default();
    let of_app =
        |app: &str| ImageFilter { app_id: Some(AppId::parse(app).unwrap()), ..ImageFilter::default() };
    let keyed =
        |key: &str| ImageFilter { key: Some(ImageKey::parse(key).unwrap()), ..ImageFilter::default() };
    assert_eq!(found(&till, any.clone()).await, "4321");
    assert_eq!(found(&till, of_app("a1")).await, "21");
    assert_eq!(found(&till, of_app("a3")).await, "");
    assert_eq!(found(&till, ImageFilter { blocked: Some(true), ..any.clone() }).await, "2");
    assert_eq!(found(&till, ImageFilter { blocked: Some(false), ..of_app("a1") }).await, "1");
    assert_eq!(found(&till, keyed(&id('3'))).await, "3");
    assert_eq!(found(&till, keyed(&"3".repeat(64))).await, "3");
    assert_eq!(found(&till, keyed(&"5".repeat(64))).await, "");
    assert_eq!(found(&till, ImageFilter { app_id: of_app("a1").app_id, ..keyed(&id('3')) }).await, "");
    let between = ImageFilter { uploaded_since: Some(at(10)), uploaded_until: Some(at(20)), ..any };
    assert_eq!(found(&till, between).await, "1", "from is included, to is not");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_neither_skip_nor_repeat_while_images_arrive() {
    let till = TestTill::start().await;
    till.app("a1").await;
    images(&till, &[('1', "a1", 10, 0), ('2', "a1", 10, 0), ('3', "a1", 10, 0), ('4', "a1", 11, 0)]).await;
    let apps = [None, Some(AppId::parse("a1").unwrap())];
    for (app_id, length) in apps.iter().flat_map(|app_id| [1, 2, 3].map(|length| (app_id.clone(), length))) {
        let mut filter = ImageFilter { app_id, ..ImageFilter::default() };
        let mut seen = String::new();
        for newer in ['9', '8', '7', '6'] {
            let page = till.store.images(&filter, length).await.unwrap();
            seen += &digits(&page.items);
            images(&till, &[(newer, "a1", 100 - i64::from(newer.to_digit(10).unwrap()), 0)]).await;
            filter.after = page.next;
            if filter.after.is_none() {
                break;
            }
        }
        assert_eq!((seen.as_str(), &filter.after), ("4321", &None), "pages of {length}");
        till.execute("DELETE FROM images WHERE uploaded_at > to_timestamp(50)").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_tells_who_uses_it_where_it_is_and_what_looks_like_it() {
    let till = TestTill::start().await;
    let (one, other) = (till.app("a1").await, till.app("a2").await);
    let img_id = till.image(&one).await;
    let same = till.image(&other).await;
    // Bits that differ from the picture's own: 8 are near, 9 are not.
    let looks = till.number(&format!("SELECT perceptual_hash FROM images WHERE img_id = '{img_id}'")).await;
    images(
        &till,
        &[('1', "a1", 10, looks ^ 0xFF), ('2', "a1", 20, looks ^ 0x1FF), ('3', "a2", 30, looks ^ 1)],
    )
    .await;
    till.execute(&format!(
        "INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
                order_path, product_cover_img_id, event_count)
         VALUES ('a1', 'order_2', 'order_2', 'o1', 1, 1, 'p', '{img_id}', 1),
                ('a1', 'order_1', 'order_1', 'o1', 2, 1, 'p', '{img_id}', 1),
                ('a2', 'order_1', 'order_1', 'o1', 2, 1, 'p', '{same}', 1)"
    ))
    .await;
    let detail = till.store.image_detail(&img_id).await.unwrap().unwrap();
    assert_eq!(detail.image.app_id, one.id);
    assert_eq!(detail.sha256, hex::encode(Sha256::digest(PICTURE)));
    assert_eq!((detail.stored_in.as_str(), detail.object_name), ("database", None));
    assert_eq!(detail.out_biz_order_nos, ["order_1", "order_2"]);
    assert_eq!(detail.copies.iter().map(|copy| &copy.img_id).collect::<Vec<_>>(), [&same]);
    assert_eq!(digits(&detail.near_copies), "31");
    assert!(detail.block.is_none());

    let processed = process(PICTURE, HASH_SIDE).unwrap();
    till.store
        .change_blocks(
            &operator(),
            ImageCommand::Block {
                picture: *BlobHash::of(&processed.contents).as_array(),
                near_copies: hashes_of_near_copies(&processed.reduced)
                    .iter()
                    .map(|hash| hash.to_i64())
                    .collect(),
                reason: "a <b>reason</b>".to_owned(),
            },
        )
        .await
        .unwrap();
    let detail = till.store.image_detail(&img_id).await.unwrap().unwrap();
    let block = detail.block.unwrap();
    assert_eq!((block.reason.as_str(), detail.image.is_blocked), ("a <b>reason</b>", true));
    assert_eq!(till.store.image_detail(&ImgId::parse(&id('f')).unwrap()).await.unwrap().map(|_| ()), None);
}
