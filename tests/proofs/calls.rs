//! Calls of games and developers in the proofs, and an answer that may not come.

use std::net::SocketAddr;
use std::time::Duration;

use domain::clock::{Clock as _, SystemClock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::service::game::Game;
use crate::service::{Answer, PAGE, Request, TestApp};
use crate::support::Dice;

/// Longer than any limit of the server's own.
const ANSWER_WITHIN: Duration = Duration::from_secs(45);

/// The machine's time in milliseconds.
pub(crate) fn now() -> i64 {
    SystemClock::new().unix_millis()
}

/// An exchange that is sent at `ts`, as an app signs it.
pub(crate) fn exchange(app: &TestApp, open_id: &str, biz_no: &str, amount: i64, ts: i64) -> Request {
    Game::new(app, open_id, biz_no, amount).with("ts", ts).request()
}

/// A report of an order that is paid.
pub(crate) fn report(app: &TestApp, order_no: &str, open_id: &str, img_id: &str, status: u8) -> Request {
    let body = serde_json::json!({
        "out_biz_order_no": order_no,
        "out_order_no": order_no,
        "open_id": open_id,
        "order_create_time": 1_700_000_000_000_i64,
        "order_status": status,
        "order_path": PAGE,
        "product_cover_img_id": img_id,
    });
    let target = format!("/openapi/mp/developer/order/v1/report?{}", credentials(app));
    Request::post(&target).body(body.to_string())
}

/// An upload by file.
pub(crate) fn upload(app: &TestApp, picture: &[u8]) -> Request {
    let target = format!("/openapi/mp/developer/file/img/uploadWithFile?{}", credentials(app));
    let head = "content-disposition: form-data; name=\"file\"; filename=\"cover.png\"";
    Request::post(&target).multipart(&[(head, picture)])
}

/// A token request.
pub(crate) fn token(app: &TestApp) -> Request {
    let (app_id, secret) = (&app.id, &app.secret);
    Request::get(&format!(
        "/oauth2/access_token?app_id={app_id}&app_secret={secret}&grant_type=client_credentials"
    ))
}

/// `app_id` and `access_token` of a query.
pub(crate) fn credentials(app: &TestApp) -> String {
    format!("app_id={}&access_token={}", app.id, app.token)
}

/// A PNG of 16 by 16 pixels; each `seed` makes another.
pub(crate) fn picture(seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let pixels: Vec<u8> = (0..16 * 16 * 3).map(|_| dice.throw(256).to_le_bytes()[0]).collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 16, 16);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().expect("a vector takes everything");
    writer.write_image_data(&pixels).expect("as many pixels as were announced");
    writer.finish().expect("a vector takes everything");
    bytes
}

/// Sends a request on a connection of its own; `None` when no whole answer came.
pub(crate) async fn try_send(address: SocketAddr, request: &Request) -> Option<Answer> {
    let received = try_send_bytes(address, &request.bytes()).await?;
    is_whole(&received).then(|| Answer::parse(&received))
}

/// Sends bytes on a connection of their own and gives all that came back, `None` when nothing did.
pub(crate) async fn try_send_bytes(address: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(bytes).await.ok()?;
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.ok()?;
        Some(received)
    };
    timeout(ANSWER_WITHIN, exchange).await.ok().flatten()
}

/// Whether an answer came to its announced end.
fn is_whole(received: &[u8]) -> bool {
    let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&received[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    length.is_none_or(|length: usize| received.len() - (end + 4) == length)
}
