//! The two ways to upload a cover image, by file and by URL, with one acceptance path
//! (spec 4.3 and 4.4, contract 5).

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::BytesMut;
use serde::Serialize;
use tokio::sync::SemaphorePermit;

use super::wire::{
    UploadCaller, fields_of_any_kind, multipart_boundary, read_body, success, too_large, within,
};
use crate::auth::{Caller, authenticate};
use crate::domain::fields::{Expected, Fields};
use crate::domain::ids::ImgId;
use crate::domain::image::{self, Unacceptable};
use crate::error::{Code, Refusal};
use crate::fetch::OwnPicture;
use crate::ops;
use crate::rate_limit::Limited;
use crate::store::KeepOutcome;
use crate::till::Till;

/// Largest multipart body: a picture, and room for parts that are skipped.
const UPLOAD_BODY_BYTES_MAX: usize = image::BYTES_MAX + 512 * 1024;
/// Extensions a file name may have, where one is given (spec 8).
const EXTENSIONS: [&str; 3] = ["png", "jpg", "jpeg"];

/// `POST /openapi/mp/developer/file/img/uploadWithFile`.
///
/// # Errors
/// The codes of contract 7 that are marked images or all.
pub async fn upload_with_file(
    State(till): State<Till>,
    UploadCaller(caller): UploadCaller,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let boundary = multipart_boundary(&parts.headers)
        .ok_or_else(|| illegal("content type: expected multipart/form-data with a boundary"))?;
    let _place = upload_place(&till).await?;
    let reading = read_file_part(body, boundary);
    let bytes = within(till.config.http.body_timeout, reading).await??;
    accept(&till, &caller, bytes).await
}

/// `POST /openapi/mp/developer/file/img/uploadWithUrl`.
///
/// # Errors
/// The codes of contract 7 that are marked images or all.
pub async fn upload_with_url(State(till): State<Till>, request: Request) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let (query, trailing_url) = split_trailing_url(parts.uri.query().unwrap_or_default());
    let query = Fields::from_urlencoded(query.as_bytes())?;
    let names = ["app_id", "access_token"];
    let url_in_query = trailing_url.is_some() || query.text("url").is_some();
    // Credentials in the query are checked before the body is read.
    let mut caller = None;
    if names.iter().all(|name| query.text(name).is_some()) {
        caller = Some(authenticate(&till, &query, Limited::Uploads).await?);
    }
    let body = if caller.is_some() && url_in_query {
        Fields::default()
    } else {
        fields_of_any_kind(&parts.headers, read_body(&till, body).await?).await?
    };
    let caller = match caller {
        Some(caller) => caller,
        None => authenticate(&till, &merged_credentials(&query, &body)?, Limited::Uploads).await?,
    };
    let url = match trailing_url {
        Some(url) => url.to_owned(),
        None if url_in_query => query.required("url", parse_text)?,
        None => body.required("url", parse_text)?,
    };
    let own = caller.app().sandbox.then(|| own_picture(&till));
    let fetched = till.fetcher.get(&url, own.as_ref()).await;
    let bytes = fetched.map_err(|refused| Refusal {
        cause: Some(refused.cause().to_owned()),
        // One text for every cause: it must not tell what is inside the network.
        ..Refusal::new(Code::IllegalUrl, "url: expected a picture on a public http or https address")
    })?;
    // Only now: a slow origin must not hold up the uploads of others.
    let _place = upload_place(&till).await?;
    accept(&till, &caller, bytes).await
}

/// One of the places that bound how many pictures are in memory; nobody waits for one for ever.
async fn upload_place(till: &Till) -> Result<SemaphorePermit<'_>, Refusal> {
    match tokio::time::timeout(till.config.http.body_timeout, till.uploads.acquire()).await {
        Ok(Ok(place)) => Ok(place),
        Ok(Err(_)) => Err(Refusal::internal("uploads are closed")),
        Err(_) => Err(Refusal::unavailable("the service is overloaded, try again", "no place for an upload")),
    }
}

/// The demonstration's picture, the only thing of ours that may be fetched.
fn own_picture(till: &Till) -> OwnPicture {
    OwnPicture { url: ops::demo_picture_url(&till.config), address: till.config.ops.reachable() }
}

fn illegal(text: impl Into<String>) -> Refusal {
    Refusal::new(Code::IllegalParameter, text)
}

#[expect(clippy::unnecessary_wraps, reason = "the parser of a field that takes any text")]
fn parse_text(text: &str) -> Result<String, Expected> {
    Ok(text.to_owned())
}

/// Each credential from the query, else from the body.
fn merged_credentials(query: &Fields, body: &Fields) -> Result<Fields, Refusal> {
    let mut merged = Fields::default();
    for name in ["app_id", "access_token"] {
        if let Some(value) = query.text(name).or_else(|| body.text(name)) {
            merged.add_text(name.to_owned(), value.to_owned())?;
        }
    }
    Ok(merged)
}

/// Splits an unencoded `url=` off the end of a query: real clients write it there as it is, `&`
/// and all. It is the last parameter when no credential stands only after it.
fn split_trailing_url(query: &str) -> (&str, Option<&str>) {
    let start = if query.starts_with("url=") { Some(0) } else { query.find("&url=").map(|at| at + 1) };
    let Some(start) = start else { return (query, None) };
    let (before, rest) = (&query[..start], &query[start + "url=".len()..]);
    let value = rest.split('&').next().unwrap_or_default();
    let holds = |text: &str, name: &str| text.split('&').any(|pair| pair.split('=').next() == Some(name));
    let credential_after =
        ["app_id", "access_token"].iter().any(|name| holds(rest, name) && !holds(before, name));
    if value.contains("://") && !credential_after {
        (before.trim_end_matches('&'), Some(rest))
    } else {
        (query, None)
    }
}

/// Streams the parts of a body and gives the one named `file`; the others are skipped unread.
async fn read_file_part(body: Body, boundary: String) -> Result<Bytes, Refusal> {
    let constraints = multer::Constraints::new()
        .size_limit(multer::SizeLimit::new().whole_stream(UPLOAD_BODY_BYTES_MAX as u64));
    let mut multipart = multer::Multipart::with_constraints(body.into_data_stream(), boundary, constraints);
    let mut file = None;
    while let Some(mut part) = multipart.next_field().await.map_err(|error| unreadable(&error))? {
        if part.name() != Some("file") {
            continue;
        }
        if file.is_some() {
            return Err(illegal("file: expected once, given twice"));
        }
        check_file_name(part.file_name())?;
        let mut bytes = BytesMut::new();
        while let Some(chunk) = part.chunk().await.map_err(|error| unreadable(&error))? {
            if bytes.len() + chunk.len() > image::BYTES_MAX {
                return Err(illegal(format!(
                    "file: {}",
                    Unacceptable::TooLong { bytes: bytes.len() + chunk.len() }
                )));
            }
            bytes.extend_from_slice(&chunk);
        }
        file = Some(bytes.freeze());
    }
    file.ok_or_else(|| illegal("file is missing"))
}

fn unreadable(error: &multer::Error) -> Refusal {
    match error {
        multer::Error::StreamSizeExceeded { .. } => too_large(UPLOAD_BODY_BYTES_MAX),
        other => illegal(format!("body: expected a complete multipart body ({other})")),
    }
}

fn check_file_name(file_name: Option<&str>) -> Result<(), Refusal> {
    let Some(name) = file_name.filter(|name| !name.is_empty()) else { return Ok(()) };
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    if extension.is_some_and(|extension| EXTENSIONS.contains(&extension.as_str())) {
        Ok(())
    } else {
        let shown = crate::domain::fields::shown(name);
        Err(illegal(format!("file: expected a file name that ends in png, jpg or jpeg, got {shown}")))
    }
}

/// Judges a picture and keeps it: the one path of both uploads.
async fn accept(till: &Till, caller: &Caller, bytes: Bytes) -> Result<Response, Refusal> {
    let permit = Arc::clone(&till.decodes)
        .acquire_owned()
        .await
        .map_err(|_| Refusal::internal("decodes are closed"))?;
    // The permit goes with the work: a caller that goes away does not make room for more of it.
    let judging = tokio::task::spawn_blocking(move || {
        let verdict = image::inspect(&bytes).map(|picture| image::keep(&bytes, &picture));
        drop(permit);
        verdict
    });
    let kept = judging
        .await
        .map_err(|fault| Refusal::internal(format!("judging a picture: {fault}")))?
        .map_err(|reason| illegal(format!("file: {reason}")))?;
    match till.store.keep_image(&caller.app().id, kept).await? {
        KeepOutcome::Kept(img_id) => Ok(success(Uploaded { data: UploadedData { img_id } })),
        KeepOutcome::Blocked => {
            Err(Refusal::new(Code::ImageBlocked, "file: the picture is blocked by risk control"))
        }
    }
}

/// Spec 2.6.
#[derive(Serialize)]
struct Uploaded {
    data: UploadedData,
}

#[derive(Serialize)]
struct UploadedData {
    #[serde(rename = "imgId", serialize_with = "as_text")]
    img_id: ImgId,
}

fn as_text<S: serde::Serializer>(img_id: &ImgId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(img_id.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unencoded_url_that_stands_last_takes_the_rest_of_the_query() {
        for (query, expected) in [
            (
                "app_id=a&access_token=t&url=http://h/p?x=1&y=2",
                ("app_id=a&access_token=t", Some("http://h/p?x=1&y=2")),
            ),
            (
                "app_id=a&access_token=t&url=http://h/p?app_id=5&access_token=6",
                ("app_id=a&access_token=t", Some("http://h/p?app_id=5&access_token=6")),
            ),
            ("url=http://h/p&app_id=a&access_token=t", ("url=http://h/p&app_id=a&access_token=t", None)),
            ("app_id=a&url=http://h/p&access_token=t", ("app_id=a&url=http://h/p&access_token=t", None)),
            (
                "app_id=a&access_token=t&url=http%3A%2F%2Fh",
                ("app_id=a&access_token=t&url=http%3A%2F%2Fh", None),
            ),
            ("url=http://h/p", ("", Some("http://h/p"))),
            ("app_id=a", ("app_id=a", None)),
            ("", ("", None)),
        ] {
            assert_eq!(split_trailing_url(query), expected, "{query}");
        }
    }
}
