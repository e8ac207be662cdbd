//! `GET /img/{imgId}`, and the operator's block list (contract 5.5 and 5.7).

use std::time::Duration;

use domain::operation::image::ImageCommand;
use futures_util::future::join_all;
use serde_json::json;
use store::BlobHash;

use crate::support::program::Program;
use crate::support::{Answer, PAGE, PICTURE, Request, TestApp, TestTill, operator, until};

/// A PNG of so many pixels across and down, each made of its place.
pub(crate) fn png(side: u32, mut pixel: impl FnMut(u32, u32) -> [u8; 3]) -> Vec<u8> {
    let mut rows = Vec::new();
    for y in 0..side {
        // Each row begins with the byte of its filter.
        rows.extend_from_slice(&[0]);
        rows.extend((0..side).flat_map(|x| pixel(x, y)));
    }
    let mut header = [side.to_be_bytes(), side.to_be_bytes()].concat();
    header.extend_from_slice(&[8, 2, 0, 0, 0]);
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, data) in
        [(b"IHDR", header), (b"IDAT", fdeflate::compress_to_vec(&rows)), (b"IEND", Vec::new())]
    {
        let chunk = [&kind[..], &data].concat();
        png.extend_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes());
        png.extend_from_slice(&chunk);
        png.extend_from_slice(&crc32fast::hash(&chunk).to_be_bytes());
    }
    png
}

/// Pixels that do not compress: three parts of what is kept, so that a piece begins and ends inside
/// of parts.
pub(crate) fn large_picture() -> Vec<u8> {
    let mut noise = 1_u32;
    let mut next = || {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        noise.to_be_bytes()[0]
    };
    png(420, |_, _| [next(), next(), next()])
}

/// Something to recognise: light and dark areas of different sizes.
fn scene() -> Vec<u8> {
    let areas =
        [(0, 0, 90, 140, 40), (60, 20, 200, 60, 220), (120, 90, 150, 230, 90), (20, 170, 240, 210, 180)];
    png(256, |x, y| {
        let inside = |&&(left, top, right, bottom, _): &&(u32, u32, u32, u32, u8)| {
            (left..right).contains(&x) && (top..bottom).contains(&y)
        };
        let area = areas.iter().rev().find(inside);
        area.map_or([130, 120, 110], |&(_, _, _, _, light)| [light, light / 2, 255 - light])
    })
}

pub(crate) fn upload(app: &TestApp, bytes: &[u8]) -> Request {
    let (id, token) = (&app.id, &app.token);
    let path = format!("/openapi/mp/developer/file/img/uploadWithFile?app_id={id}&access_token={token}");
    let head = "content-disposition: form-data; name=\"file\"; filename=\"cover.png\"";
    Request::post(&path).multipart(&[(head, bytes)])
}

pub(crate) async fn uploaded(till: &TestTill, app: &TestApp, bytes: &[u8]) -> String {
    let answer = till.send(upload(app, bytes)).await;
    answer.json()["data"]["imgId"].as_str().unwrap_or_else(|| panic!("{}", answer.body)).to_owned()
}

#[track_caller]
fn assert_not_there(answer: &Answer) {
    let body = r#"{"result":10000417,"error_msg":"imgId: there is no such image; expected an imgId that an upload answered"}"#;
    assert_eq!((answer.status, answer.body.as_str()), (404, body));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_is_served_as_it_was_uploaded_to_whoever_knows_its_id() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let large = large_picture();
    assert!(large.len() > 2 * 262_144, "three parts at least");
    for (bytes, media_type) in [
        (PICTURE, "image/png"),
        (include_bytes!("../pictures/cmyk.jpg"), "image/jpeg"),
        (&large, "image/png"),
    ] {
        let id = uploaded(&till, &app, bytes).await;
        let answer = till.send(Request::get(&format!("/img/{id}"))).await;
        assert_eq!((answer.status, answer.bytes.as_slice()), (200, bytes));
        for (name, value) in [
            ("content-type", media_type),
            ("content-length", &bytes.len().to_string()),
            ("etag", &format!("\"{id}\"")),
            ("cache-control", "public, max-age=3600, stale-while-revalidate=86400"),
            ("x-content-type-options", "nosniff"),
            ("content-security-policy", "default-src 'none'; sandbox"),
            ("cross-origin-resource-policy", "cross-origin"),
            ("accept-ranges", "bytes"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{name}");
        }
        let head = till.send(Request::new("HEAD", &format!("/img/{id}"))).await;
        assert_eq!((head.status, head.bytes.len()), (200, 0));
        assert_eq!(head.header("content-length"), Some(bytes.len().to_string().as_str()));
        assert_eq!(head.header("etag"), answer.header("etag"));
    }
}

/// Rule (contract 5.7.11): a game in a browser may read every answer of `/img/`, and no other.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_any_origin_may_read_pictures() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let id = uploaded(&till, &app, PICTURE).await;
    let asked =
        |method: &str, path: &str| Request::new(method, path).header("origin", "https://game.example");
    let path = format!("/img/{id}");
    let tag = format!("\"{id}\"");
    for (request, status) in [
        (asked("GET", &path), 200),
        (asked("HEAD", &path), 200),
        (asked("GET", &format!("{path}?w=120")), 200),
        (asked("GET", &path).header("range", "bytes=0-9"), 206),
        (asked("GET", &path).header("if-none-match", &tag), 304),
        (asked("GET", &path).header("range", "bytes=9999999-"), 416),
        (asked("GET", &format!("{path}?w=7")), 400),
        (asked("GET", &format!("{path}?w=0120")), 400),
        (asked("GET", &format!("{path}?w=%2B120")), 400),
        (asked("GET", &format!("/img/{}", "0".repeat(48))), 404),
        (asked("HEAD", &format!("/img/{}", "0".repeat(48))), 404),
        (asked("GET", &format!("{path}/x")), 404),
        (asked("GET", "/img/"), 404),
        (asked("POST", &path), 405),
        (asked("OPTIONS", &path), 405),
    ] {
        let answer = till.send(request).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.headers("access-control-allow-origin").collect::<Vec<_>>(), ["*"], "{status}");
    }
    let preflight = asked("OPTIONS", &path)
        .header("access-control-request-method", "GET")
        .header("access-control-request-headers", "range");
    let answer = till.send(preflight).await;
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    for (name, value) in [
        ("access-control-allow-origin", "*"),
        ("access-control-allow-methods", "GET, HEAD"),
        ("access-control-allow-headers", "*, Authorization"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    for path in ["/oauth2/access_token", "/api/kpay/minigame/pay", "/images", "/x"] {
        let other = till.send(asked("GET", path)).await;
        assert_eq!(other.header("access-control-allow-origin"), None, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_was_never_given_out_is_not_there() {
    let till = TestTill::start().await;
    for name in ["0".repeat(48), "0".repeat(47), "G".repeat(48), String::new(), "..%2f".to_owned()] {
        let answer = till.send(Request::get(&format!("/img/{name}"))).await;
        if name.is_empty() {
            assert_eq!(
                (answer.status, answer.message().as_str()),
                (404, r#"path: no such endpoint: "/img""#)
            );
        } else {
            assert_not_there(&answer);
        }
    }
}

/// Rule 5.7.5: the setting decides for how long caches keep a picture.
#[tokio::test(flavor = "multi_thread")]
async fn caches_keep_a_picture_for_the_time_of_the_setting() {
    let till =
        TestTill::start_with(|config| config.image.cache_max_age = Duration::from_millis(90_500)).await;
    let app = till.app("a1").await;
    let id = uploaded(&till, &app, PICTURE).await;
    for path in [format!("/img/{id}"), format!("/img/{id}?w=120")] {
        let answer = till.send(Request::get(&path)).await;
        let caching = "public, max-age=90, stale-while-revalidate=86400";
        assert_eq!((answer.status, answer.header("cache-control")), (200, Some(caching)), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_has_the_picture_is_told_so() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let id = uploaded(&till, &app, PICTURE).await;
    let get = |value: &str| Request::get(&format!("/img/{id}")).header("if-none-match", value);
    for value in [format!("\"{id}\""), format!("W/\"{id}\""), format!("\"x\", \"{id}\""), "*".to_owned()] {
        let answer = till.send(get(&value)).await;
        assert_eq!((answer.status, answer.bytes.len()), (304, 0), "{value}");
        assert_eq!(answer.header("content-length"), None, "it would be that of the picture");
        assert_eq!(answer.header("etag"), Some(format!("\"{id}\"").as_str()));
        assert_eq!(
            answer.header("cache-control"),
            Some("public, max-age=3600, stale-while-revalidate=86400")
        );
    }
    let head = Request::new("HEAD", &format!("/img/{id}"));
    let known = till.send(head.header("if-none-match", "*")).await;
    assert_eq!((known.status, known.header("content-length")), (304, None));
    for value in ["\"x\"", "", &id] {
        assert_eq!(till.send(get(value)).await.status, 200, "{value}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_range_of_a_picture_is_served_and_whatever_else_is_asked_gets_it_whole() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let large = large_picture();
    let id = uploaded(&till, &app, &large).await;
    let (length, etag) = (large.len(), format!("\"{id}\""));
    let get = |range: &str| Request::get(&format!("/img/{id}")).header("range", range);
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=5-9", 5, 10),
        ("bytes=262143-262144", 262_143, 262_145),
        ("bytes=100-524400", 100, 524_401),
        ("bytes=524288-", 524_288, length),
        ("bytes=-7", length - 7, length),
        ("bytes=9-99999999", 9, length),
        ("bytes=-99999999", 0, length),
        // RFC 9110, 14.1: the unit in any case, and an end behind every file.
        ("BYTES=5-9", 5, 10),
        ("bytes=9-18446744073709551616", 9, length),
        ("bytes=-18446744073709551616", 0, length),
    ] {
        for request in [get(range), get(range).header("if-range", &etag)] {
            let answer = till.send(request).await;
            assert_eq!((answer.status, answer.bytes.as_slice()), (206, &large[from..to]), "{range}");
            let expected = format!("bytes {from}-{}/{length}", to - 1);
            assert_eq!(answer.header("content-range"), Some(expected.as_str()));
        }
    }
    for range in ["bytes=0-1,4-5", "bytes=9-5", "bytes=-", "bytes=x", "lines=0-1", "bytes", ""] {
        let answer = till.send(get(range)).await;
        assert_eq!((answer.status, answer.bytes.len()), (200, length), "{range}");
    }
    let other = till.send(get("bytes=0-0").header("if-range", "\"other\"")).await;
    assert_eq!((other.status, other.bytes.len()), (200, length));
    let head = till.send(Request::new("HEAD", &format!("/img/{id}")).header("range", "bytes=0-0")).await;
    assert_eq!((head.status, head.header("content-range")), (200, None));
    let far = "bytes=18446744073709551616-".to_owned();
    for range in [format!("bytes={length}-"), format!("bytes={length}-{length}"), "bytes=-0".to_owned(), far]
    {
        let beyond = till.send(get(&range)).await;
        assert_eq!((beyond.status, beyond.bytes.len()), (416, 0), "{range}");
        assert_eq!(beyond.header("content-range"), Some(format!("bytes */{length}").as_str()));
        // Nobody may keep it for those who ask for other bytes.
        assert_eq!((beyond.header("cache-control"), beyond.header("etag")), (Some("no-store"), None));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_bytes_of_two_apps_are_kept_once() {
    let till = TestTill::start().await;
    let (app, other) = (till.app("a1").await, till.app("a2").await);
    let ids = [uploaded(&till, &app, PICTURE).await, uploaded(&till, &other, PICTURE).await];
    assert_ne!(ids[0], ids[1]);
    assert_eq!(till.number("SELECT count(*) FROM picture_parts").await, 1);
    for id in ids {
        assert_eq!(till.send(Request::get(&format!("/img/{id}"))).await.bytes, PICTURE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_picture_is_not_served_not_accepted_and_no_order_may_use_it() {
    let till = TestTill::start().await;
    let (app, other) = (till.app("a1").await, till.app("a2").await);
    till.player(&app, "o1", 0, 0).await;
    let id = uploaded(&till, &app, PICTURE).await;
    let another = uploaded(&till, &app, include_bytes!("../pictures/baseline.jpg")).await;
    let report = |out_biz_order_no: &str, out_order_no: &str| {
        let body = json!({
            "out_biz_order_no": out_biz_order_no, "out_order_no": out_order_no, "open_id": "o1",
            "order_create_time": 1_700_000_000_000_i64, "order_status": 1, "order_path": PAGE,
            "product_cover_img_id": id,
        });
        let path =
            format!("/openapi/mp/developer/order/v1/report?app_id={}&access_token={}", app.id, app.token);
        Request::post(&path).header("content-type", "application/json").body(body.to_string())
    };
    assert_eq!(till.send(report("order_0001", "payment_01")).await.code(), 1);

    let program = Program::on(&till.database_url);
    let blocked = program.json(&["image", "block", &id, "--reason", "sold as another's"]);
    let hash = blocked["picture"].as_str().unwrap().to_owned();
    assert_eq!(
        blocked,
        json!({
            "picture": hash, "reason": "sold as another's", "was_blocked": false, "images": 1,
            "finds_near_copies": true,
        })
    );
    let refused = "file: the picture is blocked by risk control; use another one";
    till.send(upload(&app, PICTURE)).await.assert_refused(10_000_303, refused);
    till.send(upload(&other, PICTURE)).await.assert_refused(10_000_303, refused);
    assert_not_there(&till.send(Request::get(&format!("/img/{id}"))).await);
    let known = Request::get(&format!("/img/{id}")).header("if-none-match", "*");
    assert_not_there(&till.send(known).await);
    let refused = "product_cover_img_id: the image is blocked by risk control; use another one";
    for (order, payment) in [("order_0001", "payment_01"), ("order_0002", "payment_02")] {
        till.send(report(order, payment)).await.assert_refused(10_000_303, refused);
    }
    assert_eq!(till.number("SELECT count(*) FROM order_events").await, 1);
    // Only the blocked one.
    assert_eq!(till.send(Request::get(&format!("/img/{another}"))).await.status, 200);

    let again = program.json(&["image", "block", &id, "--reason", "better words"]);
    assert_eq!((&again["was_blocked"], &again["images"]), (&json!(true), &json!(1)));
    let listed = program.json(&["image", "list"]);
    assert_eq!(listed["blocks"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&listed["blocks"][0]["picture"], &listed["blocks"][0]["reason"]),
        (&json!(hash), &json!("better words"))
    );
    let shown = program.json(&["image", "show", &id]);
    assert_eq!((&shown["blocked"], &shown["blocked_by"]["reason"]), (&json!(true), &json!("better words")));

    assert_eq!(program.json(&["image", "unblock", &id]), json!({ "picture": hash }));
    assert_eq!(uploaded(&till, &app, PICTURE).await, id);
    assert_eq!(till.send(Request::get(&format!("/img/{id}"))).await.bytes, PICTURE);
    assert_eq!(till.send(report("order_0002", "payment_02")).await.code(), 1);
    let complaint = format!(
        "minitill: there is no block on the image {id}; to list all blocked pictures, run `minitill image list`\n"
    );
    assert_eq!(program.complaint(&["image", "unblock", &id]), complaint);
}

/// Scaled down and compressed anew.
fn near_copy(picture: &[u8]) -> Vec<u8> {
    pictures::thumbnail(&pictures::reduce(picture, 96).unwrap(), 96).bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_finds_near_copies_that_are_there_and_those_that_come() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let program = Program::on(&till.database_url);
    let scene = scene();
    let copy = near_copy(&scene);
    let (id, copied) = (uploaded(&till, &app, &scene).await, uploaded(&till, &app, &copy).await);
    let another = uploaded(&till, &app, include_bytes!("../pictures/baseline.jpg")).await;
    let blocked = program.json(&["image", "block", &id, "--reason", "r"]);
    assert_eq!((&blocked["images"], &blocked["finds_near_copies"]), (&json!(2), &json!(true)));
    assert_not_there(&till.send(Request::get(&format!("/img/{copied}"))).await);
    let other = till.app("a2").await;
    let refused = "file: the picture is blocked by risk control; use another one";
    till.send(upload(&other, &copy)).await.assert_refused(10_000_303, refused);
    assert_eq!(till.send(Request::get(&format!("/img/{another}"))).await.status, 200);
    // Under two blocks an image is free when both have ended.
    let copy_file = std::env::temp_dir().join(format!("minitill-{}-copy.jpg", std::process::id()));
    std::fs::write(&copy_file, &copy).unwrap();
    let copy_file = copy_file.to_str().unwrap();
    program.json(&["image", "block", copy_file, "--reason", "r2"]);
    program.json(&["image", "unblock", &id]);
    assert_eq!(program.json(&["image", "show", &id])["blocked_by"]["reason"], "r2");
    program.json(&["image", "unblock", copy_file]);
    for id in [id, copied] {
        assert_eq!(till.send(Request::get(&format!("/img/{id}"))).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_copy_is_made_once_and_never_larger_than_the_picture() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let id = uploaded(&till, &app, &large_picture()).await;
    for width in [120, 240, 120] {
        let answer = till.send(Request::get(&format!("/img/{id}?w={width}"))).await;
        let small = pictures::inspect(&answer.bytes).unwrap();
        assert_eq!((answer.status, small.side), (200, width));
        assert_eq!(answer.header("content-type"), Some(small.format.media_type()));
        assert_eq!(answer.header("etag"), Some(format!("\"{id}-{width}\"").as_str()));
    }
    assert_eq!(till.number("SELECT count(*) FROM thumbnails").await, 2);
    let kept = till.number("SELECT octet_length(bytes)::bigint FROM thumbnails WHERE width = 120").await;
    let part = till.send(Request::get(&format!("/img/{id}?w=120")).header("range", "bytes=-5")).await;
    let range = format!("bytes {}-{}/{kept}", kept - 5, kept - 1);
    assert_eq!((part.status, part.bytes.len(), part.header("content-range")), (206, 5, Some(range.as_str())));
    let whole = till.send(Request::get(&format!("/img/{id}?w=480"))).await;
    assert_eq!((whole.status, whole.bytes), (200, large_picture()));
    for (width, shown) in [("121", "\"121\""), ("-120", "\"-120\"")] {
        let answer = till.send(Request::get(&format!("/img/{id}?w={width}"))).await;
        let text = format!("w: expected one of 120, 240, 480, got {shown}");
        assert_eq!((answer.status, answer.message()), (400, text));
    }
    // Whoever shows pictures looks at the status alone.
    let twice = till.send(Request::get(&format!("/img/{id}?w=120&w=120"))).await;
    assert_eq!((twice.status, twice.message().as_str()), (400, "w: expected once, given twice"));
}

/// Rule: of a crowd that asks for the same small copy, one has it made, and the others find it.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_has_a_small_copy_made_once() {
    let till = TestTill::start_with(|config| config.image.decodes_max = 1).await;
    let app = till.app("a1").await;
    let id = uploaded(&till, &app, &large_picture()).await;
    // Counts whatever is made, kept or not: a second one would be dropped for the first.
    till.execute(
        "CREATE SEQUENCE made;
         CREATE FUNCTION count_made() RETURNS trigger LANGUAGE plpgsql
             AS 'BEGIN PERFORM nextval(''made''); RETURN NEW; END';
         CREATE TRIGGER made BEFORE INSERT ON thumbnails FOR EACH ROW EXECUTE FUNCTION count_made()",
    )
    .await;
    let asking = (0..8).map(|_| till.send(Request::get(&format!("/img/{id}?w=120"))));
    let answers = join_all(asking).await;
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.bytes == answers[0].bytes));
    assert_eq!(till.number("SELECT nextval('made') - 1").await, 1);
}

/// Rule: where a picture was taken is nobody's business; what it looks like stays to the byte.
#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_not_kept() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let jpeg = include_bytes!("../pictures/baseline.jpg");
    let exif = [b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0".as_slice(), b"51.4779 N"].concat();
    let length = u16::try_from(exif.len() + 2).unwrap().to_be_bytes();
    let tagged = [&jpeg[..2], &[0xff, 0xe1], &length, &exif, &jpeg[2..]].concat();
    let (id, plain) = (uploaded(&till, &app, &tagged).await, uploaded(&till, &app, jpeg).await);
    assert_ne!(id, plain, "two uploads of different bytes");
    let served = till.send(Request::get(&format!("/img/{id}"))).await.bytes;
    assert!(!served.windows(7).any(|window| window == b"51.4779"));
    assert_eq!(served, till.send(Request::get(&format!("/img/{plain}"))).await.bytes);
    assert_eq!(uploaded(&till, &app, &tagged).await, id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_can_be_blocked_before_anybody_uploads_it() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let program = Program::on(&till.database_url);
    let path = std::env::temp_dir().join(format!("minitill-{}-blocked.png", std::process::id()));
    // What follows the picture does not count, here as there.
    std::fs::write(&path, [PICTURE, b"trailing"].concat()).unwrap();
    let file = path.to_str().unwrap();
    assert_eq!(program.json(&["image", "block", file, "--reason", "r"])["images"], 0);
    let refused = "file: the picture is blocked by risk control; use another one";
    till.send(upload(&app, PICTURE)).await.assert_refused(10_000_303, refused);
    assert_eq!(till.number("SELECT count(*) FROM images").await, 0);
    assert_eq!(till.number("SELECT count(*) FROM picture_parts").await, 0);
    program.json(&["image", "unblock", file]);
    uploaded(&till, &app, PICTURE).await;
    std::fs::write(&path, "no picture").unwrap();
    let complaint = format!(
        "minitill: {file}: the picture is neither a PNG nor a JPEG: its first bytes are 6e 6f 20 70 69 63 74 75 (the text \"no picture\")\n"
    );
    assert_eq!(program.complaint(&["image", "block", file, "--reason", "r"]), complaint);
    std::fs::remove_file(&path).unwrap();
    assert!(
        program
            .complaint(&["image", "block", file, "--reason", "r"])
            .contains("expected a picture file or an imgId")
    );
    let unknown = "0".repeat(48);
    let complaint = format!(
        "minitill: there is no image {unknown}; to list the newest images, run `minitill image list --all`\n"
    );
    assert_eq!(program.complaint(&["image", "show", &unknown]), complaint);
}

#[tokio::test(flavor = "multi_thread")]
async fn images_are_listed_newest_first() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let program = Program::on(&till.database_url);
    let first = uploaded(&till, &app, PICTURE).await;
    let second = uploaded(&till, &app, include_bytes!("../pictures/baseline.jpg")).await;
    let listed = program.json(&["image", "list", "--all"]);
    let ids: Vec<_> =
        listed["images"].as_array().unwrap().iter().map(|image| image["img_id"].clone()).collect();
    assert_eq!(ids, [json!(second), json!(first)]);
    assert_eq!(
        program.json(&["image", "list", "--all", "--limit", "1"])["images"].as_array().unwrap().len(),
        1
    );
}

/// Rule: an upload that is under way when its picture is blocked is refused or blocked with the
/// others, never forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn no_upload_slips_past_a_block_that_is_made_at_the_same_time() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    // The upload has found no block, and cannot go on.
    let mut holding = till.sql.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE picture_parts IN SHARE ROW EXCLUSIVE MODE")
        .execute(&mut *holding)
        .await
        .unwrap();
    let (request, address) = (upload(&app, PICTURE), till.address);
    let uploading = tokio::spawn(async move { request.send(address).await });
    let waiting = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                   WHERE d.datname = current_database() AND NOT l.granted";
    until("the upload waits", async || till.number(waiting).await == 1).await;
    let (store, contents) = (till.store.clone(), BlobHash::of(PICTURE));
    let blocking =
        tokio::spawn(
            async move { store.change_blocks(&operator(), crate::support::block(&contents, "r")).await },
        );
    until("the block waits too", async || blocking.is_finished() || till.number(waiting).await == 2).await;
    holding.rollback().await.unwrap();
    assert_eq!(uploading.await.unwrap().code(), 1);
    assert_eq!(blocking.await.unwrap().unwrap().images, 1);
    assert_eq!(till.number("SELECT count(*) FROM images WHERE blocked_by IS NULL").await, 0);
}

/// Rule 5.5.6: a block and its end look at all images, also when that takes longer than a statement may.
#[tokio::test(flavor = "multi_thread")]
async fn a_block_takes_as_long_as_it_needs() {
    let patient = TestTill::start().await;
    let app = patient.app("a1").await;
    patient.image(&app).await;
    patient
        .execute(
            "CREATE FUNCTION take_long() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN PERFORM pg_sleep(2.5); RETURN NEW; END $$;
             CREATE TRIGGER take_long BEFORE UPDATE ON images FOR EACH ROW EXECUTE FUNCTION take_long()",
        )
        .await;
    let till = TestTill::start_on(patient.database_url.clone(), |config| {
        config.database.statement_timeout = Duration::from_secs(2);
    })
    .await;
    let contents = BlobHash::of(PICTURE);
    let block = crate::support::block(&contents, "r");
    assert_eq!(till.store.change_blocks(&operator(), block).await.unwrap().images, 1);
    let unblock = ImageCommand::Unblock { picture: *contents.as_array(), name: "it".to_owned() };
    assert!(till.store.change_blocks(&operator(), unblock).await.unwrap().was_blocked);
    assert_eq!(till.number("SELECT count(*) FROM images WHERE blocked_by IS NULL").await, 1);
}
