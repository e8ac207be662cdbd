//! Uploads by file and by URL (contract 5.1 and 5.2). What each picture is judged is
//! tested beside the judge; here it is that every verdict reaches the caller.

use std::net::SocketAddr;

use ipnet::IpNet;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{Answer, AppKind, PICTURE, Request, TestApp, TestTill, encoded};

const FILE_PART: &str =
    "content-disposition: form-data; name=\"file\"; filename=\"cover.png\"\r\ncontent-type: image/png";
const JPEG: &[u8] = include_bytes!("../pictures/baseline.jpg");
const REFUSED_URL: &str = "url: expected a picture on a public http or https address";

fn by_file(app: &TestApp) -> Request {
    Request::post(&format!(
        "/openapi/mp/developer/file/img/uploadWithFile?app_id={}&access_token={}",
        app.id, app.token
    ))
}

fn by_url(query: &str) -> Request {
    Request::post(&format!("/openapi/mp/developer/file/img/uploadWithUrl?{query}"))
}

async fn upload(till: &TestTill, app: &TestApp, bytes: &[u8]) -> Answer {
    till.send(by_file(app).multipart(&[(FILE_PART, bytes)])).await
}

#[track_caller]
fn img_id(answer: &Answer) -> String {
    let id = answer.json()["data"]["imgId"].as_str().unwrap_or_else(|| panic!("{}", answer.body)).to_owned();
    answer.assert_body(&format!(r#"{{"result":1,"error_msg":"success","data":{{"imgId":"{id}"}}}}"#));
    assert!(
        id.len() == 48 && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)),
        "{id}"
    );
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_bytes_of_an_app_are_one_image_and_of_another_app_another() {
    let till = TestTill::start().await;
    let (app, other) = (till.app("a1").await, till.app("a2").await);
    let id = img_id(&upload(&till, &app, PICTURE).await);
    assert_eq!(img_id(&upload(&till, &app, PICTURE).await), id);
    // What follows the picture is not kept, and not part of it.
    assert_eq!(img_id(&upload(&till, &app, &[PICTURE, b"trailing bytes"].concat()).await), id);
    let jpeg = img_id(&upload(&till, &app, JPEG).await);
    assert_ne!(jpeg, id);
    assert_ne!(img_id(&upload(&till, &other, PICTURE).await), id);
    assert_eq!(till.number("SELECT count(*) FROM images").await, 3);
    let kept: Vec<u8> = sqlx::query_scalar(
        "SELECT bytes FROM picture_parts JOIN images USING (content_sha256) WHERE img_id = $1",
    )
    .bind(&id)
    .fetch_one(&till.sql)
    .await
    .unwrap();
    assert_eq!(kept, PICTURE);
    let row = format!(
        "SELECT count(*) FROM images WHERE img_id = '{id}' AND format = 'png' AND side = 128 AND byte_length = {}",
        PICTURE.len()
    );
    assert_eq!(till.number(&row).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_bytes_at_once_on_two_servers_are_one_image() {
    let first = TestTill::start().await;
    let second = TestTill::start_on(first.database_url.clone(), |_| {}).await;
    let app = first.app("a1").await;
    let mut tries = tokio::task::JoinSet::new();
    for index in 0..20 {
        let request = by_file(&app).multipart(&[(FILE_PART, PICTURE)]);
        let address = if index % 2 == 0 { first.address } else { second.address };
        tries.spawn(async move { request.send(address).await });
    }
    let ids: std::collections::HashSet<String> = tries.join_all().await.iter().map(img_id).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(first.number("SELECT count(*) FROM picture_parts").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_name_ends_in_png_jpg_or_jpeg_and_without_an_ending_the_bytes_decide() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let head = |name: &str| format!("content-disposition: form-data; name=\"file\"; filename=\"{name}\"");
    // The bytes decide what it is: a .jpg that is a PNG is fine.
    for name in ["a.png", "a.PNG", "a.jpg", "a.b.JPEG", "", "blob", "phpAbC123", "png"] {
        let answer = till.send(by_file(&app).multipart(&[(&head(name), PICTURE)])).await;
        assert_eq!(answer.code(), 1, "{name}");
    }
    let nameless = "content-disposition: form-data; name=\"file\"";
    assert_eq!(till.send(by_file(&app).multipart(&[(nameless, JPEG)])).await.code(), 1);
    // Encoded as mails do, with folders, and what says nothing.
    for name in [
        "=?UTF-8?Q?=E5=B0=81=E9=9D=A2.png?=",
        "=?utf-8?B?5bCB6Z2iLnBuZw==?=",
        "=?gb2312?B?t+LD5i5wbmc=?=",
        "=?klingon?Q?a.gif?=",
        "C:\\my.folder\\cover",
        " a.png ",
    ] {
        let answer = till.send(by_file(&app).multipart(&[(&head(name), PICTURE)])).await;
        assert_eq!(answer.code(), 1, "{name}");
    }
    for (name, shown) in [("=?utf-8?B?5bCB6Z2iLmdpZg==?=", "封面.gif"), ("/tmp/a.gif", "a.gif")] {
        let answer = till.send(by_file(&app).multipart(&[(&head(name), PICTURE)])).await;
        answer.assert_refused(
            10_000_200,
            &format!("file: expected a file name that ends in png, jpg or jpeg, got \"{shown}\""),
        );
    }
    for name in ["a.gif", "a.png.exe", "a."] {
        let answer = till.send(by_file(&app).multipart(&[(&head(name), PICTURE)])).await;
        answer.assert_refused(
            10_000_200,
            &format!("file: expected a file name that ends in png, jpg or jpeg, got \"{name}\""),
        );
    }
}

/// Rule (contract 5.1.8 to 5.1.10): heads of parts and boundaries are read as their standards say, and a part in another
/// form is named.
#[tokio::test(flavor = "multi_thread")]
async fn heads_of_parts_and_boundaries_are_read_as_people_write_them() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    for head in [
        r#"Content-Disposition: form-data; Name="file"; FILENAME="a.png""#,
        r#"Content-Disposition: form-data; x="; name=other; filename=b.gif"; filename="a.png"; name="file""#,
        r#"Content-Disposition: form-data; filename="x\"; name=\"y.png"; name="file""#,
        r#"Content-Disposition: form-data; name=file; filename="a.gif"; filename*=UTF-8''a.png"#,
    ] {
        let answer = till.send(by_file(&app).multipart(&[(head, PICTURE)])).await;
        assert_eq!(answer.code(), 1, "{head}: {}", answer.body);
    }
    let refused = async |head: &str, text: &str| {
        till.send(by_file(&app).multipart(&[(head, PICTURE)])).await.assert_refused(10_000_200, text);
    };
    let gif = "file: expected a file name that ends in png, jpg or jpeg, got \"a.gif\"";
    refused("content-disposition: form-data; name=file; filename*=UTF-8''a.gif", gif).await;
    let coded = format!("{FILE_PART}\r\ncontent-transfer-encoding: base64");
    let text = "file: expected the bytes as they are, got base64 (Content-Transfer-Encoding)";
    refused(&coded, text).await;
    let folded = FILE_PART.replacen("; filename", ";\r\n filename", 1);
    let text = "body: expected a complete multipart body (a header of a part goes on in the next line; each is one line)";
    refused(&folded, text).await;
    let with = |content_type: &str, boundary: &str| {
        let start = format!("--{boundary}\r\n{FILE_PART}\r\n\r\n");
        let body = [start.as_bytes(), PICTURE, format!("\r\n--{boundary}--\r\n").as_bytes()].concat();
        by_file(&app).header("content-type", content_type).body(body)
    };
    for boundary in ["----=_Part_4_70.11", "b/QeE_T74S", "a:b?c,d'e(f)+g", "a b"] {
        let answer = till.send(with(&format!("multipart/form-data; boundary={boundary}"), boundary)).await;
        assert_eq!(answer.code(), 1, "{boundary}: {}", answer.body);
    }
    for content_type in ["multipart/form-data, boundary=b", "multipart/mixed; boundary=b"] {
        assert_eq!(till.send(with(content_type, "b")).await.code(), 1, "{content_type}");
    }
    let open = with("multipart/form-data; boundary=\"b", "b");
    let text = "content type: expected a quote behind the boundary too";
    till.send(open).await.assert_refused(10_000_200, text);
    // The small bodies have the same reader.
    let body = "--=_P\r\ncontent-disposition: form-data; x=\"; name=b\"; name=\"app_id\"\r\n\r\nnobody\r\n--=_P--\r\n";
    let token = |content_type: &str| {
        Request::post("/oauth2/access_token").header("content-type", content_type).body(body)
    };
    let answer = till.send(token("multipart/form-data; boundary==_P")).await;
    assert!(answer.message().starts_with("app_secret"), "{}", answer.body);
    let text = "content type: expected multipart/form-data with a boundary, got \"multipart/form-data\"; let the HTTP library write this header";
    till.send(token("multipart/form-data")).await.assert_refused(100_200_100, text);
    let body = "--b\r\ncontent-disposition: form-data; name=\"app_id\"\r\na1\r\n--b--\r\n";
    let endless =
        Request::post("/oauth2/access_token").header("content-type", "multipart/form-data; boundary=b");
    let text = "body: no empty line stands between the headers of a part and its content";
    till.send(endless.body(body)).await.assert_refused(100_200_100, text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_needs_one_part_named_file_and_others_are_skipped() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let note = "content-disposition: form-data; name=\"note\"";
    let skipped = vec![b'x'; 300_000];
    let request = by_file(&app).multipart(&[(note, &skipped), (FILE_PART, PICTURE), (note, b"again")]);
    assert_eq!(till.send(request).await.code(), 1);
    let twice = by_file(&app).multipart(&[(FILE_PART, PICTURE), (FILE_PART, PICTURE)]);
    till.send(twice).await.assert_refused(10_000_200, "file: expected once, given twice");
    let without = by_file(&app).multipart(&[(note, PICTURE)]);
    till.send(without).await.assert_refused(10_000_200, "file is missing; the parts are: \"note\"");
    till.send(by_file(&app).multipart(&[])).await.assert_refused(10_000_200, "file is missing");
    // Rule 2.10.3: the bytes decide what is named.
    let message = "content type: expected multipart/form-data with a boundary; the body is a picture";
    till.send(by_file(&app).body(PICTURE)).await.assert_refused(10_000_200, message);
    for (content_type, got) in [
        ("application/json", "application/json"),
        ("image/png", "image/png"),
        ("application/x-www-form-urlencoded", "application/x-www-form-urlencoded"),
        // A boundary may be anything, so it is not repeated.
        ("form-data; boundary=x", "form-data"),
    ] {
        let request = by_file(&app).header("content-type", content_type).body(PICTURE);
        let message = format!(
            "content type: expected multipart/form-data with a boundary, got \"{got}\"; let the HTTP library write this \
             header; the body is a picture"
        );
        till.send(request).await.assert_refused(10_000_200, &message);
    }
    let set_by_hand = by_file(&app).header("content-type", "multipart/form-data").body(PICTURE);
    let message = "content type: expected multipart/form-data with a boundary, got \"multipart/form-data\"; let the HTTP library write this header; the body is a picture";
    till.send(set_by_hand).await.assert_refused(10_000_200, message);
    for (body, got) in
        [(PICTURE, "a picture"), (&b"{\"file\":1}"[..], "JSON"), (b"a=1", "a form"), (b"", "nothing")]
    {
        let request = by_file(&app).header("content-type", "multipart/form-data; boundary=b").body(body);
        let message = format!("body: expected multipart/form-data, got {got}");
        till.send(request).await.assert_refused(10_000_200, &message);
    }
    let cut = by_file(&app)
        .header("content-type", "multipart/form-data; boundary=b")
        .body([format!("--b\r\n{FILE_PART}\r\n\r\n").as_bytes(), PICTURE].concat());
    let answer = till.send(cut).await;
    assert_eq!(answer.code(), 10_000_200);
    assert!(answer.message().starts_with("body: expected a complete multipart body"), "{}", answer.body);
    assert_eq!(till.number("SELECT count(*) FROM images").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_mebibytes_are_accepted_one_byte_more_is_refused_and_endless_parts_are_413() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let padded = |length: usize| [PICTURE, &vec![0; length - PICTURE.len()]].concat();
    img_id(&upload(&till, &app, &padded(10_485_760)).await);
    let over = upload(&till, &app, &padded(10_485_761)).await;
    assert_eq!((over.status, over.code()), (200, 10_000_200), "{}", over.body);
    assert!(over.message().ends_with(" bytes long; at most 10485760 are accepted"), "{}", over.body);
    let note = "content-disposition: form-data; name=\"note\"";
    let endless =
        till.send(by_file(&app).multipart(&[(note, &vec![0; 12_000_000]), (FILE_PART, PICTURE)])).await;
    assert_eq!((endless.status, endless.code()), (413, 10_000_200));
    assert_eq!(endless.message(), "body: expected at most 10747904 bytes");
    assert_eq!(till.number("SELECT count(*) FROM images").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_that_is_not_acceptable_is_refused_with_the_reason() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let mut corrupt = PICTURE.to_vec();
    corrupt[60] ^= 1;
    let arithmetic: &[u8] = include_bytes!("../pictures/arithmetic.jpg");
    for (bytes, reason) in [
        (&b""[..], "file: the picture is empty"),
        (b"no picture", "file: the picture is neither a PNG nor a JPEG: its first bytes are 6e 6f 20"),
        (b"GIF89a", "file: it is a GIF; a PNG or JPEG is expected"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "file: it is a WebP; a PNG or JPEG is expected"),
        (b"data:image/png;base64,iVBORw0KGgo=", "file: it is a data: URL; a PNG or JPEG is expected"),
        (b"iVBORw0KGgoAAAANSUhEUg==", "file: it is base64 text; a PNG or JPEG is expected"),
        (b"PNG\r\n\x1a\n\0", "file: it is a PNG that was damaged as text; a PNG or JPEG is expected"),
        (&PICTURE[..PICTURE.len() / 2], "file: the PNG is cut"),
        (&JPEG[..JPEG.len() - 20], "file: the JPEG is cut"),
        (&corrupt, "file: the PNG is corrupt"),
        (arithmetic, "file: the JPEG is "),
    ] {
        let answer = upload(&till, &app, bytes).await;
        assert_eq!((answer.status, answer.code()), (200, 10_000_200), "{}", answer.body);
        assert!(answer.message().starts_with(reason), "{}", answer.body);
    }
    assert_eq!(till.number("SELECT count(*) FROM images").await, 0);
    assert_eq!(till.number("SELECT count(*) FROM picture_parts").await, 0);
}

/// A web server that answers every request with these bytes as a picture.
async fn origin(bytes: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.unwrap_or_default();
            // The target must arrive whole: the query is part of it.
            let found = String::from_utf8_lossy(&head[..length]).starts_with("GET /cover.png?size=1&v=2 ");
            let status = if found { "200 OK" } else { "404 Not Found" };
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", bytes.len());
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.write_all(bytes).await;
        }
    });
    address
}

async fn till_that_may_fetch(address: SocketAddr) -> TestTill {
    TestTill::start_with(|config| {
        config.fetch.allow_networks = vec!["127.0.0.0/8".parse::<IpNet>().unwrap()];
        config.fetch.ports = vec![address.port()];
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_is_taken_from_the_query_else_a_form_else_json() {
    let address = origin(PICTURE).await;
    let till = till_that_may_fetch(address).await;
    let app = till.app("a1").await;
    let url = format!("http://{address}/cover.png?size=1&v=2");
    let (app_id, token, quoted) = (app.id.as_str(), app.token.as_str(), encoded(&url));
    let credentials = format!("app_id={app_id}&access_token={token}");
    let json = format!(r#"{{"app_id":"{app_id}","access_token":"{token}","url":"{url}"}}"#);
    let requests = [
        by_url(&format!("{credentials}&url={quoted}")),
        by_url(&format!("url={quoted}&{credentials}")),
        // Real clients write the URL as it is, last, and send an empty body of some kind.
        by_url(&format!("{credentials}&url={url}")),
        by_url(&format!("{credentials}&url={url}")).header("content-type", "application/json").body("{}"),
        by_url(&format!("{credentials}&url={url}")).header("content-type", "application/json").body("[]"),
        by_url(&format!("{credentials}&url={quoted}"))
            .header("content-type", "application/x-www-form-urlencoded"),
        by_url("").body(format!("{credentials}&url={quoted}")),
        by_url(&credentials).body(format!("url={quoted}")),
        by_url(&format!("app_id={app_id}")).body(format!("access_token={token}&url={quoted}")),
        by_url("").header("content-type", "application/json").body(json.clone()),
        by_url("").body(json),
        by_url(&format!("{credentials}&url=")).body(format!(r#"{{"url":"{url}"}}"#)),
    ];
    let mut ids = std::collections::HashSet::new();
    for request in requests {
        ids.insert(img_id(&till.send(request).await));
    }
    // The same bytes by file are the same image: there is one acceptance path.
    ids.insert(img_id(&upload(&till, &app, PICTURE).await));
    assert_eq!(ids.len(), 1);
}

/// Rule (contract 2.6.3): credentials of an upload by file belong in its query. One that came as a part
/// before the picture is named, whatever the size of the picture.
#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_came_as_a_part_is_told_so() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let head = "content-disposition: form-data; name=\"access_token\"";
    let large = vec![b'x'; 1_000_000];
    for picture in [PICTURE, &large] {
        let parts = [(head, app.token.as_bytes()), (FILE_PART, picture)];
        let request =
            Request::post("/openapi/mp/developer/file/img/uploadWithFile?app_id=a1").multipart(&parts);
        let text = "access_token: expected in the query, it came in the body";
        till.send(request).await.assert_refused(100_200_102, text);
    }
}

/// Rule (contract 5.3.17): a sandbox app learns why its URL was not fetched, and nothing that tells one
/// address from another. A live app gets one text.
#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_app_is_told_the_cause_of_a_failed_fetch() {
    let address = origin(PICTURE).await;
    let till = till_that_may_fetch(address).await;
    let app = till.app_like("a1", AppKind { sandbox: true, ..AppKind::default() }).await;
    let live = till.app("a2").await;
    for (url, cause) in [
        ("no url", "url_unreadable"),
        ("http://user@a.example/", "url_unreadable"),
        ("ftp://a.example/x.png", "scheme_not_allowed"),
        ("http://a.example:81/x.png", "port_not_allowed"),
        (&format!("http://{address}/other.png"), "status_not_200"),
        (&format!("http://10.0.0.1:{}/", address.port()), "not_reachable"),
        (&format!("http://name.invalid:{}/", address.port()), "not_reachable"),
    ] {
        let by = |app: &TestApp| {
            by_url(&format!("app_id={}&access_token={}&url={}", app.id, app.token, encoded(url)))
        };
        let refused = r#"{"result":10000419,"error_msg":"REFUSED""#.replace("REFUSED", REFUSED_URL);
        till.send(by(&app)).await.assert_body(&format!(r#"{refused},"data":{{"cause":"{cause}"}}}}"#));
        till.send(by(&live)).await.assert_body(&format!("{refused}}}"));
    }
}

/// Rule (contract 5.3.9): a coding that changes nothing does not count, and one that compresses has its cause.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_origin_says_of_intact_bytes_does_not_count() {
    for (coding, cause) in [("aws-chunked", None), ("utf-8", None), ("gzip", Some("encoded"))] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let head = format!("content-encoding: {coding}\r\ncontent-length: {}", PICTURE.len());
            let head = format!("HTTP/1.1 200 OK\r\n{head}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(&[head.as_bytes(), PICTURE].concat()).await;
        });
        let till = till_that_may_fetch(address).await;
        let app = till.app_like("a1", AppKind { sandbox: true, ..AppKind::default() }).await;
        let url = format!("app_id={}&access_token={}&url=http://{address}/a.png", app.id, app.token);
        let answer = till.send(by_url(&url)).await;
        match cause {
            None => drop(img_id(&answer)),
            Some(cause) => {
                answer.assert_refused(10_000_419, REFUSED_URL);
                assert_eq!(answer.json()["data"]["cause"], cause);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absent_url_is_10000200_and_credentials_come_first() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let credentials = format!("app_id={}&access_token={}", app.id, app.token);
    for request in [
        by_url(&credentials),
        by_url(&credentials).body("{}"),
        by_url(&credentials).body("[]"),
        by_url(&credentials).body(r#"{"url":null}"#),
    ] {
        till.send(request).await.assert_refused(10_000_200, "url is missing");
    }
    let picture = by_url(&credentials).multipart(&[(FILE_PART, PICTURE)]);
    till.send(picture).await.assert_refused(10_000_200, "file: expected UTF-8 text, got a picture");
    let other = by_url(&credentials).multipart(&[(FILE_PART, b"\xff")]);
    till.send(other).await.assert_refused(10_000_200, "body: expected UTF-8 text");
    let empty = by_url(&format!("{credentials}&url="));
    till.send(empty).await.assert_refused(10_000_200, "url is empty");
    till.send(by_url("url=http://a.example/x")).await.assert_refused(100_200_102, "app_id is missing");
    till.send(by_url("app_id=a1&url=http://a.example/x"))
        .await
        .assert_refused(100_200_102, "access_token is missing; /oauth2/access_token gives one");
    let twice = by_url(&format!("{credentials}&x=1&x=2&url=http%3A%2F%2Fa"));
    till.send(twice).await.assert_refused(10_000_200, "x: expected once, given twice");
    let not_text = by_url(&credentials).body(r#"{"url":["http://a.example/"]}"#);
    till.send(not_text).await.assert_refused(10_000_200, "url: expected text, got an array");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_and_every_failure_to_fetch_has_one_text() {
    let address = origin(PICTURE).await;
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let open = till_that_may_fetch(address).await;
    let open_app = open.app("a1").await;
    let closed_port = format!("http://{address}/cover.png?size=1&v=2");
    for url in [
        closed_port.as_str(),
        "http://127.0.0.1/",
        "http://localhost/",
        "http://[::1]/",
        "http://2130706433/",
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
        "ftp://a.example/x.png",
        "http://user@a.example/",
        "http://name.invalid/",
        "not a url",
    ] {
        let request = by_url(&format!("app_id=a1&access_token={}&url={}", app.token, encoded(url)));
        till.send(request).await.assert_refused(10_000_419, REFUSED_URL);
    }
    // Not there, as seen by one who may fetch from here.
    let request =
        by_url(&format!("app_id=a1&access_token={}&url=http://{address}/other.png", open_app.token));
    open.send(request).await.assert_refused(10_000_419, REFUSED_URL);
    assert_eq!(till.number("SELECT count(*) FROM images").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetched_picture_that_is_not_acceptable_is_answered_as_an_upload_would_be() {
    let address = origin(b"GIF89a").await;
    let till = till_that_may_fetch(address).await;
    let app = till.app("a1").await;
    let url = format!("http://{address}/cover.png?size=1&v=2");
    let answer = till.send(by_url(&format!("app_id=a1&access_token={}&url={url}", app.token))).await;
    let uploaded = upload(&till, &app, b"GIF89a").await.body;
    assert_eq!(answer.body, uploaded.replace("\"file:", "\"url:"), "the field is the one that came");
    assert_eq!(answer.code(), 10_000_200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demonstrations_picture_is_fetched_for_sandbox_apps_only() {
    let operator = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = operator.local_addr().unwrap();
    drop(operator);
    let till = TestTill::start_with(|config| config.ops.listen = address).await;
    // The test's own operator listener is elsewhere: bring one to the address of the settings.
    let listener = TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 4096];
            let _ = stream.read(&mut head).await;
            let answer =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", PICTURE.len());
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.write_all(PICTURE).await;
        }
    });
    let sandbox = till.app_like("a1", AppKind { sandbox: true, ..AppKind::default() }).await;
    let live = till.app("a2").await;
    let ask = |app: &TestApp, url: &str| {
        by_url(&format!("app_id={}&access_token={}&url={}", app.id, app.token, encoded(url)))
    };
    let url = format!("http://{address}/demo/cover.png");
    img_id(&till.send(ask(&sandbox, &url)).await);
    till.send(ask(&live, &url)).await.assert_refused(10_000_419, REFUSED_URL);
    for other in
        [format!("{url}?"), format!("http://{address}/readyz"), format!("http://{address}/demo/../readyz")]
    {
        till.send(ask(&sandbox, &other)).await.assert_refused(10_000_419, REFUSED_URL);
    }
}
