//! Cover images: the search, the page of one image, its picture, and its block.

use askama::Template;
use axum::extract::Path;
use axum::http::header;
use axum::response::IntoResponse as _;
use axum::routing::{MethodRouter, get, post};
use domain::fields::Expected;
use domain::ids::{AppId, ImgId, Reason};
use domain::operation::image::{ImageCommand, unknown_image};
use domain::rights::Need;
use store::{ImageCursor, ImageDetail, ImageFilter, ImageKey, StoredImage};

use super::error::ConsoleError;
use super::i18n::{Moment as _, parse_moment};
use super::page::{Page, Section, Shown, render, render_search};
use super::request::{Answer, ConsoleRequest, lead_to};
use super::route::{ConsoleRoute, routes};
use crate::images::small_copies::{block_command, thumbnail_width};
use crate::state::AppState;

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page("/console/images").of_own_apps() => get(search);
    page("/console/images/{img_id}").of_own_apps() => get(image);
    page("/console/images/{img_id}/picture").of_own_apps() => get(picture);
    page_for(Need::Administer, "/console/images/{img_id}/block") => confirm(true);
    change(Need::Administer, "/console/images/{img_id}/block") => post(block);
    page_for(Need::Administer, "/console/images/{img_id}/unblock") => confirm(false);
    change(Need::Administer, "/console/images/{img_id}/unblock") => post(unblock);
};

/// Images on a page.
const IMAGES: u32 = 48;
/// The picture in place of a blocked one.
const PLACEHOLDER: &str = include_str!("blocked.svg");

#[derive(Template)]
#[template(path = "images.html")]
struct ImageSearchPage<'a> {
    page: Page<'a>,
    images: Vec<StoredImage>,
    next: Option<String>,
}

/// Parses the filter by state: true for blocked images.
fn parse_state(text: &str) -> Result<bool, Expected> {
    match text {
        "blocked" => Ok(true),
        "not_blocked" => Ok(false),
        _ => Err(Expected::new("blocked or not_blocked")),
    }
}

async fn search(request: ConsoleRequest) -> Answer {
    let mut filters = request.filters();
    let filter = ImageFilter {
        apps: request.apps().clone(),
        app_id: filters.read("app_id", AppId::parse),
        key: filters.read("picture", ImageKey::parse),
        blocked: filters.read("state", parse_state),
        uploaded_since: filters.read("from", parse_moment),
        uploaded_until: filters.read("to", parse_moment),
        after: request.fields.optional("after", ImageCursor::parse)?,
    };
    let wrong = filters.wrong;
    let (mut images, mut next) = (Vec::new(), None);
    if wrong.is_empty() {
        let found = request.state.store.images(&filter, IMAGES).await?;
        (images, next) = (found.items, request.next(found.next));
    }
    let page = request.search_page(Section::IMAGES).await?.marking(&wrong);
    render_search(&ImageSearchPage { page, images, next }, &wrong)
}

#[derive(Template)]
#[template(path = "image.html")]
struct ImagePage<'a> {
    page: Page<'a>,
    detail: &'a ImageDetail,
    image: &'a StoredImage,
    /// Whether the page shows the blocked picture.
    is_revealed: bool,
}

fn no_such_image(name: &str) -> ConsoleError {
    unknown_image(name).into()
}

/// The id of an image in an address.
fn img_id_of(name: &str) -> Result<ImgId, ConsoleError> {
    ImgId::parse(name).map_err(|_| no_such_image(name))
}

/// The image in an address, of one of the user's apps.
async fn find(request: &ConsoleRequest, name: &str) -> Result<StoredImage, ConsoleError> {
    let image = request.state.store.image(&img_id_of(name)?).await?;
    image.filter(|image| request.apps().has(image.app_id.as_str())).ok_or_else(|| no_such_image(name))
}

/// The same with all its details. Copies in other apps are left out.
async fn find_detail(request: &ConsoleRequest, name: &str) -> Result<ImageDetail, ConsoleError> {
    let detail = request.state.store.image_detail(&img_id_of(name)?).await?;
    let is_own = |image: &StoredImage| request.apps().has(image.app_id.as_str());
    let mut detail = detail.filter(|detail| is_own(&detail.image)).ok_or_else(|| no_such_image(name))?;
    detail.copies.retain(is_own);
    detail.near_copies.retain(is_own);
    Ok(detail)
}

/// Whether the user may see a blocked picture, and asks for it.
fn reveals(request: &ConsoleRequest) -> bool {
    request.user.rights.is_everything() && request.text("reveal") == "yes"
}

/// What the page of an image tells after a change.
const NOTICES: [(&str, &str); 2] = [
    ("block", "The picture is blocked. Every server refuses it from now on."),
    ("unblock", "The picture is no longer blocked."),
];

async fn image(Path(name): Path<String>, request: ConsoleRequest) -> Answer {
    let detail = find_detail(&request, &name).await?;
    let page = Page { notice: request.notice(NOTICES), ..request.page(Section::IMAGES, "Image") };
    render(&ImagePage { page, image: &detail.image, detail: &detail, is_revealed: reveals(&request) })
}

fn parse_width(text: &str) -> Result<u32, Expected> {
    thumbnail_width(text).ok_or(Expected::new("120, 240 or 480"))
}

/// A small copy of a picture, for the pages of the console. Admins can request a blocked picture explicitly.
async fn picture(Path(name): Path<String>, request: ConsoleRequest) -> Answer {
    let width = request.fields.required("w", parse_width)?;
    let image = find(&request, &name).await?;
    let (media_type, bytes) = if image.is_blocked && !reveals(&request) {
        ("image/svg+xml", PLACEHOLDER.as_bytes().to_vec())
    } else if width < image.side {
        let small = request.state.picture_work.small_copy(&image, width).await?;
        (small.format.media_type(), small.bytes)
    } else {
        let bytes = request.state.store.contents(&image.contents, image.byte_length).await?;
        (image.format.media_type(), bytes)
    };
    // The guard adds `no-store`: a picture that is blocked meanwhile must not be shown again.
    Ok(([(header::CONTENT_TYPE, media_type)], bytes).into_response())
}

#[derive(Template)]
#[template(path = "image_block.html")]
struct ImageBlockPage<'a> {
    page: Page<'a>,
    detail: &'a ImageDetail,
    /// True to block, false to unblock.
    blocks: bool,
}

/// The page before a block, or before the end of one.
fn confirm(blocks: bool) -> MethodRouter<AppState> {
    get(async move |Path(name): Path<String>, request: ConsoleRequest| {
        let detail = find_detail(&request, &name).await?;
        let title = if blocks { "Block this picture?" } else { "Unblock this picture?" };
        render(&ImageBlockPage { page: request.page(Section::IMAGES, title), detail: &detail, blocks })
    })
}

async fn block(Path(name): Path<String>, request: ConsoleRequest) -> Answer {
    let operator = request.operator()?;
    let reason = request.fields.required("reason", Reason::parse)?;
    let image = find(&request, &name).await?;
    let (contents, near_copies) = request.state.picture_work.block_hashes(&image).await?;
    let command = block_command(&contents, &near_copies, reason.to_string());
    request.state.store.change_blocks(&operator, command).await?;
    lead_to(&format!("/console/images/{}?done=block", image.img_id))
}

async fn unblock(Path(name): Path<String>, request: ConsoleRequest) -> Answer {
    let img_id = img_id_of(&name)?;
    let operator = request.operator()?.because(&request.fields.required("reason", Reason::parse)?);
    // If the block is gone already, there is nothing to do.
    if let Some(block) = request.state.store.block_of(&img_id).await? {
        let command = ImageCommand::Unblock { picture: *block.contents.as_array(), name };
        request.state.store.change_blocks(&operator, command).await?;
    }
    lead_to(&format!("/console/images/{img_id}?done=unblock"))
}
