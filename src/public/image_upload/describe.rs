//! Descriptions of the uploads in the OpenAPI document (contract 5.1 and 5.2).

use domain::ids::{AppId, ImgId, WebUrl};
use pictures::{BYTES_MAX, PIXELS_MAX, Unacceptable};

use super::acceptance::{self, Uploaded};
use super::{EXTENSIONS, example, unacceptable};
use crate::config::Config;
use crate::http::refusal::Refusal;
use crate::openapi::{ACCESS_TOKEN, APP_ID, Example, Field, IMG_ID, Operation, Place, Success};
use crate::public::describe::{ANY_KIND, SomeText, credentials};
use crate::public::extract::succeeded;
use crate::state::REDIRECTS_MAX;

/// The text of the API's document about the upload by file.
pub(in crate::public) fn describe_with_file(config: &Config) -> Operation<Refusal> {
    let words = format!(
        "The picture. The ending of its file name, where it has one, is one of {}, in any case.",
        EXTENSIONS.join(", ")
    );
    let file = Field::required::<String>("file", "cover.png", words);
    let rules = "Other parts of the body are skipped.";
    describe(config, "Upload a cover image by file", "file", rules, example::file_missing())
        .with(Place::Query, credentials(true))
        .body(&["multipart/form-data"], [file.demand("contentMediaType", "application/octet-stream")])
}

/// The text of the API's document about the upload by URL.
pub(in crate::public) fn describe_with_url(config: &Config) -> Operation<Refusal> {
    let ports: Vec<String> = config.fetch.ports.iter().map(ToString::to_string).collect();
    let rules = format!(
        "The link leads, through at most {} redirects, to public addresses on port {}, and the picture comes within {}.\n\n\
         Each of the three fields is taken from the query, else from the body, a form, JSON or multipart. The request may \
         have no body. `url=` at the end of the query may stand there unencoded.",
        REDIRECTS_MAX,
        ports.join(" or "),
        humantime::format_duration(config.fetch.timeout)
    );
    let words = "Link to the picture: http or https, no user info. In the query or in the body.";
    let url = Field::optional::<WebUrl>("url", words).example("https://shop.example/cover.png");
    let app_id = Field::optional::<AppId>("app_id", "The app.").example(APP_ID);
    let token = Field::optional::<SomeText>("access_token", "A token of the app.").example(ACCESS_TOKEN);
    describe(config, "Upload a cover image by URL", "url", &rules, example::url_missing())
        .with(Place::Query, credentials(false).into_iter().chain([url.clone()]))
        .body(ANY_KIND, [app_id, token, url])
        .refuses([example::illegal_url(), example::illegal_url_sandbox()])
}

/// The upload whose refusals of a picture name `field`.
fn describe(
    config: &Config,
    summary: &'static str,
    field: &'static str,
    rules: &str,
    missing: Example<Refusal>,
) -> Operation<Refusal> {
    let description = format!(
        "A whole PNG or JPEG, by its bytes: at most {BYTES_MAX} bytes, as wide as high, at most {PIXELS_MAX} pixels. A \
         picture that is cut off or corrupt is refused. The same picture uploaded again by the same app keeps its id. An upload past a quota of the \
         app is 10000305. {rules}"
    );
    let kept = Uploaded::new(ImgId::parse(IMG_ID).expect("the example is an id"));
    let reason = Unacceptable::NotSquare { width: 128, height: 64 };
    let words = "The picture is not acceptable; the text says why.";
    Operation::new(summary, description)
        .answers(Success::json(
            "uploaded",
            "The picture is kept. Unless an order report names it, it is removed after a time.",
            &succeeded(kept),
        ))
        .refuses([
            Example::new("picture_unacceptable", words, unacceptable(field, &reason)),
            Example { refusal: acceptance::picture_blocked(field), ..acceptance::example::picture_blocked() },
            acceptance::quota_exceeded(config.limits.image_quotas()),
            missing,
        ])
}
