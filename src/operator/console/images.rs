//! Cover images: the search, the page of one image, its picture, and its block.

use askama::Template;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use domain::fields::{Expected, parse_integer};
use domain::ids::{AppId, ImgId, Reason};
use domain::moment;
use store::{ImageCursor, ImageDetail, ImageFilter, ImageKey, StoredImage};

use super::app_field::AppField;
use super::error::ConsoleError;
use super::form::{AdminForm, Input};
use super::page::{Page, Section, Shown, render};
use super::route::Route;
use super::session::SignedIn;
use crate::small_copies::{self, THUMBNAIL_WIDTHS};
use crate::state::AppState;

pub(super) const ROUTES: &[Route] = &[
    Route::page("/console/images", || get(search)),
    Route::page("/console/images/{img_id}", || get(image)),
    Route::page("/console/images/{img_id}/picture", || get(picture)),
    Route::admin_page("/console/images/{img_id}/block", || get(confirm_block)),
    Route::change("/console/images/{img_id}/block", || post(block)),
    Route::admin_page("/console/images/{img_id}/unblock", || get(confirm_unblock)),
    Route::change("/console/images/{img_id}/unblock", || post(unblock)),
];

/// Images on a page.
const IMAGES: u32 = 48;
/// The picture in place of a blocked one.
const PLACEHOLDER: &str = include_str!("blocked.svg");

#[derive(Template)]
#[template(path = "images.html")]
struct SearchPage<'a> {
    page: Page<'a>,
    input: &'a Input,
    app_field: AppField<'a>,
    images: Thumbs<'a>,
    next: Option<String>,
}

/// A list of images with their pictures.
#[derive(Template)]
#[template(path = "thumbs.html")]
struct Thumbs<'a> {
    images: &'a [StoredImage],
}

/// Parses the filter by state: true for blocked images.
fn parse_state(text: &str) -> Result<bool, Expected> {
    match text {
        "blocked" => Ok(true),
        "not_blocked" => Ok(false),
        _ => Err(Expected::new("blocked or not_blocked")),
    }
}

async fn search(
    State(state): State<AppState>,
    signed_in: SignedIn,
    input: Input,
) -> Result<Response, ConsoleError> {
    let filter = ImageFilter {
        app_id: input.optional("app_id", AppId::parse)?,
        key: input.optional("picture", ImageKey::parse)?,
        blocked: input.optional("state", parse_state)?,
        uploaded_since: input.optional("from", moment::parse)?,
        uploaded_until: input.optional("to", moment::parse)?,
        after: input.optional("after", ImageCursor::parse)?,
    };
    let found = state.store.images(&filter, IMAGES).await?;
    let after = found.next.map(|next| next.to_string());
    let next = after.map(|after| input.address(Section::Images.path(), &[("after", &after)]));
    let page = Page::new(&signed_in, Section::Images, "Images");
    let app_field = AppField::new(&state, input.text("app_id")).await?;
    let images = Thumbs { images: &found.items };
    Ok(render(&SearchPage { page, input: &input, app_field, images, next }))
}

#[derive(Template)]
#[template(path = "image.html")]
struct ImagePage<'a> {
    page: Page<'a>,
    detail: &'a ImageDetail,
    image: &'a StoredImage,
    copies: Thumbs<'a>,
    near_copies: Thumbs<'a>,
    /// Whether the page shows the blocked picture.
    is_revealed: bool,
}

fn no_such_image(name: &str) -> ConsoleError {
    ConsoleError::NotFound(format!("There is no image {name}."))
}

/// The id of an image in an address.
fn img_id_of(name: &str) -> Result<ImgId, ConsoleError> {
    ImgId::parse(name).map_err(|_| no_such_image(name))
}

/// The image in an address, with all its details.
async fn find_detail(state: &AppState, name: &str) -> Result<ImageDetail, ConsoleError> {
    state.store.image_detail(&img_id_of(name)?).await?.ok_or_else(|| no_such_image(name))
}

async fn image(
    State(state): State<AppState>,
    signed_in: SignedIn,
    Path(name): Path<String>,
    input: Input,
) -> Result<Response, ConsoleError> {
    let detail = find_detail(&state, &name).await?;
    let notice = match input.text("done") {
        "block" => Some("The picture is blocked. Every server refuses it from now on."),
        "unblock" => Some("The picture is no longer blocked."),
        _ => None,
    };
    let page = Page::new(&signed_in, Section::Images, "Image").with_notice(notice.map(str::to_owned));
    let is_revealed = signed_in.is_admin() && input.text("reveal") == "yes";
    Ok(render(&ImagePage {
        page,
        image: &detail.image,
        copies: Thumbs { images: &detail.copies },
        near_copies: Thumbs { images: &detail.near_copies },
        detail: &detail,
        is_revealed,
    }))
}

fn parse_width(text: &str) -> Result<u32, Expected> {
    let width = parse_integer(text, 1, i64::from(u32::MAX), "a width")?;
    let known = THUMBNAIL_WIDTHS.into_iter().find(|known| i64::from(*known) == width);
    known.ok_or(Expected::new("120, 240 or 480"))
}

/// A small copy of a picture, for the pages of the console. Admins can request a blocked picture explicitly.
async fn picture(
    State(state): State<AppState>,
    signed_in: SignedIn,
    Path(name): Path<String>,
    input: Input,
) -> Result<Response, ConsoleError> {
    let img_id = img_id_of(&name)?;
    let width = input.required("w", parse_width)?;
    let image = state.store.image(&img_id).await?.ok_or_else(|| no_such_image(&name))?;
    let may_see_blocked = signed_in.is_admin() && input.text("reveal") == "yes";
    if image.is_blocked && !may_see_blocked {
        return Ok(picture_response("image/svg+xml", PLACEHOLDER.as_bytes().to_vec(), true));
    }
    if width < image.side {
        let small = small_copies::small_copy(&state, &image, width).await?;
        return Ok(picture_response(small.format.media_type(), small.bytes, image.is_blocked));
    }
    let bytes = state.store.contents(&image.contents, image.byte_length).await?;
    Ok(picture_response(image.format.media_type(), bytes, image.is_blocked))
}

/// A picture as a response. The browser caches it for 5 minutes, except a blocked one.
fn picture_response(media_type: &'static str, bytes: Vec<u8>, is_blocked: bool) -> Response {
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    let caching = if is_blocked { "no-store" } else { "private, max-age=300" };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    response
}

#[derive(Template)]
#[template(path = "image_block.html")]
struct ConfirmPage<'a> {
    page: Page<'a>,
    detail: &'a ImageDetail,
    near_copies: Thumbs<'a>,
    /// True to block, false to unblock.
    blocks: bool,
}

async fn confirm(
    state: &AppState,
    signed_in: &SignedIn,
    name: &str,
    blocks: bool,
) -> Result<Response, ConsoleError> {
    let detail = find_detail(state, name).await?;
    let title = if blocks { "Block this picture?" } else { "Unblock this picture?" };
    let page = Page::new(signed_in, Section::Images, title);
    let near_copies = Thumbs { images: &detail.near_copies };
    Ok(render(&ConfirmPage { page, detail: &detail, near_copies, blocks }))
}

async fn confirm_block(
    State(state): State<AppState>,
    signed_in: SignedIn,
    Path(name): Path<String>,
) -> Result<Response, ConsoleError> {
    confirm(&state, &signed_in, &name, true).await
}

async fn confirm_unblock(
    State(state): State<AppState>,
    signed_in: SignedIn,
    Path(name): Path<String>,
) -> Result<Response, ConsoleError> {
    confirm(&state, &signed_in, &name, false).await
}

async fn block(
    State(state): State<AppState>,
    Path(name): Path<String>,
    form: AdminForm,
) -> Result<Response, ConsoleError> {
    let img_id = img_id_of(&name)?;
    let reason = form.required("reason", Reason::parse)?;
    let image = state.store.image(&img_id).await?.ok_or_else(|| no_such_image(&name))?;
    let (contents, near_copies) = small_copies::block_hashes(&state, &image).await?;
    state.store.block_picture(&form.admin.operator(), contents, &near_copies, reason.as_str()).await?;
    Ok(Redirect::to(&format!("/console/images/{img_id}?done=block")).into_response())
}

async fn unblock(
    State(state): State<AppState>,
    Path(name): Path<String>,
    form: AdminForm,
) -> Result<Response, ConsoleError> {
    let img_id = img_id_of(&name)?;
    let reason = form.required("reason", Reason::parse)?;
    let operator = form.admin.operator().because(&reason);
    // If the block is gone already, there is nothing to do.
    if let Some(block) = state.store.block_of(&img_id).await? {
        state.store.unblock_picture(&operator, block.contents).await?;
    }
    Ok(Redirect::to(&format!("/console/images/{img_id}?done=unblock")).into_response())
}
