//! The uploads and the pictures as the document tells them (contract 5.1 and 5.2).

use domain::ids::{AppId, ImgId, WEB_URL_BYTES_MAX};
use pictures::{BYTES_MAX, PIXELS_MAX, Unacceptable};

use super::json::object;
use super::operation::{
    ACCESS_TOKEN, APP_ID, Body, Content, Field, IMG_ID, Operation, Parameter, Place, RefusalExample, Success,
    credentials, general_refusals, pattern, refused, said, text, token_refusals,
};
use crate::config::Config;
use crate::error::{Code, Refusal};
use crate::public::image::{no_such_image, thumbnail_width};
use crate::public::image_upload::{EXTENSIONS, UPLOAD_BODY_BYTES_MAX, illegal_url};
use crate::small_copies::THUMBNAIL_WIDTHS;

pub(super) fn with_file(config: &Config) -> Operation {
    let names = EXTENSIONS.join(", ");
    let file = Field::required(
        "file",
        object! { "type": "string", "contentMediaType": "application/octet-stream" },
        "cover.png",
        format!("The picture. Its file name, where one is given, ends in one of {names}, in any case."),
    );
    let mut refusals = token_refusals();
    refusals.extend(picture_refusals());
    refusals.push(said(
        "file_missing",
        "There is no part `file`.",
        Code::IllegalParameter,
        "file is missing",
    ));
    refusals.extend(general_refusals(UPLOAD_BODY_BYTES_MAX, config.http.body_timeout));
    Operation {
        id: "uploadWithFile",
        summary: "Upload a cover image by file",
        description: format!("{} Other parts of the body are skipped.", upload_description()),
        parameters: credentials(true),
        bodies: vec![Body { media_type: "multipart/form-data", fields: vec![file] }],
        body_required: true,
        successes: vec![uploaded()],
        refusals,
    }
}

pub(super) fn with_url(config: &Config) -> Operation {
    let url_schema = || text(1, WEB_URL_BYTES_MAX).with("format", "uri");
    let url = "https://shop.example/cover.png";
    let words = "Link to the picture: http or https, no user info. In the query or in the body.";
    let mut parameters = credentials(false);
    parameters.push(Field::optional("url", url_schema(), words).example(url).at(Place::Query));
    let fields = || {
        let token = object! { "type": "string", "minLength": 1 };
        vec![
            Field::optional("app_id", pattern(AppId::PATTERN), "The app.").example(APP_ID),
            Field::optional("access_token", token, "A token of the app.").example(ACCESS_TOKEN),
            Field::optional("url", url_schema(), words).example(url),
        ]
    };
    let kinds = ["application/x-www-form-urlencoded", "application/json", "multipart/form-data"];
    let mut refusals = token_refusals();
    refusals.extend(picture_refusals());
    refusals.push(said("url_missing", "No `url` came.", Code::IllegalParameter, "url is missing"));
    refusals.push(refused(
        "illegal_url",
        "The link is none, leads to no public address, or nothing could be fetched. One text for every cause.",
        illegal_url(String::new()),
    ));
    refusals.extend(general_refusals(config.http.body_bytes_max, config.http.body_timeout));
    let ports: Vec<String> = config.fetch.ports.iter().map(ToString::to_string).collect();
    Operation {
        id: "uploadWithUrl",
        summary: "Upload a cover image by URL",
        description: format!(
            "{} The link leads, through at most {} redirects, to public addresses on port {}, and the picture comes \
             within {}.\n\n\
             Each of the three fields is taken from the query, else from the body, a form, JSON or multipart. No body \
             at all is fine. `url=` at the end of the query may stand there unencoded.",
            upload_description(),
            config.fetch.redirects_max,
            ports.join(" or "),
            humantime::format_duration(config.fetch.timeout)
        ),
        parameters,
        bodies: kinds.map(|media_type| Body { media_type, fields: fields() }).to_vec(),
        body_required: false,
        successes: vec![uploaded()],
        refusals,
    }
}

fn upload_description() -> String {
    format!(
        "A PNG or JPEG by its bytes, at most {BYTES_MAX} bytes, as wide as high, at most {PIXELS_MAX} pixels in all, and \
         whole: what is cut off or corrupt is refused. The same picture uploaded again by the same app keeps its id."
    )
}

/// Contract 5.6.
fn uploaded() -> Success {
    let data = object! {
        "type": "object",
        "required": vec!["imgId"],
        "properties": object! { "imgId": pattern(ImgId::PATTERN) },
    };
    let schema = object! {
        "type": "object",
        "required": vec!["result", "error_msg", "data"],
        "properties": object! {
            "result": object! { "const": 1 },
            "error_msg": object! { "const": "success" },
            "data": data,
        },
    };
    let example = object! { "result": 1, "error_msg": "success", "data": object! { "imgId": IMG_ID } };
    Success {
        name: "uploaded",
        summary: "The picture is kept, for ever.",
        status: 200,
        content: Content::Json { schema, example },
        headers: Vec::new(),
    }
}

fn picture_refusals() -> [RefusalExample; 2] {
    let reason = Unacceptable::NotSquare { width: 128, height: 64 };
    [
        refused(
            "picture_unacceptable",
            "The picture is not acceptable; the text says why.",
            Refusal::new(Code::IllegalParameter, format!("file: {reason}")),
        ),
        said(
            "picture_blocked",
            "The operator has blocked this picture, or one that looks nearly the same.",
            Code::ImageBlocked,
            "file: the picture is blocked by risk control",
        ),
    ]
}

pub(super) fn see(head: bool) -> Operation {
    let widths = THUMBNAIL_WIDTHS.to_vec();
    let header = |name: &'static str, words: &str| {
        Field::optional(name, object! { "type": "string" }, words).at(Place::Header)
    };
    let mut parameters: Vec<Parameter> = vec![
        Field::required("img_id", pattern(ImgId::PATTERN), IMG_ID, "The id that an upload answered.")
            .at(Place::Path),
        Field::optional(
            "w",
            object! { "type": "integer", "enum": widths },
            "A small copy of at most this width, in pixels.",
        )
        .at(Place::Query),
        header("If-None-Match", "Entity tags that the caller has."),
    ];
    if !head {
        parameters.extend([
            header(
                "Range",
                "One range of bytes; several, or one that makes no sense, get the whole picture.",
            ),
            header("If-Range", "The range is meant of this entity tag only."),
        ]);
    }
    let (id, summary) =
        if head { ("headImage", "Ask about a picture") } else { ("getImage", "See a picture") };
    Operation {
        id,
        summary,
        description: "Whoever knows an id may see the picture: there are no credentials. The bytes behind an id never \
                      change, so every cache may keep them. An id that is unknown and a picture that the operator has \
                      blocked are both 404. Refusals have their own status here, whatever `http.error_status` says."
            .to_owned(),
        parameters,
        bodies: Vec::new(),
        body_required: false,
        successes: pictures(head),
        refusals: image_refusals(),
    }
}

fn pictures(head: bool) -> Vec<Success> {
    let content = if head { Content::Empty } else { Content::Picture };
    let success =
        |name, summary, status, content| Success { name, summary, status, content, headers: Vec::new() };
    let mut answers = vec![
        success("whole", "The picture, or its small copy.", 200, content.clone()),
        success("not_modified", "The caller has these bytes.", 304, Content::Empty),
    ];
    if !head {
        answers.push(success("part", "A part of it, where `Range` asked for one.", 206, content));
        let behind = "The range begins behind the end.";
        answers.push(success("range_not_satisfiable", behind, 416, Content::Empty));
    }
    for answer in answers.iter_mut().filter(|answer| answer.status != 416) {
        answer.headers.push(("ETag", "The picture's entity tag.", format!("\"{IMG_ID}\"")));
    }
    answers
}

fn image_refusals() -> Vec<RefusalExample> {
    let width = thumbnail_width("7").err().into_iter();
    let width = width.map(|refusal| refused("wrong_width", "There is no small copy of this width.", refusal));
    let mut refusals: Vec<RefusalExample> = width.collect();
    refusals.push(refused("no_such_image", "Unknown, or blocked.", no_such_image()));
    let general = general_refusals(0, std::time::Duration::ZERO).into_iter();
    refusals.extend(general.filter(|example| matches!(example.name, "system_error" | "unavailable")));
    refusals
}
