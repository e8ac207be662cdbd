//! `minitill demo` creates a sandbox app with all that the four endpoints need, and prints curl commands.

use std::fs;
use std::path::PathBuf;

use domain::app::{App, AppSettings, Scope, TOKEN_LIFETIME};
use domain::app_command::{AppCommand, AppReport, IssuedToken};
use domain::exchange::Balances;
use domain::fields::Fields;
use domain::ids::{AppId, AppName, CreditRef, ImgId, OpenId, PackageVersion, PagePath};
use serde_json::json;
use store::{CommandError, Credit, CreditOutcome, KeepOutcome, Store};

use super::sign::sign;
use super::{Context, Failure, database::Opened};
use crate::operator;

const APP_ID: &str = "demo";
const OPEN_ID: &str = "player-1";
const PAGE: &str = "pages/order/detail";

/// The values in the commands.
struct Scene {
    base: String,
    app: std::sync::Arc<App>,
    access_token: String,
    balances: Balances,
    img_id: ImgId,
    picture: PathBuf,
    picture_url: String,
    now_millis: i64,
}

pub(super) async fn run(context: &Context, opened: &Opened) -> Result<(), Failure> {
    let scene = prepare(context, opened).await?;
    let commands = [
        (
            "exchange",
            "1. Exchange 60 coins for an item. Run it twice: the second answer is a replay.",
            exchange(&scene)?,
        ),
        ("report", "2. Report an order.", report(&scene)),
        ("upload_with_file", "3. Upload a cover image from a file.", upload_with_file(&scene)),
        ("upload_with_url", "4. Upload a cover image from a URL.", upload_with_url(&scene)),
    ];
    let names: serde_json::Map<String, serde_json::Value> =
        commands.iter().map(|(name, _, command)| ((*name).to_owned(), command.clone().into())).collect();
    let value = json!({
        "app_id": APP_ID,
        "open_id": OPEN_ID,
        "access_token": scene.access_token,
        "img_id": scene.img_id.as_str(),
        "free_balance": scene.balances.free(),
        "charge_balance": scene.balances.charge(),
        "commands": names,
    });
    context.output.print(&value, || {
        let heading = format!(
            "The sandbox app \"{APP_ID}\" is ready. Its player {OPEN_ID} has {} gifted and {} charged coins.\n\
             While the server runs, paste these commands:",
            scene.balances.free(),
            scene.balances.charge()
        );
        let mut paragraphs = vec![heading];
        paragraphs.extend(commands.iter().map(|(_, title, command)| format!("# {title}\n{command}")));
        paragraphs.push(format!("To see the result:  minitill wallet statement {APP_ID} {OPEN_ID}"));
        paragraphs.join("\n\n")
    })
}

async fn prepare(context: &Context, opened: &Opened) -> Result<Scene, Failure> {
    let store = &opened.store;
    let now_millis = context.clock.unix_millis();
    let app_id = constant(AppId::parse(APP_ID))?;
    make_app(context, store, &app_id).await?;
    let balances = credit(context, store, &app_id, now_millis).await?;
    let (version, page) = (constant(PackageVersion::parse("1.0.0"))?, constant(PagePath::parse(PAGE))?);
    store.carry_out(&context.operator, &app_id, AppCommand::Publish(version, vec![page])).await?;
    let kept = pictures::keep(operator::DEMO_PICTURE)
        .map_err(|reason| Failure(format!("the picture of the demo: {reason}")))?;
    let KeepOutcome::Kept(img_id) = store.keep_image(&app_id, kept).await? else {
        return Err(Failure::new(
            "the picture of the demo is blocked; to see the reason, run `minitill image list`",
        ));
    };
    let issued = store.carry_out(&context.operator, &app_id, AppCommand::IssueToken(TOKEN_LIFETIME)).await?;
    let AppReport::Token(IssuedToken { access_token, .. }) = issued else {
        return Err(Failure::new("no token was issued"));
    };
    let app = store.find_app(&app_id).await?.ok_or_else(|| Failure::unknown_app(&app_id))?;
    Ok(Scene {
        base: context.config.public.base_url(),
        app,
        access_token,
        balances,
        img_id,
        picture: write_picture(opened)?,
        picture_url: context.config.demo_picture_url(),
        now_millis,
    })
}

/// Creates the app, unless an earlier demo did. An app with other settings is not changed.
async fn make_app(context: &Context, store: &Store, app_id: &AppId) -> Result<(), Failure> {
    let settings = AppSettings {
        name: constant(AppName::parse("Demonstration"))?,
        scopes: vec![Scope::Epay],
        sandbox: true,
        ..AppSettings::default()
    };
    match store.carry_out(&context.operator, app_id, AppCommand::Create(settings)).await {
        Ok(_) | Err(CommandError::Refused(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let summary = store.list_apps(Some(app_id)).await?.pop();
    match summary {
        Some(summary) if summary.settings.sandbox && !summary.suspended => Ok(()),
        Some(_) | None => {
            Err(Failure(format!("the app {app_id} exists, but it is suspended or not a sandbox app")))
        }
    }
}

async fn credit(
    context: &Context,
    store: &Store,
    app_id: &AppId,
    now_millis: i64,
) -> Result<Balances, Failure> {
    let credit = Credit {
        open_id: constant(OpenId::parse(OPEN_ID))?,
        free: 40,
        charge: 100,
        reference: constant(CreditRef::parse(&format!("demo-{now_millis}")))?,
        note: "minitill demo".to_owned(),
    };
    match store.credit(&context.operator, app_id, credit).await? {
        CreditOutcome::Done { balances, .. } => Ok(balances),
        CreditOutcome::RefConflict | CreditOutcome::OutOfRange | CreditOutcome::UnknownApp => {
            Err(Failure::new("the player of the demo could not be credited"))
        }
    }
}

/// Unwraps a constant of this file, which is always valid.
fn constant<T>(parsed: Result<T, domain::fields::Expected>) -> Result<T, Failure> {
    parsed.map_err(|expected| Failure(format!("the demo has an invalid constant: expected {}", expected.0)))
}

fn write_picture(opened: &Opened) -> Result<PathBuf, Failure> {
    let path = opened.folder.join("demo-cover.png");
    fs::create_dir_all(&opened.folder)?;
    fs::write(&path, operator::DEMO_PICTURE)
        .map_err(|error| Failure(format!("{}: {error}", path.display())))?;
    Ok(path)
}

fn exchange(scene: &Scene) -> Result<String, Failure> {
    let mut fields = Fields::default();
    for (name, value) in [
        ("access_token", scene.access_token.as_str()),
        ("open_id", OPEN_ID),
        ("app_id", APP_ID),
        ("zone_id", "zone1_role1"),
        ("os", "android"),
        ("ts", &scene.now_millis.to_string()),
        ("user_ip", "203.0.113.7"),
        ("amount", "60"),
        ("pay_priority", "1"),
        ("biz_no", &format!("demo{}", scene.now_millis)),
        ("product_name", "Double-up card"),
        ("product_info", r#"[{"product_id":1001,"product_num":1,"product_type":0}]"#),
        ("product_desc", "A demonstration"),
        ("extension", ""),
    ] {
        fields.add_text(name.to_owned(), value.to_owned()).map_err(|error| Failure(error.to_string()))?;
    }
    let key = scene.app.live_pay_keys.first().ok_or_else(|| Failure::new("the demo app has no pay key"))?;
    let body = sign(key, &fields).body;
    Ok(format!("curl -sS -i -w '\\n' '{}/api/kpay/minigame/pay' \\\n  --data '{body}'", scene.base))
}

fn report(scene: &Scene) -> String {
    let number = format!("order{}", scene.now_millis);
    let body = json!({
        "out_biz_order_no": number,
        "out_order_no": number,
        "open_id": OPEN_ID,
        "order_create_time": scene.now_millis,
        "order_status": 2,
        "order_path": format!("{PAGE}?id={number}"),
        "order_backup_url": "https://shop.example/orders",
        "product_cover_img_id": scene.img_id.as_str(),
    });
    format!(
        "curl -sS -w '\\n' '{}' \\\n  -H 'content-type: application/json' \\\n  --data '{body}'",
        open_url(scene, "order/v1/report")
    )
}

fn upload_with_file(scene: &Scene) -> String {
    format!(
        "curl -sS -w '\\n' '{}' \\\n  -F 'file=@{}'",
        open_url(scene, "file/img/uploadWithFile"),
        scene.picture.display()
    )
}

fn upload_with_url(scene: &Scene) -> String {
    let url = open_url(scene, "file/img/uploadWithUrl");
    format!("curl -sS -w '\\n' -G -X POST '{url}' \\\n  --data-urlencode 'url={}'", scene.picture_url)
}

fn open_url(scene: &Scene, path: &str) -> String {
    format!("{}/openapi/mp/developer/{path}?app_id={APP_ID}&access_token={}", scene.base, scene.access_token)
}
