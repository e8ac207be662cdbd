//! `minitill demo` creates a sandbox app with all that the calls need, and prints curl commands.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use domain::app::{App, AppSettings, Scope, TOKEN_LIFETIME};
use domain::examples::USER_IP;
use domain::fields::Fields;
use domain::ids::{AppId, AppName, CreditRef, ImgId, OpenId, PackageVersion, PagePath};
use domain::operation::app::{AppCommand, AppReport, IssuedToken};
use domain::operation::wallet::{ChangedPurses, Credit, WalletReport};
use domain::signature::SignedRequest;
use domain::wallet::WalletCall;
use serde_json::{Map, json};
use store::{KeepOutcome, OperationError, Store};

use super::database::Opened;
use super::running::Addresses;
use super::{Context, app, not_done, unknown_app};
use crate::config::DEMO_PICTURE_PATH;
use crate::operator;

const APP_ID: &str = "demo";
const OPEN_ID: &str = "player-1";
const PAGE: &str = "pages/order/detail";
/// Why the values of the demo parse.
const VALID: &str = "the constants of this file are valid";

/// The values in the commands.
struct Scene {
    base: String,
    app: std::sync::Arc<App>,
    access_token: String,
    purses: ChangedPurses,
    img_id: ImgId,
    picture: PathBuf,
    picture_url: String,
    now_millis: i64,
}

impl Scene {
    /// An order number of this demonstration.
    fn number(&self, word: &str) -> String {
        format!("{word}{}", self.now_millis)
    }
}

pub(super) async fn run(context: &Context, opened: &Opened) -> Result<()> {
    let scene = prepare(context, opened).await?;
    let commands = [
        (
            "exchange",
            "1. Exchange 60 coins for an item. Run it twice: the second answer is a replay.",
            exchange(&scene)?,
        ),
        ("balance", "2. Look at both purses.", wallet_call(&scene, WalletCall::Balance, &[])?),
        ("present", "3. Give 10 gifted coins.", present(&scene)?),
        ("cancel", "4. Give back 30 coins of the exchange.", cancel(&scene)?),
        ("query", "5. Ask what became of the exchange.", query(&scene)?),
        ("report", "6. Report an order.", report(&scene)),
        ("upload_with_file", "7. Upload a cover image from a file.", upload_with_file(&scene)),
        ("upload_with_url", "8. Upload a cover image from a URL.", upload_with_url(&scene)),
        ("login", "9. Log a player in, by a name that only a sandbox app takes.", login(&scene)?),
    ];
    let (free, charge) = (scene.purses.free_balance, scene.purses.charge_balance);
    let names: Map<_, _> =
        commands.iter().map(|(name, _, command)| ((*name).to_owned(), json!(command))).collect();
    let value = json!({
        "app_id": APP_ID,
        "open_id": OPEN_ID,
        "access_token": scene.access_token,
        "img_id": scene.img_id,
        "free_balance": free,
        "charge_balance": charge,
        "commands": names,
    });
    let titled = commands.each_ref().map(|(_, title, command)| format!("# {title}\n{command}\n\n")).concat();
    let text = format!(
        "The sandbox app \"{APP_ID}\" is ready. Its player {OPEN_ID} has {free} gifted and {charge} charged coins.\n\
         While the server runs, paste these commands:\n\n\
         {titled}To see the result:  minitill wallet statement {APP_ID} {OPEN_ID}"
    );
    context.output.print(&value, text)
}

async fn prepare(context: &Context, opened: &Opened) -> Result<Scene> {
    let store = &opened.store;
    let now_millis = context.clock.unix_millis();
    let app_id = AppId::parse(APP_ID).expect(VALID);
    make_app(context, store, &app_id).await?;
    let credit = Credit {
        open_id: OpenId::parse(OPEN_ID).expect(VALID),
        free: 40,
        charge: 100,
        reference: CreditRef::parse(&format!("demo-{now_millis}")).expect(VALID),
        note: "minitill demo".to_owned(),
        create: true,
    };
    let report = store.change_wallet(&context.operator, &app_id, credit).await.map_err(not_done)?;
    let WalletReport::Changed(purses) = report else { bail!("the player of the demo was not credited") };
    let (version, page) = (PackageVersion::parse("1.0.0").expect(VALID), PagePath::parse(PAGE).expect(VALID));
    app::command(context, store, &app_id, AppCommand::Publish(version, vec![page])).await?;
    let kept = pictures::keep(operator::DEMO_PICTURE)
        .map_err(|reason| anyhow!("the picture of the demo: {reason}"))?;
    let KeepOutcome::Kept(img_id) =
        store.keep_image(&app_id, kept, context.config.limits.image_quotas()).await?
    else {
        bail!("the picture of the demo is blocked; to see the reason, run `minitill image list`");
    };
    let issued = app::command(context, store, &app_id, AppCommand::IssueToken(TOKEN_LIFETIME)).await?;
    let AppReport::Token(IssuedToken { access_token, .. }) = issued else { bail!("no token was issued") };
    let app = store.find_app(&app_id).await?.ok_or_else(|| unknown_app(&app_id))?;
    let addresses = Addresses::find(&opened.folder, &context.config).await;
    Ok(Scene {
        base: addresses.public,
        app,
        access_token,
        purses,
        img_id,
        picture: write_picture(opened)?,
        picture_url: addresses.operator + DEMO_PICTURE_PATH,
        now_millis,
    })
}

/// Creates the app, unless an earlier demo did. An app with other settings is not changed.
async fn make_app(context: &Context, store: &Store, app_id: &AppId) -> Result<()> {
    let settings = AppSettings {
        name: AppName::parse("Demonstration").expect(VALID),
        scopes: Scope::ALL.to_vec(),
        sandbox: true,
        ..AppSettings::default()
    };
    let made = store.carry_out(&context.operator, app_id, AppCommand::Create(settings)).await;
    if let Err(OperationError::Store(error)) = made {
        return Err(error.into());
    }
    let app = store.list_apps(Some(app_id)).await?.pop();
    let is_usable = app.is_some_and(|app| app.settings.sandbox && !app.suspended);
    ensure!(is_usable, "the app {app_id} exists, but it is suspended or not a sandbox app");
    Ok(())
}

fn write_picture(opened: &Opened) -> Result<PathBuf> {
    let path = opened.folder.join("demo-cover.png");
    fs::create_dir_all(&opened.folder)?;
    fs::write(&path, operator::DEMO_PICTURE).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    Ok(path)
}

/// A signed call, with these fields besides those that all calls have.
fn wallet_call(scene: &Scene, call: WalletCall, own: &[(&str, &str)]) -> Result<String> {
    let ts = scene.now_millis.to_string();
    let common = [
        ("access_token", scene.access_token.as_str()),
        ("open_id", OPEN_ID),
        ("app_id", APP_ID),
        ("zone_id", "zone1_role1"),
        ("os", "android"),
        ("ts", &ts),
        ("user_ip", USER_IP),
    ];
    let mut fields = Fields::default();
    let common = common.into_iter().filter(|(name, _)| *name == "access_token" || call.signs(name));
    for (name, value) in common.chain(own.iter().copied()) {
        fields.add_text(name.to_owned(), value.to_owned())?;
    }
    let key = scene.app.live_pay_keys.first().context("the demo app has no pay key")?;
    let (body, segment) = (SignedRequest::of(key, &fields).body, call.segment());
    Ok(format!("curl -sS -i -w '\\n' '{}/api/kpay/minigame/{segment}' \\\n  --data '{body}'", scene.base))
}

fn exchange(scene: &Scene) -> Result<String> {
    let own = [
        ("amount", "60"),
        ("pay_priority", "1"),
        ("biz_no", &*scene.number("demo")),
        ("product_name", "Double-up card"),
        ("product_info", r#"[{"product_id":1001,"product_num":1,"product_type":0}]"#),
        ("product_desc", "A demonstration"),
        ("extension", ""),
    ];
    wallet_call(scene, WalletCall::Exchange, &own)
}

fn present(scene: &Scene) -> Result<String> {
    wallet_call(scene, WalletCall::Present, &[("amount", "10"), ("biz_no", &*scene.number("present"))])
}

fn cancel(scene: &Scene) -> Result<String> {
    let (number, exchange) = (scene.number("cancel"), scene.number("demo"));
    let own = [("amount", "30"), ("biz_no", &*number), ("pay_biz_no", &*exchange)];
    wallet_call(scene, WalletCall::Cancel, &own)
}

fn query(scene: &Scene) -> Result<String> {
    wallet_call(scene, WalletCall::Query, &[("biz_no", &*scene.number("demo"))])
}

fn report(scene: &Scene) -> String {
    let number = scene.number("order");
    let body = json!({
        "out_biz_order_no": number,
        "out_order_no": number,
        "open_id": OPEN_ID,
        "order_create_time": scene.now_millis,
        "order_status": 2,
        "order_path": format!("{PAGE}?id={number}"),
        "order_backup_url": "https://shop.example/orders",
        "product_cover_img_id": scene.img_id,
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

fn login(scene: &Scene) -> Result<String> {
    let app_secret = scene.app.app_secrets.first().context("the demo app has no app secret")?.expose();
    let body = format!("app_id={APP_ID}&app_secret={app_secret}&js_code=sandbox-alice");
    Ok(format!("curl -sS -w '\\n' '{}/game/minigame/jscode2session' \\\n  --data '{body}'", scene.base))
}

fn open_url(scene: &Scene, path: &str) -> String {
    format!("{}/openapi/mp/developer/{path}?app_id={APP_ID}&access_token={}", scene.base, scene.access_token)
}
