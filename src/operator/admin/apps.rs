//! Apps: what they are, their keys, and what they offer.

use domain::app::{AppLimits, Category};
use domain::fields::Expected;
use domain::ids::{AppId, AppName, OrderNo, PackageVersion, PagePath, PoiId, Reason};
use serde_json::{Value, json};
use store::{AppChange, NewApp};

use super::call::Call;
use super::messages::{app_taken, no_app};
use super::page;
use super::problem::Problem;
use crate::state::AppState;

/// Longest name of an app, note or reason, in bytes.
pub const TEXT_BYTES_MAX: usize = 512;

/// A text for people, in one line.
pub(super) fn line(text: &str) -> Result<String, Expected> {
    if text.len() <= TEXT_BYTES_MAX && !text.contains(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err(Expected::new("at most 512 bytes without control characters"))
    }
}

fn known(found: bool, app_id: &AppId, answer: Value) -> Result<Value, Problem> {
    if found { Ok(answer) } else { Err(no_app(app_id)) }
}

fn texts(ids: &[impl ToString]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

pub(super) async fn list(state: &AppState, call: &Call) -> Result<Value, Problem> {
    let query = call.query(&["limit", "after"])?;
    let (limit, after) = (call.limit()?, query.optional("after", AppId::parse)?);
    let apps = state.store.apps_after(after.as_ref(), limit + 1).await?;
    Ok(page(apps, limit, |app| app.app_id.clone()))
}

pub(super) async fn get(state: &AppState, call: &Call) -> Result<Value, Problem> {
    call.query(&[])?;
    find(state, &call.app_id()?).await
}

async fn find(state: &AppState, app_id: &AppId) -> Result<Value, Problem> {
    let app = state.store.list_apps(Some(app_id)).await?.pop();
    app.map(|app| json!(app)).ok_or_else(|| no_app(app_id))
}

pub(super) async fn create(state: &AppState, call: &Call) -> Result<Value, Problem> {
    let fields = ["app_id", "name", "category", "scopes", "sandbox", "preorder_check"];
    let input = call.input.only(&fields)?;
    let app = NewApp {
        id: input.required("app_id", AppId::parse)?,
        name: input.optional("name", AppName::parse)?.map(|name| name.to_string()).unwrap_or_default(),
        category: input.optional("category", Category::parse)?.unwrap_or_default(),
        scopes: input.list("scopes", scope)?.unwrap_or_default(),
        sandbox: input.flag("sandbox")?.unwrap_or_default(),
        preorder_check: input.flag("preorder_check")?.unwrap_or_default(),
    };
    let app_id = app.id.clone();
    let made = state.store.create_app(&call.operator(&json!({})), app).await?;
    made.map(|secrets| json!(secrets)).ok_or_else(|| app_taken(&app_id))
}

/// Changes what is given of an app, and tells how it stands now.
pub(super) async fn change(state: &AppState, call: &Call) -> Result<Value, Problem> {
    let app_id = call.app_id()?;
    let input = call.input.only(&["name", "category", "scopes", "sandbox", "preorder_check"])?;
    let change = AppChange {
        name: input.optional("name", AppName::parse)?,
        category: input.optional("category", Category::parse)?,
        scopes: input.list("scopes", scope)?,
        sandbox: input.flag("sandbox")?,
        preorder_check: input.flag("preorder_check")?,
    };
    if !state.store.change_settings(&call.operator(&json!({})), &app_id, change).await? {
        return Err(no_app(&app_id));
    }
    find(state, &app_id).await
}

fn scope(text: &str) -> Result<String, Expected> {
    if text == "epay" { Ok(text.to_owned()) } else { Err(Expected::new("epay")) }
}

pub(super) async fn set_limits(state: &AppState, call: &Call) -> Result<Value, Problem> {
    let app_id = call.app_id()?;
    let names = ["exchanges_per_second", "reports_per_second", "uploads_per_second", "tokens_per_second"];
    let input = call.input.only(&names)?;
    let limit = |name: &str| -> Result<Option<u32>, Problem> {
        let limit = input.integer(name, 0, i32::MAX.into())?;
        Ok(limit.and_then(|limit| u32::try_from(limit).ok()))
    };
    let limits = AppLimits {
        exchanges_per_second: limit(names[0])?,
        reports_per_second: limit(names[1])?,
        uploads_per_second: limit(names[2])?,
        tokens_per_second: limit(names[3])?,
    };
    let answer = json!({ "app_id": app_id.as_str(), "limits": limits });
    let found = state.store.set_limits(&call.operator(&answer), &app_id, limits).await?;
    known(found, &app_id, answer)
}

pub(super) async fn suspend(state: &AppState, call: &Call) -> Result<Value, Problem> {
    set_suspended(state, call, true).await
}

pub(super) async fn resume(state: &AppState, call: &Call) -> Result<Value, Problem> {
    set_suspended(state, call, false).await
}

async fn set_suspended(state: &AppState, call: &Call, suspended: bool) -> Result<Value, Problem> {
    let reason = call.input.only(&["reason"])?.optional("reason", Reason::parse)?;
    let app_id = call.app_id()?;
    let answer = json!({ "app_id": app_id.as_str(), "suspended": suspended });
    let operator = call.operator(&answer);
    let operator = reason.map_or(operator.clone(), |reason| operator.because(&reason));
    let found = state.store.set_suspended(&operator, &app_id, suspended).await?;
    known(found, &app_id, answer)
}

pub(super) async fn rotate_pay_key(state: &AppState, call: &Call) -> Result<Value, Problem> {
    call.input.only(&[])?;
    let app_id = call.app_id()?;
    let operator = call.operator(&json!({ "app_id": app_id.as_str() }));
    let pay_key = state.store.rotate_pay_key(&operator, &app_id).await?.ok_or_else(|| no_app(&app_id))?;
    Ok(json!({ "app_id": app_id.as_str(), "pay_key": pay_key }))
}

pub(super) async fn rotate_secret(state: &AppState, call: &Call) -> Result<Value, Problem> {
    call.input.only(&[])?;
    let app_id = call.app_id()?;
    let operator = call.operator(&json!({ "app_id": app_id.as_str() }));
    let app_secret = state.store.rotate_secret(&operator, &app_id).await?.ok_or_else(|| no_app(&app_id))?;
    Ok(json!({ "app_id": app_id.as_str(), "app_secret": app_secret }))
}

pub(super) async fn publish(state: &AppState, call: &Call) -> Result<Value, Problem> {
    let app_id = call.app_id()?;
    let input = call.input.only(&["version", "pages"])?;
    let version = input.required("version", PackageVersion::parse)?;
    let pages = input.required_list("pages", PagePath::parse)?;
    let paths: Vec<&str> = pages.iter().map(PagePath::as_str).collect();
    let answer = json!({ "app_id": app_id.as_str(), "version": version.as_str(), "pages": paths });
    let found = state.store.publish(&call.operator(&answer), &app_id, &version, &pages).await?;
    known(found, &app_id, answer)
}

pub(super) async fn add_pois(state: &AppState, call: &Call) -> Result<Value, Problem> {
    let app_id = call.app_id()?;
    let poi_ids = call.input.only(&["poi_ids"])?.required_list("poi_ids", PoiId::parse)?;
    let answer = json!({ "app_id": app_id.as_str(), "poi_ids": texts(&poi_ids) });
    let found = state.store.add_pois(&call.operator(&answer), &app_id, &poi_ids).await?;
    known(found, &app_id, answer)
}

pub(super) async fn add_preorders(state: &AppState, call: &Call) -> Result<Value, Problem> {
    let app_id = call.app_id()?;
    let numbers = call.input.only(&["out_order_nos"])?.required_list("out_order_nos", OrderNo::parse)?;
    let answer = json!({ "app_id": app_id.as_str(), "out_order_nos": texts(&numbers) });
    let found = state.store.add_preorders(&call.operator(&answer), &app_id, &numbers).await?;
    known(found, &app_id, answer)
}
