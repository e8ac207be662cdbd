//! What the API's document says of the uploads (contract 5.1 and 5.2).

use domain::ids::{AppId, ImgId, WebUrl};
use pictures::{BYTES_MAX, PIXELS_MAX, Unacceptable};

use super::acceptance::{Uploaded, blocked};
use super::{EXTENSIONS, UPLOAD_BODY_BYTES_MAX, illegal, illegal_url};
use crate::config::Config;
use crate::error::{Code, Refusal};
use crate::openapi::{ACCESS_TOKEN, APP_ID, Example, Field, IMG_ID, Operation, Place, Success};
use crate::public::describe::{
    ANY_KIND, SomeText, body_refusals, credentials, faults, rate_limited, refused, token_refusals, told,
};
use crate::public::extract::succeeded;

/// What the API's document says of the upload by file.
#[must_use]
pub fn describe_with_file(config: &Config) -> Operation<Refusal> {
    let words = format!(
        "The picture. Its file name, where one is given, ends in one of {}, in any case.",
        EXTENSIONS.join(", ")
    );
    let file = Field::required::<String>("file", "cover.png", words);
    let missing = told("file_missing", "There is no part `file`.", Code::IllegalParameter, "file is missing");
    describe("Upload a cover image by file", "Other parts of the body are skipped.", missing)
        .with(Place::Query, credentials(true))
        .body("multipart/form-data", vec![file.demand("contentMediaType", "application/octet-stream")])
        .refuses(body_refusals(UPLOAD_BODY_BYTES_MAX, config.http.body_timeout))
        .refuses(faults())
}

/// What the API's document says of the upload by URL.
#[must_use]
pub fn describe_with_url(config: &Config) -> Operation<Refusal> {
    let ports: Vec<String> = config.fetch.ports.iter().map(ToString::to_string).collect();
    let rules = format!(
        "The link leads, through at most {} redirects, to public addresses on port {}, and the picture comes within {}.\n\n\
         Each of the three fields is taken from the query, else from the body, a form, JSON or multipart. The request may \
         have no body. `url=` at the end of the query may stand there unencoded.",
        config.fetch.redirects_max,
        ports.join(" or "),
        humantime::format_duration(config.fetch.timeout)
    );
    let url = || {
        let words = "Link to the picture: http or https, no user info. In the query or in the body.";
        Field::optional::<WebUrl>("url", words).example("https://shop.example/cover.png")
    };
    let fields = || {
        vec![
            Field::optional::<AppId>("app_id", "The app.").example(APP_ID),
            Field::optional::<SomeText>("access_token", "A token of the app.").example(ACCESS_TOKEN),
            url(),
        ]
    };
    let missing = told("url_missing", "No `url` came.", Code::IllegalParameter, "url is missing");
    let illegal_url = refused(
        "illegal_url",
        "The link is not a link, leads to no public address, or nothing could be fetched. One text for every cause.",
        illegal_url(String::new()),
    );
    let operation = describe("Upload a cover image by URL", &rules, missing)
        .with(Place::Query, credentials(false))
        .with(Place::Query, [url()])
        .refuses([illegal_url])
        .refuses(body_refusals(config.http.body_bytes_max, config.http.body_timeout))
        .refuses(faults());
    ANY_KIND.into_iter().fold(operation, |operation, media_type| operation.body(media_type, fields()))
}

fn describe(summary: &'static str, rules: &str, missing: Example<Refusal>) -> Operation<Refusal> {
    let description = format!(
        "A whole PNG or JPEG, by its bytes: at most {BYTES_MAX} bytes, as wide as high, at most {PIXELS_MAX} pixels. A \
         picture that is cut off or corrupt is refused. The same picture uploaded again by the same app keeps its id. {rules}"
    );
    let img_id = ImgId::parse(IMG_ID).expect("the example is an id");
    let reason = Unacceptable::NotSquare { width: 128, height: 64 };
    Operation::new(summary, description)
        .answers(Success::json(
            "uploaded",
            "The picture is kept, for ever.",
            &succeeded(Uploaded::new(img_id)),
        ))
        .refuses(token_refusals())
        .refuses([
            refused(
                "picture_unacceptable",
                "The picture is not acceptable; the text says why.",
                illegal(format!("file: {reason}")),
            ),
            refused(
                "picture_blocked",
                "The operator has blocked this picture, or one that looks nearly the same.",
                blocked(),
            ),
            missing,
            rate_limited(),
        ])
}
